"""Gains for a search: by the score's own compiled call or family by family, within a bound on parents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.errors import UsageError
from polydag.scores.families import Family, ParentSets, Score, enlarged_families, gains_by_family


class Gains(NamedTuple):
    """Gains that a search wants: of each candidate as one more parent of a node beside each parent set."""

    node: int
    candidates: Index
    sets: ParentSets
    wanted: Mask


class FamilyGains:
    """The gains of a score; a parent beyond `max_parents` gains `-inf`.

    Where the score asks a source that answers in rounds, `prefetch` puts what several requests need into one
    question, which `__call__` would otherwise ask one by one.
    """

    def __init__(self, score: Score, max_parents: int | None = None) -> None:
        self.score, self.max_parents = score, max_parents
        self.remote = bool(getattr(score, "remote", False))
        self._own = getattr(score, "gains", None)
        self._known: dict[Family, float] = {}

    def __call__(self, request: Gains, positive_only: bool = False) -> Array:
        """The gains, where wanted; those that are not positive may be 0 on request."""
        allowed = self._within_bound(request)
        if self._own is not None:
            result: Array = self._own(*allowed, positive_only=positive_only)
        else:
            result = gains_by_family(self.score, *allowed, known=self._known)
        if self.max_parents is not None:
            result[request.sets.sizes >= self.max_parents] = -np.inf
        return result

    def prefetch(self, requests: Iterable[Gains]) -> None:
        """Ask for all that the requests need, in one question."""
        families = [
            family for request in requests for family in enlarged_families(*self._within_bound(request))
        ]
        self.score.prefetch(families)  # type: ignore[attr-defined]

    def _within_bound(self, request: Gains) -> Gains:
        if self.max_parents is None:
            return request
        free = request.sets.sizes < self.max_parents
        return request._replace(wanted=request.wanted & free[:, None])

    def require_few_parents(self, required: Mask) -> None:
        """Raise where knowledge requires more parents than are allowed."""
        if self.max_parents is None:
            return
        if (many := np.flatnonzero(required.sum(axis=0) > self.max_parents)).size:
            raise UsageError(
                f"{self.score.names[many[0]]} has {required[:, many[0]].sum()} required parents, but "
                f"max_parents is {self.max_parents}."
            )
