"""Learners of one table by their names on the command line: adding one is a file and a line here."""

from __future__ import annotations

from polydag.learners.auto import AutoDAG
from polydag.learners.base import StructureLearner
from polydag.learners.equal_variance import EqualVariance
from polydag.learners.notears.lagged import NotearsLagged
from polydag.learners.notears.linear import Notears
from polydag.learners.notears.nonlinear import NotearsMLP
from polydag.learners.search.boss import BOSS
from polydag.learners.search.ges import GES
from polydag.learners.search.pc import PC

# Of these there are no sufficient statistics of a table: they need its rows.
ROW_LEARNERS: dict[str, type[StructureLearner]] = {"notears-lagged": NotearsLagged, "notears-mlp": NotearsMLP}
LEARNERS: dict[str, type[StructureLearner]] = {
    "auto": AutoDAG,
    "boss": BOSS,
    "equal-variance": EqualVariance,
    "ges": GES,
    "notears": Notears,
    "pc": PC,
}
