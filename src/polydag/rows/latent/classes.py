"""One correlation for each class of pairs, by the likelihood of these pairs alone.

"block" has a class for each pair of places in a group; "free" one for each link, as in the papers, which
needs many columns. The matrices are made positive definite by raising small eigenvalues, and are then scaled
to unit variances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.errors import UsageError
from polydag.rows.latent.pairs import PairColumns
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Batches, Blocks
from polydag.rows.precision import Layout
from polydag.rows.structures.interface import Fitted
from polydag.rows.structures.shared_block import SharedBlock, by_distance

_LOWEST = 0.02  # of eigenvalues


@dataclass(frozen=True, eq=False)
class PairedPlaces:
    """One correlation for each pair of places in a group, the same in all groups.

    `even` is the part of each correlation that depends on the distance of the two places only.
    """

    layout: Layout
    places: Index
    even: float = 0.0
    name: str = "block"

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """The most likely correlations."""
        assert isinstance(columns, PairColumns)
        size = int(self.places.max()) + 1
        ends = np.sort(self.places[columns.pairs], axis=1)
        r = columns.by_class(ends[:, 0] * size + ends[:, 1], size * size, scored).reshape(size, size)
        R = r + r.T + np.eye(size)
        R = definite((1.0 - self.even) * R + self.even * by_distance(R))
        parameters = {"even": self.even} if self.even else {}
        return Fitted(SharedBlock(self.layout, self.places).at(R), parameters)


@dataclass(frozen=True, eq=False)
class PairedRows:
    """One correlation for each link, in groups; a part ν of the variance is a row's own."""

    layout: Layout
    own: float = 0.0
    name: str = "free"

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """The most likely correlations."""
        assert isinstance(columns, PairColumns)
        layout, pairs = self.layout, columns.pairs
        r = columns.by_class(np.arange(len(pairs), dtype=np.int64), len(pairs), scored)
        batches = Batches.of(layout)
        component = np.searchsorted(layout.starts, pairs[:, 0], side="right") - 1
        local = pairs - layout.starts[component][:, None]
        sigmas = []
        for rows in batches.rows:
            number = np.full(len(layout.sizes), -1, dtype=np.int64)
            number[np.searchsorted(layout.starts, rows[:, 0], side="right") - 1] = np.arange(len(rows))
            here = number[component] >= 0
            stack = np.zeros((len(rows), rows.shape[1], rows.shape[1]))
            stack[number[component[here]], local[here, 0], local[here, 1]] = r[here]
            stack = (1.0 - self.own) * (stack + stack.transpose(0, 2, 1)) + np.eye(rows.shape[1])
            sigmas.append(np.array([definite(block) for block in stack]))
        return Fitted(Blocks(batches, sigmas), {"own": self.own})


def definite(R: Array) -> Array:
    """The matrix with eigenvalues of at least a small number, scaled to a unit diagonal."""
    values, vectors = np.linalg.eigh(R)
    if values[0] < _LOWEST:
        R = (vectors * np.maximum(values, _LOWEST)) @ vectors.T
    scale = np.sqrt(R.diagonal())
    return np.asarray(R / np.outer(scale, scale))


def require_groups(layout: Layout) -> None:
    """Raise where not every two rows of a component are linked."""
    sizes = layout.sizes
    if not (np.diff(layout.frees) == sizes * (sizes + 1) // 2).all():
        raise UsageError(
            "structure='free' with labels='latent' is for groups: on a network, linked rows do not tell how "
            "those further apart are correlated. Use 'auto', 'common' or 'smooth'."
        )
