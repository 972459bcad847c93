"""What the Gaussian scores share: a matrix per group of nodes that the same rows score, and collinearity."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from polydag.errors import DataError, UsageError
from polydag.scores.families import Array, Index, ParentSets
from polydag.stats import GaussianStats, Regimes

Source = GaussianStats | Regimes[GaussianStats]
_COLLINEAR = 1e-10  # a column whose unexplained share of variance is below this follows from the others


def node_groups(stats: Source) -> tuple[list[GaussianStats], Index]:
    """The distinct statistics that score nodes, and which of them scores each node."""
    if isinstance(stats, GaussianStats):
        return [stats], np.zeros(stats.d, dtype=np.int64)
    if not isinstance(stats, Regimes) or not isinstance(next(iter(stats.parts.values())), GaussianStats):
        raise UsageError(
            "Gaussian scores (bic, bge) need GaussianStats; for discrete data use bdeu, bds or k2."
        )
    found: dict[frozenset[frozenset[str]], int] = {}
    groups: list[GaussianStats] = []
    where: list[int] = []
    for name in stats.names:
        key = frozenset(targets for targets in stats.parts if name in targets)
        if key not in found:
            found[key] = len(groups)
            groups.append(stats.for_node(name))
        where.append(found[key])
    return groups, np.array(where, dtype=np.int64)


def target_sets(stats: object) -> tuple[frozenset[int], ...]:
    """The sets of intervened nodes, by index; empty for statistics without interventions."""
    if not isinstance(stats, Regimes):
        return ()
    index = {name: i for i, name in enumerate(stats.names)}
    return tuple(frozenset(index[name] for name in targets) for targets in stats.parts)


def require_rows_and_rank(stats: Source) -> None:
    """Raise unless there are three rows, no constant column, and no column that follows from the others."""
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


class GaussianGains:
    """Gains of Gaussian scores by elimination on one matrix per group.

    With `vx`, `vy` the variances left after regression on `B` and `r` the partial correlation, the gain of
    `x` is `constant[|B|] - half/2 · log(vx vy) - slope[|B|] · log(1 - r²)`, for BIC (`half` 0) as for BGe
    (`half` 1).
    """

    def __init__(
        self, matrices: list[Array], group: Index, constant: list[Array], slope: list[Array], half: float
    ) -> None:
        # One layout only, since the kernel is compiled for each anew.
        self.matrices, self.group = [np.ascontiguousarray(matrix) for matrix in matrices], group
        self.constant, self.slope, self.half = constant, slope, half

    def __call__(self, node: int, candidates: Index, sets: ParentSets, positive_only: bool) -> Array:
        """The gain of each candidate over each set; those not positive may be 0 on request."""
        from polydag.scores._family_kernels import gaussian_gains

        g = self.group[node]
        result: Array = gaussian_gains(
            self.matrices[g], node, candidates, sets.root, sets.element, sets.depth,
            self.constant[g], self.slope[g], self.half, positive_only,
        )  # fmt: skip
        return result


def log_determinant(matrix: Array) -> float:
    """The log determinant of a positive definite matrix; 0 for an empty one."""
    return float(np.linalg.slogdet(matrix)[1]) if len(matrix) else 0.0
