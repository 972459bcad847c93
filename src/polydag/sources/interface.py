"""A source answers one question: the sufficient statistics of the rows, of numbers or of labels.

A learner never asks where the rows are. It asks a source for moments or for counts, and the source is a
table, a file larger than memory, statistics as given, decorrelated rows, or parties that add up under masks.
Sources nest: parties whose rows are linked, tasks whose members are parties, a resample of any of these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

from polydag.data.table import Kind
from polydag.errors import UsageError
from polydag.knowledge import Knowledge
from polydag.stats import ByNode, DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.cells import CellStats
from polydag.stats.mixed import Levels, indicator_names, with_indicators

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Moments = GaussianStats | Regimes[GaussianStats]
Counts = DiscreteCounts | Regimes[DiscreteCounts]
Mixed = MixedStats | Regimes[MixedStats]
Contents = Literal["numbers", "labels", "mixed"]


def contents_of(kinds: Mapping[str, Kind]) -> Contents:
    """What columns of some kinds hold."""
    found = set(kinds.values())
    if len(found) == 2:
        return "mixed"
    return "labels" if found == {"discrete"} else "numbers"


# What is known about each array that left a party; a source that keeps its rows to itself has no such
# entries.
DISCLOSED = ("site", "round", "name", "shape", "bytes", "masked", "noise")


class Source(ABC):
    """Where the sufficient statistics of a table come from.

    Attributes
    ----------
    names : tuple of str
        The variables.
    kinds : mapping of name to "continuous" or "discrete"
        What each variable is to a learner: a number or a label.
    n : float
        The number of rows.
    unknown_pairs : tuple of pairs of names
        Columns that no row has both of, once moments were computed in spite of missing values.
    """

    unknown_pairs: tuple[tuple[str, str], ...] = ()

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The variables."""

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, Kind]:
        """Whether each variable is a number ("continuous") or a label ("discrete")."""

    @property
    @abstractmethod
    def n(self) -> float:
        """The number of rows."""

    @abstractmethod
    def moments(self) -> Moments:
        """Row count, mean and scatter; one of each per set of intervened variables, where these are known."""

    def family_moments(self) -> Moments | ByNode:
        """The same for learners that score families, where these may differ by the child; see `ByNode`."""
        return self.moments()

    @property
    def knowledge(self) -> Knowledge | None:
        """What is known of the graph from where the rows come, such as causes that lie before all others."""
        return None

    @abstractmethod
    def counts(self) -> Any:
        """Counts of labels: any column set's contingency table can be read off them (`CountTables`)."""

    @property
    def fixed_kinds(self) -> Mapping[str, Kind]:
        """The kinds of columns that leave no choice: given by the caller, or of text.

        Whole numbers that are inferred to be labels can still be used as numbers.
        """
        return {}

    def levels(self, labels: Sequence[str]) -> Levels:
        """The labels that occur in each of some columns."""
        raise UsageError(
            f"Labels among numbers need rows; {self.described} has none to give. Leave them out."
        )

    def mixed(self, levels: Levels) -> Mixed:
        """Moments of the numbers and of indicators of the labels, which have these levels."""
        moments = self.transformed(partial(with_indicators, levels=levels)).moments()
        assert isinstance(moments, GaussianStats)  # changed rows have no interventions
        return MixedStats(self.names, levels, moments.select(indicator_names(self.names, levels)))

    def require_cells(self) -> None:
        """Raise where there are no moments per cell of labels, before anything is computed."""
        raise UsageError(
            f"Moments per cell of labels need rows; {self.described} has none to give. Use the score dg."
        )

    def cells(self, mixed: MixedStats) -> CellStats:
        """Counts and moments per cell of labels, on request, of rows whose moments are known."""
        self.require_cells()
        raise NotImplementedError

    def rows(self) -> pd.DataFrame:
        """The rows themselves, for learners that need them; refused by sources that cannot give them."""
        raise UsageError(f"This learner needs rows, not statistics; {self.described} has no rows to give.")

    def transformed(self, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Source:
        """A source of changed rows, such as stacked time slices; parties change their own."""
        raise UsageError(f"This learner needs rows, not statistics; {self.described} has no rows to give.")

    def resampled(self, rng: np.random.Generator) -> Self:
        """A bootstrap resample: a source of the same sort over rows (or groups of rows) drawn anew."""
        raise UsageError(f"A bootstrap draws rows again, and {self.described} has no rows to draw.")

    def completions(self) -> tuple[Source, ...]:
        """The sources with what is missing drawn, where several draws were asked for; none otherwise."""
        return ()

    @property
    def described(self) -> str:
        """What the source is, in words that fit into a sentence."""
        return "this source"

    @property
    def effective_n(self) -> float:
        """How many independent rows these are worth where their dependence is ignored; `n` by default."""
        return self.n

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know about the data."""
        return ()

    @property
    def disclosure_(self) -> pd.DataFrame:
        """Every array that left a party so far; empty for sources without parties."""
        import pandas as pd

        return pd.DataFrame(columns=list(DISCLOSED))

    @property
    def protection_(self) -> str:
        """What was protected from whom; empty for sources without parties."""
        return ""

    @property
    def contents(self) -> Contents:
        """What the columns hold: numbers, labels, or a mixture of both."""
        return contents_of(self.kinds)
