"""What a structure of the row correlation is."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from polydag.arrays import Mask
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Whitening


class Fitted(NamedTuple):
    """A structure's estimate, with its parameters by name."""

    whitening: Whitening
    parameters: dict[str, float]


class Structure(Protocol):
    """A family of row correlations."""

    @property
    def name(self) -> str:
        """As `structure=` and messages call it."""

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """The member with the highest restricted likelihood of the scored columns."""
