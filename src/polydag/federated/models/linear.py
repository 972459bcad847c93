"""The linear model: every variable is a weighted sum of its parents, plus noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from polydag.arrays import Index
from polydag.federated.models.interface import CoordinatorModel, ModelParty, ModelSettings, Penalty
from polydag.federated.models.linear_coordinator import LinearCoordinator
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.party_data.tables import statistics_of
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks

PAPER_LAMBDA = 0.01
PAPER_THRESHOLD = 0.3
SINGLE_PARTY_LAMBDA = 0.1  # the penalty of NOTEARS as published, which the paper runs at single parties


class Linear:
    """Weights with an ℓ1 penalty; a party needs only its sufficient statistics."""

    name: str = "linear"
    paper_lambda: float = PAPER_LAMBDA
    single_party_lambda: float = SINGLE_PARTY_LAMBDA
    has_mean: bool = True
    supports_noise: bool = True

    def party(self, table: Any, settings: ModelSettings) -> ModelParty:
        """Keep the statistics of the table."""
        return LinearParty(statistics_of(table))

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
        """Weights in units of the pooled standard deviations, or in those of the data."""
        acyclicity = "expm" if settings.paper else settings.acyclicity
        threshold = self._threshold(settings)
        return LinearCoordinator(
            names, masks, group, lambda_, threshold, acyclicity, not as_published, settings.site_effects
        )

    def _threshold(self, settings: ModelSettings) -> float | Literal["ebic"]:
        """That of the paper where nothing else is given."""
        return PAPER_THRESHOLD if settings.paper and settings.threshold == "ebic" else settings.threshold

    def schedule_constants(self, *, paper: bool) -> Mapping[str, float]:
        """The usual ones."""
        return {}

    def learner_parameters(self, settings: ModelSettings) -> Mapping[str, Any]:
        """The parameters of `Notears`; parties are lenient where sums decide on what they voted for."""
        threshold = self._threshold(settings)
        lenient = "bic" if threshold == "ebic" else threshold
        return {"acyclicity": settings.acyclicity, "threshold": lenient}

    def attributes(self, graph: Graph, settings: ModelSettings) -> Mapping[str, Any]:
        """None."""
        return {}
