"""Networks under acyclicity, pooled along a central path.

The parameters are those of any `Shape`. Where a parameter has an ℓ1 penalty it is written as the difference
of two that are not negative (Zheng et al. 2020), so that L-BFGS-B sees a smooth function within bounds and
zeros are exact. Parameters that knowledge holds at a value are left out of the problem altogether.

The problem is not convex and the start matters: an order by conditional variances is a better one than small
random weights, and a quicker one.
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
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.losses.least_squares import scales
from polydag.losses.masked import MaskedMLP, MaskedShape, mask_noise
from polydag.losses.mlp import MLP, Array, Mask, Shape
from polydag.optimize.additive import additive_order, with_functions
from polydag.optimize.order import predecessors
from polydag.progress import report
from polydag.stats import GaussianStats

Function = Callable[[Array], tuple[float, Array]]
Price = Callable[[float], tuple[float, float]]  # what h costs, and how fast that grows

_OUTSIDE = 1e10  # the value where acyclicity is not defined: the line search turns back
_MEMORY = 10
_ACYCLIC = 1e-5
_STAGES = 10
_WARM = 0.1  # μ at the start: an order is known, and may still change
_NOISE_PARTS = 16
_STORED = ("lambda_", "theta", "strength", "residuals", "objective", "h")


class Loss(Protocol):
    """What a solver needs of the data."""

    def value_and_grad(self, theta: Array) -> tuple[float, Array]:
        """The loss and its gradient."""
        ...

    def squared_residuals(self, theta: Array) -> Array:
        """Every variable's residual sum of squares, divided by the total number of rows."""
        ...


class Penalties(NamedTuple):
    """The ℓ1 (or mask) penalty of each effect, and the ℓ2 penalty of every parameter."""

    effects: Array
    ridge: float


class Smooth(NamedTuple):
    """The sum of the smooth penalties, its gradient, and what cycles cost as a gradient in V."""

    value: float
    gradient: Array
    cycles: Array


class Stage(NamedTuple):
    """One stage of the path, a row of the history."""

    lambda_: float
    mu: float
    n_iter: int
    n_evaluations: int
    objective: float
    h: float
    converged: bool


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where L-BFGS-B ended."""

    theta: Array
    value: float
    n_iter: int
    n_evaluations: int
    converged: bool


@dataclass(frozen=True, eq=False)
class Solution:
    """Where the path ended, before any threshold.

    `strength` is what tells edges, `residuals` every variable's mean squared residual.
    """

    lambda_: float
    theta: Array
    strength: Array
    residuals: Array
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

    def to_arrays(self) -> dict[str, NDArray[np.generic]]:
        """All of it as arrays, to be stored."""
        whole = {name: np.asarray(getattr(self, name)) for name in _STORED}
        return {**whole, "stages": np.array(self.stages, dtype=float)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Solution:
        """The solution back, to the last bit."""
        stages = [
            Stage(rate, mu, int(steps), int(evaluations), value, left, bool(converged))
            for rate, mu, steps, evaluations, value, left, converged in arrays["stages"].tolist()
        ]
        lambda_, objective, h = (float(arrays[name]) for name in ("lambda_", "objective", "h"))
        theta, strength, residuals = (arrays[name] for name in ("theta", "strength", "residuals"))
        return cls(lambda_, theta, strength, residuals, objective, h, tuple(stages))


def central(mu: float) -> Price:
    """The price on the central path, `h/μ`."""
    return lambda h: (h / mu, 1 / mu)


def effect_rates(lambda_: float, masks: Masks) -> Array:
    """λ1 for every effect but the required ones."""
    return np.where(masks.required, 0.0, lambda_)


def minimise(
    function: Function,
    start: Array,
    lasso: Array,
    held: Mask,
    *,
    tolerance: float = 1e-6,
    max_iter: int = 300,
    told: Callable[[], None] | None = None,
) -> Minimum:
    """Minimise `function(θ) + Σ lasso·|θ|` over the parameters that are not held at their start.

    `told` is called after every step.
    """
    kinked = np.flatnonzero(~held & (lasso > 0))
    smooth = np.flatnonzero(~held & ~(lasso > 0))
    rates, k = lasso[kinked], len(kinked)
    theta = start.copy()

    def at(z: Array) -> Array:
        theta[kinked] = z[:k] - z[k : 2 * k]
        theta[smooth] = z[2 * k :]
        return theta

    def split(z: Array) -> tuple[float, Array]:
        value, gradient = function(at(z))
        slope = gradient[kinked]
        cost = value + float(rates @ (z[:k] + z[k : 2 * k]))
        return cost, np.concatenate([slope + rates, rates - slope, gradient[smooth]])

    z = np.concatenate([np.maximum(start[kinked], 0), np.maximum(-start[kinked], 0), start[smooth]])
    lower = np.where(np.arange(len(z)) < 2 * k, 0.0, -np.inf)
    bounds = Bounds(lower, np.full(len(z), np.inf)) if k else None  # walking through them takes its time
    end = minimize(
        split,
        z,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=None if told is None else lambda _: told(),
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
    shape: Shape, penalties: Penalties, acyclicity: Acyclicity, price: Price, theta: Array
) -> Smooth:
    """Sparsity, ridge and cycles, the last priced by a function of h and its slope; infinite outside."""
    h, slope = acyclicity.value_and_grad(shape.influence(theta))
    if not np.isfinite(h):
        return Smooth(np.inf, np.zeros_like(theta), slope)
    value, gradient = shape.sparsity(theta, penalties.effects)
    shrunk = np.where(shape.ridged, theta, 0.0)
    cost, rate = price(h)
    value += 0.5 * penalties.ridge * float(shrunk @ shrunk) + cost
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
    """Minimise `loss + penalties + h/μ`, with μ tenfold lower a stage until cycles have vanished.

    After that, stages at the same μ go on until one reaches its tolerance. `losses` gives the loss for
    each μ: the same one, or one with fresh noise. An infinite μ makes one stage without regard to cycles,
    for parameters that cannot form any.
    """
    theta = start
    lasso = shape.lasso(penalties.effects)
    stages: list[Stage] = []
    loss = losses()
    lambda_ = float(penalties.effects.max(initial=0.0))
    steps = itertools.count(1)
    for _ in range(_STAGES):

        def told(mu: float = mu) -> None:
            report("nonlinear NOTEARS", next(steps), None, f"λ={lambda_:.3g}, μ={mu:.0e}")

        def function(theta: Array, loss: Loss = loss, mu: float = mu) -> tuple[float, Array]:
            cost, slope, _ = smooth_penalties(shape, penalties, acyclicity, central(mu), theta)
            if not np.isfinite(cost):
                return _OUTSIDE, slope
            value, gradient = loss.value_and_grad(theta)
            return value + cost, gradient + slope

        end = minimise(function, theta, lasso, held, told=told)
        theta = end.theta
        h = acyclicity.value_and_grad(shape.influence(theta))[0]
        objective = end.value - h / mu
        stages.append(Stage(lambda_, mu, end.n_iter, end.n_evaluations, objective, h, end.converged))
        if np.isinf(mu) or (h <= _ACYCLIC and end.converged):
            break
        if h > _ACYCLIC:
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
    """Networks whose first layers tell the edges: first along an order, then free to leave it."""
    loss = MLP(rows, hidden)
    shape = loss.shape
    penalties = Penalties(effect_rates(lambda_, masks), lambda2)
    start, held = shape.hold(
        shape.start(np.random.default_rng(random_state)), masks.forbidden | ~order_of_rows(rows, masks)
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
    """Networks behind a mask that tells the edges; each stage draws its noise afresh."""
    rng = np.random.default_rng(random_state)
    shape = MaskedShape(rows.shape[1], hidden)
    start = shape.make_unlikely(shape.start(rng), ~order_of_rows(rows, masks))
    start, held = shape.hold(start, masks.forbidden)
    penalties = Penalties(effect_rates(lambda_, masks), lambda2)

    def losses() -> Loss:
        return MaskedMLP(rows, shape, mask_noise(shape.d, min(_NOISE_PARTS, len(rows)), rng))

    solution = follow_path(losses, shape, penalties, acyclicity, start, held, _WARM / shape.d)
    return replace(solution, strength=shape.probabilities(solution.theta))


def order_of_rows(rows: Array, masks: Masks) -> Mask:
    """`[i, j]`: i stands before j in the additive order."""
    table = with_functions(rows, rows.mean(axis=0), rows.std(axis=0))
    return predecessors(additive_order(GaussianStats.from_data(table), masks))


def standard_rows(rows: Array, stats: GaussianStats) -> Array:
    """Rows about the mean, in units of a typical error: one number for all columns.

    The error is that of linear regression on all other variables; the number comes from summed statistics.
    """
    error = np.exp(np.log(scales(LeastSquares.from_stats(stats))["conditional"]).mean())
    result: Array = (rows - stats.mean) / error
    return result
