"""From whatever a person has in hand to a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polydag.errors import DataError, UsageError
from polydag.sources.given import Given, is_statistics
from polydag.sources.interface import Source
from polydag.sources.table import InMemory


def as_source(X: Any) -> Source:
    """A source of a table, of statistics, or a source as it is.

    Parameters
    ----------
    X : Source, DataFrame, array, Arrow table, polydag.data.Table, GaussianStats, DiscreteCounts or Regimes
        What holds the data.
    """
    if isinstance(X, Source):
        return X
    if is_statistics(X):
        return Given(X)
    if X is None:
        raise DataError("There is no data: got None instead of a table.")
    if isinstance(X, Mapping):
        raise UsageError(
            "Several tables were given. Say what they are: Parties({...}) for rows of organisations that do "
            "not "
            "share them, Tasks({...}) for related populations; or put them together into one table."
        )
    return InMemory(X)


def named_sources(tables: Mapping[str, Any]) -> dict[str, Source]:
    """A source for each named table; errors say whose table it is."""
    sources = {}
    for name, table in tables.items():
        try:
            sources[name] = as_source(table)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
    return sources
