"""Linear NOTEARS from sufficient statistics: `min loss(W) + λ‖W‖₁` over acyclic W.

The constraint is approached along a central path, `loss + λ‖W‖₁ + h(W∘W)/μ` with decreasing μ (Bello et al.
2022). Each stage is solved by `penalised.descend`. The problem is not convex, so the solver starts from two
points and keeps the lower objective: from W = 0, and from the lasso along the conditional-variance order. The
latter is exact if error variances are equal, and takes hardly any time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polydag.acyclicity import Acyclicity
from polydag.arrays import Array
from polydag.computing.progress import report
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.losses.least_squares import scales
from polydag.optimize._penalised_kernels import elastic_net_columns
from polydag.optimize.central_path import ACYCLIC, PathResult
from polydag.optimize.penalised import Penalty, descend
from polydag.optimize.variance_order import conditional_variance_order, predecessors

_COLD, _WARM, _LAST = 1.0, 1e-2, 1e-9  # μ at a cold start, at a warm start, and at the end


class Stage(NamedTuple):
    """One stage of the path; a row of the history."""

    lambda_: float
    start: str
    mu: float
    n_iter: int
    objective: float
    h: float
    n_nonzero: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Solution(PathResult):
    """The end of the path, before any threshold."""

    lambda_: float
    W: Array
    objective: float
    h: float
    stages: tuple[Stage, ...]


def lasso_rates(lambda_: float, masks: Masks) -> Array:
    """The penalty λ for every edge, 0 for required edges, and −1 (held at zero) for forbidden edges."""
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
    """Follow the path from `start`, lowering μ tenfold per stage until cycles have vanished."""
    unit = _unit(loss)
    if unit != 1:
        scaled = dataclasses.replace(loss, grams=loss.grams / unit)
        return _in_unit(
            follow_path(scaled, lambda_ / unit, acyclicity, masks, start, label, mu), unit, lambda_
        )
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
        if (point.h <= ACYCLIC and mu < _WARM) or mu <= _LAST:
            return Solution(lambda_, W, objective, point.h, tuple(stages))
        mu /= 10


def _unit(loss: LeastSquares) -> float:
    """A power of two to divide covariances by if they are far from the size for which μ is chosen; else 1."""
    size = float(np.mean([loss.gram(j)[j, j] for j in range(loss.d)]))
    return 1.0 if 1e-4 < size < 1e4 else float(2.0 ** round(np.log2(size)))


def _in_unit(solution: Solution, unit: float, lambda_: float) -> Solution:
    """The solution of a loss that was divided by `unit`, in the units of the data."""
    stages = tuple(
        stage._replace(lambda_=lambda_, objective=stage.objective * unit) for stage in solution.stages
    )
    return dataclasses.replace(solution, lambda_=lambda_, objective=solution.objective * unit, stages=stages)


def order_start(loss: LeastSquares, lambda_: float, masks: Masks) -> Array:
    """The lasso regression of every variable on those before it in the conditional-variance order."""
    order, _ = conditional_variance_order(loss, masks)
    lasso = np.where(predecessors(order), lasso_rates(lambda_, masks), -1.0).T.copy()
    W = np.zeros((loss.d, loss.d))
    R = loss.residual_covariance(W)
    elastic_net_columns(loss.grams, loss.group, W, R, lasso, np.zeros_like(W), 1e-6, 1000)
    return W.T.copy()


def solve(
    loss: LeastSquares, lambda_: float, acyclicity: Acyclicity, masks: Masks, *, warm: Array | None = None
) -> Solution:
    """The better of two solutions, from the variance order and from `warm` (an earlier solution) or zero."""
    ordered = follow_path(loss, lambda_, acyclicity, masks, order_start(loss, lambda_, masks), "order", _WARM)
    if warm is None:
        other = follow_path(loss, lambda_, acyclicity, masks, np.zeros((loss.d, loss.d)), "zero", _COLD)
    else:
        other = follow_path(loss, lambda_, acyclicity, masks, warm, "warm", _WARM)
    return min(ordered, other, key=lambda solution: solution.objective)


def lambda_path(loss: LeastSquares, size: int = 4) -> list[float]:
    """A path of penalties, halving from the size of chance correlations with a residual, `σ·s·√(log d / n)`.

    σ and s are the geometric means of the conditional and the marginal standard deviations, so the path
    scales with the units of the data.
    """
    scale = scales(loss)
    unit = np.exp(np.log(scale["marginal"]).mean() + np.log(scale["conditional"]).mean())
    first = float(unit * np.sqrt(np.log(max(loss.d, 2)) / loss.n.mean()))
    return [first / 2**k for k in range(size)]


def solve_path(
    loss: LeastSquares, lambdas: Sequence[float], acyclicity: Acyclicity, masks: Masks
) -> Iterable[Solution]:
    """One solution per penalty; each serves as a start for the next."""
    warm: Array | None = None
    for lambda_ in lambdas:
        solution = solve(loss, lambda_, acyclicity, masks, warm=warm)
        warm = solution.W
        yield solution
