"""Estimators in scikit-learn's manner: they put the pieces together and hold no maths.

`LEARNERS` names those that take one table (or its statistics); adding one is a file and a line here.
"""

from __future__ import annotations

from polydag.learners.base import StructureLearner
from polydag.learners.bayesian_discovery import BayesianDiscovery
from polydag.learners.bootstrap import Bootstrap
from polydag.learners.boss import BOSS
from polydag.learners.decorrelation import RowDecorrelator
from polydag.learners.equal_variance import EqualVariance
from polydag.learners.federated import FederatedNotears
from polydag.learners.ges import GES
from polydag.learners.lagged import NotearsLagged
from polydag.learners.linked import LinkedRowsDAG
from polydag.learners.multitask import MultitaskDiscovery
from polydag.learners.nonlinear import NotearsMLP
from polydag.learners.notears import Notears
from polydag.learners.pc import PC

# Of these there are no sufficient statistics of a table: they need its rows.
ROW_LEARNERS: dict[str, type[StructureLearner]] = {"notears-lagged": NotearsLagged, "notears-mlp": NotearsMLP}
LEARNERS: dict[str, type[StructureLearner]] = {
    "boss": BOSS,
    "equal-variance": EqualVariance,
    "ges": GES,
    "notears": Notears,
    "pc": PC,
}

__all__ = [
    "BOSS",
    "GES",
    "LEARNERS",
    "PC",
    "ROW_LEARNERS",
    "BayesianDiscovery",
    "Bootstrap",
    "EqualVariance",
    "FederatedNotears",
    "LinkedRowsDAG",
    "MultitaskDiscovery",
    "Notears",
    "NotearsLagged",
    "NotearsMLP",
    "RowDecorrelator",
    "StructureLearner",
]
