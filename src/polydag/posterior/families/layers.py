"""Scores of all sets of some variables, layer by layer: what the shared tables of families are gathered from.

A layer scores the sets one larger than given prefixes; prefixes of 0, 1, 2, … members come in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.posterior.families import subsets
from polydag.scores.discrete.dirichlet import DirichletForm
from polydag.scores.discrete.pseudocounts import PER_CELL, PER_OCCUPIED
from polydag.scores.families import Score
from polydag.scores.gaussian.form import GaussianForm

MAX_LEVELS = 64
_NONE = np.zeros(0, dtype=np.int64)
_LOOKUP = 1 << 20  # entries of the table of log-gamma differences
_MANY = 4096  # different pseudocounts, beyond which log-gammas are not looked up
_HEAVY = 8  # rows that occur more often than this on average are counted by weight, not one by one


@dataclass(frozen=True, eq=False)
class Layer:
    """Work on prefixes, and the parts of the scores that it fills.

    A is that of joint sets: one column, or one for each member as the child. B is that of sets of parents, of
    which child i takes the column `which[i]`. A child has a constant besides (`base` of the layers).
    """

    work: Callable[[Index], None]
    parts: Callable[[], tuple[Array, Array]]
    which: Index
    start: Index
    choose: Index


class CountLayers:
    """Layers of a Dirichlet score."""

    def __init__(self, form: DirichletForm) -> None:
        self.prior, self.strength = form.prior, form.strength
        self.arities, self.group = form.rows.arities, form.rows.group
        if (many := np.flatnonzero(self.arities > MAX_LEVELS)).size:
            name, levels = form.names[many[0]], self.arities[many[0]]
            raise DataError(
                f"Column {name} has {levels} levels; at most {MAX_LEVELS} can be used. Merge rare levels, or "
                "cut a numeric column into few intervals (--discretize quantile:4)."
            )
        self.n_groups = len(form.rows.columns)
        self.base = np.zeros(len(form.names))
        rows = zip(form.rows.columns, form.rows.weights, strict=True)
        self._rows = [self._expanded(*own) for own in rows]
        self._known: dict[tuple[int, int], tuple[Array, Array, Index]] = {}

    @staticmethod
    def _expanded(columns: NDArray[np.int32], weights: Array) -> tuple[NDArray[np.uint8], Array, bool]:
        whole = weights.astype(np.int64)
        unit = bool((whole == weights).all() and weights.sum() <= _HEAVY * len(weights))
        narrow = columns.astype(np.uint8)
        if not unit:
            return narrow, weights, False
        return np.repeat(narrow, whole, axis=1), np.ones(int(whole.sum())), True

    def prepare(self, group: int, variables: Index, top: int, first_only: bool) -> Layer:
        """What scores sets of some variables from one group's rows."""
        from polydag.posterior.families import _layers_kernels as _kernels

        columns, weights, unit = self._rows[group]
        columns, arities = np.ascontiguousarray(columns[variables]), self.arities[variables]
        first = np.cumsum([0, *(arities - 1)], dtype=np.int64)
        total = float(weights.sum())
        pseudo, rising, products = self._lookup(group, top)
        per_cell, per_occupied = self.prior == PER_CELL, self.prior == PER_OCCUPIED
        classes = np.unique(arities[:1] if first_only else arities) if per_cell else _NONE
        if len(classes):
            rows = np.array([0, *(1 + np.searchsorted(np.unique(self.arities), classes))])
            pseudo, rising = pseudo[rows], rising[rows]
        packed = _packed(columns, first) if unit else np.zeros((0, 0), dtype=np.uint64)
        start, choose = subsets.offsets(len(variables), top + 1), subsets.binomials(len(variables), top + 1)
        width = top + 1 if per_occupied and not first_only else 1
        joint = np.zeros((start[-1], width))
        alone = np.zeros((start[-2], max(1, len(classes))))
        occupied = np.ones(start[-2] if per_occupied else 1, dtype=np.int64)
        # Without parents there is one configuration, that of all rows.
        own = self.strength * (classes if len(classes) else np.ones(1))
        alone[0] = [-float(_rising(np.array([a]), 1, total)[0, 0]) for a in own]

        def work(prefixes: Index) -> None:
            _kernels.discrete_layer(
                prefixes, columns, weights, packed, unit, first, arities, start, choose, self.prior, pseudo,
                rising, products, self.strength, top, occupied, joint, alone,
            )  # fmt: skip

        which = np.searchsorted(classes, arities) if len(classes) else np.zeros_like(arities)
        return Layer(work, lambda: (joint, alone), which, start, choose)

    def _lookup(self, group: int, top: int) -> tuple[Array, Array, Index]:
        """Pseudocounts, their log-gammas, and the products of arities that number them (BDeu)."""
        if (group, top) not in self._known:
            pseudo, products = self._pseudocounts(top)
            most = int(min(self._rows[group][1].sum(), max(255, _LOOKUP // len(pseudo))))
            self._known[group, top] = (pseudo, _rising(pseudo, most + 1), products)
        return self._known[group, top]

    def _pseudocounts(self, top: int) -> tuple[Array, Index]:
        arities = np.unique(self.arities)
        if self.prior == PER_CELL:
            return self.strength * np.array([1.0, *arities]), _NONE
        if self.prior == PER_OCCUPIED:
            return np.ones(1), _NONE
        products = np.ones(1, dtype=np.int64)
        for _ in range(top + 1):
            products = np.unique(np.concatenate([products, *(products * arity for arity in arities)]))
            if len(products) > _MANY:
                return np.ones(1), _NONE
        return self.strength / products, products


class DeterminantLayers:
    """Layers of a Gaussian score."""

    def __init__(self, form: GaussianForm, names: tuple[str, ...]) -> None:
        self.group = form.group
        self.n_groups = len(form.terms)
        self._names = names
        self.base = np.array([form.terms[g].base[node] for node, g in enumerate(form.group)])
        self._terms = form.terms

    def prepare(self, group: int, variables: Index, top: int, first_only: bool) -> Layer:
        """What scores sets of some variables from one group's matrix."""
        from polydag.posterior.families import _layers_kernels as _kernels

        terms = self._terms[group]
        R = np.ascontiguousarray(terms.matrix[np.ix_(variables, variables)])
        start, choose = subsets.offsets(len(variables), top + 1), subsets.binomials(len(variables), top + 1)
        logdet = np.zeros((start[-1], 1))

        def work(prefixes: Index) -> None:
            _kernels.determinant_layer(prefixes, R, start, choose, logdet)

        def finish() -> tuple[Array, Array]:
            if len(lost := np.flatnonzero(np.isnan(logdet[:, 0]))):
                members = subsets.numbered(len(variables), top + 1)[lost[0]]
                names = [self._names[v] for v in variables[members[members >= 0]]]
                raise DataError(
                    f"Columns {', '.join(names)} are linearly dependent, as far as numbers of this scale can "
                    "tell. Drop one of them, or standardise the columns."
                )
            size = np.repeat(np.arange(top + 2), np.diff(start))[:, None]
            constant = np.array([0.0, *(terms.constant(k) for k in range(top + 1))])
            half = np.multiply(0.5 * (terms.power + terms.growth * size), logdet, dtype=np.float64)
            return constant[size] - half, half[: start[-2]]

        return Layer(work, finish, np.zeros(len(variables), dtype=np.int64), start, choose)


Layers = CountLayers | DeterminantLayers


def layers_of(score: Score) -> Layers | None:
    """What scores a whole layer of sets at once; None for a score that is of neither form."""
    form = getattr(score, "form", None)
    if isinstance(form, GaussianForm):
        return DeterminantLayers(form, score.names)
    return CountLayers(form) if isinstance(form, DirichletForm) else None


def _rising(pseudo: Array, width: int, begin: float = 0.0) -> Array:
    """`log Γ(a + N) - log Γ(a)` for N = begin, begin + 1, …"""
    from scipy.special import gammaln

    counts = begin + np.arange(width)
    table: Array = gammaln(pseudo[:, None] + counts) - gammaln(pseudo)[:, None]
    return table


def _packed(columns: NDArray[np.uint8], first: Index) -> NDArray[np.uint64]:
    """A byte for each level but the first of each variable, 1 where a row has it; as 64-bit words."""
    m = columns.shape[1]
    cells = np.zeros((m, -(-int(first[-1]) // 8) * 8), dtype=np.uint8)
    rows = np.arange(m)
    for variable, column in enumerate(columns):
        there = column > 0
        cells[rows[there], first[variable] + column[there] - 1] = 1
    return cells.view(np.uint64)
