"""A search for orders of high weight, for chains to begin in.

With many rows the weights of orders have separate peaks, hundreds of logarithms apart, and a chain that
starts anywhere ends on any of them. So the best network is looked for, and where the families are few enough
it is proven to be the best (`polydag.discovery.optimum`). Beside it several searches go side by side, each a
chain of relocations that is cooled down from a temperature at which it moves freely, then heated up again and
again, less than at first; in the end their better parts are combined. Where they find peaks of about the same
weight, chains begin on all of these; where one is far above, it has all the weight, and all begin there.

R-hat then tells how well chains move about on a peak and on others near by. It cannot tell of a higher peak
that was missed: that there is none is proven, or made likely by a second search that has found the same.
"""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.checkpoint import piece
from polydag.discovery.optimum import best_network
from polydag.discovery.orders import Orders, State
from polydag.discovery.orders.improving import combined, cooled, first_power
from polydag.progress import report

if TYPE_CHECKING:
    from polydag.checkpoint import Piece

Index = NDArray[np.int64]

FLAT, PROVEN, AGAIN, ONCE = "flat", "proven", "found again", "found once"
_SWEEPS = 170  # of relocations, to cool down by a factor e
_AGAIN = 50  # the same after heating up
_HEATS = (3.5, 7.0, 14.0) * 3  # powers that are heated up to in a round, beside the first
_ROUNDS = 16  # at most
_PATIENCE = 2  # rounds without success, before the search ends
_FLAT = 0.05  # from this power on, chains need no search
_SUCCESS = 1.0  # logarithms, at least
_FAR = 10.0  # logarithms behind the best, beyond which a peak has no weight beside it
_ALIKE = 0.5  # logarithms for each variable: searches that are as near after a round need no other


class Starts(NamedTuple):
    """Orders to begin in, one a chain, and what is known of their peak.

    `peak` is "flat" (chains get everywhere), "proven" (it is that of the best network of all), "found again"
    (by a second search) or "found once" (there may well be a higher one).
    """

    orders: list[Index]
    peak: str


def search(
    space: Orders,
    n_searches: int,
    *,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "chains",
) -> Starts:
    """Orders of high weight: the best network's, or by several searches.

    Parameters
    ----------
    space : Orders
        The orders of a table.
    n_searches : int
        How many searches, each with random numbers of its own.
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
        work = _Work(space, n_searches, entropy, parallel, name)
        if first_power(space) >= _FLAT:
            return Starts([state.order for state in work.round(0, [None] * n_searches)], FLAT)
        return work.searched(*work.network())


class _Work(NamedTuple):
    """What all rounds share."""

    space: Orders
    n_searches: int
    entropy: Any
    parallel: Any
    name: str

    def network(self) -> tuple[State | None, bool]:
        """An order of the best network that branch and cut has found, if any; whether it is the best."""

        def compute() -> Piece:
            rng = np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=(self.n_searches,)))
            found = best_network(self.space, rng)
            if found is None:
                return {"order": np.zeros(0, dtype=np.int64), "proven": np.array(False)}
            return {"order": found.state.order, "proven": np.array(found.proven)}

        found = piece(f"{self.name}-network", compute)
        order = np.asarray(found["order"], dtype=np.int64)
        return (self.space.state(order) if len(order) else None), bool(found["proven"])

    def searched(self, best: State | None, proven: bool) -> Starts:
        """Rounds until searches find nothing more; one, for peaks beside the best, if that is known."""
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
            if proven or alike or failed == _PATIENCE:
                break
        assert best is not None
        near = [state.log_weight >= best.log_weight - _FAR for state in found]
        orders = [(state if own else best).order for state, own in zip(found, near, strict=True)]
        return Starts(orders, PROVEN if proven else AGAIN if alike or sum(near) > 1 else ONCE)

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
