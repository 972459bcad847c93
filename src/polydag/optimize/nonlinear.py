"""Nonlinear NOTEARS: networks under an acyclicity constraint, along a central path.

The parameters may have any `Shape`. A parameter with an ℓ1 penalty is written as the difference of two
non-negative parameters (Zheng et al. 2020), so that L-BFGS-B minimises a smooth function within bounds and
zeros are exact. Parameters that knowledge fixes are excluded from the problem.

The problem is not convex, so the starting point matters. An order by conditional variances gives better
solutions than small random weights, and gives them faster.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from polydag.acyclicity import Acyclicity
from polydag.arrays import Array, Mask
from polydag.computing.progress import report
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.losses.least_squares import scales
from polydag.losses.masked import MaskedMLP, MaskedShape, mask_noise
from polydag.losses.mlp import MLP, Shape
from polydag.optimize.additive_order import additive_order, with_functions
from polydag.optimize.central_path import ACYCLIC, PathResult
from polydag.optimize.variance_order import predecessors
from polydag.stats import GaussianStats

Function = Callable[[Array], tuple[float, Array]]
CyclePenalty = Callable[[float], tuple[float, float]]  # a penalty on h, and its derivative

_OUTSIDE = 1e10  # the value where the acyclicity function is undefined: the line search backtracks
_MEMORY = 10
_STAGES = 10
_WARM = 0.1  # the initial μ when an order is known but may still change
_NOISE_PARTS = 16
_STORED = ("lambda_", "theta", "strength", "residuals", "objective", "h")


class Loss(Protocol):
    """The loss of the data as a solver uses it."""

    def value_and_grad(self, theta: Array) -> tuple[float, Array]:
        """The loss and its gradient."""
        ...

    def squared_residuals(self, theta: Array) -> Array:
        """The residual sum of squares of every variable, divided by the total number of rows."""
        ...


class Penalties(NamedTuple):
    """The ℓ1 (or mask) penalty on each effect, and the ℓ2 penalty on all parameters."""

    effects: Array
    ridge: float


class Smooth(NamedTuple):
    """The sum of the smooth penalties, its gradient, and the gradient of the cycle penalty in V."""

    value: float
    gradient: Array
    cycles: Array


class Stage(NamedTuple):
    """One stage of the path; a row of the history."""

    lambda_: float
    mu: float
    n_iter: int
    n_evaluations: int
    objective: float
    h: float
    converged: bool


@dataclass(frozen=True, eq=False)
class Minimum:
    """The result of L-BFGS-B."""

    theta: Array
    value: float
    n_iter: int
    n_evaluations: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Solution(PathResult):
    """The end of the path, before any threshold.

    `strength` is the (d, d) matrix to which the threshold applies; `residuals` holds the mean squared
    residual of every variable.
    """

    lambda_: float
    theta: Array
    strength: Array
    residuals: Array
    objective: float
    h: float
    stages: tuple[Stage, ...]

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """The solution as arrays, for storage."""
        whole = {name: np.asarray(getattr(self, name)) for name in _STORED}
        return {**whole, "stages": np.array(self.stages, dtype=float)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Solution:
        """Restore a solution exactly from its arrays."""
        stages = [
            Stage(rate, mu, int(steps), int(evaluations), value, left, bool(converged))
            for rate, mu, steps, evaluations, value, left, converged in arrays["stages"].tolist()
        ]
        lambda_, objective, h = (float(arrays[name]) for name in ("lambda_", "objective", "h"))
        theta, strength, residuals = (arrays[name] for name in ("theta", "strength", "residuals"))
        return cls(lambda_, theta, strength, residuals, objective, h, tuple(stages))


def central(mu: float) -> CyclePenalty:
    """The penalty on the central path, `h/μ`, and its derivative."""
    return lambda h: (h / mu, 1 / mu)


def effect_rates(lambda_: float, masks: Masks) -> Array:
    """The penalty λ1 for every effect, 0 for required ones."""
    return np.where(masks.required, 0.0, lambda_)


def minimise(
    function: Function,
    start: Array,
    lasso: Array,
    held: Mask,
    *,
    tolerance: float = 1e-6,
    max_iter: int = 300,
    after_step: Callable[[], None] | None = None,
) -> Minimum:
    """Minimise `function(θ) + Σ lasso·|θ|` over the parameters that are not held fixed.

    `after_step` is called after every iteration.
    """
    sparse = np.flatnonzero(~held & (lasso > 0))
    smooth = np.flatnonzero(~held & ~(lasso > 0))
    rates, k = lasso[sparse], len(sparse)
    theta = start.copy()

    def at(z: Array) -> Array:
        theta[sparse] = z[:k] - z[k : 2 * k]
        theta[smooth] = z[2 * k :]
        return theta

    def split(z: Array) -> tuple[float, Array]:
        value, gradient = function(at(z))
        slope = gradient[sparse]
        penalised = value + float(rates @ (z[:k] + z[k : 2 * k]))
        return penalised, np.concatenate([slope + rates, rates - slope, gradient[smooth]])

    z = np.concatenate([np.maximum(start[sparse], 0), np.maximum(-start[sparse], 0), start[smooth]])
    lower = np.where(np.arange(len(z)) < 2 * k, 0.0, -np.inf)
    bounds = Bounds(lower, np.full(len(z), np.inf)) if k else None  # checking bounds takes time
    end = minimize(
        split,
        z,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=None if after_step is None else lambda _: after_step(),
        options={
            "maxiter": max_iter,
            "maxfun": 2 * max_iter,
            "ftol": tolerance,
            "gtol": 1e-6,
            "maxcor": _MEMORY,
        },
    )
    return Minimum(at(end.x).copy(), float(end.fun), int(end.nit), int(end.nfev), end.status == 0)


def smooth_penalties(
    shape: Shape, penalties: Penalties, acyclicity: Acyclicity, cycle_penalty: CyclePenalty, theta: Array
) -> Smooth:
    """The sum of sparsity, ridge and cycle penalties; infinite where the acyclicity function is undefined."""
    h, slope = acyclicity.value_and_grad(shape.influence(theta))
    if not np.isfinite(h):
        return Smooth(np.inf, np.zeros_like(theta), slope)
    value, gradient = shape.sparsity(theta, penalties.effects)
    shrunk = np.where(shape.ridged, theta, 0.0)
    penalty, rate = cycle_penalty(h)
    value += 0.5 * penalties.ridge * float(shrunk @ shrunk) + penalty
    gradient += penalties.ridge * shrunk + shape.pull_back(theta, rate * slope)
    return Smooth(value, gradient, rate * slope)


def follow_path(
    losses: Callable[[], Loss],
    shape: Shape,
    penalties: Penalties,
    acyclicity: Acyclicity,
    start: Array,
    held: Mask,
    mu: float,
) -> Solution:
    """Minimise `loss + penalties + h/μ`, lowering μ tenfold per stage until cycles have vanished.

    Further stages at the same μ follow until one reaches its tolerance. `losses` returns the loss for each μ:
    the same one, or one with new noise. An infinite μ means a single stage that ignores cycles, for
    parameters that cannot form any.
    """
    theta = start
    lasso = shape.lasso(penalties.effects)
    stages: list[Stage] = []
    loss = losses()
    lambda_ = float(penalties.effects.max(initial=0.0))
    steps = itertools.count(1)
    for _ in range(_STAGES):

        def after_step(mu: float = mu) -> None:
            report("nonlinear NOTEARS", next(steps), None, f"λ={lambda_:.3g}, μ={mu:.0e}")

        def function(theta: Array, loss: Loss = loss, mu: float = mu) -> tuple[float, Array]:
            penalty, slope, _ = smooth_penalties(shape, penalties, acyclicity, central(mu), theta)
            if not np.isfinite(penalty):
                return _OUTSIDE, slope
            value, gradient = loss.value_and_grad(theta)
            return value + penalty, gradient + slope

        end = minimise(function, theta, lasso, held, after_step=after_step)
        theta = end.theta
        h = acyclicity.value_and_grad(shape.influence(theta))[0]
        objective = end.value - h / mu
        stages.append(Stage(lambda_, mu, end.n_iter, end.n_evaluations, objective, h, end.converged))
        if np.isinf(mu) or (h <= ACYCLIC and end.converged):
            break
        if h > ACYCLIC:
            mu /= 10
            loss = losses()
    residuals = loss.squared_residuals(theta)
    return Solution(lambda_, theta, shape.influence(theta), residuals, objective, h, tuple(stages))


def solve_mlp(
    rows: Array,
    hidden: int,
    lambda_: float,
    lambda2: float,
    acyclicity: Acyclicity,
    masks: Masks,
    random_state: int | None,
) -> Solution:
    """Fit networks whose first layers define the edges, first along an order, then free of it."""
    loss = MLP(rows, hidden)
    shape = loss.shape
    penalties = Penalties(effect_rates(lambda_, masks), lambda2)
    start, held = shape.hold(
        shape.start(np.random.default_rng(random_state)), masks.forbidden | ~estimated_order(rows, masks)
    )
    ordered = follow_path(lambda: loss, shape, penalties, acyclicity, start, held, np.inf)
    start, held = shape.hold(ordered.theta, masks.forbidden)
    free = follow_path(lambda: loss, shape, penalties, acyclicity, start, held, _WARM)
    strength = np.sqrt(loss.squared_slopes(free.theta))
    return replace(free, strength=strength, stages=ordered.stages + free.stages)


def solve_masked(
    rows: Array,
    hidden: int,
    lambda_: float,
    lambda2: float,
    acyclicity: Acyclicity,
    masks: Masks,
    random_state: int | None,
) -> Solution:
    """Fit networks behind a mask that defines the edges; each stage draws new noise."""
    rng = np.random.default_rng(random_state)
    shape = MaskedShape(rows.shape[1], hidden)
    start = shape.make_unlikely(shape.start(rng), ~estimated_order(rows, masks))
    start, held = shape.hold(start, masks.forbidden)
    penalties = Penalties(effect_rates(lambda_, masks), lambda2)

    def losses() -> Loss:
        return MaskedMLP(rows, shape, mask_noise(shape.d, min(_NOISE_PARTS, len(rows)), rng))

    solution = follow_path(losses, shape, penalties, acyclicity, start, held, _WARM / shape.d)
    return replace(solution, strength=shape.probabilities(solution.theta))


def estimated_order(rows: Array, masks: Masks) -> Mask:
    """`[i, j]` is true if i comes before j in the additive order of the rows."""
    table = with_functions(rows, rows.mean(axis=0), rows.std(axis=0))
    return predecessors(additive_order(GaussianStats.from_data(table), masks))


def standard_rows(rows: Array, stats: GaussianStats) -> Array:
    """Rows centred at the mean and divided by the size of a typical error, the same for all columns.

    The error is that of linear regression on all other variables, computed from sufficient statistics.
    """
    error = np.exp(np.log(scales(LeastSquares.from_stats(stats))["conditional"]).mean())
    result: Array = (rows - stats.mean) / error
    return result
