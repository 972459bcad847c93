"""Joint draws of the networks of several tasks: an order, then the families of all tasks given the order.

Where tasks share an order, the parents of a variable depend on the order only through the set U of its
predecessors. An order is drawn from the back, by the sums over the orders of subsets; then for every variable
the parents in all tasks are drawn from the sets inside its U.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.posterior.dags.samples import DagSamples
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.probabilities import Posterior
from polydag.posterior.transfer.family import subset_tables

if TYPE_CHECKING:
    import pandas as pd

Draw = Callable[[int, int, int, np.random.Generator], Index]


class JointNetworks(Protocol):
    """The networks of all tasks, which can be drawn together."""

    def sample(self, count: int, random_state: int | None = None) -> list[DagSamples]:
        """For each task as many DAGs; those at the same place were drawn together."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class TaskPosterior(Posterior):
    """The posterior of one of several tasks that inform each other.

    Attributes
    ----------
    networks : JointNetworks
        What DAGs are drawn from.
    task : int
        The number of the task.
    """

    networks: JointNetworks | None = None
    task: int = 0

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """Independent DAGs of this task; this computes the sums over subsets again."""
        assert self.networks is not None  # optional only because fields of the base class are
        return self.networks.sample(count, random_state)[self.task]

    @cached_property
    def ancestors(self) -> pd.DataFrame:
        """The probability that the row is an ancestor of the column, from 1000 sampled DAGs."""
        return self.sample_dags(random_state=0).ancestors


class SetsInside:
    """The parent sets inside a set of predecessors, and sums over them.

    Parameters
    ----------
    table : FamilyTable
        Its families; all other variables are candidates.
    """

    def __init__(self, table: FamilyTable) -> None:
        numbers, self._members = subset_tables(table)
        self._numbers = np.where(numbers < 0, len(table.sets), numbers)
        bits = np.where(table.sets >= 0, np.int64(1) << np.maximum(table.sets, 0).astype(np.int64), 0)
        self.masks: Index = bits.sum(axis=1)
        self.sizes = table.sizes

    def inside(self, U: int) -> Index:
        """The numbers of the sets inside U, whose bits are positions among the candidates."""
        return np.flatnonzero((self.masks & ~np.int64(U)) == 0)

    def common(self, sets: Index, s: int) -> Index:
        """How many members some sets have in common with set s."""
        counts: Index = np.bitwise_count(self.masks[sets] & self.masks[s]).astype(np.int64)
        return counts

    def log_sums(self, scores: Array, inside: Index, c: Array) -> Array:
        """`log Σ_{T ⊆ ρ} c(|ρ|, |T|) S(T)` for every ρ inside, with S(T) the sum over the sets inside ⊇ T."""
        own = scores[inside]
        top = own.max()
        if top == -np.inf:
            return np.full(len(inside), -np.inf)
        numbers = self._numbers[inside]
        weights = np.repeat(np.exp(own - top), numbers.shape[1])
        S = np.bincount(numbers.ravel(), weights, len(self.masks) + 1)
        S[-1] = 0.0  # masks beyond the size of a set
        factor = c[self.sizes[inside]][:, self._members]
        with np.errstate(divide="ignore"):
            return np.asarray(top + np.log((factor * S[numbers]).sum(axis=1)))


def picked(log_weights: Array, count: int, rng: np.random.Generator) -> Index:
    """So many indices, drawn in proportion to weights."""
    weights = np.exp(log_weights - log_weights.max())
    return rng.choice(len(weights), size=count, p=weights / weights.sum())


def draw_networks(
    table: FamilyTable, alpha: Array, F: Array, draw: Draw, tasks: int, count: int, rng: np.random.Generator
) -> Mask:
    """Adjacency matrices of shape (tasks, count, n, n).

    Parameters
    ----------
    alpha : array of shape (n, 2^(n-1))
        The log of the sum over all tasks' families of a node given its predecessors.
    F : array of shape (2^n,)
        The log of the sum over the orders of each set of variables.
    draw : callable
        `draw(node, U, count, rng)`, the numbers of the drawn parent sets, of shape (tasks, count).
    """
    n = table.n
    before = _predecessors(alpha, F, count, rng)
    dags = np.zeros((tasks, count, n, n), dtype=bool)
    for node in range(n):
        has = np.zeros((len(table.sets), n + 1), dtype=bool)
        has[np.arange(len(has))[:, None], table.members(node)] = True
        for U in np.unique(before[:, node]):
            where = np.flatnonzero(before[:, node] == U)
            chosen = draw(node, int(U), len(where), rng)
            parents = dags[..., node]  # a view
            parents[:, where] = has[chosen][..., :n]
    return dags


def _predecessors(alpha: Array, F: Array, count: int, rng: np.random.Generator) -> Index:
    """The predecessors of each node in drawn orders, of shape (count, n), with the node's bit removed."""
    n = len(alpha)
    left = np.full(count, (1 << n) - 1, dtype=np.int64)
    before = np.zeros((count, n), dtype=np.int64)
    for _ in range(n):
        weights = np.full((count, n), -np.inf)
        compressed = np.zeros((count, n), dtype=np.int64)
        for i in range(n):
            here = np.flatnonzero((left >> i) & 1)
            rest = left[here] ^ (1 << i)
            compressed[here, i] = ((rest >> (i + 1)) << i) | (rest & ((1 << i) - 1))
            weights[here, i] = F[rest] + alpha[i, compressed[here, i]]
        gumbel = rng.gumbel(size=weights.shape)
        last = np.argmax(weights + gumbel, axis=1)
        every = np.arange(count)
        before[every, last] = compressed[every, last]
        left ^= np.int64(1) << last.astype(np.int64)
    return before


def packed(names: tuple[str, ...], dags: Mask) -> list[DagSamples]:
    """Samples of each task."""
    return [DagSamples.pack(names, own, "orders") for own in dags]


def independent(posteriors: Sequence[Posterior], count: int, random_state: int | None) -> list[DagSamples]:
    """Draws of tasks that know nothing of each other; a posterior that occurs twice is drawn once."""
    seeds = np.random.default_rng(random_state).integers(0, 2**31, len(posteriors)).tolist()
    drawn: dict[int, DagSamples] = {}
    for posterior, seed in zip(posteriors, seeds, strict=True):
        if id(posterior) not in drawn:
            drawn[id(posterior)] = posterior.sample_dags(count, seed)  # type: ignore[attr-defined]
    return [drawn[id(posterior)] for posterior in posteriors]
