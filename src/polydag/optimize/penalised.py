"""Minimise `loss(W) + Σ λ_ij |W_ij| + φ(h(W∘W))` for a quadratic loss and any acyclicity function h.

Each step leaves the loss and the ℓ1 term unchanged and replaces the last term by its first-order model in `V
= W∘W`, `φ'(h)·⟨∂h/∂V, W∘W⟩`. This is a ridge penalty, since ∂h/∂V is non-negative. The resulting problem is
one elastic net per variable, solved by coordinate descent on the Gram matrix. The model has the true
gradient, so its minimiser is a descent direction, and a line search makes every step decrease the objective
(successive convex approximation, Scutari et al. 2014). The ℓ1 term is never smoothed, so zeros are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from polydag.acyclicity import Acyclicity
from polydag.arrays import Array, Index
from polydag.optimize._penalised_kernels import elastic_net_columns, predicted_change, quadratic_and_lasso

_SWEEPS = 10  # enough for a descent direction; exact minimisers take longer and end in worse optima
_SWEEP_TOLERANCE = 1e-4
_SUFFICIENT = 1e-4
_SMALLEST_STEP = 1e-10


class Quadratic(Protocol):
    """A loss `½ Σ_j (c_j − w_j)ᵀ S_j (c_j − w_j)`; in least squares, the `c_j` are unit vectors."""

    @property
    def grams(self) -> Array:
        """The distinct matrices `S`."""
        ...

    @property
    def group(self) -> Index:
        """The index of the matrix of each variable."""
        ...

    @property
    def centre(self) -> Array:
        """The matrix with columns `c_j`, where the loss is zero."""
        ...

    def residual_covariance(self, W: Array) -> Array:
        """The matrix with rows `S_j (c_j − w_j)`."""
        ...


class Penalty(NamedTuple):
    """φ, the penalty on the acyclicity value h, and its derivative; both are functions of h."""

    value: Callable[[float], float]
    slope: Callable[[float], float]


@dataclass(frozen=True, eq=False)
class Point:
    """The end of a descent."""

    W: Array
    objective: float
    h: float
    n_iter: int
    converged: bool


def descend(
    loss: Quadratic,
    lasso: Array,
    acyclicity: Acyclicity,
    penalty: Penalty,
    start: Array,
    *,
    tolerance: float = 1e-7,
    max_iter: int = 1000,
) -> Point:
    """Minimise from `start` until a step improves the objective by less than the fraction `tolerance`.

    Parameters
    ----------
    loss : Quadratic
        The quadratic loss.
    lasso : array of shape (d, d)
        The ℓ1 penalty of each edge; a negative entry fixes that weight at its starting value.
    acyclicity : Acyclicity
        The acyclicity function h; it must be defined at `start`.
    penalty : Penalty
        The penalty φ on h.
    start : array of shape (d, d)
        The starting weights.
    tolerance, max_iter
        When to stop.
    """
    W = start.T.copy()  # row j holds the weights into j, the memory order of the kernel
    R = loss.residual_covariance(start)
    centre = np.ascontiguousarray(loss.centre.T)
    rates = np.ascontiguousarray(lasso.T)
    cost = np.maximum(rates, 0.0)

    h, slope = acyclicity.value_and_grad((W * W).T)
    if not np.isfinite(h):
        raise ValueError("the start is outside the domain of the acyclicity function")
    value = quadratic_and_lasso(W, R, centre, cost) + penalty.value(h)
    for iteration in range(1, max_iter + 1):
        ridge = np.ascontiguousarray(2 * penalty.slope(h) * slope.T)
        target, target_R = W.copy(), R.copy()
        elastic_net_columns(loss.grams, loss.group, target, target_R, rates, ridge, _SWEEP_TOLERANCE, _SWEEPS)
        predicted = predicted_change(W, R, target, ridge, cost)
        step, new, new_R = 1.0, target, target_R
        while step > _SMALLEST_STEP:
            new_h, new_slope = acyclicity.value_and_grad((new * new).T)
            if np.isfinite(new_h):
                reached = quadratic_and_lasso(new, new_R, centre, cost) + penalty.value(new_h)
                if reached <= value + _SUFFICIENT * step * predicted:
                    break
            step /= 2
            new, new_R = W + step * (target - W), R + step * (target_R - R)
        else:
            return Point(W.T.copy(), value, h, iteration, converged=True)
        W, R, h, slope = new, new_R, new_h, new_slope
        gain, value = value - reached, reached
        if gain <= tolerance * abs(value):
            return Point(W.T.copy(), value, h, iteration, converged=True)
    return Point(W.T.copy(), value, h, max_iter, converged=False)
