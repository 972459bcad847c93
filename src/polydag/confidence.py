"""How sure each pair of variables is: one table for posteriors, bootstraps and votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

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
    missing_share : array of shape (d, d), optional
        The share of the variance of an adjacency that is between tables completed in different ways: of the
        uncertainty about an edge, what missing values cause.
    """

    names: tuple[str, ...]
    forward: Array
    kind: Kind
    undirected: Array | None = None
    n: int | None = None
    missing_share: Array | None = None

    @classmethod
    def pooled(cls, parts: Sequence[Confidence]) -> Confidence:
        """The mean over tables that were completed in different ways, each with its own confidence.

        With p_k the share of an adjacency in the k-th table and p their mean, `p (1 - p)` is the mean of
        `p_k (1 - p_k)`, which complete rows would leave, plus the variance of the p_k. Where shares are from
        resamples, what their number adds to that variance is subtracted.
        """
        first = parts[0]
        adjacent = np.array([part.adjacent for part in parts])
        mean = adjacent.mean(axis=0)
        between, within = adjacent.var(axis=0), (adjacent * (1 - adjacent)).mean(axis=0)
        known = first.n is None or first.n > 1
        if first.n is not None and known:
            between = np.maximum(between - within / (first.n - 1), 0.0)
        total = mean * (1 - mean)
        share = np.divide(between, total, out=np.zeros_like(total), where=total > 1e-12)
        return cls(
            first.names,
            np.mean([part.forward for part in parts], axis=0),
            first.kind,
            None
            if first.undirected is None
            else np.mean([part.undirected for part in parts if part.undirected is not None], axis=0),
            None if first.n is None else sum(part.n or 0 for part in parts),
            np.minimum(share, 1.0) if known else None,
        )

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
            undirected; kind; low and high, the 95 % interval of `adjacent` for the number of resamples;
            missing_share where tables were completed in several ways.
        """
        import pandas as pd

        adjacent = self.adjacent
        i, j = np.nonzero(np.triu(adjacent >= least, 1))
        order = np.argsort(-adjacent[i, j], kind="stable")
        i, j = i[order], j[order]
        names = np.array(self.names, dtype=object)
        low, high = self._interval(adjacent[i, j])
        zeros = np.zeros(len(i))
        more = {} if self.missing_share is None else {"missing_share": self.missing_share[i, j]}
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
                **more,
            },
            columns=[*COLUMNS, *more],
        )

    def graph(self, threshold: float = 0.5, keep: ArrayLike | None = None) -> tuple[Graph, list[Edge]]:
        """Pairs adjacent with more than the threshold; directed where one direction alone exceeds it.

        A connection of which neither direction exceeds the threshold, or both do, is undirected. Edges marked
        in `keep` are in the graph, in that direction. The weakest other edge of each directed cycle is
        removed. Weights are shares: of the direction, or of the connection if it has none.

        Returns
        -------
        Graph, list of Edge
            The graph, and the edges that were removed from cycles.
        """
        if not 0 <= threshold <= 1:
            raise UsageError(f"A threshold must lie in [0, 1]; got {threshold}.")
        share = self.forward  # an undirected edge is no evidence for either direction
        kept = np.zeros(share.shape, dtype=bool) if keep is None else np.asarray(keep, dtype=bool)
        directed = ((share > threshold) & (threshold >= share.T) & ~kept.T) | kept
        arrows, removed = Graph(directed, self.names, np.where(directed, share, 0.0)).prune_cycles(kept)
        lines = (self.adjacent > threshold) & ~directed & ~directed.T
        weights = arrows.weights + np.where(lines, self.adjacent, 0.0)
        return Graph(arrows.adjacency | lines, self.names, weights), removed

    def _interval(self, share: Array) -> tuple[Array, Array]:
        if self.n is None:
            missing = np.full(share.shape, np.nan)
            return missing, missing
        return wilson_interval(share * self.n, self.n)
