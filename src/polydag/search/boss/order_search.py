"""Orders of the variables, improved by moving one variable at a time (Andrews et al. 2023).

An order stands for the DAG in which each variable's parents are grown and shrunk greedily among those before
it. Variables are moved in turn, each to the position that scores best, until no move gains.

Required edges hold in every order. Other background knowledge rules out parents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.computing.progress import report
from polydag.knowledge import Masks
from polydag.scores import ParentSets, Score
from polydag.scores.gains import FamilyGains, Gains
from polydag.scores.gaussian.form import GaussianForm
from polydag.search.boss import _search_kernels as trees

_MOST_ENTRIES = 2**24  # of lists; 16 bytes each


class Sweep(NamedTuple):
    """One turn of every variable, from one start: the number of moves by its end, and the order's score."""

    start: int
    sweep: int
    moves: int
    score: float


def first_order(masks: Masks, related: Index) -> list[int]:
    """The fewest related first, but what must stand before, or may only be a cause, does where it can."""
    waits_for = masks.forbidden.T & ~masks.forbidden
    remaining = np.ones(len(waits_for), dtype=bool)
    order: list[int] = []
    while remaining.any():
        free = remaining & ~(waits_for | masks.required)[remaining].any(axis=0)
        if not free.any():
            free = remaining & ~masks.required[remaining].any(axis=0)
        order.append(int(np.argmin(np.where(free, related, related.max() + 1))))
        remaining[order[-1]] = False
    return order


def _new_trees(nodes: int, entries: int) -> trees.Trees:
    """Space for trees; what is not used costs no memory."""
    owner, above, entry, first, size, kept, kept_size = np.empty((7, nodes), dtype=np.int64)
    grown, score = np.empty((2, nodes))
    item, child = np.empty((2, entries), dtype=np.int32)
    return trees.Trees(
        owner, above, entry, first, size, kept, kept_size, grown, score,
        item, np.empty(entries), child, np.zeros(2, dtype=np.int64),
    )  # fmt: skip


class OrderSearch:
    """The state of one search: the order, the grow-shrink trees, and how lists are computed."""

    def __init__(
        self, score: Score, knowledge: Masks | None, screen: bool, max_parents: int | None = None
    ) -> None:
        p = len(score.names)
        self.p, self.score = p, score
        self.masks = knowledge or Masks(np.zeros((p, p), dtype=bool), np.eye(p, dtype=bool))
        # At n = 10¹² rounding alone moves a Gaussian score by about one.
        tolerance = max(1e-9, 1e-12 * float(getattr(score, "n", 1.0)))
        self._gains = FamilyGains(score, max_parents)
        self._gains.require_few_parents(self.masks.required)
        barred = np.array(self.masks.forbidden, dtype=bool)
        if screen:
            barred |= ~self._dependent(tolerance)
        self.limits = _limits(self.masks.required, barred, tolerance)
        form = getattr(score, "form", None)
        self._gaussian = _workspace(form.bounded(max_parents) if isinstance(form, GaussianForm) else None, p)
        self._asked = np.empty(3 * p, dtype=np.int64)
        self._state = np.zeros(6, dtype=np.int64)
        self._forgotten = -1
        self._entries_before = 0  # of trees that were begun anew
        self._root_scores = self._score_roots()
        self.trees = _new_trees(16 * p, 512 * p)
        self._plant()
        self._settle(np.zeros(p, dtype=np.int64))
        self.trace: list[Sweep] = []
        self.starts = 0
        self.start(first_order(self.masks, self.trees.size[:p]))

    def _plant(self) -> None:
        """Leave nothing of the trees but their roots."""
        T, p = self.trees, self.p
        T.used[:] = p, 0
        T.owner[:p] = np.arange(p)
        T.above[:p] = T.entry[:p] = T.kept[:p] = -1
        T.first[:p] = trees.NEW
        T.grown[:p] = self._root_scores

    def _score_roots(self) -> Array:
        fixed = [np.flatnonzero(own) for own in self.masks.required.T]
        if self._gains.remote:
            self._gains.prefetch(_one_set(v, self._candidates(v, own), own) for v, own in enumerate(fixed))
        return np.array([self.score.local_score(v, own.tolist()) for v, own in enumerate(fixed)])

    def start(self, order: Sequence[int]) -> None:
        """Begin with an order; what was computed for others is kept."""
        self.starts += 1
        sequence = np.array(order, dtype=np.int64)
        self._settle(np.argsort(sequence), sequence)
        self._state[[trees.TURN, trees.IDLE]] = 0

    def _settle(self, place: Index, sequence: Index | None = None) -> None:
        """Walk every tree for the given places."""
        end = np.full(self.p, -1, dtype=np.int64)
        self.order = trees.Order(place if sequence is None else sequence, place, end)
        while (status := self._call(trees.settle)) != trees.DONE:
            self._make_space() if status == trees.FULL else self._answer()

    def _dependent(self, tolerance: float) -> Mask:
        """The pairs of which one gains as the only parent of the other."""
        free = np.zeros((self.p, self.p), dtype=bool)
        everyone = np.arange(self.p)
        requests = [_one_set(v, np.delete(everyone, v), everyone[:0]) for v in range(self.p)]
        if self._gains.remote:
            self._gains.prefetch(requests)
        for v, request in enumerate(requests):
            free[request.candidates, v] = self._gains(request)[0] > tolerance
        return free | free.T

    @property
    def total(self) -> float:
        """The score of the present order."""
        return float(self.trees.score[self.order.end].sum())

    @property
    def n_entries(self) -> int:
        """How many entries of lists were computed, which is what takes time."""
        return self._entries_before + int(self.trees.used[1])

    def run(self) -> None:
        """Sweep over the variables until no move gains."""
        while True:
            status = self._call(trees.improve)
            if status == trees.FULL:
                self._make_space()
            elif status == trees.WAITING:
                self._answer()
            elif status == trees.PAUSED:
                self._report(len(self.trace))
            else:
                moves = int(self._state[trees.MOVED])
                self.trace.append(Sweep(self.starts, len(self.trace) + 1, moves, self.total))
                self._report(len(self.trace))
                if status == trees.DONE:
                    return

    def _report(self, sweeps: int) -> None:
        turn, moves = self._state[trees.TURN], self._state[trees.MOVED]
        report("BOSS", sweeps, note=f"{moves} moves, variable {turn} of {self.p}")

    def _call(self, kernel: Any) -> int:
        return int(kernel(self.trees, self._gaussian, self.limits, self.order, self._asked, self._state))

    def _candidates(self, v: int, parents: Index) -> Index:
        """Those that may become parents of v beside these."""
        free = ~self.limits.barred[v]
        free[v] = False
        free[parents] = False
        return np.flatnonzero(free)

    def _prefetch(self) -> None:
        """Ask, in one question, for what the nodes that paths wait for need.

        Shrinking needs no more: its families are subsets of those that growing asks for.
        """
        requests = []
        for node in self._asked[: self._state[trees.OPEN]]:
            parents = trees.members(self.trees, self.limits, node)
            v = int(self.trees.owner[node])
            requests.append(_one_set(v, self._candidates(v, parents), parents))
        self._gains.prefetch(requests)

    def _answer(self) -> None:
        """Fill the nodes that paths wait for."""
        if self._gains.remote:
            self._prefetch()
        while self._state[trees.OPEN]:
            if self.trees.used[1] + 2 * self.p > len(self.trees.item):
                self._grow()
            self._state[trees.OPEN] -= 1
            self._fill(int(self._asked[self._state[trees.OPEN]]))

    def _fill(self, node: int) -> None:
        T = self.trees
        v = int(T.owner[node])
        parents = trees.members(T, self.limits, node)
        others = self._candidates(v, parents)
        kept, more = self.shrink(v, parents)
        gains = self._gains(_one_set(v, others, parents))[0]
        positive = gains > self.limits.tolerance
        trees.write_list(T, node, others[positive], gains[positive])
        trees.write_kept(T, node, kept, T.grown[node] + more)

    def shrink(self, v: int, parents: Index) -> tuple[Index, float]:
        """Take out parents that are not required, the worst first, while that gains."""
        total = 0.0
        fixed = int(self.limits.required[:, v].sum())
        while True:
            losses = [
                float(self._gains(_one_set(v, parents[[k]], np.delete(parents, k)))[0, 0])
                for k in range(fixed, len(parents))
            ]
            if not losses or min(losses) >= -self.limits.tolerance:
                return parents, total
            worst = int(np.argmin(np.round(losses, 9)))
            parents = np.delete(parents, fixed + worst)
            total -= losses[worst]

    def _make_space(self) -> None:
        """Make the trees larger or, where they are as large as they may become, begin them anew."""
        self._state[trees.SHORT] = 0
        turn = int(self._state[trees.TURN])
        if len(self.trees.item) < _MOST_ENTRIES or self._forgotten == turn:
            self._grow()
            return
        self._forgotten = turn
        self._entries_before += int(self.trees.used[1])
        self._plant()
        self._gaussian.loaded[0] = -1
        self._settle(self.order.place, self.order.sequence)

    def _grow(self) -> None:
        """Make space for twice as many nodes and lists."""
        old = self.trees
        larger = _new_trees(2 * len(old.owner), 2 * len(old.item) + 2 * self.p)
        for name, before in old._asdict().items():
            getattr(larger, name)[: len(before)] = before
        self.trees = larger

    def dag(self) -> Mask:
        """The DAG of the present order."""
        T, result = self.trees, np.zeros((self.p, self.p), dtype=bool)
        for v, end in enumerate(self.order.end):
            result[T.item[T.kept[end] : T.kept[end] + T.kept_size[end]], v] = True
        return result


def _one_set(v: int, candidates: Index, parents: Index) -> Gains:
    return Gains(v, candidates, ParentSets.only(parents), np.ones((1, len(candidates)), dtype=bool))


def _limits(required: Mask, barred: Mask, tolerance: float) -> trees.Limits:
    listed = [np.flatnonzero(own) for own in required.T]
    start = np.concatenate([[0], np.cumsum([len(own) for own in listed])]).astype(np.int64)
    return trees.Limits(
        np.array(required, dtype=bool, order="C"), np.array(barred.T, dtype=bool, order="C"), start,
        np.concatenate(listed).astype(np.int64), tolerance,
    )  # fmt: skip


def _workspace(form: GaussianForm | None, p: int) -> trees.Gaussian:
    """The terms of a Gaussian score and space to work with them; empty for another score."""
    terms = form.terms if form is not None else ()
    size = p if terms else 0
    explained, variance, covariance = np.empty((3, size + 1, size))
    return trees.Gaussian(
        C=np.stack([own.matrix for own in terms]) if terms else np.empty((0, 0, 0)),
        group=form.group if form is not None else np.empty(0, dtype=np.int64),
        constant=np.stack([own.step for own in terms]) if terms else np.empty((0, 0)),
        slope=np.stack([own.slope for own in terms]) if terms else np.empty((0, 0)),
        half=float(form.growth) if form is not None else 0.0,
        explained=explained, variance=variance, covariance=covariance,
        left=np.empty(size + 1), member=np.empty(size, dtype=np.int64), path=np.empty(size, dtype=np.int64),
        gain=np.empty(size), candidate=np.empty(size, dtype=np.int64), loaded=np.full(2, -1),
    )  # fmt: skip
