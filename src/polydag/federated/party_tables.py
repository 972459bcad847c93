"""The tables of several parties, and how they are protected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from polydag.errors import DataError, UsageError
from polydag.parameters import Instance, check, whole
from polydag.privacy.settings import Privacy

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class PartyTables:
    """What a federated method is fitted to; any object with these attributes can take its place.

    Attributes
    ----------
    parties : mapping of party to table
        DataFrames, arrays, statistics or sources.
    privacy : Privacy
        How sums over the parties are protected.
    min_rows : int
        A party with fewer rows declines to take part, which ends the study.
    """

    parties: Mapping[str, Any]
    privacy: Privacy = field(default_factory=Privacy)
    min_rows: int = 1


def party_tables(X: Any) -> PartyTables:
    """Parties as given, or a list or mapping of tables with the default privacy."""
    privacy, min_rows = getattr(X, "privacy", Privacy()), getattr(X, "min_rows", 1)
    check("privacy", privacy, Instance(Privacy, "a Privacy"))
    check("min_rows", min_rows, whole(least=0))
    tables = getattr(X, "parties", X)
    if not isinstance(tables, (Mapping, list, tuple)) and not _is_generator(tables):
        raise UsageError(
            "fit takes Parties, or several tables: a list or a mapping of names to tables; got "
            f"{type(X).__name__}. For one table use Notears; for files, polydag fit --as parties."
        )
    if not isinstance(tables, Mapping):
        tables = {f"site {i}": table for i, table in enumerate(tables, start=1)}
    if not tables:
        raise DataError("There are no parties: fit takes a list of tables, one for each party.")
    names = [str(name) for name in tables]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"Two parties are called {twice[0]!r}. Give every party a name of its own.")
    return PartyTables(dict(zip(names, tables.values(), strict=True)), privacy, min_rows)


def for_each_party(tables: Mapping[str, Any], build: Callable[[Any], T]) -> dict[str, T]:
    """What a function makes of every party's table; a `DataError` names the party."""
    result = {}
    for name, table in tables.items():
        try:
            result[name] = build(table)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
    return result


def _is_generator(tables: Any) -> bool:
    return isinstance(tables, Iterable) and iter(tables) is tables
