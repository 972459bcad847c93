"""Related tasks family by family, for many variables, where joint sums over orders do not fit.

Groups of tasks are merged as in `relatedness`, by Bayes factors of families without the constraint of
acyclicity. These count what is known of a connection for both of its ends, so half of their logarithm is
used. A task's parent sets then have the prior

    P(i, π) = w_0 p(i, π) + Σ_G w_G Σ_ρ P(ρ | rows of the other tasks in G) P(π | ρ)

over the groups G that it may belong to: where tasks are not related, the structure prior remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from polydag.arrays import Array
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.transfer.common_network import Deviations
from polydag.posterior.transfer.family import subset_tables
from polydag.posterior.transfer.relatedness import (
    DROPPED,
    RELATED_OWN,
    Group,
    common_factors,
    concentrations,
    merged_group,
    merged_groups,
    normalised,
    total,
)

_NEGLIGIBLE = 1e-6


def related_families(prior: FamilyTable, tasks: Sequence[FamilyTable]) -> tuple[list[FamilyTable], Array]:
    """Each task's table with a prior that the related tasks inform, and the probabilities of being related.

    Parameters
    ----------
    prior : FamilyTable
        The log prior of families.
    tasks : sequence of FamilyTable
        Log scores, without structure prior but `-inf` where families are ruled out.
    """
    K, base = len(tasks), normalised(prior)
    evidence = FamilyEvidence(prior, tasks)
    factors, concentration = evidence.factors, concentrations(K)

    def merge(first: Group, second: Group) -> Group:
        members = first.members + second.members
        return merged_group(first, second, concentration, lambda: {RELATED_OWN: evidence.of(members)})

    def leaf(k: int) -> Group:
        return unmerged(k, concentration)

    tree = merged_groups(prior, tasks, leaf, merge)
    weights = np.exp(tree.log_evidence - np.logaddexp.reduce(tree.log_evidence))
    relatedness = np.eye(K)
    priors = [np.full_like(base, -np.inf) for _ in range(K)]

    def descend(group: Group, reach: Array) -> None:
        if not group.branches:
            k = group.members[0]
            priors[k] = np.logaddexp(priors[k], math.log(max(float(reach.sum()), 1e-300)) + base)
            return
        joined = float(reach @ group.together)
        where = list(group.members)
        relatedness[np.ix_(where, where)] += joined * ~np.eye(len(where), dtype=bool)
        if joined > _NEGLIGIBLE:
            whole = base + np.sum([factors[k] for k in where], axis=0)
            for k in where:
                others = _predicted(prior, whole - factors[k])
                priors[k] = np.logaddexp(priors[k], math.log(joined) + others)
        for branch in group.branches:
            descend(branch, reach * (1.0 - group.together))

    descend(tree, weights)
    tables = [task.with_scores(task.scores + own) for task, own in zip(tasks, priors, strict=True)]
    return tables, relatedness


class FamilyEvidence:
    """How far tasks are related, by Bayes factors of families; arguments are as in `related_families`."""

    def __init__(self, prior: FamilyTable, tasks: Sequence[FamilyTable]) -> None:
        self._base = normalised(prior)
        self.factors = [common_factors(prior, task) for task in tasks]
        self._alone = [total(task.scores + self._base) for task in tasks]

    def of(self, members: Sequence[int]) -> float:
        """The log evidence of some tasks' being related, relative to that of separate tasks."""
        joint = total(self._base + np.sum([self.factors[k] for k in members], axis=0))
        return 0.5 * (joint - sum(self._alone[k] for k in members))


def unmerged(k: int, concentration: Array) -> Group:
    """A single task; evidences are relative to those of separate tasks."""
    zero = np.zeros(len(concentration))
    return Group((k,), (), zero + 1, {"alone": 1.0}, zero, np.log(concentration))


def _predicted(prior: FamilyTable, common: Array) -> Array:
    """`log Σ_ρ P(ρ) P(π | ρ)` for every family π, from log weights of the common network's families."""
    from polydag.posterior.transfer._transfer_kernels import superset_sums, transfer_sums

    moves = Deviations.of(prior, DROPPED)
    numbers, members = subset_tables(prior)
    top = prior.max_parents
    p, t = np.indices((top + 1, top + 1))
    log_c = np.where(t <= p, t * math.log((moves.A - moves.B) / moves.B), -np.inf)
    normal = np.zeros(len(prior.sizes))
    with np.errstate(divide="ignore"):
        transfer_sums(
            superset_sums(moves.log_x * prior.sizes.astype(np.float64), numbers, prior.sizes),
            numbers, prior.sizes, members, np.log(moves.c), normal,
        )  # fmt: skip
    result = np.zeros_like(common)
    for node in range(prior.n):
        weights = common[node] - normal + math.log(moves.B) * prior.sizes
        transfer_sums(
            superset_sums(weights, numbers, prior.sizes), numbers, prior.sizes, members, log_c, result[node]
        )
    result += moves.log_x * prior.sizes
    return np.asarray(result - np.logaddexp.reduce(result, axis=1)[:, None])
