"""Parties that differ: one graph, with coefficients (and means) of each party's own.

`min Σ_k n_k/n loss_k(W_k) + λ Σ_ij √V_ij + h(V)/μ` with `V_ij = Σ_k n_k/n W_k,ij²`: a group lasso over the
parties whose union of edges is acyclic. Both penalties depend on the parties through V alone, which is a sum.
So in each round the coordinator sends the slopes of the penalties as a ridge penalty `R = λ/√V + (2/μ)
∂h/∂V`; a party solves its ridge regressions and contributes its squared coefficients. Parties keep no state
between rounds. At the end they add up residual sums of squares of families, and edges are removed if that
lowers the extended BIC, in which an edge costs one coefficient at every party: the logarithm of a party's
rows and a degree of freedom. No family may take more than half of a party's rows.

Such a start from zero ends at local optima that a start from an order of the variables avoids. So with a path
of penalties one more graph is a candidate: that of the sum of the parties' scatters about their own means. It
is the best of them where coefficients differ little, and the criterion says whether they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from polydag.acyclicity import ACYCLICITY
from polydag.arrays import Array, Index, Mask
from polydag.computing.progress import report
from polydag.federated.methods.interface import Fitted, MethodSettings, Study
from polydag.federated.methods.varying_party import VaryingParty
from polydag.federated.models.interface import Model, Penalty
from polydag.federated.party_data.regimes import require_rows, require_spread
from polydag.federated.party_data.tables import statistics_of
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, Local, Program, State, Total
from polydag.graph import Edge, Graph
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.optimize.notears import lambda_path, solve_path
from polydag.optimize.pruning import best_of, prune
from polydag.orientation import weakest_cycle_edges
from polydag.privacy.settings import Privacy
from polydag.regression import extended_bic_penalty

PATH_LENGTH = 5
_MU_FIRST, _MU_LAST = 1.0, 1e-3
_WITHIN = 0.9  # how close to the boundary of its domain the acyclicity function is evaluated
STRENGTH_LEAST = 1e-3  # a coefficient below this counts as zero
ACYCLIC = 1e-3  # ridge penalties leave small coefficients everywhere, so h is never zero
SETTLED = 0.02  # the largest change of a coefficient in the last round
HISTORY = ("round", "lambda_", "mu", "h", "moved")
_CENTRE, _ROUNDS, _ELIMINATE, _MEAN = (
    np.array(word) for word in ("centre", "rounds", "eliminate", "mean")
)  # phases


@dataclass(frozen=True, eq=False)
class Varying:
    """The coordinator's side; parameters as for `LinearCoordinator`."""

    names: tuple[str, ...]
    masks: Masks
    group: Index
    lambda_: Penalty
    threshold: float | Literal["ebic"]
    acyclicity: str
    rounds: int = 50

    @property
    def tolerates_absence(self) -> bool:
        """The sums must be over the same parties."""
        return False

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def _starts_from_sums(self) -> bool:
        """Whether the graph of the summed scatters is a candidate: without a given penalty or threshold."""
        return self.lambda_ == "bic" and self.threshold == "ebic"

    def begin(self) -> tuple[State, Ask]:
        """Ask for numbers of rows and the spread about each party's own mean."""
        groups = int(self.group.max()) + 1
        spread = {"scatter": (groups, self.d, self.d)} if self._starts_from_sums else {}
        returns = {"rows": (groups,), "squares": (groups, self.d), "log_scales": (3, self.d), **spread}
        about = {"columns": list(self.names), "scatter": self._starts_from_sums}
        return {"phase": _CENTRE}, Ask("own spread", {"group": self.group}, about, returns=returns)

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The next question of the current phase."""
        phase = str(state["phase"])
        if phase == "centre":
            return self._start(state, total)
        if phase == "rounds":
            return self._round(state, total)
        return self._eliminate(state, total) if phase == "eliminate" else self._answer(state, total)

    def _start(self, state: State, total: Total) -> tuple[State, Ask]:
        rows = total.arrays["rows"]
        require_rows(self.names, self.group, rows)
        variance = total.arrays["squares"] / np.maximum(rows, 1.0)[:, None]
        scale = np.sqrt(variance.max(axis=0))
        require_spread(self.names, scale)
        unit = float(np.exp(2 * np.log(scale).mean()))
        lambdas = self._lambdas(unit, float(rows.max()), total.n_sites)
        state = {
            "phase": _ROUNDS,
            "rows": rows,
            "sites": np.array(total.n_sites),
            "pooled_scale": scale,
            "unit": np.array(unit),
            "lambdas": lambdas,
            "V": np.zeros((len(lambdas), self.d, self.d)),
            "history": np.zeros((0, len(HISTORY))),
        }
        if self._starts_from_sums:
            state |= self._of_sums(rows, total)
        ridge = np.where(self.masks.forbidden, np.inf, lambdas[:, None, None] * np.ones((self.d, self.d)))
        return state, self._ask_ridge(state, ridge, {"log_scales": total.arrays["log_scales"]})

    def _of_sums(self, rows: Array, total: Total) -> dict[str, Array]:
        """The strengths of the effects that NOTEARS finds in the summed scatters, and its penalty."""
        n = np.maximum(rows - total.n_sites + 1, 1.0)
        loss = LeastSquares(total.arrays["scatter"] / n[:, None, None], self.group, n[self.group], self.names)
        measure = ACYCLICITY[self.acyclicity]()
        solutions = list(solve_path(loss, lambda_path(loss), measure, self.masks))
        pruned = [prune(loss, each.W, self.masks, "ebic") for each in solutions]
        best = best_of(loss, pruned)
        strength, lambda_ = np.abs(pruned[best].weights), np.array(solutions[best].lambda_)
        return {"strength of sums": strength, "lambda of sums": lambda_}

    def _ask_ridge(self, state: State, ridge: Array, more: Arrays) -> Ask:
        arrays = {"ridge": ridge, "group": self.group, "rows": state["rows"], **more}
        return Ask("ridge", arrays, returns={"squared weights": ridge.shape})

    def _lambdas(self, unit: float, n: float, sites: int) -> Array:
        """One penalty; or a path that starts at the size of K chance coefficients and halves at each step."""
        if self.lambda_ != "bic":
            return np.array([float(self.lambda_)])
        first = unit * float(np.sqrt((sites + np.log(max(self.d, 2))) / n))
        return np.array([first / 2**k for k in range(PATH_LENGTH)])

    def _round(self, state: State, total: Total) -> tuple[State, Ask]:
        number = len(state["history"]) // len(state["lambdas"]) + 1
        V, last = total.arrays["squared weights"], state["V"]
        mu = _MU_FIRST * (_MU_LAST / _MU_FIRST) ** min((number - 1) / (0.7 * self.rounds), 1.0)
        ridge = np.empty_like(V)
        rows = []
        for lane, lambda_ in enumerate(state["lambdas"]):
            h, slope = self._cycles(V[lane])
            # The slope of √V, smoothed less and less, so that small coefficients can still recover at first.
            smooth = max(mu, STRENGTH_LEAST / 10)
            ridge[lane] = lambda_ / np.sqrt(V[lane] + smooth**2) + 2 * float(state["unit"]) / mu * slope
            moved = np.abs(np.sqrt(V[lane]) - np.sqrt(last[lane])).max()
            rows.append((number, lambda_, mu, h, moved))
        required = np.where(self.masks.required, 0.0, ridge)
        ridge = np.where(self.masks.forbidden, np.inf, required)
        state = {**state, "V": V, "history": np.vstack([state["history"], np.array(rows)])}
        report("varying", number, self.rounds)
        if number < self.rounds:
            return state, self._ask_ridge(state, ridge, {})
        most = self._most_parents(state)
        strengths = [*np.sqrt(V), *([state["strength of sums"]] if self._starts_from_sums else [])]
        graphs = np.array([self._acyclic(each, most) for each in strengths])
        return self._ask_families({**state, "phase": _ELIMINATE, "graphs": graphs})

    def _cycles(self, V: Array) -> tuple[float, Array]:
        """h and its slope, at the boundary of its domain where V lies outside."""
        measure = ACYCLICITY[self.acyclicity]()
        inside = V - np.diag(V.diagonal())
        h, slope = measure.value_and_grad(inside)
        if not np.isfinite(h):
            radius = float(np.abs(np.linalg.eigvals(inside)).max())
            h, slope = measure.value_and_grad(inside * (_WITHIN / radius))
        return h, slope - np.diag(slope.diagonal())

    def _most_parents(self, state: State) -> int:
        """How many parents leave a party half of its rows to tell their effects from chance."""
        rows = float(state["rows"].max()) / float(state["sites"])
        return max(int(rows / 2) - 1, 1)

    def _acyclic(self, strength: Array, most: int) -> Mask:
        least = STRENGTH_LEAST if self.threshold == "ebic" else float(self.threshold)
        kept = (strength >= max(least, 1e-300)) & ~self.masks.forbidden | self.masks.required
        if self.threshold == "ebic":
            preferred = np.where(self.masks.required, np.inf, strength)
            rank = np.argsort(np.argsort(-preferred, axis=0, kind="stable"), axis=0)
            kept &= (rank < most) | self.masks.required
        for i, j in weakest_cycle_edges(kept, strength, self.masks.required):
            kept[i, j] = False
        return kept

    def _ask_families(self, state: State) -> tuple[State, Ask]:
        """Every family at every penalty, and each without one of the parents that may be removed."""
        targets, parents = [], []
        for graph in state["graphs"]:
            for j in range(self.d):
                targets.append(j)
                parents.append(graph[:, j])
                for i in np.flatnonzero(graph[:, j] & ~self.masks.required[:, j]):
                    targets.append(j)
                    parents.append(np.where(np.arange(self.d) == i, False, graph[:, j]))
        state = {**state, "targets": np.array(targets), "parents": np.array(parents, dtype=np.uint8)}
        sent = {name: state[name] for name in ("targets", "parents")}
        return state, Ask(
            "refit", {**sent, "group": self.group}, returns={"residual squares": (len(targets),)}
        )

    @staticmethod
    def _cost(squares: float, n: float, sites: float, size: int) -> float:
        """`n log σ²` with the unbiased σ²: a parent takes one degree of freedom at every party."""
        degrees = max(n - sites * (1 + size), 1.0)
        return float(n * np.log(max(squares / degrees, 1e-300)))

    def _eliminate(self, state: State, total: Total) -> tuple[State, Ask]:
        """Remove the worst parent of every family if that lowers the criterion; then choose the penalty."""
        n = state["rows"][self.group]
        squares, sites = iter(total.arrays["residual squares"]), float(state["sites"])
        price = extended_bic_penalty(float(n.max()), self.d) + (sites - 1) * np.log(n.max() / sites)
        graphs = state["graphs"].copy()
        criterion = np.zeros(len(graphs))
        changed = False
        for lane, graph in enumerate(graphs):
            before = graph.copy()
            for j in range(self.d):
                size = int(before[:, j].sum())
                cost = self._cost(float(next(squares)), n[j], sites, size)
                criterion[lane] += cost + price * size
                parents = np.flatnonzero(before[:, j] & ~self.masks.required[:, j])
                without = [self._cost(float(next(squares)), n[j], sites, size - 1) for _ in parents]
                if self.threshold == "ebic" and without and min(without) - price < cost:
                    graph[parents[int(np.argmin(without))], j] = False
                    changed = True
        state = {**state, "graphs": graphs, "criterion": criterion}
        if changed:
            return self._ask_families(state)
        best = int(np.argmin(criterion))
        state = {**state, "phase": _MEAN, "best": np.array(best)}
        ask = {"adjacency": graphs[best].astype(np.uint8), "group": self.group, "rows": state["rows"]}
        return state, Ask("own weights", ask, returns={"weights": (self.d, self.d)})

    def _answer(self, state: State, total: Total) -> tuple[State, Answer]:
        best, lanes = int(state["best"]), len(state["lambdas"])
        adjacency = state["graphs"][best]
        of_sums = best == lanes
        h, moved = (0.0, 0.0) if of_sums else state["history"][best - lanes, 3:]
        return state, Answer(
            {
                "adjacency": adjacency.astype(np.uint8),
                "weights": np.where(adjacency, total.arrays["weights"], 0.0),
                "raw_weights": state["strength of sums"] if of_sums else np.sqrt(state["V"][best]),
                "lambda_": state["lambda of sums"] if of_sums else state["lambdas"][best],
                "criterion": state["criterion"][best],
                "h": np.array(h),
                "moved": np.array(moved),
                "history": state["history"],
                "pooled_scale": state["pooled_scale"],
            }
        )


class VaryingMethod:
    """One graph, with coefficients of each party's own, which the parties keep."""

    name: str = "varying"
    models: tuple[str, ...] = ("linear",)
    protections: tuple[str, ...] = ("none", "masked")
    uses_learner: bool = False

    def paper_lambda(self, model: Model) -> float:
        """That of Algorithm 1."""
        return model.paper_lambda

    def party(self, table: Any, model: Model, settings: MethodSettings, privacy: Privacy) -> Local:
        """The statistics of the table."""
        return VaryingParty(statistics_of(table))

    def program(self, study: Study) -> Program:
        """The group lasso over the parties."""
        settings = study.settings
        return Varying(
            study.names, study.masks, study.group, settings.lambda_, settings.threshold, settings.acyclicity
        )

    def read(self, study: Study, result: Arrays) -> Fitted:
        """The shared graph, the mean coefficients, and each party's own."""
        adjacency = result["adjacency"].astype(bool)
        strength, names = result["raw_weights"], study.names
        weak = (strength > STRENGTH_LEAST) & ~adjacency
        own_weights = {
            name: cast(VaryingParty, party).own_weights(study.group, adjacency)
            for name, party in study.parties.items()
        }
        history = pd.DataFrame(result["history"], columns=list(HISTORY)).astype({"round": int})
        return Fitted(
            Graph(adjacency, names, result["weights"]),
            strength,
            history,
            [(Edge(names[i], names[j], float(strength[i, j])), "weak") for i, j in np.argwhere(weak)],
            bool(result["moved"] <= SETTLED and result["h"] <= ACYCLIC),
            int(history["round"].max()),
            float(result["lambda_"]),
            float(result["criterion"]),
            {"party_weights_": own_weights},
        )
