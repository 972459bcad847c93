"""Summed moments per cell of labels, for the conditional Gaussian model: a round for a set of label columns.

A cell is a combination of levels. A party answers with the number of its rows in each of the cells that are
asked for, and with sums and products of their numbers in common units.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.federated.models.linear_party import require_columns
from polydag.federated.protocol.checks import not_numbers, out_of_range
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total
from polydag.federated.session import Outcome, run_study
from polydag.privacy.settings import Privacy
from polydag.stats import GaussianStats
from polydag.stats.cells import CellRows

CELLS = "cells"
CELL_ARRAYS = ("rows", "sums", "squares")


@dataclass(frozen=True, eq=False)
class CellQuestion:
    """The cells of which moments are asked for.

    Attributes
    ----------
    labels, numbers : tuple of int
        Columns by position.
    cells : int array of shape (c,)
        Combinations of levels, the last label varying fastest.
    """

    labels: tuple[int, ...]
    numbers: tuple[int, ...]
    cells: Index


@dataclass(frozen=True, eq=False)
class CellsProgram:
    """The coordinator's side: one question, whose answer has rows, sums and squares of each cell."""

    names: tuple[str, ...]
    question: CellQuestion

    @property
    def tolerates_absence(self) -> bool:
        """All parties must answer."""
        return False

    def begin(self) -> tuple[State, Ask]:
        """Ask for all cells at once."""
        own = self.question
        meta = {"columns": list(self.names), "labels": list(own.labels), "numbers": list(own.numbers)}
        c, k = len(own.cells), len(own.numbers)
        returns = {"rows": (c,), "sums": (c, k), "squares": (c, k, k)}
        return {}, Ask(CELLS, {"cells": own.cells.astype(float)}, meta, returns=returns)

    def advance(self, state: State, total: Total) -> tuple[State, Answer]:
        """The sums."""
        return state, Answer({name: total.arrays[name] for name in CELL_ARRAYS})


@dataclass(frozen=True, eq=False)
class CellsParty:
    """A party's side: positions of its labels in their levels, and numbers in common units.

    `data` are the moments of its numbers and indicators, by which later changes of its data are noticed.
    """

    names: tuple[str, ...]
    rows: CellRows
    data: GaussianStats

    @property
    def n_rows(self) -> float:
        """The number of rows."""
        return float(self.rows.codes.shape[1])

    def fingerprint(self) -> bytes:
        """A hash of the rows."""
        head = repr((self.names, self.rows.arities.tolist())).encode()
        return hashlib.sha256(head + self.rows.codes.tobytes() + self.rows.numbers.tobytes()).digest()

    def notes(self, state: State, arrays: Arrays) -> list[str]:
        """None."""
        return []

    def objection(self, state: State, ask: Ask) -> str | None:
        """What is wrong with a question; raises where it is about other columns."""
        if ask.task != CELLS:
            raise DataError(f"It does not know the question {ask.task!r}.")
        if lacking := [name for name in ("columns", "labels", "numbers") if name not in ask.meta]:
            return f"the question lacks {lacking[0]}"
        require_columns(ask, self.names)
        if "cells" not in ask.arrays:
            return "the question lacks cells"
        if why := not_numbers(ask.arrays) or out_of_range(ask):
            return why
        labels, numbers = ask.meta["labels"], ask.meta["numbers"]
        places = range(len(self.names))
        if any(column not in places or not self.rows.arities[column] for column in labels):
            return "a label column does not exist"
        if any(column not in places or self.rows.arities[column] for column in numbers):
            return "a column of numbers does not exist"
        size = math.prod(int(self.rows.arities[column]) for column in labels)
        cells = ask.arrays["cells"]
        if cells.ndim != 1 or (cells < 0).any() or (cells >= size).any():
            return "a cell does not exist"
        return None

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """Rows, sums and products of each cell."""
        labels, numbers = list(ask.meta["labels"]), list(ask.meta["numbers"])
        wanted = ask.arrays["cells"].astype(np.int64)
        own = self.rows.codes[labels]
        shape = tuple(int(self.rows.arities[column]) for column in labels)
        flat = np.ravel_multi_index(tuple(own), shape) if labels else np.zeros(own.shape[1], dtype=np.int64)
        X = self.rows.numbers[numbers].T
        c, k = len(wanted), len(numbers)
        rows, sums, squares = np.zeros(c), np.zeros((c, k)), np.zeros((c, k, k))
        for place, cell in enumerate(wanted):
            chosen = X[flat == cell]
            rows[place], sums[place], squares[place] = len(chosen), chosen.sum(axis=0), chosen.T @ chosen
        return state, {"rows": rows, "sums": sums, "squares": squares}


def summed_cells(
    parties: Mapping[str, CellsParty],
    names: tuple[str, ...],
    question: CellQuestion,
    privacy: Privacy,
    *,
    min_rows: int = 1,
) -> tuple[Array, Array, Outcome]:
    """The number of rows of each cell over all parties, and their scatter about the cell's mean."""
    outcome = run_study(CellsProgram(names, question), dict(parties), privacy, min_rows=min_rows)
    rows, sums, squares = (outcome.result[name] for name in CELL_ARRAYS)
    safe = np.maximum(rows, 1.0)[:, None, None]
    return rows, squares - sums[:, :, None] * sums[:, None, :] / safe, outcome
