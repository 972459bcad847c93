"""Linked rows cluster by cluster: how alike they are before and after decorrelation, and what they are worth.

A cluster is a connected component of the network: a group, a family, a part of a map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polydag.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

    from polydag.rows.decorrelation import Decorrelation


def by_cluster(found: Decorrelation) -> pd.DataFrame:
    """One row for each cluster of two rows and more, in the order of the data.

    `correlation` and `correlation_after` are mean products of linked rows over mean squares, over all columns
    of the residuals that no intervention set, before and after decorrelation. `effective_n` is what its rows
    are worth for edges where dependence is ignored, `(tr Σ)²/tr(Σ²)` of its block; `decorrelated_n` what they
    are worth afterwards.
    """
    import pandas as pd

    table, precision = found.table, found.precision
    component, n = table.links.components, table.links.n
    sizes = np.bincount(component, minlength=1)
    own = ~table.group_level
    if table.was_set is not None:  # what was set is alike for another reason
        own &= ~table.was_set.any(axis=0)
    after = found.rows()[:, own]
    before = precision.correlate(found.rows())[:, own]
    blocks = precision.correlations
    labels, rows = np.unique(component, return_index=True)
    first = {int(c): int(row) for c, row in zip(labels, rows, strict=True) if sizes[c] > 1}
    kept = sorted(first, key=lambda c: first[c])
    return pd.DataFrame(
        {
            "cluster": [_name(found, first[c]) for c in kept],
            "rows": [int(sizes[c]) for c in kept],
            "correlation": _along_links(found, before, kept),
            "correlation_after": _along_links(found, after, kept),
            "effective_n": [float(np.trace(blocks[c]) ** 2 / np.sum(blocks[c] ** 2)) for c in kept],
            "decorrelated_n": [sizes[c] * found.decorrelated_n / n for c in kept],
        }
    )


def _name(found: Decorrelation, row: int) -> str:
    """The label of a group; elsewhere, the first row of the cluster."""
    labels, index = found.table.labels, found.table.index
    if labels is not None:
        return str(labels[row])
    return f"row {row + 1 if index is None else index[row]}"


def _along_links(found: Decorrelation, rows: Array, kept: list[int]) -> Array:
    """The mean product of linked rows in each cluster, relative to the mean square of its rows."""
    pairs, component = found.table.links.pairs, found.table.links.components
    products, squares = np.zeros(len(pairs)), np.zeros(len(rows))
    for column in rows.T:  # one at a time: there may be millions of links
        scale = float(np.mean(column**2)) or 1.0
        products += column[pairs[:, 0]] * column[pairs[:, 1]] / scale
        squares += column**2 / scale
    along = component[pairs[:, 0]]
    count = np.bincount(component)
    links = np.bincount(along, minlength=len(count))
    product = np.bincount(along, products, minlength=len(count)) / np.maximum(links, 1)
    square = np.bincount(component, squares) / count
    return (product / np.where(square > 0, square, 1.0))[kept]
