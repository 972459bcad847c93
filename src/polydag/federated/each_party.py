"""Work on every party's table, with errors that name the party."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from polydag.errors import DataError

T = TypeVar("T")


def for_each_party(tables: Mapping[str, Any], build: Callable[[Any], T]) -> dict[str, T]:
    """What a function makes of every party's table; a `DataError` names the party."""
    result = {}
    for name, table in tables.items():
        try:
            result[name] = build(table)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
    return result
