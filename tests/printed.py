"""Comparing printed output: text to the letter, numbers up to rounding.

Processors differ in the last bits of a sum, so output that documentation shows cannot be compared digit by
digit. Whole numbers are compared exactly: they count things. A number with decimals or an exponent may be off
by one in its last printed digit, or by a millionth of itself, whichever is more.
"""

from __future__ import annotations

import doctest
import re
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
RELATIVE = Decimal("1e-6")

# Digits that are part of a name (x0) or of a version (0.1.0) are text; so is the hyphen of 2012-2015.
_NUMBER = re.compile(r"(?<![\w.])(?:(?<!\))[-+−])?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w|\.\d)")
_RULE = re.compile(r"([─━═=-])\1{3,}")  # the rule of a table is as wide as its numbers


class Number(NamedTuple):
    """A printed number; `step` is one unit of its last digit."""

    value: Decimal
    step: Decimal
    whole: bool


Token = str | Number


class OutputChecker(doctest.OutputChecker):
    """Doctest's own checker, with a tolerance for numbers."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether `got` is what the documentation shows."""
        if super().check_output(want, got, optionflags):
            return True
        if optionflags & doctest.NORMALIZE_WHITESPACE:
            want = want.replace(doctest.BLANKLINE_MARKER, "")
            want, got = (" ".join(_RULE.sub(r"\1", text).split()) for text in (want, got))
        parts = want.split(doctest.ELLIPSIS_MARKER) if optionflags & doctest.ELLIPSIS else [want]
        return _matches([_tokens(part) for part in parts], _tokens(got))


def run_doctest(test: doctest.DocTest) -> tuple[doctest.TestResults, str]:
    """Run a doctest with this checker; its outcome and the report of what failed. Its names are kept."""
    report: list[str] = []
    runner = doctest.DocTestRunner(checker=OutputChecker(), optionflags=FLAGS)
    return runner.run(test, out=report.append, clear_globs=False), "".join(report)


def same_output(want: str, got: str) -> bool:
    """Whether a command or a script prints what the documentation shows."""
    return OutputChecker().check_output(want, got, FLAGS)


def without_compilation(output: str) -> str:
    """What a command prints but for the word on compilation, which depends on what has run before."""
    return re.sub(r"^Compiling, once.*\n|^[\d:]+ compiling.*\n", "", output, flags=re.M)


def _tokens(text: str) -> list[Token]:
    """The characters of a text, with each number as one token."""
    found = [(match.start(), match.end()) for match in _NUMBER.finditer(text)]
    bounds = [0, *(place for span in found for place in span), len(text)]
    pieces: list[Token] = []
    for k, (start, end) in enumerate(pairwise(bounds)):
        pieces += [_number(text[start:end])] if k % 2 else text[start:end]
    return pieces


def _number(text: str) -> Number:
    value = Decimal(text.replace("−", "-"))
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return Number(value, Decimal(1).scaleb(exponent), text.lstrip("-+−").isdigit())


def _same(want: Token, got: Token) -> bool:
    if isinstance(want, str) or isinstance(got, str):
        return want == got
    if want.whole and got.whole:
        return want.value == got.value
    if want.whole != got.whole and (want.value == got.value or not want.value * got.value):
        return False  # 1 and 0.9999 may come from one format; 3 and 3.0, or 0 and 1e-06, do not
    # Formats drop trailing zeros (0.0773 for 0.07730): the finer of the two steps is that of the format.
    step = min(want.step, got.step)
    return abs(want.value - got.value) <= max(step, RELATIVE * abs(want.value))


def _starts(part: list[Token], got: list[Token], place: int) -> bool:
    there = got[place : place + len(part)]
    return len(there) == len(part) and all(map(_same, part, there))


def _matches(parts: list[list[Token]], got: list[Token]) -> bool:
    """Whether the parts occur in order, the first at the start and the last at the end, anything between."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return len(first) == len(got) and _starts(first, got, 0)
    end = len(got) - len(last)
    place = len(first)
    if place > end or not _starts(first, got, 0) or not _starts(last, got, end):
        return False
    for part in parts[1:-1]:
        place = next((k for k in range(place, end - len(part) + 1) if _starts(part, got, k)), end + 1)
        place += len(part)
    return place <= end
