"""The two halves of an ADMM round, (2) and (3) of Ng and Zhang (2022), with networks for weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polydag.acyclicity import Acyclicity
from polydag.losses.mlp import Array, Mask, Shape
from polydag.optimize.nonlinear import Loss, Minimum, Penalties, Price, minimise, smooth_penalties

_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-8


class Point(NamedTuple):
    """Where the coordinator's step ended, and whether by its tolerance."""

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
    """A site's step: `loss(θ) + ρ/2·‖θ − C‖²` by L-BFGS from `start`, with the loss over the total n.

    With `C = W − β/ρ` these are the terms of (2).
    """

    def function(theta: Array) -> tuple[float, Array]:
        value, gradient = loss.value_and_grad(theta)
        apart = theta - centre
        return value + 0.5 * rho * float(apart @ apart), gradient + rho * apart

    return minimise(function, start, np.zeros(len(start)), held, tolerance=tolerance, max_iter=max_iter)


def server_step(
    shape: Shape,
    mean: Array,
    pull: float,
    penalties: Penalties,
    acyclicity: Acyclicity,
    price: Price,
    start: Array,
    held: Mask,
    *,
    tolerance: float = 1e-8,
    max_iter: int = 100,
) -> Point:
    """The coordinator's step: `penalties(W) + price(h(W)) + pull/2·‖W − mean‖²` from `start`.

    As `solvers.penalised`: cycles are replaced by their model in V, with which every parameter can be
    minimised by itself, and a line search makes each step a descent.

    Parameters
    ----------
    mean : array
        `(1/K) Σ (θ_k + β_k/ρ2)`, all that is used of the sites.
    pull : float
        `K·ρ2`.
    price : callable
        What h costs and the slope of that: `augmented(α, ρ1)` or `central(μ)`.
    start : array
        The last W: acyclicity must be defined there.
    """
    lasso = shape.lasso(penalties.effects)
    fixed = pull + penalties.ridge * shape.ridged

    def at(theta: Array) -> tuple[float, Array, Array]:
        value, gradient, cycles = smooth_penalties(shape, penalties, acyclicity, price, theta)
        apart = theta - mean
        cost = value + 0.5 * pull * float(apart @ apart) + float(lasso @ np.abs(theta))
        return cost, gradient + pull * apart, cycles

    theta = start
    value, gradient, cycles = at(theta)
    if not np.isfinite(value):
        raise ValueError("the start is outside the domain of the acyclicity function")
    converged = False
    for _ in range(max_iter):
        curvature = fixed + shape.curvature(theta, penalties.effects, cycles)
        free = curvature * theta - gradient
        target = np.sign(free) * np.maximum(np.abs(free) - lasso, 0.0) / curvature
        way = np.where(held, 0.0, target - theta)
        promised = float(gradient @ way) + float(lasso @ (np.abs(theta + way) - np.abs(theta)))
        step = 1.0
        while step > _SMALLEST_STEP:
            new = np.where(held, theta, target) if step == 1.0 else theta + step * way
            reached, new_gradient, new_cycles = at(new)
            if reached <= value + _SUFFICIENT * step * promised:
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


def augmented(alpha: float, rho1: float) -> Price:
    """The price of the augmented Lagrangian, `αh + ρ1/2·h²`."""
    return lambda h: (alpha * h + 0.5 * rho1 * h * h, alpha + rho1 * h)
