"""Bucket orders: their weights, draws of their linear orders, and the probabilities of edges given one.

A bucket order stands for all linear orders that put its buckets one after the other; these classes partition
the linear orders, so that a chain whose target is the sum over a class samples classes with the probability
they have under the posterior over linear orders (Niinimäki, Parviainen and Koivisto 2011). To draw a linear
order anew inside buckets, wherever they begin, leaves that posterior as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError, UsageError
from polydag.posterior.families import subsets
from polydag.posterior.families.table import FamilyTable

if TYPE_CHECKING:
    from polydag.posterior.mcmc._bucket_families_kernels import Families, Room

Array = NDArray[np.float64]
Index = NDArray[np.int64]
MAX_BUCKET = 16  # 2^16 subsets a bucket: beyond, a step takes too long to be of use
_SPAN = 890.0  # bits: scores within this are plain numbers at one level
_ABOVE = 800  # bits of the best family of a wide node above its level
_NONE = -(1 << 30)


@dataclass(frozen=True, eq=False)
class Scaled:
    """Scores of families as `mantissa · 2^exponent · exp(reference)`; read only, shared by chains.

    `value` is the same relative to `2^level` as plain numbers, with which `wide` nodes cannot do alone.
    """

    table: FamilyTable
    mantissa: Array
    exponent: NDArray[np.int32]
    value: Array
    level: Index
    wide: NDArray[np.bool_]
    reference: Array


def scaled(table: FamilyTable) -> Scaled:
    """The exponentials of a table's scores, whatever their range."""
    allowed = table.scores > -np.inf
    if (empty := np.flatnonzero(~allowed.any(axis=1))).size:
        raise DataError(f"No parent set of {table.names[empty[0]]} is allowed.")
    top = table.scores.max(axis=1)
    bits = np.where(allowed, table.scores - top[:, None], 0.0) / np.log(2.0)
    exponent = np.floor(bits)
    mantissa = np.where(allowed, np.exp2(bits - exponent), 0.0)
    # α of any set is at least that of the empty set, where that is allowed: lower scores do not matter.
    floor = np.where(allowed[:, 0], bits[:, 0], bits.min(axis=1))
    wide = -floor > _SPAN
    level = np.where(wide, -_ABOVE, np.floor(floor / 2)).astype(np.int64)
    whole = np.where(allowed, exponent, _NONE).astype(np.int32)
    return Scaled(table, mantissa, whole, np.ldexp(mantissa, whole - level[:, None]), level, wide, top)


class BucketOrders:
    """Bucket orders of the variables of one table, with the working memory of one chain.

    A state is an array of all variables, bucket by bucket.
    """

    def __init__(self, scores: Scaled, bucket_size: int) -> None:
        from polydag.posterior.mcmc import _bucket_families_kernels as _kernels

        table = scores.table
        n, width = table.candidates.shape
        if not 1 <= bucket_size <= MAX_BUCKET:
            raise UsageError(f"bucket_size must lie between 1 and {MAX_BUCKET}; got {bucket_size}.")
        self.n, self.bucket_size = n, bucket_size
        self.begin = _begins(n, bucket_size, bucket_size)
        self._references = scores.reference
        self.reference = float(scores.reference.sum())
        self._families: Families = _kernels.Families(
            candidates=table.candidates,
            sets=table.sets,
            start=subsets.offsets(width, table.max_parents),
            choose=subsets.binomials(width, max(table.max_parents, 2)),
            mantissa=scores.mantissa,
            exponent=scores.exponent,
            value=scores.value,
            level=scores.level,
            wide=scores.wide,
            powers=np.exp2(np.arange(_kernels.LOWEST, _kernels.HIGHEST + 1, dtype=float)),
        )
        self._room = _room(n, width, min(bucket_size, n), table.max_parents)

    @property
    def n_buckets(self) -> int:
        """How many buckets there are."""
        return len(self.begin) - 1

    def numbers(self, order: Index) -> NDArray[np.int16]:
        """The bucket of each variable."""
        result = np.empty(self.n, dtype=np.int16)
        result[order] = np.repeat(np.arange(self.n_buckets), np.diff(self.begin))
        return result

    def log_weight(self, order: Index) -> float:
        """The logarithm of the sum over all linear orders of a state."""
        from polydag.posterior.mcmc._bucket_orders_kernels import weigh

        return float(weigh(order, self.begin, self._families, self._room)) + self.reference

    def linear_order(self, order: Index, rng: np.random.Generator) -> Index:
        """Draw one of the linear orders of a state, by their weights."""
        from polydag.posterior.mcmc._bucket_orders_kernels import redraw

        drawn = order.copy()
        redraw(drawn, self.begin, rng.random(self.n), self._families, self._room, np.empty(self.n))
        return drawn

    def redrawn(self, order: Index, rng: np.random.Generator) -> tuple[Index, Array]:
        """The same with buckets that begin anywhere; and the log sums of each variable's families."""
        from polydag.posterior.mcmc._bucket_orders_kernels import redraw

        begin = _begins(self.n, int(rng.integers(1, self.bucket_size + 1)), self.bucket_size)
        drawn, logs = order.copy(), np.empty(self.n)
        redraw(drawn, begin, rng.random(self.n), self._families, self._room, logs)
        return drawn, logs + self._references

    def edges(self, order: Index) -> Array:
        """The probability of each edge `[i, j]`, `i -> j`, given the state."""
        return self.summed(order)[0]

    def summed(self, order: Index) -> tuple[Array, float]:
        """The probability of each edge given the state, and the log weight of the state."""
        from polydag.posterior.mcmc._bucket_orders_kernels import edge_shares

        result = np.zeros((self.n, self.n))
        log_weight = edge_shares(order, self.begin, self._families, self._room, result)
        return result, float(log_weight) + self.reference

    def families(self, node: int, order: Index) -> Array:
        """The probability of each parent set of a node given the state."""
        from polydag.posterior.mcmc._bucket_orders_kernels import family_shares

        result = np.zeros(len(self._families.sets))
        family_shares(node, order, self.begin, self._families, self._room, result)
        return result


def _begins(n: int, first: int, size: int) -> Index:
    """Where buckets begin if the first has `first` places and the others `size`."""
    return np.array([0, *range(min(first, n), n, size), n], dtype=np.int64)


def _room(n: int, width: int, size: int, max_parents: int) -> Room:
    from polydag.posterior.mcmc import _bucket_families_kernels as _kernels

    half, full = 1 << (size - 1), 1 << size
    pairs = width * (width - 1) // 2 + 1 if max_parents > 2 else 1

    def numbers(*shape: int) -> Index:
        return np.zeros(shape, dtype=np.int64)

    def bands(*shape: int) -> NDArray[np.int32]:
        return np.zeros(shape, dtype=np.int32)

    return _kernels.Room(
        where=numbers(n),
        slot=numbers(n),
        alpha=np.zeros((size, half)),
        alpha_b=bands(size, half),
        F=np.zeros(full),
        Fb=bands(full),
        B=np.zeros(full),
        Bb=bands(full),
        blocked=np.zeros(size, dtype=bool),
        able=numbers(width + 1),
        bit=numbers(width + 1),
        early=numbers(width + 1),
        early_below=numbers(width + 1),
        mates=numbers(width + 1),
        mates_below=numbers(width + 1),
        early_pairs=numbers(pairs),
        mixed_pairs=numbers(size, width + 1),
        mate_pairs=numbers(size * size),
        chosen=numbers(max(max_parents, 1)),
        single=np.zeros(width + 1),
        pair=np.zeros(pairs),
    )
