"""Cells of labels over parties: counts of all cells, and moments of those with enough rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import UsageError
from polydag.federated.each_party import for_each_party
from polydag.federated.methods.statistics.cells import CELL_ARRAYS, CellQuestion, CellsParty, summed_cells
from polydag.federated.session import Outcome
from polydag.sources.interface import Source
from polydag.stats import MixedStats
from polydag.stats.cells import LEAST_ROWS, CellRows, Cells, CellStats, Columns
from polydag.stats.discrete import counted

if TYPE_CHECKING:
    from polydag.sources.parties import Parties

Counted = Callable[[Columns], Array]
Summed = Callable[[Columns, Columns, Index], tuple[Array, Array]]


class _Known(NamedTuple):
    counts: Array
    sizes: Array
    scatter: Array


class PartyCells:
    """Answers as `CellRows`; each set of label columns takes two rounds, once, for all numbers.

    Parameters
    ----------
    counted : callable
        The summed contingency table of some label columns.
    summed : callable
        The summed rows and scatter of some numbers in given cells of some label columns.
    numbers : tuple of int
        All columns of numbers.

    Notes
    -----
    Moments of cells with fewer than `LEAST_ROWS` rows of all parties are never asked for.
    """

    def __init__(self, counted: Counted, summed: Summed, numbers: Columns) -> None:
        self._counted, self._summed, self._numbers = counted, summed, numbers
        self._place = {column: k for k, column in enumerate(numbers)}
        self._known: dict[Columns, _Known] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """A stored copy has what was asked for; the parties are not in it."""
        return type(self), (not_stored, not_stored, self._numbers), {"_known": self._known}

    def __call__(self, labels: Columns, numbers: Columns, least: int) -> Cells:
        """The cells of some labels, with the scatter of some numbers."""
        if labels not in self._known:
            self._known[labels] = self._asked(labels)
        counts, sizes, scatter = self._known[labels]
        enough = sizes >= max(least, LEAST_ROWS)
        where = [self._place[column] for column in numbers]
        return Cells(counts, sizes[enough], scatter[enough][:, where][:, :, where])

    def _asked(self, labels: Columns) -> _Known:
        table = np.asarray(self._counted(labels)).ravel()
        cells = np.flatnonzero(table >= LEAST_ROWS)
        if not len(cells) or not self._numbers:
            k = len(self._numbers)
            return _Known(table[table > 0], table[cells], np.zeros((len(cells), k, k)))
        sizes, scatter = self._summed(labels, self._numbers, cells)
        return _Known(table[table > 0], sizes, scatter)


def summed_over_parties(parties: Parties, mixed: MixedStats, record: Callable[[Outcome], None]) -> CellStats:
    """Counts and moments per cell of the parties' labels, summed when they are asked for."""
    centred = parties.site_effects == "means"
    rows = for_each_party(parties.parties, lambda source: _cells_party(source, mixed, centred))
    labels = tuple(i for i, name in enumerate(mixed.names) if name in mixed.levels)
    names = tuple(mixed.names[i] for i in labels)
    codes = {party: own.rows.codes[list(labels)].T for party, own in rows.items()}
    levels = tuple(tuple(mixed.levels[name]) for name in names)
    own = {party: counted(names, levels, part) for party, part in codes.items()}

    def table(columns: tuple[int, ...]) -> Array:
        if not columns:
            return np.array([parties.n])
        (found,) = parties.asked([tuple(labels.index(i) for i in columns)], own, names)
        return np.asarray(found)

    def summed(columns: tuple[int, ...], numbers: tuple[int, ...], cells: Index) -> tuple[Array, Array]:
        sizes, scatter, outcome = summed_cells(
            rows,
            mixed.names,
            CellQuestion(columns, numbers, cells),
            parties.privacy,
            min_rows=parties.min_rows,
        )
        about = " × ".join(mixed.names[i] for i in columns) or "all rows"
        told = {name: f"{name} in {len(cells)} cells of {about}" for name in CELL_ARRAYS}
        named = outcome.disclosure["name"].replace(told)
        record(replace(outcome, disclosure=outcome.disclosure.assign(name=named)))
        return sizes, scatter

    whole = replace(mixed.moments, n=parties.n, mass=parties.n)
    numbers = tuple(i for i in range(mixed.d) if i not in labels)
    return CellStats(replace(mixed, moments=whole), PartyCells(table, summed, numbers))


def _cells_party(source: Source, mixed: MixedStats, centred: bool) -> CellsParty:
    """A party's rows in common units, about its own means where parties are centred."""
    frame = source.rows()[list(mixed.names)]
    numbers = [name for name in mixed.names if name not in mixed.levels]
    if centred and numbers:
        common = dict(zip(mixed.moments.names, mixed.moments.mean, strict=True))
        shift = {name: frame[name] - frame[name].mean() + common[name] for name in numbers}
        frame = frame.assign(**shift)
    own = source.mixed(mixed.levels)
    assert isinstance(own, MixedStats)  # without interventions
    return CellsParty(mixed.names, CellRows.of(frame, mixed), own.moments)


def not_stored(*asked: object) -> NoReturn:
    """Refused: what parties would answer is not stored with a result."""
    raise UsageError("The parties' counts are not stored with a result. Fit again to ask for more of them.")
