"""One correlation matrix for all groups: two rows depend on each other by their places in the group.

The first and the third visit, the mother and the second child: each pair of places has a correlation of its
own, the same in every group, and a group without some places has those of the others. It is estimated by
expectation and maximisation, with the coefficients of the regressions and the rows of absent places as what
is missing, so that the estimate is that of the restricted likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Batches, Blocks
from polydag.rows.precision import Layout
from polydag.rows.structures.interface import Fitted

EVEN_PARTS = (0.95, 0.7, 0.0)
_TOLERANCE, _MOST = 0.05, 200  # of the deviance, and iterations


class _Likeliest(NamedTuple):
    """The block with the highest restricted likelihood of some columns."""

    columns: Columns
    scored: Mask
    R: Array


@dataclass(frozen=True, eq=False)
class SharedBlock:
    """A correlation for each pair of places, common to all groups.

    Attributes
    ----------
    layout : Layout
        The groups.
    places : array of shape (n,)
        Each row's place in its group, counted from 0; rows sorted as in the layout, no place twice in a
        group.
    even : float
        The part of each correlation that depends on the distance of the two places only.
    """

    layout: Layout
    places: Index
    even: float = 0.0
    fits: list[_Likeliest] = field(default_factory=list)  # whatever `even` is
    name: str = "block"

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """The block with the highest restricted likelihood, evened out."""
        same = (each.R for each in self.fits if each.columns is columns and (each.scored == scored).all())
        R = next(same, None)
        if R is None:
            R = self._likeliest(columns, scored)
            self.fits.append(_Likeliest(columns, scored, R))
        block = (1.0 - self.even) * R + self.even * by_distance(R)
        return Fitted(self.at(block), {"even": self.even} if self.even else {})

    def _likeliest(self, columns: Columns, scored: Mask) -> Array:
        size = int(self.places.max()) + 1
        R = np.eye(size)
        last = np.inf
        for _ in range(_MOST):
            found = self.at(R)
            deviance = float(columns.deviances(found)[scored].sum())
            if not last - deviance > _TOLERANCE:
                break
            last, best = deviance, R
            R = self._next(R, found, columns, scored)
        return best

    def at(self, R: Array) -> Blocks:
        """Σ for a given block."""
        batches = Batches.of(self.layout)
        sigmas = []
        for rows in batches.rows:
            where = self.places[rows]
            if (where == where[0]).all():
                where = where[:1]
            sigmas.append(np.ascontiguousarray(R[where[:, :, None], where[:, None, :]]))
        return Blocks(batches, sigmas)

    def _next(self, R: Array, found: Blocks, columns: Columns, scored: Mask) -> Array:
        """One step of expectation and maximisation, scaled to unit variances."""
        rows = found.unwhiten(columns.weighted_directions(found, scored))
        count = int(scored.sum())
        total = np.zeros_like(R)
        for batch in found.batches.rows:
            own = rows[batch]
            products = np.matmul(own, own.transpose(0, 2, 1))
            for where, together, groups in _same_places(self.places[batch], products):
                if len(where) == len(R):
                    total[np.ix_(where, where)] += together
                    continue
                along = np.linalg.solve(R[np.ix_(where, where)], R[where]).T
                total += along @ together @ along.T + groups * count * (R - along @ R[where])
        scale = np.sqrt(total.diagonal())
        return np.asarray(total / np.outer(scale, scale))


def shared_blocks(layout: Layout, places: Index) -> list[SharedBlock]:
    """The most even first."""
    fits: list[_Likeliest] = []
    return [SharedBlock(layout, places, even, fits) for even in EVEN_PARTS]


def by_distance(block: Array) -> Array:
    """Each entry replaced by the mean of its diagonal."""
    size = len(block)
    means = np.array([np.diagonal(block, k).mean() for k in range(size)])
    return np.asarray(means[np.abs(np.subtract.outer(np.arange(size), np.arange(size)))])


def _same_places(places: Index, products: Array) -> list[tuple[Index, Array, int]]:
    """The places that groups have, with the sum of the products and the number of groups that have them."""
    kinds, which = np.unique(places, axis=0, return_inverse=True)
    which = which.ravel()
    return [(kinds[k], products[which == k].sum(axis=0), int((which == k).sum())) for k in range(len(kinds))]
