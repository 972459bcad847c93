"""Transfer in the form of Theorem 1 of the tasks paper, exact, for few variables.

All tasks share an order, and the parent sets of a variable lie inside the same set U of its predecessors:

    α_i(U) = Σ_{π ⊆ U} β_k(i, π) Π_{j≠k} Σ_{π' ⊆ U} exp(s_j(i, π')) f(|U|, |π \\ π'|),

k being the task in question. Given the order, families of all tasks are independent between variables, so
that probabilities of features of several tasks are exact: that an edge is in one task and not in another.
The walk over all U keeps the other tasks' sums S_U(T) up to date; it is linear in the number of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.discovery import subsets
from polydag.discovery.families import FamilyTable
from polydag.discovery.memory import require_memory
from polydag.discovery.threads import jobs, run
from polydag.discovery.transfer.family import require_alike, require_combination, subset_tables
from polydag.discovery.transfer.weights import TransferPrior, own_marginal
from polydag.errors import DataError
from polydag.posterior import Posterior
from polydag.progress import report

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Joint:
    """What is known of one task together with the others; `[i, j]` is about `i -> j`.

    Attributes
    ----------
    posterior : Posterior
        Of the task's own edges and families.
    together : array of shape (tasks - 1, n, n)
        The probability that the edge is in the task and in each other task.
    unique : array of shape (n, n)
        That it is in the task and in no other.
    shared : array of shape (n, n)
        That all tasks have it.
    """

    posterior: Posterior
    together: Array
    unique: Array
    shared: Array


def theorem1(
    own: FamilyTable,
    others: Sequence[FamilyTable],
    prior: TransferPrior,
    combination: str = "star",
    *,
    n_jobs: int = 1,
    memory: float | None = None,
) -> Joint:
    """The posterior of one task's edges, given all tasks.

    Parameters
    ----------
    own : FamilyTable
        The task's log scores, with the structure prior in them.
    others : sequence of FamilyTable
        The other tasks' log scores, without it.
    prior, combination
        As in `family_form`; the prior depends on |U|.
    n_jobs : int
        Threads; -1 for as many as there are processors.
    memory : float, optional
        Bytes that may be used; what is available by default.
    """
    from polydag.discovery.transfer import _kernels

    require_alike([own, *others])
    require_combination(combination)
    n, m, top, tasks = own.n, own.candidates.shape[1], own.max_parents, len(others)
    if own.is_pruned:
        raise DataError("The Theorem-1 form needs all variables as candidate parents.")
    require_fit(n, memory)
    numbers, members = subset_tables(own)
    c, g, u_scale = _by_size(prior, m, top, tasks, combination)
    shape = (subsets.offsets(m, top), subsets.binomials(m, top))
    alpha = np.empty((n, 1 << m))
    family = np.zeros_like(own.scores)
    together, unique, shared = np.zeros((n, tasks, m)), np.zeros((n, m)), np.zeros((n, m))
    log_h = np.empty((n, 1 << m))

    def visit(task: tuple[int, bool]) -> None:
        node, collect = task
        said = np.array([other.scores[node] for other in others])
        _kernels.walk(
            m, top, own.sets, own.sizes, numbers, members, *shape, own.scores[node], said, c, g, u_scale,
            log_h[node], collect, alpha[node], family[node], together[node], unique[node], shared[node],
        )  # fmt: skip

    threads = jobs(n_jobs)
    for done, _ in enumerate(run(visit, [(node, False) for node in range(n)], threads), start=1):
        report("families given predecessors", done, n)
    F, B = np.empty(1 << n), np.empty(1 << n)
    _kernels.orders(alpha, F, B)
    if not F[-1] > -np.inf:
        raise DataError("No order of the variables has an allowed parent set for every variable.")
    _weights(F, B, log_h)
    for done, _ in enumerate(run(visit, [(node, True) for node in range(n)], threads), start=1):
        report("posterior of families", done, n)
    posterior = Posterior(
        names=own.names,
        probabilities=np.clip(own.edge_sums(family), 0.0, 1.0),
        method="exact",
        candidates=own.candidates,
        sets=own.sets,
        family_probabilities=family,
        log_evidence=float(F[-1]),
    )
    return Joint(
        posterior,
        np.array([_by_edge(together[:, j], own) for j in range(tasks)]),
        _by_edge(unique, own),
        _by_edge(shared, own),
    )


def _by_size(
    prior: TransferPrior, m: int, top: int, tasks: int, combination: str
) -> tuple[Array, Array, Array]:
    """c(u, p, t) and what a task's own size counts for, as plain numbers up to a factor of each u."""
    c, g = np.zeros((m + 1, top + 1, top + 1)), np.ones((m + 1, top + 1))
    scale = np.zeros(m + 1)
    for u in range(m + 1):
        log_c = prior.subsets(u, top)
        c[u] = np.exp(log_c - log_c[0, 0])
        scale[u] = tasks * log_c[0, 0]
        if combination == "star" and tasks > 1:
            marginal = own_marginal(log_c, u)
            g[u] = np.where(np.isfinite(marginal), np.exp((tasks - 1) * (marginal[0] - marginal)), 0.0)
            scale[u] -= (tasks - 1) * marginal[0]
    return c, g, scale


def _weights(F: Array, B: Array, log_h: Array) -> None:
    """`log F(U) B(U + i) / F(V)` for every node i and every U without it, whose bit i is taken out."""
    n = len(log_h)
    for node in range(n):
        U = np.arange(1 << (n - 1))
        full = ((U >> node) << (node + 1)) | (U & ((1 << node) - 1))
        log_h[node] = F[full] + B[full | (1 << node)] - F[-1]


def _by_edge(values: Array, table: FamilyTable) -> Array:
    """`[node, position]` to `[i, j]` for `i -> j`."""
    result = np.zeros((table.n, table.n))
    for node in range(table.n):
        result[table.candidates[node], node] = np.clip(values[node], 0.0, 1.0)
    return result


def memory_needed(n: int) -> float:
    """Bytes that the Theorem-1 form takes for n variables."""
    return 8.0 * (2 * n * 2.0 ** (n - 1) + 2 * 2.0**n)


def require_fit(n: int, limit: float | None = None) -> None:
    """Raise when n variables are too many for the memory."""

    def fits(have: float) -> str:
        most = max((k for k in range(1, 40) if memory_needed(k) <= have), default=0)
        return f"Up to {most} variables fit. Use transfer='family' for more"

    require_memory(memory_needed(min(n, 200)), f"The Theorem-1 form for {n} variables", fits, limit)
