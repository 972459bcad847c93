"""From whatever a person has in hand to a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from polydag.errors import DataError, UsageError
from polydag.federated.each_party import for_each_party
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
    if isinstance(X, Mapping) and not hasattr(X, "toarray"):  # one sort of sparse matrix is a mapping
        raise UsageError(
            "Several tables were given. Say what they are: Parties({...}) for rows of organisations that do "
            "not share them, Tasks({...}) for related populations; or put them together into one table."
        )
    return InMemory(X)


def named_sources(tables: Any, one: str, many: str, otherwise: str) -> dict[str, Source]:
    """A source for each table by its name; errors say whose table it is.

    Parameters
    ----------
    tables : mapping of name to table, or list of tables
        Without names they are numbered.
    one, many : str
        What messages call them, such as "task" and "tasks".
    otherwise : str
        What to do with a single table.
    """
    if isinstance(tables, Mapping):
        found = {str(name): table for name, table in tables.items()}
        if len(found) < len(tables):
            alike = [repr(name) for name in tables if sum(str(name) == str(other) for other in tables) > 1]
            raise UsageError(
                f"{many.capitalize()} need different names: {', '.join(alike)} are written alike. "
                "Rename one of them."
            )
    elif isinstance(tables, (list, tuple, Iterator)):
        found = {f"{one} {k}": table for k, table in enumerate(tables, start=1)}
    else:
        raise UsageError(
            f"{many.capitalize()} are a mapping of names to tables, or a list of tables; "
            f"got one {type(tables).__name__}. {otherwise}"
        )
    if not found:
        raise DataError(f"There are no {many}: give a list of tables, one for each {one}.")
    for name, table in found.items():
        if table is None:
            raise DataError(f"{name} is None instead of a table. Leave it out, or give its rows.")
    return for_each_party(found, as_source)
