"""Compiled sums over the parent sets of several tasks around those of a common network.

Arguments and their shapes are as in `_transfer_kernels`.
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int
from polydag.compilation import inner, kernel
from polydag.posterior.transfer._transfer_kernels import _add, _add_sets, _sets_inside


@inner
def _with_element(
    s: Int, mask: Int, v: Int, sets: NDArray[np.int16], sizes: Index, start: Index, choose: Index, top: Int
) -> int:
    """The number of the subset of set s with the members at the bits of `mask`, and v; -1 if too large."""
    k, code = 0, 0
    placed = False
    for bit in range(sizes[s]):
        if (mask >> bit) & 1:
            member = sets[s, bit]
            if not placed and v < member:
                k += 1
                if k > top:
                    return -1
                code += choose[v, k]
                placed = True
            k += 1
            if k > top:
                return -1
            code += choose[member, k]
    if not placed:
        k += 1
        if k > top:
            return -1
        code += choose[v, k]
    return start[k] + code


@inner
def _add_equal(
    count: Int,
    inside: Index,
    rest: Array,
    scores: Array,
    scale: Array,
    sizes: Index,
    numbers: NDArray[np.int32],
    members: Index,
    c_equal: Array,
    rests: Array,
    equal: Array,
) -> None:
    """Add the probability that all tasks have the same set inside U, for every such set.

    `exp(rest[i])` is the weight of the i-th set ρ of the common network over all tasks' sums; `rests` is
    zero before and after.
    """
    highest = -np.inf
    for i in range(count):
        highest = max(highest, rest[i])
    if highest == -np.inf:
        return
    for i in range(count):
        s = inside[i]
        p, weight = sizes[s], np.exp(rest[i] - highest)
        for mask in range(1 << p):
            rests[numbers[s, mask]] += weight * c_equal[p, members[mask]]
    for i in range(count):
        s = inside[i]
        part = 0.0
        for mask in range(1 << sizes[s]):
            part += rests[numbers[s, mask]]
        log_all = highest
        for k in range(len(scores)):
            log_all += scores[k, s] - scale[k, 0]
        if part > 0 and log_all > -np.inf:
            equal[s] += np.exp(log_all + np.log(part))
    for i in range(count):
        rests[inside[i]] = 0.0


@kernel
def visit_common(
    m: Int,
    top: Int,
    sets: NDArray[np.int16],
    sizes: Index,
    numbers: NDArray[np.int32],
    members: Index,
    start: Index,
    choose: Index,
    prior: Array,
    scores: Array,
    normal: Array,
    shared: Array,
    c: Array,
    within: Array,
    c_equal: Array,
    log_equal: float,
    log_z: Array,
    cutoff: float,
    collect: bool,
    at: Array,
    alpha: Array,
    marginal: Array,
    together: Array,
    unique: Array,
    every: Array,
    some: Array,
    alike_family: Array,
    equal_family: Array,
    family: Array,
) -> None:
    """Visit every set U of the m candidates of one node by adding one element after the other.

    Given a set ρ of the common network inside U, task k has `L_k(ρ, U) = Σ_{T ⊆ ρ} c(|ρ|, |T|) S_{k,U}(T)`
    with `S_{k,U}(T)` the sum of the task's scores over the sets between T and U. The weight of ρ is
    `exp(prior[ρ] + log_z(|U|, |ρ|)) Π_k L_k`, divided by the same sums of `normal` if there are any: one row
    for all tasks, or one for each. To this `exp(prior[ρ] + shared[ρ])` is added, where all tasks have the
    parents ρ and the same parameters.

    Without `collect`, `at[U]` is set to the log of the sum of the weights. With it, `alpha[U]` holds that,
    and `exp(at[U])` times the weight is added up: for each candidate v to `marginal[k, v]` times the
    probability that v is a parent in task k, to `together[k, j, v]` that it is one in both, to `unique[k, v]`
    that in no other, to `every[v]` that in all, to `some[v]` that in at least one; to `alike_family[π]` that
    all tasks have the parents π and the same parameters, to `equal_family[π]` that all have the parents π;
    to `family[k, π]` that task k has them. Sets U whose probability is below `cutoff` are left out.

    Parameters
    ----------
    prior : array of shape (sets,)
    scores : array of shape (tasks, sets)
    normal : array of shape (0, 1 or tasks, sets)
    shared : array of shape (sets,)
    c, within : arrays of shape (top + 1, top + 1)
        `within` replaces c in the sums over the sets that have a certain member of ρ.
    c_equal : array of shape (top + 1, top + 1)
        What c is where all tasks have the same set, up to `exp(log_equal)` for each member of ρ.
    log_z : array of shape (m + 1, top + 1)
    at, alpha : arrays of shape (2^m,)
    marginal, unique : arrays of shape (tasks, m)
    together : array of shape (tasks, tasks, m)
    every, some : arrays of shape (m,)
    alike_family, equal_family : arrays of shape (sets,)
    family : array of shape (tasks, sets)
    """
    tasks, count = scores.shape
    several = len(normal)
    rows = tasks + several
    inside = np.empty(count, np.int64)
    known = np.zeros(m + 1, np.int64)
    element = np.full(m + 1, -1, np.int64)
    number_of = np.zeros(m + 1, np.int64)
    S = np.zeros((m + 1, rows, count))
    scale = np.full((m + 1, rows, count), -np.inf)
    best = np.full((m + 1, rows, count), -np.inf)
    L, high = np.empty(tasks), np.empty(tasks)
    value, chance = np.empty(count), np.empty(tasks)
    rests = np.zeros((tasks, count))  # Σ over ρ ⊇ T of weight(ρ) c(|ρ|, |T|) / L_k(ρ)
    rest, all_rests = np.empty(count), np.zeros(count)  # the same for all tasks at once, in parts
    before_none, before_every = np.empty(tasks), np.empty(tasks)
    depth, adding = 0, -1
    while True:
        before, first = depth, 0
        if adding >= 0:
            first = known[before]
            depth += 1
            element[depth] = adding
            number_of[depth] = number_of[before] | (1 << adding)
        known[depth] = _sets_inside(adding, first, inside, sizes, start, choose, top)
        for j in range(rows):
            _add_sets(
                scores[j] if j < tasks else normal[j - tasks], inside, first, known[depth], sizes, numbers,
                S[before, j], scale[before, j], best[before, j], S[depth, j], scale[depth, j], best[depth, j],
            )  # fmt: skip
        U = number_of[depth]
        wanted = not collect or (at[U] + alpha[U] > cutoff)
        highest = -np.inf
        for i in range(known[depth] if wanted else 0):
            s = inside[i]
            p = sizes[s]
            total = prior[s] + log_z[depth, p]
            if total > -np.inf:
                for j in range(rows):
                    row, size = S[depth, j], scale[depth, j]
                    top_scale = size[0]
                    part = 0.0
                    for mask in range(1 << p):
                        t = numbers[s, mask]
                        if size[t] == top_scale:
                            part += c[p, members[mask]] * row[t]
                        elif row[t] > 0:
                            part += c[p, members[mask]] * row[t] * np.exp(size[t] - top_scale)
                    if part > 0:
                        log_part = top_scale + np.log(part)
                        if j < tasks:
                            total += log_part
                            L[j] = part
                            high[j] = top_scale
                        elif several == 1:
                            total -= tasks * log_part
                        else:
                            total -= log_part
                    else:
                        total = -np.inf
                        break
            alike = prior[s] + shared[s]
            value[i] = _add(total, alike)
            highest = max(highest, value[i])
            rest[i] = -np.inf
            if not collect or not value[i] + at[U] > cutoff:
                continue
            if alike > -np.inf:
                weight = np.exp(alike + at[U])
                alike_family[s] += weight
                equal_family[s] += weight
                for k in range(tasks):
                    family[k, s] += weight
                for bit in range(p):
                    v = sets[s, bit]
                    every[v] += weight
                    some[v] += weight
                    for k in range(tasks):
                        marginal[k, v] += weight
                        for j in range(k + 1, tasks):
                            together[k, j, v] += weight
            if total == -np.inf:
                continue
            weight = np.exp(total + at[U])
            rest[i] = total + at[U] + p * log_equal
            for j in range(tasks):
                rest[i] -= np.log(L[j])
            for k in range(tasks):
                for mask in range(1 << p):
                    rests[k, numbers[s, mask]] += weight * c[p, members[mask]] / L[k]
            for step in range(1, depth + 1):
                v = element[step]
                place = -1
                for bit in range(p):
                    if sets[s, bit] == v:
                        place = bit
                for j in range(tasks):
                    row, size = S[depth, j], scale[depth, j]
                    part = 0.0
                    for mask in range(1 << p):
                        if place >= 0:
                            if not (mask >> place) & 1:
                                continue
                            t = numbers[s, mask]
                            factor = within[p, members[mask]]
                        else:
                            t = _with_element(s, mask, v, sets, sizes, start, choose, top)
                            if t < 0:
                                continue
                            factor = c[p, members[mask]]
                        if size[t] == high[j]:
                            part += factor * row[t]
                        elif row[t] > 0:
                            part += factor * row[t] * np.exp(size[t] - high[j])
                    chance[j] = min(part / L[j], 1.0)
                none, all_ = 1.0, 1.0
                for k in range(tasks):
                    marginal[k, v] += weight * chance[k]
                    for j in range(k + 1, tasks):
                        together[k, j, v] += weight * chance[k] * chance[j]
                    before_none[k], before_every[k] = none, all_
                    none *= 1.0 - chance[k]
                    all_ *= chance[k]
                every[v] += weight * all_
                some[v] += weight * (1.0 - none)
                none = 1.0
                for k in range(tasks - 1, -1, -1):
                    unique[k, v] += weight * chance[k] * before_none[k] * none
                    none *= 1.0 - chance[k]
        if collect and wanted:
            _add_equal(
                known[depth], inside, rest, scores, scale[depth], sizes, numbers, members, c_equal, all_rests,
                equal_family,
            )  # fmt: skip
        for k in range(tasks if collect and wanted else 0):
            if rests[k, 0] > 0:
                for i in range(known[depth]):
                    s = inside[i]
                    factor = np.exp(scores[k, s] - scale[depth, k, 0])
                    part = 0.0
                    for mask in range(1 << sizes[s]):
                        part += rests[k, numbers[s, mask]]
                    family[k, s] += factor * part
                for i in range(known[depth]):
                    rests[k, inside[i]] = 0.0
        if not collect:
            total = 0.0
            if highest > -np.inf:
                for i in range(known[depth]):
                    total += np.exp(value[i] - highest)
            at[U] = highest + np.log(total) if total > 0 else -np.inf
        adding = element[depth] + 1
        while adding == m:
            if depth == 0:
                return
            depth -= 1
            adding = element[depth + 1] + 1
