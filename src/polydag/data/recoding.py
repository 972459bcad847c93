"""Labels written in another way, `sex:female=F`, and numbers in other units, `chol=38.67`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd


def recoded(
    frame: pd.DataFrame, labels: Sequence[str], factors: Mapping[str, float], label: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The table with labels replaced and numbers multiplied, and notes on what was done.

    Parameters
    ----------
    labels : sequence of str
        `COLUMN:OLD=NEW`; a table without the column, or without the label, stays as it is.
    factors : mapping of column to float
        What its numbers are multiplied by.
    """
    result, notes = frame, []
    for entry in labels:
        name, colon, change = entry.partition(":")
        old, equals, new = change.partition("=")
        if not (name and colon and equals and old):
            raise UsageError(f"A label is recoded by COLUMN:OLD=NEW, as sex:female=F; got {entry!r}.")
        if name not in result.columns:
            continue
        column = result[name]
        hit = column.map(lambda cell, old=old: str(cell) == old).to_numpy(dtype=bool)
        if hit.any():
            result = result.assign(**{name: column.astype(object).where(~hit, new)})
            notes.append(f"{name}: {int(hit.sum())} labels {old!r} were recoded as {new!r}.")
    for name, factor in factors.items():
        if name not in result.columns:
            raise DataError(f"{label} has no column {name} to rescale.")
        if getattr(result[name].dtype, "kind", "O") not in "iuf":
            raise DataError(f"{label}, column {name} holds no numbers to rescale.")
        result = result.assign(**{name: result[name] * factor})
        notes.append(f"{name} was multiplied by {factor:g}.")
    return result, tuple(notes)
