"""Draws of missing labels from a discrete network: the E step of structural EM (Friedman 1998).

Each incomplete row is completed several times with labels drawn given those that are there. Counts of the
completed rows, divided by the number of draws, estimate the expected counts, of any set of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask

MOST = 256  # combinations of labels that are drawn jointly
BURN_IN = 10
_PRIOR = 1.0  # imaginary rows, spread over the cells of a table


class Network(NamedTuple):
    """A discrete network in arrays.

    `families` (d, k) has each node's parents in order and then the node, padded with -1; `tables[j]` the log
    probabilities, one axis for each member of the family.
    """

    families: Index
    tables: tuple[Array, ...]


def families_of(dag: Mask) -> list[tuple[int, ...]]:
    """Each node's parents in order, and then the node."""
    return [(*np.flatnonzero(dag[:, j]).tolist(), j) for j in range(len(dag))]


def network(families: Sequence[tuple[int, ...]], counts: Sequence[Array]) -> Network:
    """The network of posterior means, from the counts of its families."""
    width = max(len(own) for own in families)
    padded = np.array([(*own, *[-1] * (width - len(own))) for own in families], dtype=np.int64)
    logs = []
    for table in counts:
        smooth = table + _PRIOR / table.size
        logs.append(np.log(smooth / smooth.sum(axis=-1, keepdims=True)))
    return Network(padded, tuple(logs))


def drawn_labels(codes: Index, arities: Index, model: Network, draws: int, rng: np.random.Generator) -> Index:
    """Rows (n, d) of positions in levels, -1 where missing, completed `draws` times: (n, draws, d)."""
    from polydag.stats.gaps._label_draws_kernels import draw_labels

    d = len(arities)
    holding = [np.flatnonzero((model.families == v).any(axis=1)) for v in range(d)]
    touching = np.full((d, max(len(own) for own in holding)), -1, dtype=np.int64)
    for v, own in enumerate(holding):
        touching[v, : len(own)] = own
    start = np.cumsum([0, *(table.size for table in model.tables)])[:-1].astype(np.int64)
    flat = np.concatenate([table.ravel() for table in model.tables])
    result: Index = draw_labels(
        codes,
        arities,
        model.families,
        flat,
        start,
        touching,
        draws,
        max(MOST, int(arities.max())),
        BURN_IN,
        rng,
    )
    return result
