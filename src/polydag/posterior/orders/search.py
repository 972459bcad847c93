"""A search for orders of high weight, in which chains start.

With many rows the weights of orders have separate modes, hundreds of nats apart, and a chain from a random
order ends in any of them. R-hat says how well chains mix over the modes that they have visited; it cannot
reveal a mode that none has.

Where few families are worth considering, all modes are found (`best_network.branch_and_cut`): first the best
network, which is proven to be the best; then, repeatedly, the best network with an edge that no chain around
the modes so far has shown, until such a network would be far behind. Chains start in all these modes and jump
between them (`polydag.posterior.orders.mode_jumps.moves`).

Elsewhere several searches run side by side. Each is simulated annealing from a temperature at which variables
move freely, followed by repeated heating to lower temperatures; in the end their better parts are combined.
Where searches find modes of similar weight, chains start in all of these; where one mode is far above the
others, it has all the weight and all chains start there. A second search that finds the same mode makes it
likely that there is no higher one.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polydag.arrays import Index
from polydag.computing.checkpoint import piece
from polydag.computing.progress import report
from polydag.computing.workers import reporting_lost_workers
from polydag.posterior.best_network.branch_and_cut import another_network, best_network
from polydag.posterior.orders.annealing import anneal, crossover, free_power
from polydag.posterior.orders.mode_jumps.moves import ModeJump
from polydag.posterior.orders.mode_jumps.search import Mode, find_jumps
from polydag.posterior.orders.sampler import OrderSampler
from polydag.posterior.orders.space import OrderSpace, OrderState, random_order

if TYPE_CHECKING:
    from polydag.computing.checkpoint import Piece

FLAT, PROVEN, BEST, REPLICATED, UNREPLICATED = "flat", "proven", "best", "replicated", "unreplicated"
_SWEEPS = 170  # of relocations while the power rises by a factor e
_REHEATED_SWEEPS = 50  # the same after heating
_HEATS = (3.5, 7.0, 14.0) * 3  # powers to which a round heats, relative to the first
_ROUNDS = 16  # at most
_PATIENCE = 2  # rounds without success before the search ends
_FLAT = 0.05  # chains need no search from this power on
_SUCCESS = 1.0  # nats that a round must gain
_FAR = 10.0  # nats behind the best mode from which on a mode has no weight
_MODES = 12  # at most
_SHOWN = 1e-5  # probability of an edge around a mode from which on the mode shows it
_EXPLORED = 100  # states sampled around a mode, as many moves apart as there are variables
_ALIKE = 0.5  # nats for each variable: searches that are as near after the first round need no further one


class Starts(NamedTuple):
    """Orders in which chains start, one for each chain, and jumps between their modes.

    `mode_search` says what is known of the modes: "flat" (chains reach all orders), "proven" (these are all
    modes that matter, that of the best network among them), "best" (the mode of the best network is known,
    and others may be missing), "replicated" (a second search found the same mode) or "unreplicated" (only one
    search found it, and there may well be a higher one).
    """

    orders: list[Index]
    mode_search: str
    mode_jumps: tuple[ModeJump, ...] = ()


def find_starts(
    sampler: OrderSampler,
    n_chains: int,
    *,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "chains",
) -> Starts:
    """Orders of high weight, in as many modes as can be found.

    Parameters
    ----------
    sampler : OrderSampler
        The orders of a table, and how chains move between them.
    n_chains : int
        How many orders are needed; also the number of searches where modes cannot be proven.
    n_jobs : int
        Processes (joblib); the orders do not depend on it.
    random_state : int, optional
        The seed.
    name : str
        The name of the checkpoints.
    """
    from joblib import Parallel

    entropy = np.random.SeedSequence(random_state).entropy
    with reporting_lost_workers(), Parallel(n_jobs=n_jobs, mmap_mode="c") as parallel:
        search = _Search(sampler, n_chains, entropy, parallel, name)
        if free_power(sampler.space) >= _FLAT:
            return Starts([state.order for state in search.round(0, [None] * n_chains)], FLAT)
        modes, known = search.modes()
        jumps = find_jumps(sampler.space, search.rng(1), modes)
        if known == PROVEN:
            return Starts([modes[k % len(modes)].orders[0] for k in range(n_chains)], PROVEN, jumps)
        found = search.rounds(sampler.init(modes[0].orders[0]) if modes else None)
        return Starts(found.orders, BEST, jumps) if known == BEST else found


class _Search(NamedTuple):
    """Several searches side by side, with their checkpoints."""

    sampler: OrderSampler
    n_searches: int
    entropy: Any
    parallel: Any
    name: str

    @property
    def space(self) -> OrderSpace:
        return self.sampler.space

    def rng(self, number: int) -> np.random.Generator:
        """A generator for what is not part of a single search."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(self.n_searches, number))
        return np.random.default_rng(seed)

    def modes(self) -> tuple[list[Mode], str]:
        """The mode of the best network and those near it, the best first; what is known of them."""

        def compute() -> Piece:
            found, known = find_modes(self.sampler, self.rng(0))
            n = self.space.n
            return {
                "orders": np.array([mode.orders for mode in found], np.int64).reshape(-1, _EXPLORED + 1, n),
                "edges": np.array([mode.edges for mode in found], np.float32).reshape(
                    -1, _EXPLORED + 1, n, n
                ),
                "known": np.array(known),
            }

        kept = piece(f"{self.name}-modes", compute)
        pairs = zip(np.asarray(kept["orders"]), np.asarray(kept["edges"]), strict=True)
        return [Mode(*pair) for pair in pairs], str(kept["known"])

    def rounds(self, best: OrderState | None) -> Starts:
        """Rounds of searches until they find nothing better."""
        current: list[OrderState | None] = [None] * self.n_searches
        failed = 0
        for number in range(_ROUNDS):
            found = self.round(number, current)
            current = [*found]
            together = reduce(partial(crossover, self.space), found)
            gained = np.inf if best is None else together.log_weight - best.log_weight
            best = together if best is None else crossover(self.space, best, together)
            weights = [state.log_weight for state in found]
            listed = ", ".join(f"{weight:.1f}" for weight in weights)
            note = f"best log weight {best.log_weight:.1f}; searches {listed}"
            report("search for orders", number + 1, _ROUNDS, note)
            failed = 0 if gained >= _SUCCESS else failed + 1
            spread = max(weights) - min(weights)
            alike = self.n_searches > 1 and not number and spread < _ALIKE * self.space.n
            if alike or failed == _PATIENCE:
                break
        assert best is not None
        near = [state.log_weight >= best.log_weight - _FAR for state in found]
        orders = [(state if own else best).order for state, own in zip(found, near, strict=True)]
        return Starts(orders, REPLICATED if alike or sum(near) > 1 else UNREPLICATED)

    def round(self, number: int, current: list[OrderState | None]) -> list[OrderState]:
        """One round of every search."""
        from joblib import delayed

        def compute() -> Piece:
            seeds = [
                np.random.SeedSequence(self.entropy, spawn_key=(k, number)) for k in range(self.n_searches)
            ]
            found = self.parallel(
                delayed(search_round)(self.space, np.random.default_rng(seed), state)
                for state, seed in zip(current, seeds, strict=True)
            )
            return {"orders": np.stack([state.order for state in found])}

        orders = np.asarray(piece(f"{self.name}-search-{number}", compute)["orders"])
        return [self.space.init(order) for order in orders]


def search_round(space: OrderSpace, rng: np.random.Generator, best: OrderState | None) -> OrderState:
    """One round of a search: annealing from a random order, then repeated heating of the best order."""
    power = free_power(space)
    start = space.init(random_order(space.table, rng))
    fresh = anneal(space, rng, start, power, _SWEEPS if power < _FLAT else 0)
    best = fresh if best is None else crossover(space, best, fresh)
    for heat in _HEATS:
        if power < _FLAT:
            best = crossover(space, best, anneal(space, rng, best, power * heat, _REHEATED_SWEEPS))
    return best


def find_modes(sampler: OrderSampler, rng: np.random.Generator) -> tuple[list[Mode], str]:
    """Modes by branch and cut, the best first, and whether these are all (PROVEN) or the first is (BEST)."""
    best = best_network(sampler.space, rng)
    if best is None:
        return [], UNREPLICATED
    modes = [explore_mode(sampler, rng, best.state.order)]
    if not best.proven:
        return modes, UNREPLICATED
    while len(modes) < _MODES:
        shown = np.max([mode.edges.max(axis=0) for mode in modes], axis=0) > _SHOWN
        report("modes", len(modes), None, f"{shown.sum()} edges in their neighbourhood")
        found = another_network(best.relaxation, shown, best.score - _FAR)
        if found.order is None:
            return modes, PROVEN if found.complete else BEST
        modes.append(explore_mode(sampler, rng, found.order))
    return modes, BEST


def explore_mode(sampler: OrderSampler, rng: np.random.Generator, order: Index) -> Mode:
    """The orders and edges that a short chain from an order visits."""
    chain = sampler.configured(moves=sampler.n)
    state = chain.init(order)
    orders, edges = [order], [chain.record(state).edges]
    for _ in range(_EXPLORED):
        state, _ = chain.step(rng, state)
        orders.append(state.order)
        edges.append(chain.record(state).edges)
    return Mode(np.array(orders), np.array(edges, dtype=np.float32))
