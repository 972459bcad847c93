"""Which unshielded triples i - k - j are colliders: a vote among the sets that separate i and j.

All subsets of the neighbours of i and of those of j (each set once) are tested; k is a collider when few of
the separating ones hold it (Ramsey, Zhang and Spirtes 2006; Colombo and Maathuis 2014, section 4.2):

- majority: a collider when k is in fewer than half of them, none when in more than half, else ambiguous;
- conservative: a collider when k is in none of them, none when in all, else ambiguous.

Where no subset of the neighbours left separates, the set that removed the edge decides; where there is none
(the pair is forbidden), the triple is ambiguous.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polydag.arrays import Index, Mask
from polydag.knowledge import Masks
from polydag.search.pc.independence_tests.sweeps import IndependenceTest, Plan, lists, sweep
from polydag.search.pc.skeleton import Skeleton


class Votes(NamedTuple):
    """Unshielded triples (i, k, j), i < j, the sets that separate i and j, and how many of them hold k."""

    triples: Index
    separating: Index
    holding: Index


def vote(
    test: IndependenceTest, found: Skeleton, masks: Masks, max_conditioning: int | None, n_jobs: int
) -> Votes:
    """Count, for each unshielded triple that knowledge leaves open, the separating sets."""
    from scipy.sparse import csr_array

    d = len(test.names)
    joined = found.joined
    edges: Any = csr_array(joined, dtype=np.int32)
    apart = ((edges @ edges).toarray() > 0) & ~joined
    np.fill_diagonal(apart, False)
    may_hold = joined & ~masks.forbidden
    limit = test.largest_set if max_conditioning is None else min(max_conditioning, test.largest_set)
    plan = Plan(lists(may_hold.T), lists(apart), may_hold, 0, limit, voting=True)
    tally = sweep(test, plan, n_jobs)
    n_targets, n_candidates = np.diff(plan.targets.start), np.diff(plan.candidates.start)
    # One entry for each node, target and candidate, as in tally.hits.
    i = np.repeat(np.arange(d), n_targets)
    t = plan.targets.members
    separating = np.zeros((d, d), dtype=np.int64)
    separating[i, t] = tally.votes
    separating += separating.T
    span = n_candidates[i]
    place = np.arange(span.sum()) - np.repeat(span.cumsum() - span, span)
    i, t = np.repeat(i, span), np.repeat(t, span)
    k = plan.candidates.members[plan.candidates.start[i] + place]
    common = joined[k, t]
    keys = ((np.minimum(i, t) * d + k) * d + np.maximum(i, t))[common]
    keys, where = np.unique(keys, return_inverse=True)
    holding = np.bincount(where, weights=tally.hits[common], minlength=len(keys)).astype(np.int64)
    triples = np.stack([keys // (d * d), keys // d % d, keys % d], axis=1)
    total = separating[triples[:, 0], triples[:, 2]]
    _ask_skeleton(found, triples, total, holding)
    return Votes(triples, total, holding)


def _ask_skeleton(found: Skeleton, triples: Index, total: Index, holding: Index) -> None:
    """Where no set separates, count the one that removed the edge; in place."""
    for place in np.flatnonzero(total == 0):
        i, k, j = triples[place]
        members = found.separators.conditional.get((int(i), int(j)))
        if members is not None:
            total[place] = 1
            holding[place] = int(k) in members


def majority(votes: Votes) -> tuple[Mask, Mask]:
    """Which triples are colliders, and which are ambiguous."""
    open_ = 2 * votes.holding == votes.separating
    return (2 * votes.holding < votes.separating), open_


def conservative(votes: Votes) -> tuple[Mask, Mask]:
    """Which triples are colliders, and which are ambiguous."""
    none = (votes.holding == 0) & (votes.separating > 0)
    every = (votes.holding == votes.separating) & (votes.separating > 0)
    return none, ~none & ~every


RULES = {"majority": majority, "conservative": conservative}
