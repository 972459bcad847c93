"""Log scores of all families: every node with every parent set up to an in-degree, as arrays.

Gaussian and Dirichlet scores split into a part of the joint set and a part of the parents, `A(π + i) + B(π)`,
so that one joint table (or determinant) serves every child; BDs has an A for each child of the same table.
Where nodes differ in their candidate parents, or in the rows that score them, each node has sets of its own
instead. Any other score is computed family by family; where it asks a source that answers in rounds, all
families are one question.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Mask
from polydag.computing.progress import report
from polydag.errors import UsageError
from polydag.posterior.families import subsets
from polydag.posterior.families.layers import Layers, layers_of
from polydag.posterior.memory import require_memory
from polydag.posterior.threads import jobs, run
from polydag.scores.families import Score

_CHUNKS = 24  # pieces of a layer, for progress and for threads that end together


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
        sizes: Index = (self.sets >= 0).sum(axis=1)
        return sizes

    @property
    def is_pruned(self) -> bool:
        """Whether some variables are no candidates of some node."""
        return bool(self.candidates.shape[1] < self.n - 1)

    def members(self, node: int) -> Index:
        """The sets with variables in place of positions, -1 where there is none."""
        own = np.append(self.candidates[node], -1)
        members: Index = own[self.sets]
        return members

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

    def adjacency(self, chosen: Iterable[int]) -> Mask:
        """The network of one parent set for each node, given by its number."""
        result = np.zeros((self.n, self.n), dtype=bool)
        for node, index in enumerate(chosen):
            result[list(self.parents(node, int(index))), node] = True
        return result

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
        Scores of a Gaussian or Dirichlet form are computed from shared tables by compiled code; any other
        score is called family by family.
    max_parents : int
        The largest in-degree, at most the number of candidates.
    candidates : int array of shape (n, c), optional
        Each node's candidate parents, ascending; all others by default.
    n_jobs : int
        Threads; -1 for as many as there are processors.
    """
    n = len(score.names)
    own = all_others(n) if candidates is None else np.asarray(candidates, dtype=np.int64)
    require_in_degree(max_parents)
    _require_room(max_parents, own.shape[1], n)
    sets = subsets.n_subsets(own.shape[1], max_parents)
    require_memory(
        _bytes(n, own.shape[1], max_parents),
        f"The table of families ({n} variables, in-degree up to {max_parents}, {n * sets:,} families)",
        lambda limit: _what_fits(n, own.shape[1], limit),
    )
    table = FamilyTable(score.names, own, max_parents, np.empty((n, sets)))
    layers = layers_of(score)
    if layers is None:
        _fill_by_family(score, table)
    else:
        shared = not table.is_pruned and layers.n_groups <= max_parents + 1
        (_fill_shared if shared else _fill_by_node)(layers, table, jobs(n_jobs))
    return table


def require_in_degree(max_parents: object) -> None:
    """Raise where a largest in-degree is no whole number from 0."""
    if not isinstance(max_parents, numbers.Integral) or isinstance(max_parents, bool):
        raise UsageError(f"max_parents is a whole number from 0; got {max_parents!r}.")
    if max_parents < 0:
        raise UsageError(f"max_parents must not be negative; got {max_parents}.")


def _require_room(max_parents: int, available: int, n: int) -> None:
    if max_parents > available:
        why = (
            f"{n} variable{' allows' if n == 1 else 's allow'} at most {n - 1}"
            if available == n - 1
            else f"each node has {available} candidate{'' if available == 1 else 's'}"
        )
        raise UsageError(f"max_parents = {max_parents} is too large: {why}.")


def _bytes(n: int, available: int, max_parents: int) -> float:
    """What the table takes, and the scores of joint sets that it is gathered from."""
    joint = subsets.n_subsets(available + 1, max_parents + 1)
    return 8.0 * (n * subsets.n_subsets(available, max_parents) + joint)


def _what_fits(n: int, available: int, limit: float) -> str:
    fitting = [r for r in range(available) if _bytes(n, available, r) <= limit]
    words = f"max_parents = {fitting[-1]} fits" if fitting else "No in-degree fits"
    return f"{words}; or prune candidate parents (max_candidates)"


def _fill_shared(layers: Layers, table: FamilyTable, threads: int) -> None:
    """One pass for all nodes that the same rows score."""
    from polydag.posterior.families._layers_kernels import gather

    n, top = table.n, table.max_parents
    total = layers.n_groups * subsets.n_subsets(n, top)
    done = 0
    for group in range(layers.n_groups):
        layer = layers.prepare(group, np.arange(n), top, first_only=False)
        for k in range(top + 1):
            prefixes = subsets.combinations(n, k)
            for part in run(layer.work, _pieces(prefixes, n), threads):
                done += len(part)
                report("family scores", done, total)
        joint, alone = layer.parts()
        for node in np.flatnonzero(layers.group == group):
            gather(
                node, table.sets, layer.start, layer.choose, joint, alone, layer.which[node],
                table.scores[node],
            )  # fmt: skip
            table.scores[node] += layers.base[node]


def _fill_by_node(layers: Layers, table: FamilyTable, threads: int) -> None:
    """One pass for each node over itself and its candidates; the node stands first."""
    from polydag.posterior.families._layers_kernels import gather

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
        table.scores[node] += layers.base[node]

    for done, _ in enumerate(run(work, list(range(table.n)), threads), start=1):
        report("family scores", done, table.n)


def _fill_by_family(score: Score, table: FamilyTable) -> None:
    """One call for each family; a source that answers in rounds is asked once, for the largest sets."""
    if getattr(score, "remote", False):
        largest = np.flatnonzero(table.sizes == table.max_parents)
        score.prefetch(  # type: ignore[attr-defined]
            (node, table.parents(node, int(s))) for node in range(table.n) for s in largest
        )
    for node in range(table.n):
        for s, members in enumerate(table.members(node)):
            table.scores[node, s] = score.local_score(node, members[members >= 0].tolist())
        report("family scores", node + 1, table.n)


def _pieces(prefixes: Index, n: int) -> list[Index]:
    """Consecutive prefixes, cut so that each piece costs about the same."""
    if len(prefixes) < 2 * _CHUNKS:
        return [prefixes]
    cost = np.cumsum(n - prefixes[:, -1])
    cuts = np.searchsorted(cost, cost[-1] * np.arange(1, _CHUNKS) / _CHUNKS)
    return [piece for piece in np.split(prefixes, cuts) if len(piece)]
