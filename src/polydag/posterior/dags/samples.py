"""Sampled DAGs with weights, and the probability of any feature, modular or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag import orientation
from polydag.arrays import Array, Index, Mask
from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.printing import rounded_repr

if TYPE_CHECKING:
    import pandas as pd

Over = Literal["orders", "dags"]

_AT_ONCE = 1 << 22  # cells of adjacency matrices that are unpacked at once


class EquivalenceClass(NamedTuple):
    """A Markov equivalence class: its CPDAG, its probability, and how many of its DAGs were drawn."""

    graph: Graph
    probability: float
    n_dags: int

    def __repr__(self) -> str:
        return rounded_repr(self)


@dataclass(frozen=True, eq=False)
class DagSamples:
    """DAGs drawn from a posterior.

    Attributes
    ----------
    names : tuple of str
        The variables.
    bits : uint8 array of shape (draws, bytes)
        The adjacency matrices, row by row, eight cells per byte.
    log_weights : array of shape (draws,)
        The log weight of each draw, up to a common constant; all equal where draws come from the posterior
        itself.
    over : {"orders", "dags"}
        The posterior that the weighted draws represent: uniform over orders, in which a DAG counts once for
        every order that agrees with it, or uniform over DAGs.
    """

    names: tuple[str, ...]
    bits: NDArray[np.uint8]
    log_weights: Array
    over: Over = "orders"

    @classmethod
    def pack(cls, names: tuple[str, ...], dags: Mask, over: Over) -> DagSamples:
        """Samples of equal weight from adjacency matrices of shape (draws, n, n)."""
        bits = np.packbits(dags.reshape(len(dags), len(names) ** 2), axis=1)
        return cls(names, bits, np.zeros(len(dags)), over)

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def adjacency(self) -> Mask:
        """All adjacency matrices, of shape (draws, n, n)."""
        return self._unpack(self.bits)

    def _unpack(self, bits: NDArray[np.uint8]) -> Mask:
        n = len(self.names)
        return np.unpackbits(bits, axis=1, count=n * n).reshape(-1, n, n).astype(bool)

    def graph(self, draw: int) -> Graph:
        """One of the DAGs."""
        return Graph(self._unpack(self.bits[draw][None])[0], self.names)

    @property
    def weights(self) -> Array:
        """The weight of each draw; weights sum to 1."""
        weights: Array = np.exp(self.log_weights - self.log_weights.max())
        weights /= weights.sum()
        return weights

    @property
    def effective_size(self) -> float:
        """Kish's effective sample size of the weights; draws of one chain are correlated besides."""
        return float(1.0 / (self.weights**2).sum())

    @cached_property
    def _distinct(self) -> tuple[NDArray[np.uint8], Array, Index]:
        """The DAGs without repetitions, the weight of each, and how often it was drawn."""
        rows, which, counts = np.unique(self.bits, axis=0, return_inverse=True, return_counts=True)
        weights = np.zeros(len(rows))
        np.add.at(weights, which.ravel(), self.weights)
        return rows, weights, counts.astype(np.int64)

    def _pieces(self) -> Iterator[tuple[Mask, Array]]:
        """The distinct DAGs with their weights, a few at a time."""
        rows, weights, _ = self._distinct
        step = max(1, _AT_ONCE // max(len(self.names) ** 2, 1))
        for begin in range(0, len(rows), step):
            yield self._unpack(rows[begin : begin + step]), weights[begin : begin + step]

    def _mean(self, values: Callable[[Mask], Mask]) -> Array:
        """The weighted mean of each cell of a matrix of truth values."""
        total = np.zeros((len(self.names), len(self.names)))
        for dags, weights in self._pieces():
            total += np.tensordot(weights, values(dags).astype(float), 1)
        return np.clip(total, 0.0, 1.0)

    def _frame(self, matrix: Array) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(matrix, index=list(self.names), columns=list(self.names))

    @property
    def edges(self) -> pd.DataFrame:
        """The probability of every edge, row -> column."""
        return self._frame(self._mean(lambda dags: dags))

    @cached_property
    def _reached(self) -> Array:
        return self._mean(_reachable)

    @property
    def ancestors(self) -> pd.DataFrame:
        """The probability that the row is an ancestor of the column."""
        return self._frame(self._reached)

    def path(self, source: object, target: object) -> float:
        """The probability of a directed path from one variable to another."""
        return float(self._reached[self._index(source), self._index(target)])

    def feature(self, function: Callable[[Graph], float]) -> float:
        """The expectation of any function of a graph, which may return True and False.

        Examples
        --------
        The probability that x and y have a common ancestor: `samples.feature(lambda graph: bool(
        set(graph.ancestors("x")) & set(graph.ancestors("y"))))`.
        """
        total = 0.0
        for dags, weights in self._pieces():
            for dag, weight in zip(dags, weights, strict=True):
                total += float(weight) * float(function(Graph(dag, self.names)))
        return total

    def classes(self, most: int | None = None) -> list[EquivalenceClass]:
        """Equivalence classes, the most probable first; at most `most` of them."""
        rows, weights, counts = self._distinct
        found: dict[bytes, tuple[Mask, float, int]] = {}
        for row, weight, count in zip(rows, weights, counts, strict=True):
            cpdag = orientation.cpdag(self._unpack(row[None])[0])
            _, before, drawn = found.get(cpdag.tobytes(), (cpdag, 0.0, 0))
            found[cpdag.tobytes()] = (cpdag, before + float(weight), drawn + int(count))
        ordered = sorted(found.values(), key=lambda one: -one[1])[:most]
        return [EquivalenceClass(Graph(one, self.names), share, drawn) for one, share, drawn in ordered]

    def over_dags(self) -> DagSamples:
        """The same draws, weighted for the posterior that is uniform over DAGs.

        A DAG counts once instead of once for every order that agrees with it. Check `effective_size` before
        using the result: where few draws carry all the weight, sample partitions instead.
        """
        from polydag.posterior.exact.linear_extensions import log_extension_counts

        if self.over == "dags":
            return self
        if not len(self):
            raise UsageError("There are no draws to weight.")
        counts = log_extension_counts(self.adjacency)
        return replace(self, log_weights=self.log_weights - counts, over="dags")

    def _index(self, name: object) -> int:
        try:
            return self.names.index(str(name))
        except ValueError:
            raise DataError(f"{name!r} is not a variable of these samples.") from None

    def __repr__(self) -> str:
        return f"<DagSamples: {len(self)} DAGs of {len(self.names)} variables, uniform over {self.over}>"


def _reachable(dags: Mask) -> Mask:
    """Where directed paths lead, for many graphs at once, by repeated squaring."""
    paths = dags
    for _ in range(max(1, int(np.ceil(np.log2(max(dags.shape[1], 2)))))):
        floats = paths.astype(np.float32)
        paths = paths | (floats @ floats > 0)
    return paths
