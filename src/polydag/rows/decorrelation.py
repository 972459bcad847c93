"""What was estimated of linked rows, and the moments of the rows once they are decorrelated.

With `Θ = Σ⁻¹ = LᵀL`, the rows of `L (X − Z M)` are independent and follow the same DAG with the same weights.
The intercept is not taken out beforehand: it is whitened with the rows and fitted by generalised least
squares in `GaussianStats`, which is what makes moments of decorrelated parts add up to those of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.arrays import Array, Mask
from polydag.parameters import Instance, check, number, one_of
from polydag.rows.dependence import DependenceTest, row_dependence, sentence
from polydag.rows.estimate import (
    RowEstimate,
    after_decorrelation,
    estimate,
    in_unset_rows,
    means_of,
    scaled_problem,
)
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Estimated, Whitening, as_precision, of_rows
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import Layout, RowPrecision
from polydag.rows.structures.by_column import column_strengths, same_strength
from polydag.rows.structures.candidates import STRUCTURES
from polydag.rows.structures.exchangeable import Exchangeable
from polydag.rows.structures.settings import DEFAULT_FREE, FreeStructure
from polydag.stats import GaussianStats

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Decorrelation:
    """The estimated correlation of linked rows.

    Attributes
    ----------
    table : LinkedTable
        The rows, their links and covariates.
    estimate : RowEstimate
        Θ with its structure and the structures it was compared with.
    means : array of shape (1 + q, p)
        Generalised least-squares coefficients of the intercept and the covariates.
    """

    table: LinkedTable
    estimate: RowEstimate
    means: Array

    @property
    def precision(self) -> RowPrecision:
        """Θ, the inverse of the rows' correlation Σ, with its factor L."""
        return self.estimate.precision

    @property
    def structure(self) -> str:
        """The name of the structure of Σ."""
        return self.estimate.structure

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the structure."""
        return self.estimate.parameters

    @property
    def candidates(self) -> pd.DataFrame:
        """The structures that were compared: name, and the deviance of held-out columns; lower is better."""
        import pandas as pd

        rows = pd.DataFrame(
            [(each.structure.name, each.deviance) for each in self.estimate.candidates],
            columns=["structure", "held_out_deviance"],
        )
        return rows.groupby("structure", as_index=False, sort=False).min()

    @cached_property
    def before(self) -> DependenceTest:
        """Are linked rows correlated in the data?"""
        rows = self.table.unset
        own = self.table.values[rows][:, ~self.table.group_level]
        return row_dependence(own, self.table.unset_links, covariates=self._Z[rows, 1:])

    @cached_property
    def after(self) -> DependenceTest:
        """Are they correlated in what is left after decorrelation?"""
        layout = self.precision.layout
        kept = self.table.unset[layout.order]
        rows = layout.order[kept]
        found = Estimated(self.precision)
        whitening = found if kept.all() else of_rows(found, kept)
        tables = (self.table.values[:, ~self.table.group_level], self._Z)
        X, Z = (whitening.whiten(each[rows])[np.argsort(rows)] for each in tables)
        return after_decorrelation(X, Z, self.table.unset_links)

    @cached_property
    def column_correlations(self) -> Array:
        """Each column's own correlation of linked rows, by restricted likelihood; in groups, intraclass."""
        links = self.table.links
        if links.n_links == 0:
            return np.zeros(len(self.table.names))
        layout = self.precision.layout
        structure = Exchangeable(layout)
        alike = self.table.group_level
        result = np.ones(len(alike))
        result[~alike] = structure.along_links(column_strengths(self._columns.alone(), structure))
        return result

    @property
    def effective_n_by_column(self) -> float:
        """`n²/tr(Σ_j Σ_k)`, the trace averaged over pairs of columns, each with its own correlation.

        What the rows are worth for edges where dependence is ignored, if it differs by column.
        """
        own = self.column_correlations[~self.table.group_level]
        n, p = self.table.links.n, len(own)
        products = (own.sum() ** 2 - own @ own) / (p * (p - 1))
        return float(n**2 / (n + 2.0 * self.table.links.n_links * products))

    @cached_property
    def columns_p_value(self) -> float:
        """Of the test that all columns have one strength; NaN where the structure has more than that."""
        columns = self._columns
        n, p = columns.X.shape
        one_strength = self.structure in ("common", "independent") and self.table.links.n_links > 0
        if not one_strength or p < 2 or 2 * p > n - columns.Z.shape[1]:
            return np.nan
        return same_strength(columns, Exchangeable(self.precision.layout))

    @property
    def _columns(self) -> Columns:
        """The columns that tell Σ, of unit variance, rows sorted by component."""
        layout = self.precision.layout
        values = self.table.values[layout.order][:, ~self.table.group_level]
        columns = Columns(values / values.std(axis=0), self._Z[layout.order])
        return in_unset_rows(columns, self.table, layout)

    @cached_property
    def correlation(self) -> float:
        """The estimated correlation of linked rows, averaged over the links."""
        pairs, total = self.table.links.pairs, 0.0
        if not len(pairs):
            return 0.0
        layout = self.precision.layout
        place = np.argsort(layout.order)
        ends = place[pairs]
        component = np.searchsorted(layout.starts, ends[:, 0], side="right") - 1
        order = np.argsort(component, kind="stable")
        ends, component = ends[order] - layout.starts[component[order]][:, None], component[order]
        bounds = np.searchsorted(component, np.arange(len(layout.sizes) + 1))
        for c in np.unique(component):
            i, j = ends[bounds[c] : bounds[c + 1]].T
            total += float(self.precision.correlations[c][i, j].sum())
        return total / len(pairs)

    @property
    def decorrelated_n(self) -> int:
        """What decorrelated rows are worth for edges: their number, less the intercept and covariates."""
        beside = 0 if self.table.covariates is None else self.table.covariates.shape[1]
        return int(self.table.links.n - 1 - beside)

    @property
    def summary(self) -> str:
        """The test in a sentence, and what the rows are worth."""
        n = self.table.links.n
        numbers = (n, self.precision.effective_n, self.decorrelated_n)
        if self.before.dependent and self.structure == "independent":
            return (
                f"Linked rows depend on each other (p = {self.before.p_value:.2g}), but no structure for all "
                "columns explains held-out columns better than independence."
            )
        if not self.before.dependent and self.structure == "free":
            return (
                f"Linked rows are not alike on average (p = {self.before.p_value:.2g}), but held-out columns "
                "are explained better by one strength for each link. Taken as independent, "
                f"{n:,} rows would be worth about {self.precision.effective_n:.0f} for edges; decorrelated, "
                f"about {self.decorrelated_n:,}."
            )
        return sentence(self.before, self.correlation, numbers, self.table.links, self.table.group)

    @property
    def notes(self) -> tuple[str, ...]:
        """What else a reader should know of how the moments came about."""
        return ()

    @cached_property
    def _Z(self) -> Array:
        """The intercept, the covariates, and columns that are the same in all linked rows."""
        return np.concatenate([self.table.design, self.table.values[:, self.table.group_level]], axis=1)

    def rows(self) -> Array:
        """`L (X − Z M)`: independent rows."""
        return decorrelated(self.table.values, self.table.covariates, self.means, self.precision)

    def moments(self) -> GaussianStats:
        """The moments of the decorrelated rows; the intercept is fitted by generalised least squares."""
        return self._moments(None if self.structure == "independent" else self.precision)

    def moments_at(self, strength: float) -> GaussianStats:
        """The same with one strength for all links, such as that of a single column."""
        layout = self.precision.layout
        return self._moments(as_precision(Exchangeable(layout).at(strength), layout))

    def moments_of(self, kept: Mask, strength: float | None = None) -> GaussianStats:
        """The moments of some of the rows, decorrelated by their own part of Σ, or by one strength.

        Covariates are taken out by generalised least squares within these rows.
        """
        if kept.all():
            return self.moments() if strength is None else self.moments_at(strength)
        layout = self.precision.layout
        own = kept[layout.order]
        rows = layout.order[own]
        found: Whitening = Estimated(self.precision)
        if strength is not None:
            found = Exchangeable(layout).at(strength)
        part = of_rows(found, own)
        values = self.table.values[rows]
        if self.table.covariates is not None:
            design = part.whiten(self.table.design[rows])
            means = np.linalg.lstsq(design, part.whiten(values), rcond=None)[0]
            values = values - self.table.covariates[rows] @ means[1:]
        return GaussianStats.from_data(values, names=self.table.names, row_factor=_factor(part, len(rows)))

    def _moments(self, precision: RowPrecision | None) -> GaussianStats:
        values = self.table.values
        if self.table.covariates is not None:
            values = values - self.table.covariates @ self.means[1:]
        factor = None if precision is None else precision.factor()
        return GaussianStats.from_data(values, names=self.table.names, row_factor=factor)


def _factor(found: Whitening, n: int) -> Any:
    """What multiplies rows to whiten them, without the matrix."""
    from scipy.sparse.linalg import LinearOperator

    return LinearOperator(
        (n, n),
        matvec=lambda column: found.whiten(column.reshape(-1, 1)).ravel(),
        matmat=found.whiten,
        dtype=np.float64,
    )


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
    share: float | None = None,
    free: FreeStructure = DEFAULT_FREE,
    random_state: int | None = None,
    n_jobs: int = 1,
) -> Decorrelation:
    """Estimate how the rows are correlated.

    Parameters
    ----------
    table : LinkedTable
        The rows and their links.
    structure : {"auto", "common", "decay", "matern", "smooth", "block", "kinds", "free", "independent"}
        "common": one strength for all links, of either sign. "decay" and "matern": a correlation that falls
        with the distance in time, in space or in the order of a group's rows. "smooth": one that falls with
        the distance along the links of a network. "block": one correlation for each pair of places in a
        group, the same in all groups. "kinds": one for each kind of link. "free": one entry of Θ for each
        link. "auto" takes the one under which held-out columns have the highest likelihood, and tries "free"
        where dependence is left.
    correlation : float, optional
        The correlation of two rows in a complete group, where it is known: nothing is estimated then.
    share : float, optional
        h², where the rows' covariance is known: `Σ = h² K + (1 − h²) I`. Estimated by default.
    free : FreeStructure
        How "free" is estimated.
    random_state : int, optional
        The seed of the orders of columns that "free" averages, and of that in which columns are held out.
    n_jobs : int
        Threads for the network's components.
    """
    check("structure", structure, one_of(*STRUCTURES))
    check("free", free, Instance(FreeStructure, "a polydag.FreeStructure"))
    problem, scale = scaled_problem(table, free.lambda2, n_jobs)
    if correlation is not None:
        check("correlation", correlation, number(least=-1, most=0.98))
        found = _known_correlation(problem.layout, correlation)
    else:
        if share is not None:
            check("share", share, number(least=0, most=1))
        found = estimate(
            problem,
            table,
            structure=structure,
            share=share,
            n_orders=free.n_orders,
            random_state=random_state,
        )
    return Decorrelation(table, found, means_of(problem, found.precision) * scale)


def _known_correlation(layout: Layout, correlation: float) -> RowEstimate:
    structure = Exchangeable(layout)
    check("correlation", correlation, number(least=structure.lowest, most=0.98))
    precision = as_precision(structure.at(correlation), layout)
    return RowEstimate(precision, "common", {"correlation": correlation}, [])
