"""What was estimated of linked rows, and the moments of the rows once they are decorrelated.

With `Θ = Σ⁻¹ = LᵀL`, the rows of `L (X − Z M)` are independent and follow the same DAG with the same weights.
The intercept is not taken out beforehand: it is whitened with the rows and fitted by generalised least
squares in `GaussianStats`, which is what makes moments of decorrelated parts add up to those of the whole.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataWarning
from polydag.parameters import check, number, one_of, whole
from polydag.rows.block_descent import LAMBDA2, STRUCTURES, Problem
from polydag.rows.common_strength import common_precision
from polydag.rows.dependence import DependenceTest, sentence
from polydag.rows.estimate import judge, means_of, over_permutations, scaled_problem
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import RowPrecision
from polydag.stats import GaussianStats

Array = NDArray[np.float64]
_ALIKE = 0.99  # a column whose linked rows correlate more than this is the same in all of them


@dataclass(frozen=True, eq=False)
class Decorrelation:
    """The estimated correlation of linked rows.

    Attributes
    ----------
    table : LinkedTable
        The rows, their links and covariates.
    precision : RowPrecision
        Θ, the inverse of the rows' correlation Σ, with its factor L.
    means : array of shape (1 + q, p)
        Generalised least-squares coefficients of the intercept and the covariates.
    structure : {"free", "common", "independent"}
        Whether every link has its own strength, all share one, or rows are independent.
    before, after : DependenceTest
        Are linked rows correlated, in the data and in what is left after decorrelation?
    column_correlations : array of shape (p,)
        Each column's average correlation over the links; Σ is assumed common to all columns.
    summary : str
        The test in a sentence.
    """

    table: LinkedTable
    precision: RowPrecision
    means: Array
    structure: str
    before: DependenceTest
    after: DependenceTest
    column_correlations: Array
    summary: str

    @classmethod
    def described(
        cls, table: LinkedTable, problem: Problem, scale: Array, precision: RowPrecision, residuals: Array
    ) -> Self:
        """Θ with tests before and after; warns of columns that are the same in all linked rows."""
        verdict = judge(problem, table, precision, residuals)
        alike = [name for name, r in zip(table.names, verdict.columns, strict=True) if r > _ALIKE]
        if alike:
            warnings.warn(
                f"Column {', '.join(alike)} is the same in all linked rows: it says nothing about single "
                "rows, "
                "and Σ is assumed common to all columns. Make it a covariate, or leave it out.",
                DataWarning,
                stacklevel=5,
            )
        return cls(
            table,
            precision,
            means_of(problem, precision) * scale,
            problem.structure,
            verdict.before,
            verdict.after,
            verdict.columns,
            sentence(verdict.before, table.links.n, precision.effective_n, table.links, table.group),
        )

    def rows(self) -> Array:
        """`L (X − Z M)`: independent rows."""
        return whitened(self.table, self.means, self.precision)

    def moments(self) -> GaussianStats:
        """The moments of the decorrelated rows; the intercept is fitted by generalised least squares."""
        values = self.table.values
        if self.table.covariates is not None:
            values = values - self.table.covariates @ self.means[1:]
        factor = None if self.structure == "independent" else self.precision.factor()
        return GaussianStats.from_data(values, names=self.table.names, row_factor=factor)


def whitened(table: LinkedTable, means: Array, precision: RowPrecision) -> Array:
    """`L (X − Z M)` of a table's own rows."""
    return decorrelated(table.values, table.covariates, means, precision)


def decorrelated(values: Array, covariates: Array | None, means: Array, precision: RowPrecision) -> Array:
    """`L (X − Z M)`."""
    ones = np.ones((len(values), 1))
    Z = ones if covariates is None else np.concatenate([ones, covariates], axis=1)
    return precision.whiten(values - Z @ means)


def decorrelate(
    table: LinkedTable,
    *,
    structure: str = "auto",
    correlation: float | None = None,
    lambda2: float = LAMBDA2,
    n_permutations: int = 5,
    random_state: int | None = None,
    n_jobs: int = 1,
) -> Decorrelation:
    """Estimate how the rows are correlated.

    Parameters
    ----------
    table : LinkedTable
        The rows and their links.
    structure : {"auto", "free", "common", "independent"}
        One strength for each link, or one common to all. "auto" takes the one with the lower extended BIC,
        and "common" where there are too few columns for "free".
    correlation : float, optional
        The correlation of two rows in a complete group, where it is known: nothing is estimated then.
    lambda2 : float
        The penalty on Θ's entries, for "free".
    n_permutations : int
        How many random orders of the columns are averaged, for "free".
    random_state : int, optional
        The seed of these orders.
    n_jobs : int
        Threads for the network's components.
    """
    check("structure", structure, one_of(*STRUCTURES))
    check("n_permutations", n_permutations, whole(least=1))
    if correlation is None:
        problem, scale = scaled_problem(table, structure, lambda2, n_jobs)
        found = over_permutations(problem, n_permutations, random_state)
        return Decorrelation.described(table, problem, scale, found.precision, found.residuals)
    check("correlation", correlation, number(least=0, most=0.98))
    problem, scale = scaled_problem(table, "common", lambda2, n_jobs)
    precision = common_precision(correlation, RowPrecision.independent(table.links))
    means = means_of(problem, precision)
    residuals = problem.X - problem.Z @ means
    return Decorrelation.described(table, problem, scale, precision, residuals)
