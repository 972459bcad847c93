"""Sites that differ: one graph, and coefficients (and means) of each site's own.

`min Σ_k n_k/n loss_k(W_k) + λ Σ_ij √V_ij + h(V)/μ` with `V_ij = Σ_k n_k/n W_k,ij²`: a group lasso over the
sites, acyclic in what any of them uses. Both penalties depend on the sites through V alone, a sum. So in each
round the coordinator sends their slopes as a ridge penalty `R = λ/√V + (2/μ) ∂h/∂V`, a site solves its ridge
regressions and adds its squared coefficients. Nothing is kept at a site between rounds. At the end the sites
add up residual sums of squares of families, and edges go without which the extended BIC is lower, where an
edge costs a coefficient at every site.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polydag.acyclicity import ACYCLICITY
from polydag.federated.models.interface import Array
from polydag.federated.models.regime_groups import require_rows, require_spread
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total
from polydag.knowledge import Masks
from polydag.orientation import weakest_cycle_edges
from polydag.progress import report
from polydag.regression import extended_bic_penalty

LANES = 5
_MU_FIRST, _MU_LAST = 1.0, 1e-3
_WITHIN = 0.9  # how near the edge of its domain the acyclicity function is asked
STRENGTH_LEAST = 1e-3  # a coefficient below this counts as none
ACYCLIC = 1e-3  # ridge penalties leave a trace of every edge, so h is never zero
SETTLED = 0.02  # how far coefficients may still move in the last round
HISTORY = ("round", "lambda_", "mu", "h", "moved")
_CENTRE, _ROUNDS, _ELIMINATE, _MEAN = (
    np.array(word) for word in ("centre", "rounds", "eliminate", "mean")
)  # phases


@dataclass(frozen=True, eq=False)
class Varying:
    """The coordinator's side; parameters as for `LinearModel`."""

    names: tuple[str, ...]
    masks: Masks
    group: NDArray[np.int64]
    lambda_: float | Literal["bic"]
    threshold: float | Literal["ebic"]
    acyclicity: str
    rounds: int = 50

    @property
    def tolerates_absence(self) -> bool:
        """The sums must be over the same sites."""
        return False

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    def begin(self) -> tuple[State, Ask]:
        """Ask for numbers of rows and the spread about each site's own mean."""
        groups = int(self.group.max()) + 1
        returns = {"rows": (groups,), "squares": (groups, self.d), "log_scales": (3, self.d)}
        about = {"columns": list(self.names)}
        return {"phase": _CENTRE}, Ask("own spread", {"group": self.group}, about, returns=returns)

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The next question of the phase under way."""
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
        ridge = np.where(self.masks.forbidden, np.inf, lambdas[:, None, None] * np.ones((self.d, self.d)))
        return state, self._ask_ridge(state, ridge, {"log_scales": total.arrays["log_scales"]})

    def _ask_ridge(self, state: State, ridge: Array, told: Arrays) -> Ask:
        arrays = {"ridge": ridge, "group": self.group, "rows": state["rows"], **told}
        return Ask("ridge", arrays, returns={"squares": ridge.shape})

    def _lambdas(self, unit: float, n: float, sites: int) -> Array:
        """One penalty; or a path from the size that chance gives to K coefficients at once, halving."""
        if self.lambda_ != "bic":
            return np.array([float(self.lambda_)])
        first = unit * float(np.sqrt((sites + np.log(max(self.d, 2))) / n))
        return np.array([first / 2**k for k in range(LANES)])

    def _round(self, state: State, total: Total) -> tuple[State, Ask]:
        number = len(state["history"]) // len(state["lambdas"]) + 1
        V, last = total.arrays["squares"], state["V"]
        mu = _MU_FIRST * (_MU_LAST / _MU_FIRST) ** min((number - 1) / (0.7 * self.rounds), 1.0)
        ridge = np.empty_like(V)
        rows = []
        for lane, lambda_ in enumerate(state["lambdas"]):
            h, slope = self._cycles(V[lane])
            # The slope of √V, smoothed less and less, so that what is small can still come back at first.
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
        graphs = np.array([self._acyclic(np.sqrt(each)) for each in V])
        return self._ask_families({**state, "phase": _ELIMINATE, "graphs": graphs})

    def _cycles(self, V: Array) -> tuple[float, Array]:
        """h and its slope, at the edge of the domain where V is outside."""
        measure = ACYCLICITY[self.acyclicity]()
        inside = V - np.diag(V.diagonal())
        h, slope = measure.value_and_grad(inside)
        if not np.isfinite(h):
            radius = float(np.abs(np.linalg.eigvals(inside)).max())
            h, slope = measure.value_and_grad(inside * (_WITHIN / radius))
        return h, slope - np.diag(slope.diagonal())

    def _acyclic(self, strength: Array) -> NDArray[np.bool_]:
        least = STRENGTH_LEAST if self.threshold == "ebic" else float(self.threshold)
        kept = (strength >= max(least, 1e-300)) & ~self.masks.forbidden | self.masks.required
        for i, j in weakest_cycle_edges(kept, strength, self.masks.required):
            kept[i, j] = False
        return kept

    def _ask_families(self, state: State) -> tuple[State, Ask]:
        """Every family of every lane, and each without one of the parents that may go."""
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
        return state, Ask("refit", {**sent, "group": self.group}, returns={"squares": (len(targets),)})

    def _eliminate(self, state: State, total: Total) -> tuple[State, Ask]:
        """In every family the worst parent goes, if that lowers the criterion; then the best lane."""
        n = state["rows"][self.group]
        price = extended_bic_penalty(float(n.max()), self.d) + (float(state["sites"]) - 1) * np.log(n.max())
        squares = iter(total.arrays["squares"])
        graphs = state["graphs"].copy()
        criterion = np.zeros(len(graphs))
        changed = False
        for lane, graph in enumerate(graphs):
            before = graph.copy()
            for j in range(self.d):
                cost = n[j] * np.log(max(float(next(squares)) / n[j], 1e-300))
                criterion[lane] += cost + price * before[:, j].sum()
                parents = np.flatnonzero(before[:, j] & ~self.masks.required[:, j])
                without = [n[j] * np.log(max(float(next(squares)) / n[j], 1e-300)) for _ in parents]
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
        best = int(state["best"])
        adjacency = state["graphs"][best]
        last = state["history"][-len(state["lambdas"]) :]
        return state, Answer(
            {
                "adjacency": adjacency.astype(np.uint8),
                "weights": np.where(adjacency, total.arrays["weights"], 0.0),
                "raw_weights": np.sqrt(state["V"][best]),
                "lambda_": state["lambdas"][best],
                "criterion": state["criterion"][best],
                "h": last[best, 3],
                "moved": last[best, 4],
                "history": state["history"],
                "pooled_scale": state["pooled_scale"],
            }
        )
