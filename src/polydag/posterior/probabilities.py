"""Posterior probabilities of edges and of parent sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.confidence import LEAST, Confidence
from polydag.errors import DataError, UsageError
from polydag.graph import Graph

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
        """Pairs that are adjacent with a probability above the threshold, directed where one direction is.

        A sure connection without a sure direction is undirected. Weights are probabilities: of the direction,
        or of the connection if it has none; see `Confidence.graph`, which also lists what it removed from
        cycles.
        """
        return self.confidence.graph(threshold)[0]

    def __repr__(self) -> str:
        likely = int((self.probabilities > 0.5).sum())
        return f"<Posterior ({self.method}): {len(self.names)} variables, {likely} edges above 0.5>"
