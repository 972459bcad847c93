"""A table as the learners get it: a frame, what kind each column is, where it came from, what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["continuous", "discrete"]
Missing = Literal["error", "drop", "impute", "keep"]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with named columns of known kinds.

    Attributes
    ----------
    frame : DataFrame
        Continuous columns are float64. Discrete ones keep their labels: text is categorical with sorted
        levels, whole numbers and booleans stay what they are.
    kinds : mapping of column to "continuous" or "discrete"
        In the order of the columns.
    source : str
        The file or database, as messages name it; never a password.
    notes : tuple of str
        What was done on the way in: rows left out, cells filled in.
    """

    frame: pd.DataFrame
    kinds: Mapping[str, Kind]
    source: str
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self.kinds)

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.frame)

    @property
    def continuous(self) -> tuple[str, ...]:
        """The continuous columns."""
        return tuple(name for name, kind in self.kinds.items() if kind == "continuous")

    @property
    def discrete(self) -> tuple[str, ...]:
        """The discrete columns."""
        return tuple(name for name, kind in self.kinds.items() if kind == "discrete")
