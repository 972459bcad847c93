"""A table as learners receive it: the data, the kind of each column, its source, and notes on reading."""

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
    """A table with named columns of known kinds.

    Attributes
    ----------
    frame : DataFrame
        Continuous columns are float64. Discrete columns keep their labels: text becomes categorical with
        sorted levels; whole numbers and booleans keep their types.
    kinds : mapping of column to "continuous" or "discrete"
        In column order.
    source : str
        The name of the file or database in messages; never contains a password.
    notes : tuple of str
        What was done when reading: rows dropped, values imputed.
    declared : frozenset of str
        The columns whose kind was given by the caller rather than inferred.
    left_out : tuple of str
        The columns that were excluded on request.
    """

    frame: pd.DataFrame
    kinds: Mapping[str, Kind]
    source: str
    notes: tuple[str, ...] = ()
    declared: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The column names."""
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
