"""Moments for scores of families, where variables differ in what their rows are worth.

A property of the group, such as the size of a school, has one value for each group: what explains it is
judged by as many rows as there are groups, and single rows cannot be its causes.

Where columns differ in how alike linked rows are, each has a strength of its own on the common structure:
`ε_j ~ N(0, ω_j² Σ(s_j))`. Given a graph, s_j has the highest restricted likelihood of column j given its
parents, and the family of j is scored by rows whitened by `Σ(s_j)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from polydag.arrays import Array, Mask
from polydag.data.checking.quality import require_usable
from polydag.errors import DataError
from polydag.rows.decorrelation import Decorrelation
from polydag.rows.dependence import DependenceTest, design_dependence
from polydag.rows.estimate import in_unset_rows
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import as_precision
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import RowPrecision
from polydag.rows.structures.by_column import column_strengths
from polydag.rows.structures.exchangeable import Exchangeable
from polydag.stats import ByNode, GaussianStats

DIFFER = 0.01  # the level at which columns are taken to differ


def family_moments(found: Decorrelation, strengths: Array | None = None) -> GaussianStats | ByNode:
    """The moments of decorrelated rows; for properties of the group, those of one row for each group.

    With `strengths`, each other column's family has rows that are decorrelated by its own. A family has the
    rows, or the groups, in which its child was not set by intervention.
    """
    table, common = found.table, found.moments()
    was_set = np.zeros(table.values.shape, dtype=bool) if table.was_set is None else table.was_set
    known: dict[tuple[bool, float | None, bytes], GaussianStats] = {}
    parts: dict[str, GaussianStats] = {}
    for j, name in enumerate(table.names):
        alike, kept = bool(table.group_level[j]), ~was_set[:, j]
        strength = None if strengths is None or alike else float(strengths[j])
        if not kept.any():
            raise DataError(f"{name} was set in every row, so nothing can be learned about its causes.")
        if not alike and strength is None and kept.all():
            continue
        key = (alike, strength, kept.tobytes())
        if key not in known:
            known[key] = group_moments(table, kept) if alike else found.moments_of(kept, strength)
            if not alike and not kept.all():
                require_usable(known[key], source=f"In the rows in which {name} was not set")
        parts[name] = known[key]
    if table.was_set is None:
        return ByNode(common, parts) if parts else common
    return ByNode(common, parts, tuple(_sets(table.names, table.was_set)))


def _sets(names: Sequence[str], was_set: Mask) -> Iterator[frozenset[str]]:
    """The different sets of variables that were set, in the order in which rows have them."""
    for row in dict.fromkeys(map(tuple, was_set.tolist())):
        yield frozenset(name for name, own in zip(names, row, strict=True) if own)


def strengths_given(found: Decorrelation, dag: Mask) -> Array:
    """Each column's own strength given its parents in a DAG, `dag[i, j]` being the edge `i -> j`."""
    table, layout = found.table, found.precision.layout
    X, Z = table.values[layout.order], table.design[layout.order]
    columns = in_unset_rows(Columns(X / X.std(axis=0), Z, dag.T), table, layout)
    return column_strengths(columns, Exchangeable(layout))


def left_by_column(found: Decorrelation, dag: Mask, strengths: Array) -> DependenceTest:
    """Is dependence left in each column's errors given its parents, decorrelated by its own strength?"""
    table, layout = found.table, found.precision.layout
    structure = Exchangeable(layout)
    errors = []
    for j in np.flatnonzero(~table.group_level):
        whitening: RowPrecision = as_precision(structure.at(float(strengths[j])), layout)
        parents = table.values[:, dag[:, j]]
        design = whitening.whiten(np.concatenate([table.design, parents], axis=1))
        y = whitening.whiten(table.values[:, [j]])
        errors.append(y - design @ np.linalg.lstsq(design, y, rcond=None)[0])
    return design_dependence(np.concatenate(errors, axis=1), table.links, np.ones((layout.n, 1)))


def group_moments(table: LinkedTable, kept: Mask) -> GaussianStats:
    """The moments of one row for each group; columns of single rows are zero there and explain nothing.

    Groups count of which all rows are kept.
    """
    first, group, sizes = np.unique(
        table.links.components, return_index=True, return_inverse=True, return_counts=True
    )[1:]
    whole = np.bincount(group, ~kept) == 0
    values = np.where(table.group_level, table.values[first], 0.0)[whole]
    if table.covariates is None:
        return GaussianStats.from_data(values, names=table.names)
    sums = np.zeros((len(first), table.covariates.shape[1]))
    np.add.at(sums, group, table.covariates)
    Z = np.concatenate([np.ones((len(first), 1)), sums / sizes[:, None]], axis=1)[whole]
    Q, _ = np.linalg.qr(Z)
    values = values - Q @ (Q.T @ values)
    own = GaussianStats.from_data(values, names=table.names)
    n = len(values) - np.linalg.matrix_rank(Z) + 1
    return GaussianStats(float(n), own.mean, own.scatter, own.names, float(n))
