"""Neural networks as a family of models for parties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from polydag.errors import UsageError
from polydag.federated.methods.schedules import Default, Paper, Schedule
from polydag.federated.models.interface import Model
from polydag.federated.models.network_coordinator import NetworkModel
from polydag.federated.models.network_site import Kind, NetworkLocal
from polydag.federated.protocol.programs import Local, columns_of_most
from polydag.graph import Graph, node_names
from polydag.knowledge import Knowledge, Masks
from polydag.learners.inputs import is_statistics, knowledge_masks
from polydag.learners.nonlinear import NotearsMLP
from polydag.optimize.network_choice import PROBABILITY, SLOPE
from polydag.stats import Regimes
from polydag.stats.rows import numeric_rows, require_finite

if TYPE_CHECKING:
    from polydag.learners.federated import FederatedNotears

LAMBDA2, PAPER_LAMBDA2 = 0.003, 0.01
_PAPER_THRESHOLD = 0.3


class Networks:
    """Every variable is a small neural network of its parents, plus noise."""

    methods: tuple[str, ...] = ("admm", "voting", "fedavg")
    paper_lambda: float = 0.001
    alone_lambda: float = 0.01

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def alone(self, settings: FederatedNotears) -> Any:
        """Nonlinear NOTEARS."""
        usual = _PAPER_THRESHOLD if settings.schedule == "paper" and self.kind == "mlp" else None
        threshold = usual if settings.threshold == "ebic" else settings.threshold
        return NotearsMLP(
            lambda2=_lambda2(settings),
            hidden=settings.hidden,
            mask=None if self.kind == "mlp" else "gumbel",
            acyclicity=settings.acyclicity,
            threshold=threshold,
            random_state=settings.random_state,
        )

    def knowledge(self, settings: FederatedNotears, names: tuple[str, ...]) -> Knowledge | None:
        """As it was given."""
        return settings.knowledge

    def masks(self, settings: FederatedNotears, names: tuple[str, ...]) -> Masks:
        """The user's knowledge."""
        return knowledge_masks(settings.knowledge, names)

    def local(self, settings: FederatedNotears, table: Any, learner: Any) -> Local:
        """The site keeps its rows."""
        import pandas as pd

        if isinstance(table, Regimes):
            raise UsageError(f"Known interventions are for model='linear' only; this is model={self.kind!r}.")
        if is_statistics(table):
            raise UsageError(
                f"model={self.kind!r} needs every party's rows, not statistics. Give tables, or use "
                "model='linear'."
            )
        hidden, lambda2 = settings.hidden, settings.lambda2
        if isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < 1:
            raise UsageError(f"hidden must be a whole number of at least 1; got {hidden!r}.")
        if isinstance(lambda2, bool) or not isinstance(lambda2, (int, float)) or not 0 <= lambda2 < np.inf:
            raise UsageError(f"lambda2 must be a number that is not negative; got {lambda2!r}.")
        rows, found = numeric_rows(getattr(table, "frame", table))
        names = list(node_names(found, rows.shape[1]))
        require_finite(rows, names)
        if learner is not None and settings.knowledge is not None:
            learner.set_params(knowledge=settings.knowledge)
        return NetworkLocal(pd.DataFrame(rows, columns=names), self.kind, hidden, learner)

    def model(
        self,
        settings: FederatedNotears,
        locals_: Mapping[str, Local],
        masks: Masks,
        lambda_: float | Literal["bic"],
    ) -> Model:
        """Networks with a sparsity and an ℓ2 penalty."""
        names = columns_of_most(local.names for local in locals_.values())
        paper = settings.schedule == "paper" and settings.method == "admm"
        usual = PROBABILITY if self.kind == "masked" else _PAPER_THRESHOLD if paper else SLOPE
        return NetworkModel(
            names,
            masks,
            self.kind,
            settings.hidden,
            lambda_,
            _lambda2(settings),
            usual if settings.threshold == "ebic" else settings.threshold,
            "expm" if paper else settings.acyclicity,
            standard=not paper,
            seed=0 if settings.random_state is None else settings.random_state,
        )

    def besides(self, settings: FederatedNotears, graph: Graph) -> Mapping[str, Any]:
        """None."""
        return {}

    def schedule(self, settings: FederatedNotears) -> Schedule:
        """The paper's constants; or a longer path than for weights, and a quicker hand on ρ2 at its end."""
        if settings.schedule == "paper":
            return Paper(rho1=0.1, rho2=0.1)
        return Default(pace=90, imbalance=2.0, nudge=1.2, max_inner=10)


def _lambda2(settings: FederatedNotears) -> float:
    """The paper's ℓ2 penalty where it is followed and nothing else was asked for."""
    usual = settings.schedule == "paper" and settings.lambda2 == LAMBDA2
    return PAPER_LAMBDA2 if usual else settings.lambda2
