"""Compiled sweeps of tests between blocks of columns; the same order of sets as for G²."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import kernel
from polydag.scores.mixed._blocks_kernels import log_left
from polydag.search.pc.independence_tests._independence_kernels import (
    ALIKE,
    Lists,
    Tally,
    _visited_already,
    _vote,
    chi2_tail,
)


@kernel
def block_sweep(
    C: Array,
    start: Index,
    n: float,
    rows_per_column: Int,
    nodes: Index,
    K: Lists,
    T: Lists,
    seen: Mask,
    low: Int,
    high: Int,
    alpha: float,
    voting: bool,
    tally: Tally,
) -> None:
    """Wilks' Λ of each node with its targets given sets of candidates."""
    for i in nodes:
        candidates = K.members[K.start[i] : K.start[i + 1]]
        first, q = T.start[i], T.start[i + 1] - T.start[i]
        m = len(candidates)
        top = min(high, m)
        if q == 0 or m < low:
            continue
        targets = T.members[first : first + q]
        chosen, cursor = np.empty(top + 1, np.int64), np.zeros(top + 1, np.int64)
        given = np.empty(top + 1, np.int64)
        depth, entered = 0, True
        while depth >= 0:
            if entered and depth >= low:
                alone = log_left(C, start, i, given[:depth])
                for t in range(q):
                    if _visited_already(i, targets[t], candidates, chosen, depth, seen):
                        continue
                    p = _p_value(C, start, n, rows_per_column, i, targets[t], given, depth, alone)
                    if p < 0:
                        tally.skipped[i] += 1
                        continue
                    tally.made[i] += 1
                    if voting:
                        if p > alpha:
                            _vote(tally, i, first, t, m, chosen, depth)
                    elif not tally.best[first + t] * (1.0 + ALIKE) >= p:  # NaN before the first test
                        tally.best[first + t] = p
                        for d in range(depth):
                            tally.best_set[first + t, d] = candidates[chosen[d]]
            entered = False
            a = cursor[depth]
            if depth >= top or m - a < max(1, low - depth):
                depth -= 1
                continue
            cursor[depth] += 1
            chosen[depth] = a
            given[depth] = candidates[a]
            cursor[depth + 1] = a + 1
            depth += 1
            entered = True


@kernel
def _p_value(
    C: Array,
    start: Index,
    n: float,
    rows_per_column: Int,
    i: Int,
    target: Int,
    given: Index,
    depth: Int,
    alone: float,
) -> float:
    """The p-value of independence of two blocks given others; -1 where there are too few rows."""
    a, b = start[i + 1] - start[i], start[target + 1] - start[target]
    columns = 0
    for d in range(depth):
        columns += start[given[d] + 1] - start[given[d]]
    factor = n - columns - 0.5 * (a + b + 3)
    if n < rows_per_column * (columns + a + b) or factor <= 0:
        return -1.0
    given[depth] = target
    log_ratio = log_left(C, start, i, given[: depth + 1]) - alone
    return chi2_tail(-factor * log_ratio, a * b)
