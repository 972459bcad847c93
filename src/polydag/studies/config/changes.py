"""A study given on the command line, or one of a configuration file that the command line changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from polydag.errors import UsageError
from polydag.studies.config.fields import overlaid, recorded
from polydag.studies.config.shapes import SHAPES, Config, TableConfig, config_class
from polydag.studies.data.addresses import is_database
from polydag.studies.plan import plan_of, source_settings

# What decides which rows of a database are read.
_SELECTION = {"query", "columns", "kinds", "missing"}


def new_study(shape: str | None, given: Mapping[str, Any]) -> Config:
    """The study of some options alone."""
    if "data" not in given:
        raise UsageError("Name the data (polydag fit data.csv), or a configuration with --config.")
    kind = config_class(shape or TableConfig.shape)
    _require_fields(kind, given)
    return kind(**given)


def changed_study(config: Config, shape: str | None, given: Mapping[str, Any], where: str) -> Config:
    """A recorded study with some options changed; `where` is its file, for messages."""
    if shape is not None and config_class(shape) is not type(config):
        raise UsageError(
            f"{where} describes a study with --as {config.shape}; --as {shape} does not fit it. Leave --as "
            "out, or name the data and the options without --config."
        )
    _require_fields(type(config), given)
    changes = dict(given)
    if changes.get("method", config.method) != config.method:
        # Settings of another method mean nothing to this one; those of the source stay.
        changes["settings"] = {**recorded(source_settings(plan_of(config))), **changes.get("settings", {})}
    elif "settings" in changes:
        known = plan_of(config).known
        changes["settings"] = overlaid(known.named(config.settings), known.named(changes["settings"]))
    return dataclasses.replace(config, **changes)


def still_expected(sha256: Mapping[str, str], config: Config, given: Mapping[str, Any]) -> dict[str, str]:
    """The recorded SHA-256 that must not change: not those of data that the options name or select anew."""
    if "data" in given:
        return {name: digest for name, digest in sha256.items() if name not in config.data}
    if given.keys() & _SELECTION:
        return {name: digest for name, digest in sha256.items() if not is_database(name)}
    return dict(sha256)


def _require_fields(kind: type[Config], given: Mapping[str, Any]) -> None:
    """Raise for an option that belongs to another shape of data."""
    known = _fields(kind)
    if strange := [name for name in given if name not in known]:
        shapes = [f"--as {shape}" for shape, other in SHAPES.items() if strange[0] in _fields(other)]
        raise UsageError(f"--{strange[0].replace('_', '-')} is only for {' or '.join(shapes)}.")


def _fields(kind: type[Config]) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}
