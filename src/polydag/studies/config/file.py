"""Configurations as tables of TOML: written so that a study can be repeated, and checked when read."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from polydag.errors import UsageError
from polydag.studies.config.shapes import Config, TableConfig, config_class


def to_table(config: Config) -> dict[str, Any]:
    """The configuration as TOML knows it: lists for tuples; what is not set, or empty, is left out."""
    table: dict[str, Any] = {"data": list(config.data), "shape": config.shape}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is None or value == {}:
            continue
        table[field.name] = _plain(value, field.name)
    return table


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(entry, name) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(entry, f"{name}.{key}") for key, entry in value.items()}
    raise UsageError(f"{name} = {value!r} cannot be written to a configuration file.")


def from_table(table: Mapping[str, Any], where: str) -> Config:
    """The configuration of a TOML table; `where` is the file, for messages."""
    shape = _typed(table.get("shape", TableConfig.shape), str, f"{where}: shape")
    try:
        kind = config_class(shape)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    hints = typing.get_type_hints(kind)
    known = ["shape", *(field.name for field in dataclasses.fields(kind))]
    if unknown := [key for key in table if key not in known]:
        raise UsageError(
            f"{where}: {unknown[0]} is not a key of a study of shape {shape}. Known are {', '.join(known)}."
        )
    if "data" not in table:
        raise UsageError(f'{where}: the study names no data. Add data = ["file.csv"].')
    given = {key: value for key, value in table.items() if key != "shape"}
    return kind(**{key: _typed(value, hints[key], f"{where}: {key}") for key, value in given.items()})


def _typed(value: Any, hint: Any, where: str) -> Any:
    """The value as its field wants it, or an error that says what is wanted."""
    if isinstance(hint, types.UnionType):
        hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
    origin = typing.get_origin(hint) or hint
    if origin is tuple:
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise UsageError(f"{where} is a list of texts; got {value!r}.")
        return tuple(value)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise UsageError(f"{where} is a table of names and values; got {value!r}.")
        return value
    if not isinstance(value, origin) or isinstance(value, bool) != (origin is bool):
        wanted = {"str": "a text", "int": "a whole number"}.get(origin.__name__, origin.__name__)
        raise UsageError(f"{where} is {wanted}; got {value!r}.")
    return value
