"""A table in memory, as a source."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
import pandas as pd

from polydag.data.checking.quality import require_computable
from polydag.data.containers import require_columns, table_of
from polydag.data.kinds import (
    Typed,
    all_have_fractions,
    as_table_column,
    has_few_whole_numbers,
    typed_columns,
)
from polydag.data.reading import from_frame
from polydag.data.table import Kind, Missing
from polydag.data.table import Table as ReadTable
from polydag.errors import DataError, UsageError
from polydag.parameters import check, one_of, whole
from polydag.sources.gaps.completion import completed
from polydag.sources.gaps.moments import ALLOWED, INCOMPLETE, MULTIPLE, centred_gaps, gaps_note, unknown_pairs
from polydag.sources.gaps.structural_em import (
    NOT_TESTWISE,
    LabelRows,
    expected_counts,
    missing_note,
    turns_note,
)
from polydag.sources.interface import Contents, Mixed, Moments, Source
from polydag.sources.resampling import draw_groups, draw_rows
from polydag.stats import DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.cells import CellRows, CellStats
from polydag.stats.discrete import levels_of
from polydag.stats.gaps.available import AvailableTables
from polydag.stats.gaps.draws import Parameters, drawn_parameters
from polydag.stats.gaps.incomplete import How, incomplete_moments
from polydag.stats.mixed import Levels, indicator_names, with_indicators

NOTHING_SET = "none"
N_IMPUTATIONS = 20
_TURNS = 10  # of structural EM


class InMemory(Source):
    """The rows of a DataFrame, an array, an Arrow table or a `polydag.data.Table`.

    Parameters
    ----------
    data : DataFrame, array, Arrow table or polydag.data.Table
        One row per observation.
    kinds : mapping of column to "continuous" or "discrete", optional
        The kinds of columns whose kind should not be inferred; see `polydag.data.kinds` for the rule.
    missing : {"error", "drop", "impute", "testwise", "em", "multiple"}
        What to do about missing values: raise an error; drop their rows; fill in means and most frequent
        labels, which shrinks variances; compute each covariance from the rows that have both columns;
        estimate moments by EM under a Gaussian, or for labels counts by structural EM; or learn from several
        tables with missing values drawn at random (multiple imputation).
    interventions : str, or sequence, optional
        Which variables were set by intervention in each row: a column that holds "none", a name, or several
        names joined by "+"; several such columns, of which each row's names are collected; or one entry per
        row, which is such a word or a collection of names.
    blocks : sequence, optional
        A label per row. A bootstrap draws whole blocks instead of single rows.
    n_imputations : int
        The number of imputed tables, for `missing="multiple"`.
    random_state : int, optional
        The seed of these draws.
    """

    missing: str = "error"
    n_imputations: int = N_IMPUTATIONS
    random_state: int | None = None
    gaps_notes: tuple[str, ...] = ()
    _read_as: tuple[str, ...] = ()  # how numbers were read, if not as they stand

    def __init__(
        self,
        data: Any,
        *,
        kinds: Mapping[str, Kind] | None = None,
        missing: str = "error",
        interventions: str | Sequence[str | Iterable[object]] | None = None,
        blocks: Sequence[Hashable] | None = None,
        n_imputations: int = N_IMPUTATIONS,
        random_state: int | None = None,
    ) -> None:
        own = data.frame if isinstance(data, ReadTable) else table_of(data)
        self._kinds = dict(data.kinds) if isinstance(data, ReadTable) else None
        told = {name: data.kinds[name] for name in data.declared} if isinstance(data, ReadTable) else {}
        self._notes = tuple(data.notes) if isinstance(data, ReadTable) else ()
        self._targets: list[list[str]] | None = None
        if interventions is not None:
            columns = _intervention_columns(interventions, len(own))
            if columns:
                own, self._targets = _targets_from_columns(own, columns)
            else:
                self._targets = _targets_by_row(interventions)
            if self._kinds is not None:
                self._kinds = {name: kind for name, kind in self._kinds.items() if name not in columns}
        require_columns(own)
        self._declared: dict[str, Kind] = {**told, **(kinds or {})}
        if kinds is not None:
            own, self._kinds, self._read_as = _with_kinds(own, {**(self._kinds or {}), **kinds})
        check("missing", missing, one_of("error", "drop", "impute", *ALLOWED))
        check("n_imputations", n_imputations, whole(least=2))
        self.missing, self.n_imputations, self.random_state = missing, n_imputations, random_state
        if missing in ("drop", "impute"):
            own = self._settle(own, missing, dropping=blocks is not None or self._targets is not None)
        if blocks is not None and len(blocks) != len(own):
            raise DataError(f"There are {len(own)} rows, but {len(blocks)} block labels.")
        self._data = own
        self._blocks = blocks

    def _settle(self, own: Any, missing: str, *, dropping: bool) -> pd.DataFrame:
        """The rows without missing values: dropped, or imputed."""
        if missing == "drop" and dropping:
            raise UsageError("Rows with block labels or interventions are not dropped here: do so before.")
        kinds = self._kinds or InMemory(own).kinds
        table = from_frame(as_frame(own), kinds=kinds, missing=cast(Missing, missing))
        self._kinds, self._notes = dict(table.kinds), (*self._notes, *table.notes)
        return table.frame

    @property
    def described(self) -> str:
        """A table."""
        return "a table"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        from polydag.graph import node_names
        from polydag.stats.rows import column_names

        found = column_names(self._data)
        return node_names(found, np.shape(self._data)[1] if found is None else len(found))

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """As given or as a `polydag.data.Table` says; otherwise inferred, by the rule for files."""
        return self._typed[1]

    @property
    def fixed_kinds(self) -> Mapping[str, Kind]:
        """The kinds that were given, and labels that are no numbers."""
        if _is_array(self._data):
            return self._declared
        words = {
            name: kind
            for name, kind in self.kinds.items()
            if kind == "discrete" and self._typed[0][name].dtype.kind not in "iuf"
        }
        return {**words, **self._declared}

    @cached_property
    def _typed(self) -> tuple[pd.DataFrame, dict[str, Kind]]:
        """The rows with cells of one type in each column, and the kinds."""
        if _is_array(self._data):
            frame = as_frame(self._data)
            if self._kinds is not None:
                return frame, self._kinds
            few = {str(name): has_few_whole_numbers(frame[name].to_numpy()) for name in frame.columns}
            return frame, {name: "discrete" if labels else "continuous" for name, labels in few.items()}
        if self._kinds is not None:
            return self._data, self._kinds
        typed, kinds, self._read_as = _with_kinds(self._data, {})
        return typed, kinds

    @property
    def _cells(self) -> Any:
        """The rows; text that holds numbers is read."""
        if isinstance(self._data, pd.DataFrame) and any(
            dtype.kind == "O" and not isinstance(dtype, pd.CategoricalDtype) for dtype in self._data.dtypes
        ):
            return self._typed[0]
        return self._data

    @property
    def n(self) -> float:
        """The number of rows."""
        return float(len(self._data))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done when the table was read, and about missing values."""
        return (*self._notes, *self._read_as, *self.gaps_notes)

    @property
    def contents(self) -> Contents:
        """What the columns hold; test-wise, labels with gaps are scored by moments, as mixed columns are."""
        found = super().contents
        return "mixed" if found == "labels" and self.has_gaps and self.missing == "testwise" else found

    @property
    def has_gaps(self) -> bool:
        """Whether values are missing, and moments are to be had in spite of that."""
        return self.missing in INCOMPLETE and self.lacks_values

    @property
    def lacks_values(self) -> bool:
        """Whether values are missing."""
        return bool(as_frame(self._data).isna().to_numpy().any())

    def completions(self) -> tuple[Self, ...]:
        """For `missing="multiple"`: tables with what is missing drawn from a Gaussian fitted by EM."""
        if self.missing != MULTIPLE or not self.lacks_values:
            return ()
        levels = self.levels([name for name, kind in self.kinds.items() if kind == "discrete"])
        stats = self._incomplete(levels)
        rng = np.random.default_rng(self.random_state)
        return tuple(
            self.completed(levels, drawn_parameters(stats, rng), rng) for _ in range(self.n_imputations)
        )

    def completed(
        self,
        levels: Levels,
        parameters: Parameters,
        rng: np.random.Generator,
        *,
        names: Sequence[str] | None = None,
        centred: bool = False,
    ) -> Self:
        """The table with what is missing drawn, about the means of what is there where rows are centred."""
        own = {name: levels[name] for name in self.names if name in levels}
        columns = self.names if names is None else tuple(names)
        centre: Any = 0.0
        if centred:
            frame = self.gaps(own).reindex(columns=list(indicator_names(columns, levels)))
            centre = centred_gaps(frame)[1]
        filled = completed(self._typed[0], levels, parameters, rng, names=columns, centre=centre)
        again = self.with_data(filled)
        again._kinds = {name: "discrete" if name in levels else "continuous" for name in columns}
        again._declared, again.missing = self._declared, "error"
        return again

    def gaps(self, levels: Levels) -> pd.DataFrame:
        """The numbers, and indicators of labels, with what is missing."""
        if self._targets is not None:
            raise UsageError(
                f"missing={self.missing!r} cannot be combined with interventions yet. Drop such rows."
            )
        own = {name: levels[name] for name in self.names if name in levels}
        frame = with_indicators(self._typed[0], own, keep_missing=True)
        require_computable(frame)
        return frame

    def _incomplete(self, levels: Levels) -> GaussianStats:
        frame = self.gaps(levels)
        rows, shift = centred_gaps(frame)
        how: How = "testwise" if self.missing == "testwise" else "em"
        own = incomplete_moments(lambda change: change(rows), tuple(frame.columns), how)
        self.gaps_notes, self.unknown_pairs = (gaps_note(own, self.missing),), unknown_pairs(own)
        return replace(own.stats, mean=own.stats.mean + shift)

    def moments(self) -> Moments:
        """Row count, mean and scatter of the columns."""
        if self.has_gaps:
            return self._incomplete({})
        if self._targets is None:
            return GaussianStats.from_data(self._cells)
        return Regimes.from_data(self._cells, self._targets, GaussianStats.from_data)

    def counts(self) -> Any:
        """The distinct rows and how often each occurs."""
        if self.has_gaps:
            return self._counts_of_gaps
        if self._targets is None:
            return DiscreteCounts.from_data(self._cells)
        return Regimes.from_data(self._cells, self._targets, DiscreteCounts.from_data)

    @cached_property
    def _counts_of_gaps(self) -> Any:
        """Counts of labels with missing values, by structural EM."""
        if self.missing != "em":
            raise UsageError(NOT_TESTWISE)
        levels = self.levels(self.names)
        if empty := [name for name, own in levels.items() if not own]:
            raise DataError(f"Column {', '.join(empty)} has no values: all are missing. Leave it out.")
        rows = self.label_rows(levels, self.names)
        self.gaps_notes = (missing_note(rows),)
        first = AvailableTables(rows.with_missing(), self.n)
        found = expected_counts(first, rows.expected, max_turns=_TURNS)
        self.gaps_notes += (turns_note(found),)
        return found.counts

    def label_rows(self, levels: Levels, names: Sequence[str]) -> LabelRows:
        """The positions of labels in their levels, with what is missing."""
        return LabelRows.of(self._typed[0], levels, names)

    def levels(self, labels: Sequence[str]) -> Levels:
        """The labels that occur in each of some columns."""
        frame = self._typed[0]
        return {name: levels_of(frame[name]) for name in labels}

    def mixed(self, levels: Levels) -> Mixed:
        """Moments of the numbers and of indicators of the labels."""
        if self.has_gaps:
            return MixedStats(self.names, levels, self._incomplete(levels))

        def build(rows: pd.DataFrame) -> MixedStats:
            return MixedStats.from_data(rows, levels)

        frame = self._typed[0]
        return build(frame) if self._targets is None else Regimes.from_data(frame, self._targets, build)

    def require_cells(self) -> None:
        """Raise for missing values and interventions."""
        if self.has_gaps:
            raise UsageError(
                f"Moments per cell need complete rows; missing={self.missing!r} gives moments of the whole. "
                "Use the degenerate Gaussian (criterion='dg', test='dg'), or missing='drop'."
            )
        if self._targets is not None:
            raise UsageError("The conditional Gaussian model does not use interventions. Use the score dg.")

    def cells(self, mixed: MixedStats) -> CellStats:
        """Counts and moments per cell of labels."""
        self.require_cells()
        return CellStats(mixed, CellRows.of(self._typed[0], mixed))

    def rows(self) -> pd.DataFrame:
        """The rows as a DataFrame."""
        if self._targets is not None:
            raise UsageError("This learner needs rows, and it does not use interventions.")
        return self.frame

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame, whatever was set in them; text that holds numbers is read."""
        return as_frame(self._cells)

    @property
    def data(self) -> Any:
        """The rows as they were given."""
        return self._data

    @property
    def has_interventions(self) -> bool:
        """Whether variables were set by intervention in some rows."""
        return self._targets is not None

    @property
    def targets(self) -> Sequence[Sequence[str]] | None:
        """The variables that were set in each row, where that is known."""
        return self._targets

    @property
    def declared_kinds(self) -> Mapping[str, Kind]:
        """The kinds that were given."""
        return self._declared

    @property
    def has_blocks(self) -> bool:
        """Whether rows belong to blocks, so that they are not exchangeable one by one."""
        return self._blocks is not None

    def with_data(self, data: Any) -> Self:
        """The same rows with other contents: columns recoded, for example."""
        again = object.__new__(type(self))
        again._kinds, again._declared = None, {}
        again._keep_gaps_of(self)
        again._notes, again._blocks = self._notes, self._blocks
        again._targets, again._data = self._targets, data
        return again

    def with_columns(self, changed: Mapping[str, pd.Series[Any]], kind: Kind) -> Self:
        """The table with some columns replaced, all of which have one kind."""
        again = self.with_data(self._typed[0].assign(**changed))
        again._kinds = {**self.kinds, **dict.fromkeys(changed, kind)}
        again._declared = {**self._declared, **dict.fromkeys(changed, kind)}
        return again

    def _keep_gaps_of(self, other: InMemory) -> None:
        self.missing, self.n_imputations = other.missing, other.n_imputations
        self.random_state = other.random_state

    def transformed(self, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Self:
        """The table after a change of its rows."""
        self.rows()  # refused with interventions
        return self.with_data(change(self._typed[0]))

    def resampled(self, rng: np.random.Generator) -> Self:
        """As many rows drawn with replacement; or as many blocks, each of them whole."""
        drawn = draw_rows(len(self._data), rng) if self._blocks is None else draw_groups(self._blocks, rng)
        again = object.__new__(type(self))
        # Rows drawn with replacement say less about kinds than all rows.
        typed, again._kinds = self._typed
        whole = self._data if _is_array(self._data) else typed
        again._declared, again._notes, again._blocks = self._declared, self._notes, None
        again._keep_gaps_of(self)
        again._targets = None if self._targets is None else [self._targets[row] for row in drawn]
        whole = with_levels(whole)
        again._data = (
            whole.iloc[drawn].reset_index(drop=True) if hasattr(whole, "iloc") else np.asarray(whole)[drawn]
        )
        return again


def as_frame(data: Any) -> pd.DataFrame:
    """A DataFrame of whatever holds rows and columns."""
    if isinstance(data, ReadTable):
        return data.frame
    table = table_of(data)
    if isinstance(table, pd.DataFrame):
        return table
    if not isinstance(table, np.ndarray):
        frame: pd.DataFrame = table.to_pandas()
        return frame
    return pd.DataFrame(table, columns=[f"x{i}" for i in range(table.shape[1])])


def with_levels(data: Any) -> Any:
    """Text columns as categories, so that a level that is not drawn is still known."""
    if not isinstance(data, pd.DataFrame):
        return data
    text = [name for name in data.columns if data[name].dtype.kind not in "iufb"]
    return data.astype(dict.fromkeys(text, "category"))


def targets_of(words: Iterable[object]) -> list[list[str]]:
    """The intervention targets that each cell of a column names: "none", a name, or names joined by "+"."""
    cells = [str(word).strip() for word in words]
    return [[] if cell == NOTHING_SET else [part.strip() for part in cell.split("+")] for cell in cells]


def _intervention_columns(interventions: str | Sequence[object], n: int) -> list[str]:
    """The columns that name what was set; none where there is an entry for each row."""
    if isinstance(interventions, str):
        return [interventions]
    words = all(isinstance(own, str) for own in interventions)
    return [str(own) for own in interventions] if words and len(interventions) != n else []


def _targets_from_columns(data: Any, columns: Sequence[str]) -> tuple[pd.DataFrame, list[list[str]]]:
    frame = as_frame(data)
    if lost := [name for name in columns if name not in {str(own) for own in frame.columns}]:
        raise DataError(f"There is no column {lost[0]} that names the interventions.")
    left = frame.drop(columns=list(columns))
    known = {str(name) for name in left.columns}
    targets: list[list[str]] = [[] for _ in range(len(frame))]
    for column in columns:
        for row, own in enumerate(targets_of(frame[column])):
            if unknown := [name for name in own if name not in known]:
                raise DataError(
                    f"Column {column}, row {row + 1}: {unknown[0]!r} is not a column. Each cell names what "
                    f"was set in its row: {NOTHING_SET}, a column, or several joined by +."
                )
            targets[row].extend(own)
    return left, targets


def _targets_by_row(interventions: Sequence[Any]) -> list[list[str]]:
    return [
        targets_of([own])[0] if isinstance(own, str) else [str(name) for name in own] for own in interventions
    ]


def _is_array(data: Any) -> bool:
    return not hasattr(data, "columns") and not hasattr(data, "schema")


def _with_kinds(data: Any, kinds: Mapping[str, Kind]) -> Typed:
    """The rows with cells of one type in each column, and the kinds: as given, else inferred."""
    from polydag.data.readers.interface import select_columns

    frame = as_frame(data)
    names = select_columns([str(name) for name in frame.columns], None, "The table")
    select_columns(names, list(kinds), "The table")
    frame = frame.set_axis(names, axis="columns")
    if not kinds and all_have_fractions(frame):
        return Typed(frame, dict.fromkeys(names, "continuous"), ())
    typed, found, read_as = typed_columns(frame, kinds, "The table", lambda row: f"row {row + 1}")
    columns = {name: as_table_column(typed[name], kind) for name, kind in found.items()}
    return Typed(pd.DataFrame(columns, index=frame.index), found, read_as)
