"""Federated averaging: sites keep nothing between rounds and may come and go.

Each site that is there takes a proximal step from W on the mean loss of its own rows and the coordinator
averages, weighted by rows; then it takes the step for λ and cycles. τ, the inverse length of a site's step,
grows: long steps first, then ones so short that their mean is a gradient step on the pooled loss. With only
some of the sites in a round the steps are noisy, so that it ends more coarsely than ADMM does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polydag.federated.methods.iterative import Iterative
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, State, Total
from polydag.progress import report


@dataclass(frozen=True, eq=False)
class FedAvg(Iterative):
    """The coordinator's side.

    Parameters
    ----------
    groups : tuple of tuples of str
        All sites, in groups that are asked together; a random `participation` share of them in a round.
    """

    groups: tuple[tuple[str, ...], ...] = ()
    participation: float = 1.0
    seed: int = 0
    max_rounds: int = 150
    tau_first: float = 0.5
    tau_last: float = 8.0
    mu_first: float = 30.0
    mu_last: float = 3e-4

    @property
    def tolerates_absence(self) -> bool:
        """A site may stay away from any round."""
        return True

    @property
    def n_asked(self) -> int:
        """How many groups are asked in a round."""
        return max(1, round(self.participation * len(self.groups)))

    def _progress(self, number: int) -> float:
        return min((number - 1) / (0.8 * self.max_rounds), 1.0)

    def _tau(self, number: int) -> float:
        return float(self.tau_first * (self.tau_last / self.tau_first) ** self._progress(number))

    def _mu(self, number: int) -> float:
        return float(self.mu_first * (self.mu_last / self.mu_first) ** self._progress(number))

    def _asked(self, number: int) -> tuple[str, ...] | None:
        if self.participation >= 1:
            return None
        rng = np.random.default_rng([self.seed, number])
        chosen = sorted(rng.permutation(len(self.groups))[: self.n_asked])
        return tuple(site for i in chosen for site in self.groups[i])

    def everything(self, state: State) -> Arrays:
        """A site keeps nothing, so it is told all there is to know."""
        return self.model.told(state)

    def start(self, state: State) -> tuple[State, Ask]:
        """The model's own start in every lane."""
        return state, self._ask(state, 1)

    def _ask(self, state: State, number: int) -> Ask:
        tau = np.full(len(state["lambdas"]), self._tau(number))
        arrays = {"W": state["theta"], "tau": tau, **self.everything(state)}
        returns = {"parameters": state["theta"].shape, "share": self.model.share_shape}
        narrow = {"parameters": self.model.powers(state)}
        return Ask("average", arrays, {"narrow": narrow}, self._asked(number), returns)

    def iterate(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """Average, then the server's step."""
        number = len(state["history"]) // len(state["lambdas"]) + 1
        mean = total.arrays["parameters"] / np.maximum(total.arrays["share"], 1e-300)
        tau, a = self._tau(number), float(state["unit"]) / self._mu(number)
        theta, h = state["theta"].copy(), state["h"].copy()
        rows = []
        for lane, lambda_ in enumerate(state["lambdas"]):
            step = self.model.server_step(state, lane, mean[lane], tau, (a, 0.0), tolerance=1e-6, max_iter=3)
            size = max(float(np.linalg.norm(step.theta)), 1e-300)
            moved = float(np.linalg.norm(step.theta - theta[lane])) / size
            theta[lane], h[lane] = step.theta, step.h
            rows.append((number, lambda_, a, tau, np.nan, moved, step.h, step.n_nonzero))
        history = np.vstack([state["history"], np.array(rows, dtype=float)])
        quiet = np.array([row[5] < 0.05 and self._progress(number) >= 1 for row in rows], dtype=np.int64)
        state = {**state, "theta": theta, "h": h, "history": history, "settled": quiet}
        report(self.label, number, self.max_rounds)
        if number >= self.max_rounds:
            return state, None
        return state, self._ask(state, number + 1)
