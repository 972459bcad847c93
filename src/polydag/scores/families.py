"""What searches ask of a score: one family at a time, or a tree of parent sets for many candidates at once.

A score is any object with `local_score(node, parents)`, larger is better, on the log scale. Greedy searches
ask mostly for *gains*, `local_score(y, B + {x}) - local_score(y, B)`, for one `y`, many `x` and several `B`
that share a beginning. `ParentSets` lists such `B` in depth-first order, so that whatever was eliminated or
counted for a set serves all sets below it; a score with a `gains` method answers them in one compiled call,
any other score is called back family by family (`gains_by_callback`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


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


def gains_by_callback(
    score: Score, known: dict[tuple[int, tuple[int, ...]], float], node: int,
    candidates: Index, sets: ParentSets, wanted: Mask,
) -> Array:  # fmt: skip
    """The gains of a score that answers one family at a time; `known` remembers its answers."""

    def local(parents: tuple[int, ...]) -> float:
        key = (node, tuple(sorted(parents)))
        if key not in known:
            known[key] = float(score.local_score(*key))
        return known[key]

    result = np.zeros(wanted.shape)
    for row, parents in enumerate(sets.sets()):
        for column in np.flatnonzero(wanted[row]):
            result[row, column] = local((*parents, int(candidates[column]))) - local(parents)
    return result


def total_score(score: Score, dag: Mask) -> float:
    """The score of a DAG, `dag[i, j]` being the edge `i -> j`."""
    return float(sum(score.local_score(j, np.flatnonzero(dag[:, j]).tolist()) for j in range(len(dag))))
