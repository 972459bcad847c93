"""Joint probabilities of the edges of several tasks, and how those of groups of tasks are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from polydag.arrays import Array, Index
from polydag.posterior.probabilities import either_way


@dataclass(frozen=True, eq=False)
class JointEdges:
    """Joint probabilities of the edges of some tasks; `[i, j]` is about `i -> j`.

    Attributes
    ----------
    log_evidence : float
        Of all tasks' rows, with a normalised prior of networks.
    edges : array of shape (tasks, n, n)
        That the edge is in each task.
    together : array of shape (tasks, tasks, n, n)
        That it is in both of two tasks.
    unique : array of shape (tasks, n, n)
        That it is in this task and in no other of them.
    shared, some : arrays of shape (n, n)
        That it is in all tasks, in at least one.
    alike : array of shape (n, sets)
        That all tasks have these parents of a variable, and the same parameters.
    equal : array of shape (n, sets)
        That all tasks have these parents, with the same parameters or not.
    families : array of shape (tasks, n, sets)
        The probability of each parent set of each variable in each task.
    """

    log_evidence: float
    edges: Array
    together: Array
    unique: Array
    shared: Array
    some: Array
    alike: Array
    equal: Array
    families: Array


def repeated(found: JointEdges, K: int) -> JointEdges:
    """One network for all of K tasks."""
    P = found.shared
    return JointEdges(
        found.log_evidence,
        np.array([P] * K),
        np.broadcast_to(P, (K, K, *P.shape)),
        np.zeros((K, *P.shape)),
        P,
        P,
        found.equal,
        found.equal,
        np.repeat(found.families, K, axis=0),
    )


def with_connections(found: JointEdges) -> tuple[JointEdges, JointEdges]:
    """The same of edges, and of connections, for tasks that share an order: edges exclude their reverses."""

    def either(P: Array) -> Array:
        return np.triu(either_way(P), 1)

    return found, replace(
        found,
        edges=either(found.edges),
        together=either(found.together),
        unique=either(found.unique),
        shared=either(found.shared),
        some=either(found.some),
    )


def in_order(found: JointEdges, order: Index) -> JointEdges:
    """The same with the tasks in another order."""
    return replace(
        found,
        edges=found.edges[order],
        together=found.together[np.ix_(order, order)],
        unique=found.unique[order],
        families=found.families[order],
    )


def independent(first: JointEdges, second: JointEdges) -> JointEdges:
    """Two groups that know nothing of each other."""
    edges = np.concatenate([first.edges, second.edges])
    a, K = len(first.edges), len(edges)
    together = np.empty((K, K, *edges.shape[1:]))
    together[:a, :a], together[a:, a:] = first.together, second.together
    across = first.edges[:, None] * second.edges[None]
    together[:a, a:], together[a:, :a] = across, np.swapaxes(across, 0, 1)
    return JointEdges(
        first.log_evidence + second.log_evidence,
        edges,
        together,
        np.concatenate([first.unique * (1 - second.some), second.unique * (1 - first.some)]),
        first.shared * second.shared,
        1.0 - (1 - first.some) * (1 - second.some),
        np.zeros_like(first.alike),
        first.equal * second.equal,
        np.concatenate([first.families, second.families]),
    )


def averaged(parts: Sequence[tuple[float, JointEdges]]) -> JointEdges:
    """The mean of several, by their weights."""
    total = sum(weight for weight, _ in parts)
    names = [field.name for field in fields(JointEdges)]
    return JointEdges(*(sum(w / total * getattr(j, field) for w, j in parts) for field in names))
