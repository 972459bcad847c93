"""Rounds of noisy gradients, then the coordinator's own step for λ and cycles.

This is ADMM with the parties' step linearised (Huang et al. 2019): of `B_k + β_k/ρ` only a gradient step
remains, which is a sum over rows, so no state of a party becomes more sensitive from round to round. Steps
are measured in the covariance Σ of the whitening, `W − Σ⁻¹∇(W)/ρ`. With growing ρ it is federated averaging
of single steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag.acyclicity import ACYCLICITY
from polydag.arrays import Array
from polydag.computing.progress import report
from polydag.federated.methods.private.party import GRADIENT
from polydag.federated.methods.private.plan import NoisePlan, WhiteningSearch
from polydag.federated.models.linear_coordinator import LinearCoordinator
from polydag.federated.models.proximal_loss import ProximalLoss
from polydag.federated.protocol.programs import Answer, Ask, State, Total
from polydag.optimize.notears import lasso_rates
from polydag.optimize.penalised import Penalty, Point, descend
from polydag.orientation import weakest_cycle_edges
from polydag.privacy.dp.whitening import Whitening

STANDARD_THRESHOLD = 0.1  # for weights between columns of standard deviation 1


@dataclass(frozen=True, eq=False)
class NoisyGradients:
    """The coordinator's side; `growth` is the factor by which ρ has grown in the last round.

    For linearised ADMM it is 1.
    """

    model: LinearCoordinator
    plan: NoisePlan
    growth: float = 1.0

    @property
    def tolerates_absence(self) -> bool:
        """Every party's share of the noise is needed."""
        return False

    @property
    def _search(self) -> WhiteningSearch:
        return WhiteningSearch(self.model.names, self.plan)

    @property
    def _rounds(self) -> int:
        return self.plan.counts[GRADIENT]

    def begin(self) -> tuple[State, Ask]:
        """The search for a whitening."""
        return self._search.begin()

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The whitening, then the rounds."""
        if str(state["phase"]) == GRADIENT:
            return self._iterate(state, total)
        found = self._search.advance(state, total)
        return self._first(found[0], found[1], total.n_sites) if isinstance(found[0], Whitening) else found

    def _first(self, whitening: Whitening, n: float, n_sites: int) -> tuple[State, Ask]:
        d = self.model.d
        max_norm = whitening.radius**2
        # Sampling error and the noise that remains after all rounds, in standard units.
        noise = self._search.deviation(GRADIENT, n_sites, max_norm) / n / np.sqrt(0.75 * self._rounds)
        state: dict[str, Any] = {
            "rows": np.array(n), "max_norm": np.array(max_norm), "error": np.array(np.hypot(n**-0.5, noise)),
            "W": np.zeros((d, d)), "mean_target": np.zeros((d, d)), "history": np.zeros((0, 8)),
        }  # fmt: skip
        return self._ask(state, whitening)

    def _ask(self, state: State, whitening: Whitening) -> tuple[State, Ask]:
        M, deviations = self._residual(state["W"], whitening)
        meta = {"max_norm": float(state["max_norm"])}
        return self._search.ask(state, GRADIENT, whitening, meta, residual=M / deviations)

    def _residual(self, W: Array, whitening: Whitening) -> tuple[Array, Array]:
        """The map from whitened rows to residuals, and the standard deviations of these residuals."""
        M = np.linalg.inv(whitening.transform) @ (np.eye(len(W)) - W)
        return M, np.sqrt((M**2).sum(axis=0))

    def _iterate(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        whitening, W = self._search.whitening(state), state["W"]
        number = len(state["history"]) + 1
        progress = (number - 1) / max(self._rounds - 1, 1)
        rho = self.growth**progress
        _, deviations = self._residual(W, whitening)
        step = whitening.transform @ (total.arrays["gradient"] / float(state["rows"])) * deviations
        # The target hardly depends on the start of the step, so noise averages out; later rounds weigh more.
        mean = state["mean_target"] + 2 / (number + 1) * (W + step - state["mean_target"])
        target = mean if self.growth == 1 else W + step / rho
        after = self._solved(state, whitening, target, rho, 100.0**progress)
        moved = float(np.linalg.norm(after.W - W)) / max(float(np.linalg.norm(after.W)), 1e-300)
        lambda_ = float(self._lambda(state))
        row = (number, lambda_, 100.0**progress, rho, np.nan, moved, after.h, int(np.count_nonzero(after.W)))
        history = np.vstack([state["history"], np.array(row)])
        state = {**state, "W": after.W, "history": history, "mean_target": mean}
        report("noisy rounds", number, self._rounds)
        return (
            self._ask(state, whitening) if number < self._rounds else (state, self._answer(state, whitening))
        )

    def _lambda(self, state: State) -> float:
        """λ in standard units: the size of errors of correlations, unless it is given."""
        if self.model.lambda_ == "bic":
            return float(state["error"]) * float(np.sqrt(2 * np.log(max(self.model.d, 2))))
        return float(self.model.lambda_)

    def _solved(self, state: State, whitening: Whitening, target: Array, rho: float, cost: float) -> Point:
        gram = whitening.covariance
        near = ProximalLoss(target, rho * gram)
        rates = lasso_rates(self._lambda(state), self.model.masks)
        if self.model.lambda_ == "bic":
            unit = np.sqrt(gram.diagonal())
            _, deviations = self._residual(state["W"], whitening)
            rates = np.where(rates < 0, rates, rates * np.outer(unit, deviations))
        typical = float(np.exp(np.log(gram.diagonal()).mean()))
        penalty = Penalty(lambda h: cost * typical * h, lambda h: cost * typical)
        measure = ACYCLICITY[self.model.acyclicity]()
        return descend(near, rates, measure, penalty, state["W"], tolerance=1e-6, max_iter=20)

    def _answer(self, state: State, whitening: Whitening) -> Answer:
        raw = self._solved(state, whitening, state["mean_target"], 1.0, 1e3).W
        unit = np.sqrt(whitening.covariance.diagonal())  # standard deviations in the units of the data
        by_number = self.model.threshold != "ebic"
        sizes = np.abs(raw) if by_number else np.abs(raw) * unit[:, None] / unit[None, :]
        least = float(self.model.threshold) if by_number else STANDARD_THRESHOLD
        required = self.model.masks.required
        kept = (sizes >= least) & (raw != 0) & ~np.eye(len(raw), dtype=bool) | required
        for i, j in weakest_cycle_edges(kept, np.abs(raw), required):
            kept[i, j] = False
        # All planned rounds are done and cycles are removed, so there is nothing left to converge.
        return Answer(
            {
                "weights": np.where(kept, raw, 0.0), "raw_weights": raw, "criterion": np.array(np.nan),
                "lambda_": np.array(self._lambda(state)), "h": np.array(0.0), "settled": np.ones(1, np.int64),
                "history": state["history"], "rows": np.array([float(state["rows"])]), "pooled_scale": unit,
            }
        )  # fmt: skip
