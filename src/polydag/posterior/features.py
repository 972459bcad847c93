"""Modular features of a posterior: products of functions of (node, parents).

Edges, parent sets and v-structures are modular features. The probability of a modular feature is the ratio of
two sums over orders, with and without the feature's factors in the scores; the kinds of posterior differ in
how they compute these sums.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from polydag.arrays import Array, Mask
from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.probabilities import Posterior

if TYPE_CHECKING:
    import pandas as pd

    from polydag.posterior.dags.samples import DagSamples

Feature = Callable[[str, tuple[str, ...]], float]


@dataclass(frozen=True, eq=False, repr=False)
class ModularPosterior(Posterior):
    """A posterior of a table of families.

    Attributes
    ----------
    table : FamilyTable
        Log scores with the log prior in them.
    n_jobs : int
        Threads for features.
    """

    table: FamilyTable | None = None
    n_jobs: int = 1

    def _table(self) -> FamilyTable:
        assert self.table is not None  # optional only because fields of the base class are
        return self.table

    @abstractmethod
    def _ratio(self, changed: FamilyTable) -> float:
        """The sum over orders with changed scores, divided by that with the table's own scores."""

    @abstractmethod
    def best_graph(self) -> tuple[Graph, float]:
        """The network with the highest log score that is known, weighted by probability, and its score."""

    @abstractmethod
    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """DAGs drawn from the posterior, for features that are not modular."""

    @cached_property
    def ancestors(self) -> pd.DataFrame:
        """The probability that the row is an ancestor of the column, from 1000 sampled DAGs."""
        return self.sample_dags(random_state=0).ancestors

    def feature(self, function: Feature) -> float:
        """The probability, or expectation, of a modular feature.

        Parameters
        ----------
        function : callable
            `function(node, parents)` with names; the feature is the product of its values over all nodes.
            Values may be True and False, and must not be negative.

        Examples
        --------
        The probability that x has no parents: `posterior.feature(lambda node, parents: node != "x" or not
        parents)`.
        """
        table = self._table()
        factors = {}
        for node, name in enumerate(table.names):
            values = np.ones(table.scores.shape[1])
            for s in np.flatnonzero(table.scores[node] > -np.inf):
                parents = tuple(table.names[v] for v in table.parents(node, int(s)))
                values[s] = float(function(name, parents))
            if not (values >= 0).all():
                raise UsageError("The factors of a modular feature must not be negative.")
            if (values != 1).any():
                factors[node] = values
        return self._expected(factors)

    def v_structures(self, at_least: float = 0.01) -> pd.DataFrame:
        """The probability of each pair of parents of one child that are not adjacent.

        Those less probable than `at_least` are left out.
        """
        import pandas as pd

        table = self._table()
        has = [_has(table, node) for node in range(table.n)]
        rows = []
        for child in range(table.n):
            own = self.families_of(child)
            for a, b in itertools.combinations([v for v in range(table.n) if v != child], 2):
                together = has[child][a] & has[child][b]
                if own[together].sum() < at_least:
                    continue
                factors = {child: together, a: ~has[a][b], b: ~has[b][a]}
                found = self._expected({node: mask.astype(float) for node, mask in factors.items()})
                if found >= at_least:
                    rows.append((table.names[a], table.names[child], table.names[b], found))
        frame = pd.DataFrame(rows, columns=["parent", "child", "other", "probability"])
        return frame.sort_values("probability", ascending=False, kind="stable", ignore_index=True)

    def _expected(self, factors: Mapping[int, Array]) -> float:
        """The expected product of factors by family of some nodes."""
        table = self._table()
        scores = table.scores.copy()
        with np.errstate(divide="ignore"):
            for node, values in factors.items():
                scores[node] += np.log(values)
        if (scores == -np.inf).all(axis=1).any():
            return 0.0
        return self._ratio(table.with_scores(scores))


def _has(table: FamilyTable, node: int) -> Mask:
    """`[v, s]`: whether v is in parent set s of the node."""
    members = table.members(node)
    return np.array([(members == v).any(axis=1) for v in range(table.n)])
