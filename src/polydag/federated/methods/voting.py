"""Voting (Na and Yang 2010): every party learns alone; edges that more than half of them found are kept.

With a path of penalties the parties vote at each of them. For linear weights the majority's edges are
candidates, as the weights of ADMM are: each party is lenient, since a majority leaves out what chance found,
and sums of the parties' losses within candidate families decide what stays (`VotingPath`). Networks have no
mean, so there each party's own networks are judged: the sum of the parties' own BIC chooses
(`NetworkVoting`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from polydag.arrays import Array, Mask
from polydag.errors import UsageError
from polydag.federated.methods.interface import Fitted, MethodSettings, Study
from polydag.federated.methods.iterative import Iterative, history_table
from polydag.federated.methods.voting_party import SCORED_VOTE, VOTE, VotingParty
from polydag.federated.models.interface import HISTORY, Model
from polydag.federated.models.linear_coordinator import LinearCoordinator
from polydag.federated.party_data.regimes import centre_question, require_spread
from polydag.federated.party_data.site_comparison import comparison_shapes
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, Local, Program, State, Total
from polydag.graph import Edge, Graph
from polydag.knowledge import Knowledge
from polydag.optimize.network_choice import penalty_path
from polydag.orientation import weakest_cycle_edges
from polydag.privacy.settings import Privacy

_KEPT = ("lambda_", "criterion", "history", "pooled_scale")


@dataclass(frozen=True, eq=False)
class Voting:
    """The coordinator's side: shares of votes, and mean weights among the parties that found an edge."""

    names: tuple[str, ...]
    lambda_: float | None = None  # the penalty at every party; by default each chooses its own

    @property
    def tolerates_absence(self) -> bool:
        """Every party that is present votes."""
        return True

    def begin(self) -> tuple[State, Ask]:
        """Ask for the parties' graphs."""
        return {}, _question(self.names, None if self.lambda_ is None else np.array([self.lambda_]))

    def advance(self, state: State, total: Total) -> tuple[State, Answer]:
        """Count the votes."""
        scales = total.arrays["log_scales"]
        require_spread(self.names, scales[0])  # the rows of parties in which the column varies
        shares, mean = _counted(total)
        if self.lambda_ is None:
            return state, Answer({"shares": shares, "mean_weights": mean, "log_scales": scales})
        chosen = {"lambda_": np.array(self.lambda_), "log_scales": scales}
        return state, Answer({"shares": shares[0], "mean_weights": mean[0], **chosen})


@dataclass(frozen=True, eq=False)
class VotingPath(Iterative):
    """Votes at every penalty of a path; the sum of the parties' losses chooses.

    With a threshold of 0, the model's choice leaves the graphs as the parties voted.
    """

    model: LinearCoordinator

    @property
    def tolerates_absence(self) -> bool:
        """Every party that is present votes; each sum has its own number of rows."""
        return True

    @property
    def _improved(self) -> bool:
        """Whether the sum of the losses changes the graphs that were voted for."""
        return self.model.threshold == "ebic"

    def repeated_constants(self, state: State) -> Arrays:
        """Parties that vote need not have been present before."""
        return self.model.constants(state)

    def start(self, state: State) -> tuple[State, Ask]:
        """Ask for the parties' graphs; the path is scaled to the rows of one party.

        It begins one step further on where what too many voted for can still be left out.
        """
        lambdas = state["lambdas"] * np.sqrt(float(state["sites"])) / (2 if self._improved else 1)
        return {**state, "lambdas": lambdas}, _question(self.model.names, lambdas)

    def iterate(self, state: State, total: Total) -> tuple[State, None]:
        """Count the votes."""
        shares, mean = _counted(total)
        # A pair that most parties join is a candidate even if they disagree on its direction.
        voted = (shares > 0.5) | (shares + shares.transpose(0, 2, 1) > 0.5) & self._improved
        theta = np.where(voted, mean, 0.0) * state["scale"][:, None]
        history = _history(state["lambdas"], shares)
        settled = np.ones_like(state["settled"])
        new = {"theta": theta, "history": history, "settled": settled, "shares": shares, "mean_weights": mean}
        return {**state, **new}, None

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The next question; the answer also holds the votes at the chosen penalty."""
        state, more = super().advance(state, total)
        if isinstance(more, Answer):
            lane = int(np.flatnonzero(state["lambdas"] == more.arrays["lambda_"])[0])
            votes = {name: state[name][lane] for name in ("shares", "mean_weights")}
            if self._improved:
                votes["weights"] = more.arrays["weights"]
            kept = (*_KEPT, *(name for name in comparison_shapes(1) if name in more.arrays))
            return state, Answer({**votes, **{name: more.arrays[name] for name in kept}})
        return state, more


@dataclass(frozen=True, eq=False)
class NetworkVoting:
    """Votes of networks at every penalty of a path; the sum of the parties' own BIC chooses."""

    names: tuple[str, ...]

    @property
    def tolerates_absence(self) -> bool:
        """Every party that is present votes, at all penalties at once."""
        return True

    def begin(self) -> tuple[State, Ask]:
        """Ask for the number of rows."""
        return {}, centre_question(self.names, np.zeros(len(self.names), dtype=np.int64))

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The path, scaled to the rows of one party; then count the votes and choose."""
        if "lambdas" not in state:
            scales = total.arrays["log_scales"]
            require_spread(self.names, scales[0])  # the rows of parties in which the column varies
            d, rows = len(self.names), float(total.arrays["rows"][0]) / total.n_sites
            lambdas = np.array(penalty_path(d, rows))
            shape = (len(lambdas), d, d)
            returns = {"edges": shape, "weights": shape, "criteria": (len(lambdas),)}
            ask = Ask(SCORED_VOTE, {"lambdas": lambdas}, {"columns": list(self.names)}, returns=returns)
            return {"lambdas": lambdas, "log_scales": scales}, ask
        shares, mean = _counted(total)
        best = int(np.argmin(total.arrays["criteria"]))
        chosen = {"lambda_": state["lambdas"][best], "criterion": total.arrays["criteria"][best]}
        votes = {"shares": shares[best], "mean_weights": mean[best], "log_scales": state["log_scales"]}
        return state, Answer({**votes, **chosen, "history": _history(state["lambdas"], shares)})


def _history(lambdas: Array, shares: Array) -> Array:
    """One round of votes at every penalty: the number of edges with more than half of them."""
    found = (shares > 0.5).sum(axis=(1, 2))
    rows = [(1, lambda_, *[np.nan] * 4, 0.0, n) for lambda_, n in zip(lambdas, found, strict=True)]
    return np.array(rows, dtype=float).reshape(-1, len(HISTORY))


def _question(names: tuple[str, ...], lambdas: Array | None) -> Ask:
    """Ask for graphs, one for each penalty, or for one where every party chooses its own penalty."""
    one = (len(names), len(names))
    shape = one if lambdas is None else (len(lambdas), *one)
    given = {} if lambdas is None else {"lambdas": lambdas}
    returns = {"edges": shape, "weights": shape, "log_scales": (3, len(names))}
    return Ask(VOTE, given, {"columns": list(names)}, returns=returns)


def _counted(total: Total) -> tuple[Array, Array]:
    """Shares of votes, and mean weights among the parties that found an edge."""
    edges = total.arrays["edges"]
    return edges / total.n_sites, total.arrays["weights"] / np.maximum(edges, 1.0)


class VotingMethod:
    """Every party learns alone, with `settings.learner`, and votes."""

    name: str = "voting"
    models: tuple[str, ...] = ("linear", "mlp", "masked", "lagged")
    protections: tuple[str, ...] = ("none", "masked")
    uses_learner: bool = True

    def paper_lambda(self, model: Model) -> float:
        """That of NOTEARS as published."""
        return model.single_party_lambda

    def party(self, table: Any, model: Model, settings: MethodSettings, privacy: Privacy) -> Local:
        """The model's side, and a learner that knows what is known."""
        local = model.party(table, settings)
        learner = with_knowledge(clone(settings.learner), model.knowledge(settings, local.names))
        return VotingParty(local, learner)

    def program(self, study: Study) -> Program:
        """Votes at the learner's own penalty, at a given one, or at those of a path."""
        settings, names = study.settings, study.names
        if settings.own_penalty:
            return Voting(names)
        if settings.lambda_ != "bic":
            return Voting(names, settings.lambda_)
        if not study.model.has_mean:
            return NetworkVoting(names)
        return VotingPath(
            LinearCoordinator(
                names,
                study.masks,
                study.group,
                "bic",
                "ebic" if settings.threshold == "ebic" and not settings.paper else 0.0,
                settings.acyclicity,
                site_effects=settings.site_effects,
            )
        )

    def read(self, study: Study, result: Arrays) -> Fitted:
        """What the losses left of the votes, or the edges with more than half of them.

        Unless the paper is followed, there are no cycles.
        """
        names, masks = study.names, study.masks
        shares, mean = result["shares"], result["mean_weights"]
        voted = (shares > 0.5) & ~masks.forbidden | masks.required
        pruned: list[tuple[Edge, str]] = []
        if "weights" in result:
            mean = result["weights"]
            found = (mean != 0) | masks.required
            gone = voted & ~found
            pruned = [
                (Edge(names[i], names[j], float(shares[i, j])), "turned" if found[j, i] else "weak")
                for i, j in np.argwhere(gone)
            ]
        elif study.settings.paper:
            found = voted
        else:
            found = _one_direction(voted, shares, masks.required)
            # The edge with the fewest votes is removed first, whatever its weight.
            for i, j in weakest_cycle_edges(found & ~found.T, shares, masks.required):
                found[i, j] = False
                pruned.append((Edge(names[i], names[j], float(shares[i, j])), "cycle"))
        lambda_, criterion = (float(result.get(name, np.nan)) for name in ("lambda_", "criterion"))
        path = result.get("history")
        history = _single_round(shares, lambda_) if path is None else history_table(path)
        graph = Graph(found, names, np.where(found, mean, 0.0))
        return Fitted(graph, mean, history, pruned, True, 1, lambda_, criterion, {"votes_": shares})


def with_knowledge(learner: Any, knowledge: Knowledge | None) -> Any:
    """The learner with background knowledge as its parameter; raises where it has none."""
    if knowledge is not None:
        if "knowledge" not in learner.get_params(deep=False):
            raise UsageError(f"{type(learner).__name__} does not take background knowledge.")
        learner.set_params(knowledge=knowledge)
    return learner


def _one_direction(found: Mask, shares: Array, required: Mask) -> Mask:
    """Where both directions have enough votes, the one with more of them; both if they have equally many.

    An undirected edge of a party's graph is a vote for each direction, so both can have more than half.
    """
    fewer = (shares < shares.T) & ~required | required.T
    return found & ~(found.T & fewer)


def _single_round(shares: Array, lambda_: float) -> pd.DataFrame:
    """The history of a single round of votes; with the penalty, where the parties had a common one."""
    common = {} if np.isnan(lambda_) else {"lambda_": [lambda_]}
    return pd.DataFrame({"round": [1], **common, "n_nonzero": [int((shares > 0.5).sum())]})
