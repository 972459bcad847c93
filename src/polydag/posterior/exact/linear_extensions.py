"""The number of orders that agree with a DAG: its linear extensions.

Dynamic programming over the sets that remain when first or last elements are removed, split into connected
components wherever possible (Kangas, Hankala, Niinimäki and Koivisto 2016). The work depends on the DAG:
sparse DAGs of 40 variables take milliseconds, wide and dense ones are out of reach. Counting stops with an
error where too many sets would have to be stored.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polydag import orientation
from polydag.arrays import Array, Mask
from polydag.errors import UsageError

MOST_SETS = 1 << 21
_WORD = 64
_CHOOSE = np.array([[float(math.comb(a, k)) for k in range(_WORD + 1)] for a in range(_WORD + 1)])
_FEW = 1 << 12  # sets that the table can hold at first


def log_extensions(dag: Mask, most_sets: int = MOST_SETS) -> float:
    """The log of the number of linear extensions of a DAG.

    Parameters
    ----------
    dag : bool array of shape (n, n)
        `[i, j]` is the edge `i -> j`.
    most_sets : int
        How many sets may be stored; more raise a `UsageError`.
    """
    return float(log_extension_counts(np.asarray(dag, dtype=bool)[None], most_sets)[0])


def log_extension_counts(dags: Mask, most_sets: int = MOST_SETS) -> Array:
    """The same for DAGs of shape (draws, n, n); equal ones are counted once."""
    flat = np.packbits(dags.reshape(len(dags), -1), axis=1)
    _, first, which = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    counts = np.array([_log_count(dags[k], most_sets) for k in first])
    result: Array = counts[which.ravel()]
    return result


def _log_count(dag: Mask, most_sets: int) -> float:
    """One DAG; its components are counted separately and interleaved."""
    paths = orientation.reachable(dag)
    direct = dag & ~((paths.astype(np.float32) @ paths.astype(np.float32)) > 0)
    joined = orientation.reachable(direct | direct.T)
    total = math.lgamma(len(dag) + 1)
    left = np.ones(len(dag), dtype=bool)
    while left.any():
        first = int(np.argmax(left))
        own = joined[first].copy()
        own[first] = True
        left &= ~own
        size = int(own.sum())
        total -= math.lgamma(size + 1)
        if size <= 2:
            continue
        if size > _WORD:
            raise UsageError(
                f"Linear extensions are counted for at most {_WORD} connected variables; {size} are "
                "connected here. Sample partitions instead (over='dags', method='mcmc')."
            )
        found = _count(direct[np.ix_(own, own)], most_sets)
        if found < 0:
            raise UsageError(
                f"A DAG of {len(dag)} variables and {int(dag.sum())} edges has too many linear extensions to "
                "count. Sample partitions instead (over='dags', method='mcmc')."
            )
        total += math.log(found)
    return total


def _count(dag: Mask, most_sets: int) -> float:
    """The number of extensions of a connected DAG; -1 where even the largest table is too small."""
    from polydag.posterior.exact._linear_extensions_kernels import count

    below, above = _words(dag.T), _words(dag)
    size = min(_FEW, most_sets)
    while True:
        slots = 1 << (2 * size - 1).bit_length()
        keys, values = np.zeros(slots, dtype=np.uint64), np.empty(slots)
        used = np.zeros(1, dtype=np.int64)
        whole = np.uint64((1 << len(dag)) - 1)
        found = float(count(below, above, whole, _CHOOSE, keys, values, used))
        if found >= 0 or size >= most_sets:
            return found
        size = min(size * 16, most_sets)


def _words(rows: Mask) -> NDArray[np.uint64]:
    """Each row as the bits of a word."""
    bits = np.uint64(1) << np.arange(rows.shape[1], dtype=np.uint64)
    words: NDArray[np.uint64] = np.where(rows, bits, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return words
