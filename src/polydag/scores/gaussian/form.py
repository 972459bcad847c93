"""The form that Gaussian scores have in common: determinants of a matrix, and a price for each parent.

With R a matrix of variances and covariances, a family of y with the k parents B scores

    base[y] + step[0] + … + step[k-1] + q(k)/2 · log|R_B| - q(k+1)/2 · log|R_{B+y}|

with `q(k) = power + growth · k`. Let `vx`, `vy` be the variances left after regression on B, and r the
partial correlation of x and y given B. Then x as one more parent gains

    step[k] - growth/2 · log(vx vy) - q(k+2)/2 · log(1 - r²),

so that gains for many x and many sets B follow from elimination on R. BIC has `growth` 0, BGe 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index
from polydag.scores.families import ParentSets

DETERMINED = 1e-10  # share of variance below which a column counts as determined by those before it


class GaussianTerms(NamedTuple):
    """The terms of a score, for the nodes that the same rows score.

    `matrix` is R (d, d), `base` (d,) is by node, `step` (d,) by the number of parents that there are already:
    `-inf` where one more is not allowed.
    """

    matrix: Array
    base: Array
    step: Array
    power: float
    growth: float

    def constant(self, k: int) -> float:
        """What k parents add, besides determinants."""
        return float(self.step[:k].sum())

    @property
    def slope(self) -> Array:
        """`q(k+2)/2` by the number of parents that there are already."""
        return np.asarray(0.5 * (self.power + self.growth * (np.arange(len(self.step)) + 2.0)))


@dataclass(frozen=True, eq=False)
class GaussianForm:
    """The terms of each group of rows, and which group scores each node."""

    terms: tuple[GaussianTerms, ...]
    group: Index

    @classmethod
    def of(cls, terms: Sequence[GaussianTerms], group: Index) -> GaussianForm:
        """The form of some terms."""
        # One memory layout only, since kernels are compiled for each anew.
        return cls(tuple(own._replace(matrix=np.ascontiguousarray(own.matrix)) for own in terms), group)

    @cached_property
    def growth(self) -> float:
        """The same for all groups."""
        return self.terms[0].growth

    @cached_property
    def _slopes(self) -> tuple[Array, ...]:
        return tuple(own.slope for own in self.terms)

    def bounded(self, max_parents: int | None) -> GaussianForm:
        """The form in which families with more parents score `-inf`."""
        if max_parents is None:
            return self
        allowed = [np.where(np.arange(len(own.step)) < max_parents, own.step, -np.inf) for own in self.terms]
        terms = tuple(own._replace(step=step) for own, step in zip(self.terms, allowed, strict=True))
        return GaussianForm(terms, self.group)

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The score of one family."""
        own = self.terms[int(self.group[node])]
        members = sorted(parents)
        k = len(members)
        price = own.base[node] + own.constant(k)
        if not math.isfinite(price):
            return -math.inf
        *inner, last = np.log(remaining_variances(own.matrix[np.ix_([*members, node], [*members, node])]))
        return float(
            price - 0.5 * own.growth * math.fsum(inner) - 0.5 * (own.power + own.growth * (k + 1)) * last
        )

    def gains(self, node: int, candidates: Index, sets: ParentSets, positive_only: bool) -> Array:
        """The gain of each candidate over each set; those not positive may be 0 on request."""
        from polydag.scores.gaussian._families_kernels import gaussian_gains

        g = int(self.group[node])
        own = self.terms[g]
        result: Array = gaussian_gains(
            own.matrix, node, candidates, sets.root, sets.element, sets.depth,
            own.step, self._slopes[g], self.growth, positive_only,
        )  # fmt: skip
        return result


def remaining_variances(R: Array) -> Array:
    """The variance left of each variable after regression on those before it.

    A variable that others determine keeps a share of `DETERMINED`, and explains nothing more.
    """
    d = len(R)
    rest = np.array(R)
    left = np.empty(d)
    for k in range(d):
        floor = DETERMINED * R[k, k]
        left[k] = max(rest[k, k], floor)
        if rest[k, k] > floor:
            rest[k + 1 :, k + 1 :] -= np.outer(rest[k + 1 :, k], rest[k, k + 1 :]) / rest[k, k]
    return left
