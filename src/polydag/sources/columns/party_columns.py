"""Columns of parties, changed in a common way: ranks over all parties, and levels at common points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from polydag.arrays import Array
from polydag.data.discretize import cut_at, parsed
from polydag.data.table import Kind
from polydag.errors import DataError, UsageError
from polydag.federated.each_party import for_each_party
from polydag.sources.columns.party_grid import Grid, cuts, normal_scores, pooled_grids
from polydag.sources.interface import Source
from polydag.sources.parties import Parties
from polydag.sources.table import InMemory

Change = Callable[[Array], Any]


def with_normal_scores(parties: Parties, columns: Sequence[str]) -> Parties:
    """Normal scores of ranks over all parties in place of some columns of numbers."""
    grids = _grids(parties, columns)
    changes: dict[str, Change] = {name: partial(normal_scores, grid=grid) for name, grid in grids.items()}
    return _changed(parties, changes, "continuous")


def discretized(parties: Parties, how: str) -> Parties:
    """Numbers cut into levels at common points."""
    rule, levels = parsed(how)
    numbers = [name for name in parties.names if parties.kinds[name] == "continuous"]
    changes: dict[str, Change] = {}
    for name, grid in _grids(parties, numbers).items():
        inner, low, high = cuts(grid, rule, levels)
        if not len(inner):
            raise DataError(
                f"Column {name}: {how} gives only one level, because most values are equal. Use interval:K, "
                "or define the levels yourself."
            )
        changes[name] = partial(cut_at, inner=inner, low=low, high=high)
    return _changed(parties, changes, "discrete")


def _grids(parties: Parties, columns: Sequence[str]) -> dict[str, Grid]:
    """How the values of some columns are distributed over all parties."""
    if parties.privacy.epsilon is not None:
        raise UsageError("Counts on a common grid have no differential privacy. Change columns beforehand.")
    for name in columns:
        if name not in parties.names:
            raise DataError(f"There is no column {name}.")
        if parties.kinds[name] != "continuous":
            raise UsageError(f"Column {name} holds labels: declare it continuous to transform it.")
    if not columns:
        return {}

    def values(source: Source) -> dict[str, Array]:
        rows = source.frame if isinstance(source, InMemory) else source.rows()
        absent = np.full(len(rows), np.nan)
        return {name: rows[name].to_numpy(dtype=float) if name in rows else absent for name in columns}

    sets = [(k,) for k in range(len(columns))]
    own = for_each_party(parties.parties, values)
    return pooled_grids(own, lambda counts: parties.asked(sets, counts, list(columns)))


def _changed(parties: Parties, changes: Mapping[str, Change], kind: Kind) -> Parties:
    def changed(source: Source) -> Source:
        if not isinstance(source, InMemory):
            raise UsageError(f"Columns of rows are changed; {source.described} has none to give.")
        frame = source.frame
        own = {
            name: pd.Series(change(frame[name].to_numpy(dtype=float)), index=frame.index)
            for name, change in changes.items()
            if name in frame
        }
        return source.with_columns(own, kind)

    return parties.with_columns_of(for_each_party(parties.parties, changed))
