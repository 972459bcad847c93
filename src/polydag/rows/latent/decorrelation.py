"""Decorrelation of linked rows with labels: Σ from pairs of rows, then moments from draws behind labels."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from polydag.arrays import Array
from polydag.computing.progress import report
from polydag.errors import DataError, DataWarning, UsageError
from polydag.parameters import check, number, one_of
from polydag.rows.decorrelation import Decorrelation
from polydag.rows.dependence import DependenceTest, row_dependence
from polydag.rows.estimate import RowEstimate
from polydag.rows.latent.classes import PairedPlaces, PairedRows, require_groups
from polydag.rows.latent.draws import DRAWS, LatentMoments, drawn_moments
from polydag.rows.latent.labels import codes_between
from polydag.rows.latent.pairs import PairColumns, standardised
from polydag.rows.likelihood.whitening import as_precision
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import Layout, RowPrecision
from polydag.rows.structures.candidates import STRUCTURES, named_structure, simple_structures
from polydag.rows.structures.choice import Candidate, best, by_held_out_columns
from polydag.rows.structures.exchangeable import Exchangeable
from polydag.rows.structures.interface import Structure
from polydag.rows.structures.shared_block import SharedBlock
from polydag.stats import GaussianStats

_FEW = 12  # columns; so few are held out in turn
_MANY = 20  # columns, from which on one correlation for each link can be told
_MOST_LINKS = 20_000  # for one correlation each
_OWN_PARTS = (0.5, 0.2, 0.0)
_FEWEST_ROWS = 10.0
_BEHIND = (
    "Labels ({}) show between which cuts a Gaussian variable lies: edges and coefficients are between these "
    "variables. The correlation of the rows is estimated from pairs of linked rows, moments from {} draws of "
    "what lies behind the labels (seed {}); for edges the rows are worth about {:.0f} rows of numbers."
)


@dataclass(frozen=True, eq=False)
class LatentDecorrelation(Decorrelation):
    """The estimated correlation of linked rows with labels.

    `table` holds the last draw of what lies behind the labels, with which rows are tested and shown; moments
    are averages over all draws.

    Attributes
    ----------
    drawn : LatentMoments
        Moments of the decorrelated rows, and what these are worth.
    cuts : list
        Where the levels of each label begin on the scale of a standard normal variable; None for numbers.
    observed : array of shape (n, p)
        Numbers, and codes of labels.
    seed : int
        That of the draws.
    """

    drawn: LatentMoments
    cuts: list[Array | None]
    observed: Array
    seed: int

    @cached_property
    def before(self) -> DependenceTest:
        """Are linked rows correlated in what is seen?"""
        return row_dependence(self.observed, self.table.links)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done about the labels."""
        pairs = zip(self.table.names, self.cuts, strict=True)
        labels = ", ".join(name for name, own in pairs if own is not None)
        return (_BEHIND.format(labels, DRAWS, self.seed, self.drawn.n),)

    @property
    def decorrelated_n(self) -> int:
        """How many rows with numbers the decorrelated ones are worth for edges, on average over pairs."""
        return round(self.drawn.n)

    def moments(self) -> GaussianStats:
        """The moments of the decorrelated rows, averaged over draws; as many rows as these are worth."""
        n, scale = self.drawn.n, self.drawn.scale * self._units
        scatter = n * self.drawn.covariance * np.outer(scale, scale)
        ones = self.precision.whiten(np.ones((self.table.links.n, 1)))
        mass = float((ones * ones).sum()) * n / self.table.links.n
        return GaussianStats(n, self.means[0].copy(), scatter, self.table.names, mass)

    @property
    def _units(self) -> Array:
        """The standard deviations by which numbers were divided; one for labels."""
        own = self.table.values.std(axis=0)
        return np.array([1.0 if cuts is not None else s for cuts, s in zip(self.cuts, own, strict=True)])

    def seen(self, values: Array) -> Array:
        """What a table shows of values like the drawn ones: labels as codes."""
        return codes_between(values, self.cuts)


def decorrelate_latent(
    table: LinkedTable,
    levels: Mapping[str, tuple[Hashable, ...]],
    *,
    structure: str = "auto",
    correlation: float | None = None,
    share: float | None = None,
    random_state: int | None = None,
) -> LatentDecorrelation:
    """Estimate Σ from pairs of linked rows, and draw what lies behind the labels.

    Parameters
    ----------
    table : LinkedTable
        Numbers, and codes 0, 1, 2 … of labels.
    levels : mapping of column to its levels
        The labels.
    structure, correlation, share
        As in `polydag.rows.decorrelation.decorrelate`; "free" is for groups, and "auto" considers it from 20
        columns on.
    random_state : int, optional
        The seed of the draws, and of the order in which columns are held out.
    """
    check("structure", structure, one_of(*STRUCTURES))
    _require_supported(table)
    seed = 0 if random_state is None else random_state
    rng = np.random.default_rng(seed)
    X, cuts = standardised(table, dict(levels))
    layout = Layout.of(table.links)
    columns = PairColumns.of(X, cuts, table, layout, rng)
    if correlation is not None:
        found = _known(layout, correlation)
    else:
        if share is not None:
            check("share", share, number(least=0, most=1))
        found = _estimate(columns, _scaled(table), layout, structure, share, rng)
    drawn = drawn_moments(X, cuts, found.precision, rng)
    if drawn.n < _FEWEST_ROWS:
        warnings.warn(
            f"The labels are worth about {drawn.n:.0f} rows of numbers: too few to learn a graph from.",
            DataWarning,
            stacklevel=2,
        )
    values = drawn.values
    for j, own in enumerate(cuts):
        if own is None:
            values[:, j] = table.values[:, j]
    own_table = replace(table, values=values)
    means = _means(values, found.precision, cuts)
    return LatentDecorrelation(own_table, found, means, drawn, cuts, table.values, seed)


def _require_supported(table: LinkedTable) -> None:
    if table.covariates is not None:
        raise UsageError(
            "labels='latent' has no covariates yet: make them variables of the graph, or use "
            "labels='indicators'."
        )
    if table.group_level.any():
        named = ", ".join(name for name, same in zip(table.names, table.group_level, strict=True) if same)
        raise DataError(
            f"Column {named} is the same in all linked rows: a property of the group, which labels='latent' "
            "cannot have among its variables. Leave it out, or use labels='indicators'."
        )


def _scaled(table: LinkedTable) -> LinkedTable:
    """The table with a known covariance scaled to unit variances, as those behind labels have."""
    if table.covariance is None:
        return table
    from scipy.sparse import diags_array

    D = diags_array(1.0 / np.sqrt(table.covariance.diagonal()))
    return replace(table, covariance=D @ table.covariance @ D)


def _known(layout: Layout, correlation: float) -> RowEstimate:
    structure = Exchangeable(layout)
    check("correlation", correlation, number(least=structure.lowest, most=0.98))
    precision = as_precision(structure.at(correlation), layout)
    return RowEstimate(precision, "common", {"correlation": correlation}, [])


def _estimate(
    columns: PairColumns, table: LinkedTable, layout: Layout, structure: str, share: float | None, rng: Any
) -> RowEstimate:
    """Σ with the named structure, or with the one under which held-out columns' pairs are most likely."""
    if structure == "independent" or table.links.n_links == 0:
        return RowEstimate(RowPrecision.independent(table.links), "independent", {}, [])
    p = columns.X.shape[1]
    columns = columns.reordered(rng.permutation(p))
    if structure == "free":
        require_groups(layout)
        return _fitted(PairedRows(layout), columns, layout, [])
    if table.covariance is not None or structure != "auto":
        return _fitted(_of_pairs(named_structure(structure, layout, table, share)), columns, layout, [])
    families = [_of_pairs(each) for each in simple_structures(layout, table, p)]
    if p >= _MANY and table.links.what == "groups" and table.links.n_links <= _MOST_LINKS:
        families += [PairedRows(layout, own) for own in _OWN_PARTS]
    candidates: list[Candidate] = []
    for done, family in enumerate(families):
        report("structures of row correlation", done, len(families), family.name)
        candidates += by_held_out_columns([family], _orders(columns))
    return _fitted(best(candidates).structure, columns, layout, candidates)


def _of_pairs(structure: Structure) -> Structure:
    """The structure, or its version for pairs where it has a likelihood of its own."""
    if isinstance(structure, SharedBlock):
        return PairedPlaces(structure.layout, structure.places, structure.even)
    return structure


def _fitted(
    structure: Structure, columns: PairColumns, layout: Layout, candidates: list[Candidate]
) -> RowEstimate:
    fitted = structure.fit(columns, np.ones(columns.X.shape[1], dtype=bool))
    precision = as_precision(fitted.whitening, layout)
    return RowEstimate(precision, structure.name, fitted.parameters, candidates)


def _orders(columns: PairColumns) -> list[PairColumns]:
    """Orders whose last third is held out: each column once where they are few."""
    p = columns.X.shape[1]
    if not 2 < p <= _FEW:
        return [columns]
    step = p - round(2 * p / 3)
    return [columns.reordered(np.roll(np.arange(p), turn * step)) for turn in range(-(-p // step))]


def _means(values: Array, precision: RowPrecision, cuts: list[Array | None]) -> Array:
    """The generalised least-squares means of numbers; zero for what lies behind labels."""
    ones = precision.whiten(np.ones((len(values), 1)))
    means = (ones.T @ precision.whiten(values)) / float((ones * ones).sum())
    means[0, [own is not None for own in cuts]] = 0.0
    return np.asarray(means)
