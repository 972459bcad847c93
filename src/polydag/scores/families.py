"""What searches ask of a score: one family at a time, or a tree of parent sets for many candidates at once.

A score is any object with `local_score(node, parents)`, larger is better, on the log scale. Greedy searches
ask mostly for *gains*, `local_score(y, B + {x}) - local_score(y, B)`, for one `y`, many `x` and several `B`
that share a beginning. `ParentSets` lists such `B` in depth-first order, so that whatever was eliminated or
counted for a set serves all sets below it. A score may have

- `gains(node, candidates, sets, wanted, positive_only)`, which answers them in one compiled call; without it,
  families are scored one by one (`gains_by_family`);
- `remote` and `prefetch(families)`, where it asks a source that answers in rounds: what is needed next is
  then collected into one question;
- `n`, the number of rows, and `targets`, the sets of intervened nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from polydag.arrays import Array, Index, Mask

Family = tuple[int, tuple[int, ...]]  # a node and its parents


@runtime_checkable
class Score(Protocol):
    """A decomposable score: the sum of `local_score` over all nodes is the score of a DAG."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        ...

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The log score of one family; larger is better."""
        ...


class ParentSets(NamedTuple):
    """Parent sets in depth-first order: set `k` is `root`, the ancestors of `element[k]`, and `element[k]`.

    `depth[k]` counts the elements after the root; an entry of depth 0 is the root alone (its element is -1).
    """

    root: Index
    element: Index
    depth: Index

    def sets(self) -> list[tuple[int, ...]]:
        """Every set, written out."""
        path: list[int] = []
        result = []
        for element, depth in zip(self.element.tolist(), self.depth.tolist(), strict=True):
            del path[max(depth - 1, 0) :]
            if depth:
                path.append(element)
            result.append((*self.root.tolist(), *path))
        return result

    @property
    def sizes(self) -> Index:
        """The number of members of every set."""
        sizes: Index = len(self.root) + self.depth
        return sizes

    @classmethod
    def only(cls, members: Index) -> ParentSets:
        """A single set."""
        return cls(members, np.array([-1]), np.array([0]))

    @classmethod
    def chains(cls, root: Sequence[int], sets: Sequence[Sequence[int]]) -> tuple[ParentSets, Index]:
        """Any sets below a root, one chain each, and where each one ends."""
        element, depth, last = [], [], []
        for members in sets:
            element += list(members) or [-1]
            depth += list(range(1, len(members) + 1)) or [0]
            last.append(len(element) - 1)
        parts = (np.array(values, dtype=np.int64) for values in (root, element, depth, last))
        first, second, third, ends = parts
        return cls(first, second, third), ends


def enlarged_families(node: int, candidates: Index, sets: ParentSets, wanted: Mask) -> Iterator[Family]:
    """The families of a node in which a candidate has joined a set, where wanted."""
    for row, parents in enumerate(sets.sets()):
        for column in np.flatnonzero(wanted[row]):
            yield node, (*parents, int(candidates[column]))


def gains_by_family(
    score: Score,
    node: int,
    candidates: Index,
    sets: ParentSets,
    wanted: Mask,
    known: dict[Family, float] | None = None,
) -> Array:
    """The gains of a score that answers one family at a time; `known` remembers its answers."""
    known = {} if known is None else known

    def local(parents: tuple[int, ...]) -> float:
        key = (node, tuple(sorted(parents)))
        if key not in known:
            known[key] = float(score.local_score(*key))
        return known[key]

    if getattr(score, "remote", False):
        score.prefetch(enlarged_families(node, candidates, sets, wanted))  # type: ignore[attr-defined]
    result = np.zeros(wanted.shape)
    for row, parents in enumerate(sets.sets()):
        for column in np.flatnonzero(wanted[row]):
            result[row, column] = local((*parents, int(candidates[column]))) - local(parents)
    return result


def total_score(score: Score, dag: Mask) -> float:
    """The score of a DAG, `dag[i, j]` being the edge `i -> j`."""
    return float(sum(score.local_score(j, np.flatnonzero(dag[:, j]).tolist()) for j in range(len(dag))))
