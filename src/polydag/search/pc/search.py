"""PC from end to end: skeleton, colliders, and a graph that some DAG agrees with.

Tests on samples contradict each other. Contradictions are resolved by rules that do not depend on the order
of the columns:

1. Arrows from background knowledge come first. If they make a cycle of the edges found, its weakest edge is
   removed. Then come those that known interventions give (`polydag.search.pc.regimes`).
2. Colliders are drawn from the most to the least certain: the fewest separating sets that contain the middle,
   then the largest p-value of the pair. A collider that would reverse an arrow or close a cycle is left out
   (`conflicts`).
3. A DAG is sought that has all arrows and no other v-structure. Where there is none, as few v-structures as a
   greedy choice allows are added, preferably at nodes whose edges have large p-values (`forced`).
4. "majority": the result is the CPDAG of that DAG. "conservative": Meek's rules are applied to the arrows,
   but not where they rest on an ambiguous triple, and only arrows that the DAG confirms are kept; edges that
   ambiguous triples leave open stay undirected, so the graph need not be a complete CPDAG.

References
----------
Spirtes, P., Glymour, C. and Scheines, R. (2000). Causation, prediction, and search.
Ramsey, J., Zhang, J. and Spirtes, P. (2006). Adjacency-faithfulness and conservative causal inference.
Colombo, D. and Maathuis, M. H. (2014). Order-independent constraint-based causal structure learning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from polydag import orientation
from polydag.arrays import Array, Index, Mask
from polydag.errors import UsageError
from polydag.knowledge import Masks
from polydag.parameters import check, optional, whole
from polydag.search.pc import _orientation_kernels as _kernels
from polydag.search.pc.colliders import RULES, Votes, vote
from polydag.search.pc.independence_tests.choice import make_test
from polydag.search.pc.independence_tests.sweeps import lists
from polydag.search.pc.regimes import RegimesTest, directions
from polydag.search.pc.skeleton import (
    Level,
    SeparatingSets,
    Skeleton,
    known_arrows,
    skeleton,
    without_known_cycles,
)

COLLIDERS = tuple(RULES)
LEVEL = 3.0
Triple = tuple[str, str, str]


@dataclass(frozen=True, eq=False)
class PCResult:
    """The result of PC.

    Attributes
    ----------
    adjacency : bool array of shape (d, d)
        `[i, j]` is `i -> j`; both entries are true where the edge is undirected.
    dag : bool array of shape (d, d)
        One DAG that agrees with it.
    pvalues : array of shape (d, d)
        The largest p-value among all tests of each pair; NaN where none was made.
    separating_sets : SeparatingSets
        For each removed pair, the set that separates it best.
    levels : tuple of Level
        Tests made, edges removed and tests skipped, by size of the conditioning sets. The first size that is
        too large for the rows (`n - size - 3 <= 0`) is listed with what was skipped; larger ones are not
        counted.
    ambiguous : tuple of (name, name, name)
        Unshielded triples, middle node second, for which the rule does not decide whether they are colliders.
    conflicts : tuple of (name, name, name)
        Colliders found but not drawn, since more certain ones contradict them.
    forced : int
        Nodes at which v-structures had to be added, since no DAG fits all decisions.
    dropped : tuple of (name, name)
        Edges found but removed, since knowledge would make a cycle of them.
    """

    adjacency: Mask
    dag: Mask
    pvalues: Array
    separating_sets: SeparatingSets
    levels: tuple[Level, ...]
    ambiguous: tuple[Triple, ...]
    conflicts: tuple[Triple, ...]
    forced: int
    dropped: tuple[tuple[str, str], ...]


def pc(
    stats: Any,
    *,
    alpha: float | Literal["auto"] = 0.01,
    colliders: str = "majority",
    max_conditioning: int | None = None,
    knowledge: Masks | None = None,
    n_jobs: int = 1,
) -> PCResult:
    """Learn a CPDAG by tests of conditional independence.

    Parameters
    ----------
    stats : GaussianStats, MixedStats, CountTables, or Regimes of them
        Tested by Fisher's z, Wilks' Λ, or G². A source of counts that keeps its rows is asked once for each
        size of conditioning sets, and once for the colliders.
    alpha : float or "auto"
        The level: an edge is removed where some test has a larger p-value. See `automatic_level`.
    colliders : {"majority", "conservative"}
        How colliders are found.
    max_conditioning : int, optional
        The most variables to condition on.
    knowledge : Masks, optional
        Required and forbidden edges, from `Knowledge.masks`.
    n_jobs : int
        Threads; -1 for all cores. The result does not depend on it.

    Examples
    --------
    >>> from polydag.stats import GaussianStats
    >>> x = np.random.default_rng(0).normal(size=(500, 3))
    >>> x[:, 2] += x[:, 0] + x[:, 1]
    >>> pc(GaussianStats.from_data(x)).adjacency.astype(int).tolist()
    [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    """
    if colliders not in RULES:
        raise UsageError(f"colliders must be one of {', '.join(RULES)}; got {colliders!r}.")
    check("max_conditioning", max_conditioning, optional(whole(least=0)))
    given = make_test(stats, automatic_level(stats) if alpha == "auto" else alpha)
    d = len(given.names)
    masks = Masks(np.zeros((d, d), dtype=bool), np.eye(d, dtype=bool)) if knowledge is None else knowledge
    # In the order of the names, ties and rounding fall the same way whatever the order of the columns.
    order = np.array(sorted(range(d), key=given.names.__getitem__))
    test = given.ordered(tuple(given.names[i] for i in order))
    masks = Masks(masks.required[np.ix_(order, order)], masks.forbidden[np.ix_(order, order)])
    found, gone = without_known_cycles(skeleton(test, masks, max_conditioning, n_jobs), masks)
    votes = vote(test, found, masks, max_conditioning, n_jobs)
    known = known_arrows(found.joined, masks)
    if isinstance(test, RegimesTest):
        known |= directions(test, found.joined, masks)
    oriented = _orient(found, votes, known, colliders)
    back = np.argsort(order)
    return PCResult(
        adjacency=oriented.adjacency[np.ix_(back, back)],
        dag=oriented.dag[np.ix_(back, back)],
        pvalues=found.pvalues[np.ix_(back, back)],
        separating_sets=found.separators,
        levels=tuple(found.levels),
        ambiguous=_named(oriented.ambiguous, test.names),
        conflicts=_named(oriented.conflicts, test.names),
        forced=oriented.forced,
        dropped=tuple((test.names[i], test.names[j]) for i, j in gone),
    )


def automatic_level(stats: Any) -> float:
    """The level `3 / (d √n)` for n rows and d variables, at most 0.05.

    Falling as 1/√n makes the tests consistent, and falling as 1/d bounds the false edges per variable. The
    factor was chosen by `benchmarks/penalties.py`.
    """
    return min(0.05, LEVEL / (len(stats.names) * math.sqrt(stats.n)))


@dataclass(frozen=True, eq=False)
class _Oriented:
    adjacency: Mask
    dag: Mask
    ambiguous: Index
    conflicts: Index
    forced: int


def _orient(found: Skeleton, votes: Votes, known: Mask, rule: str) -> _Oriented:
    joined, near = found.joined, lists(found.joined)
    is_collider, is_ambiguous = RULES[rule](votes)
    claims = votes.triples[is_collider][_surest_first(votes, found.pvalues, is_collider)]
    arrows = known.copy()
    kept = _kernels.accept_colliders(claims, arrows, near)
    weakness = np.nan_to_num(found.pvalues * joined).sum(axis=0)
    dag, forced = _kernels.extend(arrows, joined, near, weakness)
    ambiguous = votes.triples[is_ambiguous]
    if rule == "conservative":
        d = len(joined)
        keys = np.sort((ambiguous[:, 0] * d + ambiguous[:, 1]) * d + ambiguous[:, 2])
        A = joined & ~arrows.T
        _kernels.close(A, near, keys)
        A |= (A & ~dag).T  # an arrow that the DAG turns round: undirected
    else:
        A = joined & ~(orientation.v_structures(dag) | known).T
        _kernels.close(A, near, np.empty(0, dtype=np.int64))
    return _Oriented(A, dag, ambiguous, claims[~kept], int(forced))


def _surest_first(votes: Votes, pvalues: Array, chosen: Mask) -> Index:
    """The order of the colliders: the share of separating sets that hold k, the pair's p-value, the names."""
    triples = votes.triples[chosen]
    share = votes.holding[chosen] / votes.separating[chosen]
    p = np.nan_to_num(pvalues[triples[:, 0], triples[:, 2]])
    return np.lexsort((triples[:, 2], triples[:, 0], triples[:, 1], -p, share))


def _named(triples: Index, names: tuple[str, ...]) -> tuple[Triple, ...]:
    return tuple((names[i], names[k], names[j]) for i, k, j in triples)
