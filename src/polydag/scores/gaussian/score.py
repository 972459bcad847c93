"""The base of the Gaussian scores, which groups nodes by the rows that score them, and checks of the data.

A Gaussian score says which `GaussianTerms` some statistics give, and has everything else from here: scores of
families, compiled gains for the searches, compiled tables of families for posteriors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import ClassVar

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.errors import DataError
from polydag.scores.families import ParentSets
from polydag.scores.gaussian.form import GaussianForm, GaussianTerms
from polydag.scores.regimes import node_groups, target_sets
from polydag.scores.spec import Kind, check_options
from polydag.stats import ByNode, GaussianStats, Regimes

Source = GaussianStats | Regimes[GaussianStats] | ByNode
_COLLINEAR = 1e-10  # a column whose unexplained share of variance is below this follows from the others


@dataclass(frozen=True, eq=False)
class GaussianScore(ABC):
    """A score of linear Gaussian families; subclasses say which terms some statistics give.

    Parameters
    ----------
    stats : GaussianStats or Regimes of GaussianStats
        The data; with `Regimes`, each node is scored by the rows that did not set it.
    """

    kind: ClassVar[Kind] = "numbers"

    stats: Source
    targets: tuple[frozenset[int], ...] = field(init=False, repr=False)
    form: GaussianForm = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_options(type(self), vars(self))
        first, group = node_groups(self.stats)
        terms = [self.terms(self.stats.for_node(name)) for name in first]
        object.__setattr__(self, "targets", target_sets(self.stats))
        object.__setattr__(self, "form", GaussianForm.of(terms, group))

    @abstractmethod
    def terms(self, part: GaussianStats) -> GaussianTerms:
        """What the score is made of, given the statistics of some rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.stats.n

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The score of `node` given its parents."""
        return self.form.local_score(node, parents)

    def gains(
        self, node: int, candidates: Index, sets: ParentSets, wanted: Mask, positive_only: bool = False
    ) -> Array:
        """The gain of each candidate parent over each parent set."""
        return self.form.gains(node, candidates, sets, positive_only)


def require_rows_and_rank(stats: Source) -> None:
    """Raise unless there are three rows, no constant column, and no column that follows from the others."""
    if isinstance(stats, ByNode):
        stats = stats.common
    if isinstance(stats, Regimes):
        stats = reduce(add, stats.parts.values())
    if stats.n < 3:
        raise DataError(f"There are {stats.n:g} rows; a Gaussian score needs at least 3.")
    variance = stats.scatter.diagonal()
    if (constant := np.flatnonzero(~(variance > 0))).size:
        raise DataError(f"Column {stats.names[constant[0]]} is constant. Drop it.")
    if stats.n > stats.d:
        _require_full_rank(stats.correlation, stats.names)
        return
    # More columns than rows: always singular, but copies of one column are a mistake.
    scale = np.sqrt(variance)
    for i in range(stats.d - 1):
        alike = np.abs(stats.scatter[i, i + 1 :]) > (1 - _COLLINEAR) * scale[i] * scale[i + 1 :]
        if alike.any():
            j = i + 1 + int(np.argmax(alike))
            raise DataError(
                f"Columns {stats.names[i]} and {stats.names[j]} are copies of each other. Drop one of them."
            )


def _require_full_rank(R: Array, names: Sequence[str]) -> None:
    from scipy.linalg import lapack

    factor, stopped = lapack.dpotrf(R, lower=1)
    end = stopped - 1 if stopped > 0 else len(R)
    small = np.flatnonzero(factor.diagonal()[:end] ** 2 < _COLLINEAR)
    if small.size:
        end = int(small[0])
    if end == len(R):
        return
    weight, *_ = np.linalg.lstsq(R[:end, :end], R[:end, end], rcond=None)
    others = [names[int(i)] for i in np.flatnonzero(np.abs(weight) > 1e-6)]
    shown = ", ".join(others[:6]) + (", …" if len(others) > 6 else "")
    raise DataError(
        f"The covariance is singular: column {names[end]} is a linear combination of {shown}. "
        "Drop one of these columns."
    )
