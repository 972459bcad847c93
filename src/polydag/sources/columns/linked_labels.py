"""Labels among the columns of linked rows: as indicators, or as codes of levels in order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from polydag.data.readers.interface import select_columns
from polydag.data.table import Kind
from polydag.errors import DataError
from polydag.rows.latent.labels import Levels as LatentLevels
from polydag.rows.latent.labels import ordered_levels, with_codes
from polydag.sources.table import as_frame
from polydag.stats.discrete import levels_of
from polydag.stats.mixed import with_indicators


def with_indicators_of(
    data: Any, kinds: Mapping[str, Kind], others: Sequence[Any]
) -> tuple[Any, tuple[str, ...], dict[str, tuple[Hashable, ...]]]:
    """The table with indicators in place of labels, its variables, and the levels of labels.

    `others` name columns that are no variables. Without labels the table stays as it is.
    """
    if not hasattr(data, "columns") and not kinds:
        return data, (), {}
    frame = as_frame(data)
    taken = {name for name in others if isinstance(name, str)}
    names = select_columns([str(name) for name in frame.columns], None, "The table")
    if unknown := [name for name in kinds if name not in names]:
        raise DataError(f"There is no column {unknown[0]} whose kind is given.")
    frame = frame.set_axis(names, axis="columns")
    variables = [name for name in names if name not in taken]
    words = [name for name in variables if frame[name].dtype.kind not in "iufbM" and name not in kinds]
    labels = [name for name in variables if name in words or kinds.get(name) == "discrete"]
    if not labels:
        return data, (), {}
    levels = {name: levels_of(frame[name]) for name in labels}
    if single := [name for name, own in levels.items() if len(own) < 2]:
        raise DataError(f"Column {single[0]} has only one level: it is constant. Leave it out.")
    expanded = with_indicators(frame[variables], levels)
    rest = frame[[name for name in names if name in taken]]
    return pd.concat([expanded, rest], axis="columns"), tuple(variables), levels


def with_codes_of(data: Any, kinds: Mapping[str, Kind], others: Sequence[Any]) -> tuple[Any, LatentLevels]:
    """The table with codes in place of labels whose levels have an order, and these levels."""
    frame = as_frame(data)
    names = select_columns([str(name) for name in frame.columns], None, "The table")
    if unknown := [name for name in kinds if name not in names]:
        raise DataError(f"There is no column {unknown[0]} whose kind is given.")
    frame = frame.set_axis(names, axis="columns")
    taken = {name for name in others if isinstance(name, str)}
    levels = ordered_levels(frame[[name for name in names if name not in taken]], kinds)
    return (with_codes(frame, levels), levels) if levels else (data, levels)
