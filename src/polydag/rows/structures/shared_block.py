"""One correlation matrix for all groups: two rows depend on each other by their places in the group.

The first and the third visit, the mother and the second child: each pair of places has a correlation of its
own, the same in every group, and a group without some places has those of the others. It is estimated by
expectation and maximisation, with the coefficients of the regressions and the rows of absent places as what
is missing, so that the estimate is that of the restricted likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Batches, Blocks
from polydag.rows.precision import Layout
from polydag.rows.structures.interface import Fitted

_TOLERANCE, _MOST = 0.05, 200  # of the deviance, and iterations


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
    """

    layout: Layout
    places: Index
    name: str = "block"

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """The block with the highest restricted likelihood."""
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
        return Fitted(self.at(best), {})

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


def _same_places(places: Index, products: Array) -> list[tuple[Index, Array, int]]:
    """The places that groups have, with the sum of the products and the number of groups that have them."""
    kinds, which = np.unique(places, axis=0, return_inverse=True)
    which = which.ravel()
    return [(kinds[k], products[which == k].sum(axis=0), int((which == k).sum())) for k in range(len(kinds))]
