"""The conditional Gaussian score of tables with numbers and labels (Andrews, Ramsey and Cooper 2018).

In every cell, a combination of levels of label columns, numbers are Gaussian with a mean and a covariance of
their own. With D the labels and C the k numbers of a set S of columns, and `n_d` the rows of a cell d,

    L(S) = Σ_d n_d [log(n_d/n) - ½ (log|Σ_d| + k log 2π + k)],

and a family scores `L(P + y) - L(P)` less BIC's price of the parameters that `y` adds. So the score is the
same for all DAGs of a class. For numbers alone it is the BIC of `polydag.scores.gaussian.bic`.

A cell with fewer than `2 (k + 2)` rows has no covariance of its own: its rows are taken to be worth what rows
of the whole table are. One row's worth of the whole is added to the covariance of every other cell, so that a
number that is constant there has a finite likelihood. A set of labels has one parameter for each possible
cell but one, and `k (k + 3)/2` for each cell with a covariance of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from polydag.arrays import Array
from polydag.parameters import setting
from polydag.scores.gaussian.score import require_rows_and_rank
from polydag.scores.penalty import PENALTY, Penalty, edge_price
from polydag.scores.spec import Kind, Needs, check_options
from polydag.stats.cells import LEAST_ROWS, CellStats, Columns, possible_cells, standard_units


class Fit(NamedTuple):
    """The log-likelihood of a set of columns, and its parameters."""

    log_likelihood: float
    parameters: float


class ConditionalGaussianModel:
    """Likelihoods of sets of columns, each computed once."""

    def __init__(self, stats: CellStats) -> None:
        self.stats = stats
        numbers = stats.mixed.numbers
        self._place = {stats.names.index(name): k for k, name in enumerate(numbers.names)}
        self._correlation = numbers.correlation if numbers.d else np.zeros((0, 0))
        self._log_scale = np.log(standard_units(stats.mixed)[1])
        self._known: dict[tuple[Columns, Columns], Fit] = {}

    def fit(self, members: Sequence[int]) -> Fit:
        """The log-likelihood of some columns, and its parameters."""
        key = self.stats.split(members)
        if key not in self._known:
            self._known[key] = self._fit(*key)
        return self._known[key]

    def _fit(self, labels: Columns, numbers: Columns) -> Fit:
        k, n = len(numbers), self.stats.n
        possible = possible_cells(self.stats, labels)
        found = self.stats.ask(labels, numbers, least_rows(k))
        log_likelihood = float(found.counts @ np.log(found.counts / n))
        parameters = possible - 1
        if not k:
            return Fit(log_likelihood, parameters)
        whole = self._correlation[np.ix_(*[[self._place[i] for i in numbers]] * 2)]
        thin = n - float(found.sizes.sum())
        covariances = (found.scatter + whole) / (found.sizes + 1)[:, None, None]
        volume = float(found.sizes @ _log_determinant(covariances))
        if thin > 0.5:
            volume += thin * float(_log_determinant(whole))
        constant = k * (math.log(2 * math.pi) + 1) + 2 * float(self._log_scale[list(numbers)].sum())
        cells = len(found.sizes) + (thin > 0.5)
        return Fit(log_likelihood - 0.5 * (volume + n * constant), parameters + cells * k * (k + 3) / 2)


def least_rows(k: int) -> int:
    """The fewest rows of a cell that has a covariance of k numbers."""
    return max(LEAST_ROWS, 2 * (k + 2))


def _log_determinant(matrices: Array) -> Array:
    return np.asarray(np.linalg.slogdet(matrices)[1])


@dataclass(frozen=True, eq=False)
class ConditionalGaussian:
    """The conditional Gaussian score, with BIC's penalty.

    Parameters
    ----------
    stats : CellStats
        The data.
    penalty : float or "auto"
        The penalty discount: 1 is BIC, larger gives sparser graphs. "auto" is the extended BIC, which also
        counts the variables.
    """

    kind: ClassVar[Kind] = "mixed"
    needs: ClassVar[Needs] = "cells"

    stats: CellStats
    penalty: Penalty = setting(
        1.0, PENALTY, "the penalty discount, larger gives sparser graphs; auto: the extended BIC"
    )
    _model: ConditionalGaussianModel = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_options(type(self), vars(self))
        if self.stats.mixed.numbers.d:
            require_rows_and_rank(self.stats.mixed.numbers)
        object.__setattr__(self, "_model", ConditionalGaussianModel(self.stats))

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.stats.n

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The score of `node` given its parents."""
        if len(parents) + 3 > self.n:
            return -math.inf
        joint, alone = self._model.fit([*parents, node]), self._model.fit(parents)
        price = edge_price(1.0 if self.penalty == "auto" else self.penalty, self.n, self.stats.d)
        edge = edge_price(self.penalty, self.n, self.stats.d) - price
        gain = joint.log_likelihood - alone.log_likelihood
        # As for the other scores with this penalty, a variable costs as much as two parents (a constant).
        return gain - price * (joint.parameters - alone.parameters) - edge * (len(parents) + 2)
