"""Whether the arrays in a message are as expected, before anything is done with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np

from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, Shapes, State


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


def question_problem(
    task: Task, state: State, ask: Ask, sizes: Mapping[str, int], infinite: Collection[str] = ()
) -> str | None:
    """Why a question cannot be answered as it arrived; `sizes` are the lengths that the site knows."""
    if lacking := [name for name in task.meta if name not in ask.meta]:
        return f"the question lacks {lacking[0]}"
    if why := not_numbers(ask.arrays, infinite):
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
    return None
