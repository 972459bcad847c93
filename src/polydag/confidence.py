"""How sure each pair of variables is: one table for posteriors, bootstraps and votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from polydag.arrays import Array, Mask
from polydag.errors import UsageError
from polydag.graph import Edge, Graph
from polydag.metrics.proportions import wilson_interval

if TYPE_CHECKING:
    import pandas as pd

# A posterior gives probabilities; a bootstrap the frequency of an edge over resamples, which is no
# probability; a vote the share of the parties that found the edge by themselves.
Kind = Literal["probability", "frequency", "votes"]
LEAST = 0.05  # pairs that are adjacent with less are not listed
COLUMNS = ("a", "b", "adjacent", "forward", "backward", "undirected", "kind", "low", "high")


@dataclass(frozen=True, eq=False)
class Confidence:
    """How probable, or how frequent, each edge is, in each direction and in any.

    Attributes
    ----------
    names : tuple of str
        The variables.
    forward : array of shape (d, d)
        `[i, j]` is the share of `i -> j`.
    undirected : array of shape (d, d), optional
        The share of undirected edges, symmetric; none by default.
    kind : str
        "probability", "frequency" or "votes".
    n : int, optional
        The number of resamples or of parties.
    """

    names: tuple[str, ...]
    forward: Array
    kind: Kind
    undirected: Array | None = None
    n: int | None = None

    @classmethod
    def of_graphs(cls, graphs: Mask, names: tuple[str, ...], kind: Kind) -> Confidence:
        """The shares of edges over a stack of adjacency matrices."""
        both = graphs & graphs.transpose(0, 2, 1)
        return cls(names, (graphs & ~both).mean(axis=0), kind, both.mean(axis=0), len(graphs))

    @property
    def adjacent(self) -> Array:
        """The share of an edge between two variables, of any direction."""
        found = self.forward + self.forward.T
        if self.undirected is not None:
            found = found + self.undirected
        return np.minimum(found, 1.0)

    @property
    def split(self) -> Array:
        """As `forward`, with undirected edges counted half each way."""
        return self.forward if self.undirected is None else self.forward + 0.5 * self.undirected

    def of_edge(self, edge: Edge) -> float:
        """The share of an edge in the direction shown, or of any direction if none is shown."""
        i, j = self.names.index(edge.source), self.names.index(edge.target)
        return float((self.forward if edge.directed else self.adjacent)[i, j])

    def pairs(self, least: float = LEAST) -> pd.DataFrame:
        """Every pair that is adjacent with at least `least`, the surest first.

        Returns
        -------
        DataFrame
            a and b, in the order of the variables; adjacent, forward (a -> b), backward (b -> a) and
            undirected; kind; low and high, the 95 % interval of `adjacent` for the number of resamples.
        """
        import pandas as pd

        adjacent = self.adjacent
        i, j = np.nonzero(np.triu(adjacent >= least, 1))
        order = np.argsort(-adjacent[i, j], kind="stable")
        i, j = i[order], j[order]
        names = np.array(self.names, dtype=object)
        low, high = self._interval(adjacent[i, j])
        zeros = np.zeros(len(i))
        return pd.DataFrame(
            {
                "a": names[i],
                "b": names[j],
                "adjacent": adjacent[i, j],
                "forward": self.forward[i, j],
                "backward": self.forward[j, i],
                "undirected": zeros if self.undirected is None else self.undirected[i, j],
                "kind": self.kind,
                "low": low,
                "high": high,
            },
            columns=list(COLUMNS),
        )

    def graph(self, threshold: float = 0.5) -> tuple[Graph, list[Edge]]:
        """Pairs adjacent with more than the threshold; directed where one direction alone exceeds it.

        A connection without such a direction is undirected. The weakest edge of each directed cycle is
        removed. Weights are shares: of the direction, or of the connection if it has none.

        Returns
        -------
        Graph, list of Edge
            The graph, and the edges that were removed from cycles.
        """
        if not 0 <= threshold <= 1:
            raise UsageError(f"A threshold must lie in [0, 1]; got {threshold}.")
        share = self.split
        connected = self.adjacent > threshold
        directed = (share > threshold) & (share > share.T)
        arrows, removed = Graph(directed, self.names, np.where(directed, share, 0.0)).prune_cycles()
        lines = connected & ~directed & ~directed.T
        weights = arrows.weights + np.where(lines, self.adjacent, 0.0)
        return Graph(arrows.adjacency | lines, self.names, weights), removed

    def _interval(self, share: Array) -> tuple[Array, Array]:
        if self.n is None:
            missing = np.full(share.shape, np.nan)
            return missing, missing
        return wilson_interval(share * self.n, self.n)
