"""Federated averaging: parties keep no state between rounds and may come and go.

Each party that is present takes a proximal step from W on the mean loss of its own rows. The coordinator
averages these, weighted by rows, and takes the step for λ and cycles. The inverse step length τ grows: first
long steps, then steps so short that their mean is a gradient step on the pooled loss. With only some of the
parties in a round the steps are noisy, so the result is less accurate than that of ADMM.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from polydag.computing.progress import report
from polydag.errors import DataWarning
from polydag.federated.methods.interface import Study
from polydag.federated.methods.iterative import Iterative, ParameterExchange
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, Program, State, Total
from polydag.privacy import differencing
from polydag.privacy.differencing import MIN_SITES


@dataclass(frozen=True, eq=False)
class FedAvg(Iterative):
    """The coordinator's side.

    Parameters
    ----------
    groups : tuple of tuples of str
        All parties, in groups that are asked together.
    participation : float
        The share of the groups, drawn at random, that is asked in a round.
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
        """A party may be absent from any round."""
        return True

    @property
    def n_asked(self) -> int:
        """The number of groups that are asked in a round."""
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

    def repeated_constants(self, state: State) -> Arrays:
        """A party keeps no state, so every question holds all constants."""
        return self.model.constants(state)

    def start(self, state: State) -> tuple[State, Ask]:
        """The starting values of the model for every penalty."""
        return state, self._ask(state, 1)

    def _ask(self, state: State, number: int) -> Ask:
        tau = np.full(len(state["lambdas"]), self._tau(number))
        arrays = {"W": state["theta"], "tau": tau, **self.repeated_constants(state)}
        returns = {"parameters": state["theta"].shape, "share": self.model.share_shape}
        narrow = {"parameters": self.model.powers(state)}
        return Ask("average", arrays, {"narrow": narrow}, self._asked(number), returns)

    def iterate(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """The average, then the coordinator's step."""
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


class FedAvgMethod(ParameterExchange):
    """Federated averaging over all parties or a random share of them."""

    name: str = "fedavg"
    noise_growth: float = 4.0

    def exchange(self, study: Study) -> Program:
        """Single parties that come and go would be revealed by differences, so masked ones go in groups."""
        model, settings, parties = study.model, study.settings, tuple(study.parties)
        side = model.coordinator(
            study.names, study.masks, study.group, settings, settings.lambda_, as_published=False
        )
        groups = differencing.groups(parties) if study.privacy.masked else tuple((name,) for name in parties)
        program = FedAvg(side, groups, settings.participation, settings.seed)
        if settings.participation < 1 and program.n_asked == len(groups):
            sizes = "" if len(groups) == len(parties) else f", asked in groups of at least {MIN_SITES},"
            warnings.warn(
                f"participation={settings.participation:g} of {len(parties)} parties{sizes} is all of them: "
                "every party is asked in every round.",
                DataWarning,
                stacklevel=2,
            )
        return program
