"""Estimators in scikit-learn's manner: they put the pieces together and hold no maths.

`registry` names those that take one table.
"""

from __future__ import annotations

from polydag.learners.auto import AutoDAG
from polydag.learners.base import StructureLearner
from polydag.learners.bootstrap import Bootstrap
from polydag.learners.equal_variance import EqualVariance
from polydag.learners.linked_rows.decorrelator import RowDecorrelator
from polydag.learners.linked_rows.linked_rows_dag import LinkedRowsDAG
from polydag.learners.notears.federated import FederatedNotears
from polydag.learners.notears.lagged import NotearsLagged
from polydag.learners.notears.linear import Notears
from polydag.learners.notears.nonlinear import NotearsMLP
from polydag.learners.posterior.bayesian_discovery import BayesianDiscovery
from polydag.learners.posterior.multitask import MultitaskDiscovery
from polydag.learners.registry import LEARNERS, ROW_LEARNERS
from polydag.learners.search.boss import BOSS
from polydag.learners.search.ges import GES
from polydag.learners.search.pc import PC

__all__ = [
    "BOSS",
    "GES",
    "LEARNERS",
    "PC",
    "ROW_LEARNERS",
    "AutoDAG",
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
