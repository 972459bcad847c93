"""Compiled moves between ordered partitions.

Shapes of arguments that several kernels share:

families : SortedFamilies
candidate_index : int array of shape (n, n)
    `[u, v]` is the position of v among the candidate parents of u; -1 where it is none.
level : int array of shape (n,)
    The part of each variable, counted from 0 without gaps.
log_sums : array of shape (n,)
    The log of the sum over the families of each variable whose parents lie in earlier parts, at least one of
    them in the part just before (none for part 0). Moves change `level` and `log_sums` in place.
new_level : int array of shape (n,)
    A proposed partition.
sizes : int array of shape (n,)
    How many variables each part has.
power : float
    The target is the weight of a partition to this power.
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from polydag.arrays import Array, Index, Int
from polydag.compilation import inner, kernel
from polydag.posterior.dags._drawing_kernels import draw_dag, path_lengths, reverse_edge
from polydag.posterior.families._sorted_families_kernels import (
    log_sum,
    log_sums_by_candidate,
    parent_probabilities,
    partition_constraint,
)

if TYPE_CHECKING:
    from polydag.posterior.families.sorted_families import SortedFamilies

_NOWHERE = 1 << 30


@kernel
def score(families: SortedFamilies, level: Index, lowest: Int, highest: Int, log_sums: Array) -> None:
    """Fill in the log sums of the variables of the parts from `lowest` to `highest`."""
    words = len(families.masks)
    excluded, required = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for node in range(len(level)):
        own = level[node]
        if lowest <= own <= highest:
            partition_constraint(families.candidates, node, level, own, excluded, required)
            log_sums[node] = log_sum(families, node, excluded, required)


@inner
def _sizes(level: Index, sizes: Index) -> int:
    """Fill in the sizes of the parts; returns the number of parts."""
    parts = 0
    for v in range(len(level)):
        sizes[v] = 0
    for v in range(len(level)):
        sizes[level[v]] += 1
        parts = max(parts, level[v] + 1)
    return parts


@inner
def _take_out(level: Index, node: Int, rest: Index) -> int:
    """Fill in `rest`, an int array of shape (n,), with the partition without one variable.

    Returns how many parts are left.
    """
    n = len(level)
    own, parts, alone = level[node], 0, True
    for v in range(n):
        alone = alone and (v == node or level[v] != own)
    for v in range(n):
        rest[v] = level[v] - 1 if alone and level[v] > own else level[v]
        if v != node:
            parts = max(parts, rest[v] + 1)
    rest[node] = _NOWHERE
    return parts


@kernel
def weigh_places(
    families: SortedFamilies, candidate_index: Index, level: Index, node: Int
) -> tuple[Array, Index, int, Array, Array, Array, Array, Array]:
    """The log weights of all places of one variable among the parts of the others.

    Places 0, …, m - 1 join a part; m, …, 2m form a part of their own, before part 0, …, m - 1 and after the
    last. With the variable v taken out, the families of another variable u divide into those without v that
    have a parent in the part before (a), those with v that do (e), and those with v that do not (f). Wherever
    v is placed, the sum of u is one of a, a + e, a + e + f and e + f.

    Returns
    -------
    weights : array of shape (2m + 1,)
    rest : int array of shape (n,)
        The partition of the others.
    parts : int
        The number m of their parts.
    own_sums : array of shape (m + 1,)
        The log sums of v by its part.
    without, behind, after, alone : arrays of shape (n,)
        The logs of a, a + e, a + e + f and e + f.
    """
    n = len(level)
    rest = np.empty(n, np.int64)
    parts = _take_out(level, node, rest)
    words = len(families.masks)
    excluded, required = np.empty(words, np.uint64), np.empty(words, np.uint64)
    without, behind, after, alone = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    sums = np.zeros((parts, 4))
    for other in range(n):
        if other == node:
            continue
        own, position = rest[other], candidate_index[other, node]
        partition_constraint(families.candidates, other, rest, own, excluded, required)
        if position >= 0:
            excluded[position >> 6] &= ~(np.uint64(1) << np.uint64(position & 63))
        a, e, f = log_sums_by_candidate(families, other, excluded, required, position)
        without[other] = a
        behind[other] = np.logaddexp(a, e)
        after[other] = np.logaddexp(behind[other], f)
        alone[other] = np.logaddexp(e, f)
        sums[own, 0] += a
        sums[own, 1] += behind[other]
        sums[own, 2] += after[other]
        sums[own, 3] += alone[other]
    own_sums = np.empty(parts + 1)
    for part in range(parts + 1):
        partition_constraint(families.candidates, node, rest, part, excluded, required)
        own_sums[part] = log_sum(families, node, excluded, required)
    weights = np.empty(2 * parts + 1)
    later = np.zeros(parts + 2)  # sums over all parts from some part on, none of them just after the variable
    for part in range(parts - 1, -1, -1):
        later[part] = later[part + 1] + sums[part, 1]
    earlier = 0.0
    for part in range(parts + 1):
        weights[parts + part] = earlier + own_sums[part]
        if part < parts:
            weights[parts + part] += sums[part, 3] + later[part + 1]
            earlier += sums[part, 0]
            weights[part] = earlier + own_sums[part]
            if part + 1 < parts:
                weights[part] += sums[part + 1, 2] + later[part + 2]
    return weights, rest, parts, own_sums, without, behind, after, alone


@inner
def _draw_place(weights: Array, power: float, rng: np.random.Generator) -> int:
    """A place in proportion to `exp(power · weight)`; `weights` is an array."""
    best = 0
    for place in range(len(weights)):
        if weights[place] > weights[best]:
            best = place
    total = 0.0
    for place in range(len(weights)):
        total += np.exp(power * (weights[place] - weights[best]))
    left = rng.random() * total
    for place in range(len(weights)):
        left -= np.exp(power * (weights[place] - weights[best]))
        if left < 0:
            return place
    return best


@kernel
def relocate(
    families: SortedFamilies,
    candidate_index: Index,
    level: Index,
    log_sums: Array,
    node: Int,
    power: float,
    rng: np.random.Generator,
) -> None:
    """Draw the place of one variable from its distribution given the parts of the others."""
    weights, rest, parts, own_sums, without, behind, after, alone = weigh_places(
        families, candidate_index, level, node
    )
    chosen = _draw_place(weights, power, rng)
    joined = chosen < parts
    part = chosen if joined else chosen - parts
    for other in range(len(level)):
        if other == node:
            continue
        own = rest[other]
        if joined:
            log_sums[other] = without[other] if own <= part else (
                after[other] if own == part + 1 else behind[other])  # fmt: skip
            level[other] = own
        else:
            log_sums[other] = (
                without[other] if own < part else (alone[other] if own == part else behind[other])
            )
            level[other] = own + (own >= part)
    level[node] = part
    log_sums[node] = own_sums[part]


@inner
def _accept(
    families: SortedFamilies,
    level: Index,
    log_sums: Array,
    new_level: Index,
    lowest: Int,
    highest: Int,
    log_ratio: float,
    power: float,
    rng: np.random.Generator,
) -> bool:
    """Accept the proposed partition by the Metropolis-Hastings rule; returns whether it is.

    Variables of the parts from `lowest` to `highest` have new sums; `log_ratio` is the log of the ratio of
    the proposal probabilities.
    """
    n = len(level)
    limit = np.log(rng.random()) - log_ratio
    words = len(families.masks)
    excluded, required = np.empty(words, np.uint64), np.empty(words, np.uint64)
    possible = 0.0  # an upper bound of what the variables not yet summed can gain
    for node in range(n):
        if lowest <= new_level[node] <= highest:
            possible += families.tail[families.first[node]] - log_sums[node]
    new = np.empty(n)
    gained = 0.0
    for node in range(n):
        own = new_level[node]
        if lowest <= own <= highest:
            partition_constraint(families.candidates, node, new_level, own, excluded, required)
            new[node] = log_sum(families, node, excluded, required)
            gained += new[node] - log_sums[node]
            possible -= families.tail[families.first[node]] - log_sums[node]
            # The limit itself is -inf where the random number is 0.
            if new[node] == -np.inf or power * (gained + max(possible, 0.0)) < limit:
                return False
    for node in range(n):
        level[node] = new_level[node]
        if lowest <= new_level[node] <= highest:
            log_sums[node] = new[node]
    return True


@inner
def _log_splits(size: Int, lower: Int) -> float:
    """The log of the number of ways to choose a size for the lower part, and then its members."""
    ways = math.lgamma(size + 1.0) - math.lgamma(lower + 1.0) - math.lgamma(size - lower + 1.0)
    return np.log(size - 1.0) + ways


@inner
def _n_divisible(sizes: Index, parts: Int) -> int:
    """How many parts have more than one variable."""
    divisible = 0
    for part in range(parts):
        divisible += sizes[part] > 1
    return divisible


@inner
def _split(
    level: Index, sizes: Index, parts: Int, new_level: Index, rng: np.random.Generator
) -> tuple[int, int, float]:
    """Propose to split a part in two.

    This and the following proposals fill in `new_level` and return the first and the last part with new sums
    (none where there is no such move) and the log of the ratio of the proposal probabilities.
    """
    divisible = _n_divisible(sizes, parts)
    if divisible == 0:
        return 0, -1, 0.0
    pick = int(rng.random() * divisible)
    part = 0
    while sizes[part] < 2 or pick > 0:
        pick -= sizes[part] > 1
        part += 1
    size = sizes[part]
    lower = 1 + int(rng.random() * (size - 1))
    need, left = lower, size
    for node in range(len(level)):
        if level[node] > part:
            new_level[node] += 1
        elif level[node] == part:
            if rng.random() * left < need:
                need -= 1
            else:
                new_level[node] += 1
            left -= 1
    return part + 1, part + 2, np.log(divisible) + _log_splits(size, lower) - np.log(parts)


@inner
def _merge(
    level: Index, sizes: Index, parts: Int, new_level: Index, rng: np.random.Generator
) -> tuple[int, int, float]:
    """Propose to merge two neighbouring parts."""
    if parts == 1:
        return 0, -1, 0.0
    part = int(rng.random() * (parts - 1))
    for node in range(len(level)):
        new_level[node] -= level[node] > part
    divisible = _n_divisible(sizes, parts) - (sizes[part] > 1) - (sizes[part + 1] > 1) + 1
    size = sizes[part] + sizes[part + 1]
    return part, part + 1, np.log(parts - 1) - np.log(divisible) - _log_splits(size, sizes[part])


@inner
def _swap(
    level: Index, parts: Int, adjacent: bool, new_level: Index, rng: np.random.Generator
) -> tuple[int, int, float]:
    """Propose to swap two variables of different parts, or of neighbouring parts if `adjacent`."""
    n = len(level)
    if parts == 1:
        return 0, -1, 0.0
    while True:
        a, b = int(rng.random() * n), int(rng.random() * n)
        apart = abs(level[a] - level[b])
        if apart == 1 or (apart > 1 and not adjacent):
            break
    new_level[a], new_level[b] = level[b], level[a]
    return min(level[a], level[b]), max(level[a], level[b]) + 1, 0.0


@kernel
def propose(
    families: SortedFamilies, level: Index, log_sums: Array, power: float, rng: np.random.Generator
) -> None:
    """One Metropolis-Hastings move: a split, a merge or a swap."""
    n = len(level)
    new_level, sizes = np.empty(n, np.int64), np.empty(n, np.int64)
    for node in range(n):
        new_level[node] = level[node]
    parts = _sizes(level, sizes)
    u = rng.random()
    if u < 0.3:
        lowest, highest, log_ratio = _split(level, sizes, parts, new_level, rng)
    elif u < 0.6:
        lowest, highest, log_ratio = _merge(level, sizes, parts, new_level, rng)
    else:
        lowest, highest, log_ratio = _swap(level, parts, u < 0.8, new_level, rng)
    if lowest <= highest:
        _accept(families, level, log_sums, new_level, lowest, highest, log_ratio, power, rng)


@kernel
def reversals(
    families: SortedFamilies,
    level: Index,
    log_sums: Array,
    count: Int,
    power: float,
    rng: np.random.Generator,
) -> int:
    """Reverse edges in a DAG drawn from the partition, and move to the partition of the resulting DAG.

    Given the partition the DAG is an exact draw, and every DAG has one partition: moves that leave the
    posterior over DAGs invariant do the same for partitions. Where the target is a power of the weight,
    all reversals together are one proposal. Returns how many edges were reversed.
    """
    n = len(level)
    dag = np.zeros((n, n), np.bool_)
    draw_dag(families, level, True, rng, dag)
    made = 0
    for _ in range(count):
        made += reverse_edge(families, dag, rng)
    new_level, new = np.empty(n, np.int64), np.empty(n)
    path_lengths(dag, new_level)
    score(families, new_level, 0, n, new)
    gained = 0.0
    for node in range(n):
        gained += new[node] - log_sums[node]
    if power != 1 and np.log(rng.random()) >= (power - 1) * gained:
        return 0
    for node in range(n):
        level[node] = new_level[node]
        log_sums[node] = new[node]
    return made


@kernel
def sweep(
    families: SortedFamilies,
    candidate_index: Index,
    level: Index,
    log_sums: Array,
    relocations: Int,
    proposals: Int,
    n_reversals: Int,
    power: float,
    rng: np.random.Generator,
) -> int:
    """Moves of all kinds; returns how many edges were reversed."""
    for _ in range(relocations):
        relocate(families, candidate_index, level, log_sums, int(rng.random() * len(level)), power, rng)
    for _ in range(proposals):
        propose(families, level, log_sums, power, rng)
    return reversals(families, level, log_sums, n_reversals, power, rng) if n_reversals else 0


@kernel
def edge_probabilities(families: SortedFamilies, level: Index, result: Array) -> None:
    """Fill in `result`, of shape (n, n), with the probability of each edge given the partition.

    `result[j, i]` is that of `i -> j`.
    """
    words = len(families.masks)
    excluded, required = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for node in range(len(level)):
        partition_constraint(families.candidates, node, level, level[node], excluded, required)
        parent_probabilities(
            families, node, excluded, required, log_sum(families, node, excluded, required), result[node]
        )
