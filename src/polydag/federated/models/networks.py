"""Neural networks: every variable is a small network of its parents, plus noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polydag.arrays import Index
from polydag.errors import UsageError
from polydag.federated.models.interface import CoordinatorModel, ModelParty, ModelSettings, Penalty
from polydag.federated.models.network_coordinator import NetworkCoordinator
from polydag.federated.models.network_party import Kind, NetworkParty
from polydag.federated.party_data.tables import rows_of
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks
from polydag.losses.settings import LAMBDA2
from polydag.optimize.network_choice import PROBABILITY, SLOPE
from polydag.stats import Regimes

PAPER_LAMBDA, PAPER_LAMBDA2, PAPER_THRESHOLD = 0.001, 0.01, 0.3


class Networks:
    """Plain networks ("mlp"), or networks behind a mask of learned probabilities ("masked")."""

    paper_lambda: float = PAPER_LAMBDA
    single_party_lambda: float = 0.01
    has_mean: bool = False
    supports_noise: bool = False

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    @property
    def name(self) -> str:
        """The kind."""
        return self.kind

    def party(self, table: Any, settings: ModelSettings) -> ModelParty:
        """Keep the rows."""
        if isinstance(table, Regimes):
            raise UsageError(f"Known interventions require model='linear'; this is model={self.kind!r}.")
        rows = rows_of(table, f"model={self.kind!r} needs the")
        return NetworkParty(rows, self.kind, settings.network.hidden)

    def knowledge(self, settings: ModelSettings, names: tuple[str, ...]) -> Knowledge | None:
        """As it was given."""
        return settings.knowledge

    def coordinator(
        self,
        names: tuple[str, ...],
        masks: Masks,
        group: Index,
        settings: ModelSettings,
        lambda_: Penalty,
        *,
        as_published: bool,
    ) -> CoordinatorModel:
        """Networks with a sparsity and an ℓ2 penalty."""
        default = PROBABILITY if self.kind == "masked" else PAPER_THRESHOLD if as_published else SLOPE
        return NetworkCoordinator(
            names,
            masks,
            self.kind,
            settings.network.hidden,
            lambda_,
            _lambda2(settings),
            default if settings.threshold == "ebic" else settings.threshold,
            "expm" if as_published else settings.acyclicity,
            standard=not as_published,
            seed=settings.seed,
            site_effects=settings.site_effects,
        )

    def schedule_constants(self, *, paper: bool) -> Mapping[str, float]:
        """The paper's; or a longer path than for weights, with faster changes of ρ2 at its end."""
        if paper:
            return {"rho1": 0.1, "rho2": 0.1}
        return {"pace": 90, "imbalance": 2.0, "nudge": 1.2, "max_inner": 10}

    def learner_parameters(self, settings: ModelSettings) -> Mapping[str, Any]:
        """The parameters of `NotearsMLP`."""
        default = PAPER_THRESHOLD if settings.paper and self.kind == "mlp" else None
        return {
            "lambda2": _lambda2(settings),
            "hidden": settings.network.hidden,
            "mask": None if self.kind == "mlp" else "gumbel",
            "acyclicity": settings.acyclicity,
            "threshold": default if settings.threshold == "ebic" else settings.threshold,
            "random_state": settings.random_state,
        }

    def attributes(self, graph: Graph, settings: ModelSettings) -> Mapping[str, Any]:
        """None."""
        return {}


def _lambda2(settings: ModelSettings) -> float:
    """The ℓ2 penalty: that of the paper where it is followed and nothing else is given."""
    default = settings.network.lambda2 == LAMBDA2
    return PAPER_LAMBDA2 if settings.paper and default else settings.network.lambda2
