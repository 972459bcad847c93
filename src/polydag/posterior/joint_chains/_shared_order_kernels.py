"""Compiled sums over the families of all tasks given an order, and moves between orders.

A node and its predecessors have three sums: over the families of one population, of the same network with
strengths of each task's own, and of networks that deviate from a common one. The ways in which tasks go
together are made of these (`polydag.posterior.transfer.relatedness`). Sums are kept in a table by a hash of
node and predecessors, where a new entry replaces an old one.
"""

import numpy as np
from numba import njit

from polydag.posterior.transfer._common_network_kernels import _add_equal, _with_element

_FAR = 50.0  # nats below the largest term from which on terms are left out
_HALF = np.log(0.5)


@njit(cache=True, nogil=True)
def _add(a, b):  # type: ignore[no-untyped-def]
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + np.log1p(np.exp(b - a))


@njit(cache=True, nogil=True)
def _inside(before, candidates, sets, sizes, listed, inside):  # type: ignore[no-untyped-def]
    """List those of a node's sets that precede it; returns how many there are."""
    count = 0
    for s in listed:
        if s < 0:
            break
        allowed = True
        for bit in range(sizes[s]):
            if not before[candidates[sets[s, bit]]]:
                allowed = False
                break
        if allowed:
            inside[count] = s
            count += 1
    return count


@njit(cache=True, nogil=True)
def _log_sum(logs, inside, count):  # type: ignore[no-untyped-def]
    high = -np.inf
    for i in range(count):
        high = max(high, logs[inside[i]])
    if high == -np.inf:
        return high
    total = 0.0
    for i in range(count):
        gap = logs[inside[i]] - high
        if gap > -_FAR:
            total += np.exp(gap)
    return high + np.log(total)


@njit(cache=True, nogil=True)
def _superset_sums(logs, inside, count, sizes, numbers, S):  # type: ignore[no-untyped-def]
    """`S[T]`, the sum over the sets inside that contain T, as shares of that of all; log of the latter."""
    high = -np.inf
    for i in range(count):
        high = max(high, logs[inside[i]])
        S[inside[i]] = 0.0
    if high == -np.inf:
        return high
    for i in range(count):
        s = inside[i]
        gap = logs[s] - high
        if gap > -_FAR:
            value = np.exp(gap)
            for mask in range(1 << sizes[s]):
                S[numbers[s, mask]] += value
    total = S[0]
    for i in range(count):
        S[inside[i]] /= total
    return high + np.log(total)


@njit(cache=True, nogil=True)
def _share(S, s, p, numbers, members, c):  # type: ignore[no-untyped-def]
    part = 0.0
    for mask in range(1 << p):
        part += c[p, members[mask]] * S[numbers[s, mask]]
    return part


@njit(cache=True, nogil=True)
def sums_given_predecessors(  # type: ignore[no-untyped-def]
    node, before, u, candidates, sets, sizes, numbers, members, c, log_z, prior, one, same, scores, normal,
    listed, inside, S, weights, found,
):  # fmt: skip
    """The three log sums of a node in `found`; returns the number of sets inside.

    `before[v]` says whether v precedes the node, u is how many of its candidates do. `listed[node]` are the
    sets to sum over, with all their subsets, and -1 behind them. `weights[i]` becomes the share of the i-th
    set inside as the family of the common network.
    """
    tasks, rows = len(scores), len(scores) + len(normal)
    count = _inside(before, candidates[node], sets, sizes, listed[node], inside)
    found[0] = _log_sum(one[node], inside, count)
    found[1] = _log_sum(same[node], inside, count)
    found[2] = -np.inf
    level = 0.0
    for j in range(rows):
        logs = scores[j, node] if j < tasks else normal[j - tasks, node]
        own = _superset_sums(logs, inside, count, sizes, numbers, S[j])
        if own == -np.inf:
            weights[:count] = 0.0
            return count
        level += own if j < tasks else -tasks * own
    total = 0.0
    for i in range(count):
        s = inside[i]
        p = sizes[s]
        value = np.exp(prior[node, s] + log_z[u, p])
        if value > 0:
            for j in range(tasks):
                value *= _share(S[j], s, p, numbers, members, c)
            for j in range(tasks, rows):
                value /= _share(S[j], s, p, numbers, members, c) ** tasks
        weights[i] = value
        total += value
    if total > 0:
        found[2] = level + np.log(total)
        for i in range(count):
            weights[i] /= total
    return count


@njit(cache=True, nogil=True)
def _add_ways(found, ways):  # type: ignore[no-untyped-def]
    """Add the sums of a node to the log weights of the five ways."""
    ways[0] += found[0]
    ways[1] += _HALF + _add(found[0], found[1])
    ways[2] += found[1]
    ways[3] += _HALF + _add(found[0], found[2])
    ways[4] += found[2]


@njit(cache=True, nogil=True)
def _kept_sums(  # type: ignore[no-untyped-def]
    node, before, key, is_candidate, model, keys, values, inside, S, weights, ways
):  # fmt: skip
    """Add a node's sums to the ways, from the table where they are in it."""
    slot = key & np.uint64(len(keys) - 1)
    if keys[slot] != key:
        u = 0
        for v in range(len(before)):
            u += before[v] and is_candidate[node, v]
        sums_given_predecessors(node, before, u, *model, inside, S, weights, values[slot])  # type: ignore[call-arg]
        keys[slot] = key
    _add_ways(values[slot], ways)


@njit(cache=True, nogil=True)
def whole(logs):  # type: ignore[no-untyped-def]
    """The log of a sum of exponentials."""
    high = np.max(logs)
    return high if high == -np.inf else high + np.log(np.sum(np.exp(logs - high)))


@njit(cache=True, nogil=True)
def ways_of_order(  # type: ignore[no-untyped-def]
    order, log_ways, is_candidate, hashes, model, keys, values, inside, S, weights
):  # fmt: skip
    """The log weight of each way, with its prior, given an order."""
    n = len(order)
    before, hashed, ways = np.zeros(n, dtype=np.bool_), np.uint64(0), log_ways.copy()
    for node in order:
        _kept_sums(
            node,
            before,
            hashed ^ hashes[n + node],
            is_candidate,
            model,
            keys,
            values,
            inside,
            S,
            weights,
            ways,
        )
        before[node] = True
        hashed ^= hashes[node]
    return ways


@njit(cache=True, nogil=True)
def relocate(  # type: ignore[no-untyped-def]
    order, nodes, uniforms, power, log_ways, is_candidate, hashes, model, keys, values, inside, S, weights
):  # fmt: skip
    """Draw the place of one node after the other among all others; returns how many moved.

    `log_ways` are the log prior weights of the ways; the target is the power of the sum over them.
    """
    n = len(order)
    moved = 0
    rest = np.empty(n - 1, dtype=np.int64)
    before = np.zeros(n, dtype=np.bool_)
    first, last, own = np.zeros((n, 5)), np.zeros((n, 5)), np.zeros((n, 5))
    places, ways = np.empty(n), np.empty(5)
    for step in range(len(nodes)):
        v = nodes[step]
        place, t = 0, 0
        for i in range(n):
            if order[i] == v:
                place = i
            else:
                rest[t] = order[i]
                t += 1
        before[:] = False
        hashed = np.uint64(0)
        first[:], last[:], own[:] = 0.0, 0.0, 0.0
        for t in range(n):
            _kept_sums(
                v,
                before,
                hashed ^ hashes[n + v],
                is_candidate,
                model,
                keys,
                values,
                inside,
                S,
                weights,
                own[t],
            )
            if t == n - 1:
                break
            x = rest[t]
            _kept_sums(
                x, before, hashed ^ hashes[n + x], is_candidate, model, keys, values, inside, S, weights,
                first[t],
            )  # fmt: skip
            before[v] = True
            _kept_sums(
                x, before, hashed ^ hashes[v] ^ hashes[n + x], is_candidate, model, keys, values, inside, S,
                weights, last[t],
            )  # fmt: skip
            before[v] = False
            before[x] = True
            hashed ^= hashes[x]
        for t in range(n):
            ways[:] = log_ways
            for i in range(n - 1):
                ways += first[i] if i < t else last[i]
            places[t] = power * whole(ways + own[t])
        high = np.max(places)
        total = 0.0
        for t in range(n):
            places[t] = np.exp(places[t] - high)
            total += places[t]
        mark, chosen = uniforms[step] * total, 0
        while chosen < n - 1 and mark >= places[chosen]:
            mark -= places[chosen]
            chosen += 1
        moved += chosen != place
        for t in range(n - 1):
            order[t if t < chosen else t + 1] = rest[t]
        order[chosen] = v
    return moved


@njit(cache=True, nogil=True)
def _least_share(weights, count, left_out):  # type: ignore[no-untyped-def]
    """A power of ten such that weights below it have at most a share `left_out`; the sum of the others."""
    for exponent in range(2, 12):
        least = 10.0**-exponent
        kept = 0.0
        for i in range(count):
            if weights[i] >= least:
                kept += weights[i]
        if kept >= 1.0 - left_out:
            return least, kept
    return 0.0, 1.0


@njit(cache=True, nogil=True)
def collect(  # type: ignore[no-untyped-def]
    order, shares, is_candidate, model, start, choose, within, c_equal, log_equal, inside, S, weights,
    left_out, marginal, together, unique, every, some, mechanism,
):  # fmt: skip
    """Probabilities of edges given an order, where `shares` are those of the five ways given it.

    The probability of `v -> node` in task k is added to `marginal[k, v, node]`, that of both of two tasks to
    `together`, of one and no other to `unique`, of all to `every`, of at least one to `some`; that of the
    same parents and strengths to `mechanism[0, node]`, of the same parents with other ones to
    `mechanism[1, node]`. Families of the common network with a share of at most `left_out` together are left
    out.
    """
    candidates, sets, sizes, numbers, members, c, _, _, one, same, scores, _, _ = model
    n, tasks, top = len(order), len(scores), sets.shape[1]
    before = np.zeros(n, dtype=np.bool_)
    found, chance = np.empty(3), np.empty(tasks)
    before_none, level, share = np.empty(tasks), np.empty(tasks), np.empty(tasks)
    rest, rests, equal = np.empty(len(sets)), np.zeros(len(sets)), np.zeros(len(sets))
    for node in order:
        u = 0
        for v in range(n):
            u += before[v] and is_candidate[node, v]
        count = sums_given_predecessors(node, before, u, *model, inside, S, weights, found)  # type: ignore[call-arg]
        part = np.zeros(3)
        part[0] = shares[0]
        part[1] = shares[2]
        part[2] = shares[4]
        if shares[1] > 0:
            alike = np.exp(found[0] - _add(found[0], found[1]))
            part[0] += shares[1] * alike
            part[1] += shares[1] * (1.0 - alike)
        if shares[3] > 0:
            alike = np.exp(found[0] - _add(found[0], found[2]))
            part[0] += shares[3] * alike
            part[2] += shares[3] * (1.0 - alike)
        mechanism[0, node] += part[0]
        mechanism[1, node] += part[1]
        for m in range(2):
            logs = one[node] if m == 0 else same[node]
            for i in range(count if part[m] > 0 else 0):
                s = inside[i]
                gap = logs[s] - found[m]
                if gap < -_FAR:
                    continue
                weight = part[m] * np.exp(gap)
                for bit in range(sizes[s]):
                    v = candidates[node, sets[s, bit]]
                    every[v, node] += weight
                    some[v, node] += weight
                    for k in range(tasks):
                        marginal[k, v, node] += weight
                        for j in range(k + 1, tasks):
                            together[k, j, v, node] += weight
        for j in range(tasks):
            level[j] = _log_sum(scores[j, node], inside, count)
        least, kept = 0.0, 1.0
        if part[2] > 0:
            least, kept = _least_share(weights, count, left_out)
        for i in range(count if part[2] > 0 else 0):
            rest[i] = -np.inf
            if weights[i] < least:
                continue
            s = inside[i]
            p = sizes[s]
            weight = part[2] * weights[i] / kept
            rest[i] = np.log(weight) + p * log_equal
            for j in range(tasks):
                share[j] = _share(S[j], s, p, numbers, members, c)
                rest[i] -= np.log(share[j])
            for position in range(candidates.shape[1]):
                v = candidates[node, position]
                if not before[v]:
                    continue
                place = -1
                for bit in range(p):
                    if sets[s, bit] == position:
                        place = bit
                chance[:] = 0.0
                for mask in range(1 << p):
                    t, factor = numbers[s, mask], within[p, members[mask]]
                    if place < 0:
                        t = _with_element(s, mask, position, sets, sizes, start, choose, top)
                        factor = c[p, members[mask]]
                    elif not (mask >> place) & 1:
                        t = -1
                    if t >= 0:
                        for j in range(tasks):
                            chance[j] += factor * S[j, t]
                for j in range(tasks):
                    chance[j] = min(chance[j] / share[j], 1.0)
                none, all_ = 1.0, 1.0
                for k in range(tasks):
                    marginal[k, v, node] += weight * chance[k]
                    for j in range(k + 1, tasks):
                        together[k, j, v, node] += weight * chance[k] * chance[j]
                    before_none[k] = none
                    none *= 1.0 - chance[k]
                    all_ *= chance[k]
                every[v, node] += weight * all_
                some[v, node] += weight * (1.0 - none)
                none = 1.0
                for k in range(tasks - 1, -1, -1):
                    unique[k, v, node] += weight * chance[k] * before_none[k] * none
                    none *= 1.0 - chance[k]
        if part[2] > 0:
            _add_equal(
                count, inside, rest, scores[:, node], level.reshape(tasks, 1), sizes, numbers, members,
                c_equal, rests, equal,
            )  # fmt: skip
            for i in range(count):
                mechanism[1, node] += equal[inside[i]]
                equal[inside[i]] = 0.0
        before[node] = True
