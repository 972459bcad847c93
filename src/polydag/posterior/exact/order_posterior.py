"""The exact posterior over orders, and the highest-scoring network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polydag.graph import Graph
from polydag.posterior.exact import subset_lattice as lattice
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.features import ModularPosterior
from polydag.posterior.threads import jobs

if TYPE_CHECKING:
    from polydag.posterior.dags.samples import DagSamples


@dataclass(frozen=True, eq=False, repr=False)
class ExactPosterior(ModularPosterior):
    """The exact posterior of a table of families over all orders."""

    def best_graph(self) -> tuple[Graph, float]:
        """A network with the highest log score, its edges weighted by probability; and that score."""
        table = self._table()
        chosen, score = lattice.best_families(table, lattice.lattice(table), self.n_jobs)
        adjacency = table.adjacency(chosen)
        return Graph(adjacency, table.names, np.where(adjacency, self.probabilities, 0.0)), score

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """Independent DAGs from the posterior over orders; this computes the sums over subsets again."""
        from polydag.posterior.dags.drawing import dags_by_orders

        return dags_by_orders(self._table(), count, random_state, n_jobs=self.n_jobs)

    def _ratio(self, changed: FamilyTable) -> float:
        grid = lattice.lattice(changed)
        total = lattice.total(grid, lattice.scaled(changed, grid), self.n_jobs)
        assert self.log_evidence is not None
        return float(np.exp(total - self.log_evidence))


def exact_posterior(table: FamilyTable, *, n_jobs: int = 1, memory: float | None = None) -> ExactPosterior:
    """The posterior of every edge and parent set, over all orders of the variables.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them (`with_prior`).
    n_jobs : int
        Threads; -1 for all processors.
    memory : float, optional
        Bytes that may be used; by default what is available. More variables than fit raise a `UsageError`.
    """
    lattice.require_fit(table.n, memory)
    threads = jobs(n_jobs)
    grid = lattice.lattice(table)
    families, log_total = lattice.family_posterior(table, grid, lattice.scaled(table, grid), threads)
    return ExactPosterior(
        names=table.names,
        probabilities=np.clip(table.edge_sums(families), 0.0, 1.0),
        method="exact",
        candidates=table.candidates,
        sets=table.sets,
        family_probabilities=families,
        log_evidence=log_total,
        table=table,
        n_jobs=threads,
    )
