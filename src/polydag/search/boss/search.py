"""Best order score search (Andrews, Ramsey, Sánchez-Romero, Camchong and Kummerfeld 2023).

An order of the variables stands for the DAG in which each variable's parents are grown and shrunk greedily
among those before it. Variables are moved in turn, each to the position that scores best, until no move
gains. The backward phase of GES then removes edges from the class of this DAG, which makes the result exact
in the limit of many rows.

The first order goes from the variable with the fewest others that would gain as its only parent to the one
with the most; equals go by index. Required edges hold in every order. Other background knowledge rules
out parents, and a variable that can only be an effect of another comes after it in the first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.knowledge import Masks
from polydag.parameters import check, optional, whole
from polydag.progress import report
from polydag.scores import ParentSets, Score
from polydag.scores.gains import FamilyGains, Gains
from polydag.scores.gaussian.form import GaussianForm
from polydag.scores.penalty import Penalty
from polydag.search.boss import _search_kernels as trees
from polydag.search.ges.search import EquivalenceSearch, as_score

Index = NDArray[np.int64]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Sweep(NamedTuple):
    """One turn of every variable: the number of moves by its end, and the order's score."""

    sweep: int
    moves: int
    score: float


@dataclass(frozen=True, eq=False)
class BOSSResult:
    """The result of a search.

    Attributes
    ----------
    adjacency : bool array of shape (d, d)
        The essential graph (CPDAG), `[i, j]` is `i -> j`, both entries true where undirected; with background
        knowledge, oriented further by it.
    score : float
        The score of the class: that of any of its DAGs.
    order : tuple of int
        The order that the search ended with.
    trace : list of Sweep
        The score after each sweep.
    """

    adjacency: Mask
    score: float
    order: tuple[int, ...]
    trace: list[Sweep]


def boss(
    source: Any,
    *,
    penalty: Penalty = "auto",
    knowledge: Masks | None = None,
    max_parents: int | None = None,
    screen: bool | None = None,
) -> BOSSResult:
    """Search over orders of the variables.

    Parameters
    ----------
    source : GaussianStats, CountTables, Regimes of either, or a score
        As for `polydag.search.ges.search.ges`; Gaussian scores run compiled.
    penalty : float or "auto"
        The penalty discount of BIC, or the extended BIC, where `source` is not a score.
    knowledge : Masks, optional
        Required and forbidden edges, from `Knowledge.masks`.
    max_parents : int, optional
        No family has more parents than this.
    screen : bool, optional
        Whether two variables may be joined only if one edge between them would gain in the empty graph; by
        default where columns outnumber rows, as in `ges`.

    References
    ----------
    Andrews, B., Ramsey, J., Sánchez-Romero, R., Camchong, J. and Kummerfeld, E. (2023). Fast scalable and
    accurate discovery of DAGs using the best order score search and grow-shrink trees.

    Examples
    --------
    >>> import numpy as np
    >>> from polydag.stats import GaussianStats
    >>> causes, noise = np.split(np.random.default_rng(0).normal(size=(500, 3)), [2], axis=1)
    >>> stats = GaussianStats.from_data(np.c_[causes, causes.sum(axis=1, keepdims=True) + noise])
    >>> boss(stats).adjacency.astype(int).tolist()
    [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    """
    check("max_parents", max_parents, optional(whole(least=0)))
    score = as_score(source, penalty)
    if screen is None:
        screen = float(getattr(score, "n", np.inf)) < len(score.names)
    search = OrderSearch(score, knowledge, screen, max_parents)
    search.run()
    adjacency, total = _backward(score, search.dag(), knowledge)
    return BOSSResult(adjacency, total, tuple(search.order.sequence.tolist()), search.trace)


def _backward(score: Score, dag: Mask, knowledge: Masks | None) -> tuple[Mask, float]:
    """The class of a DAG after the backward phase of GES, and its score."""
    forbidden = np.eye(len(dag), dtype=bool) if knowledge is None else knowledge.forbidden
    # The search starts from the class of what is required.
    search = EquivalenceSearch(score, Masks(dag, forbidden), screen=False)
    search.required = np.zeros_like(dag) if knowledge is None else np.array(knowledge.required, order="C")
    search.informed = knowledge is not None
    search.run("backward")
    return search.oriented(), search.total


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
    owner, above, entry, first, size, kept, kept_size = np.full((7, nodes), -1, dtype=np.int64)
    grown, score = np.zeros((2, nodes))
    item, child = np.empty((2, entries), dtype=np.int64)
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
        masks = knowledge or Masks(np.zeros((p, p), dtype=bool), np.eye(p, dtype=bool))
        self.required = np.array(masks.required, dtype=bool, order="C")
        # At n = 10¹² rounding alone moves a Gaussian score by about one.
        self.tolerance = max(1e-9, 1e-12 * float(getattr(score, "n", 1.0)))
        self._gains = FamilyGains(score, max_parents)
        self._gains.require_few_parents(self.required)
        self.barred = np.array(masks.forbidden, dtype=bool, order="C")
        if screen:
            self.barred |= ~self._dependent()
        self.trees = _new_trees(16 * p, 64 * p)
        self.trees.used[0] = p
        self.trees.owner[:p] = np.arange(p)
        form = getattr(score, "form", None)
        self._gaussian = _stacked(form.bounded(max_parents)) if isinstance(form, GaussianForm) else None
        self._asked = np.empty(3 * p, dtype=np.int64)
        self._state = np.zeros(4, dtype=np.int64)
        self._asked[:p], self._state[trees.OPEN] = np.arange(p), p
        if self._gains.remote:
            self._prefetch()
        for v in range(p):
            self.trees.grown[v] = score.local_score(v, np.flatnonzero(self.required[:, v]).tolist())
        self._answer()
        sequence = np.array(first_order(masks, self.trees.size[:p]), dtype=np.int64)
        self.order = trees.Order(sequence, np.argsort(sequence), np.full(p, -1, dtype=np.int64))
        self.trace: list[Sweep] = []

    def _dependent(self) -> Mask:
        """The pairs of which one gains as the only parent of the other."""
        free = np.zeros((self.p, self.p), dtype=bool)
        everyone = np.arange(self.p)
        requests = [_one_set(v, np.delete(everyone, v), everyone[:0]) for v in range(self.p)]
        if self._gains.remote:
            self._gains.prefetch(requests)
        for v, request in enumerate(requests):
            free[request.candidates, v] = self._gains(request)[0] > self.tolerance
        return free | free.T

    def run(self) -> None:
        """Sweep over the variables until no move gains."""
        while (status := trees.settle(self.trees, self.order, self._asked, self._state)) != trees.DONE:
            self._grow() if status == trees.FULL else self._answer()
        sweep = 0
        while True:
            status = self._improve()
            if status == trees.FULL:
                self._grow()
            elif status == trees.WAITING:
                self._answer()
            else:
                sweep += 1
                moves = int(self._state[trees.MOVED])
                self.trace.append(Sweep(sweep, moves, float(self.trees.score[self.order.end].sum())))
                report("BOSS", sweep, note=f"{moves} moves")
                if status == trees.DONE:
                    return

    def _improve(self) -> int:
        if self._gaussian is None:
            return int(trees.improve(self.trees, self.order, self.required, self.tolerance, self._asked,
                                     self._state))  # fmt: skip
        return int(trees.gaussian_improve(self.trees, self.order, self._gaussian, self.required, self.barred,
                                          self.tolerance, self._asked, self._state))  # fmt: skip

    def _prefetch(self) -> None:
        """Ask, in one question, for what the nodes that walks wait for need.

        Shrinking needs no more: its families are subsets of those that growing asks for.
        """
        requests = []
        for node in self._asked[: self._state[trees.OPEN]]:
            parents = trees.members(self.trees, node, self.required)
            v = int(self.trees.owner[node])
            requests.append(_one_set(v, trees.candidates(parents, v, self.barred), parents))
        self._gains.prefetch(requests)

    def _answer(self) -> None:
        """Fill the nodes that walks wait for."""
        if self._gains.remote:
            self._prefetch()
        while self._state[trees.OPEN]:
            if self.trees.used[1] + 2 * self.p > len(self.trees.item):
                self._grow()
            self._state[trees.OPEN] -= 1
            self._fill(int(self._asked[self._state[trees.OPEN]]))

    def _fill(self, node: int) -> None:
        T = self.trees
        if self._gaussian is not None:
            trees.gaussian_fill(T, node, self._gaussian, self.required, self.barred, self.tolerance)
            return
        v = int(T.owner[node])
        parents = trees.members(T, node, self.required)
        others = trees.candidates(parents, v, self.barred)
        kept, more = self.shrink(v, parents)
        gains = self._gains(_one_set(v, others, parents))[0]
        trees.fill(T, node, others, gains, kept, T.grown[node] + more, self.tolerance)

    def shrink(self, v: int, parents: Index) -> tuple[Index, float]:
        """Take out parents that are not required, the worst first, while that gains."""
        total = 0.0
        while True:
            fixed = int(self.required[:, v].sum())
            losses = [
                float(self._gains(_one_set(v, parents[[k]], np.delete(parents, k)))[0, 0])
                for k in range(fixed, len(parents))
            ]
            if not losses or min(losses) >= -self.tolerance:
                return parents, total
            worst = int(np.argmin(np.round(losses, 9)))
            parents = np.delete(parents, fixed + worst)
            total -= losses[worst]

    def _grow(self) -> None:
        """Make space for twice as many nodes and lists."""
        old = self.trees
        larger = _new_trees(2 * len(old.owner), 2 * len(old.item) + 2 * self.p)
        for before, after in zip(old, larger, strict=True):
            after[: len(before)] = before
        self.trees = larger

    def dag(self) -> Mask:
        """The DAG of the present order."""
        T, result = self.trees, np.zeros((self.p, self.p), dtype=bool)
        for v, end in enumerate(self.order.end):
            result[T.item[T.kept[end] : T.kept[end] + T.kept_size[end]], v] = True
        return result


def _one_set(v: int, candidates: Index, parents: Index) -> Gains:
    return Gains(v, candidates, ParentSets.only(parents), np.ones((1, len(candidates)), dtype=bool))


def _stacked(form: GaussianForm) -> trees.Gaussian:
    terms = form.terms
    return trees.Gaussian(
        np.stack([own.matrix for own in terms]),
        form.group,
        np.stack([own.step for own in terms]),
        np.stack([own.slope for own in terms]),
        form.growth,
    )
