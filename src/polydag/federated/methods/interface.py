"""What a federated method provides: the parties' sides, a program, and a reading of its result.

To add a method, write a file with a class like `Method` and add a line to `registry`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pandas as pd

from polydag.arrays import Array, Index
from polydag.federated.models.interface import Model, ModelSettings, Penalty
from polydag.federated.party_data.regimes import known_regimes, variable_groups
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Local, Program, majority_columns
from polydag.graph import Edge, Graph
from polydag.knowledge import Knowledge, Masks
from polydag.privacy.settings import Privacy


@dataclass(frozen=True)
class MethodSettings(ModelSettings):
    """What a method and its model need to know besides the data.

    Attributes
    ----------
    lambda_ : float or "bic"
        One penalty, or a choice within the study.
    participation : float
        The share of the parties that is asked in a round.
    learner : estimator, optional
        What learns from a single party, for voting.
    own_penalty : bool
        Whether that learner chooses its own penalty.
    """

    lambda_: Penalty = "bic"
    participation: float = 1.0
    learner: Any = None
    own_penalty: bool = False

    def with_learner(self, learner: Any) -> MethodSettings:
        """The same settings with a learner for single parties."""
        return dataclasses.replace(self, learner=learner)


@dataclass(frozen=True, eq=False)
class Study:
    """The parties' sides, and all else that a method needs to build its program and read the result.

    A program may depend only on what every party knows: columns, regimes, settings.
    """

    parties: Mapping[str, Local]
    model: Model
    settings: MethodSettings
    privacy: Privacy

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the study."""
        return majority_columns(party.names for party in self.parties.values())

    @cached_property
    def masks(self) -> Masks:
        """Required and forbidden edges."""
        known = self.model.knowledge(self.settings, self.names)
        return (known or Knowledge()).masks(self.names)

    @cached_property
    def group(self) -> Index:
        """Which variables are scored by the same rows."""
        return variable_groups(self.names, known_regimes(self.parties.values()))


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of a method, as an estimator keeps it; `attributes` are those of one method only."""

    graph: Graph
    raw_weights: Array
    history: pd.DataFrame
    pruned: list[tuple[Edge, str]]
    converged: bool
    n_iter: int
    lambda_: float = np.nan
    criterion: float = np.nan
    attributes: Mapping[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """A federated method."""

    @property
    def name(self) -> str:
        """The name by which a user chooses it."""
        ...

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models that it can fit."""
        ...

    @property
    def protections(self) -> tuple[str, ...]:
        """What it supports of "none", "masked" and "noise" (differential privacy)."""
        ...

    @property
    def uses_learner(self) -> bool:
        """Whether it applies a learner of one table at every party."""
        ...

    def paper_lambda(self, model: Model) -> float:
        """The penalty of the paper."""
        ...

    def party(self, table: Any, model: Model, settings: MethodSettings, privacy: Privacy) -> Local:
        """A party's side, built from its table alone."""
        ...

    def program(self, study: Study) -> Program:
        """The coordinator's side."""
        ...

    def read(self, study: Study, result: Arrays) -> Fitted:
        """The result of the program as a fitted model."""
        ...
