"""Constraints and settings groups: what they accept, what they say, and scikit-learn's nested parameters."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from polydag.errors import UsageError
from polydag.learners.base import Estimator
from polydag.parameters import Either, Settings, check, key_of, number, one_of, optional, setting, whole


@dataclass(frozen=True)
class Size(Settings):
    width: float = setting(1.0, number(above=0))
    count: int = setting(3, whole(least=1))
    word: str = setting("one", one_of("one", "two"))


class Thing(Estimator):
    constraints = {"alpha": number(least=0, most=1)}  # noqa: RUF012

    def __init__(self, alpha: float = 0.5, size: Size = Size()) -> None:  # noqa: B008
        self.alpha = alpha
        self.size = size

    def fit(self) -> Self:
        self._check_parameters()
        return self


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_number_is_finite_and_within_its_bounds(value: float) -> None:
    assert number(least=-1, most=2).accepts(value) == (-1 <= value <= 2)
    assert number(above=0).accepts(value) == (0 < value < np.inf)


@pytest.mark.parametrize("value", [True, "1", None, 1j, [1], np.nan])
def test_what_is_not_a_number(value: Any) -> None:
    assert not number().accepts(value)
    assert not whole().accepts(value)


def test_whole_numbers() -> None:
    assert whole(least=1).accepts(np.int64(1))
    assert not whole(least=1).accepts(1.0)
    assert not whole(least=1).accepts(0)


def test_the_message_names_parameter_expectation_and_value() -> None:
    with pytest.raises(UsageError, match=r"^alpha must be a number at least 0 and at most 1; got 2\.$"):
        Thing(alpha=2).fit()
    with pytest.raises(UsageError, match=r"^word must be one of one, two; got 'three'\.$"):
        Size(word="three")
    either = Either(number(above=0), one_of("auto"))
    with pytest.raises(UsageError, match=r"^penalty must be a number above 0 or 'auto'; got 'bic'\.$"):
        check("penalty", "bic", either)
    assert optional(either).accepts(None)


def test_a_registry_is_consulted_when_the_parameter_is_checked() -> None:
    registry = {"expm": 1}
    constraint = key_of(registry)
    with pytest.raises(UsageError, match=r"^acyclicity must be one of expm; got 'mine'\.$"):
        check("acyclicity", "mine", constraint)
    registry["mine"] = 2
    check("acyclicity", "mine", constraint)
    assert not constraint.accepts(["mine"])


def test_settings_are_frozen_and_checked_when_changed() -> None:
    size = Size()
    with pytest.raises(dataclasses.FrozenInstanceError):
        size.width = 2.0  # type: ignore[misc]
    with pytest.raises(UsageError, match="count must be a whole number at least 1; got 0"):
        size.replaced(count=0)
    with pytest.raises(ValueError, match="Size has no setting 'depth'; its settings are width, count, word"):
        size.replaced(depth=1)


def test_nested_parameters_as_in_scikit_learn() -> None:
    thing = Thing(size=Size(width=2.0))
    assert thing.get_params()["size__width"] == 2.0
    copied = clone(thing).set_params(size__width=3.0, alpha=0.25)
    assert (copied.size.width, copied.alpha, thing.size.width) == (3.0, 0.25, 2.0)
    both = thing.set_params(size=Size(count=9), size__width=4.0)
    assert (both.size.count, both.size.width) == (9, 4.0)
    with pytest.raises(ValueError, match="no setting 'nothing'"):
        thing.set_params(size__nothing=1)
    with pytest.raises(ValueError, match="Invalid parameter 'beta'"):
        thing.set_params(beta=1)
