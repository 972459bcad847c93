"""Which structure explains the rows best: the likelihood of columns that took no part in the estimate.

The columns are put in a random order. Each candidate is fitted to the first two thirds and judged by the
restricted likelihood of the rest, given those before them; of few columns every third is held out in turn.
Where dependence is left in the whitened columns of the best one, one entry of Θ for each link is tried as
well. Of the candidates that are within one standard error of the best, the simplest is taken (Breiman et al.
1984): a difference that small may turn over with the columns, or with the rounding of another processor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.structures.interface import Fitted, Structure

_TRAINING = 2 / 3
_FEW = 12  # columns; so few are held out in turn
_MOST = 20.0  # of the deviance that a single column can say for or against a structure
_CLEARLY = 2.0  # a structure with more parameters has to be better by at least this much of the deviance


class Candidate(NamedTuple):
    """A structure and the deviances of the held-out columns under its estimate; lower is better."""

    structure: Structure
    deviances: Array

    @property
    def deviance(self) -> float:
        """That of all held-out columns."""
        return float(self.deviances.sum())


def held_out_orders(columns: Columns) -> list[Columns]:
    """The columns in orders whose last third is held out: each column once where they are few."""
    p = columns.X.shape[1]
    if not 2 < p <= _FEW or columns.parents is not None:
        return [columns]
    step = p - round(_TRAINING * p)
    return [
        columns
        if turn == 0
        else replace(columns, X=np.ascontiguousarray(np.roll(columns.X, turn * step, axis=1)))
        for turn in range(-(-p // step))
    ]


def by_held_out_columns(structures: Sequence[Structure], orders: Sequence[Columns]) -> list[Candidate]:
    """All structures with their held-out deviances, in the given order."""
    p = orders[0].X.shape[1]
    scored = np.arange(p) < max(1, round(_TRAINING * p))
    judged = ~scored if p > 1 else scored
    found = []
    for structure in structures:
        fits = ((columns, structure.fit(columns, scored)) for columns in orders)
        deviances = [columns.deviances(fit.whitening)[judged] for columns, fit in fits]
        found.append(Candidate(structure, np.concatenate(deviances)))
    return found


def best(candidates: Sequence[Candidate]) -> Candidate:
    """The first candidate, of those sorted from simple to complex, that is not clearly worse than the best.

    Clearly is by a fixed amount of the deviance, and by one standard error of the difference over the
    held-out columns. A single column speaks with a limited voice: one that groups share almost wholly would
    otherwise make any difference look uncertain.
    """
    lowest = min(candidates, key=lambda each: each.deviance)
    return next(each for each in candidates if not _clearly_worse(each, lowest))


def _clearly_worse(one: Candidate, other: Candidate) -> bool:
    differences = np.clip(one.deviances - other.deviances, -_MOST, _MOST)
    error = np.sqrt(len(differences)) * differences.std(ddof=1) if len(differences) > 1 else 0.0
    return bool(differences.sum() > max(_CLEARLY, error))


class Choice(NamedTuple):
    """The chosen structure, its estimate from all columns, and all candidates."""

    structure: Structure
    fitted: Fitted
    candidates: list[Candidate]


def choose(
    simple: Sequence[Structure],
    free: Sequence[Structure],
    columns: Columns,
    is_enough: Callable[[Fitted, float], bool],
) -> Choice:
    """The best of the simple structures, or of the free ones where it is not enough and they do better."""
    p = columns.X.shape[1]
    every = np.ones(p, dtype=bool)
    orders = held_out_orders(columns)
    candidates = by_held_out_columns(simple, orders)
    simplest = best(candidates)
    chosen = simplest.structure
    fitted = chosen.fit(columns, every)
    if free and not is_enough(fitted, candidates[0].deviance - simplest.deviance):
        further = by_held_out_columns(free, orders)
        chosen = best([*candidates, *further]).structure
        if chosen is not simplest.structure:  # a free one, or one that is level with these
            fitted = chosen.fit(columns, every)
        candidates = [*candidates, *further]
    return Choice(chosen, fitted, candidates)
