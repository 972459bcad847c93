"""What the methods that exchange parameters have in common.

The program asks the model's questions before the first round, then the method's rounds, then the model's
questions after the last round. Under differential privacy it is replaced by rounds of noisy gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from polydag.arrays import Array
from polydag.federated.methods.interface import Fitted, MethodSettings, Study
from polydag.federated.methods.private.gradients import NoisyGradients
from polydag.federated.methods.private.party import private_party
from polydag.federated.methods.private.plan import gradient_plan
from polydag.federated.models.interface import HISTORY, CoordinatorModel, Model
from polydag.federated.models.linear_coordinator import LinearCoordinator
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, Local, Program, State, Total
from polydag.graph import Edge, Graph
from polydag.knowledge import Masks
from polydag.privacy.settings import Privacy

_ACYCLIC = 1e-5
_BEFORE, _ROUNDS, _AFTER = (np.array(word) for word in ("before", "rounds", "after"))


@dataclass(frozen=True, eq=False)
class Iterative(ABC):
    """The coordinator's side, except for the rounds of the method itself."""

    model: CoordinatorModel

    @property
    def tolerates_absence(self) -> bool:
        """Whether a round may end without some of the parties."""
        return False

    @property
    def label(self) -> str:
        """The name of the method in progress reports."""
        return type(self).__name__.lower()

    def begin(self) -> tuple[State, Ask]:
        """The first question of the model."""
        state, ask = self.model.begin()
        return {**state, "phase": _BEFORE}, ask

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The next question of the current phase."""
        phase = str(state["phase"])
        if phase == str(_BEFORE):
            state, more = self.model.prepare(state, total)
            if more is not None:
                return state, more
            lanes = len(state["lambdas"])
            settled, history = np.zeros(lanes, dtype=np.int64), np.zeros((0, len(HISTORY)))
            return self.start({**state, "phase": _ROUNDS, "settled": settled, "history": history})
        if phase == str(_AFTER):
            return self.model.finish(state, total, self.repeated_constants(state))
        state, more = self.iterate(state, total)
        if more is not None:
            return state, more
        return self.model.finish({**state, "phase": _AFTER}, None, self.repeated_constants(state))

    @abstractmethod
    def start(self, state: State) -> tuple[State, Ask]:
        """The first question of the method."""

    @abstractmethod
    def iterate(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """One round of the method; None when it has converged."""

    def repeated_constants(self, state: State) -> Arrays:
        """What accompanies every question, for parties that keep no state; nothing where they do."""
        return {}


class ParameterExchange(ABC):
    """A method that exchanges parameters: ADMM and federated averaging."""

    name: str
    models: tuple[str, ...] = ("linear", "mlp", "masked", "lagged")
    protections: tuple[str, ...] = ("none", "masked", "noise")
    uses_learner: bool = False
    noise_growth: float = 1.0  # by which factor ρ grows over the rounds of noisy gradients

    def paper_lambda(self, model: Model) -> float:
        """That of Algorithm 1."""
        return model.paper_lambda

    def party(self, table: Any, model: Model, settings: MethodSettings, privacy: Privacy) -> Local:
        """The model's side, or one that adds noise."""
        return model.party(table, settings) if privacy.epsilon is None else private_party(table)

    def program(self, study: Study) -> Program:
        """The exchange of parameters, or rounds of noisy gradients."""
        settings = study.settings
        if study.privacy.epsilon is None:
            return self.exchange(study)
        model = LinearCoordinator(
            study.names, study.masks, study.group, settings.lambda_, settings.threshold, settings.acyclicity
        )
        return NoisyGradients(model, gradient_plan(study.privacy, study.names), self.noise_growth)

    @abstractmethod
    def exchange(self, study: Study) -> Program:
        """The program without noise."""

    def read(self, study: Study, result: Arrays) -> Fitted:
        """The weights at the chosen penalty, and what was dropped from the raw ones."""
        return read_weights(result, study.names, study.masks)


def read_weights(result: Arrays, names: tuple[str, ...], masks: Masks) -> Fitted:
    """A result that holds weights; it has converged where these have settled and have no cycles."""
    weights, raw = result["weights"], result["raw_weights"]
    gone = (raw != 0) & (weights == 0) & ~masks.required
    turned = (weights.T != 0) & (np.abs(raw) > np.abs(raw.T))
    history = history_table(result["history"])
    lambda_ = float(result["lambda_"])
    settled = bool(result["settled"].all())
    return Fitted(
        Graph((weights != 0) | masks.required, names, weights),
        raw,
        history,
        [
            (Edge(names[i], names[j], float(raw[i, j])), "turned" if turned[i, j] else "weak")
            for i, j in np.argwhere(gone)
        ],
        bool(settled and float(result["h"]) <= _ACYCLIC),
        int(history.loc[history["lambda_"] == lambda_, "round"].max()),
        lambda_,
        float(result["criterion"]),
    )


def history_table(rows: Array) -> pd.DataFrame:
    """The rounds of a program, with the columns of `HISTORY`."""
    return pd.DataFrame(rows, columns=list(HISTORY)).astype({"round": int, "n_nonzero": int})
