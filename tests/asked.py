"""A source of counts that keeps its rows and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from polydag.stats import DiscreteCounts

Array = NDArray[np.float64]


class AskedCounts:
    """Counts of a local table, given out as contingency tables only."""

    def __init__(self, counts: DiscreteCounts) -> None:
        self._counts = counts
        self.questions: list[list[tuple[int, ...]]] = []

    @property
    def names(self) -> tuple[str, ...]:
        return self._counts.names

    @property
    def levels(self) -> tuple[tuple[Hashable, ...], ...]:
        return self._counts.levels

    @property
    def arities(self) -> NDArray[np.int64]:
        return self._counts.arities

    @property
    def n(self) -> float:
        return self._counts.n

    def tables(self, sets: Sequence[tuple[int, ...]]) -> list[Array]:
        self.questions.append(list(sets))
        return self._counts.tables(sets)


def labels(seed: int, d: int, n: int, largest: int = 3) -> DiscreteCounts:
    """Dependent columns with 2 to `largest` levels: each follows earlier ones in most rows."""
    rng = np.random.default_rng(seed)
    arities = rng.integers(2, largest + 1, d)
    X = rng.integers(0, arities, size=(n, d))
    for j in range(1, d):
        source = int(rng.integers(0, j))
        follows = rng.random(n) < rng.uniform(0.3, 0.9)
        X[:, j] = np.where(follows, X[:, source] % arities[j], X[:, j])
    return DiscreteCounts.from_data(X, levels={f"x{j}": range(a) for j, a in enumerate(arities)})
