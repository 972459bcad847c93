"""Classes of DAGs, improved step by step: the phases of GES (Chickering 2002; Hauser and Bühlmann 2012).

Three phases over essential graphs, each taking the best valid operator until none gains.

Operators, by the set `S` of neighbours of `y` that become its parents (`NA` are those adjacent to `x`):

- Insert(x, y): `S ⊇ NA` a clique, and no semi-directed path from y to x past S (Chickering, theorem 15);
- Delete(x, y): `S ⊆ NA` a clique (theorem 17);
- Turn to x -> y of an undirected edge: `S` a clique not inside `NA`, for which the component can be oriented
  with S, and no other neighbour, before y (Hauser and Bühlmann);
- Turn to x -> y of an arrow y -> x: `S ⊇ NA` a clique, and no semi-directed path from y to x past S and the
  neighbours of x other than that arrow (the same).

Operators are kept in a row for each y and rescored only where the surroundings of y changed. Path conditions
are tested when an operator comes up, since distant changes affect them. Gains are rounded before they are
compared, so that their last bits do not decide between equal operators: of these the smallest index wins.

Background knowledge restricts the classes: an operator is applied only if some DAG of the resulting class has
no forbidden and all required edges. The state stays an essential graph, so every theorem above still holds;
knowledge orients the result in the end.

Without a bound on steps the search still ends: forward steps add edges and backward ones remove them, and a
turning phase or a round of phases ends where it comes back to a class. A score that is the same for
equivalent DAGs never does.

A bound on the number of parents restricts the classes, too. All DAGs of a class have the same largest
in-degree: nodes of a chain component have the same parents outside it, and within it the largest clique
counts. So it is enough that Insert and Turn do not exceed the bound at y.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple, Self

import numpy as np

from polydag import orientation
from polydag.arrays import Index, Mask
from polydag.computing.progress import report
from polydag.knowledge import Masks
from polydag.scores import ParentSets, Score, total_score
from polydag.scores.gains import FamilyGains, Gains
from polydag.search.ges import _essential_graph_kernels as graph
from polydag.search.ges import _queue_kernels as queue
from polydag.search.ges._operators_kernels import new_path_memory
from polydag.search.ges.operators import Operators, Scored, deletes, inserts, turns

PHASES = ("forward", "backward", "turning")


class Step(NamedTuple):
    """One operator: its pair of nodes, the set it was given, its gain and the score after it."""

    phase: str
    operator: str
    source: str
    target: str
    given: tuple[str, ...]
    gain: float
    score: float


def _target_groups(targets: Iterable[Iterable[int]], p: int) -> Index:
    """Nodes in the same targets share a number; interventions direct edges between numbers."""
    sets = [frozenset(target) for target in targets]
    numbers: dict[tuple[bool, ...], int] = {}
    keys = (tuple(node in target for target in sets) for node in range(p))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


class EquivalenceSearch:
    """The state of one search: the graph, the queue of operators, the score so far.

    The search starts from the class of a DAG, or of the required edges.
    """

    def __init__(
        self,
        score: Score,
        knowledge: Masks | None,
        screen: bool,
        *,
        max_degree: int | None = None,
        max_parents: int | None = None,
        start: Mask | None = None,
    ) -> None:
        p = len(score.names)
        self.score, self.names, self.p = score, score.names, p
        self.max_degree = p if max_degree is None else max_degree
        self.informed = knowledge is not None
        if knowledge is None:
            knowledge = Masks(np.zeros((p, p), dtype=bool), np.zeros((1, 1), dtype=bool))
        self.required, self.forbidden = (np.array(mask, dtype=bool, order="C") for mask in knowledge)
        # At n = 10¹² rounding alone moves a Gaussian score by about one.
        self.tolerance = max(1e-9, 1e-12 * float(getattr(score, "n", 1.0)))
        self._gains = FamilyGains(score, max_parents)
        self._gains.require_few_parents(self.required)
        self._start_dag = self.required if start is None else start
        self.G = self._start(_target_groups(getattr(score, "targets", ()), p))
        size = 64 * p + 1024
        self.Q = {phase: queue.new_queue(p, size, size, self._unblocked(phase)) for phase in PHASES}
        self._stale = {phase: set(range(p)) for phase in PHASES}
        self._path_memory = new_path_memory(p)
        self._partners = self._possible_partners(screen)
        self._seen: dict[str, set[bytes]] = {}
        self.trace: list[Step] = []

    @cached_property
    def _start_score(self) -> float:
        # Not before the first operators are scored: their tables, where they are asked for, answer this, too.
        return total_score(self.score, self._start_dag)

    @property
    def total(self) -> float:
        """The score of the present class."""
        return self.trace[-1].score if self.trace else self._start_score

    def _unblocked(self, phase: str) -> Mask:
        return np.zeros((self.p, self.p) if phase == "forward" else (1, 1), dtype=bool)

    def _start(self, group: Index) -> graph.Pdag:
        """The essential graph of the DAG to start from, usually empty."""
        A = np.array(self._start_dag, dtype=bool, order="C")
        near = np.empty((self.p, self.p), dtype=np.int32)  # untouched pages cost no memory
        degree = np.zeros(self.p, dtype=np.int64)
        for i in np.flatnonzero((A | A.T).any(axis=1)):
            around = np.flatnonzero(A[i] | A[:, i])
            degree[i] = len(around)
            near[i, : len(around)] = around
        G = graph.Pdag(A, near, degree, group)
        graph.make_essential(G)
        return G

    def _possible_partners(self, screen: bool) -> list[Index]:
        """The nodes that each node may ever be joined to."""
        everyone = np.arange(self.p)
        if not (screen or self.informed):
            return [everyone] * self.p
        free = np.ones((self.p, self.p), dtype=bool)
        if screen:
            alone = ParentSets.only(everyone[:0])
            requests = [Gains(y, everyone, alone, (everyone != y)[None, :]) for y in range(self.p)]
            if self._gains.remote:
                self._gains.prefetch(requests)
            for y, request in enumerate(requests):
                free[:, y] = self._gains(request, positive_only=True)[0] > self.tolerance
            free |= free.T
        if self.informed:
            free &= ~(self.forbidden & self.forbidden.T)
        return [np.flatnonzero(free[y]) for y in range(self.p)]

    def oriented(self) -> Mask:
        """The essential graph, with undirected edges oriented as far as the knowledge implies."""
        A = self.G.A.copy()
        if self.informed:
            A &= ~(self.forbidden & A.T)
            A = orientation.meek(A)
        return A

    def member(self) -> Mask:
        """A DAG of the class that agrees with the knowledge."""
        dag = orientation.consistent_extension(self.oriented())
        assert dag is not None  # the search stays within classes of DAGs
        return dag

    def climb(self, phases: Sequence[str] = PHASES) -> Self:
        """Repeat the phases until none of them improves the score; a single phase runs once."""
        steps = -1
        while len(self.trace) > steps and self.is_new("round"):
            steps = len(self.trace)
            for phase in phases:
                self.run(phase)
            if len(phases) <= 1:
                break
        return self

    def run(self, phase: str) -> None:
        """Apply the best operator of a phase until none gains."""
        queue.retry_all(self.Q[phase])
        while True:
            self._rescore(phase)
            queue.retry_skipped(self.Q[phase])
            change = self._step(phase)
            if change is None:
                return
            if phase == "forward":
                queue.retry_unblocked(self.Q[phase], self.G, change)
            for other, rows in self._stale.items():
                rows.update(graph.affected(self.G, change, other == "turning").tolist())
            if phase == "turning" and not self.is_new(phase):
                return

    def is_new(self, moment: str) -> bool:
        """Whether the search is in this class for the first time at such a moment; remembers that it was.

        A score that is not the same for equivalent DAGs, such as K2, can lead a search in circles.
        """
        seen = self._seen.setdefault(moment, set())
        before = len(seen)
        seen.add(blake2b(np.packbits(self.G.A).tobytes(), digest_size=16).digest())
        return len(seen) > before

    def _rescore(self, phase: str) -> None:
        """Score the operators at all nodes whose surroundings changed."""
        stale = sorted(self._stale[phase])
        if self._gains.remote:
            self._gains.prefetch(request for y in stale for request in self._operators(phase, y).requests())
        for y in stale:
            self._fill(phase, y, self._operators(phase, y).scored(self._gains))
        self._stale[phase].clear()

    def _operators(self, phase: str, y: int) -> Operators:
        if phase == "forward":
            return inserts(self.G, y, self._partners[y], self.forbidden, self.informed)
        return deletes(self.G, y, self.required) if phase == "backward" else turns(self.G, y)

    def _step(self, phase: str) -> graph.Change | None:
        """Apply the best operator that can be applied, and record it."""
        Q = self.Q[phase]
        while True:
            y, place = queue.best(Q, self.G, self._path_memory, self.max_degree)
            if y < 0:
                return None
            x, kind = int(Q.source[place]), int(Q.kind[place])
            members = Q.member[Q.first[place] : Q.first[place] + Q.size[place]]
            change: graph.Change = graph.apply(self.G, kind, x, y, members, self.forbidden, self.informed)
            if change.done:
                break
            queue.skip_for_now(Q, y)
        gain = float(Q.gain[place])
        given = tuple(self.names[i] for i in members)
        operator = ("insert", "delete", "turn", "turn")[kind]
        self.trace.append(Step(phase, operator, self.names[x], self.names[y], given, gain, self.total + gain))
        report("GES", len(self.trace), note=phase)
        return change

    def _fill(self, phase: str, y: int, row: Scored) -> None:
        """Put the operators at y into the queue, and make the queue larger where they do not fit."""
        while not queue.fill(self.Q[phase], y, *row, self.tolerance):
            Q = self.Q[phase]
            Q.row_size[y] = Q.member_size[y] = Q.cursor[y] = 0
            asked = row.gains.size
            size = 2 * int(Q.row_size.sum()) + asked
            member_size = 2 * int(Q.member_size.sum()) + asked * self.p
            larger = queue.new_queue(self.p, size, member_size, Q.blocked_by)
            queue.compact(Q, larger)
            self.Q[phase] = larger
