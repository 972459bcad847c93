"""Transfer in the form of Theorem 1 of the tasks paper, exact, for few variables.

All tasks share an order, and the parent sets of a variable lie inside the same set U of its predecessors:

    α_i(U) = Σ_{π ⊆ U} β_k(i, π) Π_{j≠k} Σ_{π' ⊆ U} exp(s_j(i, π')) f(|U|, |π \\ π'|),

where k is the task in question. Given the order, the families of all tasks are independent between variables,
so that joint probabilities of several tasks are exact, for example that an edge is in one task and not in
another. One pass over all U updates the sums S_U(T) of every task and serves all tasks, so that its work is
linear in their number. Only the products for pairs of tasks, K² numbers for each edge, are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index
from polydag.computing.progress import report
from polydag.errors import DataError
from polydag.posterior.dags.drawing import check_count
from polydag.posterior.dags.samples import DagSamples
from polydag.posterior.families import subsets
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.memory import require_memory
from polydag.posterior.threads import jobs, run
from polydag.posterior.transfer.draws import SetsInside, TaskPosterior, draw_networks, packed, picked
from polydag.posterior.transfer.family import require_alike, require_combination, subset_tables
from polydag.posterior.transfer.weights import TransferPrior, own_marginal


@dataclass(frozen=True, eq=False)
class Joint:
    """One task's posterior together with the other tasks; `[i, j]` is about `i -> j`.

    Attributes
    ----------
    posterior : TaskPosterior
        Of the task's own edges and families.
    together : array of shape (tasks - 1, n, n)
        The probability that the edge is in the task and in each other task.
    unique : array of shape (n, n)
        That it is in the task and in no other.
    shared : array of shape (n, n)
        That it is in all tasks.
    """

    posterior: TaskPosterior
    together: Array
    unique: Array
    shared: Array


def theorem1(
    own: Sequence[FamilyTable],
    sources: Sequence[FamilyTable],
    prior: TransferPrior,
    combination: str = "star",
    *,
    n_jobs: int = 1,
    memory: float | None = None,
) -> list[Joint]:
    """The posterior of every task's edges given all tasks: one view for each task.

    Parameters
    ----------
    own, sources, prior, combination
        As in `family_form`; the prior depends on |U|.
    n_jobs : int
        Threads; -1 for all processors.
    memory : float, optional
        Bytes that may be used; by default what is available.
    """
    from polydag.posterior.transfer import _transfer_kernels as _kernels

    require_alike([*own, *sources])
    require_combination(combination)
    table, tasks = own[0], len(own)
    n, m, top = table.n, table.candidates.shape[1], table.max_parents
    if table.is_pruned:
        raise DataError("The Theorem-1 form needs all variables as candidate parents.")
    require_joint_fit(n, tasks, memory)
    numbers, members = subset_tables(table)
    c, log_g = _by_size(prior, m, top, tasks, combination)
    shape = (subsets.offsets(m, top), subsets.binomials(m, top))
    at = np.empty((n, tasks, 1 << m))
    family = np.zeros((n, tasks, len(table.sets)))
    together = np.zeros((n, tasks, tasks, m))
    unique, shared = np.zeros((n, tasks, m)), np.zeros((n, tasks, m))

    def visit(task: tuple[int, bool]) -> None:
        node, collect = task
        scores, source_scores = (np.array([t.scores[node] for t in tables]) for tables in (own, sources))
        _kernels.visit_sets(
            m, top, table.sets, table.sizes, numbers, members, *shape,
            scores, source_scores, c, log_g, collect,
            at[node], family[node], together[node], unique[node], shared[node],
        )  # fmt: skip

    networks = [Theorem1Networks(own, sources, prior, combination, k) for k in range(tasks)]
    threads = jobs(n_jobs)
    for done, _ in enumerate(run(visit, [(node, False) for node in range(n)], threads), start=1):
        report("families given predecessors", done, n)
    evidence = [_weights(at[:, k]) for k in range(tasks)]
    for done, _ in enumerate(run(visit, [(node, True) for node in range(n)], threads), start=1):
        report("posterior of families", done, n)
    views = []
    for k in range(tasks):
        posterior = TaskPosterior(
            names=table.names,
            probabilities=np.clip(table.edge_sums(family[:, k]), 0.0, 1.0),
            method="exact",
            candidates=table.candidates,
            sets=table.sets,
            family_probabilities=family[:, k],
            log_evidence=evidence[k],
            networks=networks[k],
            task=k,
        )
        others = [by_edge(together[:, k, j], table) for j in range(tasks) if j != k]
        views.append(
            Joint(
                posterior,
                np.array(others).reshape(-1, n, n),
                by_edge(unique[:, k], table),
                by_edge(shared[:, k], table),
            )
        )
    return views


@dataclass(frozen=True, eq=False)
class Theorem1Networks:
    """The networks of all tasks from the view of one of them; arguments are as in `theorem1`."""

    own: Sequence[FamilyTable]
    sources: Sequence[FamilyTable]
    prior: TransferPrior
    combination: str
    view: int

    def sample(self, count: int, random_state: int | None = None) -> list[DagSamples]:
        """For each task as many DAGs; those at the same place were drawn together."""
        from polydag.posterior.transfer import _transfer_kernels as _kernels

        check_count(count)
        table, tasks, rng = self.own[0], len(self.own), np.random.default_rng(random_state)
        n, m, top = table.n, table.n - 1, table.max_parents
        c, log_g = _by_size(self.prior, m, top, tasks, self.combination)
        inside_of = SetsInside(table)
        numbers, members = subset_tables(table)
        shape = (subsets.offsets(m, top), subsets.binomials(m, top))
        nothing = (np.zeros((1, 1)), np.zeros((1, 1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))
        alpha = np.empty((n, tasks, 1 << m))

        def weights(node: int, U: int) -> tuple[Index, Array]:
            u, inside = U.bit_count(), inside_of.inside(U)
            logs = self.own[self.view].scores[node][inside] + log_g[u][table.sizes[inside]]
            for j, source in enumerate(self.sources):
                if j != self.view:
                    logs = logs + inside_of.log_sums(source.scores[node], inside, c[u])
            return inside, logs

        def draw(node: int, U: int, size: int, rng: np.random.Generator) -> Index:
            inside, logs = weights(node, U)
            chosen = np.empty((tasks, size), dtype=np.int64)
            chosen[self.view] = inside[picked(logs, size, rng)]
            with np.errstate(divide="ignore"):
                log_f = np.log(c[U.bit_count(), :, 0])
            for s in np.unique(chosen[self.view]):
                where = np.flatnonzero(chosen[self.view] == s)
                lacking = table.sizes[s] - inside_of.common(inside, int(s))
                for j, source in enumerate(self.sources):
                    if j != self.view:
                        own = source.scores[node][inside] + log_f[lacking]
                        chosen[j, where] = inside[picked(own, len(where), rng)]
            return chosen

        for node in range(n):
            scores, source_scores = (
                np.array([t.scores[node] for t in tables]) for tables in (self.own, self.sources)
            )
            _kernels.visit_sets(
                m, top, table.sets, table.sizes, numbers, members, *shape,
                scores, source_scores, c, log_g, False, alpha[node], *nothing,
            )  # fmt: skip
        F, B = np.empty(1 << n), np.empty(1 << n)
        own_alpha = np.ascontiguousarray(alpha[:, self.view])
        _kernels.order_sums(own_alpha, F, B)
        return packed(table.names, draw_networks(table, own_alpha, F, draw, tasks, count, rng))


def _by_size(prior: TransferPrior, m: int, top: int, tasks: int, combination: str) -> tuple[Array, Array]:
    """c(u, p, t) as plain numbers up to a factor of each u; log g(u, p) has that factor and the star's."""
    c, log_g = np.zeros((m + 1, top + 1, top + 1)), np.zeros((m + 1, top + 1))
    for u in range(m + 1):
        log_c = prior.subsets(u, top)
        c[u] = np.exp(log_c - log_c[0, 0])
        log_g[u] = (tasks - 1) * log_c[0, 0]
        if combination == "star" and tasks > 2:
            marginal = own_marginal(log_c, u)
            log_g[u] -= (tasks - 2) * np.where(np.isfinite(marginal), marginal, 0.0)  # no set is larger
    return c, log_g


def _weights(at: Array) -> float:
    """Replace `log α_i(U)` at `[i, U]` by `log F(U) B(U + i) / F(V)`; returns log F(V)."""
    from polydag.posterior.transfer import _transfer_kernels as _kernels

    n = len(at)
    F, B = np.empty(1 << n), np.empty(1 << n)
    _kernels.order_sums(at, F, B)
    if not F[-1] > -np.inf:
        raise DataError("No order of the variables has an allowed parent set for every variable.")
    for node in range(n):
        U = np.arange(1 << (n - 1))
        full = ((U >> node) << (node + 1)) | (U & ((1 << node) - 1))
        at[node] = F[full] + B[full | (1 << node)] - F[-1]
    return float(F[-1])


def by_edge(values: Array, table: FamilyTable) -> Array:
    """Values at `[node, position]` rearranged to `[i, j]` for `i -> j`."""
    result = np.zeros((table.n, table.n))
    for node in range(table.n):
        result[table.candidates[node], node] = np.clip(values[node], 0.0, 1.0)
    return result


def memory_needed(n: int, tasks: int) -> float:
    """Bytes that the Theorem-1 form takes for n variables."""
    return 8.0 * (tasks * n * 2.0 ** (n - 1) + 2 * 2.0**n)


def require_joint_fit(n: int, tasks: int, limit: float | None = None) -> None:
    """Raise if n variables do not fit into memory."""

    def fits(have: float) -> str:
        most = max((k for k in range(1, 40) if memory_needed(k, tasks) <= have), default=0)
        return f"Up to {most} variables fit. Use transfer='family' for more"

    what = f"The Theorem-1 form for {n} variables, {tasks} tasks,"
    require_memory(memory_needed(min(n, 200), tasks), what, fits, limit)
