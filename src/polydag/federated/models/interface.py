"""What a model provides.

`Model` is the object in the registry: it builds both sides of a study from `ModelSettings`.
`CoordinatorModel` is the coordinator's side in methods that exchange parameters. Such a method never asks
what the parameters mean. They are arrays whose first axis (`lanes`) holds the penalties of a path side by
side, so that a path costs no more rounds than a single penalty. Between rounds the state of a program holds
`theta` (lanes × …), `lambdas`, `h`, and what the model itself has put there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from polydag.arrays import Array, Index
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, Local, State, Total
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks
from polydag.losses.settings import Network, Series

HISTORY = ("round", "lambda_", "cycle_cost", "rho", "primal", "dual", "h", "n_nonzero")
Penalty = float | Literal["bic"]


@dataclass(frozen=True)
class ModelSettings:
    """What a model needs to know besides the data.

    Attributes
    ----------
    paper : bool
        Whether to use the constants of the paper where nothing else is given.
    acyclicity : str
        The function that measures cycles.
    threshold : float or "ebic"
        The weight below which there is no edge, or a choice by the extended BIC.
    network, series
        For neural networks and for time series.
    knowledge : Knowledge, optional
        Required and forbidden edges.
    random_state : int, optional
        For starting values.
    site_effects : {"none", "means", "means and scales", "random"}
        What each party takes out of its rows first.
    """

    paper: bool = False
    acyclicity: str = "logdet"
    threshold: float | Literal["ebic"] = "ebic"
    network: Network = field(default_factory=Network)
    series: Series = field(default_factory=Series)
    knowledge: Knowledge | None = None
    random_state: int | None = None
    site_effects: str = "none"

    @property
    def seed(self) -> int:
        """The random state as a number."""
        return 0 if self.random_state is None else self.random_state


class ModelParty(Local, Protocol):
    """A party's side of a model."""

    def deviations(self) -> Array:
        """The standard deviations of columns about the party's own means; zero where they are constant."""
        ...


class Model(Protocol):
    """The form of a variable given its parents."""

    @property
    def name(self) -> str:
        """The name by which a user chooses it."""
        ...

    @property
    def paper_lambda(self) -> float:
        """The penalty of the paper's Algorithm 1."""
        ...

    @property
    def single_party_lambda(self) -> float:
        """The penalty of a party alone, for which the paper runs NOTEARS as published."""
        ...

    @property
    def has_mean(self) -> bool:
        """Whether a mean of several parties' weights is again a model of this form."""
        ...

    @property
    def supports_noise(self) -> bool:
        """Whether its parameters can be learned under differential privacy."""
        ...

    def party(self, table: Any, settings: ModelSettings) -> ModelParty:
        """A party's side, built from its table alone."""
        ...

    def knowledge(self, settings: ModelSettings, names: tuple[str, ...]) -> Knowledge | None:
        """What is known, in the names of the model's own variables."""
        ...

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
        """The coordinator's side; `as_published` is the paper's Algorithm 1, in the units of the data."""
        ...

    def schedule_constants(self, *, paper: bool) -> Mapping[str, float]:
        """Constants of ADMM's penalties in which the model differs from the usual ones."""
        ...

    def learner_parameters(self, settings: ModelSettings) -> Mapping[str, Any]:
        """The parameters of the learner that fits this model to one table."""
        ...

    def attributes(self, graph: Graph, settings: ModelSettings) -> Mapping[str, Any]:
        """Attributes of a fitted estimator that only this model has."""
        ...


class Step(NamedTuple):
    """The result of the coordinator's own step: parameters for one penalty, their h, and nonzero entries."""

    theta: Array
    h: float
    n_nonzero: int


class Sizes(NamedTuple):
    """What a schedule knows about the parties.

    `typical` is the size of the curvature of a party's loss; `coverage` is the share of the directions that a
    party's rows span, on average. Where it is small, parties know little by themselves and need longer to
    agree.
    """

    typical: float
    coverage: float


class CoordinatorModel(Protocol):
    """The coordinator's side of a model in methods that exchange parameters."""

    def begin(self) -> tuple[State, Ask]:
        """The first question, before any parameters are exchanged."""
        ...

    def prepare(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """The next such question; None when the state holds `theta`, `lambdas`, `h` and `unit`."""
        ...

    def constants(self, state: State) -> Arrays:
        """What a party has to know besides parameters."""
        ...

    @property
    def share_shape(self) -> tuple[int, ...]:
        """The shape of a party's share of the rows: one number, or one per variable."""
        ...

    def sizes(self, state: State) -> Sizes:
        """What a schedule knows about the parties."""
        ...

    def powers(self, state: State) -> list[int]:
        """The size of parameters as powers of two: one for all, or one per position of the last axis."""
        ...

    def server_step(
        self, state: State, lane: int, mean: Array, pull: float, cost: tuple[float, float], **limits: Any
    ) -> Step:
        """`min penalty(θ) + a h(θ) + b/2 h(θ)² + pull/2 ‖θ − mean‖²`, where `(a, b)` is the cost of cycles.

        `limits` are `tolerance` (the relative improvement that a step must bring) and `max_iter`.
        """
        ...

    def finish(self, state: State, total: Total | None, constants: Arrays) -> tuple[State, Ask | Answer]:
        """After the last round, first without a total, and then until the answer is reached.

        The answer holds weights, raw_weights, lambda_, criterion, h, settled, history and pooled_scale;
        `constants` accompany questions to parties that keep no state.
        """
        ...
