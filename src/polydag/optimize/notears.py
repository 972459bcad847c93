"""Linear NOTEARS from sufficient statistics: `min loss(W) + λ‖W‖₁` over acyclic W.

The constraint is approached along a central path, `loss + λ‖W‖₁ + h(W∘W)/μ` with μ falling (Bello et al.
2022), each stage solved by `penalised.descend`. The problem is not convex, so two starts are taken and the
lower objective wins: W = 0, and the lasso along the conditional-variance order, which is exact when error
variances are equal and costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.acyclicity import Acyclicity
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.losses.least_squares import scales
from polydag.optimize._penalised_kernels import elastic_net_columns
from polydag.optimize.order import conditional_variance_order, predecessors
from polydag.optimize.penalised import Penalty, descend
from polydag.progress import report

Array = NDArray[np.float64]

_COLD, _WARM, _LAST = 1.0, 1e-2, 1e-9
_ACYCLIC = 1e-5


class Stage(NamedTuple):
    """One stage of the path, a row of the history."""

    lambda_: float
    start: str
    mu: float
    n_iter: int
    objective: float
    h: float
    n_nonzero: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Solution:
    """Where the path ended, before any threshold."""

    lambda_: float
    W: Array
    objective: float
    h: float
    stages: tuple[Stage, ...]

    @property
    def converged(self) -> bool:
        """Whether the last stage reached its tolerance and cycles have all but vanished."""
        return self.stages[-1].converged and self.h <= _ACYCLIC

    @property
    def n_iter(self) -> int:
        """Steps over all stages."""
        return sum(stage.n_iter for stage in self.stages)


def lasso_rates(lambda_: float, masks: Masks) -> Array:
    """λ for every edge: 0 for required ones, −1 (held at zero) for forbidden ones."""
    return np.where(masks.forbidden, -1.0, np.where(masks.required, 0.0, lambda_))


def follow_path(
    loss: LeastSquares,
    lambda_: float,
    acyclicity: Acyclicity,
    masks: Masks,
    start: Array,
    label: str,
    mu: float,
) -> Solution:
    """From `start`, lower μ tenfold a stage until cycles have vanished."""
    lasso = lasso_rates(lambda_, masks)
    W = start
    stages: list[Stage] = []
    while True:
        penalty = Penalty(lambda h, mu=mu: h / mu, lambda h, mu=mu: 1 / mu)  # type: ignore[misc]
        point = descend(loss, lasso, acyclicity, penalty, W)
        W = point.W
        objective = loss.value(W) + float(np.vdot(np.maximum(lasso, 0), np.abs(W)))
        nonzero = int(np.count_nonzero(W))
        stages.append(Stage(lambda_, label, mu, point.n_iter, objective, point.h, nonzero, point.converged))
        report("NOTEARS", len(stages), None, f"λ={lambda_:.3g}, start {label}, μ={mu:.0e}, {nonzero} weights")
        if (point.h <= _ACYCLIC and mu < _WARM) or mu <= _LAST:
            return Solution(lambda_, W, objective, point.h, tuple(stages))
        mu /= 10


def order_start(loss: LeastSquares, lambda_: float, masks: Masks) -> Array:
    """The lasso of every variable on those before it in the conditional-variance order."""
    order, _ = conditional_variance_order(loss, masks)
    lasso = np.where(predecessors(order), lasso_rates(lambda_, masks), -1.0).T.copy()
    W = np.zeros((loss.d, loss.d))
    R = loss.residual_covariance(W)
    elastic_net_columns(loss.grams, loss.group, W, R, lasso, np.zeros_like(W), 1e-6, 1000)
    return W.T.copy()


def solve(
    loss: LeastSquares, lambda_: float, acyclicity: Acyclicity, masks: Masks, *, warm: Array | None = None
) -> Solution:
    """The better of two starts: the order's, and `warm` (an earlier solution) or zero."""
    ordered = follow_path(loss, lambda_, acyclicity, masks, order_start(loss, lambda_, masks), "order", _WARM)
    if warm is None:
        other = follow_path(loss, lambda_, acyclicity, masks, np.zeros((loss.d, loss.d)), "zero", _COLD)
    else:
        other = follow_path(loss, lambda_, acyclicity, masks, warm, "warm", _WARM)
    return min(ordered, other, key=lambda solution: solution.objective)


def lambda_path(loss: LeastSquares, size: int = 4) -> list[float]:
    """Penalties from the size of chance correlations with a residual, `σ·s·√(log d / n)`, halving.

    σ and s are the geometric means of the conditional and the marginal standard deviations, so the path
    follows the units of the data.
    """
    scale = scales(loss)
    size_of_noise = np.exp(np.log(scale["marginal"]).mean() + np.log(scale["conditional"]).mean())
    first = float(size_of_noise * np.sqrt(np.log(max(loss.d, 2)) / loss.n.mean()))
    return [first / 2**k for k in range(size)]


def solve_path(
    loss: LeastSquares, lambdas: Sequence[float], acyclicity: Acyclicity, masks: Masks
) -> Iterable[Solution]:
    """One solution a penalty, each a start for the next."""
    warm: Array | None = None
    for lambda_ in lambdas:
        solution = solve(loss, lambda_, acyclicity, masks, warm=warm)
        warm = solution.W
        yield solution
