"""Posterior probabilities of edges and of parent sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydag.arrays import Array, Index
from polydag.confidence import LEAST, Confidence
from polydag.errors import DataError, UsageError
from polydag.graph import Edge, Graph

if TYPE_CHECKING:
    import pandas as pd

    from polydag.plot import Picture


def either_way(P: Array) -> Array:
    """The probability of an edge in either direction; the last two axes are `i, j`.

    Examples
    --------
    >>> either_way(np.array([[0.0, 0.5], [0.25, 0.0]])).tolist()
    [[0.0, 0.75], [0.75, 0.0]]
    """
    return np.minimum(P + np.swapaxes(P, -1, -2), 1.0)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Probabilities of edges and of parent sets.

    Attributes
    ----------
    names : tuple of str
        The variables.
    probabilities : array of shape (n, n)
        `[i, j]` is the probability of `i -> j`.
    method : str
        How it was computed: "exact", "weighted" (draws from orders, uniform over DAGs) or "mcmc".
    candidates : int array of shape (n, c), optional
        Each variable's candidate parents.
    sets : int16 array of shape (sets, k), optional
        Parent sets as positions in a row of `candidates`, padded with -1.
    family_probabilities : array of shape (n, sets), optional
        The probability of each parent set of each variable.
    log_evidence : float, optional
        The log of the sum of the weights of all orders, or of all DAGs (scores times prior factors, which are
        not normalised).
    draws : optional
        Sampled orders or graphs.
    diagnostics : DataFrame, optional
        R-hat, effective sample size (ESS) and Monte Carlo standard error of each edge, where it was sampled.
    """

    names: tuple[str, ...]
    probabilities: Array
    method: str
    candidates: Index | None = None
    sets: NDArray[np.int16] | None = None
    family_probabilities: Array | None = None
    log_evidence: float | None = None
    draws: Any = None
    diagnostics: pd.DataFrame | None = None

    @property
    def edges(self) -> pd.DataFrame:
        """The probability of every edge, row -> column."""
        import pandas as pd

        return pd.DataFrame(self.probabilities, index=list(self.names), columns=list(self.names))

    @property
    def confidence(self) -> Confidence:
        """The probability of every pair, in each direction and in any."""
        return Confidence(self.names, self.probabilities, "probability")

    def pairs(self, least: float = LEAST) -> pd.DataFrame:
        """Pairs that are adjacent with at least `least`, the most probable first; see `Confidence.pairs`."""
        return self.confidence.pairs(least)

    def index(self, name: object) -> int:
        """The index of a variable."""
        try:
            return self.names.index(str(name))
        except ValueError:
            raise DataError(f"{name!r} is not a variable of this posterior.") from None

    def families_of(self, node: int) -> Array:
        """The probability of each parent set of a variable, in the order of `sets`."""
        if self.family_probabilities is None or self.sets is None or self.candidates is None:
            raise UsageError("This posterior has probabilities of edges only, not of parent sets.")
        own: Array = self.family_probabilities[node]
        return own

    def parents(self, name: object) -> pd.DataFrame:
        """The parent sets of a variable with positive probability, the most probable first."""
        import pandas as pd

        node = self.index(name)
        own = self.families_of(node)
        assert self.sets is not None
        assert self.candidates is not None
        order = np.argsort(-own, kind="stable")
        order = order[own[order] > 0]
        labels = [self.names[v] for v in self.candidates[node]]
        parents = [tuple(labels[p] for p in row if p >= 0) for row in self.sets[order]]
        return pd.DataFrame({"parents": parents, "probability": own[order]})

    def plot(self, threshold: float = 0.5, top: int | None = None) -> Picture:
        """A picture of the edges above the threshold; see `Graph.plot`."""
        from polydag.plot import picture

        return picture(self.graph(threshold), self.probabilities, top)

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()

    def graph(self, threshold: float = 0.5) -> Graph:
        """The DAG of the edges with a probability above the threshold, weighted by their probabilities.

        The least probable edge of each cycle is removed; `acyclic` also returns the removed edges.
        """
        return self.acyclic(threshold)[0]

    def acyclic(self, threshold: float = 0.5, keep: ArrayLike | None = None) -> tuple[Graph, list[Edge]]:
        """As `graph`, with the edges that were removed from cycles; edges marked in `keep` stay."""
        if not 0 <= threshold <= 1:
            raise UsageError(f"A threshold of probabilities must lie in [0, 1]; got {threshold}.")
        P = self.probabilities
        kept = np.zeros(P.shape, dtype=bool) if keep is None else np.asarray(keep, dtype=bool)
        chosen = (threshold < P) | kept
        # Of two opposite edges the more probable one stays; of equals, the one in the order of the variables.
        both = chosen & chosen.T & ~kept
        weaker = (P < P.T) | ((P == P.T) & np.tri(len(P), k=-1, dtype=bool)) | kept.T
        dropped = both & weaker
        adjacency = chosen & ~dropped
        graph, removed = Graph(adjacency, self.names, np.where(adjacency, P, 0.0)).prune_cycles(kept)
        first = [Edge(self.names[i], self.names[j], float(P[i, j])) for i, j in np.argwhere(dropped)]
        return graph, first + removed

    def __repr__(self) -> str:
        likely = int((self.probabilities > 0.5).sum())
        return f"<Posterior ({self.method}): {len(self.names)} variables, {likely} edges above 0.5>"
