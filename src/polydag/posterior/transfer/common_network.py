"""Tasks whose networks deviate from a common one, exactly, for few variables.

All tasks share an order. A variable has a set ρ of parents in the common network, with the structure prior,
and given ρ its parents in each task are drawn independently: a parent is dropped with probability d, and
another predecessor is added with probability a, chosen so that as many are added as dropped in the prior.
Sets of more than `max_parents` members are left out, and what remains is normalised:

    α_i(U) = Σ_{ρ ⊆ U} P(ρ) Π_k Σ_{π ⊆ U} exp(s_k(i, π)) P(π | ρ, U).

With probability one half, a variable has the same mechanism in all tasks instead: the parents ρ and the same
parameters, which are learned from all tasks' rows together. Everything is symmetric in the tasks, so that
there is one joint posterior of all of them, with an evidence that can be compared between values of d and
with that of separate networks. With `x = a/(1-a)`, `A = (1-d)/a` and `B = d/(1-a)`, the inner sum is `Σ_{T ⊆
ρ} (A-B)^|T| B^{|ρ|-|T|} S_U(T)` with `S_U(T)` the sum of `exp(s_k) x^|π|` over the sets between T and U, as
in the form of Theorem 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.errors import DataError
from polydag.posterior.exact import subset_lattice as lattice
from polydag.posterior.exact.order_posterior import exact_posterior
from polydag.posterior.families import subsets
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.memory import require_memory, usable_memory
from polydag.posterior.threads import jobs, run
from polydag.posterior.transfer.draws import SetsInside, draw_networks, picked
from polydag.posterior.transfer.family import require_alike, subset_tables
from polydag.posterior.transfer.joint_edges import JointEdges
from polydag.posterior.transfer.theorem1 import by_edge

_LEFT_OUT = 1e-6  # probability that sets of predecessors may have together that are left out
_PATIENCE = 300.0  # seconds beyond which joint sums are not chosen automatically


def prior_evidence(prior: FamilyTable) -> float:
    """The log of the sum of the prior's weights over all networks and orders."""
    grid = lattice.lattice(prior)
    return lattice.total(grid, lattice.scaled(prior, grid))


def one_network(
    prior: FamilyTable,
    tasks: Sequence[FamilyTable],
    shared: FamilyTable | None,
    log_prior: float,
    n_jobs: int = 1,
) -> JointEdges:
    """All tasks have the same network, with the same parameters for some variables; or there is one task.

    Parameters
    ----------
    tasks : sequence of FamilyTable
        The log scores of each task. None: all parameters are shared.
    shared : FamilyTable, optional
        The log scores of all tasks' rows together. None: no parameters are shared.
    """
    table = one_table(prior, tasks, shared)
    both = table.scores - np.where(np.isfinite(prior.scores), prior.scores, 0.0)
    found = exact_posterior(table, n_jobs=n_jobs)
    K, P = len(tasks), found.probabilities
    assert found.log_evidence is not None
    assert found.family_probabilities is not None
    part = np.ones_like(both)
    if shared is not None and K > 1:
        part = np.exp(shared.scores - math.log(2.0) - np.where(np.isfinite(both), both, 0.0))
        part[~np.isfinite(both)] = 0.0
    families = found.family_probabilities
    return JointEdges(
        found.log_evidence - log_prior,
        np.array([P] * K),
        np.broadcast_to(P, (K, K, *P.shape)),
        np.array([P]) if K == 1 else np.zeros((K, *P.shape)),
        P,
        P,
        families * (part if shared is not None or K == 1 else 0.0),
        families,
        np.array([families] * K),
    )


def one_table(prior: FamilyTable, tasks: Sequence[FamilyTable], shared: FamilyTable | None) -> FamilyTable:
    """The families of the network that all tasks have, with its prior."""
    own = np.sum([task.scores for task in tasks], axis=0)
    both = own if shared is None else np.logaddexp(own, shared.scores) - math.log(2.0)
    return prior.with_scores(prior.scores + both)


def added(prior: FamilyTable, dropped: float) -> float:
    """The probability with which a predecessor is added, so that as many are added as dropped."""
    edges = 0.0
    sizes = prior.sizes
    by_size = np.array([prior.scores[0][sizes == k].max() for k in range(prior.max_parents + 1)])
    finite = np.isfinite(by_size)
    for u in range(prior.n):
        weight = np.array([math.comb(u, k) for k in range(len(by_size))], dtype=float)
        weight[finite] *= np.exp(by_size[finite] - by_size[finite].max())
        weight[~finite] = 0.0
        edges += float(weight @ np.arange(len(weight)) / weight.sum()) if weight.sum() > 0 else 0.0
    pairs = prior.n * (prior.n - 1) / 2
    return float(np.clip(dropped * edges / max(pairs - edges, edges, 1e-6), 1e-6, 0.49))


class CommonNetwork:
    """The joint posterior of tasks whose networks deviate from a common one.

    Parameters
    ----------
    prior : FamilyTable
        The log prior of the common network's families.
    tasks : sequence of FamilyTable
        The log scores of each task, without structure prior but `-inf` where a family is ruled out.
    dropped : float
        The probability that a task lacks an edge of the common network, above 0 and below 1.
    log_prior : float
        `prior_evidence(prior)`.
    shared : FamilyTable, optional
        The log scores of all tasks' rows together; None if no variable has the same mechanism in all tasks.
    normal : sequence of FamilyTable
        The log prior weights of the tasks' families beyond those of the common network, where these are not
        0: one table for all tasks, or one for each. The tasks' scores have them already.
    n_jobs : int
        Threads; -1 for all processors.
    memory : float, optional
        Bytes that may be used; by default what is available.

    Attributes
    ----------
    log_evidence : float
        Of all tasks' rows, with a normalised prior of networks.
    """

    def __init__(
        self,
        prior: FamilyTable,
        tasks: Sequence[FamilyTable],
        dropped: float,
        log_prior: float,
        *,
        shared: FamilyTable | None = None,
        normal: Sequence[FamilyTable] = (),
        n_jobs: int = 1,
        memory: float | None = None,
    ) -> None:
        from polydag.posterior.transfer._transfer_kernels import order_sums

        require_alike([prior, *tasks])
        if prior.is_pruned:
            raise DataError("Joint probabilities of tasks need all variables as candidate parents.")
        require_joint_memory(prior.n, memory)
        self.prior, self.n_jobs, self.K = prior, n_jobs, len(tasks)
        self._moves, self._sets = Deviations.of(prior, dropped), SetsInside(prior)
        tilt = self._moves.log_x * prior.sizes
        self._scores = np.array([task.scores + tilt for task in tasks])
        normals = np.array([own.scores + tilt for own in normal])
        self._normal = normals.reshape(len(normal), *prior.scores.shape)
        self._log_z = np.zeros((prior.n, prior.max_parents + 1))
        if not len(normal):
            self._log_z = -self.K * self._moves.log_normaliser(prior.n)
        self._shared = np.full_like(prior.scores, -np.inf)
        if shared is not None:
            self._shared = shared.scores - math.log(2.0)
            self._log_z = self._log_z - math.log(2.0)
        self._alpha = np.empty((prior.n, 1 << (prior.n - 1)))
        self._visit(self._alpha, (), collect=False)
        self._F, self._B = np.empty(1 << prior.n), np.empty(1 << prior.n)
        order_sums(self._alpha, self._F, self._B)
        if not self._F[-1] > -np.inf:
            raise DataError("No order of the variables has an allowed parent set for every variable.")
        self.log_evidence = float(self._F[-1]) - log_prior

    def edges(self) -> JointEdges:
        """The joint probabilities of the tasks' edges."""
        table, n, K = self.prior, self.prior.n, self.K
        m = n - 1
        at, U = np.empty_like(self._alpha), np.arange(1 << m)
        for node in range(n):
            full = ((U >> node) << (node + 1)) | (U & ((1 << node) - 1))
            at[node] = self._F[full] + self._B[full | (1 << node)] - self._F[-1]
        sets = len(table.sets)
        shapes = ((K, m), (K, K, m), (K, m), (m,), (m,), (sets,), (sets,), (K, sets))
        found = [np.zeros((n, *shape)) for shape in shapes]
        self._visit(at, found, collect=True)
        marginal, together, unique, every, some, alike, equal, families = found
        pairs = np.zeros((K, K, n, n))
        for k in range(K):
            pairs[k, k] = by_edge(marginal[:, k], table)
            for j in range(k + 1, K):
                pairs[k, j] = pairs[j, k] = by_edge(together[:, k, j], table)
        return JointEdges(
            self.log_evidence,
            np.array([by_edge(marginal[:, k], table) for k in range(K)]),
            pairs,
            np.array([by_edge(unique[:, k], table) for k in range(K)]),
            by_edge(every, table),
            by_edge(some, table),
            alike,
            equal,
            np.ascontiguousarray(np.swapaxes(families, 0, 1)),
        )

    def sample(self, count: int, rng: np.random.Generator) -> Mask:
        """Adjacency matrices of shape (tasks, count, n, n), drawn together."""
        return draw_networks(self.prior, self._alpha, self._F, self._draw, self.K, count, rng)

    def _draw(self, node: int, U: int, count: int, rng: np.random.Generator) -> Index:
        """The sets of all tasks given a node's predecessors: first that of the common network."""
        moves, inside = self._moves, self._sets.inside(U)
        log_prior = self.prior.scores[node][inside]
        own = log_prior + self._log_z[U.bit_count()][self.prior.sizes[inside]]
        for scores in self._scores:
            own = own + self._sets.log_sums(scores[node], inside, moves.c)
        for scores in self._normal:
            times = self.K if len(self._normal) == 1 else 1
            own = own - times * self._sets.log_sums(scores[node], inside, moves.c)
        alike = log_prior + self._shared[node][inside]
        place = picked(np.concatenate([alike, own]), count, rng)
        chosen = np.empty((self.K, count), dtype=np.int64)
        for p in np.unique(place):
            where = np.flatnonzero(place == p)
            s = int(inside[p % len(inside)])
            if p < len(inside):
                chosen[:, where] = s
                continue
            common = self._sets.common(inside, s)
            factor = common * math.log(moves.A) + (self.prior.sizes[s] - common) * math.log(moves.B)
            for k, scores in enumerate(self._scores):
                chosen[k, where] = inside[picked(scores[node][inside] + factor, len(where), rng)]
        return chosen

    def _visit(self, at: Array, found: Sequence[Array], collect: bool) -> None:
        from polydag.posterior.transfer._common_network_kernels import visit_common

        table, moves = self.prior, self._moves
        m, top = table.n - 1, table.max_parents
        numbers, members = subset_tables(table)
        shape = (subsets.offsets(m, top), subsets.binomials(m, top))
        cutoff = math.log(_LEFT_OUT) - m * math.log(2.0)
        flat, vector = np.zeros((1, 1)), np.zeros(1)
        nothing = (flat, np.zeros((1, 1, 1)), flat, vector, vector, vector, vector, flat)
        equal = (*moves.equal(self.K),)

        def visit(node: int) -> None:
            visit_common(
                m, top, table.sets, table.sizes, numbers, members, *shape, table.scores[node],
                np.ascontiguousarray(self._scores[:, node]), np.ascontiguousarray(self._normal[:, node]),
                self._shared[node], moves.c, moves.within, *equal, self._log_z, cutoff, collect,
                at[node], self._alpha[node],
                *([part[node] for part in found] if collect else nothing),
            )  # fmt: skip

        for _ in run(visit, list(range(table.n)), jobs(self.n_jobs)):
            pass


@dataclass(frozen=True, eq=False)
class Deviations:
    """How a task's parent set deviates from that of the common network, in the terms of the sums.

    Attributes
    ----------
    log_x : float
        log a/(1-a), the factor of each parent.
    c : array of shape (max_parents + 1, max_parents + 1)
        `(A-B)^t B^(p-t)` at `[p, t]`.
    within : array of shape (max_parents + 1, max_parents + 1)
        The same for the sets that have a certain member of ρ: `A (A-B)^(t-1) B^(p-t)`.
    """

    log_x: float
    c: Array
    within: Array
    A: float
    B: float

    def equal(self, tasks: int) -> tuple[Array, float]:
        """`c` where so many tasks have the same set, over the power p of a factor, and the log of that."""
        p, t = np.indices(self.c.shape)
        ratio = (self.B / self.A) ** tasks
        c = np.where(t <= p, (1.0 - ratio) ** t * ratio ** np.maximum(p - t, 0), 0.0)
        return c, tasks * math.log(self.A)

    @classmethod
    def of(cls, prior: FamilyTable, dropped: float) -> Deviations:
        """Parents are dropped with a probability, and as many are added."""
        a, top = added(prior, dropped), prior.max_parents
        A, B = (1 - dropped) / a, dropped / (1 - a)
        p, t = np.indices((top + 1, top + 1))
        c = np.where(t <= p, (A - B) ** t * B ** np.maximum(p - t, 0), 0.0)
        within = np.where(t > 0, c * A / (A - B), 0.0)
        return cls(math.log(a / (1 - a)), c, within, A, B)

    def log_normaliser(self, n: int) -> Array:
        """`log Σ_π x^|π| A^|ρ∩π| B^|ρ\\π|` for every number of predecessors and size of ρ."""
        top, x = len(self.c) - 1, math.exp(self.log_x)
        result = np.zeros((n, top + 1))
        for u in range(n):
            for p in range(min(u, top) + 1):
                terms = (
                    math.comb(p, i) * math.comb(u - p, j) * x ** (i + j) * self.A**i * self.B ** (p - i)
                    for i in range(p + 1)
                    for j in range(min(u - p, top - i) + 1)
                )
                result[u, p] = math.log(math.fsum(terms))
        return result


def joint_fits(n: int, tasks: int, max_parents: int, limit: float | None = None) -> bool:
    """Whether the joint posterior of n variables fits into memory and takes some minutes at most."""
    have = usable_memory() if limit is None else limit
    sets = sum(math.comb(n // 2, k) * 2.0**k for k in range(max_parents + 1))
    return n < 30 and memory_needed(n) <= have and 2e-9 * n * 2.0**n * sets * tasks * (tasks + 1) <= _PATIENCE


def require_joint_memory(n: int, limit: float | None = None) -> None:
    """Raise if n variables do not fit into memory."""

    def fits(have: float) -> str:
        most = max((k for k in range(1, 40) if memory_needed(k) <= have), default=0)
        return f"Up to {most} variables fit. Use method='mcmc' for more"

    require_memory(memory_needed(min(n, 200)), f"The joint posterior of {n} variables", fits, limit)


def memory_needed(n: int) -> float:
    """Bytes that the joint posterior takes for n variables."""
    return 8.0 * (3 * n * 2.0 ** (n - 1) + 2 * 2.0**n)
