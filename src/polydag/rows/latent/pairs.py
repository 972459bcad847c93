"""The likelihood of pairs of linked rows, which tells Σ without the DAG.

Whatever the DAG, the values of two rows in one column have the correlation `σ_ik` (Lemma 1), on the scale of
the Gaussian variable behind it. For a label the pair's probability is that of a rectangle under a bivariate
normal distribution (a polychoric correlation, shared by all columns); for a number it is the density. The sum
over linked pairs and columns is a composite likelihood (Lindsay 1988): its maximum is consistent, and no
integral has more than two dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polydag.arrays import Array, Index
from polydag.rows.latent import _normal_kernels, _pairs_kernels
from polydag.rows.latent.labels import cuts_of
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Batches, SpectralWhitening, Whitening
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import Layout

MOST_PAIRS = 100_000  # more are drawn at random: the estimate is precise long before
_POINTS, _STEP = 97, 0.03  # angles of the table, up to a correlation of ±0.9915
_SMALLEST = 1e-12
_NODES = 48


@dataclass(frozen=True, eq=False)
class PairColumns(Columns):
    """Columns whose deviances are those of pairs of linked rows.

    `X` holds the codes of labels and standardised numbers, rows sorted by component; `levels` the number of
    levels of each column (0 for numbers), and `starts` where its table begins.
    """

    pairs: Index = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    levels: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    starts: Index = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    table: Array = field(default_factory=lambda: np.empty(0))
    _places: dict[int, tuple[Batches, Index]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, X: Array, cuts: Sequence[Array | None], table: LinkedTable, layout: Layout, rng: Any
    ) -> PairColumns:
        """Those of a table of linked rows; `X` in the order of the data, labels as codes."""
        pairs = table.links.pairs
        if len(pairs) > MOST_PAIRS:
            pairs = pairs[np.sort(rng.choice(len(pairs), MOST_PAIRS, replace=False))]
        place = np.argsort(layout.order)
        tables = [np.empty(0) if own is None else log_probabilities(own).ravel() for own in cuts]
        return cls(
            np.ascontiguousarray(X[layout.order]),
            np.ones((len(X), 1)),
            pairs=place[pairs].astype(np.int64),
            levels=np.array([0 if own is None else len(own) + 1 for own in cuts], dtype=np.int64),
            starts=np.concatenate([[0], np.cumsum([len(own) for own in tables])[:-1]]).astype(np.int64),
            table=np.concatenate([*tables, np.zeros(1)]),
        )

    def reordered(self, order: Any) -> PairColumns:
        """The columns in another order, or some of them."""
        X = np.ascontiguousarray(self.X[:, order])
        return replace(self, X=X, levels=self.levels[order], starts=self.starts[order])

    def deviances(self, found: Whitening) -> Array:
        """Twice the negative log-likelihood of each column's pairs; infinite where Σ is not definite."""
        if not np.isfinite(found.log_determinant):
            return np.full(self.X.shape[1], np.inf)
        kept, r = self._along(found)
        r = np.clip(r, -_LARGEST, _LARGEST)
        sums = _pairs_kernels.of_columns(
            self.X, self.pairs[kept], r, self.levels, self.starts, self.table, _STEP, _POINTS
        )
        return np.asarray(-2.0 * sums)

    def weighted_directions(self, found: Whitening, scored: Any) -> Array:
        """Not of pairs: structures that ask for this have versions of their own, in `classes`."""
        raise NotImplementedError

    def by_class(self, which: Index, count: int, scored: Any) -> Array:
        """The correlation of each class of pairs with the highest likelihood; 0 for classes without pairs."""
        own = self.reordered(np.flatnonzero(scored))
        values = _pairs_kernels.by_class(
            own.X, own.pairs, which, count, own.levels, own.starts, own.table, _STEP, _POINTS
        )
        k = np.clip(values.argmax(axis=1), 1, _POINTS - 2)
        low, mid, high = (values[np.arange(count), k + step] for step in (-1, 0, 1))
        curve = low - 2.0 * mid + high
        shift = np.where(curve < 0, 0.5 * (low - high) / np.where(curve < 0, curve, -1.0), 0.0)
        angles = (k - (_POINTS - 1) / 2 + np.clip(shift, -1, 1)) * _STEP
        seen = np.bincount(which, minlength=count) > 0
        return np.where(seen, np.sin(angles), 0.0)

    def _along(self, found: Whitening) -> tuple[Any, Array]:
        """Which pairs have both rows in one block of Σ, and their correlations there."""
        batches = found.batches
        if id(batches) not in self._places:
            self._places[id(batches)] = batches, _places(batches, len(self.X))
        places = self._places[id(batches)][1]
        first, second = places[self.pairs[:, 0]], places[self.pairs[:, 1]]
        kept = (first[:, :2] == second[:, :2]).all(axis=1)
        r = np.zeros(len(self.pairs))
        for b in range(len(batches.rows)):
            here = np.flatnonzero(kept & (first[:, 0] == b))
            if len(here):
                r[here] = _entries(found, b, first[here, 1], first[here, 2], second[here, 2])
        return kept, r[kept]


_LARGEST = float(np.sin(_STEP * (_POINTS - 1) / 2))


def log_probabilities(cuts: Array) -> Array:
    """The logarithms of the probabilities of two labels with these cuts, over the table's angles."""
    x, w = np.polynomial.legendre.leggauss(_NODES)
    nodes: Array = np.asarray((x + 1) / 2, dtype=np.float64)
    weights: Array = np.asarray(w / 2, dtype=np.float64)
    angles: Array = np.asarray(_STEP * (np.arange(_POINTS) - (_POINTS - 1) / 2), dtype=np.float64)
    found = _normal_kernels.rectangles(np.ascontiguousarray(cuts), angles, nodes, weights)
    return np.log(np.maximum(found, _SMALLEST))


def standardised(table: LinkedTable, levels: dict[str, Any]) -> tuple[Array, list[Array | None]]:
    """Labels as codes with their cuts, and numbers with mean zero and variance one."""
    X = table.values.copy()
    cuts: list[Array | None] = []
    for j, name in enumerate(table.names):
        if name in levels:
            cuts.append(cuts_of(X[:, j], len(levels[name])))
        else:
            X[:, j] = (X[:, j] - X[:, j].mean()) / X[:, j].std()
            cuts.append(None)
    return X, cuts


def _places(batches: Batches, n: int) -> Index:
    """Of each row: its batch, the matrix of the batch, and the place in that."""
    result = np.full((n, 3), -1, dtype=np.int64)
    for b, rows in enumerate(batches.rows):
        k, i = np.indices(rows.shape)
        result[rows] = np.stack([np.full(rows.shape, b), k, i], axis=-1)
    return result


def _entries(found: Any, batch: int, k: Index, i: Index, j: Index) -> Array:
    """Entries of Σ in one batch; of a decomposed one without all of Σ."""
    if isinstance(found, SpectralWhitening):
        U, f = found.spectrum.vectors[batch], found.values[batch]
        d = np.einsum("kij,kj->ki", U * U, f)
        return np.asarray(np.einsum("ej,ej,ej->e", U[k, i], f[k], U[k, j]) / np.sqrt(d[k, i] * d[k, j]))
    stack = found.sigmas[batch]
    return np.asarray(stack[k if len(stack) > 1 else 0, i, j])
