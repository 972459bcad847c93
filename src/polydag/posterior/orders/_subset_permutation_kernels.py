"""Compiled draws of the permutation of a few variables on the places that they hold, given all others.

Let S be k variables anywhere in an order, and U those of them on the first |U| of their places. With the
others fixed, the sum of the variable of S on the next place depends on U alone, and so does that of every
other variable between two of the places. The sum over all k! permutations is therefore a sum over subsets,

    F(U) = Π_{u between the places |U| and |U| + 1} α_u(U)^power · Σ_{m ∈ U} F(U - m) α_m(U - m)^power,

from which a permutation is drawn backwards. This reverses edges among variables that belong together, which
takes many moves of single variables. Which variables are permuted does not depend on the order (`neighbours`
lists likely neighbours by their scores), so that the draw leaves the target distribution invariant.

Shapes of arguments that several kernels share:

families : SortedFamilies
parent_sums : array of shape (n, n)
neighbours : int array of shape (n, at most 5)
    As in `OrderSpace`.
order, place : int arrays of shape (n,)
log_sums : array of shape (n,)
    The state, as in `OrderState`; moves change it in place.
U, m : int
    A subset of the chosen variables as bits, and one of them.
power : float
    The target is the weight of an order to this power.
work : Workspace
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Int
from polydag.compilation import inner, kernel
from polydag.posterior.families._sorted_families_kernels import log_sum, order_constraint
from polydag.posterior.orders._relocation_kernels import NEGLIGIBLE

if TYPE_CHECKING:
    from polydag.posterior.families.sorted_families import SortedFamilies

_TRIES = 20  # attempts, for each variable, to find it among the neighbours of those chosen so far


class Workspace(NamedTuple):
    """Memory for the moves of one call; k variables are permuted at once, which have m = 2^k subsets."""

    chosen: Any  # int (k,): the variables
    member: Any  # int (n,): the index of each variable among them, -1 for all others
    spots: Any  # int (k,): the places that they hold, ascending
    before: Any  # int (n,): how many of these come before a place
    slot: Any  # int (m·k,): where the sum of a subset and level is stored, -1 if nowhere
    subset: Any  # int (m·k,): the subset of the variables that the families of a sum contain
    level: Any  # int (m·k,): how many of the places must come before, for the other parents' sake
    total: Any  # (m·k,): the sums, relative to `scale`; then their logs
    scale: Any  # (m·k,)
    alpha: Any  # (k, m): the log sums of the variables, by the set of those before
    between: Any  # (m,): the log sums of all others that lie between two of the places
    F: Any  # (m,): the sums of the module docstring
    size: Any  # int (m,): the number of members of each subset
    touched: Any  # int (n,): the others for which the permutation matters
    excluded: Any  # uint64 (words,): the constraint of the sum that is being taken
    required: Any  # uint64 (words,)


@inner
def _workspace(families: SortedFamilies, k: Int) -> Workspace:
    """A workspace for subsets of k variables."""
    n, m, words = len(families.candidates), 1 << k, len(families.masks)
    size = np.zeros(m, np.int64)
    for U in range(1, m):
        size[U] = size[U >> 1] + (U & 1)
    return Workspace(
        np.full(k, -1), np.full(n, -1), np.full(k, -1), np.full(n, -1), np.full(m * k, -1),
        np.full(m * k, -1), np.full(m * k, -1), np.empty(m * k), np.empty(m * k), np.empty((k, m)),
        np.empty(m), np.empty(m), size, np.full(n, -1), np.empty(words, np.uint64),
        np.empty(words, np.uint64),
    )  # fmt: skip


@inner
def _choose(neighbours: Index, work: Workspace, rng: np.random.Generator) -> None:
    """Choose random variables that are likely to be connected."""
    n, k = len(neighbours), len(work.chosen)
    found, tries = 0, 0
    while found < k:
        v = int(rng.random() * n)
        if 0 < found and tries < _TRIES * k:
            v = neighbours[work.chosen[int(rng.random() * found)], int(rng.random() * neighbours.shape[1])]
        tries += 1
        if work.member[v] < 0:
            work.chosen[found], work.member[v] = v, found
            found += 1


@inner
def _collect(families: SortedFamilies, node: Int, place: Index, own: Int, work: Workspace) -> int:
    """Sum the node's families by their members among the chosen variables and by level; returns their number.

    `own` is the place of a node that stays where it is, -1 for one of the chosen variables.
    """
    k = len(work.chosen)
    sets, number, candidates = families.sets, families.number, families.candidates[node]
    slot, total, scale = work.slot, work.total, work.scale
    count = 0
    for b in range(families.first[node], families.first[node + 1]):
        reference = families.reference[b]
        # Families that are always allowed make small ones negligible.
        if slot[0] >= 0 and families.tail[b] < scale[slot[0]] + math.log(total[slot[0]]) - NEGLIGIBLE:
            break
        for f in range(families.start[b], families.start[b + 1]):
            subset, level = 0, 0
            for j in range(sets.shape[1]):
                c = sets[number[f], j]
                if c < 0:
                    continue
                v = candidates[c]
                if work.member[v] >= 0:
                    subset |= 1 << work.member[v]
                elif own < 0:
                    level = max(level, work.before[place[v]])
                elif place[v] >= own:
                    level = k
            if level >= k:
                continue
            key = subset * k + level
            s = slot[key]
            if s < 0:
                slot[key], work.subset[count], work.level[count] = count, subset, level
                # Relative to itself, since the best family of a block may be far above it.
                total[count], scale[count] = 1.0, reference + math.log(families.values[f])
                count += 1
            elif reference > scale[s] - NEGLIGIBLE:
                total[s] += families.values[f] * math.exp(reference - scale[s])
    for s in range(count):
        slot[work.subset[s] * k + work.level[s]] = -1
        total[s] = math.log(total[s]) + scale[s]
    return count


@inner
def _allowed_sum(U: Int, count: Int, work: Workspace) -> float:
    """The log of the sum over the first `count` sums that are allowed when the variables U come before."""
    top, total = -np.inf, 0.0
    for s in range(count):
        if work.subset[s] & U == work.subset[s] and work.level[s] <= work.size[U]:
            log = work.total[s]
            if log > top:
                total = total * math.exp(top - log) + 1.0
                top = log
            else:
                total += math.exp(log - top)
    return top + math.log(total) if total > 0.0 else -np.inf


@inner
def _term(U: Int, m: Int, power: float, work: Workspace) -> float:
    """The log of `F(U - m) α_m(U - m)^power`."""
    o = U ^ (1 << m)
    return work.F[o] + power * work.alpha[m, o]


@inner
def _sum_up(power: float, work: Workspace) -> None:
    """Fill in F."""
    k = len(work.chosen)
    work.F[0] = 0.0
    for U in range(1, 1 << k):
        top = -np.inf
        for m in range(k):
            if (U >> m) & 1:
                top = max(top, _term(U, m, power, work))
        total = 0.0
        if top > -np.inf:
            for m in range(k):
                if (U >> m) & 1:
                    total += math.exp(_term(U, m, power, work) - top)
        work.F[U] = top + math.log(total) + power * work.between[U] if total > 0.0 else -np.inf


@inner
def _sum_by_subset(
    families: SortedFamilies, parent_sums: Array, order: Index, place: Index, log_sums: Array, work: Workspace
) -> int:
    """Fill in the sums by subset; returns for how many other variables the permutation matters."""
    n, k = len(order), len(work.chosen)
    found = 0
    for p in range(n):
        work.before[p] = found
        if work.member[order[p]] >= 0:
            work.spots[found] = p
            found += 1
    work.between[:] = 0.0
    for m in range(k):
        count = _collect(families, work.chosen[m], place, -1, work)
        for U in range(1 << k):
            if not (U >> m) & 1:
                work.alpha[m, U] = _allowed_sum(U, count, work)
    touched = 0
    for p in range(work.spots[0] + 1, work.spots[k - 1]):
        u = order[p]
        matters = False
        for m in range(k):
            matters = matters or parent_sums[u, work.chosen[m]] > log_sums[u] - NEGLIGIBLE
        if work.member[u] >= 0 or not matters:
            continue
        work.touched[touched] = u
        touched += 1
        count = _collect(families, u, place, p, work)
        for U in range(1 << k):
            if work.size[U] == work.before[p]:
                work.between[U] += _allowed_sum(U, count, work)
    return touched


@inner
def _draw_permutation(
    order: Index, place: Index, log_sums: Array, power: float, rng: np.random.Generator, work: Workspace
) -> bool:
    """Put the variables on their places, from the last to the first; returns whether any moved."""
    k = len(work.chosen)
    U, moved = (1 << k) - 1, False
    for j in range(k - 1, -1, -1):
        whole = work.F[U] - power * work.between[U]
        left, last = rng.random(), -1
        for m in range(k):
            if (U >> m) & 1:
                share = math.exp(_term(U, m, power, work) - whole)
                if share > 0.0:
                    last = m
                    left -= share
                    if left < 0.0:
                        break
        v = work.chosen[last]
        U ^= 1 << last
        moved = moved or place[v] != work.spots[j]
        order[work.spots[j]], place[v], log_sums[v] = v, work.spots[j], work.alpha[last, U]
    return moved


@kernel
def permutations(
    families: SortedFamilies,
    parent_sums: Array,
    neighbours: Index,
    order: Index,
    place: Index,
    log_sums: Array,
    k: Int,
    count: Int,
    power: float,
    rng: np.random.Generator,
) -> int:
    """Draw the permutations of `count` random subsets of k variables in turn; returns how many changed."""
    changed = 0
    work = _workspace(families, k)
    for _ in range(count):
        _choose(neighbours, work, rng)
        touched = _sum_by_subset(families, parent_sums, order, place, log_sums, work)
        _sum_up(power, work)
        if _draw_permutation(order, place, log_sums, power, rng, work):
            changed += 1
            for t in range(touched):
                u = work.touched[t]
                order_constraint(families.candidates, u, place, place[u], work.excluded, work.required)
                log_sums[u] = log_sum(families, u, work.excluded, work.required)
        for v in work.chosen:
            work.member[v] = -1
    return changed
