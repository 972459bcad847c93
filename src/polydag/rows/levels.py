"""Edges within groups and between them: does a group's mean act as a row's own value does?

A parent is divided into its deviation from the mean of its group and that mean (Mundlak 1978):

    X_j = Σ_i β_ij (X_i − X̄_i) + γ_ij X̄_i + ε_j.

If a pupil's talent acts on marks, and nothing else does that schools differ in, then β = γ. Where they differ
the mean stands for something else: what the school offers, or whom it takes. Coefficients are those of
generalised least squares: with the column's own strength by restricted likelihood, where there is one for all
rows of a group, else with the estimated Σ. The difference is compared with Student's t, with as many
degrees of freedom as there are groups beyond the terms between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polydag.arrays import Array, Index
from polydag.rows.decorrelation import Decorrelation
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.structures.exchangeable import Exchangeable

if TYPE_CHECKING:
    import pandas as pd

    from polydag.graph import Graph

FEWEST = 5  # groups beyond the terms between them


class EdgeLevels(NamedTuple):
    """One edge: its coefficient within groups and between them, and the p-value of their equality."""

    source: str
    target: str
    within: float
    within_se: float
    between: float
    between_se: float
    p_value: float


def within_and_between(decorrelation: Decorrelation, graph: Graph, *, latent: bool = False) -> pd.DataFrame:
    """The two coefficients of every directed edge, for rows in groups; one row of the result for each.

    Left out are edges into variables with an undirected edge, whose parents are not known, edges into
    properties of the group, and those of few groups; all of them where values were set by intervention, and
    where labels are among the variables, as indicators or as cuts of variables that are not seen (`latent`).
    A property of the group has a coefficient between groups only.
    """
    import pandas as pd

    found: list[EdgeLevels] = []
    table = decorrelation.table
    latent = latent or table.was_set is not None
    if not latent and table.links.what == "groups" and set(graph.names) <= set(table.names):
        directed = graph.adjacency & ~graph.adjacency.T
        open_ends = (graph.adjacency & graph.adjacency.T).any(axis=0)
        names = list(graph.names)
        place = [table.names.index(name) for name in names]
        for j in np.flatnonzero(directed.any(axis=0) & ~open_ends & ~table.group_level[place]):
            parents = np.array([place[i] for i in np.flatnonzero(directed[:, j])])
            found += _into(decorrelation, parents, place[j])
    return pd.DataFrame(found, columns=list(EdgeLevels._fields))


def _into(decorrelation: Decorrelation, parents: Index, child: int) -> list[EdgeLevels]:
    from scipy.stats import t

    table = decorrelation.table
    group = table.links.components
    groups = int(group.max()) + 1
    X, y = table.values[:, parents], table.values[:, child]
    counts = np.bincount(group).astype(float)
    means = np.stack([np.bincount(group, column) / counts for column in X.T], axis=1)[group]
    own = ~table.group_level[parents]
    ones = np.ones((len(y), 1))
    Z = ones if table.covariates is None else np.concatenate([ones, table.covariates], axis=1)
    degrees = groups - Z.shape[1] - len(parents)
    if degrees < FEWEST:
        return []
    design = np.concatenate([Z, means, (X - means)[:, own]], axis=1)
    if np.linalg.matrix_rank(design) < design.shape[1]:  # a parent without variation between groups
        return []
    coefficients, covariance = _least_squares(decorrelation, design, y)
    found = []
    for k, parent in enumerate(parents):
        b = Z.shape[1] + k
        between, between_se = coefficients[b], np.sqrt(covariance[b, b])
        within, within_se, p_value = np.nan, np.nan, np.nan
        if own[k]:
            w = Z.shape[1] + len(parents) + int(own[:k].sum())
            within, within_se = coefficients[w], np.sqrt(covariance[w, w])
            spread = np.sqrt(covariance[b, b] + covariance[w, w] - 2.0 * covariance[b, w])
            p_value = 2.0 * t.sf(abs(within - between) / spread, degrees)
        values = (within, within_se, between, between_se, p_value)
        found.append(EdgeLevels(table.names[parent], table.names[child], *map(float, values)))
    return found


def _least_squares(decorrelation: Decorrelation, design: Array, y: Array) -> tuple[Array, Array]:
    """Coefficients and their covariance by generalised least squares."""
    layout = decorrelation.precision.layout
    both = np.concatenate([design, y[:, None]], axis=1)[layout.order]
    if decorrelation.structure in ("common", "independent"):
        columns = Columns(both[:, -1:] / y.std(), both[:, :-1])
        white = Exchangeable(layout).fit(columns, np.ones(1, dtype=bool)).whitening.whiten(both)
    else:
        white = decorrelation.precision.whiten_sorted(np.ascontiguousarray(both))
    W, target = white[:, :-1], white[:, -1]
    inverse = np.linalg.inv(W.T @ W)
    coefficients = inverse @ (W.T @ target)
    left = target - W @ coefficients
    return coefficients, inverse * float(left @ left) / (len(y) - design.shape[1])
