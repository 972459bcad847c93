"""The two steps of an ADMM round, equations (2) and (3) of Ng and Zhang (2022), for networks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polydag.acyclicity import Acyclicity
from polydag.arrays import Array, Mask
from polydag.losses.mlp import Shape
from polydag.optimize.nonlinear import CyclePenalty, Loss, Minimum, Penalties, minimise, smooth_penalties

_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-8


class Point(NamedTuple):
    """The end of the coordinator's step, and whether it reached its tolerance."""

    theta: Array
    h: float
    converged: bool


def local_step(
    loss: Loss,
    start: Array,
    centre: Array,
    rho: float,
    held: Mask,
    *,
    tolerance: float = 1e-7,
    max_iter: int = 10,
) -> Minimum:
    """The party's step: minimise `loss(θ) + ρ/2·‖θ − C‖²` by L-BFGS, with the loss divided by the total n.

    With `C = W − β/ρ` this is equation (2).
    """

    def function(theta: Array) -> tuple[float, Array]:
        value, gradient = loss.value_and_grad(theta)
        offset = theta - centre
        return value + 0.5 * rho * float(offset @ offset), gradient + rho * offset

    return minimise(function, start, np.zeros(len(start)), held, tolerance=tolerance, max_iter=max_iter)


def server_step(
    shape: Shape,
    mean: Array,
    pull: float,
    penalties: Penalties,
    acyclicity: Acyclicity,
    cycle_penalty: CyclePenalty,
    start: Array,
    held: Mask,
    *,
    tolerance: float = 1e-8,
    max_iter: int = 100,
) -> Point:
    """The coordinator's step: minimise `penalties(W) + cycle_penalty(h(W)) + pull/2·‖W − mean‖²`.

    As in `penalised.descend`, the acyclicity term is replaced by its first-order model in V. Each parameter
    can then be minimised separately, and a line search makes every step a descent step.

    Parameters
    ----------
    shape : Shape
        The layout of the parameters.
    mean : array
        `(1/K) Σ (θ_k + β_k/ρ2)`, the only quantity that depends on the parties.
    pull : float
        `K·ρ2`.
    penalties : Penalties
        The penalties on effects and parameters.
    acyclicity : Acyclicity
        The acyclicity function h.
    cycle_penalty : callable
        The penalty on h and its derivative: `augmented(α, ρ1)` or `central(μ)`.
    start : array
        The previous W; the acyclicity function must be defined there.
    held : bool array
        The parameters held fixed.
    tolerance, max_iter
        Stop when a step improves the objective by less than this fraction, or after so many steps.
    """
    lasso = shape.lasso(penalties.effects)
    fixed = pull + penalties.ridge * shape.ridged

    def at(theta: Array) -> tuple[float, Array, Array]:
        value, gradient, cycles = smooth_penalties(shape, penalties, acyclicity, cycle_penalty, theta)
        offset = theta - mean
        objective = value + 0.5 * pull * float(offset @ offset) + float(lasso @ np.abs(theta))
        return objective, gradient + pull * offset, cycles

    theta = start
    value, gradient, cycles = at(theta)
    if not np.isfinite(value):
        raise ValueError("the start is outside the domain of the acyclicity function")
    converged = False
    for _ in range(max_iter):
        curvature = fixed + shape.curvature(theta, penalties.effects, cycles)
        free = curvature * theta - gradient
        target = np.sign(free) * np.maximum(np.abs(free) - lasso, 0.0) / curvature
        direction = np.where(held, 0.0, target - theta)
        predicted = float(gradient @ direction) + float(lasso @ (np.abs(theta + direction) - np.abs(theta)))
        step = 1.0
        while step > _SMALLEST_STEP:
            new = np.where(held, theta, target) if step == 1.0 else theta + step * direction
            reached, new_gradient, new_cycles = at(new)
            if reached <= value + _SUFFICIENT * step * predicted:
                break
            step /= 2
        else:
            converged = True
            break
        gain = value - reached
        theta, value, gradient, cycles = new, reached, new_gradient, new_cycles
        if gain <= tolerance * abs(value):
            converged = True
            break
    return Point(theta, acyclicity.value_and_grad(shape.influence(theta))[0], converged)


def augmented(alpha: float, rho1: float) -> CyclePenalty:
    """The penalty of the augmented Lagrangian, `αh + ρ1/2·h²`, and its derivative."""
    return lambda h: (alpha * h + 0.5 * rho1 * h * h, alpha + rho1 * h)
