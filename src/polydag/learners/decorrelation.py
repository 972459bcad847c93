"""Linked rows: what is told about them, and a transformer that decorrelates them."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from polydag.errors import DataWarning, UsageError
from polydag.rows.block_descent import LAMBDA2, Problem
from polydag.rows.dependence import DependenceTest, sentence
from polydag.rows.estimate import judge, means_of, over_permutations, scaled_problem
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import RowPrecision

Array = NDArray[np.float64]


class RowCorrelation(BaseEstimator):  # type: ignore[misc]
    """What a fitted estimator tells about the rows.

    Attributes
    ----------
    row_precision_ : RowPrecision
        Θ, with its factor and inverse, one block for each connected component.
    effective_n_ : float
        How many independent rows these are worth for finding edges, `n²/tr(Σ²)`.
    test_, test_after_ : DependenceTest
        Are linked rows correlated? In the data, and in what is left after decorrelation.
    column_correlations_ : Series
        Each column's average correlation over the links; they should be alike, since Σ is common to all.
    structure_ : str
        "free", "common" or "independent".
    summary_ : str
        What the test says, in a sentence.
    """

    row_precision_: RowPrecision
    test_: DependenceTest
    test_after_: DependenceTest
    column_correlations_: pd.Series[float]
    structure_: str
    summary_: str

    @property
    def row_correlation_(self) -> Any:
        """Σ, sparse, rows in the order of the data."""
        return self.row_precision_.correlation()

    @property
    def row_factor_(self) -> Any:
        """`L` with `Σ⁻¹ = LᵀL`, sparse: the `row_factor` of `GaussianStats.from_data`."""
        return self.row_precision_.factor()

    @property
    def effective_n_(self) -> float:
        """How many independent rows these are worth for finding edges."""
        return self.row_precision_.effective_n

    def _describe(self, problem: Problem, table: LinkedTable, precision: RowPrecision, left: Array) -> None:
        verdict = judge(problem, table, precision, left)
        self.row_precision_ = precision
        self.structure_ = problem.structure
        self.test_, self.test_after_ = verdict.before, verdict.after
        self.column_correlations_ = pd.Series(verdict.columns, index=list(table.names))
        self.summary_ = sentence(
            verdict.before, table.links.n, precision.effective_n, table.links, table.group
        )
        if same := [name for name, r in self.column_correlations_.items() if r > 0.99]:
            warnings.warn(
                f"Column {', '.join(map(str, same))} is the same in all linked rows: it says nothing about "
                "single rows, and Σ is assumed common to all columns. Make it a covariate, or leave it out.",
                DataWarning,
                stacklevel=4,
            )


class RowDecorrelator(TransformerMixin, RowCorrelation):  # type: ignore[misc]
    """Make linked rows independent, whatever the order of the variables.

    The correlation Σ of the rows is estimated in random orders of the columns and averaged (as the inverse Θ,
    so that rows without a link stay conditionally independent); the transformed table is `L (X − means)` with
    `Σ⁻¹ = LᵀL`. Its rows follow the same DAG with the same weights.

    Parameters
    ----------
    links : pairs of rows, networkx graph, sparse matrix, labels, coordinates, Links, or the name of a column
        Which rows may depend on each other. Rows are named as in the table's index, or numbered from 0. One
        dimension is group labels, as is the column that a text names; a table of decimal numbers is
        coordinates, with 5 neighbours each (`polydag.rows.Links.from_coordinates` for another number).
    covariates : names of columns, or array of shape (n, q), optional
        What the means depend on, besides an intercept; these columns are not transformed.
    structure : {"auto", "free", "common", "independent"}
        One strength for each link, or one common to all. "auto" is the one with the lower extended BIC, and
        common where there are too few columns for free.
    lambda2 : float
        The penalty on Θ's entries, for the free structure.
    n_permutations : int
        How many orders of the columns are averaged, for the free structure.
    random_state : int, optional
        The seed of the orders.
    n_jobs : int
        Threads for the network's components.

    Examples
    --------
    >>> from polydag import simulate
    >>> dag = simulate.dag(40, n_edges=40, random_state=0)
    >>> schools = simulate.clusters("equi", 200, 5, base=0.7)
    >>> X = simulate.linked(dag, row_covariance=schools, random_state=1)
    >>> model = RowDecorrelator([row // 5 for row in range(200)], random_state=0).fit(X)
    >>> print(model.summary_)
    Rows are correlated within groups (about 0.67, p < 1e-16): for edges, 200 rows are worth about 69.
    """

    means_: Array

    def __init__(
        self,
        links: Any = None,
        *,
        covariates: Any = None,
        structure: str = "auto",
        lambda2: float = LAMBDA2,
        n_permutations: int = 5,
        random_state: int | None = None,
        n_jobs: int = 1,
    ) -> None:
        self.links = links
        self.covariates = covariates
        self.structure = structure
        self.lambda2 = lambda2
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: None = None) -> Self:
        """Estimate how the rows are correlated; `y` is ignored."""
        table = LinkedTable.of(X, self.links, self.covariates)
        self._fit(table, scaled_problem(table, self.structure, self.lambda2, self.n_jobs))
        return self

    def _fit(self, table: LinkedTable, scaled: tuple[Problem, Array]) -> None:
        if self.n_permutations < 1:
            raise UsageError(f"n_permutations must be at least 1; got {self.n_permutations}.")
        problem, scale = scaled
        found = over_permutations(problem, self.n_permutations, self.random_state)
        self._describe(problem, table, found.precision, found.residuals)
        self.residuals_ = found.residuals
        self.means_ = means_of(problem, found.precision) * scale
        self.n_features_in_ = len(table.names)
        self.feature_names_in_ = np.array(table.names, dtype=object)
        self._table = table

    def transform(self, X: Any) -> Any:
        """`L (X − means)` of a table with the fitted rows; a DataFrame where X is one."""
        group = self.links if isinstance(self.links, str) else ""
        values, covariates = self._table.of_same_rows(X, group, self.covariates)
        result = decorrelated(values, covariates, self.means_, self.row_precision_)
        if not hasattr(X, "columns"):
            return result
        return pd.DataFrame(result, columns=list(self._table.names), index=X.index)


def decorrelated(values: Array, covariates: Array | None, means: Array, precision: RowPrecision) -> Array:
    """`L (X − Z M)`."""
    ones = np.ones((len(values), 1))
    Z = ones if covariates is None else np.concatenate([ones, covariates], axis=1)
    return precision.whiten(values - Z @ means)
