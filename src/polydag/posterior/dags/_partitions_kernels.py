"""Compiled moves between ordered partitions.

`level[i]` is the part of variable i, counted from 0 without gaps; `logs[i]` the logarithm of the sum of its
families whose parents lie in earlier parts, one of them in the part just before (none for part 0). Moves
change both in place. `power` flattens the target, for chains at a higher temperature.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from polydag.posterior.dags._drawing_kernels import draw_dag, levels, reverse
from polydag.posterior.families._sorted_families_kernels import limits, log_parts, log_sum, shares

_NOWHERE = 1 << 30


@njit(cache=True, nogil=True)
def score(ranked, level, lowest, highest, logs):  # type: ignore[no-untyped-def]
    """Fill in the log scores of the variables on some levels."""
    words = len(ranked.masks)
    outside, wanted = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for node in range(len(level)):
        own = level[node]
        if lowest <= own <= highest:
            limits(ranked.candidates, node, level, own, outside, wanted)
            logs[node] = log_sum(ranked, node, outside, wanted)


@njit(cache=True, nogil=True)
def _sizes(level, sizes):  # type: ignore[no-untyped-def]
    """How many variables each part has; the number of parts."""
    parts = 0
    for v in range(len(level)):
        sizes[v] = 0
    for v in range(len(level)):
        sizes[level[v]] += 1
        parts = max(parts, level[v] + 1)
    return parts


@njit(cache=True, nogil=True)
def _take_out(level, node, rest):  # type: ignore[no-untyped-def]
    """The partition without one variable, which is nowhere; how many parts are left."""
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


@njit(cache=True, nogil=True)
def relocation(ranked, place, level, node):  # type: ignore[no-untyped-def]
    """The log weights of all places of one variable among the parts of the others.

    Places 0, …, m - 1 join a part; m, …, 2m make a part of their own, before part 0, …, m - 1 and last. With
    the variable v taken out, the families of another variable u fall into those without v that have a parent
    in the part before (a), those with v that do (e), and those with v that do not (f). Wherever v stands, u's
    sum is one of a, a + e, a + e + f and e + f.
    """
    n = len(level)
    rest = np.empty(n, np.int64)
    parts = _take_out(level, node, rest)
    words = len(ranked.masks)
    outside, wanted = np.empty(words, np.uint64), np.empty(words, np.uint64)
    without, behind, after, alone = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    sums = np.zeros((parts, 4))
    for other in range(n):
        if other == node:
            continue
        own, position = rest[other], place[other, node]
        limits(ranked.candidates, other, rest, own, outside, wanted)
        if position >= 0:
            outside[position >> 6] &= ~(np.uint64(1) << np.uint64(position & 63))
        a, e, f = log_parts(ranked, other, outside, wanted, position)
        without[other] = a
        behind[other] = np.logaddexp(a, e)
        after[other] = np.logaddexp(behind[other], f)
        alone[other] = np.logaddexp(e, f)
        sums[own, 0] += a
        sums[own, 1] += behind[other]
        sums[own, 2] += after[other]
        sums[own, 3] += alone[other]
    own_logs = np.empty(parts + 1)
    for part in range(parts + 1):
        limits(ranked.candidates, node, rest, part, outside, wanted)
        own_logs[part] = log_sum(ranked, node, outside, wanted)
    weights = np.empty(2 * parts + 1)
    later = np.zeros(parts + 2)  # parts from some on, all of them far behind the variable
    for part in range(parts - 1, -1, -1):
        later[part] = later[part + 1] + sums[part, 1]
    earlier = 0.0
    for part in range(parts + 1):
        weights[parts + part] = earlier + own_logs[part]
        if part < parts:
            weights[parts + part] += sums[part, 3] + later[part + 1]
            earlier += sums[part, 0]
            weights[part] = earlier + own_logs[part]
            if part + 1 < parts:
                weights[part] += sums[part + 1, 2] + later[part + 2]
    return weights, rest, parts, own_logs, without, behind, after, alone


@njit(cache=True, nogil=True)
def _drawn(weights, power, rng):  # type: ignore[no-untyped-def]
    """A place in proportion to `exp(power · weight)`."""
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


@njit(cache=True, nogil=True)
def relocate(ranked, place, level, logs, node, power, rng):  # type: ignore[no-untyped-def]
    """Draw the place of one variable from its distribution given the parts of the others."""
    weights, rest, parts, own_logs, without, behind, after, alone = relocation(ranked, place, level, node)
    chosen = _drawn(weights, power, rng)
    joined = chosen < parts
    part = chosen if joined else chosen - parts
    for other in range(len(level)):
        if other == node:
            continue
        own = rest[other]
        if joined:
            logs[other] = without[other] if own <= part else (
                after[other] if own == part + 1 else behind[other])  # fmt: skip
            level[other] = own
        else:
            logs[other] = without[other] if own < part else (alone[other] if own == part else behind[other])
            level[other] = own + (own >= part)
    level[node] = part
    logs[node] = own_logs[part]


@njit(cache=True, nogil=True)
def _accept(ranked, level, logs, fresh, lowest, highest, bonus, power, rng):  # type: ignore[no-untyped-def]
    """Take over the fresh levels with the probability of Metropolis and Hastings."""
    n = len(level)
    limit = np.log(rng.random()) - bonus
    words = len(ranked.masks)
    outside, wanted = np.empty(words, np.uint64), np.empty(words, np.uint64)
    possible = 0.0  # the most that the variables not yet looked at can gain
    for node in range(n):
        if lowest <= fresh[node] <= highest:
            possible += ranked.tail[ranked.first[node]] - logs[node]
    new = np.empty(n)
    gained = 0.0
    for node in range(n):
        own = fresh[node]
        if lowest <= own <= highest:
            limits(ranked.candidates, node, fresh, own, outside, wanted)
            new[node] = log_sum(ranked, node, outside, wanted)
            gained += new[node] - logs[node]
            possible -= ranked.tail[ranked.first[node]] - logs[node]
            # The limit itself is -inf where the random number is 0.
            if new[node] == -np.inf or power * (gained + max(possible, 0.0)) < limit:
                return False
    for node in range(n):
        level[node] = fresh[node]
        if lowest <= fresh[node] <= highest:
            logs[node] = new[node]
    return True


@njit(cache=True, nogil=True)
def _log_splits(size, lower):  # type: ignore[no-untyped-def]
    """How many ways there are to choose a size for the lower half, and then the half."""
    ways = math.lgamma(size + 1.0) - math.lgamma(lower + 1.0) - math.lgamma(size - lower + 1.0)
    return np.log(size - 1.0) + ways


@njit(cache=True, nogil=True)
def _large(sizes, parts):  # type: ignore[no-untyped-def]
    """How many parts can be split."""
    large = 0
    for part in range(parts):
        large += sizes[part] > 1
    return large


@njit(cache=True, nogil=True)
def _split(level, sizes, parts, fresh, rng):  # type: ignore[no-untyped-def]
    """Split a part in two."""
    large = _large(sizes, parts)
    if large == 0:
        return 0, -1, 0.0
    pick = int(rng.random() * large)
    part = 0
    while sizes[part] < 2 or pick > 0:
        pick -= sizes[part] > 1
        part += 1
    size = sizes[part]
    lower = 1 + int(rng.random() * (size - 1))
    need, left = lower, size
    for node in range(len(level)):
        if level[node] > part:
            fresh[node] += 1
        elif level[node] == part:
            if rng.random() * left < need:
                need -= 1
            else:
                fresh[node] += 1
            left -= 1
    return part + 1, part + 2, np.log(large) + _log_splits(size, lower) - np.log(parts)


@njit(cache=True, nogil=True)
def _merge(level, sizes, parts, fresh, rng):  # type: ignore[no-untyped-def]
    """Merge two parts that follow each other."""
    if parts == 1:
        return 0, -1, 0.0
    part = int(rng.random() * (parts - 1))
    for node in range(len(level)):
        fresh[node] -= level[node] > part
    large = _large(sizes, parts) - (sizes[part] > 1) - (sizes[part + 1] > 1) + 1
    size = sizes[part] + sizes[part + 1]
    return part, part + 1, np.log(parts - 1) - np.log(large) - _log_splits(size, sizes[part])


@njit(cache=True, nogil=True)
def _swap(level, parts, near, fresh, rng):  # type: ignore[no-untyped-def]
    """Exchange two variables of different parts; `near` for parts that follow each other."""
    n = len(level)
    if parts == 1:
        return 0, -1, 0.0
    while True:
        a, b = int(rng.random() * n), int(rng.random() * n)
        apart = abs(level[a] - level[b])
        if apart == 1 or (apart > 1 and not near):
            break
    fresh[a], fresh[b] = level[b], level[a]
    return min(level[a], level[b]), max(level[a], level[b]) + 1, 0.0


@njit(cache=True, nogil=True)
def propose(ranked, level, logs, power, rng):  # type: ignore[no-untyped-def]
    """One move that may be refused: to split, to merge, to exchange two variables."""
    n = len(level)
    fresh, sizes = np.empty(n, np.int64), np.empty(n, np.int64)
    for node in range(n):
        fresh[node] = level[node]
    parts = _sizes(level, sizes)
    u = rng.random()
    if u < 0.3:
        lowest, highest, bonus = _split(level, sizes, parts, fresh, rng)
    elif u < 0.6:
        lowest, highest, bonus = _merge(level, sizes, parts, fresh, rng)
    else:
        lowest, highest, bonus = _swap(level, parts, u < 0.8, fresh, rng)
    if lowest <= highest:
        _accept(ranked, level, logs, fresh, lowest, highest, bonus, power, rng)


@njit(cache=True, nogil=True)
def reversals(ranked, level, logs, count, power, rng):  # type: ignore[no-untyped-def]
    """Turn edges around in a DAG drawn from the partition, and go to the partition that it has then.

    Given its partition a DAG is drawn exactly, and a DAG has one partition only: moves that leave the
    posterior of DAGs as it is do so with that of partitions. They are one proposal where the target is
    flattened.
    """
    n = len(level)
    dag = np.zeros((n, n), np.bool_)
    draw_dag(ranked, level, True, rng, dag)
    made = 0
    for _ in range(count):
        made += reverse(ranked, dag, rng)
    fresh, new = np.empty(n, np.int64), np.empty(n)
    levels(dag, fresh)
    score(ranked, fresh, 0, n, new)
    gained = 0.0
    for node in range(n):
        gained += new[node] - logs[node]
    if power != 1 and np.log(rng.random()) >= (power - 1) * gained:
        return 0
    for node in range(n):
        level[node] = fresh[node]
        logs[node] = new[node]
    return made


@njit(cache=True, nogil=True)
def sweep(ranked, place, level, logs, relocations, proposals, turns, power, rng):  # type: ignore[no-untyped-def]
    """Moves of all kinds; how many of the edges were turned around."""
    for _ in range(relocations):
        relocate(ranked, place, level, logs, int(rng.random() * len(level)), power, rng)
    for _ in range(proposals):
        propose(ranked, level, logs, power, rng)
    return reversals(ranked, level, logs, turns, power, rng) if turns else 0


@njit(cache=True, nogil=True)
def edges(ranked, level, result):  # type: ignore[no-untyped-def]
    """The probability of every edge given the partition: `result[j, i]` for `i -> j`."""
    words = len(ranked.masks)
    outside, wanted = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for node in range(len(level)):
        limits(ranked.candidates, node, level, level[node], outside, wanted)
        shares(ranked, node, outside, wanted, log_sum(ranked, node, outside, wanted), result[node])
