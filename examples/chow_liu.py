"""A learner in one file: the best tree (Chow and Liu 1968), undirected, from correlations."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from polydag import GaussianStats, Graph
from polydag.learners import StructureLearner


class ChowLiu(StructureLearner):
    """The spanning tree with the largest sum of mutual informations between neighbours.

    Parameters
    ----------
    random_state : int, optional
        Taken by every learner; nothing is random here.
    """

    def __init__(self, *, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a DataFrame, an array, a `Table`, or statistics; `y` is ignored."""
        stats = X if isinstance(X, GaussianStats) else GaussianStats.from_data(getattr(X, "frame", X))
        r = stats.correlation - np.eye(stats.d)
        tree = minimum_spanning_tree(np.log1p(-(r**2))).toarray() != 0
        both = tree | tree.T
        self._keep(
            Graph(both, stats.names, np.where(both, r, 0.0)),
            raw_weights=r,
            history=[{"n_edges": int(tree.sum())}],
            pruned=[],
            converged=True,
            n_iter=1,
        )
        return self


if __name__ == "__main__":
    from polydag import simulate

    chain = Graph.from_edges("abcd", [("a", "b", 0.8), ("b", "c", 0.8), ("c", "d", 0.8)])
    for edge in ChowLiu().fit(simulate.linear(chain, n=300, random_state=0)).graph_.edges():
        print(edge, round(edge.weight, 2))
