"""The base of the discrete scores: contingency tables of families, from rows at hand or asked of a source.

A discrete score is a function of a family's table. Where the statistics are `DiscreteCounts`, tables are
counted from the distinct rows. Any other `CountTables` is asked for them: `prefetch` collects what a batch of
families needs into one question.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.scores.families import Family
from polydag.scores.regimes import node_groups, target_sets
from polydag.scores.spec import Kind, check_options
from polydag.stats import CountTables, DiscreteCounts, Regimes
from polydag.stats.count_tables import AnsweredTables, MergedTables

Source = CountTables | Regimes[Any]


@dataclass(frozen=True, eq=False)
class CountedRows:
    """The distinct rows of each group of nodes that the same rows score, by column, and their weights."""

    columns: list[NDArray[np.int32]]
    weights: list[Array]
    arities: Index
    group: Index

    def family(self, node: int, parents: Sequence[int]) -> Array:
        """A family's table: a row for each parent configuration that occurs, a column for each level."""
        g = int(self.group[node])
        codes = self.columns[g][list(parents)]
        configurations, where = np.unique(codes, axis=1, return_inverse=True)
        table = np.zeros((configurations.shape[1], int(self.arities[node])))
        np.add.at(table, (where.ravel(), self.columns[g][node]), self.weights[g])
        return table


@dataclass(frozen=True, eq=False)
class AskedTables:
    """The tables of each group of nodes that the same rows score, asked of sources that keep their rows."""

    answered: list[AnsweredTables]
    arities: Index
    group: Index

    def fetch(self, families: Iterable[Family]) -> None:
        """Ask for all that some families need: one question for each group."""
        sets: list[list[tuple[int, ...]]] = [[] for _ in self.answered]
        for node, parents in families:
            sets[int(self.group[node])].append((*parents, node))
        for answered, own in zip(self.answered, sets, strict=True):
            answered.fetch(own)

    def family(self, node: int, parents: Sequence[int]) -> Array:
        """A family's table: a row for each parent configuration, a column for each level."""
        table = self.answered[int(self.group[node])].table((*parents, node))
        return np.ascontiguousarray(table.reshape(-1, int(self.arities[node])))


@dataclass(frozen=True, eq=False)
class DiscreteScore(ABC):
    """A score of discrete families; subclasses say how a family's table scores.

    Parameters
    ----------
    stats : CountTables or Regimes of CountTables
        The data; with `Regimes`, each node is scored by the rows that did not set it.
    """

    kind: ClassVar[Kind] = "labels"

    stats: Source
    targets: tuple[frozenset[int], ...] = field(init=False, repr=False)
    counts: CountedRows | AskedTables = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_options(type(self), vars(self))
        object.__setattr__(self, "targets", target_sets(self.stats))
        object.__setattr__(self, "counts", _by_node(self.stats))

    @abstractmethod
    def of_table(self, table: Array, configurations: float) -> float:
        """The score of a table (parent configurations, levels of the node).

        Configurations without rows may be missing from it; `configurations` counts them all.
        """

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.stats.n

    @property
    def remote(self) -> bool:
        """Whether tables are asked of a source that keeps its rows, so that questions should be few."""
        return isinstance(self.counts, AskedTables)

    def prefetch(self, families: Iterable[Family]) -> None:
        """Ask, in one question, for all that some families need; nothing to do where rows are at hand."""
        if isinstance(self.counts, AskedTables):
            self.counts.fetch(families)

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The score of `node` given its parents."""
        configurations = math.prod(float(self.counts.arities[parent]) for parent in parents)
        return float(self.of_table(self.counts.family(node, parents), configurations))


def _by_node(stats: Source) -> CountedRows | AskedTables:
    """What scores each node: all rows, or those of the regimes that did not set it."""
    regimes: Regimes[Any] = stats if isinstance(stats, Regimes) else Regimes[Any]({frozenset(): stats})
    first, group = node_groups(regimes)
    if not all(isinstance(part, DiscreteCounts) for part in regimes.parts.values()):
        answered = [AnsweredTables(_merged(regimes, name), "max_parents") for name in first]
        return AskedTables(answered, answered[0].source.arities, group)
    # Levels seen in some regimes only still count in all of them.
    whole: DiscreteCounts = reduce(add, regimes.parts.values())
    levels = dict(zip(whole.names, whole.levels, strict=True))
    if none := [name for name, own in levels.items() if len(own) == 0]:
        raise DataError(f"Column {none[0]} has no levels.")
    aligned = Regimes({targets: part.with_levels(levels) for targets, part in regimes})
    counts = [aligned.for_node(name) for name in first]
    return CountedRows(
        [np.array(own.rows.T, dtype=np.int32, order="C") for own in counts],
        [np.array(own.counts, dtype=float) for own in counts],
        whole.arities,
        group,
    )


def _merged(regimes: Regimes[Any], name: str) -> CountTables:
    """The tables of all rows in which a node was not set."""
    usable: tuple[CountTables, ...] = tuple(part for targets, part in regimes if name not in targets)
    if not usable:
        raise DataError(f"{name} was set in every row, so nothing can be learned about its causes.")
    return usable[0] if len(usable) == 1 else MergedTables(usable)
