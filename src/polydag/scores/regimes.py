"""Interventions as scores see them: targets by index, and nodes grouped by the rows that score them."""

from __future__ import annotations

from typing import Any

import numpy as np

from polydag.arrays import Index
from polydag.stats import ByNode, Regimes


def target_sets(stats: Any) -> tuple[frozenset[int], ...]:
    """The sets of intervened nodes, by index; empty for statistics without interventions."""
    if not isinstance(stats, Regimes | ByNode):
        return ()
    index = {name: i for i, name in enumerate(stats.names)}
    sets = stats.parts if isinstance(stats, Regimes) else stats.targets
    return tuple(frozenset(index[name] for name in targets) for targets in sets)


def node_groups(stats: Any) -> tuple[list[str], Index]:
    """A node of each group that the same rows score, and which group each node belongs to.

    A node is scored by the regimes that did not set it, or by statistics of its own; otherwise there is one
    group.
    """
    parts = stats.parts if isinstance(stats, Regimes) else {}
    found: dict[object, int] = {}
    first: list[str] = []
    group = []
    for name in stats.names:
        key: object = frozenset(targets for targets in parts if name in targets)
        if isinstance(stats, ByNode):
            key = id(stats.for_node(name))
        if key not in found:
            found[key] = len(first)
            first.append(name)
        group.append(found[key])
    return first, np.array(group, dtype=np.int64)
