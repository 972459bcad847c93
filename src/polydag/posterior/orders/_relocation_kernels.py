"""Compiled relocations of single variables in a linear order.

To draw the place of a variable v, its weight at every place is needed. With v taken out, every other variable
u has one sum without v among its predecessors and one with v. One of the two is known from the present order.
The other differs from it by the families of u that contain v (`by_parent`), and equals it where the sum of
these (`parent_sums[u, v]`) is negligible. A move therefore takes as many short sums as there are variables
for which v matters.

Shapes of arguments that several kernels share:

families : SortedFamilies
by_parent : FamiliesByParent
parent_sums : array of shape (n, n)
candidate_index : int array of shape (n, n)
    As in `OrderSpace`.
order, place : int arrays of shape (n,)
log_sums : array of shape (n,)
    The state, as in `OrderState`; moves change it in place.
node : int
    The variable that moves.
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

if TYPE_CHECKING:
    from polydag.posterior.families.families_by_parent import FamiliesByParent
    from polydag.posterior.families.sorted_families import SortedFamilies

NEGLIGIBLE = 34.0  # nats below a sum from which on a part of it does not matter: 2e-15
_LARGE = 0.9  # share of a sum that is not subtracted from it, because of rounding
_NEVER = 45.0  # nats below the best place from which on a place is never drawn


class Workspace(NamedTuple):
    """Memory for the moves of one call."""

    others: Any  # int (n,): the order without the variable that moves, which has n - 1 entries
    sums_without: Any  # (n,): log sums of the others without the variable among their predecessors
    sums_with: Any  # (n,): and with it
    weights: Any  # (n,): log weights of its places
    own: Any  # (n,): its own sums by the place of the last parent, relative to `scale`; then their logs
    scale: Any  # (n,)
    block: Any  # (n,): the same for one block of families
    lowest: Any  # (n,): a lower bound of its own sum at every place
    after: Any  # int (c + 1,): the first place after each candidate; the last entry is for padding
    excluded: Any  # uint64 (words,): the constraint of the sum that is being taken
    required: Any  # uint64 (words,)


@inner
def _workspace(families: SortedFamilies) -> Workspace:
    """A workspace for the orders of these families."""
    n, c = families.candidates.shape
    words = len(families.masks)
    return Workspace(
        np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n),
        np.empty(n), np.empty(c + 1, np.int64), np.empty(words, np.uint64), np.empty(words, np.uint64),
    )  # fmt: skip


@inner
def _changed_sum(
    families: SortedFamilies,
    by_parent: FamiliesByParent,
    candidate_index: Index,
    place: Index,
    node: Int,
    u: Int,
    p: Int,
    after: bool | np.bool_,
    log: float,
    work: Workspace,
) -> float:
    """The sum of u, at place p among the others, if it were on the other side of the variable.

    `log` is its present sum; `after` says whether u now comes after the variable. Where most of the sum
    would be subtracted, the rest is summed directly.
    """
    order_constraint(families.candidates, u, place, p, work.excluded, work.required)
    index = candidate_index[u, node]
    word, bit = index >> 6, np.uint64(1) << np.uint64(index & 63)
    work.excluded[word] &= ~bit
    change = log_sum(by_parent, u * len(place) + node, work.excluded, work.required, log - NEGLIGIBLE)
    if not after:
        return np.logaddexp(log, change)
    share = math.exp(change - log)
    if share < _LARGE:
        return log + math.log1p(-share)
    work.excluded[word] |= bit
    return log_sum(families, u, work.excluded, work.required)


@inner
def _weigh_others(
    families: SortedFamilies,
    by_parent: FamiliesByParent,
    parent_sums: Array,
    candidate_index: Index,
    place: Index,
    log_sums: Array,
    node: Int,
    old: Int,
    work: Workspace,
) -> None:
    """Sums of the others without and with the variable, and their product for each of its places.

    The variable was at the place `old`.
    """
    n = len(log_sums)
    without, with_node, others, weights = work.sums_without, work.sums_with, work.others, work.weights
    total = 0.0
    for p in range(n - 1):
        u = others[p]
        without[u] = with_node[u] = log_sums[u]
        if parent_sums[u, node] > log_sums[u] - NEGLIGIBLE:
            changed = _changed_sum(
                families, by_parent, candidate_index, place, node, u, p, p >= old, log_sums[u], work
            )
            if p >= old:
                without[u] = changed
            else:
                with_node[u] = changed
        total += with_node[u]
    weights[0] = total
    for p in range(1, n):
        # A variable that has no family without this one makes all later places impossible.
        total += without[others[p - 1]] - with_node[others[p - 1]]
        weights[p] = total


@inner
def _is_settled(rest: float, power: float, best: float, weights: Array, lowest: Array) -> bool:
    """Whether families with the log sum `rest` change nothing at any place that can be drawn."""
    for p in range(len(weights)):
        if rest > lowest[p] - NEGLIGIBLE and power * (weights[p] + max(rest, lowest[p]) - best) > -_NEVER:
            return False
    return True


@inner
def _weigh_own(families: SortedFamilies, place: Index, node: Int, power: float, work: Workspace) -> None:
    """Add the variable's own log sums to the weights of its places; they are left in `work.own`."""
    n, width = len(place), families.candidates.shape[1]
    weights, own, scale, lowest = work.weights, work.own, work.scale, work.lowest
    block, after = work.block, work.after
    sets, number = families.sets, families.number
    for c in range(width):
        after[c] = place[families.candidates[node, c]] + 1
    after[width] = 0  # padding
    for p in range(n):
        own[p], block[p], lowest[p] = 0.0, 0.0, -np.inf
    best, open_ = -np.inf, n  # places before `open_` have no family yet
    for b in range(families.first[node], families.first[node + 1]):
        if best > -np.inf and _is_settled(families.tail[b], power, best, weights, lowest):
            break
        for f in range(families.start[b], families.start[b + 1]):
            last = 0
            for k in range(sets.shape[1]):
                last = max(last, after[sets[number[f], k]])
            block[last] += families.values[f]
        reference = families.reference[b]
        for p in range(n):
            if block[p] == 0.0:
                continue
            if own[p] == 0.0:  # relative to itself, since the best family of a block may be far above it
                own[p], scale[p] = 1.0, reference + math.log(block[p])
            elif reference > scale[p] - _NEVER:
                own[p] += block[p] * math.exp(reference - scale[p])
            if p < open_:
                found = reference + math.log(block[p])
                for q in range(p, open_):
                    lowest[q] = found
                    best = max(best, weights[q] + found)
                open_ = p
            block[p] = 0.0
    so_far = -np.inf
    for p in range(n):
        if own[p] > 0.0:
            so_far = np.logaddexp(so_far, math.log(own[p]) + scale[p])
        own[p] = so_far
        weights[p] += so_far


@inner
def _draw_place(weights: Array, power: float, rng: np.random.Generator) -> int:
    """A place in proportion to `exp(power · weight)`; weights of shape (n,)."""
    best = weights.max()
    total = 0.0
    for p in range(len(weights)):
        share = power * (weights[p] - best)
        total += math.exp(share) if share > -_NEVER else 0.0
    left, last = rng.random() * total, 0
    for p in range(len(weights)):
        share = power * (weights[p] - best)
        if share > -_NEVER:
            last = p
            left -= math.exp(share)
            if left < 0.0:
                break
    return last


@inner
def _take_out(order: Index, place: Index, node: Int, work: Workspace) -> None:
    """Close the gap that the variable leaves; it gets the place n, after all others."""
    n, old = len(order), place[node]
    for p in range(old):
        work.others[p] = order[p]
    for p in range(old + 1, n):
        work.others[p - 1] = order[p]
        place[order[p]] = p - 1
    place[node] = n


@inner
def _weigh_places(
    families: SortedFamilies,
    by_parent: FamiliesByParent,
    parent_sums: Array,
    candidate_index: Index,
    order: Index,
    place: Index,
    log_sums: Array,
    node: Int,
    power: float,
    work: Workspace,
) -> None:
    """Take a variable out and leave the log weights of all its places in `work.weights`."""
    old = place[node]
    _take_out(order, place, node, work)
    _weigh_others(families, by_parent, parent_sums, candidate_index, place, log_sums, node, old, work)
    _weigh_own(families, place, node, power, work)


@kernel
def place_weights(
    families: SortedFamilies,
    by_parent: FamiliesByParent,
    parent_sums: Array,
    candidate_index: Index,
    order: Index,
    place: Index,
    log_sums: Array,
    node: Int,
) -> Array:
    """The log weights of all places of a variable, of shape (n,); changes `place`."""
    work = _workspace(families)
    _weigh_places(families, by_parent, parent_sums, candidate_index, order, place, log_sums, node, 1.0, work)
    return work.weights


@kernel
def relocations(
    families: SortedFamilies,
    by_parent: FamiliesByParent,
    parent_sums: Array,
    candidate_index: Index,
    order: Index,
    place: Index,
    log_sums: Array,
    count: Int,
    power: float,
    rng: np.random.Generator,
) -> int:
    """Draw the places of `count` random variables in turn; returns how many changed their place."""
    n, moved = len(order), 0
    work = _workspace(families)
    for _ in range(count):
        node = int(rng.random() * n)
        old = place[node]
        _weigh_places(
            families, by_parent, parent_sums, candidate_index, order, place, log_sums, node, power, work
        )
        new = _draw_place(work.weights, power, rng)
        for p in range(n - 1):
            u = work.others[p]
            q = p if p < new else p + 1
            order[q], place[u] = u, q
            log_sums[u] = work.sums_without[u] if p < new else work.sums_with[u]
        order[new], place[node], log_sums[node] = node, new, work.own[new]
        moved += new != old
    return moved
