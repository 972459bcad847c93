"""Compiled steps of the graphical lasso under `diag(Θ⁻¹) = 1`, for one component.

With partial correlations as coordinates the constraint is no constraint: let Ω have ones on its diagonal and
x_e at the free entries, and `d_i² = (Ω⁻¹)_ii`; then `Θ = D Ω D` has an inverse with a unit diagonal, and

    f(x) = −log det Ω − 2 Σ log d_i + Σ_ij S_ij d_i d_j Ω_ij + Σ_e 2 λ_e d_a d_b |x_e|

is smooth but for its last term, which the orthant-wise quasi-Newton method handles (Andrew and Gao 2007).
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import kernel
from polydag.rows._precision_kernels import factor, invert, normalise

_MEMORY = 12


@kernel
def assemble(x: Array, rows: Index, columns: Index, Omega: Array) -> None:
    """Ω with x at its free entries."""
    m = len(Omega)
    Omega[:, :] = 0.0
    for i in range(m):
        Omega[i, i] = 1.0
    for e in range(len(rows)):
        if rows[e] != columns[e]:
            Omega[rows[e], columns[e]] = x[e]
            Omega[columns[e], rows[e]] = x[e]


@kernel
def value_and_slopes(
    S: Array,
    x: Array,
    rows: Index,
    columns: Index,
    penalty: Array,
    Omega: Array,
    C: Array,
    V: Array,
    slopes: Array,
    costs: Array,
) -> float:
    """f(x), the slopes of all but the last term's |x_e|, and what that costs for each unit of |x_e|.

    Ω, its factor C and its inverse V are written as well; infinite where Ω is not positive definite.
    """
    m = len(S)
    assemble(x, rows, columns, Omega)
    if not factor(Omega, C):
        return np.inf
    invert(C, V)
    d = np.empty(m)
    inner = np.empty(m)
    value = 0.0
    for i in range(m):
        d[i] = np.sqrt(V[i, i])
        value -= 2.0 * np.log(C[i, i]) + 2.0 * np.log(d[i])
    for i in range(m):
        inner[i] = S[i, i] * d[i]
        value += S[i, i] * d[i] * d[i]
    for e in range(len(rows)):
        a, b = rows[e], columns[e]
        costs[e] = 0.0
        if a == b:
            continue
        each = S[a, b] * x[e] + penalty[e] * abs(x[e])
        value += 2.0 * d[a] * d[b] * each
        inner[a] += d[b] * each
        inner[b] += d[a] * each
        costs[e] = 2.0 * penalty[e] * d[a] * d[b]
    weighted = np.empty((m, m))
    for i in range(m):
        along = (2.0 * inner[i] - 2.0 / d[i]) / d[i]
        for j in range(m):
            weighted[i, j] = along * V[i, j]
    through = np.dot(V, weighted)
    for e in range(len(rows)):
        a, b = rows[e], columns[e]
        slopes[e] = 0.0
        if a != b:
            slopes[e] = -2.0 * V[a, b] + 2.0 * S[a, b] * d[a] * d[b] - through[a, b]
    return value


@kernel
def steepest(x: Array, slopes: Array, costs: Array, result: Array) -> float:
    """The slopes of f with the term of |x_e|, zero where neither direction falls; the largest of them."""
    largest = 0.0
    for e in range(len(x)):
        if x[e] > 0.0:
            result[e] = slopes[e] + costs[e]
        elif x[e] < 0.0:
            result[e] = slopes[e] - costs[e]
        elif slopes[e] + costs[e] < 0.0:
            result[e] = slopes[e] + costs[e]
        elif slopes[e] - costs[e] > 0.0:
            result[e] = slopes[e] - costs[e]
        else:
            result[e] = 0.0
        largest = max(largest, abs(result[e]))
    return largest


@kernel
def unit_diagonal(
    S: Array,
    Theta: Array,
    C: Array,
    rows: Index,
    columns: Index,
    penalty: Array,
    tolerance: float,
    most: int,
) -> float:
    """Quasi-Newton steps from Θ, whose inverse has a unit diagonal, in place; C becomes its factor.

    Returns the largest slope that is left.
    """
    m, count = len(S), len(rows)
    Omega, V = np.empty((m, m)), np.empty((m, m))
    x, slopes, costs, pull = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    for e in range(count):
        a, b = rows[e], columns[e]
        x[e] = 0.0 if a == b else Theta[a, b] / np.sqrt(Theta[a, a] * Theta[b, b])
    value = value_and_slopes(S, x, rows, columns, penalty, Omega, C, V, slopes, costs)
    left = steepest(x, slopes, costs, pull)
    moves, turns = np.zeros((_MEMORY, count)), np.zeros((_MEMORY, count))
    products = np.zeros(_MEMORY)
    shares = np.zeros(_MEMORY)
    kept = 0
    trial, new_slopes, new_costs = np.empty(count), np.empty(count), np.empty(count)
    direction, new_pull, scale = np.empty(count), np.empty(count), np.empty(count)
    for _ in range(most):
        if left <= tolerance:
            break
        direction[:] = -pull
        used = min(kept, _MEMORY)
        for back in range(used):
            k = (kept - 1 - back) % _MEMORY
            shares[k] = np.dot(moves[k], direction) / products[k]
            direction -= shares[k] * turns[k]
        for e in range(count):  # about the inverse of the curvature along each coordinate
            a, b = rows[e], columns[e]
            scale[e] = 0.5 / (V[a, a] * V[b, b] + V[a, b] * V[a, b])
        if used > 0:
            k = (kept - 1) % _MEMORY
            scale *= products[k] / np.dot(turns[k], scale * turns[k])
        direction *= scale
        for forth in range(used):
            k = (kept - used + forth) % _MEMORY
            direction += (shares[k] - np.dot(turns[k], direction) / products[k]) * moves[k]
        falls = 0.0
        for e in range(count):
            if direction[e] * pull[e] >= 0.0:
                direction[e] = 0.0
            falls += direction[e] * pull[e]
        size, accepted, new = 1.0, False, value
        for _ in range(40):
            change = 0.0
            for e in range(count):
                trial[e] = x[e] + size * direction[e]
                sign = x[e] if x[e] != 0.0 else -pull[e]
                if trial[e] * sign < 0.0:
                    trial[e] = 0.0
                change += pull[e] * (trial[e] - x[e])
            new = value_and_slopes(S, trial, rows, columns, penalty, Omega, C, V, new_slopes, new_costs)
            if new <= value + 1e-4 * change:
                accepted = True
                break
            size *= 0.5
        if not accepted:
            value_and_slopes(S, x, rows, columns, penalty, Omega, C, V, slopes, costs)
            if kept == 0:  # at the limits of arithmetic
                break
            kept = 0
            continue
        left = steepest(trial, new_slopes, new_costs, new_pull)
        k = kept % _MEMORY
        product = 0.0
        for e in range(count):
            moves[k, e] = trial[e] - x[e]
            before = slopes[e] + costs[e] * np.sign(x[e])
            turns[k, e] = new_slopes[e] + new_costs[e] * np.sign(trial[e]) - before
            product += moves[k, e] * turns[k, e]
        if product > 1e-14 * np.dot(turns[k], turns[k]):
            products[k] = product
            kept += 1
        x[:] = trial
        slopes[:] = new_slopes
        costs[:] = new_costs
        pull[:] = new_pull
        value = new
    value_and_slopes(S, x, rows, columns, penalty, Omega, C, V, slopes, costs)
    normalise(Omega, C, V)
    Theta[:, :] = Omega
    return left
