"""A path of λ1 from the empty graph down, with warm starts, and the choice by BIC.

The criterion is the authors': `n Σ log ω̂² − p log det Θ + tr + log(max(n, p))·s0`, with ω̂ refitted by least
squares on the support; the extended form counts the entries of Θ as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from polydag.computing.progress import report
from polydag.rows.descent import _block_descent_kernels
from polydag.rows.descent.block_descent import Fit, Problem, descend, start
from polydag.rows.precision import RowPrecision

N_LAMBDAS, RATIO = 10, 100.0
PATIENCE = 2
_DEEPEST = 1e4  # how far below the largest λ1 a path goes by equal ratios, where it ends at zero
MOST_PARENTS = 0.5  # of the rows: beyond it least squares says little, and at all of them the BIC is −∞


class Path(NamedTuple):
    """The fits along a path; `crowded` says so where it ended because of too many edges."""

    lambdas: list[float]
    fits: list[Fit]
    criteria: list[float]
    crowded: str

    @property
    def best(self) -> int:
        """The place of the fit with the lowest criterion."""
        return int(np.argmin(self.criteria))


def lambda_path(
    problem: Problem,
    *,
    n_lambdas: int = N_LAMBDAS,
    ratio: float = RATIO,
    smallest: float | None = None,
    patience: int | None = PATIENCE,
    extended: bool = False,
    precision: RowPrecision | None = None,
) -> Path:
    """Descend along a path of λ1, from the smallest without edges to `ratio` times less.

    Parameters
    ----------
    smallest : float, optional
        End the path at this λ1 instead.
    patience : int, optional
        Stop when the criterion has not fallen for so many steps, counted once the best graph has edges
        (with more columns than rows it may rise first); None runs to the end.
    precision : RowPrecision, optional
        Where the rows' correlation is known already: it is kept as it is.
    """
    n, p = problem.shape
    first = start(problem)
    if precision is not None:
        problem = replace(problem, structure="fixed")  # Θ stays what it is at the start
        first = first._replace(precision=precision)
    free = np.tri(p, k=-1, dtype=bool)
    empty = descend(problem, np.full((p, p), np.inf), first)
    # Without edges ρ_j = (n / G_jj)^½, and φ_jk moves from zero where 2 ρ_j |G_jk| exceeds λ1.
    pull = 2.0 * empty.state.rho[:, None] * np.abs(empty.G)
    largest = float(pull[free].max()) if free.any() else 0.0
    end = largest / ratio if smallest is None else smallest
    lambdas, fits, criteria = [largest], [empty], [bic(problem, empty, extended=extended)]
    crowded = ""
    wanted: list[float] = []
    if end < largest:
        wanted = np.geomspace(largest, max(end, largest / _DEEPEST), n_lambdas)[1:].tolist()
        wanted[-1] = end
    for number, lam in enumerate(wanted, start=2):
        report("penalties", number, n_lambdas, f"{np.count_nonzero(fits[-1].state.phi)} edges")
        limit = MOST_PARENTS * (n - problem.Z.shape[1])
        fit = descend(problem, np.where(free, lam, np.inf), fits[-1].state, most_parents=limit)
        most = int(np.count_nonzero(fit.state.phi, axis=1).max())
        if most > limit:
            crowded = (
                f"The path stopped at λ1 = {lam:.3g}: a variable has {most} parents there, too many "
                f"for {n} rows."
            )
            break
        lambdas.append(float(lam))
        fits.append(fit)
        criteria.append(bic(problem, fit, extended=extended))
        best = int(np.argmin(criteria))
        if patience is not None and best > 0 and len(fits) - 1 - best >= patience:
            break
    return Path(lambdas, fits, criteria, crowded)


def bic(problem: Problem, fit: Fit, *, extended: bool = False) -> float:
    """The criterion of a fit."""
    n, p = problem.shape
    rss = _block_descent_kernels.refit(fit.G, fit.state.phi)
    if not (rss > 0).all():
        return np.inf
    edges = np.count_nonzero(fit.state.phi)
    entries = 0
    if extended and problem.structure == "free":
        entries = (int(np.count_nonzero(fit.precision.thetas)) - n) // 2
    likelihood = n * np.log(rss / n).sum() - p * fit.precision.log_determinant + n * p
    return float(likelihood + np.log(max(n, p)) * (edges + entries))
