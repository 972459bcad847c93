"""Greedy equivalence search (Chickering 2002), with turning and interventions (Hauser and Bühlmann 2012).

Three phases over essential graphs, each taking the best valid operator until none gains.

Operators, by the set `S` of neighbours of `y` that become its parents (`NA` are those adjacent to `x`):

- Insert(x, y): `S ⊇ NA` a clique, and no semi-directed path from y to x past S (Chickering, theorem 15);
- Delete(x, y): `S ⊆ NA` a clique (theorem 17);
- Turn to x -> y of an undirected edge: `S` a clique not inside `NA`, for which the component can be oriented
  with S, and no other neighbour, before y (Hauser and Bühlmann);
- Turn to x -> y of an arrow y -> x: `S ⊇ NA` a clique, and no semi-directed path from y to x past S and the
  neighbours of x other than that arrow (the same).

Rows of candidates are kept per y and rescored only where y's surroundings changed. Path conditions are tested
when a candidate comes up, since distant changes touch them.

Background knowledge restricts the classes: an operator is taken only if some DAG of the resulting class has
no forbidden and all required edges. The state stays an essential graph, so every theorem above still holds;
the result is oriented by the knowledge in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag import orientation
from polydag.errors import UsageError
from polydag.knowledge import Masks
from polydag.progress import report
from polydag.scores import ParentSets, Score, gains_by_callback, make_score, total_score
from polydag.search.ges import _essential_graph_kernels as graph
from polydag.search.ges import _operators_kernels as operators
from polydag.search.ges import _queue_kernels as queue
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

Index = NDArray[np.int64]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
PHASES = ("forward", "backward", "turning")


class Step(NamedTuple):
    """One operator: the pair it worked on, the set it was given, what it gained and the score after it."""

    phase: str
    operator: str
    source: str
    target: str
    given: tuple[str, ...]
    gain: float
    score: float


@dataclass(frozen=True, eq=False)
class GESResult:
    """What a search found.

    Attributes
    ----------
    adjacency : bool array of shape (d, d)
        The essential graph (CPDAG), `[i, j]` is `i -> j`, both entries true where undirected; with background
        knowledge, oriented further by it.
    score : float
        The score of the class: that of any of its DAGs.
    trace : list of Step
        The operators in the order taken; `pandas.DataFrame(trace)` makes a table of them.
    """

    adjacency: Mask
    score: float
    trace: list[Step]


def ges(
    source: Any,
    *,
    penalty: float = 1.0,
    knowledge: Masks | None = None,
    max_degree: int | None = None,
    phases: Sequence[str] = PHASES,
    screen: bool | None = None,
) -> GESResult:
    """Search greedily over classes of equivalent DAGs.

    Parameters
    ----------
    source : GaussianStats, DiscreteCounts, Regimes of either, or a score
        Gaussian statistics are scored by BIC, counts by BDeu. A score is any object with `names` and
        `local_score(node, parents)` (and `targets`, the sets of intervened nodes, if there are any); it
        should give equivalent DAGs the same score.
    penalty : float
        The penalty discount of BIC, where `source` is not a score.
    knowledge : Masks, optional
        Required and forbidden edges, from `Knowledge.masks`.
    max_degree : int, optional
        No edge is added at a node that has this many.
    phases : sequence of {"forward", "backward", "turning"}
        Repeated, in this order, until none of them improves the score; a single phase runs once.
    screen : bool, optional
        Whether two variables may be joined only if one edge between them would gain in the empty graph
        ("faithfulness assumed" in Tetrad). It halves the false edges where columns outnumber rows, which is
        when it is done by default, and costs true edges where rows abound.

    References
    ----------
    Chickering, D. M. (2002). Optimal structure identification with greedy search.
    Hauser, A. and Bühlmann, P. (2012). Characterization and greedy learning of interventional Markov
    equivalence classes of directed acyclic graphs.

    Examples
    --------
    >>> import numpy as np
    >>> causes, noise = np.split(np.random.default_rng(0).normal(size=(500, 3)), [2], axis=1)
    >>> stats = GaussianStats.from_data(np.c_[causes, causes.sum(axis=1, keepdims=True) + noise])
    >>> ges(stats).adjacency.astype(int).tolist()
    [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    """
    if unknown := [phase for phase in phases if phase not in PHASES]:
        raise UsageError(f"There is no phase {unknown[0]!r}; known are {', '.join(PHASES)}.")
    if max_degree is not None and max_degree < 0:
        raise UsageError(f"The maximum degree cannot be negative; got {max_degree}.")
    score = as_score(source, penalty)
    if screen is None:
        screen = float(getattr(score, "n", np.inf)) < len(score.names)
    search = EquivalenceSearch(score, knowledge, max_degree, screen)
    best = -np.inf
    while search.total > best:
        best = search.total
        for phase in phases:
            search.run(phase)
        if len(phases) <= 1:
            break
    return GESResult(search.oriented(), search.total, search.trace)


def as_score(source: Any, penalty: float) -> Score:
    """The score itself, or the usual one of the statistics: BIC of numbers, BDeu of labels."""
    inner = next(iter(source.parts.values())) if isinstance(source, Regimes) else source
    if isinstance(inner, GaussianStats):
        return make_score("bic", source, penalty=penalty)
    if isinstance(inner, DiscreteCounts):
        return make_score("bdeu", source)
    if not hasattr(source, "local_score") or not hasattr(source, "names"):
        raise UsageError(
            "GES needs GaussianStats, DiscreteCounts, Regimes of these, or a score with names and "
            f"local_score; got {type(source).__name__}."
        )
    score: Score = source
    return score


def _target_groups(targets: Iterable[Iterable[int]], p: int) -> Index:
    """Nodes in the same targets share a number; interventions direct edges between numbers."""
    sets = [frozenset(target) for target in targets]
    numbers: dict[tuple[bool, ...], int] = {}
    keys = (tuple(node in target for target in sets) for node in range(p))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


class _Row(NamedTuple):
    """The operators at one target: sources and their kinds, a tree of sets, and the gains of those wanted."""

    candidates: Index
    kinds: Index
    element: Index
    depth: Index
    skip: Index
    wanted: Mask
    gains: Array


class EquivalenceSearch:
    """The state of one search: the graph, the queue of operators, the score so far."""

    def __init__(self, score: Score, knowledge: Masks | None, max_degree: int | None, screen: bool) -> None:
        p = len(score.names)
        self.score, self.names, self.p = score, score.names, p
        self.max_degree = p if max_degree is None else max_degree
        self.informed = knowledge is not None
        if knowledge is None:
            knowledge = Masks(np.zeros((p, p), dtype=bool), np.zeros((1, 1), dtype=bool))
        self.required, self.forbidden = (np.array(mask, dtype=bool, order="C") for mask in knowledge)
        # At n = 10¹² rounding alone moves a Gaussian score by about one.
        self.tolerance = max(1e-9, 1e-12 * float(getattr(score, "n", 1.0)))
        known: dict[tuple[int, tuple[int, ...]], float] = {}
        own = getattr(score, "gains", None)
        self._gains: Callable[..., Array] = (
            own if own is not None else partial(gains_by_callback, score, known)
        )
        self._skips = {"positive_only": True} if own is not None else {}
        self.G = self._start(_target_groups(getattr(score, "targets", ()), p))
        room = 64 * p + 1024
        self.Q = {phase: queue.new_queue(p, room, room, self._watch(phase)) for phase in PHASES}
        self._stale = {phase: set(range(p)) for phase in PHASES}
        self._scratch = operators.new_scratch(p)
        self._zeros = np.zeros(p, dtype=np.int64)
        self._partners = self._possible_partners(screen)
        self.total = total_score(score, self.required)
        self.trace: list[Step] = []

    def _watch(self, phase: str) -> Mask:
        return np.zeros((self.p, self.p) if phase == "forward" else (1, 1), dtype=bool)

    def _start(self, group: Index) -> graph.Pdag:
        """The essential graph of the required edges, usually empty."""
        A = self.required.copy()
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
        """Which nodes each node may ever be joined to."""
        everyone = np.arange(self.p)
        if not (screen or self.informed):
            return [everyone] * self.p
        free = np.ones((self.p, self.p), dtype=bool)
        if screen:
            alone = ParentSets(everyone[:0], np.array([-1]), np.array([0]))
            for y in range(self.p):
                wanted = (everyone != y)[None, :]
                free[:, y] = self._gains(y, everyone, alone, wanted, **self._skips)[0] > self.tolerance
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

    def run(self, phase: str) -> None:
        """Take the best operator of a phase again and again until none gains."""
        rescore = {"forward": self._inserts, "backward": self._deletes, "turning": self._turns}[phase]
        queue.rewind(self.Q[phase])
        while True:
            for y in sorted(self._stale[phase]):
                rescore(y)
            self._stale[phase].clear()
            queue.restart(self.Q[phase])
            change = self._step(phase)
            if change is None:
                return
            if phase == "forward":
                queue.loosen(self.Q[phase], self.G, change)
            for other, rows in self._stale.items():
                rows.update(graph.affected(self.G, change, other == "turning").tolist())

    def _step(self, phase: str) -> graph.Change | None:
        """Apply the best operator that can be applied, and note it."""
        Q = self.Q[phase]
        while True:
            y, place = queue.best(Q, self.G, self._scratch, self.max_degree)
            if y < 0:
                return None
            x, kind = int(Q.source[place]), int(Q.kind[place])
            members = Q.member[Q.first[place] : Q.first[place] + Q.size[place]]
            change: graph.Change = graph.apply(self.G, kind, x, y, members, self.forbidden, self.informed)
            if change.done:
                break
            queue.pass_over(Q, y)
        gain = float(Q.gain[place])
        self.total += gain
        given = tuple(self.names[i] for i in members)
        operator = ("insert", "delete", "turn", "turn")[kind]
        self.trace.append(Step(phase, operator, self.names[x], self.names[y], given, gain, self.total))
        report("GES", len(self.trace), note=phase)
        return change

    def _fill(self, phase: str, y: int, row: _Row) -> None:
        while not queue.fill(self.Q[phase], y, *row, self.tolerance):
            Q = self.Q[phase]
            Q.row_size[y] = Q.member_size[y] = Q.cursor[y] = 0
            asked = row.gains.size
            room, member_room = (
                2 * int(Q.row_size.sum()) + asked,
                2 * int(Q.member_size.sum()) + asked * self.p,
            )
            larger = queue.new_queue(self.p, room, member_room, Q.watch)
            queue.compact(Q, larger)
            self.Q[phase] = larger

    def _inserts(self, y: int) -> None:
        """All Insert(x, y, S) that gain, for every x."""
        candidates, parents, element, depth, wanted = operators.insert_frame(
            self.G, y, self._partners[y], self.forbidden, self.informed
        )
        gains = self._gains(y, candidates, ParentSets(parents, element, depth), wanted, **self._skips)
        kinds, skip = self._zeros[: len(candidates)], np.zeros(len(element), dtype=np.int64)
        self._fill("forward", y, _Row(candidates, kinds, element, depth, skip, wanted, gains))

    def _deletes(self, y: int) -> None:
        """All Delete(x, y, S) that gain, for every x with an edge to y that does not leave y."""
        candidates, element, depth, skip, wanted = operators.delete_frame(self.G, y, self.required)
        gains = np.zeros(wanted.shape)
        if len(element):
            gains = -self._gains(y, candidates, ParentSets(candidates[:0], element, depth), wanted)
        kinds = np.full(len(candidates), graph.DELETE)
        self._fill("backward", y, _Row(candidates, kinds, element, depth, skip, wanted, gains))

    def _turns(self, y: int) -> None:
        """All Turn(x, y, S) to x -> y that gain, for every x with an edge to y that is not x -> y already."""
        candidates, kinds, parents, element, depth, wanted = operators.turn_frame(self.G, y)
        gains = self._gains(y, candidates, ParentSets(parents, element, depth), wanted)
        for c in np.flatnonzero(wanted.any(axis=0)):
            x, own = int(candidates[c]), wanted[:, c].copy()
            root, chain, level, ends = operators.turn_loss_frame(self.G, y, x, kinds[c], element, depth, own)
            asked = np.zeros((len(chain), 1), dtype=bool)
            asked[ends[own]] = True
            gains[:, c] -= self._gains(x, np.array([y]), ParentSets(root, chain, level), asked)[ends, 0]
        skip = np.zeros(len(element), dtype=np.int64)
        self._fill("turning", y, _Row(candidates, kinds, element, depth, skip, wanted, gains))
