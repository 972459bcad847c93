"""The posterior uniform over DAGs by Markov chains on ordered partitions (Kuipers and Moffa 2017).

Given a partition, the probability of an edge is summed over all its DAGs; only the partition is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.computing.progress import report
from polydag.graph import Graph
from polydag.posterior.dags.partitions import PartitionSampler
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.chains import DEFAULT_CHAINS, Chains
from polydag.posterior.mcmc.driver import run_chains
from polydag.posterior.mcmc.order_posterior import ChainPosterior, chain_results
from polydag.posterior.orders.sampler import OrderSampler
from polydag.posterior.orders.search import find_starts

if TYPE_CHECKING:
    from polydag.posterior.dags.samples import DagSamples

_FIRST, _FIRST_EACH = 5000, 1000  # steps of the first round: at least, and for each variable
_STATES = 400  # most partitions over which features and parent sets are averaged
_BEST = 50  # partitions in which the best network is searched


@dataclass(frozen=True, eq=False)
class PartitionDraws:
    """Sampled ordered partitions.

    Attributes
    ----------
    levels : int16 array of shape (chains, draws, n)
        The part of each variable, counted from 0.
    log_weights : array of shape (chains, draws)
        The log of the sum over each partition's DAGs. Draws occur with the posterior probabilities already.
    """

    levels: NDArray[np.int16]
    log_weights: Array


@dataclass(frozen=True, eq=False, repr=False)
class PartitionPosterior(ChainPosterior):
    """The posterior uniform over DAGs, averaged over sampled partitions (`draws`)."""

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """DAGs drawn from the sampled partitions, evenly over all chains."""
        from polydag.posterior.dags.drawing import check_count, evenly_spaced
        from polydag.posterior.dags.samples import DagSamples

        check_count(count)
        rng = np.random.default_rng(random_state)
        sampler = PartitionSampler.of(self._table())
        states = self.draws.levels.reshape(-1, sampler.n)
        dags = np.empty((count, sampler.n, sampler.n), dtype=bool)
        for k, level in enumerate(states[evenly_spaced(len(states), count)]):
            dags[k] = sampler.draw_dag(rng, level)
            report("DAGs", k + 1, count)
        return DagSamples.pack(self.names, dags, "dags")

    def families_of(self, node: int) -> Array:
        """The probability of each parent set of a variable, over an even choice of the sampled partitions."""
        table = self._table()
        sampler = PartitionSampler.of(table)
        total = np.zeros(table.scores.shape[1])
        states = self._states()
        for level in states:
            own = np.where(sampler.allowed_families(node, level), table.scores[node], -np.inf)
            weights = np.exp(own - own.max())
            total += weights / weights.sum()
        return total / len(states)

    def best_graph(self) -> tuple[Graph, float]:
        """The network with the highest log score within the best sampled partitions; its score."""
        table = self._table()
        sampler = PartitionSampler.of(table)
        states, first = np.unique(self.draws.levels.reshape(-1, table.n), axis=0, return_index=True)
        weights = self.draws.log_weights.ravel()[first]

        def best_in(level: Index) -> Index:
            return np.array(
                [
                    np.argmax(np.where(sampler.allowed_families(node, level), table.scores[node], -np.inf))
                    for node in range(table.n)
                ]
            )

        return self._best_of(table, map(best_in, states[np.argsort(-weights, kind="stable")][:_BEST]))

    def _ratio(self, changed: FamilyTable) -> float:
        own, other = PartitionSampler.of(self._table()), PartitionSampler.of(changed)
        return float(
            np.mean(
                [
                    np.exp(other.init(level).log_weight - own.init(level).log_weight)
                    for level in self._states()
                ]
            )
        )

    def _states(self) -> Index:
        """Some of the sampled partitions, evenly over the chains."""
        states = self.draws.levels.reshape(-1, len(self.names))
        some = np.linspace(0, len(states) - 1, min(_STATES, len(states))).astype(int)
        chosen: Index = states[some].astype(np.int64)
        return chosen


def partition_posterior(
    table: FamilyTable,
    *,
    chains: Chains = DEFAULT_CHAINS,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "partitions",
) -> PartitionPosterior:
    """The posterior of every edge, uniform over DAGs, by Markov chains on ordered partitions.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them (`with_prior`).
    chains : Chains
        How many chains, and how long. A step proposes the reversal of one edge. Where no length is given,
        chains start from orders of high weight (`polydag.posterior.orders.search`), and their length is
        doubled until they agree (`polydag.posterior.mcmc.driver`). Partitions have no buckets.
    n_jobs : int
        Processes (joblib, also by `joblib.parallel_config`); the draws do not depend on it.
    random_state : int, optional
        The seed.
    name : str
        The name of the checkpoints: two posteriors inside one recording need different names.
    """
    sampler = PartitionSampler.of(table)
    options: Any = {"n_jobs": n_jobs, "random_state": random_state, "name": name}
    starts, positions = None, None
    if chains.n_steps is None:
        rng = np.random.default_rng(random_state)
        starts = find_starts(OrderSampler.of(table), chains.n_chains, **options)
        positions = [sampler.position_of_order(rng, order) for order in starts.orders]
    first_round = max(_FIRST, _FIRST_EACH * table.n)
    run = run_chains(sampler, chains, first_round=first_round, starts=positions, **options)
    return PartitionPosterior(
        draws=PartitionDraws(run.states, run.log_weights),
        n_jobs=n_jobs,
        **chain_results(table, run, starts),
    )
