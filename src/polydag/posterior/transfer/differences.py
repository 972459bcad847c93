"""Which tasks contain an edge: all, one and no other, one and not another.

`[k, i, j]` is the probability that `i -> j` is in task k. Tasks around a common network, and the form of
Theorem 1, have joint probabilities of several tasks; otherwise tasks are treated as independent given their
marginals, and the result says so.

Where the data do not determine directions, directed edges differ between tasks by chance. `connections` is
about edges in either direction, of which a task has at most one, so that their probabilities add up. In the
form of Theorem 1 all tasks share an order, so that two of them cannot have the same connection in opposite
directions, and probabilities of several tasks add up as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from polydag.arrays import Array
from polydag.posterior.probabilities import either_way
from polydag.posterior.transfer.joint_edges import JointEdges
from polydag.posterior.transfer.relatedness import Related
from polydag.posterior.transfer.theorem1 import Joint

if TYPE_CHECKING:
    import pandas as pd

JOINT, PRODUCT, POOLED = "joint", "product of marginals", "one network for all"


@dataclass(frozen=True, eq=False)
class Differences:
    """Probabilities of which tasks contain an edge.

    Attributes
    ----------
    names : tuple of str
        The variables.
    tasks : tuple of str
        The tasks.
    edges : array of shape (tasks, n, n)
        The probability that an edge is in each task.
    unique : array of shape (tasks, n, n)
        That it is in this task and in no other.
    shared : array of shape (n, n)
        That it is in all tasks; the smallest of the views, where each task has its own.
    views : array of shape (tasks, n, n)
        The same from the view of each task. None where there is only one view.
    together : array of shape (tasks, tasks, n, n)
        That it is in both of two tasks, from the view of the first. None where marginals are multiplied,
        since it would be large for many tasks.
    basis : {"joint", "product of marginals", "one network for all"}
        How the probabilities were computed.
    directed : bool
        Whether they are about edges, or about connections, which are in the upper triangle.
    altered : array of shape (n, n), optional
        That all tasks have the edge among the same parents, with other strengths.
    either : Differences, optional
        Those of connections, where they do not follow from those of edges.
    """

    names: tuple[str, ...]
    tasks: tuple[str, ...]
    edges: Array
    unique: Array
    shared: Array
    basis: str
    views: Array | None = None
    together: Array | None = None
    directed: bool = True
    altered: Array | None = None
    either: Differences | None = None

    def connections(self) -> Differences:
        """The same for edges in either direction."""
        if self.either is not None:
            return self.either
        edges = _connections(self.edges)
        if self.basis == PRODUCT:
            return replace(from_marginals(self.names, self.tasks, edges), directed=False)
        views = None if self.views is None else _connections(self.views)
        return replace(
            self,
            edges=edges,
            unique=_connections(self.unique),
            shared=_connections(self.shared) if views is None else views.min(axis=0),
            views=views,
            together=None if self.together is None else _connections(self.together),
            directed=False,
        )

    def table(self) -> pd.DataFrame:
        """One row for each pair of variables; those most probably in only one task come first.

        Columns: source and target (for connections first and second), `in <task>` for each task, shared,
        `other strengths` where these are learned, `only in <task>` for each task, basis; and
        `shared from <task>` where each task has its own view.
        """
        return self._table(self.tasks, self.edges, self.shared, self.unique, self.views, self.altered)

    def pair(self, first: int, second: int) -> pd.DataFrame:
        """The same for two of the tasks: `only in <first>` is in the first and not in the second."""
        a, b = self.edges[first], self.edges[second]
        tasks = (self.tasks[first], self.tasks[second])
        if self.together is None:
            both = np.minimum(a, b) if self.basis == POOLED else a * b
            return self._table(tasks, np.array([a, b]), both, np.array([a - both, b - both]))
        views = np.array([self.together[first, second], self.together[second, first]])
        only = np.clip(np.array([a, b]) - views, 0.0, 1.0)
        return self._table(tasks, np.array([a, b]), views.min(axis=0), only, views)

    def _table(
        self,
        tasks: Sequence[str],
        edges: Array,
        shared: Array,
        unique: Array,
        views: Array | None = None,
        altered: Array | None = None,
    ) -> pd.DataFrame:
        import pandas as pd

        pairs = np.ones((len(self.names),) * 2, dtype=bool)
        i, j = np.nonzero(pairs & ~np.eye(len(pairs), dtype=bool) if self.directed else np.triu(pairs, 1))
        labels = np.array(self.names, dtype=object)
        ends = ("source", "target") if self.directed else ("first", "second")
        columns: dict[str, object] = {ends[0]: labels[i], ends[1]: labels[j]}
        columns |= {f"in {task}": edges[k, i, j] for k, task in enumerate(tasks)}
        columns["shared"] = shared[i, j]
        if altered is not None:
            columns["other strengths"] = altered[i, j]
        columns |= {f"only in {task}": unique[k, i, j] for k, task in enumerate(tasks)}
        columns["basis"] = self.basis
        if views is not None:
            columns |= {f"shared from {task}": views[k, i, j] for k, task in enumerate(tasks)}
        order = np.argsort(-unique[:, i, j].max(axis=0), kind="stable")
        return pd.DataFrame(columns).iloc[order].reset_index(drop=True)


def _connections(P: Array) -> Array:
    """An edge or its reverse, in the upper triangle."""
    return np.triu(either_way(P), 1)


def from_marginals(names: tuple[str, ...], tasks: tuple[str, ...], edges: Array) -> Differences:
    """Differences if tasks are independent given their marginals."""
    absent = 1.0 - edges
    # Products over all other tasks, from both ends, since a division might be by 0.
    ones = np.ones((1, *edges.shape[1:]))
    before = np.concatenate([ones, np.cumprod(absent, axis=0)[:-1]])
    after = np.concatenate([np.cumprod(absent[::-1], axis=0)[-2::-1], ones])
    return Differences(names, tasks, edges, edges * before * after, edges.prod(axis=0), PRODUCT)


def from_pool(names: tuple[str, ...], tasks: tuple[str, ...], edges: Array) -> Differences:
    """Differences of one network for all tasks: there are none."""
    return Differences(names, tasks, edges, np.zeros_like(edges), edges[0], POOLED)


def from_related(names: tuple[str, ...], tasks: tuple[str, ...], found: Related) -> Differences:
    """Differences of tasks whose relatedness was learned: one joint posterior of all of them."""

    altered = found.altered()

    def of(joint: JointEdges, directed: bool) -> Differences:
        return Differences(
            names, tasks, joint.edges, joint.unique, joint.shared, JOINT, None, joint.together, directed,
            altered if directed else _connections(altered),
        )  # fmt: skip

    return replace(of(found.edges, True), either=of(found.connections, False))


def from_joint(names: tuple[str, ...], tasks: tuple[str, ...], views: Sequence[Joint]) -> Differences:
    """Differences from each task's view of itself and the others.

    The prior of Theorem 1 penalises what the task in question adds to the others, so each task has a joint
    posterior of its own. What is only in a task is taken from that task's view; what all tasks share is
    listed from every view, and as the smallest of them.
    """
    K, n = len(tasks), len(names)
    together = np.zeros((K, K, n, n))
    for k, view in enumerate(views):
        others = [j for j in range(K) if j != k]
        together[k, others] = view.together
        together[k, k] = view.posterior.probabilities
    shared = np.array([view.shared for view in views])
    return Differences(
        names,
        tasks,
        np.array([view.posterior.probabilities for view in views]),
        np.array([view.unique for view in views]),
        shared.min(axis=0),
        JOINT,
        shared,
        together,
    )
