"""Background knowledge: required edges, forbidden edges, and temporal tiers.

A `Knowledge` is frozen and free of contradictions. `Knowledge.masks` turns it into two masks over a learner's
variables. `polydag.data.knowledge_file` reads it from a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from polydag import orientation
from polydag.arrays import Mask
from polydag.errors import DataError, UsageError

Pair = tuple[str, str]


class Masks(NamedTuple):
    """Which edges are required and which forbidden; entry `[i, j]` refers to `i -> j`."""

    required: Mask
    forbidden: Mask


def _pairs(edges: Iterable[Sequence[object]], what: str) -> frozenset[Pair]:
    result = set()
    for edge in edges:
        if isinstance(edge, str) or len(edge) != 2:
            raise DataError(f"A {what} edge is a pair (source, target); got {edge!r}.")
        source, target = str(edge[0]), str(edge[1])
        if source == target:
            raise DataError(f"The {what} edge {source} -> {target} is a self-loop.")
        result.add((source, target))
    return frozenset(result)


def _tiers(tiers: Iterable[Iterable[object]]) -> tuple[tuple[str, ...], ...]:
    result = []
    for tier in tiers:
        if isinstance(tier, str):  # would be split into characters
            raise DataError(f"A tier is a list of names; got {tier!r}. Write [{tier!r}].")
        result.append(tuple(str(name) for name in tier))
    return tuple(result)


def _show(edges: Iterable[Pair]) -> str:
    return ", ".join(f"{source} -> {target}" for source, target in sorted(edges))


@dataclass(frozen=True)
class Knowledge:
    """Required edges, forbidden edges, and tiers: no edge points from a later tier to an earlier one.

    Parameters
    ----------
    required, forbidden : iterables of (source, target)
        Edges, by the names of their endpoints.
    tiers : sequence of sequences of names
        Earliest tier first. A variable need not be in any tier.

    Examples
    --------
    >>> Knowledge(required=[("smoking", "cancer")], tiers=[["age", "smoking"], ["cancer"]]).is_empty
    False
    >>> Knowledge(required=[("a", "b"), ("b", "a")])
    Traceback (most recent call last):
    polydag.errors.DataError: The required edges form a cycle: a -> b -> a. Remove one of them.
    """

    required: frozenset[Pair] = field(default_factory=frozenset)
    forbidden: frozenset[Pair] = field(default_factory=frozenset)
    tiers: tuple[tuple[str, ...], ...] = ()

    def __init__(
        self,
        required: Iterable[Sequence[object]] = (),
        forbidden: Iterable[Sequence[object]] = (),
        tiers: Iterable[Iterable[object]] = (),
    ) -> None:
        object.__setattr__(self, "required", _pairs(required, "required"))
        object.__setattr__(self, "forbidden", _pairs(forbidden, "forbidden"))
        object.__setattr__(self, "tiers", _tiers(tiers))
        self._check()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not (self.required or self.forbidden or self.tiers)

    def _tier_numbers(self) -> dict[str, int]:
        level: dict[str, int] = {}
        for number, tier in enumerate(self.tiers):
            for name in tier:
                if name in level:
                    raise DataError(f"{name} is in two tiers ({level[name] + 1} and {number + 1}).")
                level[name] = number
        return level

    def _check(self) -> None:
        if both := self.required & self.forbidden:
            raise DataError(f"Both required and forbidden: {_show(both)}. Remove one of the two statements.")
        level = self._tier_numbers()
        for source, target in sorted(self.required):
            if source in level and target in level and level[source] > level[target]:
                raise DataError(
                    f"The required edge {source} -> {target} points back in time: {source} is in tier "
                    f"{level[source] + 1}, {target} in tier {level[target] + 1}."
                )
        names = sorted({end for edge in self.required for end in edge})
        masks = self._required_mask(names)
        if orientation.topological_order(masks) is None:
            cycle = " -> ".join(names[i] for i in _find_cycle(masks))
            raise DataError(f"The required edges form a cycle: {cycle}. Remove one of them.")
        self._check_paths(names, masks, level)

    def _check_paths(self, names: list[str], required: Mask, level: dict[str, int]) -> None:
        """Refuse required paths that lead back in time through variables without a tier."""
        for i, j in np.argwhere(orientation.reachable(required)):
            source, target = names[i], names[j]
            if level.get(source, -1) > level.get(target, len(self.tiers)):
                raise DataError(
                    f"The required edges lead from {source} (tier {level[source] + 1}) back to "
                    f"{target} (tier {level[target] + 1}): {_show(self.required)}."
                )

    def _required_mask(self, names: Sequence[str]) -> Mask:
        index = {name: i for i, name in enumerate(names)}
        mask = np.zeros((len(names), len(names)), dtype=bool)
        for source, target in self.required:
            mask[index[source], index[target]] = True
        return mask

    def masks(self, names: Sequence[str]) -> Masks:
        """The masks of required and forbidden edges among `names`.

        Edges that would complete a cycle with required edges, or a path from a later tier to an earlier one,
        are forbidden as well.
        """
        named = {end for edge in self.required | self.forbidden for end in edge}
        named.update(name for tier in self.tiers for name in tier)
        if unknown := sorted(named - set(names)):
            raise DataError(
                f"The background knowledge refers to {', '.join(unknown)}, which is not among the variables "
                f"({', '.join(names[:8])}{', …' if len(names) > 8 else ''})."
            )
        index = {name: i for i, name in enumerate(names)}
        required = self._required_mask(names)
        backward = np.eye(len(names), dtype=bool)
        earlier: list[int] = []
        for tier in self.tiers:
            current = [index[name] for name in tier]
            backward[np.ix_(current, earlier)] = True
            earlier += current
        forbidden = backward
        # Forbid i -> j if required paths lead from s to i and from j to t, and s must not precede t.
        if self.required:
            leads = (orientation.reachable(required) | np.eye(len(names), dtype=bool)).astype(np.float32)
            forbidden = leads.T @ backward.astype(np.float32) @ leads.T > 0
        for source, target in self.forbidden:
            forbidden[index[source], index[target]] = True
        return Masks(required, forbidden)


def _find_cycle(A: Mask) -> list[int]:
    """The nodes of one directed cycle, starting and ending with its smallest index."""
    inside = A & orientation.reachable(A).T
    walk = [int(np.flatnonzero(inside.any(axis=1))[0])]
    while walk[-1] not in walk[:-1]:
        walk.append(int(np.flatnonzero(inside[walk[-1]])[0]))
    cycle = walk[walk.index(walk[-1]) : -1]
    lead = cycle.index(min(cycle))
    cycle = cycle[lead:] + cycle[:lead]
    return [*cycle, cycle[0]]


def joined(one: Knowledge | None, other: Knowledge | None) -> Knowledge | None:
    """What two statements say together; only the first may have tiers."""
    if one is None or other is None:
        return one or other
    return Knowledge(one.required | other.required, one.forbidden | other.forbidden, one.tiers)


def knowledge_masks(knowledge: Knowledge | None, names: tuple[str, ...]) -> Masks:
    """The masks of background knowledge; without any, only self-loops are forbidden."""
    if knowledge is not None and not isinstance(knowledge, Knowledge):
        raise UsageError(f"knowledge must be a polydag.Knowledge, not {type(knowledge).__name__}.")
    return (knowledge or Knowledge()).masks(names)
