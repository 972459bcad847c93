"""Families of models for parties: how a site's side and the coordinator's side are made from settings.

A family is one small class and one line in `FAMILIES`. Methods (ADMM, federated averaging) take what it makes
without knowing which family it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from polydag.errors import UsageError
from polydag.federated.methods.schedules import Default, Paper, Schedule
from polydag.federated.models.interface import Model
from polydag.federated.models.lagged_site import LaggedLocal
from polydag.federated.models.linear_coordinator import LinearModel
from polydag.federated.models.linear_site import LinearLocal
from polydag.federated.models.regime_groups import variable_groups
from polydag.federated.models.varying_site import OwnLinearLocal
from polydag.federated.protection import known_regimes
from polydag.federated.protocol.programs import Local, columns_of_most
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks
from polydag.learners.inputs import knowledge_masks
from polydag.learners.notears import Notears
from polydag.learners.party_networks import Networks
from polydag.losses.lagged import (
    check_lags,
    lagged_statistics,
    nothing_changes_the_past,
    split_lags,
    variables_of,
)
from polydag.stats import GaussianStats, Regimes

if TYPE_CHECKING:
    from polydag.learners.federated import FederatedNotears

PAPER_THRESHOLD = 0.3
ALONE_LAMBDA = 0.1  # for a party alone the paper runs NOTEARS as published, whose penalty this is


class Family(Protocol):
    """What `FederatedNotears` needs of a family of models."""

    methods: tuple[str, ...]
    paper_lambda: float
    alone_lambda: float  # for a party alone, where the paper runs NOTEARS as it was published

    def alone(self, settings: FederatedNotears) -> Any:
        """What learns from one party, or from all in one place, but for the penalty and what is known."""
        ...

    def knowledge(self, settings: FederatedNotears, names: tuple[str, ...]) -> Knowledge | None:
        """What is known, in the model's own names."""
        ...

    def local(self, settings: FederatedNotears, table: Any, learner: Any) -> Local:
        """A site's side, made from its table alone; `learner` learns from this site alone, for voting."""
        ...

    def masks(self, settings: FederatedNotears, names: tuple[str, ...]) -> Masks:
        """What is known of the edges between the columns."""
        ...

    def model(
        self,
        settings: FederatedNotears,
        locals_: Mapping[str, Local],
        masks: Masks,
        lambda_: float | Literal["bic"],
    ) -> Model:
        """The coordinator's side; of the sites only what is public (columns, regimes) may be used."""
        ...

    def schedule(self, settings: FederatedNotears) -> Schedule:
        """ADMM's penalties."""
        ...

    def besides(self, settings: FederatedNotears, graph: Graph) -> Mapping[str, Any]:
        """Attributes of this family only."""
        ...


class Linear:
    """Every variable is a weighted sum of its parents, plus noise."""

    methods: tuple[str, ...] = ("admm", "moments", "voting", "fedavg", "varying")
    paper_lambda: float = 0.01
    alone_lambda: float = ALONE_LAMBDA

    def alone(self, settings: FederatedNotears) -> Any:
        """Linear NOTEARS."""
        return Notears(acyclicity=settings.acyclicity, threshold=self._threshold(settings))

    def _threshold(self, settings: FederatedNotears) -> float | Literal["ebic"]:
        """The paper's where nothing else is asked for."""
        usual = settings.schedule == "paper" and settings.threshold == "ebic"
        return PAPER_THRESHOLD if usual else settings.threshold

    def knowledge(self, settings: FederatedNotears, names: tuple[str, ...]) -> Knowledge | None:
        """As it was given."""
        return settings.knowledge

    def local(self, settings: FederatedNotears, table: Any, learner: Any) -> Local:
        """Only the statistics of the table are kept."""
        if not isinstance(table, (GaussianStats, Regimes)):
            table = GaussianStats.from_data(getattr(table, "frame", table))
        if settings.method == "varying":
            return OwnLinearLocal(table)
        if learner is not None:
            informed(learner, self.knowledge(settings, table.names))
        return LinearLocal(table, learner)

    def masks(self, settings: FederatedNotears, names: tuple[str, ...]) -> Masks:
        """The user's knowledge."""
        return knowledge_masks(self.knowledge(settings, names), names)

    def model(
        self,
        settings: FederatedNotears,
        locals_: Mapping[str, Local],
        masks: Masks,
        lambda_: float | Literal["bic"],
    ) -> Model:
        """Weights with an ℓ1 penalty."""
        names = columns_of_most(local.names for local in locals_.values())
        group = variable_groups(names, known_regimes(locals_.values()))
        paper = settings.schedule == "paper"
        acyclicity = "expm" if paper else settings.acyclicity
        scaled = not (paper and settings.method == "admm")
        return LinearModel(names, masks, group, lambda_, self._threshold(settings), acyclicity, scaled)

    def schedule(self, settings: FederatedNotears) -> Schedule:
        """The paper's constants, or ours."""
        return Paper() if settings.schedule == "paper" else Default()

    def besides(self, settings: FederatedNotears, graph: Graph) -> Mapping[str, Any]:
        """None."""
        return {}


class Lagged(Linear):
    """Time series: every variable is a weighted sum of others now and before, plus noise."""

    methods: tuple[str, ...] = ("admm", "moments", "voting", "fedavg")

    def knowledge(self, settings: FederatedNotears, names: tuple[str, ...]) -> Knowledge | None:
        """The past is nobody's target."""
        knowledge_masks(settings.knowledge, names)  # of the right type, about slices that there are
        lags = check_lags(settings.lags)
        return nothing_changes_the_past(variables_of(names, lags), lags, settings.knowledge)

    def local(self, settings: FederatedNotears, table: Any, learner: Any) -> Local:
        """Only the statistics of the stacked rows are kept."""
        lags = check_lags(settings.lags)
        if isinstance(table, Regimes):
            raise UsageError("Time series under intervention are not supported: give tables of series.")
        if not isinstance(table, GaussianStats):
            frame = getattr(table, "frame", table)
            table = lagged_statistics(frame, lags, time=settings.time, realisation=settings.realisation)
        present = len(variables_of(table.names, lags))
        if learner is not None:
            informed(learner, self.knowledge(settings, table.names))
        return LaggedLocal(table, learner, present=present)

    def besides(self, settings: FederatedNotears, graph: Graph) -> Mapping[str, Any]:
        """The two sorts of effects by themselves."""
        within, lag_weights = split_lags(graph, settings.lags)
        return {"instantaneous_graph_": within, "lag_weights_": lag_weights}


def informed(learner: Any, knowledge: Knowledge | None) -> Any:
    """The learner, told what is known."""
    if knowledge is not None:
        if "knowledge" not in learner.get_params(deep=False):
            raise UsageError(f"{type(learner).__name__} does not take background knowledge.")
        learner.set_params(knowledge=knowledge)
    return learner


FAMILIES: dict[str, Family] = {
    "linear": Linear(),
    "lagged": Lagged(),
    "mlp": Networks("mlp"),
    "masked": Networks("masked"),
}
