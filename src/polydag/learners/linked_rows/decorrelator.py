"""A transformer that decorrelates linked rows."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import TransformerMixin

from polydag.arrays import Array
from polydag.errors import DataWarning
from polydag.learners.base import Estimator
from polydag.rows.decorrelation import Decorrelation, decorrelate, decorrelated
from polydag.rows.dependence import DependenceTest
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import RowPrecision
from polydag.rows.structures.settings import DEFAULT_FREE, FreeStructure


class RowCorrelation(Estimator):
    """What a fitted estimator reports about the rows.

    Attributes
    ----------
    row_precision_ : RowPrecision
        Θ, the inverse of the rows' correlation, one block for each connected component.
    effective_n_ : float
        How many independent rows these are worth for edges where dependence is ignored, `n²/tr(Σ²)`.
    decorrelated_n_ : int
        How many they are worth once they are decorrelated: their number, less the intercept and covariates.
    test_, test_after_ : DependenceTest
        Are linked rows correlated, in the data and in what is left after decorrelation?
    column_correlations_ : Series
        Each column's own correlation of linked rows (in groups, the intraclass correlation), by restricted
        likelihood; Σ is assumed common to all columns.
    columns_p_value_ : float
        Of the likelihood-ratio test that it is; NaN where the structure has more than one strength.
    structure_ : str
        The structure of Σ: "common", "decay", "matern", "smooth", "block", "kinds", "known", "free" or
        "independent".
    structure_parameters_ : dict
        Its parameters by name.
    structures_ : DataFrame
        The structures that were compared, with the deviance of held-out columns.
    summary_ : str
        The test in a sentence.
    """

    decorrelation_: Decorrelation

    @property
    def row_precision_(self) -> RowPrecision:
        """Θ, with its factor and inverse."""
        return self.decorrelation_.precision

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
        """How many independent rows these are worth for edges where dependence is ignored."""
        return self.row_precision_.effective_n

    @property
    def decorrelated_n_(self) -> int:
        """How many independent rows these are worth for edges once they are decorrelated."""
        return self.decorrelation_.decorrelated_n

    @property
    def test_(self) -> DependenceTest:
        """Are linked rows correlated?"""
        return self.decorrelation_.before

    @property
    def test_after_(self) -> DependenceTest:
        """Are they correlated after decorrelation?"""
        return self.decorrelation_.after

    @property
    def column_correlations_(self) -> pd.Series[float]:
        """Each column's own correlation of linked rows."""
        found = self.decorrelation_
        return pd.Series(found.column_correlations, index=list(found.table.names))

    @property
    def columns_p_value_(self) -> float:
        """Of the test that all columns have one strength; NaN where the structure has more than that."""
        return self.decorrelation_.columns_p_value

    @property
    def structure_(self) -> str:
        """The name of the structure of Σ."""
        return self.decorrelation_.structure

    @property
    def structure_parameters_(self) -> dict[str, float]:
        """The parameters of the structure."""
        return self.decorrelation_.parameters

    @property
    def structures_(self) -> pd.DataFrame:
        """The structures that were compared."""
        return self.decorrelation_.candidates

    @property
    def summary_(self) -> str:
        """The test in a sentence."""
        return self.decorrelation_.summary


class RowDecorrelator(TransformerMixin, RowCorrelation):  # type: ignore[misc]
    """Make linked rows independent, whatever the order of the variables.

    The correlation Σ of the rows is estimated in random orders of the columns and averaged (as the inverse Θ,
    so that rows without a link stay conditionally independent). The transformed table is `L (X − means)` with
    `Σ⁻¹ = LᵀL`. Its rows follow the same DAG with the same weights.

    Parameters
    ----------
    links : pairs of rows, networkx graph, sparse matrix, labels, coordinates, Links, or the name of a column
        Which rows may depend on each other. Rows are named as in the table's index, or numbered from 0. One
        dimension holds group labels, as does the column that a text names; a table of decimal numbers holds
        coordinates, with 5 neighbours each (`polydag.rows.Links.from_coordinates` for another number).
    covariates : names of columns, or array of shape (n, q), optional
        The columns on which means depend, besides an intercept; they are not transformed.
    structure : {"auto", "common", "decay", "matern", "smooth", "block", "kinds", "free", "independent"}
        The form of the correlation; "auto" takes the one under which held-out columns are most likely. See
        `polydag.rows.decorrelation.decorrelate`.
    free : FreeStructure
        How the free structure is estimated: its penalty, and how many orders of the columns are averaged.
    random_state : int, optional
        The seed of the orders.
    n_jobs : int
        Threads for the network's components.

    Attributes
    ----------
    decorrelation_ : Decorrelation
        The estimated correlation, the tests before and after, and the summary.

    Examples
    --------
    >>> from polydag import simulate
    >>> dag = simulate.dag(40, n_edges=40, random_state=0)
    >>> schools = simulate.clusters("equi", 200, 5, base=0.7)
    >>> X = simulate.linked(dag, row_covariance=schools, random_state=1)
    >>> model = RowDecorrelator([row // 5 for row in range(200)], random_state=0).fit(X)
    >>> print(model.summary_.partition(" Taken")[0])
    Rows are correlated within groups (about 0.70, p ≤ 0.001).
    >>> round(model.effective_n_), model.decorrelated_n_  # taken as independent, and decorrelated
    (68, 199)
    """

    def __init__(
        self,
        links: Any = None,
        *,
        covariates: Any = None,
        structure: str = "auto",
        free: FreeStructure = DEFAULT_FREE,
        random_state: int | None = None,
        n_jobs: int = 1,
    ) -> None:
        self.links = links
        self.covariates = covariates
        self.structure = structure
        self.free = free
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: None = None) -> Self:
        """Estimate how the rows are correlated; `y` is ignored."""
        table = LinkedTable.of(X, self.links, self.covariates)
        if table.group_level.any():
            named = ", ".join(name for name, same in zip(table.names, table.group_level, strict=True) if same)
            warnings.warn(
                f"Column {named} is the same in all linked rows: a property of the group. Transformed rows "
                "do not show that it is no effect of the others: fit a learner to LinkedRows, or forbid "
                "edges into it.",
                DataWarning,
                stacklevel=2,
            )
        self.decorrelation_ = decorrelate(
            table,
            structure=self.structure,
            free=self.free,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        self.n_features_in_ = len(table.names)
        self.feature_names_in_ = np.array(table.names, dtype=object)
        return self

    @property
    def means_(self) -> Array:
        """Generalised least-squares coefficients of the intercept and the covariates."""
        return self.decorrelation_.means

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the transformed columns: those that were fitted, without groups and covariates."""
        return self.feature_names_in_

    def transform(self, X: Any) -> Any:
        """`L (X − means)` of a table with the fitted rows; a DataFrame where X is one."""
        group = self.links if isinstance(self.links, str) else ""
        table = self.decorrelation_.table
        values, covariates = table.of_same_rows(X, group, self.covariates)
        result = decorrelated(values, covariates, self.means_, self.row_precision_)
        if not hasattr(X, "columns"):
            return result
        return pd.DataFrame(result, columns=list(table.names), index=X.index)
