"""The checker of printed output: rounding passes, other numbers and other text do not."""

from __future__ import annotations

import doctest
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from printed import run_doctest, same_output

numbers = st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6)
digits = st.integers(1, 15)


@given(numbers, digits, st.integers(-64, 64))
def test_the_last_bits_change_nothing(weight: float, n: int, steps: int) -> None:
    other = weight * (1 + steps * sys.float_info.epsilon)
    for form in (f".{n}f", f".{n}e"):
        assert same_output(f"x0 -> x1 {weight:{form}},\n", f"x0 -> x1 {other:{form}},\n")
    assert same_output(repr(weight), repr(other))


@given(numbers, st.integers(3, 15), st.floats(2.1e-2, 1.0), st.sampled_from([-1, 1]))
def test_other_numbers_fail(weight: float, n: int, change: float, sign: int) -> None:
    assert not same_output(f"weight {weight:.{n}e}", f"weight {weight * (1 + sign * change):.{n}e}")


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_counts_are_exact(count: int, more: int) -> None:
    assert not same_output(f"{count} edges.", f"{count + more} edges.")
    assert not same_output(f"(7, {count})", f"(7, {count + more})")


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("mean 0.0773", "mean 0.07731"),  # %.4g drops the zero of 0.07730
        ("sd 1", "sd 0.9999"),
        ("1e-05", "9.999e-06"),
        ("-0.00", "0.00"),
        ("[0.50, −0.25]", "[0.50,\n −0.26]"),
        (" from   weight\n ──────────────\n x0     1.007", " from   weight\n ───────────────\n x0    1.006"),
        ("notears: ...\nscore 1.25", "notears: 7 edges, 0.3\nscore 1.24"),
        ("a ... b 0.50 ... c", "a b 0.4 b 0.51 and c"),
        ("...", "anything 1.5"),
        ("1.5\n<BLANKLINE>\n2.5", "1.5\n\n2.4"),
    ],
)
def test_same(want: str, got: str) -> None:
    assert same_output(want, got)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("x0 0.5", "x1 0.5"),  # a digit of a name
        ("polydag 0.1.0", "polydag 0.1.1"),  # a version
        ("0.50 edges", "0.50 edge"),
        ("0.50", "0.52"),
        ("0.123456", "0.123459"),
        ("1.1303072372266458", "1.1303092372266458"),
        ("-0.5", "0.5"),
        ("n 3", "n 3.0"),
        ("3", "3.4"),
        ("1e-06", "0"),
        ("3 edges", "4 edges"),
        ("1.5 2.5", "1.5"),
        ("1.5", "1.5 2.5"),
        ("(0.5, 0.25)", "(0.5; 0.25)"),
        ("nan", "0.5"),
        ("a ... b 0.50", "a x b 0.70"),
        ("a ... a", "a"),
        ("", "0.5"),
    ],
)
def test_different(want: str, got: str) -> None:
    assert not same_output(want, got)


@given(numbers, numbers)
def test_ellipses_hide_only_what_they_stand_for(hidden: float, shown: float) -> None:
    assert same_output("edges ... weight 1.25", f"edges {hidden} and {shown} weight 1.25")
    assert not same_output("edges ... weight 1.25", f"edges {hidden} weight 1.5 {shown}")


@pytest.mark.parametrize(("printed", "failed"), [("0.30000000000000002", 0), ("0.3001", 1), ("0.3 m", 1)])
def test_doctests_are_compared_by_it(printed: str, failed: int) -> None:
    test = doctest.DocTestParser().get_doctest(f">>> 0.1 + 0.2\n{printed}\n", {}, "sum", None, 0)
    results, report = run_doctest(test)
    assert results.failed == failed
    assert bool(report) == bool(failed)
