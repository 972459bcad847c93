"""The posterior over orders by Markov chains, averaged over bucket orders.

A chain moves between linear orders: it draws the place of one variable among the others, the permutation of a
few variables, and all orders within buckets (runs of neighbouring variables) at once. The bucket order that
contains the linear order is recorded (Niinimäki, Parviainen and Koivisto 2011). Given a bucket order, the
probability of an edge is summed over all its linear orders and all their families, as in the exact method.
Averages over draws are therefore Rao-Blackwellised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.arrays import Array, Index
from polydag.graph import Graph
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.features import ModularPosterior
from polydag.posterior.mcmc.bucket_orders import BucketOrders
from polydag.posterior.mcmc.chains import DEFAULT_CHAINS, Chains
from polydag.posterior.mcmc.diagnostics import MAX_RHAT, MIN_ESS
from polydag.posterior.mcmc.draws import BucketDraws
from polydag.posterior.mcmc.driver import Run, run_chains
from polydag.posterior.mcmc.traces import traces
from polydag.posterior.orders.sampler import OrderSampler
from polydag.posterior.orders.search import UNREPLICATED, Starts, find_starts

if TYPE_CHECKING:
    import pandas as pd

    from polydag.posterior.dags import DagSamples

_FIRST, _FIRST_EACH = 500, 50  # steps of the first round: at least, and for each variable
_QUICK = 4  # reduction of the families from which on steps are quick, and times as many are made
_STATES = 400  # most states over which features and parent sets are averaged
_BEST = 50  # states in which the best network is searched


@dataclass(frozen=True, eq=False, repr=False)
class ChainPosterior(ModularPosterior):
    """A posterior of a table of families, averaged over states that Markov chains visited.

    Attributes
    ----------
    mixed : bool
        Whether R-hat and ESS are good for every uncertain edge, and the chains started in a mode that more
        than one search found.
    mode_search : str
        What is known of the modes in which chains started: "flat", "proven", "best", "replicated" or
        "unreplicated" (see `polydag.posterior.orders.search.Starts`); "none" for chains of a given length,
        which start at random.
    history : DataFrame
        One row for each round of the chains: steps, burn_in, draws, temperatures, acceptance, r_hat, ess,
        mixed.
    traces : DataFrame
        The last round of every chain: chain, draw, log_weight, and the probability of each of the edges that
        the chains know least well, given the draw.
    """

    mixed: bool = False
    mode_search: str = "none"
    history: pd.DataFrame = field(default_factory=lambda: history_frame([]))
    traces: pd.DataFrame = field(default_factory=lambda: history_frame([]))

    @property
    def n_steps(self) -> int:
        """The length of each chain, burn-in included."""
        last = self._last()
        return int(last["burn_in"] + last["steps"])

    def disagreement(self) -> str:
        """What is wrong with chains that have not mixed, and what to do about it."""
        last = self._last()
        if last["mixed"] and self.mode_search == UNREPLICATED:
            return (
                "The Markov chains agree, but they all started in a mode that only one search found, so that "
                "there may well be a higher one. Try more chains (n_chains), another random_state, or fewer "
                "variables."
            )
        return (
            f"The Markov chains have not mixed after {self.n_steps} steps: the largest R-hat is "
            f"{last['r_hat']:.2f} (should be at most {MAX_RHAT:g}), the smallest ESS {last['ess']:.0f} "
            f"(should be at least {MIN_ESS:g}). Use more steps (n_steps), {self._advice}fewer variables; "
            "posterior_.diagnostics lists the edges affected."
        )

    @property
    def _advice(self) -> str:
        return "or "

    def _best_of(self, table: FamilyTable, networks: Iterable[Index]) -> tuple[Graph, float]:
        """The network with the highest score, of some that are given by each node's parent set; its score."""
        best, chosen = -np.inf, np.zeros(table.n, dtype=np.int64)
        for own in networks:
            score = float(table.scores[np.arange(table.n), own].sum())
            if score > best:
                best, chosen = score, own
        adjacency = table.adjacency(chosen)
        return Graph(adjacency, table.names, np.where(adjacency, self.probabilities, 0.0)), best

    def _last(self) -> dict[str, Any]:
        return {str(name): value for name, value in self.history.iloc[-1].items()}


@dataclass(frozen=True, eq=False, repr=False)
class McmcPosterior(ChainPosterior):
    """The posterior of a table of families, averaged over sampled bucket orders (`draws`).

    Attributes
    ----------
    bucket_size : int
        Of the sampled bucket orders.
    starts : tuple of int arrays of shape (n,)
        The orders in which chains started, where these were searched for.
    """

    bucket_size: int = 10
    starts: tuple[Index, ...] = ()

    @property
    def _advice(self) -> str:
        return "larger buckets (bucket_size) or "

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """DAGs drawn from the sampled states, distributed as in the posterior over orders."""
        from polydag.posterior.dags.drawing import dags_by_buckets

        return dags_by_buckets(self._table(), self.draws, count, random_state)

    def families_of(self, node: int) -> Array:
        """The probability of each parent set of a variable, over an even choice of the sampled states."""
        buckets = BucketOrders.of(self._table(), self.bucket_size)
        orders = self._orders()
        total = np.zeros(self._table().scores.shape[1])
        for order in orders:
            total += buckets.family_probabilities(node, order)
        return total / len(orders)

    def best_graph(self) -> tuple[Graph, float]:
        """The network with the highest log score within the best sampled states and the starts; its score."""
        table = self._table()
        buckets = BucketOrders.of(table, self.bucket_size)
        weights = self.draws.log_weights.ravel()
        states = self.draws.buckets.reshape(-1, table.n)
        _, first = np.unique(states, axis=0, return_index=True)
        rng = np.random.default_rng(0)  # the same answer every time
        sampled = states[first[np.argsort(-weights[first], kind="stable")][:_BEST]]
        inside = [buckets.linear_order(rng, np.argsort(state, kind="stable")) for state in sampled]
        return self._best_of(table, (_best_families(table, order) for order in (*self.starts, *inside)))

    def _ratio(self, changed: FamilyTable) -> float:
        own, other = (BucketOrders.of(table, self.bucket_size) for table in (self._table(), changed))
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
    chains: Chains = DEFAULT_CHAINS,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "chains",
) -> McmcPosterior:
    """The posterior of every edge over orders, sampled by Markov chains.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them (`with_prior`).
    chains : Chains
        How many chains, how long, and how large their buckets are. A step draws the place of one variable.
        Where no length is given, chains start in orders of high weight (`polydag.posterior.orders.search`),
        and their length is doubled until R-hat and ESS are good for every uncertain edge
        (`polydag.posterior.mcmc.diagnostics`): up to 64 times the first round, with parallel tempering
        where chains still disagree, and up to 256 times where they agree but are too short.
    n_jobs : int
        Processes (joblib, also by `joblib.parallel_config`); the draws do not depend on it.
    random_state : int, optional
        The seed.
    name : str
        The name of the checkpoints: two posteriors inside one recording need different names.
    """
    sampler = OrderSampler.of(table, chains.bucket_size)
    quick = sampler.space.reduction > _QUICK
    first_round = max(_FIRST, _FIRST_EACH * table.n) * (_QUICK if quick else 1)
    options: Any = {"n_jobs": n_jobs, "random_state": random_state, "name": name}
    starts = None if chains.n_steps else find_starts(sampler, chains.n_chains, **options)
    if starts:
        sampler = replace(sampler, mode_jumps=starts.mode_jumps)
    run = run_chains(
        sampler,
        chains,
        first_round=first_round,
        thinning=sampler.sweep,
        starts=starts and starts.orders,
        **options,
    )
    return McmcPosterior(
        draws=BucketDraws(run.states, run.log_weights),
        n_jobs=n_jobs,
        bucket_size=chains.bucket_size,
        starts=() if starts is None else tuple(starts.orders),
        **chain_results(table, run, starts),
    )


def chain_results(table: FamilyTable, run: Run, starts: Starts | None) -> dict[str, Any]:
    """The attributes that all posteriors by chains share."""
    return {
        "names": table.names,
        "probabilities": np.clip(run.edges.mean(axis=(0, 1)), 0.0, 1.0),
        "method": "mcmc",
        "candidates": table.candidates,
        "sets": table.sets,
        "diagnostics": run.diagnostics.frame(table.names),
        "table": table,
        "mixed": run.mixed and (starts is None or starts.mode_search != UNREPLICATED),
        "mode_search": "none" if starts is None else starts.mode_search,
        "history": history_frame(run.history),
        "traces": traces(run, table.names),
    }


def history_frame(rounds: list[dict[str, Any]]) -> pd.DataFrame:
    """One row for each round."""
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
