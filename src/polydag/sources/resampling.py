"""Bootstrap draws: single rows, or whole groups of rows that belong together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from polydag.arrays import Index
from polydag.errors import DataError


def draw_rows(n: int, rng: np.random.Generator) -> Index:
    """Row numbers drawn with replacement, as many as there are rows."""
    _require_some(n)
    return rng.integers(0, n, n)


def draw_groups(labels: Sequence[Hashable], rng: np.random.Generator) -> Index:
    """The rows of groups drawn with replacement, as many as there are groups; a group comes whole."""
    return np.concatenate(drawn_groups(labels, rng))


def drawn_groups(labels: Sequence[Hashable], rng: np.random.Generator) -> list[Index]:
    """As `draw_groups`, one array of rows per drawn group: a group that is drawn twice comes twice."""
    _require_some(len(labels))
    members: dict[Hashable, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    groups = list(members.values())
    chosen = rng.integers(0, len(groups), len(groups))
    return [np.array(groups[k], dtype=np.int64) for k in chosen]


def _require_some(n: int) -> None:
    if not n:
        raise DataError("The data has no rows to draw from.")
