"""Compiled proximal Newton steps of the graphical lasso, for one component or for all of them."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import compiled, kernel
from polydag.rows._precision_kernels import factor, invert, normalise


@kernel
def glasso_value(S: Array, Theta: Array, C: Array, rows: Index, columns: Index, penalty: Array) -> float:
    """`−log det Θ + tr(SΘ) + Σ λ|θ|` over the free entries; C is the factor of Θ."""
    value = 0.0
    for i in range(len(S)):
        value -= 2.0 * np.log(C[i, i])
    for e in range(len(rows)):
        i, j = rows[e], columns[e]
        twice = 1.0 if i == j else 2.0
        value += twice * (S[i, j] * Theta[i, j] + penalty[e] * abs(Theta[i, j]))
    return value


@compiled(fastmath=True)
def curvature(W: Array, rows: Index, columns: Index, step: Array, U: Array, out: Array) -> None:
    """`(W D W)` at the free entries, D the symmetric matrix of `step`; U is a workspace for D W."""
    m = len(W)
    U[:, :] = 0.0
    for e in range(len(rows)):
        i, j = rows[e], columns[e]
        if step[e] != 0.0:
            for t in range(m):
                U[i, t] += step[e] * W[j, t]
            if i != j:
                for t in range(m):
                    U[j, t] += step[e] * W[i, t]
    column = np.empty(m)  # U[:, i]: entries are sorted by i, so that it is gathered once for all of them
    held = -1
    for e in range(len(rows)):
        i, j = rows[e], columns[e]
        if i != held:
            held = i
            for t in range(m):
                column[t] = U[t, i]
        total = 0.0
        for t in range(m):
            total += W[j, t] * column[t]
        out[e] = total


@compiled(fastmath=True)
def promised_change(
    S: Array, Theta: Array, W: Array, rows: Index, columns: Index, penalty: Array, step: Array
) -> float:
    """The slope of the objective along the step, with the whole change of its ℓ1 term."""
    total = 0.0
    for e in range(len(rows)):
        i, j = rows[e], columns[e]
        twice = 1.0 if i == j else 2.0
        old = Theta[i, j]
        total += twice * ((S[i, j] - W[i, j]) * step[e] + penalty[e] * (abs(old + step[e]) - abs(old)))
    return total


@compiled(fastmath=True, inner=True)
def newton_direction(
    S: Array, Theta: Array, W: Array, rows: Index, columns: Index, penalty: Array, effort: int
) -> tuple[Array, float]:
    """The free entries of the Newton step with its ℓ1 term, and the change that it promises.

    Two sweeps of coordinate descent settle which entries are zero; among the others, their signs kept,
    conjugate gradients come close to the minimum however ill-conditioned Θ is (at most `effort` of them).
    """
    m = len(S)
    count = len(rows)
    step = np.zeros(count)
    U = np.zeros((m, m))
    column = np.empty(m)
    for _ in range(2):
        held = -1
        for e in range(count):
            i, j = rows[e], columns[e]
            if i != held:
                held = i
                for t in range(m):
                    column[t] = U[t, i]
            old = Theta[i, j] + step[e]
            b = S[i, j] - W[i, j]
            if old == 0.0 and abs(b) < penalty[e]:
                continue
            for t in range(m):
                b += W[j, t] * column[t]
            a = W[i, i] * W[j, j] if i == j else W[i, j] * W[i, j] + W[i, i] * W[j, j]
            z = old - b / a
            limit = penalty[e] / a
            new = z - limit if z > limit else z + limit if z < -limit else 0.0
            change = new - old
            if change != 0.0:
                step[e] += change
                for t in range(m):
                    U[i, t] += change * W[j, t]
                column[i] = U[i, i]
                if i != j:
                    for t in range(m):
                        U[j, t] += change * W[i, t]
                    column[j] = U[j, i]
    promised = promised_change(S, Theta, W, rows, columns, penalty, step)
    refined = step.copy()
    weight, inverse = np.empty(count), np.empty(count)
    residual, search, image = np.empty(count), np.zeros(count), np.empty(count)
    curvature(W, rows, columns, refined, U, image)
    product = 0.0
    for e in range(count):
        i, j = rows[e], columns[e]
        weight[e] = 1.0 if i == j else 2.0
        inverse[e] = 1.0 / (W[i, i] * W[j, j] if i == j else W[i, j] * W[i, j] + W[i, i] * W[j, j])
        now = Theta[i, j] + step[e]
        sign = 1.0 if now > 0.0 else -1.0
        residual[e] = 0.0
        if now != 0.0:
            residual[e] = W[i, j] - S[i, j] - image[e] - penalty[e] * sign
        search[e] = inverse[e] * residual[e]
        product += weight[e] * residual[e] * search[e]
    goal = 1e-3 * product
    for _ in range(effort):
        if not product > goal:
            break
        curvature(W, rows, columns, search, U, image)
        along = 0.0
        for e in range(count):
            along += weight[e] * search[e] * image[e]
        if not along > 0.0:
            break
        size = product / along
        before = product
        product = 0.0
        for e in range(count):
            if Theta[rows[e], columns[e]] + step[e] != 0.0:
                refined[e] += size * search[e]
                residual[e] -= size * image[e]
                product += weight[e] * residual[e] * residual[e] * inverse[e]
        for e in range(count):
            if Theta[rows[e], columns[e]] + step[e] != 0.0:
                search[e] = inverse[e] * residual[e] + product / before * search[e]
    better = promised_change(S, Theta, W, rows, columns, penalty, refined)
    if better < 0.0:
        return refined, better
    return step, promised


@kernel
def glasso(
    S: Array,
    Theta: Array,
    C: Array,
    W: Array,
    rows: Index,
    columns: Index,
    penalty: Array,
    tolerance: float,
    max_newton: int,
) -> int:
    """Proximal Newton steps from Θ, in place; C and W become its factor and inverse.

    Returns the number of steps, or −1 where the tolerance was not reached.
    """
    m = len(S)
    factor(Theta, C)
    invert(C, W)
    value = glasso_value(S, Theta, C, rows, columns, penalty)
    if 2 * len(rows) == m * (m + 1):
        # Without zeros and penalty the answer is S⁻¹: a start that leaves little to do, where it exists.
        direct, inverse = np.empty((m, m)), np.empty((m, m))
        if factor(S, direct):
            invert(direct, inverse)
            if factor(inverse, direct):
                other = glasso_value(S, inverse, direct, rows, columns, penalty)
                if other < value:
                    value = other
                    Theta[:, :] = inverse
                    C[:, :] = direct
                    W[:, :] = S
    trial, trial_factor = np.empty((m, m)), np.empty((m, m))
    for count in range(max_newton):
        step, promised = newton_direction(S, Theta, W, rows, columns, penalty, 10 + 5 * count)
        if not promised < -tolerance * m:
            return count
        size = 1.0
        accepted = False
        for _ in range(30):
            trial[:, :] = Theta
            for e in range(len(rows)):
                i, j = rows[e], columns[e]
                trial[i, j] += size * step[e]
                if i != j:
                    trial[j, i] = trial[i, j]
            if factor(trial, trial_factor):
                new = glasso_value(S, trial, trial_factor, rows, columns, penalty)
                if new <= value + 1e-4 * size * promised:
                    accepted = True
                    break
            size *= 0.5
        if not accepted:  # at the limits of arithmetic
            return count
        value = new
        Theta[:, :] = trial
        C[:, :] = trial_factor
        invert(C, W)
    return -1


@kernel
def update_blocks(
    first: int,
    last: int,
    R: Array,
    thetas: Array,
    factors: Array,
    frees_theta: Array,
    starts: Index,
    squares: Index,
    frees: Index,
    rows: Index,
    columns: Index,
    penalty: float,
    tolerance: float,
    max_newton: int,
) -> None:
    """The Θ-step of the components `first` to `last`: (10) without its diagonal, scaled, then a line search.

    `R` holds residuals `ρ_j X_j − X φ_j`. The estimate before scaling is kept as the next start. Between the
    old and the scaled new Θ, points are scaled too, so that each has unit variances; the first that does not
    raise the objective is taken, the old one where there is none.
    """
    p = R.shape[1]
    for c in range(first, last):
        m = starts[c + 1] - starts[c]
        own = R[starts[c] : starts[c + 1]]
        S = np.dot(own, own.T) / p
        old = thetas[squares[c] : squares[c + 1]].reshape(m, m)
        old_factor = factors[squares[c] : squares[c + 1]].reshape(m, m)
        free = frees_theta[squares[c] : squares[c + 1]].reshape(m, m)
        i, j = rows[frees[c] : frees[c + 1]], columns[frees[c] : frees[c + 1]]
        weight = np.full(len(i), penalty / p)
        for e in range(len(i)):
            if i[e] == j[e]:
                weight[e] = 0.0
        C, W = np.empty((m, m)), np.empty((m, m))
        glasso(S, free, C, W, i, j, weight, tolerance, max_newton)
        new = free.copy()
        normalise(new, C, W)
        before = glasso_value(S, old, old_factor, i, j, weight)
        share = 1.0
        trial = new.copy()
        for _ in range(12):
            if glasso_value(S, trial, C, i, j, weight) <= before:
                old[:, :] = trial
                old_factor[:, :] = C
                break
            share *= 0.5
            trial[:, :] = (1.0 - share) * old + share * new
            if not factor(trial, C):
                continue
            invert(C, W)
            normalise(trial, C, W)
