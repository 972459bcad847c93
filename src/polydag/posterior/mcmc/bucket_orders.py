"""Bucket orders: their weights, draws of their linear orders, and edge probabilities given one.

A bucket order stands for all linear orders that put its buckets one after the other. Bucket orders partition
the linear orders, so that a chain whose target is the sum over each class samples classes with their
probability under the posterior over linear orders (Niinimäki, Parviainen and Koivisto 2011). Drawing the
linear order anew within buckets, wherever these begin, leaves that posterior invariant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Mask
from polydag.errors import DataError
from polydag.parameters import check, whole
from polydag.posterior.families import subsets
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.chains import MAX_BUCKET

if TYPE_CHECKING:
    from polydag.posterior.mcmc._bucket_families_kernels import ScaledFamilies

_SPAN = 890.0  # bits: scores within this range are plain numbers at one level
_ABOVE = 800  # bits by which the best family of a wide node lies above its level
_NO_EXPONENT = -(1 << 30)


@dataclass(frozen=True, eq=False)
class ScaledScores:
    """Scores of families as `mantissa · 2^exponent · exp(reference)`.

    Attributes
    ----------
    mantissa : array of shape (n, sets)
    exponent : int32 array of shape (n, sets)
    value : array of shape (n, sets)
        The scores as plain numbers relative to `2^level`.
    level : int array of shape (n,)
    wide : bool array of shape (n,)
        Nodes for which plain numbers do not suffice.
    reference : array of shape (n,)
        The highest log score of each node.
    """

    mantissa: Array
    exponent: NDArray[np.int32]
    value: Array
    level: Index
    wide: Mask
    reference: Array


def scale_scores(table: FamilyTable) -> ScaledScores:
    """The exponentials of a table's log scores, whatever their range."""
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
    whole_part = np.where(allowed, exponent, _NO_EXPONENT).astype(np.int32)
    value = np.ldexp(mantissa, whole_part - level[:, None])
    return ScaledScores(mantissa, whole_part, value, level, wide, top)


@dataclass(frozen=True, eq=False)
class BucketOrders:
    """The bucket orders of the variables of one table.

    A bucket order is given as an int array of shape (n,): all variables, bucket by bucket.

    Attributes
    ----------
    bucket_size : int
        How many variables a bucket has; the last bucket may have fewer.
    begin : int array of shape (buckets + 1,)
        Where each bucket begins.
    reference : array of shape (n,)
        The highest log score of each node.
    families : ScaledFamilies
        The scores as the kernels read them.
    """

    bucket_size: int
    begin: Index
    reference: Array
    families: ScaledFamilies

    @classmethod
    def of(cls, table: FamilyTable, bucket_size: int) -> BucketOrders:
        """The bucket orders of a table with the prior in it."""
        from polydag.posterior.mcmc import _bucket_families_kernels as _kernels

        check("bucket_size", bucket_size, whole(least=1, most=MAX_BUCKET))
        n, width = table.candidates.shape
        scores = scale_scores(table)
        families = _kernels.ScaledFamilies(
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
        return cls(bucket_size, _begins(n, bucket_size, bucket_size), scores.reference, families)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.families.candidates)

    @property
    def n_buckets(self) -> int:
        """How many buckets there are."""
        return len(self.begin) - 1

    def bucket_of(self, order: Index) -> NDArray[np.int16]:
        """The bucket of each variable."""
        result = np.empty(self.n, dtype=np.int16)
        result[order] = np.repeat(np.arange(self.n_buckets), np.diff(self.begin))
        return result

    def log_weight(self, order: Index) -> float:
        """The log of the sum over all linear orders of a bucket order."""
        from polydag.posterior.mcmc._bucket_orders_kernels import log_weight

        return float(log_weight(order, self.begin, self.families)) + self._constant

    def linear_order(self, rng: np.random.Generator, order: Index) -> Index:
        """Draw one of the linear orders of a bucket order in proportion to its weight."""
        return self._redrawn(rng, order, self.begin)[0]

    def redraw(self, rng: np.random.Generator, order: Index) -> tuple[Index, Array]:
        """Draw a linear order within buckets that begin at a random place.

        Returns
        -------
        order : int array of shape (n,)
        log_sums : array of shape (n,)
            The log of the sum over the families of each variable that the order allows.
        """
        first = int(rng.integers(1, self.bucket_size + 1))
        drawn, log_sums = self._redrawn(rng, order, _begins(self.n, first, self.bucket_size))
        return drawn, log_sums + self.reference

    def edges(self, order: Index) -> Array:
        """The probability of each edge `i -> j` given the bucket order, at `[i, j]`."""
        return self.edges_and_weight(order)[0]

    def edges_and_weight(self, order: Index) -> tuple[Array, float]:
        """The probability of each edge given the bucket order, and its log weight."""
        from polydag.posterior.mcmc._bucket_orders_kernels import edge_probabilities

        result = np.zeros((self.n, self.n))
        log_weight = edge_probabilities(order, self.begin, self.families, result)
        return result, float(log_weight) + self._constant

    def family_probabilities(self, node: int, order: Index) -> Array:
        """The probability of each parent set of a node given the bucket order, of shape (sets,)."""
        from polydag.posterior.mcmc._bucket_orders_kernels import family_probabilities

        result = np.zeros(len(self.families.sets))
        family_probabilities(node, order, self.begin, self.families, result)
        return result

    @property
    def _constant(self) -> float:
        return float(self.reference.sum())

    def _redrawn(self, rng: np.random.Generator, order: Index, begin: Index) -> tuple[Index, Array]:
        from polydag.posterior.mcmc._bucket_orders_kernels import redraw

        drawn, log_sums = order.copy(), np.empty(self.n)
        redraw(drawn, begin, rng.random(self.n), self.families, log_sums)
        return drawn, log_sums


def _begins(n: int, first: int, size: int) -> Index:
    """Where buckets begin if the first has `first` places and the others `size`."""
    return np.array([0, *range(min(first, n), n, size), n], dtype=np.int64)
