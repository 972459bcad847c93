"""Block coordinate descent for a DAG with linked rows: Algorithm 1 of the paper, on Gram matrices.

The objective (6), with the p that (5) lacks before the trace, for centred columns `X − Z M`:

    −2n Σ log ρ_j − p log det Θ + Σ_j ‖L(ρ_j X_j − X φ_j)‖² + λ1 Σ|φ| + λ2 Σ_{i≠j}|θ_ij|

Given Θ, the means are generalised least squares, whatever Φ is, and (8) needs only `G = XᵀΘX`. Given the
rest, Θ splits over the connected components of the network. No step raises the objective.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import DataError, UsageError
from polydag.rows.descent import _block_descent_kernels, _glasso_kernels
from polydag.rows.descent.glasso import in_parts
from polydag.rows.links import Links
from polydag.rows.precision import Layout, RowPrecision

Structure = Literal["free", "fixed"]

LAMBDA2 = 0.01  # the paper's
TOLERANCE = 1e-5  # of the objective, for each entry of X
MAX_ITERATIONS = 100
_LASSO_TOLERANCE, _MAX_SWEEPS = 1e-10, 2000
_NEWTON_TOLERANCE, _MAX_NEWTON = 1e-5, 2


@dataclass(frozen=True, eq=False)
class Problem:
    """The data of one descent; rows are sorted by component, columns in the order of the DAG.

    Attributes
    ----------
    X : array of shape (n, p)
        The variables.
    Z : array of shape (n, q)
        The covariates that the means depend on, a column of ones among them.
    layout : Layout
        The network's components.
    structure : {"free", "fixed"}
        Whether every link has its own entry of Θ, or Θ stays what it is at the start.
    lambda2 : float
        The penalty of Θ's entries, for "free".
    jobs : int
        Threads for the components.
    """

    X: Array
    Z: Array
    layout: Layout
    structure: Structure = "free"
    lambda2: float = LAMBDA2
    jobs: int = 1

    @classmethod
    def of(
        cls,
        X: Array,
        links: Links,
        *,
        covariates: Array | None = None,
        intercept: bool = True,
        structure: Structure = "free",
        lambda2: float = LAMBDA2,
        jobs: int = 1,
    ) -> Self:
        """The problem of a table whose rows are linked."""
        if not (np.isfinite(lambda2) and lambda2 >= 0):
            raise UsageError(f"lambda2 is a number that is not negative; got {lambda2!r}.")
        layout = Layout.of(links)
        ones = np.ones((len(X), 1 if intercept else 0))
        if covariates is not None and len(covariates) != len(X):
            raise DataError(f"The covariates have {len(covariates)} rows, the data has {len(X)}.")
        Z = ones if covariates is None else np.concatenate([ones, covariates], axis=1)
        if np.linalg.matrix_rank(Z) < Z.shape[1]:
            raise DataError("A covariate is constant, or follows from the others. Leave it out.")
        own = np.ascontiguousarray(X[layout.order], dtype=float)
        return cls(own, np.ascontiguousarray(Z[layout.order]), layout, structure, lambda2, jobs)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n, p = self.X.shape
        return n, p

    def reordered(self, order: Index) -> Self:
        """The same with the columns in another order."""
        return replace(self, X=np.ascontiguousarray(self.X[:, order]))


class State(NamedTuple):
    """Θ (scaled), its start for the next graphical lasso (not scaled), Φ with row j into column j, and ρ."""

    precision: RowPrecision
    unscaled: Array
    phi: Array
    rho: Array


class Fit(NamedTuple):
    """Where a descent ended.

    `G` is the Gram matrix of whitened, centred columns; `means` the coefficients of the covariates;
    `objectives` the value after every iteration.
    """

    state: State
    G: Array
    means: Array
    objectives: list[float]
    converged: bool

    @property
    def precision(self) -> RowPrecision:
        """Θ."""
        return self.state.precision

    @property
    def weights(self) -> Array:
        """`B`, with `B[k, j]` the effect of column k on column j."""
        result: Array = (self.state.phi / self.state.rho[:, None]).T
        return result


def start(problem: Problem) -> State:
    """Independent rows and no edges."""
    p = problem.shape[1]
    layout = problem.layout
    precision = RowPrecision(layout, layout.identity(), layout.identity())
    return State(precision, layout.identity(), np.zeros((p, p)), np.ones(p))


def descend(
    problem: Problem,
    penalty: Array,
    state: State | None = None,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
    most_parents: float = np.inf,
) -> Fit:
    """Minimise the objective from a given state.

    Parameters
    ----------
    penalty : array of shape (p, p)
        `λ1` for the effect of column k on column j at [j, k], k < j; infinite where there is to be no edge.
    most_parents : float
        Give up where a column gets more parents than this.
    """
    n, p = problem.shape
    current = start(problem) if state is None else state
    phi, rho = current.phi.copy(), current.rho.copy()
    precision, unscaled = current.precision, current.unscaled.copy()
    fixed = problem.structure == "fixed"
    objectives: list[float] = []
    while True:
        G, means = gram(problem, precision)
        _block_descent_kernels.lasso_columns(G, float(n), penalty, phi, rho, _LASSO_TOLERANCE, _MAX_SWEEPS)
        objectives.append(objective(problem, penalty, precision, G, phi, rho))
        done = fixed or (len(objectives) > 1 and objectives[-2] - objectives[-1] < tolerance * n * p)
        crowded = np.count_nonzero(phi, axis=1).max() > most_parents
        if done or crowded or len(objectives) > max_iterations:
            break
        R = (problem.X - problem.Z @ means) @ (np.diag(rho) - phi).T
        precision = _next_precision(problem, R, precision, unscaled)
    return Fit(State(precision, unscaled, phi, rho), G, means, objectives, bool(done and not crowded))


def _next_precision(problem: Problem, R: Array, old: RowPrecision, unscaled: Array) -> RowPrecision:
    """The Θ-step; `unscaled` is updated in place."""
    layout = problem.layout
    thetas, factors = old.thetas.copy(), old.factors.copy()

    def part(first: int, last: int) -> None:
        _glasso_kernels.update_blocks(
            first,
            last,
            np.ascontiguousarray(R),
            thetas,
            factors,
            unscaled,
            layout.starts,
            layout.squares,
            layout.frees,
            layout.rows,
            layout.columns,
            problem.lambda2,
            _NEWTON_TOLERANCE,
            _MAX_NEWTON,
        )

    in_parts(len(layout.sizes), problem.jobs, part)
    return RowPrecision(layout, thetas, factors)


def gram(problem: Problem, precision: RowPrecision) -> tuple[Array, Array]:
    """`G = X̃ᵀΘX̃` for columns centred by generalised least squares, and the coefficients of the covariates."""
    Y = precision.whiten_sorted(problem.X)
    if problem.Z.shape[1] == 0:
        return Y.T @ Y, np.zeros((0, Y.shape[1]))
    Q, upper = np.linalg.qr(precision.whiten_sorted(problem.Z))
    along = Q.T @ Y
    Y -= Q @ along
    return Y.T @ Y, np.linalg.solve(upper, along)


def objective(
    problem: Problem, penalty: Array, precision: RowPrecision, G: Array, phi: Array, rho: Array
) -> float:
    """The value of (6); G is the Gram matrix under `precision`."""
    n, p = problem.shape
    T = np.diag(rho) - phi
    cost = np.sum(np.abs(phi[phi != 0]) * penalty[phi != 0])
    lambda2 = problem.lambda2 if problem.structure == "free" else 0.0
    return float(
        -2.0 * n * np.log(rho).sum()
        - p * precision.log_determinant
        + np.sum((T @ G) * T)
        + cost
        + lambda2 * (precision.absolute_sum if lambda2 else 0.0)
    )
