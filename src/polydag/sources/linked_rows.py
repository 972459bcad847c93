"""Linked rows, as a source: their moments are those of the decorrelated rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from polydag.arrays import Array, Mask
from polydag.data.table import Kind
from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.knowledge import Knowledge, knowledge_masks
from polydag.orientation import consistent_extension
from polydag.parameters import Instance, check, one_of
from polydag.rows.decorrelation import Decorrelation, decorrelate
from polydag.rows.dependence import DependenceTest
from polydag.rows.families import DIFFER, family_moments, left_by_column, strengths_given
from polydag.rows.interventions import with_interventions
from polydag.rows.latent.decorrelation import LatentDecorrelation, decorrelate_latent
from polydag.rows.latent.labels import Levels as LatentLevels
from polydag.rows.levels import within_and_between
from polydag.rows.linked_table import LinkedTable, drawn_components
from polydag.rows.links import NEIGHBOURS, Links
from polydag.rows.structures.settings import DEFAULT_FREE, FreeStructure
from polydag.scores import make_score
from polydag.search.boss.search import boss
from polydag.sources.columns.linked_labels import with_codes_of, with_indicators_of
from polydag.sources.gaps.moments import ALLOWED
from polydag.sources.interface import Contents, Counts, Source
from polydag.sources.resampling import drawn_groups
from polydag.sources.stream import Stream
from polydag.sources.table import InMemory, as_frame
from polydag.stats import ByNode, GaussianStats, MixedStats
from polydag.stats.mixed import Levels, indicator_names

LABELS = ("indicators", "latent")
_LABELS = "Labels ({}) are decorrelated as indicators of their levels, as if these were Gaussian."
_OWN_EACH = (
    "BOSS, GES and posteriors decorrelate each column's family by its own correlation; before other methods, "
    "subtract group means."
)
_ONE_FOR_ALL = "With labels among the columns, all are decorrelated by one correlation."
_WORTH = (
    " Taken as independent, {:,.0f} rows would be worth about {:.0f} for edges, on average over pairs of "
    "columns."
)
_NOT_IN_PARTS = ("free", "block")
MIN_BLOCKS = 10  # with fewer connected components, drawing these whole says little


class LinkedRows(Source):
    """Rows that depend on each other: pupils in schools, relatives, neighbouring counties.

    The correlation of the rows is estimated once, when the first learner asks for moments, and the rows are
    decorrelated by it. Give one of `groups`, `links`, `coordinates` and `covariance`.

    Parameters
    ----------
    data : DataFrame, array or InMemory
        One row per individual. `InMemory(table, interventions=…)` says what was set in each row.
    groups : str or sequence, optional
        A column with group labels, or one label per row. Rows with the same label are linked.
    links : pairs of rows, networkx graph, sparse or square matrix, or Links, optional
        Which rows are linked. Rows are named as in the table's index, or numbered from 0. In a DataFrame of
        pairs a column `kind` says of what kind each link is.
    coordinates : sequence of column names, or array of shape (n, k), optional
        The positions of the rows; each row is linked with its nearest neighbours.
    neighbours : int
        The number of nearest neighbours, for `coordinates`.
    time : str or sequence, optional
        With `groups`, a column with the time of each row, or one time per row: numbers, or dates (which
        count in days). The correlation may then fall with the time between two rows of a group.
    covariance : array or sparse matrix of shape (n, n), optional
        A known covariance K of the rows, for example a genetic relationship matrix: `Σ = h² K + (1 − h²) I`,
        with h² estimated by restricted likelihood unless `share` gives it.
    covariates : names of columns, or array of shape (n, q), optional
        The columns on which means depend; they are not variables of the graph.
    kinds : mapping of column to "continuous" or "discrete", optional
        The kinds of columns. By default text is labels, and numbers are numbers.
    labels : {"indicators", "latent"}
        "indicators": a label is decorrelated as the indicators of its levels, as if these were Gaussian, for
        scores and tests of mixed columns. "latent": a label says between which cuts the value of a latent
        Gaussian variable lies; these values are drawn given the data, and learners treat their moments as
        those of numbers. Columns with two values are then labels, and those with more need an order.
    structure : {"auto", "common", "decay", "matern", "smooth", "block", "kinds", "free", "independent"}
        The form of the correlation; "auto" takes the one under which held-out columns are most likely. See
        `polydag.rows.decorrelation.decorrelate`.
    correlation : float, optional
        The correlation of two rows in a complete group, where it is known: nothing is estimated then.
    share : float, optional
        h², for `covariance`, where it is known.
    free : FreeStructure
        How the structure "free" is estimated: its penalty, and how many orders of the columns are averaged.
    random_state : int, optional
        The seed of these orders, and of that in which columns are held out.
    n_jobs : int
        Threads for the network's connected components.

    Attributes
    ----------
    decorrelation_ : Decorrelation
        The estimated correlation, the tests before and after, and the summary.
    latent : dict
        The levels of the labels that are taken as showing a Gaussian variable (`labels="latent"`).

    Notes
    -----
    A bootstrap draws whole groups (connected components), and a group that is drawn twice is two groups.
    With fewer than ten components, as in one large network, decorrelated rows are drawn instead, and the
    estimated correlation is then restored; the network stays as it is.

    With interventions, the correlation is estimated from the rows in which nothing was set, and each variable
    is scored by the rows in which it was not set, decorrelated by their part of Σ. This is exact if an
    intervention does not change the errors of other variables.

    References
    ----------
    Li, H., Padilla, O. H. M. and Zhou, Q. (2024). Learning Gaussian DAGs from network data. Journal of
    Machine Learning Research 25, 1–52.

    Examples
    --------
    >>> from polydag import BOSS, LinkedRows, simulate
    >>> dag = simulate.dag(40, n_edges=40, random_state=0)
    >>> schools = simulate.clusters("equi", 200, 5, base=0.7)
    >>> X = simulate.linked(dag, row_covariance=schools, random_state=1)
    >>> X["school"] = [row // 5 for row in range(200)]
    >>> pupils = LinkedRows(X, groups="school", random_state=0)
    >>> print(pupils.decorrelation_.summary.partition(" Taken")[0])
    Rows are correlated within school (about 0.70, p ≤ 0.001).
    >>> BOSS().fit(pupils).graph_.n_nodes
    40
    """

    def __init__(
        self,
        data: Any,
        *,
        groups: str | Sequence[Hashable] | None = None,
        links: Any = None,
        coordinates: Any = None,
        neighbours: int = NEIGHBOURS,
        time: Any = None,
        covariance: Any = None,
        covariates: Any = None,
        kinds: Mapping[str, Kind] | None = None,
        labels: str = "indicators",
        structure: str = "auto",
        correlation: float | None = None,
        share: float | None = None,
        free: FreeStructure = DEFAULT_FREE,
        random_state: int | None = None,
        n_jobs: int = 1,
    ) -> None:
        check("labels", labels, one_of(*LABELS))
        check("free", free, Instance(FreeStructure, "a polydag.FreeStructure"))
        if sum(given is not None for given in (groups, links, coordinates, covariance)) != 1:
            raise UsageError(
                "LinkedRows needs one of groups=, links=, coordinates= and covariance=, which say which "
                "rows may depend on each other."
            )
        if time is not None and groups is None:
            raise UsageError("time= orders the rows within groups; give groups= as well.")
        if covariance is not None and (structure != "auto" or correlation is not None):
            raise UsageError(
                "With covariance= the structure is known; give neither structure= nor correlation=."
            )
        if share is not None and covariance is None:
            raise UsageError(
                "share= is the part of the variance that covariance= explains; give that as well."
            )
        self.settings: dict[str, Any] = {
            "structure": structure,
            "correlation": correlation,
            "share": share,
            "free": free,
            "random_state": random_state,
            "n_jobs": n_jobs,
        }
        own, kinds = _rows_of(data, kinds or {})
        points, network = None, links
        if coordinates is not None:
            own, points = _coordinates(own, coordinates)
            network = Links.from_coordinates(points, neighbours)
        elif groups is not None:
            network = groups if isinstance(groups, str) else Links.from_groups(groups)
        elif links is not None:
            network = _not_coordinates(links)
        others = (groups, time, *(covariates if isinstance(covariates, list | tuple) else [covariates]))
        self.latent: LatentLevels = {}
        self._levels: dict[str, tuple[Hashable, ...]] = {}
        self._variables: tuple[str, ...] = ()
        if labels == "latent":
            own, self.latent = with_codes_of(own, kinds, others)
        else:
            own, self._variables, self._levels = with_indicators_of(own, kinds, others)
        self.table = LinkedTable.of(
            own,
            network,
            covariates,
            time=time,
            places=points,
            covariance=covariance,
            indicators=[*indicator_names(list(self._levels), self._levels), *self.latent],
        )
        if groups is not None and not isinstance(groups, str):
            self.table = replace(self.table, labels=list(groups))
        if isinstance(data, InMemory) and data.targets is not None:
            self.table = self._with_interventions(data.targets)

    def _with_interventions(self, targets: Any) -> LinkedTable:
        """The rows with what was set in them; raises for what is not known with interventions."""
        if self._levels or self.latent:
            found = ", ".join([*self._levels, *self.latent])
            raise UsageError(
                f"With interventions, the columns of linked rows are numbers; these are labels: {found}. "
                "Leave them out, or leave the links out."
            )
        structure = self.settings["structure"]
        if structure in _NOT_IN_PARTS:
            raise UsageError(
                f"With interventions, the correlation is estimated from some rows of each group; "
                f"structure={structure!r} needs all of them. Use 'auto', 'common' or 'decay'."
            )
        known = self.settings["correlation"] is not None or self.settings["share"] is not None
        return with_interventions(self.table, targets, estimated=structure != "independent" and not known)

    @cached_property
    def decorrelation_(self) -> Decorrelation:
        """The estimated correlation of the rows."""
        if not self.latent:
            return decorrelate(self.table, **self.settings)
        own = ("structure", "correlation", "share", "random_state")
        settings = {name: self.settings[name] for name in own}
        return decorrelate_latent(self.table, self.latent, **settings)

    @property
    def described(self) -> str:
        """Linked rows."""
        return "a source of linked rows"

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self._variables if self._levels else self.table.names

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Numbers, unless they are words or declared as labels."""
        return {name: "discrete" if name in self._levels else "continuous" for name in self.names}

    @property
    def fixed_kinds(self) -> Mapping[str, Kind]:
        """All of them."""
        return self.kinds

    @property
    def n(self) -> float:
        """The number of rows."""
        return float(len(self.table.values))

    @property
    def effective_n(self) -> float:
        """`n²/tr(Σ²)`: what the rows are worth for edges where their dependence is ignored.

        Where only some columns depend, so that no Σ for all was found, it is an average over pairs.
        """
        found = self.decorrelation_
        if self._only_some_depend:
            return found.effective_n_by_column
        return found.precision.effective_n

    @property
    def _only_some_depend(self) -> bool:
        return self.columns_differ and self.decorrelation_.structure == "independent"

    @property
    def notes(self) -> tuple[str, ...]:
        """The test of dependence, in a sentence, and what was taken for a property of the group."""
        labels = (_LABELS.format(", ".join(self._levels)),) if self._levels else ()
        found = self.decorrelation_
        interventions = () if self.table.was_set is None else (self._interventions_note,)
        return (
            found.summary,
            *interventions,
            *found.notes,
            *labels,
            *self._columns_note,
            *self._group_level_note,
        )

    @property
    def _interventions_note(self) -> str:
        table, found = self.table, self.decorrelation_
        assert table.was_set is not None
        known = self.settings["correlation"] is not None or self.settings["share"] is not None
        told = (
            ""
            if known or found.structure == "independent"
            else (
                f" The row correlation is estimated from the {table.unset.sum():,} rows in which "
                "nothing was set."
            )
        )
        names = [table.names[j] for j in np.flatnonzero(table.was_set.any(axis=0))]
        return f"{', '.join(names)}: scored by the rows in which it was not set.{told}"

    @property
    def _columns_note(self) -> tuple[str, ...]:
        if not self.columns_differ:
            return ()
        own = pd.Series(self.decorrelation_.column_correlations, index=list(self.table.names))
        own = own[~self.table.group_level]
        return (
            f"Columns differ in the correlation of linked rows (from {own.min():.2f} in {own.idxmin()} to "
            f"{own.max():.2f} in {own.idxmax()}; p = {self.decorrelation_.columns_p_value:.1g}). "
            + (_ONE_FOR_ALL if self._levels else _OWN_EACH)
            + (_WORTH.format(self.n, self.effective_n) if self._only_some_depend else ""),
        )

    @property
    def _group_level_note(self) -> tuple[str, ...]:
        table = self.table
        named = self._of_group
        if not named:
            return ()
        groups = int(table.links.components.max()) + 1
        return (
            f"Column {', '.join(named)} is the same in all linked rows: a property of the group. It may be a "
            "cause of the others, never their effect"
            + ("." if self._levels else f"; what explains it is judged by {groups} groups."),
        )

    @property
    def knowledge(self) -> Knowledge | None:
        """Columns of single rows are no causes of properties of their group."""
        shared = self._of_group
        single = [name for name in self.names if name not in shared]
        if not shared:
            return None
        return Knowledge(forbidden=[(one, other) for one in single for other in shared])

    @property
    def _of_group(self) -> list[str]:
        """The variables that are the same in all linked rows."""
        alike = {name for name, same in zip(self.table.names, self.table.group_level, strict=True) if same}
        return [name for name in self.names if alike.issuperset(indicator_names([name], self._levels))]

    def levels(self, labels: Sequence[str]) -> Levels:
        """The labels that occur in each of some columns."""
        return {name: self._levels[name] for name in labels}

    def mixed(self, levels: Levels) -> MixedStats:
        """Moments of decorrelated numbers and of decorrelated indicators of labels."""
        return MixedStats(self.names, self._levels, self.moments()).with_levels(levels)

    def moments(self) -> GaussianStats:
        """The moments of the decorrelated rows; with interventions refused, as these differ by family."""
        self._require_no_interventions("moments of all rows")
        return self.decorrelation_.moments()

    def _require_no_interventions(self, what: str) -> None:
        if self.table.was_set is not None:
            raise UsageError(
                f"This method needs {what}. Linked rows with interventions are decorrelated for each "
                "variable by itself, in the rows in which it was not set. Use BOSS, GES or BayesianDiscovery "
                "(on the command line boss, ges or posterior), or the rows in which nothing was set."
            )

    def family_moments(self) -> GaussianStats | ByNode:
        """The same; for properties of the group, the moments of one row for each group.

        Where columns differ in their correlation of linked rows, each one's own, given a first graph. With
        interventions, those of the rows in which the variable was not set.
        """
        return self._family_moments

    @cached_property
    def _family_moments(self) -> GaussianStats | ByNode:
        strengths = self._own_strengths[1] if self.columns_differ else None
        return family_moments(self.decorrelation_, strengths)

    @cached_property
    def _own_strengths(self) -> tuple[Mask, Array]:
        """A first graph, learned with one strength for all columns, and each column's own given it."""
        found = self.decorrelation_
        known = None if self.knowledge is None else knowledge_masks(self.knowledge, self.table.names)
        score = make_score("bic", family_moments(found), penalty="auto")
        graph = boss(score, knowledge=known, partial=False)
        dag = consistent_extension(graph.adjacency)
        assert dag is not None  # the search stays within classes of DAGs
        return dag, strengths_given(found, dag)

    @cached_property
    def test_after_(self) -> DependenceTest:
        """Is dependence left after decorrelation, by each column's own strength where these differ?"""
        if not self.columns_differ or self.table.was_set is not None:
            return self.decorrelation_.after
        return left_by_column(self.decorrelation_, *self._own_strengths)

    def within_and_between(self, graph: Graph) -> pd.DataFrame:
        """Coefficients within groups and between them; see `polydag.rows.levels.within_and_between`."""
        return within_and_between(self.decorrelation_, graph, latent=bool(self.latent))

    @property
    def columns_differ(self) -> bool:
        """Whether each column has a strength of its own: where "auto" found one for all links."""
        free = self.settings["structure"] == "auto" and self.settings["correlation"] is None
        return free and not self.latent and self.decorrelation_.columns_p_value < DIFFER

    def counts(self) -> Counts:
        """Refused: labels cannot be decorrelated."""
        raise UsageError(
            "Linked rows are decorrelated as numbers. Use a score or test for numbers, or for mixed columns "
            "(criterion='dg', test='dg')."
        )

    @property
    def contents(self) -> Contents:
        """What the columns hold; labels have moments of indicators only, as mixed columns do."""
        return "mixed" if self._levels else "numbers"

    def rows(self) -> pd.DataFrame:
        """The decorrelated rows; refused with interventions."""
        self._require_no_interventions("rows")
        return pd.DataFrame(self.decorrelation_.rows(), columns=list(self.table.names))

    def resampled(self, rng: np.random.Generator) -> Self:
        """Whole groups drawn with replacement; or, in a network of few components, decorrelated rows."""
        components = self.table.links.components
        if len(np.unique(components)) >= MIN_BLOCKS:
            return self._with(drawn_components(self.table, drawn_groups(components.tolist(), rng)))
        self._require_no_interventions("decorrelated rows, as there are few groups to draw whole")
        fitted = self.decorrelation_
        independent = fitted.rows()
        drawn = independent[rng.integers(0, len(independent), len(independent))]
        centre = fitted.table.values - fitted.precision.correlate(independent)
        values = centre + fitted.precision.correlate(drawn)
        if isinstance(fitted, LatentDecorrelation):
            values = fitted.seen(values)
        return self._with(replace(self.table, values=values))

    def as_independent(self) -> Self:
        """The same rows with their links ignored, as a learner for independent rows would take them."""
        return self._with(self.table, structure="independent", correlation=None)

    def decorrelated_by(self, found: Decorrelation) -> Self:
        """The same rows with another estimate of their correlation, such as one that goes with a graph."""
        again = self._with(self.table)
        again.__dict__["decorrelation_"] = found
        return again

    def _with(self, table: LinkedTable, **changes: Any) -> Self:
        again = object.__new__(type(self))
        again.table, again.settings = table, {**self.settings, **changes}
        again._variables, again._levels, again.latent = self._variables, self._levels, self.latent
        return again


def _rows_of(data: Any, kinds: Mapping[str, Kind]) -> tuple[Any, Mapping[str, Kind]]:
    """The rows themselves, and the kinds that are declared of their columns."""
    if isinstance(data, Stream):
        raise UsageError(
            "LinkedRows needs rows. For groups in a stream, with one correlation for all, use "
            "LinkedStream(stream, groups=…); for other structures, read the table, or part of it."
        )
    if isinstance(data, Source) and not isinstance(data, InMemory):
        raise UsageError(
            f"LinkedRows needs a table; got {data.described}. Linked rows go inside parties and tasks: "
            "Parties({name: LinkedRows(table, groups=…)})."
        )
    if isinstance(data, InMemory):
        _require_plain(data)
        kinds = {**data.declared_kinds, **kinds}
        data = data.data
    return getattr(data, "frame", data), kinds


def _not_coordinates(links: Any) -> Any:
    """Links as given; whole numbers written as decimals are pairs here, since there is coordinates=."""
    kind = getattr(getattr(links, "dtype", None), "kind", "")
    if (
        kind == "f"
        and np.ndim(links) == 2
        and np.shape(links)[1] == 2
        and np.array_equal(links, np.round(links))
    ):
        return np.asarray(links).astype(np.int64)
    if hasattr(links, "dtypes") and hasattr(links, "columns") and links.shape[1] == 2:
        values = links.to_numpy()
        if values.dtype.kind == "f" and np.array_equal(values, np.round(values)):
            return links.astype(np.int64)
    return links


def _require_plain(table: InMemory) -> None:
    """Raise for tables that say what linked rows cannot allow for."""
    if table.missing in ALLOWED and table.lacks_values:
        raise UsageError(
            f"Linked rows are decorrelated as complete rows; missing={table.missing!r} gives moments, or "
            "several tables. Use missing='drop' or 'impute' (--missing drop|impute), or leave out the "
            "columns with most missing values."
        )
    if table.has_blocks:
        raise UsageError("The rows have blocks and links: say how they depend on each other in one way.")


def _coordinates(data: Any, coordinates: Any) -> tuple[Any, Array]:
    """The table without its columns of coordinates, and the coordinates."""
    if isinstance(coordinates, str):
        coordinates = [coordinates]
    if isinstance(coordinates, (list, tuple)) and all(isinstance(name, str) for name in coordinates):
        frame = as_frame(data)
        names = [str(name) for name in coordinates]
        if missing := [name for name in names if name not in frame.columns]:
            raise UsageError(f"There is no column {', '.join(missing)} with coordinates.")
        return frame.drop(columns=names), frame[names].to_numpy(dtype=float)
    return data, np.asarray(coordinates, dtype=float)
