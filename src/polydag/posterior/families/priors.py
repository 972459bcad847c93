"""Structure priors on families: by the number of parents, by edge, and background knowledge.

A prior multiplies each family's score. It need not be normalised, since a constant factor of a node cancels.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array
from polydag.errors import DataError, UsageError
from polydag.knowledge import Masks
from polydag.posterior.families.table import FamilyTable

StructurePrior = Literal["fair", "uniform"]


def size_prior(kind: str, n: int, max_parents: int) -> Array:
    """The log prior of a parent set by its size: `1 / C(n-1, k)` for "fair", 1 for "uniform"."""
    if kind not in get_args(StructurePrior):
        known = ", ".join(get_args(StructurePrior))
        raise UsageError(
            f"structure_prior must be one of {known}; got {kind!r}. "
            "Probabilities of single edges go into edge_prior."
        )
    if kind == "uniform":
        return np.zeros(max_parents + 1)
    return np.array([-math.log(math.comb(n - 1, k)) for k in range(max_parents + 1)])


def edge_probabilities(given: Any, names: tuple[str, ...]) -> Array:
    """Prior probabilities of edges, `[i, j]` for `i -> j`, from a DataFrame (by name) or an array."""
    if hasattr(given, "reindex"):
        labelled = given.rename(index=str, columns=str)
        if missing := [name for name in names if name not in labelled.index or name not in labelled.columns]:
            raise DataError(f"The edge prior lacks {', '.join(missing)}.")
        given = labelled.reindex(index=list(names), columns=list(names)).to_numpy()
    matrix = np.array(given, dtype=float)
    if matrix.shape != (len(names), len(names)):
        raise DataError(f"The edge prior has the shape {matrix.shape}, but there are {len(names)} variables.")
    np.fill_diagonal(matrix, 0.0)
    if (bad := ~((matrix >= 0) & (matrix <= 1))).any():
        i, j = np.argwhere(bad)[0]
        raise DataError(
            f"The prior probability of {names[i]} -> {names[j]} must lie in [0, 1]; got {matrix[i, j]}."
        )
    return matrix


def certain_edges(masks: Masks, edge_prior: Array | None, names: tuple[str, ...]) -> Masks:
    """Background knowledge, combined with edges whose prior probability is 0 or 1."""
    if edge_prior is None:
        return masks
    off = ~np.eye(len(edge_prior), dtype=bool)
    required = masks.required | (edge_prior == 1)
    forbidden = masks.forbidden | ((edge_prior == 0) & off)
    if (both := required & forbidden).any():
        i, j = np.argwhere(both)[0]
        raise DataError(
            f"The edge prior and the background knowledge contradict each other on {names[i]} -> {names[j]}."
        )
    return Masks(required, forbidden)


def with_prior(
    table: FamilyTable,
    structure_prior: str = "fair",
    *,
    edge_prior: Array | None = None,
    masks: Masks | None = None,
) -> FamilyTable:
    """The table with the log prior added to every score.

    Parameters
    ----------
    table : FamilyTable
        Log scores.
    structure_prior : {"fair", "uniform"}
        The prior by the number of parents.
    edge_prior : array of shape (n, n), optional
        `[i, j]` is the prior probability of `i -> j`, independent of other edges but for acyclicity; 0
        forbids and 1 requires the edge. It is multiplied with the prior by the number of parents.
    masks : Masks, optional
        Families that lack a required edge or have a forbidden one get `-inf`.
    """
    n = table.n
    by_size = size_prior(structure_prior, n, table.max_parents)[table.sizes]
    none = np.zeros((n, n), dtype=bool)
    known = certain_edges(masks or Masks(none, none), edge_prior, table.names)
    log_odds = np.zeros((n + 1, n))  # the last row is for padding
    if edge_prior is not None:
        inside = np.clip(edge_prior, 1e-300, 1 - 1e-16)
        log_odds[:n] = np.where(known.required, 0.0, np.log(inside) - np.log1p(-inside))
    log_odds[:n][known.forbidden] = -np.inf
    scores = table.scores + by_size
    for node in range(n):
        needed = np.append(known.required[:, node], False)
        plain = edge_prior is None and not known.forbidden[:, node].any() and not needed.any()
        if plain:
            continue
        members = table.members(node)
        scores[node] += log_odds[:, node][members].sum(axis=1)
        if needed.any():
            _require_possible(table, node, np.flatnonzero(needed))
            scores[node][needed[members].sum(axis=1) < needed.sum()] = -np.inf
    return table.with_scores(scores)


def _require_possible(table: FamilyTable, node: int, required: NDArray[np.intp]) -> None:
    if len(required) > table.max_parents:
        raise UsageError(
            f"{len(required)} parents of {table.names[node]} are required, "
            f"but max_parents is {table.max_parents}."
        )
    if missing := sorted(set(required.tolist()) - set(table.candidates[node].tolist())):
        raise UsageError(
            f"{table.names[missing[0]]} is a required parent of {table.names[node]}, but not a candidate."
        )
