"""Families of models for parties: how a site's side and the coordinator's side are made from settings.

A family is one small class and one line in `FAMILIES`. Methods (ADMM, federated averaging) take what it makes
without knowing which family it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from polydag.federated.groups import variable_groups
from polydag.federated.linear import LinearLocal
from polydag.federated.linear_model import LinearModel
from polydag.federated.model import Model
from polydag.federated.own_linear import OwnLinearLocal
from polydag.federated.programs import Local
from polydag.federated.schedules import Default, Paper, Schedule
from polydag.knowledge import Masks
from polydag.learners.inputs import knowledge_masks
from polydag.stats import GaussianStats, Regimes

if TYPE_CHECKING:
    from polydag.learners.federated import FederatedNotears

PAPER_THRESHOLD = 0.3


class Family(Protocol):
    """What `FederatedNotears` needs of a family of models."""

    methods: tuple[str, ...]
    paper_lambda: float

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


class Linear:
    """Every variable is a weighted sum of its parents, plus noise."""

    methods: tuple[str, ...] = ("admm", "moments", "voting", "fedavg", "varying")
    paper_lambda: float = 0.01

    def local(self, settings: FederatedNotears, table: Any, learner: Any) -> Local:
        """Only the statistics of the table are kept."""
        if not isinstance(table, (GaussianStats, Regimes)):
            table = GaussianStats.from_data(getattr(table, "frame", table))
        return OwnLinearLocal(table) if settings.method == "varying" else LinearLocal(table, learner)

    def masks(self, settings: FederatedNotears, names: tuple[str, ...]) -> Masks:
        """The user's knowledge."""
        return knowledge_masks(settings.knowledge, names)

    def model(
        self,
        settings: FederatedNotears,
        locals_: Mapping[str, Local],
        masks: Masks,
        lambda_: float | Literal["bic"],
    ) -> Model:
        """Weights with an ℓ1 penalty."""
        names = next(iter(locals_.values())).names
        group = variable_groups(names, known_regimes(locals_.values()))
        paper = settings.schedule == "paper"
        threshold = PAPER_THRESHOLD if paper and settings.threshold == "ebic" else settings.threshold
        acyclicity = "expm" if paper else settings.acyclicity
        scaled = not (paper and settings.method == "admm")
        return LinearModel(names, masks, group, lambda_, threshold, acyclicity, scaled)

    def schedule(self, settings: FederatedNotears) -> Schedule:
        """The paper's constants, or ours."""
        return Paper() if settings.schedule == "paper" else Default()


def known_regimes(locals_: Iterable[Local]) -> tuple[frozenset[str], ...]:
    """Which variables were set in some rows somewhere: known to all."""
    found: set[frozenset[str]] = set()
    for local in locals_:
        found |= set(local.data.parts) if isinstance(local.data, Regimes) else {frozenset()}
    return tuple(sorted(found, key=sorted))


FAMILIES: dict[str, Family] = {"linear": Linear()}
