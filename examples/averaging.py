"""A federated method in one file: one-shot averaging.

Every party learns from its own rows. The coordinator receives one sum, of the parties' weights times their
numbers of rows, and keeps edges whose mean weight is large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from polydag.federated.methods.interface import Fitted, MethodSettings, Study
from polydag.federated.methods.voting import with_knowledge
from polydag.federated.models.interface import Model
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.party_data.tables import statistics_of
from polydag.federated.protocol.checks import Task
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total
from polydag.graph import Edge, Graph
from polydag.orientation import weakest_cycle_edges
from polydag.privacy.settings import Privacy

QUESTION = "own weights"
THRESHOLD = 0.3  # where none is given


@dataclass(frozen=True, eq=False)
class AveragingParty(LinearParty):
    """A party's side: the statistics of its rows, and a learner. It answers one question."""

    learner: Any = None

    def tasks(self) -> dict[str, Task]:
        """The function that answers the question, and what must accompany the question."""
        return {QUESTION: Task(self._own_weights, meta=("columns",))}

    def _own_weights(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        learner = clone(self.learner)
        if "lambda_" in ask.arrays:
            learner.set_params(lambda_=float(ask.arrays["lambda_"]))
        weights = learner.fit(self.stats).graph_.weights
        return state, {"rows": np.array([self.n_rows]), "weights": self.n_rows * weights}


@dataclass(frozen=True, eq=False)
class AveragingProgram:
    """The coordinator's side: one question. It sees the sum of the answers, never a single one."""

    names: tuple[str, ...]
    lambda_: float | None

    @property
    def tolerates_absence(self) -> bool:
        """The mean is over the parties that answered."""
        return True

    def begin(self) -> tuple[State, Ask]:
        """Ask every party for its weights, and say what shape the answer has."""
        d = len(self.names)
        given = {} if self.lambda_ is None else {"lambda_": np.array(self.lambda_)}
        returned = {"rows": (1,), "weights": (d, d)}
        return {}, Ask(QUESTION, given, {"columns": list(self.names)}, returns=returned)

    def advance(self, state: State, total: Total) -> tuple[State, Answer]:
        """Divide the sum of the weights by the number of rows."""
        return state, Answer({"mean_weights": total.arrays["weights"] / total.arrays["rows"]})


class AveragingMethod:
    """What is registered: it builds both sides and reads the result."""

    name: str = "averaging"
    models: tuple[str, ...] = ("linear",)
    protections: tuple[str, ...] = ("none", "masked")
    uses_learner: bool = True

    def paper_lambda(self, model: Model) -> float:
        """The penalty for `schedule="paper"`."""
        return model.single_party_lambda

    def party(self, table: Any, model: Model, settings: MethodSettings, privacy: Privacy) -> AveragingParty:
        """A party's side, built from its table alone."""
        learner = with_knowledge(clone(settings.learner), settings.knowledge)
        return AveragingParty(statistics_of(table), learner=learner)

    def program(self, study: Study) -> AveragingProgram:
        """The coordinator's side; it may depend only on what every party knows."""
        lambda_ = study.settings.lambda_
        chosen_by_parties = study.settings.own_penalty or lambda_ == "bic"
        return AveragingProgram(study.names, None if chosen_by_parties else float(lambda_))

    def read(self, study: Study, result: Arrays) -> Fitted:
        """Edges with a large mean weight; the weakest edge of each cycle is removed."""
        names, masks, mean = study.names, study.masks, result["mean_weights"]
        threshold = THRESHOLD if study.settings.threshold == "ebic" else study.settings.threshold
        found = (np.abs(mean) >= threshold) & ~masks.forbidden | masks.required
        pruned = []
        for i, j in weakest_cycle_edges(found, np.abs(mean), masks.required):
            found[i, j] = False
            pruned.append((Edge(names[i], names[j], float(mean[i, j])), "cycle"))
        history = pd.DataFrame({"round": [1], "n_nonzero": [int((mean != 0).sum())]})
        graph = Graph(found, names, np.where(found, mean, 0.0))
        return Fitted(graph, mean, history, pruned, converged=True, n_iter=1)


if __name__ == "__main__":
    from polydag import FederatedNotears, Parties, metrics, simulate
    from polydag.federated.methods.registry import METHODS

    METHODS["averaging"] = AveragingMethod()
    truth = simulate.dag(8, n_edges=10, random_state=0)
    hospitals = {f"hospital {k}": simulate.linear(truth, n=200, random_state=k) for k in range(4)}
    model = FederatedNotears(method="averaging").fit(Parties(hospitals))
    print("SHD:", metrics.shd(true=truth, estimate=model.graph_))
    summed = model.disclosure_[~model.disclosure_["name"].str.contains(":")]
    print("left each party:", sorted(set(summed["name"])), "- masked:", bool(summed["masked"].all()))
