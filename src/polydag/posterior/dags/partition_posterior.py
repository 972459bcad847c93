"""The posterior uniform over DAGs by Markov chains on ordered partitions (Kuipers and Moffa 2017).

Given a partition, the probability of an edge is summed over all its DAGs; what is sampled is only which
partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polydag.graph import Graph
from polydag.posterior.dags.partitions import Partitions
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.chains import Length, run_chains
from polydag.posterior.mcmc.order_posterior import ChainPosterior, what_chains_say
from polydag.posterior.orders.sampler import OrderSampler
from polydag.posterior.orders.search import search
from polydag.progress import report

if TYPE_CHECKING:
    from polydag.posterior.dags import DagSamples

Array = NDArray[np.float64]
Index = NDArray[np.int64]
_FIRST, _FIRST_EACH = 5000, 1000  # steps of the first round: at least, and for each variable
_STATES = 400  # that features and parent sets are averaged over, at most
_BEST = 50  # states that the best network is looked for in


@dataclass(frozen=True, eq=False)
class PartitionDraws:
    """Sampled ordered partitions.

    Attributes
    ----------
    levels : int array of shape (chains, draws, n)
        The part of each variable, counted from 0.
    log_weights : array of shape (chains, draws)
        The logarithm of the sum over each partition's DAGs. Draws have the partitions' probabilities already.
    """

    levels: NDArray[np.int16]
    log_weights: Array


@dataclass(frozen=True, eq=False, repr=False)
class PartitionPosterior(ChainPosterior):
    """The posterior uniform over DAGs, averaged over sampled partitions (`draws`)."""

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """DAGs of the sampled partitions, evenly over all chains; several of one where there are more."""
        from polydag.posterior.dags import DagSamples
        from polydag.posterior.dags.drawing import check_count, spread

        check_count(count)
        rng = np.random.default_rng(random_state)
        space = Partitions(self._table())
        states = self.draws.levels.reshape(-1, space.n)
        dags = np.empty((count, space.n, space.n), dtype=bool)
        for k, level in enumerate(states[spread(len(states), count)]):
            dags[k] = space.dag(level, rng)
            report("DAGs", k + 1, count)
        return DagSamples.pack(self.names, dags, "dags")

    def families_of(self, node: int) -> Array:
        """The probability of each parent set of a variable, over an even choice of the sampled partitions."""
        table = self._table()
        space = Partitions(table)
        total = np.zeros(table.scores.shape[1])
        states = self._states()
        for level in states:
            own = np.where(space.families(node, level), table.scores[node], -np.inf)
            weights = np.exp(own - own.max())
            total += weights / weights.sum()
        return total / len(states)

    def best_graph(self) -> tuple[Graph, float]:
        """The network with the highest log score in the best sampled partitions; and that score."""
        table = self._table()
        space = Partitions(table)
        states, first = np.unique(self.draws.levels.reshape(-1, table.n), axis=0, return_index=True)
        weights = self.draws.log_weights.ravel()[first]
        best, chosen = -np.inf, np.zeros(table.n, dtype=np.int64)
        for level in states[np.argsort(-weights, kind="stable")][:_BEST]:
            own = np.array(
                [
                    np.argmax(np.where(space.families(node, level), table.scores[node], -np.inf))
                    for node in range(table.n)
                ]
            )
            score = float(table.scores[np.arange(table.n), own].sum())
            if score > best:
                best, chosen = score, own
        adjacency = table.adjacency(chosen)
        return Graph(adjacency, table.names, np.where(adjacency, self.probabilities, 0.0)), best

    def _ratio(self, changed: FamilyTable) -> float:
        own, other = Partitions(self._table()), Partitions(changed)
        return float(
            np.mean(
                [
                    np.exp(other.state(level).log_weight - own.state(level).log_weight)
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
    n_chains: int = 4,
    n_steps: int | None = None,
    burn_in: int | None = None,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "partitions",
) -> PartitionPosterior:
    """The posterior of every edge, uniform over DAGs, by Markov chains on ordered partitions.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them (`with_prior`).
    n_chains : int
        Independent chains; at least 2 to see whether they agree.
    n_steps : int, optional
        The length of each chain, burn-in included, counted in edges that were tried to be turned around, from
        a random state on. By default chains begin in good ones (`polydag.posterior.orders.search`), and the
        length is doubled until they agree (`polydag.posterior.mcmc.chains`).
    burn_in : int, optional
        Steps at the beginning that are not used; half of all by default.
    n_jobs : int
        Processes (joblib, also by `joblib.parallel_config`); the draws do not depend on it.
    random_state : int, optional
        The seed.
    name : str
        Of the checkpoints: two posteriors inside one recording need different names.
    """
    length = Length(n_chains, n_steps, burn_in, first=max(_FIRST, _FIRST_EACH * table.n))
    space, starts, levels = Partitions(table), None, None
    options: Any = {"n_jobs": n_jobs, "random_state": random_state, "name": name}
    if n_steps is None:
        rng = np.random.default_rng(random_state)
        starts = search(OrderSampler.of(table), n_chains, **options)
        levels = [space.of_order(order, rng).level for order in starts.orders]
    run = run_chains(space, length, starts=levels, **options)
    return PartitionPosterior(
        draws=PartitionDraws(run.states, run.log_weights),
        n_jobs=n_jobs,
        **what_chains_say(table, run, starts),
    )
