"""Votes (Na and Yang 2010): every site learns alone; an edge stays that more than half of them found.

With a path of penalties there are votes at each of them. Of weights the sum of the sites' losses at the mean
weights chooses (`VotingPath`). Networks have no mean, so there each site's own networks are what is voted on
and what is judged: the sum of the sites' own BIC chooses (`NetworkVoting`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polydag.federated.methods.iterative import Iterative
from polydag.federated.models.interface import HISTORY, Array
from polydag.federated.models.linear_coordinator import LinearModel
from polydag.federated.models.regime_groups import centre_question, require_spread
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total
from polydag.optimize.network_choice import penalty_path

_KEPT = ("lambda_", "criterion", "history", "pooled_scale")


@dataclass(frozen=True, eq=False)
class Voting:
    """The coordinator's side: the shares of votes and the mean weights among those who found an edge."""

    names: tuple[str, ...]
    lambda_: float | None = None  # the penalty at every site; its own choice without

    @property
    def tolerates_absence(self) -> bool:
        """Whoever is there votes."""
        return True

    def begin(self) -> tuple[State, Ask]:
        """Ask for everyone's graph."""
        return {}, _question(self.names, None if self.lambda_ is None else np.array([self.lambda_]))

    def advance(self, state: State, total: Total) -> tuple[State, Answer]:
        """Count."""
        scales = total.arrays["log_scales"]
        require_spread(self.names, scales[0])  # no rows of any site in which it varies
        shares, mean = _counted(total)
        if self.lambda_ is None:
            return state, Answer({"shares": shares, "mean_weights": mean, "log_scales": scales})
        chosen = {"lambda_": np.array(self.lambda_), "log_scales": scales}
        return state, Answer({"shares": shares[0], "mean_weights": mean[0], **chosen})


@dataclass(frozen=True, eq=False)
class VotingPath(Iterative):
    """Votes at every penalty of a path; the sum of the sites' losses at the mean weights chooses.

    The model has a threshold of 0, so that its choice leaves the graphs as they were voted for.
    """

    model: LinearModel

    @property
    def tolerates_absence(self) -> bool:
        """Whoever is there votes; every sum has its own number of rows."""
        return True

    def everything(self, state: State) -> Arrays:
        """Those who vote need not have been there before."""
        return self.model.told(state)

    def start(self, state: State) -> tuple[State, Ask]:
        """Ask for everyone's graphs; the path is sized for the rows of one site."""
        lambdas = state["lambdas"] * np.sqrt(float(state["sites"]))
        return {**state, "lambdas": lambdas}, _question(self.model.names, lambdas)

    def iterate(self, state: State, total: Total) -> tuple[State, None]:
        """Count."""
        shares, mean = _counted(total)
        weights = np.where(shares > 0.5, mean, 0.0)
        theta = weights * state["scale"][:, None]
        history = _history(state["lambdas"], shares)
        settled = np.ones_like(state["settled"])
        new = {"theta": theta, "history": history, "settled": settled, "shares": shares, "mean_weights": mean}
        return {**state, **new}, None

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """As every method; the answer holds the votes at the chosen penalty, too."""
        state, more = super().advance(state, total)
        if isinstance(more, Answer):
            lane = int(np.flatnonzero(state["lambdas"] == more.arrays["lambda_"])[0])
            votes = {name: state[name][lane] for name in ("shares", "mean_weights")}
            return state, Answer({**votes, **{name: more.arrays[name] for name in _KEPT}})
        return state, more


@dataclass(frozen=True, eq=False)
class NetworkVoting:
    """Votes of networks at every penalty of a path; the sum of the sites' own BIC chooses."""

    names: tuple[str, ...]

    @property
    def tolerates_absence(self) -> bool:
        """Whoever is there votes, at all penalties at once."""
        return True

    def begin(self) -> tuple[State, Ask]:
        """Ask how many rows there are."""
        return {}, centre_question(self.names, np.zeros(len(self.names), dtype=np.int64))

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The path, sized for the rows of one site; then count, and choose."""
        if "lambdas" not in state:
            scales = total.arrays["log_scales"]
            require_spread(self.names, scales[0])  # no rows of any site in which it varies
            d, rows = len(self.names), float(total.arrays["rows"][0]) / total.n_sites
            lambdas = np.array(penalty_path(d, rows))
            shape = (len(lambdas), d, d)
            returns = {"edges": shape, "weights": shape, "criteria": (len(lambdas),)}
            ask = Ask("weighed votes", {"lambdas": lambdas}, {"columns": list(self.names)}, returns=returns)
            return {"lambdas": lambdas, "log_scales": scales}, ask
        shares, mean = _counted(total)
        best = int(np.argmin(total.arrays["criteria"]))
        chosen = {"lambda_": state["lambdas"][best], "criterion": total.arrays["criteria"][best]}
        votes = {"shares": shares[best], "mean_weights": mean[best], "log_scales": state["log_scales"]}
        return state, Answer({**votes, **chosen, "history": _history(state["lambdas"], shares)})


def _history(lambdas: Array, shares: Array) -> Array:
    """One round of votes at every penalty: how many edges have more than half of them."""
    found = (shares > 0.5).sum(axis=(1, 2))
    rows = [(1, lambda_, *[np.nan] * 4, 0.0, n) for lambda_, n in zip(lambdas, found, strict=True)]
    return np.array(rows, dtype=float).reshape(-1, len(HISTORY))


def _question(names: tuple[str, ...], lambdas: Array | None) -> Ask:
    """Ask for graphs, one for each penalty, or for one where every site chooses its own."""
    one = (len(names), len(names))
    shape = one if lambdas is None else (len(lambdas), *one)
    given = {} if lambdas is None else {"lambdas": lambdas}
    returns = {"edges": shape, "weights": shape, "log_scales": (3, len(names))}
    return Ask("vote", given, {"columns": list(names)}, returns=returns)


def _counted(total: Total) -> tuple[Array, Array]:
    """Shares of votes, and mean weights among those who found an edge."""
    edges = total.arrays["edges"]
    return edges / total.n_sites, total.arrays["weights"] / np.maximum(edges, 1.0)
