"""Groups of tasks that are learned by Markov chains, for more variables than exact sums are for.

Which tasks go together is learned as in `polydag.posterior.transfer.relatedness`. The evidence that networks
are related is that of families (`related_families`); chains over a shared order weigh the other ways of going
together against it, and give the joint probabilities of the edges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polydag.arrays import Array, Mask
from polydag.posterior.dags.drawing import evenly_spaced
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.joint_chains.shared_orders import WAYS, SharedOrders, traced, unpacked
from polydag.posterior.mcmc.chains import Chains
from polydag.posterior.mcmc.diagnostics import Diagnostics
from polydag.posterior.mcmc.driver import Run, run_chains
from polydag.posterior.mcmc.order_posterior import McmcPosterior, mcmc_posterior
from polydag.posterior.memory import usable_memory
from polydag.posterior.orders.sampler import OrderSampler
from polydag.posterior.orders.search import UNREPLICATED, find_starts
from polydag.posterior.transfer.common_network import one_table
from polydag.posterior.transfer.draws import TaskPosterior
from polydag.posterior.transfer.joint_edges import JointEdges
from polydag.posterior.transfer.related_families import FamilyEvidence, unmerged
from polydag.posterior.transfer.relatedness import (
    DROPPED,
    NEGLIGIBLE,
    RELATED_OWN,
    Group,
    Pooled,
    Related,
    averaged_over_groups,
    concentrations,
    merged_group,
    merged_groups,
    prior_of_ways,
)

if TYPE_CHECKING:
    import pandas as pd

_FIRST_EACH = 100  # steps of the first round for each variable
_EACH = 4  # steps for each variable from one record to the next: a record takes longer than one of each
_STATES = 200  # most states from which networks are drawn
_DRAWS = 600  # of all chains, which are held in memory
_DRAWN = 400  # networks of each group, for the parent sets that tasks have in common
_SECONDS = 5e-9  # of a sum over the families of a variable, for each of them and each task
_PATIENCE = 1200.0  # seconds of the first two rounds beyond which chains are not chosen automatically


class GroupChains(NamedTuple):
    """Chains of the tasks of one group: averages over the orders that they visited."""

    sampler: SharedOrders
    run: Run
    mode_search: str
    joint: JointEdges
    ways: dict[str, float]

    @property
    def mixed(self) -> bool:
        """Whether the chains agree, and started in a mode that more than one search found."""
        return self.run.mixed and self.mode_search != UNREPLICATED


class RelatedChains:
    """Learns groups of tasks from their tables of families, by Markov chains; for many variables.

    Parameters
    ----------
    prior : FamilyTable
        The log prior of families.
    tasks : sequence of FamilyTable
        Log scores, without structure prior but `-inf` where families are ruled out.
    pooled : callable, optional
        The table of the rows of some tasks as one; None if rows of different tasks are never one population.
    normal : sequence of FamilyTable
        At most one: as in `CommonNetwork`.
    chains : Chains
        How many chains, and how long; bucket sizes are those of tasks that are alone.
    """

    def __init__(
        self,
        prior: FamilyTable,
        tasks: Sequence[FamilyTable],
        pooled: Pooled | None,
        chains: Chains,
        *,
        normal: Sequence[FamilyTable] = (),
        n_jobs: int = 1,
        random_state: int | None = None,
    ) -> None:
        self.prior, self.tasks, self.pooled, self.chains = prior, list(tasks), pooled, chains
        self.normal, self.n_jobs, self.random_state = list(normal), n_jobs, random_state
        self.groups: dict[tuple[int, ...], GroupChains] = {}
        self.alone: dict[int, McmcPosterior] = {}
        self._joints: dict[tuple[int, ...], JointEdges] = {}

    def learn(self) -> Related:
        """The tree of groups, and what follows for the edges."""
        evidence, concentration = FamilyEvidence(self.prior, self.tasks), concentrations(len(self.tasks))
        prior = math.log(prior_of_ways(self.pooled is not None)[RELATED_OWN])

        def merge(first: Group, second: Group) -> Group:
            members = first.members + second.members

            def evidences() -> dict[str, float]:
                related = {RELATED_OWN: prior + evidence.of(members)}
                found = merged_group(first, second, concentration, lambda: related)
                if found.together.max() < NEGLIGIBLE:
                    return related
                shares = self._chains(members).ways
                rest = related[RELATED_OWN] - math.log(max(shares[RELATED_OWN], 1e-300))
                return {way: rest + math.log(share) for way, share in shares.items() if share > 0}

            return merged_group(first, second, concentration, evidences)

        tree = merged_groups(self.prior, self.tasks, lambda k: unmerged(k, concentration), merge)
        return averaged_over_groups(self, tree, self._joint)

    def sample(self, members: tuple[int, ...], way: str, count: int, rng: np.random.Generator) -> Mask:
        """Networks of some tasks that go together, of shape (members, count, n, n), in all ways."""
        if len(members) == 1:
            seed = int(rng.integers(2**31))
            return self._alone(members[0]).sample_dags(count, seed).adjacency[None]
        found = self._chains(members)
        places = found.run.states.reshape(-1, self.prior.n)
        some = places[evenly_spaced(len(places), min(count, _STATES))]
        times = np.bincount(rng.permutation(np.arange(count) % len(some)), minlength=len(some))
        drawn = [
            found.sampler.draw(found.sampler.init(np.argsort(place)), int(size), rng)
            for place, size in zip(some, times, strict=True)
        ]
        dags: Mask = np.concatenate(drawn, axis=1)
        return dags[:, rng.permutation(count)]

    def posteriors(self, found: Related) -> list[JointChainPosterior]:
        """The posterior of each task."""
        history = self._history()
        groups, alone = self.groups.values(), self.alone.values()
        mixed = all(own.mixed for own in groups) and all(own.mixed for own in alone)
        return [
            JointChainPosterior(
                self.prior.names,
                P,
                "mcmc",
                diagnostics=self._diagnostics(k),
                networks=found.networks,
                task=k,
                mixed=mixed,
                history=history,
            )
            for k, P in enumerate(found.edges.edges)
        ]

    def _history(self) -> pd.DataFrame:
        """One row for each group and round."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for members, group in self.groups.items():
            rows += [{"members": members, **row} for row in group.run.history]
        for k, posterior in self.alone.items():
            rounds: list[dict[Any, Any]] = posterior.history.to_dict("records")
            rows += [{"members": (k,)} | row for row in rounds]
        return pd.DataFrame(rows)

    def _diagnostics(self, k: int) -> pd.DataFrame | None:
        """Of the edges of a task, in the largest group that has it."""
        n = self.prior.n
        found = [members for members in self.groups if k in members]
        if not found:
            return self.alone[k].diagnostics if k in self.alone else None
        members = max(found, key=len)
        place = members.index(k) * n**2
        every = self.groups[members].run.diagnostics
        own = (every.r_hat, every.ess, every.mcse, every.deviation)
        return Diagnostics(*(part[place : place + n**2].reshape(n, n) for part in own)).frame(
            self.prior.names
        )

    def _joint(self, members: tuple[int, ...], way: str) -> JointEdges:
        """Averaged over the ways by the chains already; parent sets are those of drawn networks."""
        if members not in self._joints:
            dags = self.sample(members, way, _DRAWN, np.random.default_rng(self.random_state))
            drawn = common_sets(self.prior, dags)
            if len(members) > 1:
                found = self._chains(members).joint
                equal, alike = (np.clip(part, 0.0, 1.0) for part in (found.equal, found.alike))
                each = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1.0 / len(dags[0]))
                found = replace(found, equal=equal * each, alike=alike * each)
            else:
                P, n = self._alone(members[0]).probabilities[None], self.prior.n
                found = JointEdges(0.0, P, P[None], P, P[0], P[0], drawn, drawn, np.empty((1, n, 0)))
            self._joints[members] = found
        return self._joints[members]

    def _alone(self, k: int) -> McmcPosterior:
        if k not in self.alone:
            table = self.prior.with_scores(self.prior.scores + self.tasks[k].scores)
            self.alone[k] = mcmc_posterior(table, chains=self.chains, name=f"chains {k}", **self._options)
        return self.alone[k]

    @property
    def _options(self) -> dict[str, Any]:
        return {"n_jobs": self.n_jobs, "random_state": self.random_state}

    def _chains(self, members: tuple[int, ...]) -> GroupChains:
        if members not in self.groups:
            self.groups[members] = self._run(members)
        return self.groups[members]

    def _run(self, members: tuple[int, ...]) -> GroupChains:
        own, n = [self.tasks[k] for k in members], self.prior.n
        pool = None if self.pooled is None else self.pooled(members)
        ways = prior_of_ways(pool is not None)
        sampler = SharedOrders(
            self.prior, own, [ways.get(way, 0.0) for way in WAYS], DROPPED, pool, self.normal
        )
        options = {**self._options, "name": f"chains {'+'.join(map(str, members))}"}
        starts = None
        if self.chains.n_steps is None:
            table = one_table(self.prior, own, pool)
            starts = find_starts(OrderSampler.of(table), self.chains.n_chains, **options)
        run = run_chains(
            sampler,
            self.chains,
            first_round=_FIRST_EACH * n,
            thinning=_EACH * n,
            starts=starts and starts.orders,
            **options,
        )
        joint, shares = unpacked(run.edges.mean(axis=(0, 1)), n, len(own))
        return GroupChains(sampler, run, "none" if starts is None else starts.mode_search, joint, shares)


@dataclass(frozen=True, eq=False, repr=False)
class JointChainPosterior(TaskPosterior):
    """The posterior of one of several tasks that chains sampled together.

    Attributes
    ----------
    mixed : bool
        Whether the chains of all groups of tasks agree.
    history : DataFrame
        One row for each group of tasks and round of its chains.
    """

    mixed: bool = False
    history: Any = field(default=None)

    def parents(self, name: object) -> pd.DataFrame:
        """The parent sets of a variable in 1000 sampled DAGs, the most frequent first."""
        import pandas as pd

        sets, counts = np.unique(self._drawn[:, :, self.index(name)], axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        parents = [tuple(self.names[v] for v in np.flatnonzero(sets[s])) for s in order]
        return pd.DataFrame({"parents": parents, "probability": counts[order] / counts.sum()})

    @cached_property
    def _drawn(self) -> Mask:
        return self.sample_dags(random_state=0).adjacency


def common_sets(table: FamilyTable, dags: Mask) -> Array:
    """How often all tasks of drawn networks have each parent set, of shape (n, sets)."""
    found = np.zeros((table.n, len(table.sets)))
    equal = (dags == dags[:1]).all(axis=(0, 2))
    for node in range(table.n):
        sets, counts = np.unique(dags[0, equal[:, node], :, node], axis=0, return_counts=True)
        for parents, count in zip(sets, counts, strict=True):
            found[node, table.index(node, np.flatnonzero(parents).tolist())] = count
    return np.asarray(found / dags.shape[1])


def chains_fit(n: int, tasks: int, candidates: int, max_parents: int, limit: float | None = None) -> bool:
    """Whether chains of so many tasks fit into memory, and take some minutes until they may have mixed."""
    have = usable_memory() if limit is None else limit
    sets = n_subsets(candidates, max_parents)
    seconds = 8 * _FIRST_EACH * n * 2 * n * sets * tasks * _SECONDS
    return 3 * 8.0 * _DRAWS * traced(n, tasks) <= have and seconds <= _PATIENCE
