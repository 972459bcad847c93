"""What a study is to do, as a value that goes to TOML and back."""

from __future__ import annotations

import dataclasses
import secrets
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from polydag import studies
from polydag.errors import UsageError


@dataclass(frozen=True)
class Config:
    """All that decides the outcome of a study.

    Attributes
    ----------
    shape : str
        How the data is organised; a key of `polydag.studies.SHAPES`. It belongs to the class, so that a
        configuration cannot run as a study of another shape.
    data : tuple of str
        Files or database addresses, as given; relative paths start from the current folder.
    method : str
        A key of `polydag.learners.LEARNERS`.
    query : str, optional
        The SELECT, for a database.
    columns : tuple of str, optional
        The columns to use; all by default.
    kinds : mapping of column to "continuous" or "discrete"
        For columns whose kind should not be inferred.
    missing : str
        "error", "drop" or "impute".
    settings : mapping
        The learner's own settings; its defaults where nothing is said.
    knowledge : str, optional
        A file with background knowledge.
    bootstrap : int
        How many times the rows are drawn again to see how often each edge comes back; 0 for not at all.
    seed : int, optional
        Drawn, and recorded, where it is not given.
    jobs : int
        How many processes may work at once; the result does not depend on it.
    """

    shape: ClassVar[str] = "pooled"
    least_rows: ClassVar[int] = 2  # that a source must have

    data: tuple[str, ...]
    method: str = "notears"
    query: str | None = None
    columns: tuple[str, ...] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    missing: str = "error"
    settings: Mapping[str, Any] = field(default_factory=dict)
    knowledge: str | None = None
    bootstrap: int = 0
    seed: int | None = None
    jobs: int = 1

    def __post_init__(self) -> None:
        if not self.data:
            raise UsageError("A study needs data: name at least one file or database address.")
        if self.missing not in ("error", "drop", "impute"):
            raise UsageError(f"missing is error, drop or impute; got {self.missing!r}.")
        if self.bootstrap < 0:
            raise UsageError(f"bootstrap is a number of resamples, 0 for none; got {self.bootstrap}.")
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"A seed is a whole number from 0; got {self.seed}.")
        if self.jobs < 1:
            raise UsageError(f"jobs is the number of processes, at least 1; got {self.jobs}.")

    def seeded(self) -> Self:
        """With a seed, drawn by the system where none is given."""
        return self if self.seed is not None else dataclasses.replace(self, seed=secrets.randbelow(2**31))


def to_table(config: Config) -> dict[str, Any]:
    """The configuration as TOML knows it: lists for tuples; what is not set, or empty, is left out."""
    table: dict[str, Any] = {"data": list(config.data), "shape": config.shape}
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if value is None or value == {}:
            continue
        table[item.name] = _plain(value, item.name)
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
    name = _typed(table.get("shape", Config.shape), str, f"{where}: shape")
    try:
        kind: type[Config] = studies.shape(name).CONFIG
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    hints = typing.get_type_hints(kind)
    known = ["shape", *(item.name for item in dataclasses.fields(kind))]
    if unknown := [key for key in table if key not in known]:
        raise UsageError(f"{where}: {unknown[0]} is not known in a study. Known are {', '.join(known)}.")
    if "data" not in table:
        raise UsageError(f'{where}: the study names no data. Add data = ["file.csv"].')
    given = {key: value for key, value in table.items() if key != "shape"}
    return kind(**{key: _typed(value, hints[key], f"{where}: {key}") for key, value in given.items()})


def require_shape(config: Config, shape: str) -> None:
    """Raise where a configuration is given to the study of another shape."""
    if config.shape != shape:
        raise UsageError(
            f"{type(config).__name__} is for a study of the shape {config.shape!r}, not {shape!r}. Use "
            f"polydag.studies.{config.shape}.run, or runs.perform, which chooses by the shape."
        )


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
