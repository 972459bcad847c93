"""Summed contingency tables: in one round every party contributes those of given sets of columns."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError, UsageError
from polydag.federated.models.linear_party import require_columns
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total, majority_columns
from polydag.federated.session import Outcome, run_study
from polydag.privacy.settings import Privacy
from polydag.stats import DiscreteCounts

COUNTS = "counts"
_MOST_CELLS = 20_000_000  # in the tables of one question, which have to fit into memory
_UNIT = 20  # a power of two: in this unit a single word holds whole numbers up to 2^51 exactly
Columns = tuple[int, ...]
Levels = tuple[tuple[Hashable, ...], ...]


@dataclass(frozen=True, eq=False)
class CountsProgram:
    """The coordinator's side; its answer holds the tables, which `tables` reads.

    Parameters
    ----------
    names : tuple of str
        The columns.
    levels : tuple of tuples
        The labels of each column, which all parties must have agreed on.
    sets : sequence of tuples of int
        The sets of columns, by position; a table has one axis for each column in the order given.
    """

    names: tuple[str, ...]
    levels: Levels
    sets: tuple[Columns, ...]

    @property
    def tolerates_absence(self) -> bool:
        """All parties must answer."""
        return False

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each table."""
        return [tuple(len(self.levels[column]) for column in columns) for columns in self.sets]

    def begin(self) -> tuple[State, Ask]:
        """Ask for all tables at once."""
        meta = {
            "columns": list(self.names),
            "levels": _written(self.levels),
            "sets": [list(columns) for columns in self.sets],
            "narrow": {COUNTS: [_UNIT]},
        }
        size = sum(math.prod(shape) for shape in self.shapes)
        return {}, Ask(COUNTS, {}, meta, returns={COUNTS: (size,)})

    def advance(self, state: State, total: Total) -> tuple[State, Answer]:
        """The sums."""
        return state, Answer(total.arrays)

    def tables(self, result: Arrays) -> list[Array]:
        """The contingency tables of an answer."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        parts = np.split(result[COUNTS], ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]


@dataclass(frozen=True, eq=False)
class CountsParty:
    """A party's side: it holds the counts of its rows."""

    counts: DiscreteCounts

    @property
    def n_rows(self) -> float:
        """The number of rows."""
        return self.counts.n

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.counts.names

    @property
    def data(self) -> DiscreteCounts:
        """The counts."""
        return self.counts

    def fingerprint(self) -> bytes:
        """A hash of the counts."""
        head = repr((self.names, self.counts.levels)).encode()
        return hashlib.sha256(head + self.counts.rows.tobytes() + self.counts.counts.tobytes()).digest()

    def notes(self, state: State, arrays: Arrays) -> list[str]:
        """None."""
        return []

    def objection(self, state: State, ask: Ask) -> str | None:
        """What is missing in a question; raises where it is about other columns or levels."""
        if ask.task != COUNTS:
            raise DataError(f"It does not know the question {ask.task!r}.")
        if lacking := [name for name in ("columns", "levels", "sets") if name not in ask.meta]:
            return f"the question lacks {lacking[0]}"
        require_columns(ask, self.names)
        for name, own, asked in zip(
            self.names, _written(self.counts.levels), ask.meta["levels"], strict=True
        ):
            if own != list(asked):
                raise DataError(
                    f"Its levels of column {name} are {', '.join(own)}, in the study they are "
                    f"{', '.join(asked)}. Agree on the levels of every column first."
                )
        cells = 0
        for columns in ask.meta["sets"]:
            if any(column not in range(len(self.names)) for column in columns):
                return "a set names a column that does not exist"
            if len(set(columns)) != len(columns):
                return "a set names a column twice"
            cells += math.prod(len(self.counts.levels[column]) for column in columns)
            if cells > _MOST_CELLS:
                return f"the tables have more than {_MOST_CELLS} cells"
        if not np.array_equal(self.counts.counts, np.rint(self.counts.counts)):
            raise DataError("Its rows are weighted; only whole numbers of rows can be added up.")
        return None

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The flattened tables, one after another."""
        tables = self.counts.tables([tuple(columns) for columns in ask.meta["sets"]])
        return state, {COUNTS: np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])}


def _written(levels: Levels) -> list[list[str]]:
    """Levels as words, for messages."""
    return [list(map(repr, own)) for own in levels]


def summed_counts(
    parties: Mapping[str, DiscreteCounts],
    sets: Sequence[Columns],
    privacy: Privacy,
    *,
    min_rows: int = 1,
    key: str = "",
) -> tuple[list[Array], Outcome]:
    """The contingency tables of given sets of columns over all parties' rows, as exact whole numbers.

    Parameters
    ----------
    parties : mapping of party to DiscreteCounts
        The counts of each party's rows; all parties must have the same columns and levels.
    sets : sequence of tuples of int
        The sets of columns, by position; a table has one axis for each column in the order given.
    privacy : Privacy
        How sums are protected.
    min_rows, key
        As for `run_study`.
    """
    if privacy.epsilon is not None:
        raise UsageError("Differential privacy is available for columns of numbers only; these are counts.")
    sides = {name: CountsParty(counts) for name, counts in parties.items()}
    names = majority_columns(side.names for side in sides.values())
    levels = Counter(own.levels for own in parties.values() if own.names == names).most_common(1)[0][0]
    program = CountsProgram(names, levels, tuple(map(tuple, sets)))
    outcome = run_study(program, sides, privacy, min_rows=min_rows, key=key)
    return program.tables(outcome.result), outcome
