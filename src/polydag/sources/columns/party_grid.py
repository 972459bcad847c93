"""How values are distributed over parties: counts on a common grid, summed under masks.

The first round counts values between powers of two, which suit any units. Further ones, at most four, divide
each cell by the share of rows that it has, until none has many. From such a grid follow the normal scores of
ranks, and quantiles at which numbers are cut into levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.stats import DiscreteCounts
from polydag.stats.discrete import counted

CELLS = 256  # into which the values are divided in a round, about
_MOST = 4 / CELLS  # the share of the values that a cell may have
_ROUNDS = 5  # cells whose values are all equal cannot be divided
_POWERS = np.arange(-60, 61)
Ask = Callable[[Mapping[str, DiscreteCounts]], list[Array]]


class Grid(NamedTuple):
    """Cells between `edges` (m + 1,) and how many values of all parties each has, `counts` (m,)."""

    edges: Array
    counts: Array


def pooled_grids(values: Mapping[str, Mapping[str, Array]], ask: Ask) -> dict[str, Grid]:
    """The grid of each column over all parties.

    Parameters
    ----------
    values : mapping of party to columns
        The values of each column at each party; NaN where missing.
    ask : callable
        The summed table of each column of the parties' counts.
    """
    names = list(next(iter(values.values())))
    edges = dict.fromkeys(names, _powers_of_two())
    for _ in range(_ROUNDS):
        counts = _summed(values, edges, ask)
        grids = {name: Grid(edges[name], counts[name]) for name in names}
        for name, grid in grids.items():
            if not grid.counts.sum():
                raise DataError(f"Column {name} has no values at any party.")
        if all(grid.counts.max() <= _MOST * grid.counts.sum() for grid in grids.values()):
            break
        edges = {name: _divided(grid) for name, grid in grids.items()}
    return grids


def normal_scores(values: Array, grid: Grid) -> Array:
    """The normal scores of the mean rank of each value's cell; missing values stay missing."""
    n = grid.counts.sum()
    rank = np.cumsum(grid.counts) - grid.counts + (grid.counts + 1) / 2
    score = ndtri(rank / (n + 1))
    where = np.clip(_cell(values, grid.edges), 0, len(score) - 1)
    return np.where(np.isnan(values), np.nan, score[where])


def cuts(grid: Grid, rule: str, levels: int) -> tuple[Array, float, float]:
    """Where numbers are cut into levels, to within a cell of the grid; and the ends of their range."""
    occupied = np.flatnonzero(grid.counts)
    low, high = float(grid.edges[occupied[0]]), float(grid.edges[occupied[-1] + 1])
    if rule == "interval":
        return np.linspace(low, high, levels + 1)[1:-1], low, high
    share = np.cumsum(grid.counts) / grid.counts.sum()
    at = np.searchsorted(share, np.arange(1, levels) / levels - 1e-12)
    inner = np.unique(grid.edges[at + 1])
    return inner[(inner > low) & (inner < high)], low, high


def _summed(
    values: Mapping[str, Mapping[str, Array]], edges: Mapping[str, Array], ask: Ask
) -> dict[str, Array]:
    """The counts of all parties between the edges of each column."""
    names = tuple(edges)
    levels = tuple((*range(len(own) - 1), "missing") for own in edges.values())
    parts = {}
    for party, columns in values.items():
        codes = [
            np.where(np.isnan(columns[name]), len(own) - 1, _cell(columns[name], own))
            for name, own in edges.items()
        ]
        parts[party] = counted(names, levels, np.array(codes).T.reshape(-1, len(names)))
    return {name: table[:-1] for name, table in zip(names, ask(parts), strict=True)}


def _cell(values: Array, edges: Array) -> Index:
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)


def _powers_of_two() -> Array:
    sizes = 2.0**_POWERS
    return np.concatenate([-sizes[::-1], sizes])


def _divided(grid: Grid) -> Array:
    """Edges that divide each occupied cell by its share of the values."""
    edges, n = grid.edges, grid.counts.sum()
    parts = [edges[:1]]
    for cell, count in enumerate(grid.counts):
        pieces = max(int(np.ceil(CELLS * count / n)), 1)
        parts.append(np.linspace(edges[cell], edges[cell + 1], pieces + 1)[1:])
    return np.concatenate(parts)
