"""Log scores of all families: every node with every parent set up to an in-degree, as arrays.

K2, BDeu and BGe split into a part of the joint set and a part of the parents, `A(π + i) + B(π)`, so that one joint
table (or determinant) serves every child; BDs has an A for each child of the same table. Where nodes differ in their
candidate parents, or in the rows that score them, each node has sets of its own instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polydag.discovery import subsets
from polydag.discovery.memory import require_memory
from polydag.errors import DataError, UsageError
from polydag.progress import report

if TYPE_CHECKING:
    from polydag.scores.bge import BGe
    from polydag.scores.discrete import DirichletScore
    from polydag.scores.families import Score

Array = NDArray[np.float64]
Index = NDArray[np.int64]
MAX_LEVELS = 64
_CHUNKS = 24  # pieces of a layer, for progress and for threads that end together
_LOOKUP = 1 << 20  # entries of the table of log-gamma differences
_HEAVY = 8  # rows that occur more often than this on average are counted by weight, not one by one


@dataclass(frozen=True, eq=False)
class FamilyTable:
    """A log score for every node and every set of its candidate parents up to a size.

    Attributes
    ----------
    names : tuple of str
        The variables.
    candidates : int array of shape (n, c)
        Each node's candidate parents, ascending; all others where nothing was pruned.
    max_parents : int
        The largest in-degree.
    scores : array of shape (n, sets)
        `scores[i, s]` is that of node i with the candidates at the positions `sets[s]`; `-inf` rules it out.
    """

    names: tuple[str, ...]
    candidates: Index
    max_parents: int
    scores: Array

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.names)

    @cached_property
    def sets(self) -> NDArray[np.int16]:
        """Positions in a row of `candidates`, filled up with -1; the same for every node."""
        return subsets.numbered(self.candidates.shape[1], self.max_parents)

    @cached_property
    def sizes(self) -> Index:
        """How many members each set has."""
        return (self.sets >= 0).sum(axis=1)

    @property
    def is_pruned(self) -> bool:
        """Whether some variables are no candidates of some node."""
        return self.candidates.shape[1] < self.n - 1

    def members(self, node: int) -> Index:
        """The sets with variables in place of positions, -1 where there is none."""
        own = np.append(self.candidates[node], -1)
        return own[self.sets]

    def parents(self, node: int, index: int) -> tuple[int, ...]:
        """The variables of one set."""
        positions = self.sets[index]
        return tuple(int(v) for v in self.candidates[node][positions[positions >= 0]])

    def index(self, node: int, parents: Iterable[int]) -> int:
        """Where a parent set stands; raises if it is not in the table."""
        wanted = sorted({int(parent) for parent in parents})
        own = self.candidates[node]
        where = np.searchsorted(own, wanted)
        inside = len(wanted) <= self.max_parents and (where < len(own)).all()
        if not inside or (own[where] != wanted).any():
            names = ", ".join(self.names[v] for v in wanted)
            raise UsageError(f"The parents {names} of {self.names[node]} are not in the table of families.")
        return subsets.number(where.tolist(), len(own))

    def edge_sums(self, values: Array) -> Array:
        """Add up a value per family over the families with each edge: `[i, j]` for `i -> j`."""
        result = np.zeros((self.n, self.n + 1))
        for node in range(self.n):
            members = self.members(node)
            repeated = np.broadcast_to(values[node][:, None], members.shape)
            result[node] = np.bincount(members.ravel() % (self.n + 1), repeated.ravel(), self.n + 1)
        return np.ascontiguousarray(result[:, : self.n].T)

    def with_scores(self, scores: Array) -> FamilyTable:
        """The same families with other scores."""
        return replace(self, scores=scores)


def all_others(n: int) -> Index:
    """Candidate parents without pruning."""
    return np.array([[j for j in range(n) if j != i] for i in range(n)], dtype=np.int64).reshape(n, n - 1)


def family_table(
    score: Score, max_parents: int, *, candidates: Index | None = None, n_jobs: int = 1
) -> FamilyTable:
    """The log scores of all families, without any structure prior.

    Parameters
    ----------
    score : Score
        K2, BDeu, BDs and BGe are computed from shared tables by compiled code; any other score is called back
        family by family.
    max_parents : int
        The largest in-degree, at most the number of candidates.
    candidates : int array of shape (n, c), optional
        Each node's candidate parents, ascending; all others by default.
    n_jobs : int
        Threads; -1 for as many as there are processors.
    """
    n = len(score.names)
    own = all_others(n) if candidates is None else np.asarray(candidates, dtype=np.int64)
    _check_in_degree(max_parents, own.shape[1], n)
    sets = subsets.n_subsets(own.shape[1], max_parents)
    require_memory(
        8.0 * n * sets,
        f"The table of families ({n} variables, in-degree up to {max_parents}, {n * sets:,} families)",
        lambda: _what_fits(n, own.shape[1]),
    )
    table = FamilyTable(score.names, own, max_parents, np.empty((n, sets)))
    layers = _layers_of(score)
    if layers is None:
        _call_back(score, table)
    else:
        shared = not table.is_pruned and layers.n_groups <= max_parents + 1
        (_fill_shared if shared else _fill_by_node)(layers, table, jobs(n_jobs))
    return table


def jobs(n_jobs: int) -> int:
    """The number of threads or processes that `n_jobs` asks for."""
    if n_jobs == -1:
        return os.cpu_count() or 1
    if n_jobs < 1:
        raise UsageError(f"n_jobs must be positive, or -1 for all processors; got {n_jobs}.")
    return n_jobs


def _check_in_degree(max_parents: int, available: int, n: int) -> None:
    if max_parents < 0:
        raise UsageError(f"max_parents must not be negative; got {max_parents}.")
    if max_parents > available:
        why = (
            f"{n} variables allow at most {n - 1}"
            if available == n - 1
            else f"each node has {available} candidates"
        )
        raise UsageError(f"max_parents = {max_parents} is too large: {why}.")


def _what_fits(n: int, available: int) -> Callable[[float], str]:
    def told(limit: float) -> str:
        fitting = [r for r in range(available) if 8.0 * n * subsets.n_subsets(available, r) <= limit]
        words = f"max_parents = {fitting[-1]} fits" if fitting else "no in-degree fits"
        return f"{words}; or prune candidate parents (max_candidates)"

    return told


class _Counts:
    """Layers of a discrete score."""

    def __init__(self, score: DirichletScore) -> None:
        from polydag.discovery import _kernels

        tables = score._tables
        codes = {"K2": _kernels.K2, "BDeu": _kernels.BDEU, "BDs": _kernels.BDS}
        self.kind = codes[type(score).__name__]
        self.strength = score._prior()[1]
        self.arities, self.group = tables.arities, tables.group
        if (many := np.flatnonzero(self.arities > MAX_LEVELS)).size:
            name, levels = score.names[many[0]], self.arities[many[0]]
            raise DataError(
                f"Column {name} has {levels} levels; at most {MAX_LEVELS} can be used. Merge rare levels, or "
                "cut a numeric column into few intervals (--discretize quantile:4)."
            )
        self.n_groups = len(tables.columns)
        self.width = 1
        self._rows = [self._expanded(*rows) for rows in zip(tables.columns, tables.weights, strict=True)]

    @staticmethod
    def _expanded(columns: NDArray[np.int32], weights: Array) -> tuple[NDArray[np.uint8], Array, bool]:
        whole = weights.astype(np.int64)
        unit = bool((whole == weights).all() and weights.sum() <= _HEAVY * len(weights))
        narrow = columns.astype(np.uint8)
        if not unit:
            return narrow, weights, False
        return np.repeat(narrow, whole, axis=1), np.ones(int(whole.sum())), True

    def prepare(self, group: int, variables: Index, top: int, first_only: bool) -> _Layer:
        """What scores sets of some variables from one group's rows."""
        from polydag.discovery import _kernels

        columns, weights, unit = self._rows[group]
        columns, arities = np.ascontiguousarray(columns[variables]), self.arities[variables]
        first = np.cumsum([0, *(arities - 1)], dtype=np.int64)
        total = float(weights.sum())
        pseudo, products, classes = self._pseudocounts(arities, top)
        rising = _rising(pseudo, int(min(total, max(255, _LOOKUP // len(pseudo)))) + 1)
        packed = _packed(columns, first) if unit else np.zeros((0, 0), dtype=np.uint64)
        start, choose = subsets.offsets(len(variables), top + 1), subsets.binomials(len(variables), top + 1)
        width = top + 1 if self.kind == _kernels.BDS and not first_only else 1
        joint = np.zeros((start[-1], width))
        alone = np.zeros((start[-2], max(1, len(classes))))
        occupied = np.ones(start[-2] if self.kind == _kernels.BDS else 1, dtype=np.int64)
        # Without parents there is one configuration, that of all rows.
        own = classes if len(classes) else np.array([self.strength])
        alone[0] = [-float(_rising(np.array([a]), 1, total)[0, 0]) for a in own]

        def work(prefixes: Index) -> None:
            _kernels.discrete_layer(
                prefixes, columns, weights, packed, unit, first, arities, start, choose, self.kind, pseudo,
                rising, products, self.strength, top, occupied, joint, alone,
            )  # fmt: skip

        which = np.searchsorted(classes, arities) if len(classes) else np.zeros(len(variables), dtype=np.int64)
        return _Layer(work, joint, alone, which, start, choose)

    def _pseudocounts(self, arities: Index, top: int) -> tuple[Array, Index, Index]:
        """Pseudocounts that log-gammas are looked up for, and what numbers them: products, or arities (K2)."""
        from polydag.discovery import _kernels

        none = np.zeros(0, dtype=np.int64)
        if self.kind == _kernels.K2:
            classes = np.unique(arities)
            return np.array([1.0, *classes]), none, classes
        if self.kind == _kernels.BDS:
            return np.ones(1), none, none
        products = np.ones(1, dtype=np.int64)
        for _ in range(top + 1):
            products = np.unique([products, *(products * arity for arity in np.unique(arities))])
        return self.strength / products, products, none


class _Determinants:
    """Layers of BGe."""

    def __init__(self, score: BGe) -> None:
        self.group = score._gains.group
        self.n_groups = len(score._groups)
        self._score = score

    def prepare(self, group: int, variables: Index, top: int, first_only: bool) -> _Layer:
        """What scores sets of some variables from one group's matrix."""
        from polydag.discovery import _kernels

        score = self._score
        R = np.ascontiguousarray(score._gains.matrices[group][np.ix_(variables, variables)])
        start, choose = subsets.offsets(len(variables), top + 1), subsets.binomials(len(variables), top + 1)
        logdet = np.zeros((start[-1], 1))
        n = score._groups[group].n
        power = n + score._dof - len(score.names)

        def work(prefixes: Index) -> None:
            _kernels.determinant_layer(prefixes, R, start, choose, logdet)

        def finish() -> tuple[Array, Array]:
            size = np.repeat(np.arange(top + 2), np.diff(start))[:, None]
            constant = np.array([0.0, *(score._normaliser(n, k) for k in range(top + 1))])
            joint = constant[size] - 0.5 * (power + size) * logdet
            return joint, (0.5 * (power + size) * logdet)[: start[-2]]

        return _Layer(
            work, logdet, logdet, np.zeros(len(variables), dtype=np.int64), start, choose, finish
        )


class _Layer:
    """Work on prefixes, and what it fills: A for joint sets, B for sets of parents."""

    def __init__(
        self, work: Callable[[Index], None], joint: Array, alone: Array, which: Index, start: Index, choose: Index,
        finish: Callable[[], tuple[Array, Array]] | None = None,
    ) -> None:  # fmt: skip
        self.work, self.which, self.start, self.choose = work, which, start, choose
        self._joint, self._alone, self._finish = joint, alone, finish

    def parts(self) -> tuple[Array, Array]:
        """A and B, once all layers are done."""
        return self._finish() if self._finish else (self._joint, self._alone)


def _layers_of(score: Score) -> _Counts | _Determinants | None:
    from polydag.scores.bge import BGe
    from polydag.scores.discrete import DirichletScore

    if isinstance(score, DirichletScore):
        return _Counts(score)
    return _Determinants(score) if isinstance(score, BGe) else None


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


def _fill_shared(layers: _Counts | _Determinants, table: FamilyTable, threads: int) -> None:
    """One pass for all nodes that the same rows score."""
    from polydag.discovery._kernels import gather

    n, top = table.n, table.max_parents
    total = layers.n_groups * subsets.n_subsets(n, top)
    done = 0
    for group in range(layers.n_groups):
        layer = layers.prepare(group, np.arange(n), top, first_only=False)
        for k in range(top + 1):
            prefixes = subsets.combinations(n, k)
            for part in _run(layer.work, _pieces(prefixes, n), threads):
                done += len(part)
                report("family scores", done, total)
        joint, alone = layer.parts()
        for node in np.flatnonzero(layers.group == group):
            gather(
                node, table.sets, layer.start, layer.choose, joint, alone, layer.which[node],
                table.scores[node],
            )  # fmt: skip


def _fill_by_node(layers: _Counts | _Determinants, table: FamilyTable, threads: int) -> None:
    """One pass for each node over itself and its candidates; the node stands first."""
    from polydag.discovery._kernels import gather

    top = table.max_parents
    c = table.candidates.shape[1] + 1
    # With all members but one used up, only joint sets that have the node are of interest.
    prefixes = [subsets.combinations(c, k) for k in range(top + 1)]
    prefixes[top] = prefixes[top][prefixes[top][:, 0] == 0] if top else prefixes[top]
    sets = table.sets

    def work(node: int) -> None:
        variables = np.array([node, *table.candidates[node]], dtype=np.int64)
        layer = layers.prepare(int(layers.group[node]), variables, top, first_only=True)
        for own in prefixes:
            layer.work(own)
        joint, alone = layer.parts()
        gather(0, sets, layer.start, layer.choose, joint, alone, layer.which[0], table.scores[node])

    for done, _ in enumerate(_run(work, list(range(table.n)), threads), start=1):
        report("family scores", done, table.n)


def _call_back(score: Score, table: FamilyTable) -> None:
    for node in range(table.n):
        for s, members in enumerate(table.members(node)):
            table.scores[node, s] = score.local_score(node, members[members >= 0].tolist())
        report("family scores", node + 1, table.n)


def _pieces(prefixes: Index, n: int) -> list[Index]:
    """Consecutive prefixes, cut so that each piece costs about the same; the costliest first."""
    if len(prefixes) < 2 * _CHUNKS:
        return [prefixes]
    cost = np.cumsum(n - prefixes[:, -1])
    cuts = np.searchsorted(cost, cost[-1] * np.arange(1, _CHUNKS) / _CHUNKS)
    return [piece for piece in np.split(prefixes, cuts) if len(piece)]


def _run[T](work: Callable[[T], None], tasks: Sequence[T], threads: int) -> Iterator[T]:
    """Do the tasks in any order, on several threads; gives each task back once it is done."""
    if threads == 1 or len(tasks) == 1:
        for task in tasks:
            work(task)
            yield task
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: dict[Future[None], T] = {pool.submit(work, task): task for task in tasks}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                future.result()
                yield waiting.pop(future)
