"""A search for orders of high weight, for chains to begin in.

With many rows the weights of orders have separate peaks, hundreds of logarithms apart, and a chain that
starts anywhere ends on any of them. R-hat tells how well chains move about on the peaks that they have seen;
it cannot tell of a peak that none has.

Where few families are worth considering, all peaks are found (`best_network.branch_and_cut`): first the best
network, which is proven to be the best; then, again and again, the best one that has an edge which no chain
around the peaks so far has seen, until such a network would be far behind. Chains begin on all these peaks,
and jump between them (`polydag.posterior.orders.mode_jumps`).

Elsewhere several searches go side by side, each a chain of relocations that is cooled down from a temperature
at which it moves freely, then heated up again and again, less than at first; in the end their better parts
are combined. Where they find peaks of about the same weight, chains begin on all of these; where one is far
above, it has all the weight, and all begin there. That there is no higher one is made likely by a second
search that has found the same.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.checkpoint import piece
from polydag.posterior.best_network.branch_and_cut import another_network, best_network
from polydag.posterior.orders.improvement import combined, cooled, first_power
from polydag.posterior.orders.mode_jump_search import Peak, jumps_between
from polydag.posterior.orders.mode_jumps import Jump
from polydag.posterior.orders.moves import Orders, State
from polydag.progress import report

if TYPE_CHECKING:
    from polydag.checkpoint import Piece
    from polydag.posterior.orders.sampler import OrderSampler

Index = NDArray[np.int64]

FLAT, PROVEN, BEST, AGAIN, ONCE = "flat", "proven", "best", "found again", "found once"
_SWEEPS = 170  # of relocations, to cool down by a factor e
_AGAIN = 50  # the same after heating up
_HEATS = (3.5, 7.0, 14.0) * 3  # powers that are heated up to in a round, beside the first
_ROUNDS = 16  # at most
_PATIENCE = 2  # rounds without success, before the search ends
_FLAT = 0.05  # from this power on, chains need no search
_SUCCESS = 1.0  # logarithms, at least
_FAR = 10.0  # logarithms behind the best, beyond which a peak has no weight beside it
_PEAKS = 12  # at most
_SEEN = 1e-5  # the probability of an edge in a state around a peak, from which on it is seen
_SURVEY = 100  # states around a peak that are looked at, as many steps apart as there are variables
_ALIKE = 0.5  # logarithms for each variable: searches that are as near after a round need no other


class Starts(NamedTuple):
    """Orders to begin in, one a chain, jumps between their peaks, and what is known of these.

    `peak` is "flat" (chains get everywhere), "proven" (these are all peaks that matter, the best network's
    among them), "best" (it is that of the best network, and others may matter), "found again" (by a second
    search) or "found once" (there may well be a higher one).
    """

    orders: list[Index]
    peak: str
    jumps: tuple[Jump, ...] = ()


def search(
    sampler: OrderSampler,
    n_chains: int,
    *,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "chains",
) -> Starts:
    """Orders of high weight, on the peaks that can be found.

    Parameters
    ----------
    sampler : OrderSampler
        The orders of a table, and how chains move between them.
    n_chains : int
        How many orders are wanted; as many searches are made where peaks are not to be proven.
    n_jobs : int
        Processes (joblib); the orders do not depend on it.
    random_state : int, optional
        The seed.
    name : str
        Of the checkpoints.
    """
    from joblib import Parallel

    entropy = np.random.SeedSequence(random_state).entropy
    with Parallel(n_jobs=n_jobs, mmap_mode="c") as parallel:
        work = _Work(sampler.space, n_chains, entropy, parallel, name)
        if first_power(sampler.space) >= _FLAT:
            return Starts([state.order for state in work.round(0, [None] * n_chains)], FLAT)
        peaks, known = work.peaks(sampler)
        jumps = jumps_between(sampler.space, peaks, work.rng(1))
        if known == PROVEN:
            return Starts([peaks[k % len(peaks)].orders[0] for k in range(n_chains)], PROVEN, jumps)
        best = sampler.space.state(peaks[0].orders[0]) if peaks else None
        found = work.searched(best)
        return Starts(found.orders, BEST, jumps) if known == BEST else found


class _Work(NamedTuple):
    """What all rounds share."""

    space: Orders
    n_searches: int
    entropy: Any
    parallel: Any
    name: str

    def peaks(self, sampler: OrderSampler) -> tuple[list[Peak], str]:
        """The best network's peak and those near it, the best first; what is known of them."""

        def compute() -> Piece:
            found, known = found_peaks(sampler, self.rng(0))
            n = self.space.n
            return {
                "orders": np.array([peak.orders for peak in found], np.int64).reshape(-1, _SURVEY + 1, n),
                "edges": np.array([peak.edges for peak in found], np.float32).reshape(-1, _SURVEY + 1, n, n),
                "known": np.array(known),
            }

        kept = piece(f"{self.name}-peaks", compute)
        pairs = zip(np.asarray(kept["orders"]), np.asarray(kept["edges"]), strict=True)
        return [Peak(*pair) for pair in pairs], str(kept["known"])

    def rng(self, number: int) -> np.random.Generator:
        """For what is not a search."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(self.n_searches, number))
        return np.random.default_rng(seed)

    def searched(self, best: State | None) -> Starts:
        """Rounds of searches until they find nothing more."""
        lines: list[State | None] = [None] * self.n_searches
        failed = 0
        for number in range(_ROUNDS):
            found = self.round(number, lines)
            lines = [*found]
            together = reduce(partial(combined, self.space), found)
            gained = np.inf if best is None else together.log_weight - best.log_weight
            best = together if best is None else combined(self.space, best, together)
            weights = [state.log_weight for state in found]
            told = ", ".join(f"{weight:.1f}" for weight in weights)
            report("search for orders", number + 1, _ROUNDS, f"log weight {best.log_weight:.1f} of {told}")
            failed = 0 if gained >= _SUCCESS else failed + 1
            spread = max(weights) - min(weights)
            alike = self.n_searches > 1 and not number and spread < _ALIKE * self.space.n
            if alike or failed == _PATIENCE:
                break
        assert best is not None
        near = [state.log_weight >= best.log_weight - _FAR for state in found]
        orders = [(state if own else best).order for state, own in zip(found, near, strict=True)]
        return Starts(orders, AGAIN if alike or sum(near) > 1 else ONCE)

    def round(self, number: int, lines: list[State | None]) -> list[State]:
        """One round of every search."""
        from joblib import delayed

        def compute() -> Piece:
            seeds = [
                np.random.SeedSequence(self.entropy, spawn_key=(k, number)) for k in range(self.n_searches)
            ]
            found = self.parallel(
                delayed(search_on)(self.space, line, np.random.default_rng(seed))
                for line, seed in zip(lines, seeds, strict=True)
            )
            return {"orders": np.stack([state.order for state in found])}

        orders = np.asarray(piece(f"{self.name}-search-{number}", compute)["orders"])
        return [self.space.state(order) for order in orders]


def search_on(space: Orders, best: State | None, rng: np.random.Generator) -> State:
    """One round of a search: from the beginning, and heated up some times."""
    begin = first_power(space)
    fresh = cooled(space, space.start(rng), begin, _SWEEPS if begin < _FLAT else 0, rng)
    best = fresh if best is None else combined(space, best, fresh)
    for heat in _HEATS:
        if begin < _FLAT:
            best = combined(space, best, cooled(space, best, begin * heat, _AGAIN, rng))
    return best


def found_peaks(sampler: OrderSampler, rng: np.random.Generator) -> tuple[list[Peak], str]:
    """Peaks by branch and cut, the best first, and whether they are all (PROVEN), or the first one (BEST)."""
    best = best_network(sampler.space, rng)
    if best is None:
        return [], ONCE
    peaks = [survey(sampler, best.state.order, rng)]
    if not best.proven:
        return peaks, ONCE
    while len(peaks) < _PEAKS:
        seen = np.max([peak.edges.max(axis=0) for peak in peaks], axis=0) > _SEEN
        report("peaks", len(peaks), None, f"{seen.sum()} edges seen")
        found = another_network(best.relaxation, seen, best.score - _FAR)
        if found.order is None:
            return peaks, PROVEN if found.complete else BEST
        peaks.append(survey(sampler, found.order, rng))
    return peaks, BEST


def survey(sampler: OrderSampler, order: Index, rng: np.random.Generator) -> Peak:
    """What a short chain sees around an order."""
    walker = sampler.walker()
    state = walker.unpack(order)
    orders, seen = [order], [walker.record(state).edges]
    for _ in range(_SURVEY):
        state, _ = walker.advance(state, 1.0, sampler.n, rng)
        orders.append(state.order)
        seen.append(walker.record(state).edges)
    return Peak(np.array(orders), np.array(seen, dtype=np.float32))
