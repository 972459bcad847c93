"""How related tasks are, learned from their rows: a mixture over which tasks go together, and how closely.

Tasks of a group go together in one of several ways (`Way`): the rows are of one population, the networks are
the same, or they deviate from a common network. Each way has an exact evidence, and so have separate tasks.
Groups are merged as in Bayesian hierarchical clustering (Heller and Ghahramani 2005): every inner node of the
tree says with which probability its tasks are one group, and otherwise its branches are independent. Edge
probabilities are averaged over all partitions that agree with the tree, so that unrelated tasks are left
alone and related ones share what they have in common. The order of merging is that of Bayes factors without
the constraint of acyclicity, which are cheap; evidences of the groups are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from polydag.arrays import Array, Mask
from polydag.computing.progress import report
from polydag.posterior.dags.drawing import check_count, dags_by_orders
from polydag.posterior.dags.samples import DagSamples
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.transfer.common_network import (
    CommonNetwork,
    Deviations,
    one_network,
    one_table,
    prior_evidence,
)
from polydag.posterior.transfer.draws import packed, picked
from polydag.posterior.transfer.family import subset_tables
from polydag.posterior.transfer.joint_edges import (
    JointEdges,
    averaged,
    in_order,
    independent,
    repeated,
    with_connections,
)
from polydag.posterior.transfer.shared_strengths import Shared, SharedStrengths

if TYPE_CHECKING:
    import pandas as pd

DROPPED = 0.2  # the probability that a task lacks an edge of the common network
ONE, SAME, SAME_OWN = "one population", "same network", "same network, own strengths"
RELATED, RELATED_OWN = "related networks", "related networks, own strengths"
SEPARATE = "separate"
_HOPELESS = -30.0  # log odds of a group below which larger ones are not tried
NEGLIGIBLE = 1e-4  # probability below which a way or a group is left out

Pooled = Callable[[Sequence[int]], FamilyTable]


@dataclass(frozen=True, eq=False)
class Group:
    """Tasks that may go together, as a node of the tree.

    Attributes
    ----------
    members : tuple of int
        The tasks.
    branches : tuple of Group
        The two groups that were merged; none for a single task.
    together : array of shape (concentrations,)
        The probability that the tasks are one group, given that nothing joins them with others.
    ways : dict
        The probability of each way of going together, given that they do.
    log_evidence : array of shape (concentrations,)
        Of the members' rows, averaged over their partitions.
    log_weight : array of shape (concentrations,)
        The normaliser of the prior of these partitions.
    """

    members: tuple[int, ...]
    branches: tuple[Group, ...]
    together: Array
    ways: dict[str, float]
    log_evidence: Array
    log_weight: Array


@dataclass(frozen=True, eq=False)
class Related:
    """What was learned of all tasks.

    Attributes
    ----------
    edges, connections : JointEdges
        The joint probabilities of all tasks' edges, averaged over partitions; and of their edges in either
        direction, in the upper triangle. Tasks of different groups may have a connection in opposite
        directions, so that the latter does not follow from the former.
    relatedness : array of shape (tasks, tasks)
        The probability that two tasks are in one group.
    ways : dict
        The expected share of pairs of tasks that are separate, and in each way together.
    tree : Group
        The groups.
    networks : RelatedNetworks
        What networks of all tasks are drawn from.
    """

    edges: JointEdges
    connections: JointEdges
    relatedness: Array
    ways: dict[str, float]
    tree: Group
    networks: RelatedNetworks

    def mechanisms(self) -> pd.DataFrame:
        """variable, same, other strengths, other parents; variables that differ most probably come first.

        Variables without parents in any task are the same: there are no strengths.
        """
        import pandas as pd

        equal = np.clip(self.edges.equal.sum(axis=1), 0.0, 1.0)
        alike = np.clip(equal - self._altered.sum(axis=1), 0.0, 1.0)
        table = pd.DataFrame({
            "variable": self.networks.learner.prior.names,
            "same": alike,
            "other strengths": np.maximum(equal - alike, 0.0),
            "other parents": 1.0 - np.maximum(equal, alike),
        })  # fmt: skip
        return table.sort_values("same", kind="stable", ignore_index=True)

    def altered(self) -> Array:
        """That all tasks have an edge among the same parents, with other strengths; of shape (n, n)."""
        return self.networks.learner.prior.edge_sums(self._altered)

    @property
    def _altered(self) -> Array:
        """The same for each set of parents but the empty one, which is the first."""
        found = np.maximum(self.edges.equal - self.edges.alike, 0.0)
        found[:, 0] = 0.0
        return found


class Learner(Protocol):
    """What learns groups of tasks, exactly or by chains."""

    prior: FamilyTable
    tasks: list[FamilyTable]

    def sample(self, members: tuple[int, ...], way: str, count: int, rng: np.random.Generator) -> Mask:
        """Networks of some tasks that go together in a way, of shape (members, count, n, n)."""
        ...


class Relatedness:
    """Learns groups of tasks from their tables of families, exactly; for few variables.

    Parameters
    ----------
    prior : FamilyTable
        The log prior of families.
    tasks : sequence of FamilyTable
        Log scores, without structure prior but with the weights of `normal`.
    pooled : callable, optional
        The table of the rows of some tasks as one, with their weights; None if rows of different tasks are
        never one population.
    normal : sequence of FamilyTable
        As in `CommonNetwork`: one for each task where tasks have priors of their own. A network of several
        tasks then has the product of their weights.
    log_prior : float, optional
        `prior_evidence(prior)`, where it is known and tasks have no priors of their own.
    strengths : SharedStrengths, optional
        With more than two tasks, some may share the strengths of a family and others not. Without it, all
        tasks of a group do, or none.
    """

    def __init__(
        self,
        prior: FamilyTable,
        tasks: Sequence[FamilyTable],
        pooled: Pooled | None = None,
        *,
        normal: Sequence[FamilyTable] = (),
        log_prior: float | None = None,
        strengths: SharedStrengths | None = None,
        n_jobs: int = 1,
        memory: float | None = None,
    ) -> None:
        self.prior, self.tasks, self.pooled = prior, list(tasks), pooled
        self.normal, self.n_jobs, self.memory = list(normal), n_jobs, memory
        self.strengths = strengths
        self._unseen: Relatedness | None = None
        if log_prior is None and len(self.normal) > 1:
            together = None if pooled is None else self._weights_together
            self._unseen = Relatedness(
                prior, normal, together, normal=normal, log_prior=0.0, n_jobs=n_jobs, memory=memory
            )
        self.log_prior = prior_evidence(prior) if log_prior is None else log_prior
        self._found: dict[tuple[tuple[int, ...], str], JointEdges] = {}
        self._pools: dict[tuple[int, ...], FamilyTable] = {}
        self._shared: dict[tuple[int, ...], Shared] = {}
        self._sums: dict[tuple[tuple[int, ...], str], CommonNetwork] = {}
        self.concentrations = concentrations(len(tasks))

    @property
    def ways(self) -> dict[str, float]:
        """The ways of going together, and their prior probabilities."""
        return prior_of_ways(self.pooled is not None)

    def learn(self) -> Related:
        """The tree of groups, and what follows for the edges."""
        found = averaged_over_groups(self, self._tree(), self._joint)
        self._found, self._sums, self._pools, self._shared = {}, {}, {}, {}
        return found

    def joint(self, members: tuple[int, ...], way: str) -> JointEdges:
        """The joint probabilities of some tasks that go together in a way; alone, of one."""
        if way in (RELATED, RELATED_OWN):
            return self._with_alike(self._common(members, way).edges(), members, way)
        return self._computed(members, way)

    def _tree(self) -> Group:
        return merged_groups(self.prior, self.tasks, self._leaf, self._merged)

    def _leaf(self, k: int) -> Group:
        found = self._joint((k,), "alone")
        evidence = np.full(len(self.concentrations), found.log_evidence)
        return Group((k,), (), np.ones(len(evidence)), {"alone": 1.0}, evidence, np.log(self.concentrations))

    def _merged(self, first: Group, second: Group) -> Group:
        members = first.members + second.members

        def evidences() -> dict[str, float]:
            return {way: math.log(w) + self._evidence(members, way) for way, w in self.ways.items()}

        return merged_group(first, second, self.concentrations, evidences)

    def _weights_together(self, members: Sequence[int]) -> FamilyTable:
        weights = np.sum([self.normal[k].scores for k in members], axis=0)
        return self.prior.with_scores(weights)

    def _log_prior(self, members: tuple[int, ...], way: str) -> float:
        """The log of the sum of the prior's weights; of tasks' own priors, by the evidence of no rows."""
        if self._unseen is None:
            return self.log_prior
        if way in (RELATED, RELATED_OWN):
            return self._unseen._common(members, way).log_evidence
        return self._unseen._joint(members, way).log_evidence

    def _evidence(self, members: tuple[int, ...], way: str) -> float:
        if way not in (RELATED, RELATED_OWN):
            return self._joint(members, way).log_evidence
        sums = self._common(members, way)
        self._sums[members, way] = sums
        return sums.log_evidence

    def _common(self, members: tuple[int, ...], way: str) -> CommonNetwork:
        normal = self.normal if len(self.normal) < 2 else [self.normal[k] for k in members]
        some = self._some_share(members) if way == RELATED else None
        tasks = [self.tasks[k] for k in members] if some is None else some.tasks
        return CommonNetwork(
            self.prior, tasks, DROPPED, self._log_prior(members, way),
            shared=self._pool(members) if way == RELATED and some is None else None, normal=normal,
            n_jobs=self.n_jobs, memory=self.memory,
        )  # fmt: skip

    def sample(self, members: tuple[int, ...], way: str, count: int, rng: np.random.Generator) -> Mask:
        """Networks of some tasks that go together in a way, of shape (members, count, n, n)."""
        if way in (RELATED, RELATED_OWN):
            return self._common(members, way).sample(count, rng)
        pool = None if way in ("alone", SAME_OWN) else self._pool(members)
        if way == ONE:
            assert pool is not None
            table = one_table(self.prior, [pool], None)
        elif way == SAME and (some := self._some_share(members)) is not None:
            table = one_table(self.prior, [some.together], None)
        else:
            table = one_table(self.prior, [self.tasks[k] for k in members], pool)
        dags = dags_by_orders(table, count, rng, n_jobs=self.n_jobs, memory=self.memory).adjacency
        return np.broadcast_to(dags, (len(members), *dags.shape))

    def _joint(self, members: tuple[int, ...], way: str) -> JointEdges:
        if (members, way) not in self._found:
            self._found[members, way] = self._computed(members, way)
        return self._found[members, way]

    def _computed(self, members: tuple[int, ...], way: str) -> JointEdges:
        if way in (RELATED, RELATED_OWN):
            return self._with_alike(self._sums.pop((members, way)).edges(), members, way)
        pool = None if way == SAME_OWN else self._pool(members)
        tables, log_prior = [self.tasks[k] for k in members], self._log_prior(members, way)
        if way == ONE:
            assert pool is not None
            return repeated(one_network(self.prior, [pool], None, log_prior, self.n_jobs), len(members))
        some = self._some_share(members) if way == SAME else None
        if some is None:
            return one_network(self.prior, tables, pool, log_prior, self.n_jobs)
        found = one_network(self.prior, [some.together], None, log_prior, self.n_jobs)
        return replace(repeated(found, len(members)), alike=found.equal * some.all_alike)

    def _with_alike(self, found: JointEdges, members: tuple[int, ...], way: str) -> JointEdges:
        some = self._some_share(members) if way == RELATED else None
        return found if some is None else replace(found, alike=found.equal * some.all_alike)

    def _some_share(self, members: tuple[int, ...]) -> Shared | None:
        """What tasks say where some of them may share strengths; two do, or do not, in any case."""
        if self.strengths is None or len(members) < 3:
            return None
        if members not in self._shared:
            found = self.strengths.among(members)
            allowed = np.where(np.isfinite(self.tasks[0].scores), 0.0, -np.inf)
            tasks = [table.with_scores(table.scores + allowed) for table in found.tasks]
            together = found.together.with_scores(found.together.scores + allowed)
            self._shared = {members: Shared(tasks, together, found.all_alike)}
        return self._shared[members]

    def _pool(self, members: tuple[int, ...]) -> FamilyTable | None:
        if self.pooled is None or len(members) == 1:
            return None
        if members not in self._pools:
            self._pools = {members: self.pooled(members)}
        return self._pools[members]


@dataclass(frozen=True, eq=False)
class RelatedNetworks:
    """The networks of all tasks: groups are drawn from the tree, then the networks of each group."""

    learner: Learner
    tree: Group

    def sample(self, count: int, random_state: int | None = None) -> list[DagSamples]:
        """For each task as many DAGs; those at the same place were drawn together."""
        check_count(count)
        rng = np.random.default_rng(random_state)
        names = self.learner.prior.names
        evidence = self.tree.log_evidence
        groups: dict[tuple[tuple[int, ...], str], list[int]] = {}
        for draw, concentration in enumerate(picked(evidence, count, rng)):
            for drawn in _drawn_groups(self.tree, int(concentration), rng):
                groups.setdefault(drawn, []).append(draw)
        dags = np.zeros((len(self.learner.tasks), count, len(names), len(names)), dtype=bool)
        for (members, way), where in groups.items():
            dags[np.ix_(members, where)] = self.learner.sample(members, way, len(where), rng)
        return packed(names, dags)


def prior_of_ways(pooled: bool) -> dict[str, float]:
    """The ways of going together, and their prior probabilities; rows may be of one population, or not."""
    if not pooled:
        return {SAME_OWN: 0.5, RELATED_OWN: 0.5}
    return {ONE: 0.1, SAME: 0.225, SAME_OWN: 0.225, RELATED: 0.225, RELATED_OWN: 0.225}


def averaged_over_groups(
    learner: Learner, tree: Group, joint: Callable[[tuple[int, ...], str], JointEdges]
) -> Related:
    """What follows for the edges of all tasks; `joint(members, way)` is about the tasks of one group."""
    concentration = np.exp(tree.log_evidence - np.logaddexp.reduce(tree.log_evidence))
    K = len(tree.members)
    relatedness, ways = np.eye(K), dict.fromkeys((SEPARATE, ONE, SAME, SAME_OWN, RELATED, RELATED_OWN), 0.0)
    edges, connections = _mixed(tree, concentration, joint, relatedness, ways)
    pairs = K * (K - 1) / 2
    ways[SEPARATE] = pairs - sum(ways.values())
    shares = {way: value / pairs if pairs else 0.0 for way, value in ways.items()}
    order = np.argsort(tree.members)
    networks = RelatedNetworks(learner, tree)
    return Related(in_order(edges, order), in_order(connections, order), relatedness, shares, tree, networks)


def _mixed(
    group: Group,
    reach: Array,
    joint: Callable[[tuple[int, ...], str], JointEdges],
    relatedness: Array,
    ways: dict[str, float],
) -> tuple[JointEdges, JointEdges]:
    """The joint probabilities of the edges, and of the connections, of a group's members.

    `reach[c]` is the probability of a concentration and that this group matters.
    """
    if not group.branches:
        return with_connections(joint(group.members, "alone"))
    together, apart = float(reach @ group.together), reach * (1.0 - group.together)
    total, size = float(reach.sum()), len(group.members)
    parts = []
    for way, share in group.ways.items():
        ways[way] += together * share * size * (size - 1) / 2
        if together * share > NEGLIGIBLE:
            parts.append((together * share / total, with_connections(joint(group.members, way))))
    where = list(group.members)
    relatedness[np.ix_(where, where)] += together * ~np.eye(size, dtype=bool)
    if apart.sum() > NEGLIGIBLE or not parts:
        first, second = (_mixed(branch, apart, joint, relatedness, ways) for branch in group.branches)
        both = (independent(first[0], second[0]), independent(first[1], second[1]))
        parts.append((float(apart.sum()) / total, both))
    return averaged([(w, both[0]) for w, both in parts]), averaged([(w, both[1]) for w, both in parts])


def _drawn_groups(
    group: Group, concentration: int, rng: np.random.Generator
) -> Iterator[tuple[tuple[int, ...], str]]:
    """A partition that agrees with the tree, and the way in which each of its groups goes together."""
    if not group.branches:
        yield group.members, "alone"
    elif rng.random() < group.together[concentration]:
        ways = list(group.ways)
        shares = np.array([group.ways[way] for way in ways])
        yield group.members, ways[rng.choice(len(ways), p=shares / shares.sum())]
    else:
        for branch in group.branches:
            yield from _drawn_groups(branch, concentration, rng)


def concentrations(tasks: int) -> Array:
    """Those of the prior of partitions: large ones keep tasks apart. With two tasks, these are even odds."""
    return np.array([0.25 * 4.0**j for j in range(20) if 0.25 * 4.0**j <= 2 * tasks])


def merged_group(
    first: Group, second: Group, concentration: Array, evidences: Callable[[], Mapping[str, float]]
) -> Group:
    """Two groups as branches of one; `evidences` gives the log evidence, with its prior, of each way."""
    members = first.members + second.members
    joined = np.log(concentration) + math.lgamma(len(members))
    apart = first.log_weight + second.log_weight
    log_weight = np.logaddexp(joined, apart)
    separate = apart - log_weight + first.log_evidence + second.log_evidence
    if _hopeless(first) or _hopeless(second):
        return Group(members, (first, second), np.zeros(len(joined)), {}, separate, log_weight)
    logs = evidences()
    whole = float(np.logaddexp.reduce(list(logs.values())))
    together = joined - log_weight + whole
    total = np.logaddexp(together, separate)
    ways = {way: math.exp(value - whole) for way, value in logs.items()}
    return Group(members, (first, second), np.exp(together - total), ways, total, log_weight)


def merged_groups(
    prior: FamilyTable,
    tasks: Sequence[FamilyTable],
    leaf: Callable[[int], Group],
    merge: Callable[[Group, Group], Group],
) -> Group:
    """Merge the two groups with the largest Bayes factor, until one is left."""
    K = len(tasks)
    groups = [leaf(k) for k in range(K)]
    factors = [common_factors(prior, task) for task in tasks]
    base = normalised(prior)
    own = [total(factor + base) for factor in factors]
    gain = np.full((K, K), -np.inf)
    for i in range(K):
        for j in range(i):
            gain[i, j] = total(factors[i] + factors[j] + base) - own[i] - own[j]
    alive = list(range(K))
    for done in range(K - 1):
        report("groups of tasks", done, K - 1)
        inside = gain[np.ix_(alive, alive)]
        a, b = np.unravel_index(int(np.argmax(inside)), inside.shape)
        i, j = alive[int(a)], alive[int(b)]
        groups[j] = merge(groups[j], groups[i])
        factors[j] = factors[j] + factors[i]
        own[j] = total(factors[j] + base)
        alive.remove(i)
        for other in alive:
            if other != j:
                value = total(factors[j] + factors[other] + base) - own[j] - own[other]
                gain[max(j, other), min(j, other)] = value
    report("groups of tasks", K - 1, K - 1)
    return groups[alive[0]]


def common_factors(prior: FamilyTable, task: FamilyTable) -> Array:
    """`log Σ_π exp(s(π)) P(π | ρ)` for every family ρ of the common network, whatever the order."""
    from polydag.posterior.transfer._transfer_kernels import superset_sums, transfer_sums

    moves = Deviations.of(prior, DROPPED)
    with np.errstate(divide="ignore"):
        log_c = np.log(moves.c)
    numbers, members = subset_tables(task)
    tilt = moves.log_x * task.sizes.astype(np.float64)
    result, normal = np.zeros_like(task.scores), np.zeros(len(tilt))
    transfer_sums(superset_sums(tilt, numbers, task.sizes), numbers, task.sizes, members, log_c, normal)
    for node in range(task.n):
        sums = superset_sums(task.scores[node] + tilt, numbers, task.sizes)
        transfer_sums(sums, numbers, task.sizes, members, log_c, result[node])
    return result - normal


def normalised(prior: FamilyTable) -> Array:
    """The log prior of the families of each node, adding up to one."""
    return np.asarray(prior.scores - np.logaddexp.reduce(prior.scores, axis=1)[:, None])


def total(logs: Array) -> float:
    """The log of the product over nodes of the sums over families."""
    return float(np.logaddexp.reduce(logs, axis=1).sum())


def _hopeless(group: Group) -> bool:
    return bool(group.branches) and float(group.together.max()) < math.exp(_HOPELESS)
