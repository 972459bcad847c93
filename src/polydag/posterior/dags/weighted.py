"""The posterior uniform over DAGs: exact, by weighted draws from orders, or by sampled partitions.

Under the posterior over orders a DAG counts once for every order that agrees with it. Draws from there,
divided by that number, represent the posterior in which it counts once. The effective sample size depends on
the problem: often half of the draws for few variables, close to none for many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import UsageError
from polydag.posterior.dags import exact_uniform
from polydag.posterior.dags.drawing import dags_by_orders
from polydag.posterior.dags.exact_uniform import ExactDagPosterior, exact_dag_posterior
from polydag.posterior.dags.partition_posterior import PartitionPosterior, partition_posterior
from polydag.posterior.dags.samples import DagSamples
from polydag.posterior.exact.order_posterior import ExactPosterior
from polydag.posterior.exact.subset_lattice import fits
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.chains import DEFAULT_CHAINS, Chains
from polydag.posterior.threads import jobs

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["auto", "exact", "weighted", "mcmc"]

DRAWS = 10_000
MIN_EFFECTIVE = 1000.0
_PILOT = 1000  # draws that show whether weights suffice


@dataclass(frozen=True, eq=False, repr=False)
class WeightedPosterior(ExactPosterior):
    """The posterior uniform over DAGs from weighted draws (`draws`, a `DagSamples`).

    The orders of the draws are exact; only the DAGs are sampled.
    """

    @property
    def effective_size(self) -> float:
        """Kish's effective sample size of the draws."""
        return self._samples().effective_size

    @property
    def n_steps(self) -> int:
        """The number of DAGs drawn."""
        return len(self._samples())

    @property
    def history(self) -> pd.DataFrame:
        """One row: the number of DAGs drawn, and their effective sample size."""
        import pandas as pd

        return pd.DataFrame([{"draws": self.n_steps, "effective_size": self.effective_size}])

    @property
    def mixed(self) -> bool:
        """Whether the effective sample size is large enough."""
        return self.effective_size >= MIN_EFFECTIVE

    def disagreement(self) -> str:
        """What is wrong if the effective sample size is too small, and what to do about it."""
        return (
            f"The {len(self._samples())} weighted draws have an effective sample size of "
            f"{self.effective_size:.0f} (should be at least {MIN_EFFECTIVE:.0f}): most orders agree with "
            "DAGs that have little weight when the prior is uniform over DAGs. Sample partitions instead "
            "(method='mcmc')."
        )

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """Independent DAGs from orders, weighted to be uniform over DAGs."""
        return super().sample_dags(count, random_state).over_dags()

    def families_of(self, node: int) -> Array:
        """The probability of each parent set of a variable."""
        return _family_shares(self._table(), self._samples(), node)

    def _ratio(self, changed: FamilyTable) -> float:
        table, samples = self._table(), self._samples()
        gain = np.zeros(len(samples))
        for node in range(table.n):
            own = _family_numbers(table, samples, node)
            gain += changed.scores[node, own] - table.scores[node, own]
        return float(samples.weights @ np.exp(gain))

    def _samples(self) -> DagSamples:
        assert isinstance(self.draws, DagSamples)
        return self.draws


def _family_numbers(table: FamilyTable, samples: DagSamples, node: int) -> Index:
    """The index of the node's parent set in each draw."""
    columns, which = np.unique(samples.adjacency[:, :, node], axis=0, return_inverse=True)
    numbers = np.array([table.index(node, np.flatnonzero(column)) for column in columns])
    result: Index = numbers[which.ravel()]
    return result


def _family_shares(table: FamilyTable, samples: DagSamples, node: int) -> Array:
    shares = np.zeros(table.scores.shape[1])
    np.add.at(shares, _family_numbers(table, samples, node), samples.weights)
    return shares


def weighted_posterior(
    table: FamilyTable,
    *,
    draws: int = DRAWS,
    n_jobs: int = 1,
    memory: float | None = None,
    random_state: int | None = None,
) -> WeightedPosterior:
    """The posterior of every edge, uniform over DAGs, from weighted draws.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them (`with_prior`).
    draws : int
        How many DAGs are drawn.
    n_jobs : int
        Threads for the sums over subsets.
    memory : float, optional
        Bytes that may be used; by default what is available.
    random_state : int, optional
        The seed.
    """
    import pandas as pd

    threads = jobs(n_jobs)
    samples = dags_by_orders(table, draws, random_state, n_jobs=threads, memory=memory).over_dags()
    edges = samples.edges.to_numpy()
    # The standard error of a weighted mean of independent draws.
    squares = np.tensordot(samples.weights**2, (samples.adjacency - edges) ** 2, 1)
    i, j = np.nonzero(~np.eye(table.n, dtype=bool))
    labels = np.array(table.names, dtype=object)
    return WeightedPosterior(
        names=table.names,
        probabilities=edges,
        method="weighted",
        candidates=table.candidates,
        sets=table.sets,
        draws=samples,
        diagnostics=pd.DataFrame(
            {"source": labels[i], "target": labels[j], "r_hat": 1.0, "ess": samples.effective_size}
            | {"mcse": np.sqrt(squares)[i, j]}
        ),
        table=table,
        n_jobs=threads,
    )


def dag_posterior(
    table: FamilyTable,
    *,
    method: Method = "auto",
    chains: Chains = DEFAULT_CHAINS,
    n_jobs: int = 1,
    memory: float | None = None,
    random_state: int | None = None,
) -> ExactDagPosterior | WeightedPosterior | PartitionPosterior:
    """The posterior of every edge, uniform over DAGs.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them (`with_prior`).
    method : {"auto", "exact", "weighted", "mcmc"}
        "exact" sums over all DAGs; "weighted" draws DAGs from exact orders and weights them; "mcmc" samples
        ordered partitions. "auto" is exact where that fits into memory and takes at most 20 seconds;
        otherwise it weights draws if orders fit and a pilot of a thousand draws shows that enough of them
        remain in effect, and samples partitions if not.
    chains : Chains
        How many chains of partitions, and how long; see `partition_posterior`.
    n_jobs : int
        Threads for sums, processes for chains.
    memory : float, optional
        Bytes that may be used; by default what is available.
    random_state : int, optional
        The seed.
    """
    if method == "exact" or (method == "auto" and exact_uniform.fits(table.n, memory)):
        return exact_dag_posterior(table, memory=memory)
    if method == "weighted" or (method == "auto" and _weights_suffice(table, n_jobs, memory, random_state)):
        return weighted_posterior(table, n_jobs=n_jobs, memory=memory, random_state=random_state)
    return partition_posterior(table, chains=chains, n_jobs=n_jobs, random_state=random_state)


def _weights_suffice(table: FamilyTable, n_jobs: int, memory: float | None, random_state: int | None) -> bool:
    if not fits(table.n, memory):
        return False
    try:
        pilot = dags_by_orders(table, _PILOT, random_state, n_jobs=jobs(n_jobs), memory=memory).over_dags()
    except UsageError:  # a DAG has too many linear extensions to count
        return False
    # With a margin, since the effective share of few draws is biased upwards.
    return pilot.effective_size / _PILOT * DRAWS > 2 * MIN_EFFECTIVE
