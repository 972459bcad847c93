"""The sampler of orders that all tasks of a group share, summed over the ways in which they go together.

Given an order, tasks of one population, of the same network and of networks that deviate from a common one
have weights that are products over the variables. The target is their sum, with the prior of each way, so
that chains move between orders only, and the probability of a way follows from the orders that they visit.

Moves are made with a shortlist of families (`shortlist`), which takes a small part of the time. Several of
them together are a proposal, accepted by the Metropolis-Hastings rule with the sums over all families (the
surrogate transition method: Liu 2001, Monte Carlo Strategies in Scientific Computing, section 9.4.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.posterior.families import subsets
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.joint_chains.shortlist import every_family, shortlist
from polydag.posterior.mcmc.sampler import Info, Record
from polydag.posterior.orders.space import random_order
from polydag.posterior.transfer.common_network import Deviations
from polydag.posterior.transfer.draws import picked
from polydag.posterior.transfer.family import require_alike, subset_tables
from polydag.posterior.transfer.joint_edges import JointEdges
from polydag.posterior.transfer.relatedness import ONE, RELATED, RELATED_OWN, SAME, SAME_OWN

WAYS = (ONE, SAME, SAME_OWN, RELATED, RELATED_OWN)
_KEPT = 2**17  # sums in the table of each sampler
_LEFT_OUT = 1e-3  # largest share of common families that are left out of the edges' probabilities
_TOGETHER = 40  # moves that are accepted or rejected together


class SharedOrder(NamedTuple):
    """An order, and the log weight of each way given it."""

    position: Index
    ways: Array

    @property
    def log_weight(self) -> float:
        """The log of the sum over the ways."""
        return float(np.logaddexp.reduce(self.ways))


@dataclass(frozen=True, eq=False)
class SharedOrders:
    """A Markov chain of orders that several tasks share (see `polydag.posterior.mcmc.sampler`).

    Attributes
    ----------
    prior : FamilyTable
        The log prior of the common network's families.
    tasks : sequence of FamilyTable
        The log scores of each task, without structure prior but `-inf` where a family is ruled out.
    ways : sequence of float
        The prior probabilities of "one population", "same network", "same network, own strengths", "related
        networks", "related networks, own strengths", in this order; those without `pooled` are 0.
    pooled : FamilyTable, optional
        The log scores of all tasks' rows together.
    normal : sequence of FamilyTable
        At most one: as in `CommonNetwork`.
    dropped : float
        The probability that a task lacks an edge of the common network.
    moves : int
        Relocations of a step.
    power : float
        The target is the weight of an order to this power.
    """

    prior: FamilyTable
    tasks: Sequence[FamilyTable]
    ways: Sequence[float]
    dropped: float
    pooled: FamilyTable | None = None
    normal: Sequence[FamilyTable] = ()
    moves: int = 1
    power: float = 1.0

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.prior.n

    @property
    def traced(self) -> int:
        """How many probabilities a record has."""
        return traced(self.n, len(self.tasks))

    def configured(self, *, moves: int, power: float = 1.0) -> SharedOrders:
        """The sampler with so many relocations a step and another power."""
        new = replace(self, moves=moves, power=power)
        new.__dict__.update(_model=self._model, _few=self._few)  # which depend on neither
        return new

    def random_position(self, rng: np.random.Generator) -> Index:
        """A random order that has a positive weight."""
        return random_order(self.prior, rng)

    def init(self, position: Index) -> SharedOrder:
        """The state of an order."""
        from polydag.posterior.joint_chains._shared_order_kernels import ways_of_order

        order = np.ascontiguousarray(position, dtype=np.int64)
        return SharedOrder(order, ways_of_order(order, *self._arguments))

    def step(self, rng: np.random.Generator, state: SharedOrder) -> tuple[SharedOrder, Info]:
        """Relocations; the acceptance is the share of them that changed the place of their variable."""
        moved = 0
        for begin in range(0, self.moves, _TOGETHER):
            state, changed = self._moved(rng, state, min(_TOGETHER, self.moves - begin))
            moved += changed
        return state, Info(moved / self.moves)

    def _moved(self, rng: np.random.Generator, state: SharedOrder, count: int) -> tuple[SharedOrder, int]:
        """Relocations that are accepted or rejected together, and how many changed a place.

        Variables are drawn independently, so that relocations in sequence are reversible with respect to
        their own target.
        """
        from polydag.posterior.joint_chains._shared_order_kernels import relocate, ways_of_order, whole

        order = state.position.copy()
        nodes, uniforms = rng.integers(0, self.n, count), rng.random(count)
        before = whole(ways_of_order(order, *self._surrogate))
        moved = int(relocate(order, nodes, uniforms, self.power, *self._surrogate))
        if not moved:
            return state, 0
        new = self.init(order)
        proposed = whole(ways_of_order(order, *self._surrogate)) - before
        log_ratio = self.power * (new.log_weight - state.log_weight - proposed)
        accepted = log_ratio >= 0 or np.log(1.0 - rng.random()) < log_ratio
        return (new, moved) if accepted else (state, 0)

    def record(self, state: SharedOrder) -> Record:
        """The place of each variable, and all that is traced (see `unpacked`)."""
        edges, mechanisms = self.collected(state)
        shares = np.exp(state.ways - state.log_weight)
        place = np.argsort(state.position).astype(np.int16)
        return Record(place, state.log_weight, np.concatenate([edges.ravel(), mechanisms.ravel(), shares]))

    def collected(self, state: SharedOrder) -> tuple[Array, Array]:
        """Given an order: `in` each task, both of two, one and no other, all, some; and the mechanisms.

        These are the same parents and parameters in all tasks, and the same parents with other parameters.
        """
        from polydag.posterior.joint_chains._shared_order_kernels import collect

        n, K = self.n, len(self.tasks)
        _, is_candidate, _, model, _, _, inside, S, weights = self._arguments
        table, moves = self.prior, self._deviations
        c = table.candidates.shape[1]
        shapes = ((K, n, n), (K, K, n, n), (K, n, n), (n, n), (n, n), (2, n))
        marginal, together, unique, every, some, mechanism = (np.zeros(shape) for shape in shapes)
        collect(
            state.position, np.exp(state.ways - state.log_weight), is_candidate, model,
            subsets.offsets(c, table.max_parents), subsets.binomials(c, table.max_parents), moves.within,
            *moves.equal(K), inside, S, weights, _LEFT_OUT,
            marginal, together, unique, every, some, mechanism,
        )  # fmt: skip
        i, j = np.triu_indices(K, 1)
        return np.concatenate([marginal, together[i, j], unique, every[None], some[None]]), mechanism

    def draw(self, state: SharedOrder, count: int, rng: np.random.Generator) -> Mask:
        """Networks of all tasks given an order, of shape (tasks, count, n, n), drawn together."""
        from polydag.posterior.joint_chains._shared_order_kernels import sums_given_predecessors

        n, K, table, moves = self.n, len(self.tasks), self.prior, self._deviations
        _, is_candidate, _, model, _, _, inside, S, weights = self._arguments
        one, same, scores = model[8:11]
        way = rng.choice(5, size=count, p=np.exp(state.ways - state.log_weight))
        dags = np.zeros((K, count, n, n), dtype=bool)
        before, found = np.zeros(n, dtype=bool), np.empty(3)
        for node in state.position:
            u = int((before & is_candidate[node]).sum())
            here = inside[
                : sums_given_predecessors(
                    node, before, u, *model, inside, S, weights, found
                )  # type: ignore[call-arg]
            ].copy()
            common = weights[: len(here)].copy()
            members = np.zeros((len(here), n + 1), dtype=bool)
            members[np.arange(len(here))[:, None], table.members(node)[here]] = True
            members = members[:, :n]
            kind, parents = _mechanism(way, found, rng), dags[..., node]
            for m, logs in ((0, one[node]), (1, same[node])):
                where = np.flatnonzero(kind == m)
                if len(where):
                    parents[:, where] = members[picked(logs[here], len(where), rng)]
            where = np.flatnonzero(kind == 2)
            chosen = rng.choice(len(here), size=len(where), p=common) if len(where) else np.empty(0, int)
            for rho in np.unique(chosen):
                draws = where[chosen == rho]
                both = (members & members[rho]).sum(axis=1)
                factor = both * math.log(moves.A) + (members[rho].sum() - both) * math.log(moves.B)
                for k in range(K):
                    own = picked(scores[k, node][here] + factor, len(draws), rng)
                    parents[k, draws] = members[own]
            before[node] = True
        return dags

    @cached_property
    def _deviations(self) -> Deviations:
        return Deviations.of(self.prior, self.dropped)

    @cached_property
    def _model(self) -> tuple[Any, ...]:
        """What the sums given predecessors need, in the order of the kernels."""
        require_alike([self.prior, *self.tasks])
        table, moves = self.prior, self._deviations
        tilt = moves.log_x * table.sizes
        numbers, members = subset_tables(table)
        own = np.sum([task.scores for task in self.tasks], axis=0)
        none = np.full_like(table.scores, -np.inf)
        normal = np.array([part.scores + tilt for part in self.normal]).reshape(-1, *table.scores.shape)
        return (
            table.candidates.astype(np.int64), table.sets.astype(np.int64), table.sizes, numbers, members,
            moves.c, self._log_z(not self.normal), table.scores,
            table.scores + (none if self.pooled is None else self.pooled.scores), table.scores + own,
            np.array([task.scores + tilt for task in self.tasks]), normal, every_family(table),
        )  # fmt: skip

    def _log_z(self, normalised: bool) -> Array:
        """The log normaliser of deviations; 0 where sums over families take its place."""
        c, top = self.prior.candidates.shape[1], self.prior.max_parents
        if not normalised:
            return np.zeros((c + 1, top + 1))
        return -len(self.tasks) * self._deviations.log_normaliser(c + 1)

    @cached_property
    def _arguments(self) -> tuple[Any, ...]:
        """What the kernels need, in their order; the last five are changed by them."""
        is_candidate = np.zeros((self.n, self.n), dtype=bool)
        is_candidate[np.arange(self.n)[:, None], self.prior.candidates] = True
        return self._with_memory(is_candidate, self._model)

    @cached_property
    def _surrogate(self) -> tuple[Any, ...]:
        """The same with few families, for moves."""
        return self._with_memory(*self._few)

    @cached_property
    def _few(self) -> tuple[Mask, tuple[Any, ...]]:
        """Which variables may be parents of a variable, and a model with few families.

        Where families are ruled out, deviations are normalised as if all sets of possible parents were
        allowed: sums over a shortlist would be far from those over all families.
        """
        table, model = self.prior, self._model
        possible = np.isfinite(table.scores) & np.all([np.isfinite(t.scores) for t in self.tasks], axis=0)
        is_candidate = np.ascontiguousarray(table.edge_sums(possible.astype(float)).T > 0)
        listed = shortlist(table, [*model[8:10], *model[10]])
        return is_candidate, (*model[:6], self._log_z(True), *model[7:11], model[11][:0], listed)

    def _with_memory(self, is_candidate: Mask, model: tuple[Any, ...]) -> tuple[Any, ...]:
        hashes = np.random.default_rng(0).integers(1, 2**63, 2 * self.n, dtype=np.uint64)
        with np.errstate(divide="ignore"):
            log_ways = np.log(np.array(self.ways, dtype=float))
        rows, sets = len(model[10]) + len(model[11]), self.prior.scores.shape[1]
        return (
            log_ways, is_candidate, hashes, model,
            np.zeros(_KEPT, dtype=np.uint64), np.empty((_KEPT, 3)),
            np.empty(sets, dtype=np.int64), np.empty((rows, sets)), np.empty(sets),
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_arguments", "_surrogate", "_model", "_few", "_deviations")
        return {name: value for name, value in self.__dict__.items() if name not in kept}


def _mechanism(way: Index, found: Array, rng: np.random.Generator) -> Index:
    """Whether families are of one population (0), the same (1) or deviate from a common one (2), by way."""
    alike = [
        np.exp(found[0] - np.logaddexp(found[0], found[m])) if found[m] > -np.inf else 1.0 for m in (1, 2)
    ]
    mixed = rng.random(len(way))
    return np.select(
        [way == 0, way == 1, way == 2, way == 3],
        [0, np.where(mixed < alike[0], 0, 1), 1, np.where(mixed < alike[1], 0, 2)],
        2,
    )


def traced(n: int, tasks: int) -> int:
    """How many probabilities the record of so many variables and tasks has."""
    return (2 * tasks + tasks * (tasks - 1) // 2 + 2) * n**2 + 2 * n + len(WAYS)


def unpacked(values: Array, n: int, tasks: int) -> tuple[JointEdges, dict[str, float]]:
    """The joint probabilities of the edges, and those of the ways, of averages of what was traced.

    Parent sets are not traced: `alike` and `equal` have their sums, in one column.
    """
    K, matrices = tasks, 2 * tasks + tasks * (tasks - 1) // 2 + 2
    edges = np.clip(values[: matrices * n**2].reshape(matrices, n, n), 0.0, 1.0)
    mechanisms, shares = np.split(values[matrices * n**2 :], [2 * n])
    together = np.empty((K, K, n, n))
    together[np.arange(K), np.arange(K)] = edges[:K]
    i, j = np.triu_indices(K, 1)
    together[i, j] = together[j, i] = edges[K : matrices - K - 2]
    joint = JointEdges(
        0.0,
        edges[:K],
        together,
        edges[matrices - K - 2 : -2],
        edges[-2],
        edges[-1],
        mechanisms[:n, None],
        (mechanisms[:n] + mechanisms[n:])[:, None],
        np.empty((K, n, 0)),
    )
    return joint, dict(zip(WAYS, shares.tolist(), strict=True))
