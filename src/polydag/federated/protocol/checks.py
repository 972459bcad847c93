"""Whether the arrays in a message are as expected and in range, before anything is done with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from polydag.federated.protocol.messages import AnyArray, Arrays
from polydag.federated.protocol.programs import Ask, Shapes, State

_TINY = 1e-30
_LOG_LARGEST = 70.0
ADJUSTMENT = "adjustment"
_LANES = "l"  # the letter of the axis of penalties
LARGEST = 1e30  # of any number that a question brings, in whatever units
RANGES: Mapping[str, tuple[float, float]] = {
    # Steps and penalties. Negative ones would bring a resolvent (S + ρ)⁻¹ near its poles, where one site's
    # eigenvalue outweighs the sum of all the others'.
    "rho": (1e-15, 1e20),
    "tau": (1e-15, 1e20),
    "relax": (1.0, 2.0),
    "lambdas": (0.0, 1e20),
    "ridge": (0.0, math.inf),
    # Constants of a study.
    "rows": (0.0, 1e15),
    "mass": (0.0, 1e15),
    "scale": (_TINY, LARGEST),
    "error": (_TINY, LARGEST),
    "group": (0, 1e6),
    "seed": (0, 2**63),
    "targets": (0, 1e6),
    "pairs": (0, 1),
    "parents": (0, 1),
    "adjacency": (0, 1),
    "forbidden": (0, 1),
    # Parameters and places in the data, in whatever units.
    "W": (-LARGEST, LARGEST),
    "weights": (-LARGEST, LARGEST),
    "centre": (-LARGEST, LARGEST),
    "reference": (-LARGEST, LARGEST),
    ADJUSTMENT: (-_LOG_LARGEST, _LOG_LARGEST),
    # Differential privacy.
    "multiplier": (0.01, 1e6),
    "radius": (1e-3, 1e6),
    "max_norm": (1e-6, 1e12),
    "transform": (-LARGEST, LARGEST),
    "residual": (-LARGEST, LARGEST),
}
"""The range of every field of every question; those that a method of one's own adds hold numbers up to
`LARGEST`."""


class Task(NamedTuple):
    """A question that a site knows: the function that answers it, and what must accompany it.

    A shape is a word with one letter per axis, `d` for the columns; a letter stands for the same length
    wherever it occurs. Arrays in `once` may be left out where the site has kept them.
    """

    answer: Callable[[State, Ask], tuple[State, Arrays]]
    arrays: Mapping[str, str] = {}
    meta: tuple[str, ...] = ()
    once: Mapping[str, str] = {}


def reply_problem(arrays: Arrays, expected: Shapes) -> str | None:
    """Why arrays are not those that were requested, or not numbers; None where they can be added up."""
    if why := not_numbers(arrays):
        return why
    found = {name: array.shape for name, array in arrays.items()}
    return None if found == dict(expected) else f"it holds {found} instead of {dict(expected)}"


def not_numbers(arrays: Arrays, infinite: Collection[str] = ()) -> str | None:
    """The first entry that is not a finite number; arrays in `infinite` may hold infinity."""
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            return f"{name} holds {array.dtype}, not numbers"
        bad = np.isnan(array) if name in infinite else ~np.isfinite(array)
        if bad.any():
            where = ", ".join(map(str, np.argwhere(bad)[0]))
            return f"{name}[{where}] is {array[bad][0]}"
    return None


def out_of_range(ask: Ask, ranges: Mapping[str, tuple[float, float]] = RANGES) -> str | None:
    """The first field of a question that is outside its range."""
    for name, array in ask.arrays.items():
        low, high = ranges.get(name, (-LARGEST, LARGEST))
        if array.size and not (array.min() >= low and array.max() <= high):
            return f"{name} lies outside {low:g} to {high:g}"
        if name == ADJUSTMENT and (why := _adjustment_problem(array)):
            return f"{name} {why}"
    for name, value in ask.meta.items():
        if name in ranges and (why := _number_problem(value, *ranges[name])):
            return f"{name} {why}"
    return None


def _adjustment_problem(array: AnyArray) -> str | None:
    """Why an adjustment of a party's rows is none: a correlation, a divisor, and logarithms of scales.

    A correlation outside 0 to 1 would give the weight of a party's mean a pole, at a number of rows that the
    coordinator chooses.
    """
    if array.ndim != 1 or len(array) < 2:
        return "has no correlation and divisor"
    correlation, divisor, scales = array[0], array[1], array[2:]
    if (
        not 0 <= correlation <= 1
        or divisor not in (0, 1, 2)
        or np.abs(scales).max(initial=0.0) > _LOG_LARGEST
    ):
        return "is out of range"
    return None


def _number_problem(value: Any, low: float, high: float) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "is not a number"
    return None if low <= value <= high else f"lies outside {low:g} to {high:g}"


def question_problem(
    task: Task, state: State, ask: Ask, sizes: Mapping[str, int], infinite: Collection[str] = ()
) -> str | None:
    """Why a question cannot be answered as it arrived; `sizes` are the lengths that the site knows."""
    if lacking := [name for name in task.meta if name not in ask.meta]:
        return f"the question lacks {lacking[0]}"
    if why := not_numbers(ask.arrays, infinite) or out_of_range(ask):
        return why
    known = dict(sizes)
    kept = {name: state[name] for name in task.once if name in state}
    for name, letters in {**task.arrays, **task.once}.items():
        found = ask.arrays.get(name, kept.get(name))
        if found is None:
            return f"the question lacks {name}"
        shape = found.shape
        fits = len(shape) == len(letters)
        if not fits or any(known.setdefault(at, n) != n for at, n in zip(letters, shape, strict=True)):
            return f"{name} of shape {shape} does not fit"
        if _LANES in letters and not shape[letters.index(_LANES)]:
            return f"{name} holds no penalty"
    return _labels_problem(ask, sizes.get("d", 0))


def _labels_problem(ask: Ask, d: int) -> str | None:
    """Why columns or groups of columns are not whole numbers below d; groups are counted without gaps."""
    for name in ("group", "targets"):
        labels = ask.arrays.get(name)
        if labels is None or not labels.size:
            continue
        if labels.dtype.kind != "i" or labels.max() >= d:
            return f"{name} does not hold numbers of columns"
        if name == "group" and len(np.unique(labels)) != labels.max() + 1:
            return "group leaves out a number"
    return None
