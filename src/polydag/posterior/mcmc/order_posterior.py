"""The posterior over orders by Markov chains, averaged over bucket orders.

A chain moves between linear orders, by draws of the place of one variable among the others, of the
arrangement of a few, and of all orders inside buckets (runs of neighbouring variables) at once. What is
recorded is the bucket order that a linear order is in (Niinimäki, Parviainen and Koivisto 2011): given that,
the probability of an edge is summed over all its linear orders and all their families (as the exact method
does for all orders). Averages over states are therefore Rao-Blackwellised.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polydag.graph import Graph
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.features import ModularPosterior
from polydag.posterior.mcmc import bucket_orders as bucket
from polydag.posterior.mcmc.chains import Length, Run, run_chains
from polydag.posterior.mcmc.diagnostics import MAX_RHAT, MIN_ESS
from polydag.posterior.mcmc.draws import BucketDraws
from polydag.posterior.orders.sampler import OrderSampler
from polydag.posterior.orders.search import ONCE, Starts, search

if TYPE_CHECKING:
    import pandas as pd

    from polydag.posterior.dags import DagSamples

Array = NDArray[np.float64]
Index = NDArray[np.int64]
_FIRST, _FIRST_EACH = 500, 50  # steps of the first round: at least, and for each variable
_MANY = 4  # times as many where they are quick
_STATES = 400  # that features and parent sets are averaged over, at most
_BEST = 50  # states that the best network is looked for in


@dataclass(frozen=True, eq=False, repr=False)
class ChainPosterior(ModularPosterior):
    """A posterior of a table of families, averaged over states that Markov chains have visited.

    Attributes
    ----------
    mixed : bool
        Whether the chains agree on every edge that is uncertain, are long enough to tell, and began where
        the weight is as far as is known.
    peak : str
        What is known of where chains began (`polydag.posterior.orders.search`): "flat", "proven", "best",
        "found again", "found once"; "random" for chains of a given length.
    history : DataFrame
        One row a round of the chains: steps, burn_in, draws, temperatures, acceptance, r_hat, ess, mixed.
    """

    mixed: bool = False
    peak: str = "random"
    history: pd.DataFrame = field(default_factory=lambda: history_frame([]))

    @property
    def n_steps(self) -> int:
        """The length of each chain, burn-in included."""
        last = self._last()
        return int(last["burn_in"] + last["steps"])

    def disagreement(self) -> str:
        """What is wrong with chains that have not mixed, and what to do."""
        last = self._last()
        if last["mixed"] and self.peak == ONCE:
            return (
                "The Markov chains agree, but they all began on a peak that only one search has found, so "
                "that there may well be a higher one. Try more chains (n_chains), another random_state, or "
                "fewer variables."
            )
        return (
            f"The Markov chains have not mixed after {self.n_steps} steps: R-hat is up to "
            f"{last['r_hat']:.2f} (at most {MAX_RHAT:g} wanted), and the effective number of draws down to "
            f"{last['ess']:.0f} (at least {MIN_ESS:g}). Run longer (n_steps), {self._advice}with fewer "
            "variables; posterior_.diagnostics tells which edges are affected."
        )

    @property
    def _advice(self) -> str:
        return "or "

    def _last(self) -> dict[str, Any]:
        return {str(name): value for name, value in self.history.iloc[-1].items()}


@dataclass(frozen=True, eq=False, repr=False)
class McmcPosterior(ChainPosterior):
    """The posterior of a table of families, averaged over sampled bucket orders (`draws`).

    Attributes
    ----------
    bucket_size : int
        Of the sampled states.
    begun : tuple of int arrays
        The orders that chains began in, where they were searched for.
    """

    bucket_size: int = 10
    begun: tuple[Index, ...] = ()

    @property
    def _advice(self) -> str:
        return "with larger buckets (bucket_size) or "

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """DAGs from the sampled states, by their probabilities under the posterior over orders."""
        from polydag.posterior.dags import dags_by_buckets

        return dags_by_buckets(self._table(), self.draws, count, random_state)

    def families_of(self, node: int) -> Array:
        """The probability of each parent set of a variable, over an even choice of the sampled states."""
        space = bucket.BucketOrders(bucket.scaled(self._table()), self.bucket_size)
        orders = self._orders()
        total = np.zeros(self._table().scores.shape[1])
        for order in orders:
            total += space.families(node, order)
        return total / len(orders)

    def best_graph(self) -> tuple[Graph, float]:
        """The network with the highest log score of the best sampled states and those begun in; its score."""
        table = self._table()
        space = bucket.BucketOrders(bucket.scaled(table), self.bucket_size)
        weights = self.draws.log_weights.ravel()
        states = self.draws.buckets.reshape(-1, table.n)
        _, first = np.unique(states, axis=0, return_index=True)
        rng = np.random.default_rng(0)  # the same answer every time
        best, chosen = -np.inf, np.zeros(table.n, dtype=np.int64)
        sampled = states[first[np.argsort(-weights[first], kind="stable")][:_BEST]]
        inside = [space.linear_order(np.argsort(state, kind="stable"), rng) for state in sampled]
        for order in (*self.begun, *inside):
            own = _best_families(table, order)
            score = float(table.scores[np.arange(table.n), own].sum())
            if score > best:
                best, chosen = score, own
        adjacency = table.adjacency(chosen)
        return Graph(adjacency, table.names, np.where(adjacency, self.probabilities, 0.0)), best

    def _ratio(self, changed: FamilyTable) -> float:
        own = bucket.BucketOrders(bucket.scaled(self._table()), self.bucket_size)
        other = bucket.BucketOrders(bucket.scaled(changed), self.bucket_size)
        shares = [np.exp(other.log_weight(order) - own.log_weight(order)) for order in self._orders()]
        return float(np.mean(shares))

    def _orders(self) -> list[Index]:
        """Some of the sampled states, evenly over the chains."""
        states = self.draws.buckets.reshape(-1, len(self.names))
        some = states[np.linspace(0, len(states) - 1, min(_STATES, len(states))).astype(int)]
        return [np.argsort(state, kind="stable").astype(np.int64) for state in some]


def mcmc_posterior(
    table: FamilyTable,
    *,
    n_chains: int = 4,
    n_steps: int | None = None,
    burn_in: int | None = None,
    bucket_size: int = 10,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "chains",
) -> McmcPosterior:
    """The posterior of every edge over orders, sampled by Markov chains.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them (`with_prior`).
    n_chains : int
        Independent chains; at least 2 to see whether they agree.
    n_steps : int, optional
        The length of each chain, burn-in included, from a random order on; a step draws the place of one
        variable. By default chains begin in orders of high weight that have been searched for
        (`polydag.posterior.orders.search`), and the length is doubled until R-hat and effective sample size
        are good for every uncertain edge (`posterior.mcmc.diagnostics`), with parallel tempering where
        chains still disagree, up to 64 times the first round; 256 times where they agree but are too short.
    burn_in : int, optional
        Steps at the beginning that are not used; half of all by default.
    bucket_size : int
        Variables a bucket: larger ones sum over more orders at once, and cost more.
    n_jobs : int
        Processes (joblib, also by `joblib.parallel_config`); the draws do not depend on it.
    random_state : int, optional
        The seed.
    name : str
        Of the checkpoints: two posteriors inside one recording need different names.
    """
    sampler = OrderSampler.of(table, bucket_size)
    quick = sampler.space.left_out > _MANY
    first = max(_FIRST, _FIRST_EACH * table.n) * (_MANY if quick else 1)
    length = Length(n_chains, n_steps, burn_in, first=first, apart=sampler.between)
    options: Any = {"n_jobs": n_jobs, "random_state": random_state, "name": name}
    starts = None if n_steps else search(sampler, n_chains, **options)
    if starts:
        sampler = replace(sampler, jumps=starts.jumps)
    run = run_chains(sampler, length, starts=starts and starts.orders, **options)
    return McmcPosterior(
        draws=BucketDraws(run.states, run.log_weights),
        n_jobs=n_jobs,
        bucket_size=bucket_size,
        begun=() if starts is None else tuple(starts.orders),
        **what_chains_say(table, run, starts),
    )


def what_chains_say(table: FamilyTable, run: Run, starts: Starts | None) -> dict[str, Any]:
    """What all posteriors by chains have in common."""
    return {
        "names": table.names,
        "probabilities": np.clip(run.edges.mean(axis=(0, 1)), 0.0, 1.0),
        "method": "mcmc",
        "candidates": table.candidates,
        "sets": table.sets,
        "diagnostics": run.diagnostics.frame(table.names),
        "table": table,
        "mixed": run.mixed and (starts is None or starts.peak != ONCE),
        "peak": "random" if starts is None else starts.peak,
        "history": history_frame(run.history),
    }


def history_frame(rounds: list[dict[str, Any]]) -> pd.DataFrame:
    """One row a round."""
    import pandas as pd

    return pd.DataFrame(rounds)


def _best_families(table: FamilyTable, order: Index) -> Index:
    """The best parent set of each variable among those before it."""
    place = np.empty(table.n + 1, dtype=np.int64)
    place[order], place[table.n] = np.arange(table.n), -1
    chosen = np.empty(table.n, dtype=np.int64)
    for node in range(table.n):
        allowed = (place[table.members(node)] < place[node]).all(axis=1)
        chosen[node] = np.argmax(np.where(allowed, table.scores[node], -np.inf))
    return chosen
