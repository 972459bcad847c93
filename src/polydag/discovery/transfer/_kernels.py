"""Compiled sums over pairs of parent sets.

Sets are numbered as in `polydag.discovery.subsets`; `numbers[s, mask]` is the number of the subset of set s
that has the members at the bits of `mask`.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def subset_numbers(sets, sizes, start, choose):  # type: ignore[no-untyped-def]
    """`numbers[s, mask]`; -1 where a mask goes beyond the set."""
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


@njit(cache=True, nogil=True)
def superset_sums(scores, numbers, sizes):  # type: ignore[no-untyped-def]
    """`log S(T)`, `S(T) = Σ_{π ⊇ T} exp(scores[π])`; each T has a scale of its own."""
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


@njit(cache=True, nogil=True)
def transfer_sums(sums, numbers, sizes, members, log_c, out):  # type: ignore[no-untyped-def]
    """`out[π] += log Σ_{T ⊆ π} c(|π|, |T|) S(T)`; `members[mask]` is the number of bits of a mask."""
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


@njit(cache=True, nogil=True)
def walk(  # type: ignore[no-untyped-def]
    m, top, sets, sizes, numbers, members, start, choose, own, others, c, g, u_scale, log_h, collect,
    alpha, family, together, unique, shared,
):  # fmt: skip
    """Visit every set U of the m candidates of one node; an element is added after those before it.

    The weight of a family π of the task in question is `own[π] g(|U|, |π|) Π_j L_j(π, U)`, with `L_j = Σ_{T ⊆
    π} c(|U|, |π|, |T|) S_{j,U}(T)` and `S_{j,U}(T)` summed over the other task's sets between T and U. On
    the way down S grows by the sets with the new element; all that is kept is relative to a scale of U
    (`u_scale[|U|]` is that of c and g).
    Without `collect`, `alpha[U]` is the logarithm of the sum over π. With it, `exp(log_h[U])` times the
    weight is added to `family[π]`, and for each parent v of π, times the probabilities given (π, U), to
    `together[j, v]` (v is a parent in task j, too), `unique[v]` (in no other), `shared[v]` (in all).
    """
    tasks, count = others.shape
    inside = np.empty(count, np.int64)
    known = np.zeros(m + 1, np.int64)
    element = np.full(m + 1, -1, np.int64)
    number_of = np.zeros(m + 1, np.int64)
    S = np.zeros((m + 1, tasks, count))
    scale = np.full((m + 1, tasks), -np.inf)
    L = np.empty(tasks)
    depth, adding = 0, -1
    while True:
        if adding >= 0:
            before = depth
            depth += 1
            element[depth] = adding
            number_of[depth] = number_of[before] | (1 << adding)
            known[depth] = known[before]
            for i in range(known[before]):
                k = sizes[inside[i]]
                if k < top:
                    inside[known[depth]] = start[k + 1] + inside[i] - start[k] + choose[adding, k + 1]
                    known[depth] += 1
            first = known[before]
        else:
            before = 0
            inside[0] = 0
            known[0] = 1
            first = 0
        for j in range(tasks):
            reference = scale[before, j]
            for i in range(first, known[depth]):
                reference = max(reference, others[j, inside[i]])
            keep = 0.0
            if scale[before, j] > -np.inf:
                keep = np.exp(scale[before, j] - reference)
            scale[depth, j] = reference
            row, old = S[depth, j], S[before, j]
            for i in range(first):
                row[inside[i]] = old[inside[i]] * keep
            for i in range(first, known[depth]):
                row[inside[i]] = 0.0
            for i in range(first, known[depth]):
                s = inside[i]
                if others[j, s] > -np.inf:
                    value = np.exp(others[j, s] - reference)
                    for mask in range(1 << sizes[s]):
                        row[numbers[s, mask]] += value
        reference = -np.inf
        for i in range(known[depth]):
            reference = max(reference, own[inside[i]])
        possible = reference > -np.inf
        log_scale = reference + u_scale[depth]
        for j in range(tasks):
            possible = possible and scale[depth, j] > -np.inf
            log_scale += scale[depth, j]
        U = number_of[depth]
        factor = np.exp(log_h[U] + log_scale) if collect and possible else 1.0
        total = 0.0
        if possible:
            for i in range(known[depth]):
                s = inside[i]
                p = sizes[s]
                if own[s] == -np.inf:
                    continue
                value = np.exp(own[s] - reference) * g[depth, p]
                for j in range(tasks):
                    part = 0.0
                    for mask in range(1 << p):
                        part += c[depth, p, members[mask]] * S[depth, j, numbers[s, mask]]
                    L[j] = part
                    value *= part
                total += value
                if not collect or value == 0.0:
                    continue
                value *= factor
                family[s] += value
                for bit in range(p):
                    v = sets[s, bit]
                    none, every = value, value
                    for j in range(tasks):
                        part = 0.0
                        for mask in range(1 << p):
                            if (mask >> bit) & 1:
                                part += c[depth, p - 1, members[mask] - 1] * S[depth, j, numbers[s, mask]]
                        chance = part / L[j]
                        together[j, v] += value * chance
                        none *= 1.0 - chance
                        every *= chance
                    unique[v] += none
                    shared[v] += every
        if not collect:
            alpha[U] = np.log(total) + log_scale if total > 0 else -np.inf
        adding = element[depth] + 1
        while adding == m:
            if depth == 0:
                return
            depth -= 1
            adding = element[depth + 1] + 1


@njit(cache=True, nogil=True)
def _add(x, y):  # type: ignore[no-untyped-def]
    """`log(exp(x) + exp(y))`."""
    top = max(x, y)
    if top == -np.inf:
        return top
    return top + np.log1p(np.exp(min(x, y) - top))


@njit(cache=True, nogil=True)
def orders(alpha, F, B):  # type: ignore[no-untyped-def]
    """Logarithms of sums over orders: `F(S)` of S from the front, `B(S)` of what follows S, from the back.

    `alpha[i, U]` has bit i taken out of U.
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
