"""The degenerate Gaussian score of tables with numbers and labels (Andrews, Ramsey and Cooper 2019).

Each label column is a block of indicator columns (`polydag.stats.mixed`), and a family scores as if all
columns were jointly Gaussian: with `y` the block of a node, of `k` columns, and `B` those of its parents, of
`q` columns in all,

    -n/2 (log|S_{B+y}| - log|S_B| + k log 2π + k) - penalty/2 · log n · (k q + k (k + 3)/2).

The parameters are coefficients, intercepts, and the variances and covariances of the errors. With
`penalty="auto"` it is the extended BIC, which charges each parent once for having been chosen among the
variables, however many columns it has (`polydag.scores.penalty`). For numbers
alone this is the BIC of `polydag.scores.gaussian.bic`. The score is the same for all DAGs of a class, and
does not depend on the order of a label's levels.

Labels that determine each other would have an infinite likelihood. So the indicators, once uncorrelated with
variance one inside their block, have `1/n` added to their variance: one row's worth.

The score sees differences in means, and associations between labels. A number whose variance, but not mean,
depends on a label looks independent of it; so do columns that depend on each other within the levels of a
label in opposite ways. The conditional Gaussian score sees both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.parameters import setting
from polydag.scores.families import ParentSets
from polydag.scores.gaussian.score import require_rows_and_rank
from polydag.scores.penalty import PENALTY, Penalty, edge_price
from polydag.scores.regimes import node_groups, target_sets
from polydag.scores.spec import Kind, check_options
from polydag.stats import MixedStats, Regimes
from polydag.stats.mixed import Blocks


class BlockTerms(NamedTuple):
    """What scores the nodes that the same rows score: regularised blocks, and constants by node."""

    matrix: Array
    start: Index
    base: Array
    half_n: float
    price: float
    edge: float  # what a parent costs besides its parameters
    most: int  # columns of a family


@dataclass(frozen=True, eq=False)
class DegenerateGaussian:
    """The degenerate Gaussian score, with BIC's penalty.

    Parameters
    ----------
    stats : MixedStats or Regimes of MixedStats
        The data; with `Regimes`, each node is scored by the rows that did not set it.
    penalty : float or "auto"
        The penalty discount: 1 is BIC, larger gives sparser graphs. "auto" is the extended BIC, which also
        counts the variables.
    """

    kind: ClassVar[Kind] = "mixed"

    stats: MixedStats | Regimes[MixedStats]
    penalty: Penalty = setting(
        1.0, PENALTY, "the penalty discount, larger gives sparser graphs; auto: the extended BIC"
    )
    targets: tuple[frozenset[int], ...] = field(init=False, repr=False)
    _terms: tuple[BlockTerms, ...] = field(init=False, repr=False)
    _group: Index = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_options(type(self), vars(self))
        first, group = node_groups(self.stats)
        parts = [self.stats.for_node(name) for name in first]
        object.__setattr__(self, "targets", target_sets(self.stats))
        object.__setattr__(self, "_terms", tuple(self._terms_of(part) for part in parts))
        object.__setattr__(self, "_group", group)

    def _terms_of(self, part: MixedStats) -> BlockTerms:
        if part.numbers.d:
            require_rows_and_rank(part.numbers)
        blocks = part.blocks
        n, size = part.n, blocks.sizes
        price = edge_price(1.0 if self.penalty == "auto" else self.penalty, n, part.d)
        edge = edge_price(self.penalty, n, part.d) - price
        likelihood = -0.5 * n * (blocks.log_volume + size * (math.log(2 * math.pi) + 1))
        base = likelihood - price * size * (size + 3) / 2 - 2 * edge
        return BlockTerms(regularised(blocks, n), blocks.start, base, 0.5 * n, price, edge, int(n) - 2)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.stats.n

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The score of `node` given its parents."""
        from polydag.scores.mixed._blocks_kernels import log_left

        own = self._terms[self._group[node]]
        size = own.start[1:] - own.start[:-1]
        members = np.array(sorted(parents), dtype=np.int64)
        width = int(size[members].sum())
        if members.size and width + size[node] > own.most:
            return -math.inf
        left = log_left(own.matrix, own.start, node, members)
        price = own.price * size[node] * width + own.edge * len(members)
        return float(own.base[node] - own.half_n * left - price)

    def gains(
        self, node: int, candidates: Index, sets: ParentSets, wanted: Mask, positive_only: bool = False
    ) -> Array:
        """The gain of each candidate parent over each parent set, where wanted."""
        from polydag.scores.mixed._blocks_kernels import block_gains

        own = self._terms[self._group[node]]
        result: Array = block_gains(
            own.matrix, own.start, node, candidates, sets.root, sets.element, sets.depth, wanted,
            own.half_n, own.price, own.edge, own.most,
        )  # fmt: skip
        return result


def regularised(blocks: Blocks, n: float) -> Array:
    """The correlations between blocks, with one row's worth of variance of its own for each indicator."""
    return np.asarray(blocks.matrix + np.diag(np.where(blocks.labels, 1 / n, 0.0)))
