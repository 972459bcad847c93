"""Compiled sums over pairs of parent sets.

Shapes of arguments that several kernels share; sets are numbered as in `posterior.families.subsets`:

sets : int16 array of shape (sets, max_parents)
sizes : int array of shape (sets,)
numbers : int32 array of shape (sets, 2^max_parents)
    `numbers[s, mask]` is the index of the subset of set s with the members at the bits of `mask`.
members : int array of shape (2^max_parents,)
    The number of bits of each mask.
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int
from polydag.compilation import inner, kernel

_FAR = 600.0  # nats, whose exponential a number can still hold


@kernel
def subset_numbers(sets: NDArray[np.int16], sizes: Index, start: Index, choose: Index) -> NDArray[np.int32]:
    """`numbers[s, mask]`; -1 where a mask has bits beyond the size of the set.

    `start`: int array of shape (max_parents + 2,), where the sets of each size begin; `choose`: binomial
    coefficients, an int array of shape (c + 1, max_parents + 1).
    """
    numbers = np.full((len(sets), 1 << sets.shape[1]), -1, np.int32)
    for s in range(len(sets)):
        for mask in range(1 << sizes[s]):
            k, code = 0, 0
            for bit in range(sizes[s]):
                if (mask >> bit) & 1:
                    k += 1
                    code += choose[sets[s, bit], k]
            numbers[s, mask] = start[k] + code
    return numbers


@kernel
def superset_sums(scores: Array, numbers: NDArray[np.int32], sizes: Index) -> Array:
    """`log S(T)` of shape (sets,), with `S(T) = Σ_{π ⊇ T} exp(scores[π])`; each T has a scale of its own.

    `scores`: array of shape (sets,).
    """
    top = np.full(len(scores), -np.inf)
    for s in range(len(scores)):
        for mask in range(1 << sizes[s]):
            t = numbers[s, mask]
            top[t] = max(top[t], scores[s])
    total = np.zeros(len(scores))
    for s in range(len(scores)):
        if scores[s] > -np.inf:
            for mask in range(1 << sizes[s]):
                t = numbers[s, mask]
                total[t] += np.exp(scores[s] - top[t])
    for t in range(len(scores)):
        top[t] = top[t] + np.log(total[t]) if total[t] > 0 else -np.inf
    return top


@kernel
def transfer_sums(
    sums: Array, numbers: NDArray[np.int32], sizes: Index, members: Index, log_c: Array, out: Array
) -> None:
    """`out[π] += log Σ_{T ⊆ π} c(|π|, |T|) S(T)`.

    `sums`, `out`: arrays of shape (sets,); `log_c`: array of shape (max_parents + 1, max_parents + 1).
    """
    terms = np.empty(numbers.shape[1])
    for s in range(len(sums)):
        p = sizes[s]
        top = -np.inf
        for mask in range(1 << p):
            terms[mask] = log_c[p, members[mask]] + sums[numbers[s, mask]]
            top = max(top, terms[mask])
        if top == -np.inf:
            out[s] = -np.inf
            continue
        total = 0.0
        for mask in range(1 << p):
            total += np.exp(terms[mask] - top)
        out[s] += top + np.log(total)


@inner
def _sets_inside(
    adding: Int, first: Int, inside: Index, sizes: Index, start: Index, choose: Index, top: Int
) -> Int:
    """How many sets of at most `top` members lie inside U once an element is added (-1: U is empty).

    `inside[:first]` holds the sets before it, and those with the element are put behind them.
    """
    if adding < 0:
        inside[0] = 0
        return 1
    known = first
    for i in range(first):
        k = sizes[inside[i]]
        if k < top:
            inside[known] = start[k + 1] + inside[i] - start[k] + choose[adding, k + 1]
            known += 1
    return known


@inner
def _add_sets(
    source_scores: Array,
    inside: Index,
    first: Int,
    count: Int,
    sizes: Index,
    numbers: NDArray[np.int32],
    old: Array,
    old_scale: Array,
    old_best: Array,
    sums: Array,
    scale: Array,
    best: Array,
) -> None:
    """`S(T)` with the sets `inside[first:count]` added, as `sums[T] exp(scale[T])`.

    `best[T]` is the largest source score of a superset of T. The scale is the same for all T except those
    that would vanish beside it: tasks may contradict each other by more than a number can hold. `inside` is
    an int array of shape (sets,), all others are arrays of shape (sets,).
    """
    for i in range(count):
        best[inside[i]] = old_best[inside[i]] if i < first else -np.inf
    for i in range(first, count):
        s = inside[i]
        for mask in range(1 << sizes[s]):
            t = numbers[s, mask]
            best[t] = max(best[t], source_scores[s])
    for i in range(count):
        t = inside[i]
        scale[t] = best[0] if best[t] > best[0] - _FAR else best[t]
        sums[t] = 0.0
        if i < first and old[t] > 0:
            sums[t] = old[t] if old_scale[t] == scale[t] else old[t] * np.exp(old_scale[t] - scale[t])
    for i in range(first, count):
        s = inside[i]
        if source_scores[s] == -np.inf:
            continue
        common = np.exp(source_scores[s] - best[0])
        for mask in range(1 << sizes[s]):
            t = numbers[s, mask]
            sums[t] += common if scale[t] == best[0] else np.exp(source_scores[s] - scale[t])


@kernel
def visit_sets(
    m: Int,
    top: Int,
    sets: NDArray[np.int16],
    sizes: Index,
    numbers: NDArray[np.int32],
    members: Index,
    start: Index,
    choose: Index,
    own: Array,
    source_scores: Array,
    c: Array,
    log_g: Array,
    collect: bool,
    at: Array,
    family: Array,
    together: Array,
    unique: Array,
    shared: Array,
) -> None:
    """Visit every set U of the m candidates of one node by adding one element after the other.

    The weight of a family π of task k is `exp(own[k, π] + log_g(|U|, |π|)) Π_{j≠k} L_j(π, U)`, with `L_j =
    Σ_{T ⊆ π} c(|U|, |π|, |T|) S_{j,U}(T)` and `S_{j,U}(T)` summed over the source scores of task j of the
    sets between T and U. L serves all tasks; products leave one task out. S grows by the sets with the new
    element.

    Without `collect`, `at[k, U]` is set to the log of the sum over π. With it, `exp(at[k, U])` times the
    weight is added to `family[k, π]`, and for each parent v of π, times the probabilities given (π, U), to
    `together[k, j, v]` (v is a parent in task j as well), `unique[k, v]` (in no other task) and `shared[k,
    v]` (in all tasks).

    Parameters
    ----------
    m, top : int
        The number of candidates, and the largest size of a set.
    own, source_scores : arrays of shape (tasks, sets)
    c : array of shape (m + 1, top + 1, top + 1)
    log_g : array of shape (m + 1, top + 1)
    at : array of shape (tasks, 2^m)
    family : array of shape (tasks, sets)
    together : array of shape (tasks, tasks, m)
    unique, shared : arrays of shape (tasks, m)
    """
    tasks, count = own.shape
    inside = np.empty(count, np.int64)
    known = np.zeros(m + 1, np.int64)
    element = np.full(m + 1, -1, np.int64)
    number_of = np.zeros(m + 1, np.int64)
    S = np.zeros((m + 1, tasks, count))
    scale = np.full((m + 1, tasks, count), -np.inf)
    best = np.full((m + 1, tasks, count), -np.inf)
    terms = np.empty((tasks, numbers.shape[1]))
    L, log_L = np.empty(tasks), np.empty(tasks)
    value, chance = np.empty((tasks, count)), np.empty(tasks)
    none_before, all_before = np.empty(tasks), np.empty(tasks)
    depth, adding = 0, -1
    while True:
        before, first = depth, 0
        if adding >= 0:
            first = known[before]
            depth += 1
            element[depth] = adding
            number_of[depth] = number_of[before] | (1 << adding)
        known[depth] = _sets_inside(adding, first, inside, sizes, start, choose, top)
        for j in range(tasks):
            _add_sets(
                source_scores[j], inside, first, known[depth], sizes, numbers,
                S[before, j], scale[before, j], best[before, j], S[depth, j], scale[depth, j], best[depth, j],
            )  # fmt: skip
        U = number_of[depth]
        for i in range(known[depth]):
            s = inside[i]
            p = sizes[s]
            for j in range(tasks):
                row, size = S[depth, j], scale[depth, j]
                # S decreases as T grows; where c(p, 0) is 0, λ is 1 and only T = π counts.
                highest = size[numbers[s, 0] if c[depth, p, 0] > 0 else s]
                total = 0.0
                for mask in range(1 << p):
                    t = numbers[s, mask]
                    term = row[t]
                    if size[t] != highest:
                        term *= np.exp(min(size[t] - highest, 0.0))
                    terms[j, mask] = term
                    total += c[depth, p, members[mask]] * term
                L[j] = total
                log_L[j] = highest + np.log(L[j]) if L[j] > 0 else -np.inf
            # Sums over the tasks before and after each, since -inf cannot be subtracted again.
            rest = log_g[depth, p]
            for k in range(tasks):
                value[k, i] = own[k, s] + rest
                rest += log_L[k]
            rest = 0.0
            likely = False
            for k in range(tasks - 1, -1, -1):
                value[k, i] += rest
                rest += log_L[k]
                if collect:
                    value[k, i] = np.exp(value[k, i] + at[k, U])
                    family[k, s] += value[k, i]
                    likely = likely or value[k, i] > 0
            if not likely:
                continue
            for bit in range(p):
                v = sets[s, bit]
                for j in range(tasks):
                    part = 0.0
                    for mask in range(1 << p):
                        if (mask >> bit) & 1:
                            part += c[depth, p - 1, members[mask] - 1] * terms[j, mask]
                    chance[j] = part / L[j] if L[j] > 0 else 0.0
                none, every = 1.0, 1.0
                for k in range(tasks):
                    for j in range(tasks):
                        together[k, j, v] += value[k, i] * chance[j]
                    none_before[k], all_before[k] = none, every
                    none *= 1.0 - chance[k]
                    every *= chance[k]
                none, every = 1.0, 1.0
                for k in range(tasks - 1, -1, -1):
                    unique[k, v] += value[k, i] * none_before[k] * none
                    shared[k, v] += value[k, i] * all_before[k] * every
                    none *= 1.0 - chance[k]
                    every *= chance[k]
        if not collect:
            for k in range(tasks):
                highest = value[k, : known[depth]].max()
                total = 0.0
                if highest > -np.inf:
                    for i in range(known[depth]):
                        total += np.exp(value[k, i] - highest)
                at[k, U] = highest + np.log(total) if total > 0 else -np.inf
        adding = element[depth] + 1
        while adding == m:
            if depth == 0:
                return
            depth -= 1
            adding = element[depth + 1] + 1


@inner
def _add(x: float, y: float) -> float:
    """`log(exp(x) + exp(y))`."""
    top = max(x, y)
    if top == -np.inf:
        return top
    return top + np.log1p(np.exp(min(x, y) - top))


@kernel
def order_sums(alpha: Array, F: Array, B: Array) -> None:
    """Fill in the logs of sums over orders: `F(S)` over those of S, `B(S)` over those of all others after S.

    `alpha[i, U]`, of shape (n, 2^(n-1)), has bit i removed from U; F and B have the shape (2^n,).
    """
    n = len(alpha)
    F[:] = -np.inf
    B[:] = -np.inf
    F[0] = 0.0
    B[len(B) - 1] = 0.0
    for S in range(1, len(F)):
        for i in range(n):
            if (S >> i) & 1:
                rest = S ^ (1 << i)
                U = ((rest >> (i + 1)) << i) | (rest & ((1 << i) - 1))
                F[S] = _add(F[S], F[rest] + alpha[i, U])
    for S in range(len(B) - 2, -1, -1):
        for i in range(n):
            if not (S >> i) & 1:
                U = ((S >> (i + 1)) << i) | (S & ((1 << i) - 1))
                B[S] = _add(B[S], B[S | (1 << i)] + alpha[i, U])
