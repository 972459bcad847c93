"""Summed contingency tables: in one round every party contributes those of given sets of columns.

Where variables were set by intervention, there is one table of each set for each set of intervened variables.
"""

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
from polydag.federated.party_data.regimes import (
    known_regimes,
    regime_label,
    regimes_asked,
    require_all_rows,
)
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total, majority_columns
from polydag.federated.session import Outcome, run_study
from polydag.privacy.settings import Privacy
from polydag.stats import DiscreteCounts, Regimes

COUNTS = "counts"
_MOST_CELLS = 20_000_000  # in the tables of one question, which have to fit into memory
_UNIT = 20  # a power of two: in this unit a single word holds whole numbers up to 2^51 exactly
Columns = tuple[int, ...]
Levels = tuple[tuple[Hashable, ...], ...]
Counts = DiscreteCounts | Regimes[DiscreteCounts]
NOTHING_SET: frozenset[str] = frozenset()


def counts_name(targets: frozenset[str]) -> str:
    """What the counts of the rows in which some variables were set are called."""
    return f"{COUNTS}[{regime_label(targets)}]" if targets else COUNTS


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
    regimes : tuple of sets of str
        The sets of variables that were set by intervention anywhere.
    """

    names: tuple[str, ...]
    levels: Levels
    sets: tuple[Columns, ...]
    regimes: tuple[frozenset[str], ...] = (NOTHING_SET,)

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
            "regimes": [sorted(targets) for targets in self.regimes],
            "narrow": {counts_name(targets): [_UNIT] for targets in self.regimes},
        }
        size = sum(math.prod(shape) for shape in self.shapes)
        return {}, Ask(COUNTS, {}, meta, returns={counts_name(targets): (size,) for targets in self.regimes})

    def advance(self, state: State, total: Total) -> tuple[State, Answer]:
        """The sums."""
        return state, Answer(total.arrays)

    def tables(self, result: Arrays) -> dict[frozenset[str], list[Array]]:
        """The contingency tables of an answer, per set of intervened variables."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        found = {}
        for targets in self.regimes:
            parts = np.split(result[counts_name(targets)], ends[:-1])
            found[targets] = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return found


@dataclass(frozen=True, eq=False)
class CountsParty:
    """A party's side: the counts of its rows, per set of intervened variables if there are any."""

    counts: Counts

    @property
    def _parts(self) -> Mapping[frozenset[str], DiscreteCounts]:
        return self.counts.parts if isinstance(self.counts, Regimes) else {NOTHING_SET: self.counts}

    @property
    def n_rows(self) -> float:
        """The number of rows."""
        return self.counts.n

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.counts.names

    @property
    def levels(self) -> Levels:
        """The labels of each column, the same for all rows."""
        return next(iter(self._parts.values())).levels

    @property
    def data(self) -> Counts:
        """The counts."""
        return self.counts

    def fingerprint(self) -> bytes:
        """A hash of the counts."""
        digest = hashlib.sha256(repr((self.names, self.levels)).encode())
        for targets, part in self._parts.items():
            digest.update(regime_label(targets).encode() + part.rows.tobytes() + part.counts.tobytes())
        return digest.digest()

    def notes(self, state: State, arrays: Arrays) -> list[str]:
        """None."""
        return []

    def objection(self, state: State, ask: Ask) -> str | None:
        """What is missing in a question; raises where it is about other columns, levels or rows."""
        if ask.task != COUNTS:
            raise DataError(f"It does not know the question {ask.task!r}.")
        if lacking := [name for name in ("columns", "levels", "sets", "regimes") if name not in ask.meta]:
            return f"the question lacks {lacking[0]}"
        require_columns(ask, self.names)
        for name, own, asked in zip(self.names, _written(self.levels), ask.meta["levels"], strict=True):
            if own != list(asked):
                raise DataError(
                    f"Its levels of column {name} are {', '.join(own)}, in the study they are "
                    f"{', '.join(asked)}. Agree on the levels of every column first."
                )
        regimes = regimes_asked(ask)
        if regimes is None:
            return f"the question's regimes are {ask.meta['regimes']!r}"
        require_all_rows(self._parts, regimes)
        cells = 0
        for columns in ask.meta["sets"]:
            if any(column not in range(len(self.names)) for column in columns):
                return "a set names a column that does not exist"
            if len(set(columns)) != len(columns):
                return "a set names a column twice"
            cells += len(regimes) * math.prod(len(self.levels[column]) for column in columns)
            if cells > _MOST_CELLS:
                return f"the tables have more than {_MOST_CELLS} cells"
        if any(not np.array_equal(part.counts, np.rint(part.counts)) for part in self._parts.values()):
            raise DataError("Its rows are weighted; only whole numbers of rows can be added up.")
        return None

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The flattened tables, one after another; zeros for regimes in which there are no rows."""
        sets = [tuple(columns) for columns in ask.meta["sets"]]
        nothing = DiscreteCounts.without_rows(self.names, self.levels)
        sent = {}
        for targets in regimes_asked(ask) or ():
            tables = self._parts.get(targets, nothing).tables(sets)
            sent[counts_name(targets)] = np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])
        return state, sent


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
    tables, outcome = summed_counts_by_regime(parties, sets, privacy, min_rows=min_rows, key=key)
    return tables[NOTHING_SET], outcome


def summed_counts_by_regime(
    parties: Mapping[str, Counts],
    sets: Sequence[Columns],
    privacy: Privacy,
    *,
    min_rows: int = 1,
    key: str = "",
) -> tuple[dict[frozenset[str], list[Array]], Outcome]:
    """The same per set of variables that were set by intervention anywhere, in one round."""
    if privacy.epsilon is not None:
        raise UsageError("Differential privacy is available for columns of numbers only; these are counts.")
    sides = {name: CountsParty(counts) for name, counts in parties.items()}
    names = majority_columns(side.names for side in sides.values())
    levels = Counter(side.levels for side in sides.values() if side.names == names).most_common(1)[0][0]
    program = CountsProgram(names, levels, tuple(map(tuple, sets)), known_regimes(sides.values()))
    outcome = run_study(program, sides, privacy, min_rows=min_rows, key=key)
    return program.tables(outcome.result), outcome
