"""Counts of labels with missing values: expected under a network that is learned in turns with them.

Structural EM (Friedman 1998): a first network is learned from tables of the rows that have all of a table's
columns. Missing labels are drawn from it given the others of their row, its probabilities are computed again,
and a network with the best BDeu score of the completed rows is searched for; and so on until a network comes
back. A question about counts is a sum over rows, so parties answer it under masks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from polydag.arrays import Array, Index
from polydag.orientation import consistent_extension
from polydag.printing import percent
from polydag.scores import make_score
from polydag.search.boss.search import boss
from polydag.stats import DiscreteCounts
from polydag.stats.count_tables import CountTables, bound_on_tables
from polydag.stats.discrete import counted
from polydag.stats.gaps.label_draws import Network, drawn_labels, families_of, network

Levels = tuple[tuple[Hashable, ...], ...]
NOT_TESTWISE = (
    "Counts from the rows that have each set of columns are of different rows and cannot be compared. Use "
    "missing='em', or a score or test for mixed columns (criterion='dg', test='dg')."
)
DRAWS = 10  # of each incomplete row
STEPS = 5  # of the network's tables between two searches
_SEED = 0  # the same random numbers in every turn, so that turns can end


class Expected(NamedTuple):
    """Expected counts, the turns taken, and whether the network came back."""

    counts: Any
    turns: int
    settled: bool


def expected_counts(start: CountTables, ask: Callable[[Network], CountTables], *, max_turns: int) -> Expected:
    """Expected counts under the network that structural EM ends with.

    Parameters
    ----------
    start : CountTables
        From which the first network is learned.
    ask : callable
        The counts of rows whose missing labels are drawn from a network.
    """
    counts, seen = start, set()
    for turn in range(1, max_turns + 1):
        bound, _ = bound_on_tables("max_parents", None, counts)
        found = boss(make_score("bdeu", counts), max_parents=bound, partial=False)
        dag = consistent_extension(found.adjacency)
        assert dag is not None  # the search stays within classes of DAGs
        families = families_of(dag)
        for _ in range(STEPS):
            counts = ask(network(families, counts.tables(families)))
        if (key := found.adjacency.tobytes()) in seen:
            return Expected(counts, turn, True)
        seen.add(key)
    return Expected(counts, max_turns, False)


@dataclass(frozen=True, eq=False)
class LabelRows:
    """Rows of labels, some of them missing.

    Attributes
    ----------
    names, levels
        The variables and their labels.
    codes : int array of shape (n, d)
        Positions in the levels; -1 is missing.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Hashable, ...], ...]
    codes: Index

    @classmethod
    def of(cls, frame: pd.DataFrame, levels: Any, names: Sequence[str]) -> LabelRows:
        """The rows of a table; a column that it lacks is missing in all of them."""
        codes = np.full((len(frame), len(names)), -1, dtype=np.int64)
        for k, name in enumerate(names):
            if name in frame.columns:
                codes[:, k] = pd.Index(list(levels[name])).get_indexer(pd.Index(frame[name]))
        return cls(tuple(names), tuple(tuple(levels[name]) for name in names), codes)

    def with_missing(self) -> DiscreteCounts:
        """Counts in which a level after all others stands for a missing label."""
        arities = np.array([len(own) for own in self.levels])
        codes = np.where(self.codes < 0, arities, self.codes)
        return counted(self.names, tuple((*own, None) for own in self.levels), codes, np.ones(len(codes)))

    def completed(self, model: Network) -> DiscreteCounts:
        """Whole numbers: how often each combination occurs in `DRAWS` completions of the rows."""
        arities = np.array([len(own) for own in self.levels], dtype=np.int64)
        incomplete = (self.codes < 0).any(axis=1)
        own = np.ascontiguousarray(self.codes[incomplete])
        drawn = drawn_labels(own, arities, model, DRAWS, np.random.default_rng(_SEED))
        rows = np.concatenate([self.codes[~incomplete], drawn.reshape(-1, len(arities))])
        weights = np.repeat([float(DRAWS), 1.0], [(~incomplete).sum(), DRAWS * incomplete.sum()])
        return counted(self.names, self.levels, rows, weights)

    def expected(self, model: Network) -> DiscreteCounts:
        """The expected counts under a network."""
        own = self.completed(model)
        return replace(own, counts=own.counts / DRAWS)


@dataclass(frozen=True, eq=False)
class ScaledTables:
    """Contingency tables times a factor."""

    source: Any
    factor: float

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        names: tuple[str, ...] = self.source.names
        return names

    @property
    def levels(self) -> tuple[tuple[Hashable, ...], ...]:
        """Each variable's labels."""
        levels: tuple[tuple[Hashable, ...], ...] = self.source.levels
        return levels

    @property
    def arities(self) -> Index:
        """The number of levels of each variable."""
        arities: Index = self.source.arities
        return arities

    @property
    def n(self) -> float:
        """The number of rows, times the factor."""
        return float(self.source.n * self.factor)

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    def tables(self, sets: Sequence[tuple[int, ...]]) -> list[Array]:
        """The table of each set of columns."""
        return [table * self.factor for table in self.source.tables(sets)]


def missing_note(rows: LabelRows) -> str:
    """How many labels are missing."""
    complete = int((rows.codes >= 0).all(axis=1).sum())
    share, n = (rows.codes < 0).mean(), len(rows.codes)
    return f"{percent(share)} of the values are missing; {complete} of {n} rows are complete."


def turns_note(found: Expected) -> str:
    """How counts were computed in spite of missing labels."""
    early = "" if found.settled else ", which ended before the network settled"
    return (
        f"Missing labels were drawn {DRAWS} times from a network, alternating with learning it "
        f"(structural EM, {found.turns} iterations{early})."
    )
