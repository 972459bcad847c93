"""The families of each variable that matter most, for moves of chains.

A parent set is listed if its score is not far below that of its best subset, which is allowed wherever the
set is. This depends on no order, and is asked of every score that enters the sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydag.arrays import Array
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.transfer.family import subset_tables

_BEHIND = 3.0  # nats behind a subset from which on a set is not listed


def every_family(table: FamilyTable) -> Array:
    """The numbers of all parent sets, for each variable; of shape (n, sets)."""
    return np.tile(np.arange(len(table.sets)), (table.n, 1))


def shortlist(table: FamilyTable, scores: Sequence[Array]) -> Array:
    """The numbers of the sets that matter for some of the scores, of shape (n, sets), with -1 behind them.

    All subsets of a listed set are listed, too.
    """
    numbers, _ = subset_tables(table)
    last = (1 << table.sizes) - 1
    subsets = [(np.flatnonzero(mask < last), mask) for mask in range(int(last.max(initial=0)))]
    listed = np.zeros(table.scores.shape, dtype=bool)
    listed[:, 0] = True
    for own in scores:
        best = np.full_like(own, -np.inf)
        for larger, mask in subsets:
            best[:, larger] = np.maximum(best[:, larger], own[:, numbers[larger, mask]])
        listed |= own > best - _BEHIND
    for larger, mask in subsets:
        for node in range(table.n):
            found = larger[listed[node, larger]]
            listed[node, numbers[found, mask]] = True
    most = int(listed.sum(axis=1).max())
    result = np.full((table.n, most), -1)
    for node in range(table.n):
        found = np.flatnonzero(listed[node])
        result[node, : len(found)] = found
    return result
