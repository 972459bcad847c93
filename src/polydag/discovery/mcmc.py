"""The posterior over orders by Markov chains on bucket orders (Niinimäki, Parviainen and Koivisto 2011).

Given a state, the probability of an edge is summed over all its linear orders and all their families (as the
exact method does for all orders); what is sampled is only which state. Averages over states are therefore
Rao-Blackwellised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polydag.discovery import bucket
from polydag.discovery.chains import Length, Run, run_chains
from polydag.discovery.diagnostics import MAX_RHAT, MIN_ESS
from polydag.discovery.draws import BucketDraws
from polydag.discovery.families import FamilyTable
from polydag.discovery.features import ModularPosterior
from polydag.graph import Graph

if TYPE_CHECKING:
    import pandas as pd

    from polydag.discovery.dags import DagSamples

Array = NDArray[np.float64]
Index = NDArray[np.int64]
_SHIFT = 10  # swaps between two draws through other buckets
_FIRST, _FIRST_EACH = 500, 50  # steps of the first round: at least, and for each variable
_STATES = 400  # that features and parent sets are averaged over, at most
_BEST = 50  # states that the best network is looked for in


@dataclass(frozen=True, eq=False)
class _State:
    order: Index
    logs: Array


@dataclass(frozen=True, eq=False)
class BucketSampler:
    """Bucket orders of a table of families, as `polydag.discovery.chains` runs them."""

    scores: bucket.Scaled
    bucket_size: int

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.scores.table.n

    def walker(self) -> BucketWalker:
        """The working memory of a chain."""
        return BucketWalker(self)


class BucketWalker:
    """A chain of bucket orders."""

    def __init__(self, sampler: BucketSampler) -> None:
        self._scores = sampler.scores
        self._space = bucket.BucketOrders(sampler.scores, sampler.bucket_size)

    def start(self, rng: np.random.Generator) -> _State:
        """A random order that has a positive weight."""
        return self.unpack(bucket.start(self._scores, rng))

    def pack(self, state: _State) -> Index:
        """The variables, bucket by bucket."""
        return state.order

    def unpack(self, packed: Index) -> _State:
        """The state of an order."""
        order = np.array(packed, dtype=np.int64)
        return _State(order, self._space.weigh(order))

    def advance(
        self, state: _State, power: float, steps: int, rng: np.random.Generator
    ) -> tuple[_State, float]:
        """Swaps, and now and then a draw through other buckets."""
        order, logs = state.order.copy(), state.logs.copy()
        accepted = 0
        for begin in range(0, steps, _SHIFT):
            accepted += self._space.swap(order, logs, power, min(_SHIFT, steps - begin), rng)
            self._space.shift(order, logs, power, rng)
        return _State(order, logs), accepted / steps

    def log_weight(self, state: _State) -> float:
        """The logarithm of the sum over the state's linear orders."""
        return float(state.logs.sum()) + self._space.reference

    def record(self, state: _State) -> NDArray[np.int16]:
        """The bucket of each variable."""
        return self._space.numbers(state.order)

    def edges(self, state: _State) -> Array:
        """The probability of each edge given the state."""
        return self._space.edges(state.order)


@dataclass(frozen=True, eq=False, repr=False)
class ChainPosterior(ModularPosterior):
    """A posterior of a table of families, averaged over states that Markov chains have visited.

    Attributes
    ----------
    mixed : bool
        Whether the chains agree on every edge that is uncertain, and are long enough to tell.
    history : DataFrame
        One row a round of the chains: steps, burn_in, draws, temperatures, acceptance, r_hat, ess, mixed.
    """

    mixed: bool = False
    history: pd.DataFrame = field(default_factory=lambda: history_frame([]))

    @property
    def n_steps(self) -> int:
        """The length of each chain, burn-in included."""
        last = self._last()
        return int(last["burn_in"] + last["steps"])

    def disagreement(self) -> str:
        """What is wrong with chains that have not mixed, and what to do."""
        last = self._last()
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
    """

    bucket_size: int = 10

    @property
    def _advice(self) -> str:
        return "with larger buckets (bucket_size) or "

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """DAGs from the sampled states, by their probabilities under the posterior over orders."""
        from polydag.discovery.dags import dags_by_buckets

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
        """The network with the highest log score found in the best sampled states; and that score."""
        table = self._table()
        space = bucket.BucketOrders(bucket.scaled(table), self.bucket_size)
        weights = self.draws.log_weights.ravel()
        states = self.draws.buckets.reshape(-1, table.n)
        _, first = np.unique(states, axis=0, return_index=True)
        rng = np.random.default_rng(0)  # the same answer every time
        best, chosen = -np.inf, np.zeros(table.n, dtype=np.int64)
        for k in first[np.argsort(-weights[first], kind="stable")][:_BEST]:
            order = space.linear_order(np.argsort(states[k], kind="stable"), rng)
            own = _best_families(table, order)
            score = float(table.scores[np.arange(table.n), own].sum())
            if score > best:
                best, chosen = score, own
        adjacency = np.zeros((table.n, table.n), dtype=bool)
        for node, s in enumerate(chosen):
            adjacency[list(table.parents(node, int(s))), node] = True
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
    """The posterior of every edge over orders, sampled by Markov chains on bucket orders.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them (`with_prior`).
    n_chains : int
        Independent chains; at least 2 to see whether they agree.
    n_steps : int, optional
        The length of each chain, burn-in included. By default it is doubled until R-hat and effective sample
        size are good for every uncertain edge (`polydag.discovery.diagnostics`), with parallel tempering
        where chains still disagree, up to 64 times the first round.
    burn_in : int, optional
        Steps at the beginning that are not used; half of all by default.
    bucket_size : int
        Variables a bucket: larger ones sum over more orders a state, and cost more.
    n_jobs : int
        Processes (joblib, also by `joblib.parallel_config`); the draws do not depend on it.
    random_state : int, optional
        The seed.
    name : str
        Of the checkpoints: two posteriors inside one recording need different names.
    """
    sampler = BucketSampler(bucket.scaled(table), bucket_size)
    length = Length(n_chains, n_steps, burn_in, first=max(_FIRST, _FIRST_EACH * table.n))
    run = run_chains(sampler, length, n_jobs=n_jobs, random_state=random_state, name=name)
    return _posterior(table, run, bucket_size, n_jobs)


def _posterior(table: FamilyTable, run: Run, bucket_size: int, n_jobs: int) -> McmcPosterior:
    probabilities = np.clip(run.edges.mean(axis=(0, 1)), 0.0, 1.0)
    return McmcPosterior(
        names=table.names,
        probabilities=probabilities,
        method="mcmc",
        candidates=table.candidates,
        sets=table.sets,
        draws=BucketDraws(run.states, run.log_weights),
        diagnostics=run.diagnostics.frame(table.names),
        table=table,
        n_jobs=n_jobs,
        mixed=run.mixed,
        history=history_frame(run.history),
        bucket_size=bucket_size,
    )


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
