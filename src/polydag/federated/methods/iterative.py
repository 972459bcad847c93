"""What the methods that exchange parameters have in common, on the coordinator's side.

The model's questions before the first round; the method's rounds; the model's questions after the last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from polydag.federated.models.interface import HISTORY, Model
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total

_BEFORE, _ROUNDS, _AFTER = (np.array(word) for word in ("before", "rounds", "after"))


@dataclass(frozen=True, eq=False)
class Iterative(ABC):
    """The coordinator's side but for the method's own rounds."""

    model: Model

    @property
    def tolerates_absence(self) -> bool:
        """Whether a round may end without some of the sites."""
        return False

    @property
    def label(self) -> str:
        """The method's name in progress reports."""
        return type(self).__name__.lower()

    def begin(self) -> tuple[State, Ask]:
        """The model's first question."""
        state, ask = self.model.begin()
        return {**state, "phase": _BEFORE}, ask

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The next question of the phase under way."""
        phase = str(state["phase"])
        if phase == str(_BEFORE):
            state, more = self.model.prepare(state, total)
            if more is not None:
                return state, more
            lanes = len(state["lambdas"])
            settled, history = np.zeros(lanes, dtype=np.int64), np.zeros((0, len(HISTORY)))
            return self.start({**state, "phase": _ROUNDS, "settled": settled, "history": history})
        if phase == str(_AFTER):
            return self.model.finish(state, total, self.everything(state))
        state, more = self.iterate(state, total)
        if more is not None:
            return state, more
        return self.model.finish({**state, "phase": _AFTER}, None, self.everything(state))

    @abstractmethod
    def start(self, state: State) -> tuple[State, Ask]:
        """The method's first question."""

    @abstractmethod
    def iterate(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """One round of the method; None where it has settled."""

    def everything(self, state: State) -> Arrays:
        """What a site that was not there before has to know; nothing where all sites were."""
        return {}
