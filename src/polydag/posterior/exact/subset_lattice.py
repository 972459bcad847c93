"""Exact sums and maxima over all orders of the variables, by dynamic programming over subsets.

The weight of an order is `Π_i α_i(U_i)`, where U_i are the variables before i and `α_i(U) = Σ_{π ⊆ U} β_i(π)`
(the tasks paper, eq. 1; Koivisto and Sood 2004). With F(S) the sum over the orders of S and B(S) that over
the orders of the variables after S, a family has the probability `β_i(π) Σ_{U ⊇ π} F(U) B(U + i) / F(V)`
(Koivisto 2006). Only F and B are kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Mask
from polydag.computing.progress import report
from polydag.errors import DataError
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.memory import in_words, require_memory, usable_memory
from polydag.posterior.threads import run

Bands = NDArray[np.int32]

LOW_BITS = 12  # a block of 4096 numbers stays in the first-level cache
_SPAN = 620.0  # nats: α within this range are plain numbers; the rest of a band is left for sums
_BAND = 1000 * np.log(2.0)
_MOST = 40  # variables, beyond which no present machine has enough memory
_BYTES = 12.0  # of a mantissa and a band
_PATIENCE = 200.0  # seconds beyond which the exact method is not chosen automatically


@dataclass(frozen=True, eq=False)
class Lattice:
    """Families by node and by the upper part of the parent set (see `_subset_lattice_kernels`).

    Families with a score of -inf are left out.

    Attributes
    ----------
    n, low : int
        The number of variables, and of lower bits.
    begin : int array of shape (n + 1,)
        Where the groups of each node begin.
    group_mask : int array of shape (groups,)
        The upper part of the parent sets of a group.
    group_begin : int array of shape (groups + 1,)
        Where the families of each group begin.
    place : int32 array of shape (families,)
        The lower part of each parent set.
    order : int array of shape (families,)
        The index of each family in `table.scores.ravel()`.
    """

    n: int
    low: int
    begin: Index
    group_mask: Index
    group_begin: Index
    place: NDArray[np.int32]
    order: Index

    @property
    def blocks(self) -> list[Index]:
        """The blocks by the number of members of their upper part."""
        every = np.arange(1 << (self.n - self.low), dtype=np.int64)
        count = np.bitwise_count(every)
        return [every[count == k] for k in range(self.n - self.low + 1)]

    @property
    def families(self) -> tuple[Index, Index, Index, NDArray[np.int32]]:
        """The arguments that all kernels take."""
        return self.begin, self.group_mask, self.group_begin, self.place


@dataclass(frozen=True, eq=False)
class Values:
    """β of each family as a mantissa and a band, up to a factor `exp(reference[i])` of its node.

    Attributes
    ----------
    value : array of shape (families,)
    band : int32 array of shape (families,)
    wide : bool array of shape (n,)
        Nodes whose values need bands.
    reference : array of shape (n,)
    """

    value: Array
    band: Bands
    wide: Mask
    reference: Array


def lattice(table: FamilyTable) -> Lattice:
    """Sort the families of a table into groups."""
    n = table.n
    low = min(n, LOW_BITS)
    begin, masks, starts, places, orders = [0], [], [], [], []
    done = 0
    for node in range(n):
        usable = np.flatnonzero(table.scores[node] > -np.inf)
        members = table.members(node)[usable]
        # Bit `node` is removed from the numbers of sets, which do not contain it.
        bits = np.where(members < 0, 0, np.int64(1) << np.maximum(members - (members > node), 0))
        number = bits.sum(axis=1)
        split = low - (node < low)
        by_upper = np.argsort(number >> split, kind="stable")
        number, usable = number[by_upper], usable[by_upper]
        upper, first = np.unique(number >> split, return_index=True)
        masks.append(upper)
        starts.append(first + done)
        places.append(number & ((1 << split) - 1))
        orders.append(usable + node * table.scores.shape[1])
        begin.append(begin[-1] + len(upper))
        done += len(usable)
    return Lattice(
        n, low, np.array(begin), np.concatenate(masks), np.append(np.concatenate(starts), done),
        np.concatenate(places).astype(np.int32), np.concatenate(orders),
    )  # fmt: skip


def scaled(table: FamilyTable, grid: Lattice, plain: bool | None = None) -> Values:
    """β as the kernels read it; `plain=False` gives every node bands, which only wide ranges need."""
    scores = table.scores.ravel()[grid.order]
    bounds = grid.group_begin[grid.begin]
    value, band = np.empty(len(scores)), np.zeros(len(scores), dtype=np.int32)
    wide, reference = np.zeros(table.n, dtype=bool), np.zeros(table.n)
    for node in range(table.n):
        part = slice(bounds[node], bounds[node + 1])
        own = scores[part]
        if not len(own):
            raise DataError(f"No parent set of {table.names[node]} is allowed.")
        # α of any U is at least that of the empty set, where that is allowed: lower scores do not matter.
        empty = table.scores[node, 0]
        floor, top = empty if empty > -np.inf else own.min(), own.max()
        wide[node] = top - floor > _SPAN if plain is None else not plain
        if wide[node]:
            reference[node] = top
            band[part] = np.round((own - top) / _BAND)
            value[part] = np.exp(own - top - band[part] * _BAND)
        else:
            reference[node] = 0.5 * (top + floor)
            value[part] = np.exp(own - reference[node])
    return Values(value, band, wide, reference)


def total(grid: Lattice, values: Values, n_jobs: int = 1) -> float:
    """The log of the sum over all orders."""
    F, Fb = forward(grid, values, n_jobs, "orders")
    return _log(F[-1], Fb[-1]) + float(values.reference.sum())


def family_posterior(
    table: FamilyTable, grid: Lattice, values: Values, n_jobs: int = 1
) -> tuple[Array, float]:
    """The probability of every family, of the shape of `table.scores`, and the log of the sum over orders."""
    from polydag.posterior.exact import _subset_lattice_kernels as _kernels

    F, Fb = forward(grid, values, n_jobs, "orders, from the front")
    if not F[-1] > 0:
        raise DataError("No order of the variables has an allowed parent set for every variable.")
    B, Bb = np.empty_like(F), np.empty_like(Fb)
    shares: list[tuple[Array, Bands]] = []
    for _ in range(n_jobs):
        weight_b = np.repeat(
            np.where(values.wide, _kernels.NOTHING, 0), np.diff(grid.group_begin[grid.begin])
        )
        shares.append((np.zeros(len(grid.order)), weight_b.astype(np.int32)))

    def work(task: tuple[int, Index]) -> None:
        thread, blocks = task
        _kernels.backward(
            blocks, grid.n, grid.low, *grid.families, values.value, values.band, values.wide,
            F, Fb, B, Bb, *shares[thread],
        )  # fmt: skip

    _by_layer(grid.blocks[::-1], work, n_jobs, "orders, from the back")
    posterior = np.zeros(table.scores.size)
    for weight, weight_b in shares:
        band = values.band + weight_b
        factor = np.where(
            band == 0, 1.0, np.where(band > 0, 2.0**1000, np.where(band == -1, 2.0**-1000, 0.0))
        )
        posterior[grid.order] += values.value * weight * factor
    log_total = _log(F[-1], Fb[-1]) + float(values.reference.sum())
    return posterior.reshape(table.scores.shape), log_total


def best_families(table: FamilyTable, grid: Lattice, n_jobs: int = 1) -> tuple[Index, float]:
    """The index of each node's parent set in a network with the highest score, and that score."""
    from polydag.posterior.exact import _subset_lattice_kernels as _kernels

    scores = table.scores.ravel()[grid.order]
    H = np.empty(1 << grid.n)

    def work(task: tuple[int, Index]) -> None:
        _kernels.best(task[1], grid.n, grid.low, *grid.families, scores, H)

    _by_layer(grid.blocks, work, n_jobs, "best network")
    if H[-1] == -np.inf:
        raise DataError("No order of the variables has an allowed parent set for every variable.")
    left = (1 << table.n) - 1
    chosen = np.zeros(table.n, dtype=np.int64)
    masks = [_masks(table, node) for node in range(table.n)]
    while left:
        ends = []
        for node in range(table.n):
            rest = left & ~(1 << node)
            if rest != left:
                allowed = np.where(masks[node] & ~np.int64(rest), -np.inf, table.scores[node])
                best = int(np.argmax(allowed))
                ends.append((float(allowed[best] + H[rest]), node, best))
        _, node, best = max(ends)
        chosen[node] = best
        left &= ~(1 << node)
    return chosen, float(table.scores[np.arange(table.n), chosen].sum())


def _masks(table: FamilyTable, node: int) -> Index:
    members = table.members(node)
    bits: Index = np.where(members < 0, 0, np.int64(1) << np.maximum(members, 0)).sum(axis=1)
    return bits


def forward(grid: Lattice, values: Values, n_jobs: int, task: str) -> tuple[Array, Bands]:
    """F of every set as mantissas and bands, of shape (2^n,), up to the factors `exp(reference)`."""
    from polydag.posterior.exact import _subset_lattice_kernels as _kernels

    F, Fb = np.empty(1 << grid.n), np.empty(1 << grid.n, dtype=np.int32)

    def work(piece: tuple[int, Index]) -> None:
        _kernels.forward(
            piece[1], grid.n, grid.low, *grid.families, values.value, values.band, values.wide, F, Fb
        )

    _by_layer(grid.blocks, work, n_jobs, task)
    return F, Fb


def _by_layer(layers: list[Index], work: Callable[[tuple[int, Index]], None], n_jobs: int, task: str) -> None:
    """Process blocks layer by layer; the blocks of a layer are independent and shared between threads."""
    size = sum(len(layer) for layer in layers)
    done = 0
    for layer in layers:
        # Copied, since the kernels are compiled for contiguous arrays.
        pieces = [(thread, layer[thread::n_jobs].copy()) for thread in range(min(n_jobs, len(layer)))]
        for _, piece in run(work, pieces, n_jobs):
            done += len(piece)
            report(task, done, size)


def _log(mantissa: float, band: int) -> float:
    return float(np.log(mantissa) + band * _BAND) if mantissa > 0 else -np.inf


def memory(n: int) -> float:
    """Bytes that the posterior of n variables takes."""
    return 2 * _BYTES * 2.0**n


def seconds(n: int) -> float:
    """The approximate time that the posterior of n variables takes on one core."""
    return 1e-8 * n * 2.0**n


def fits(n: int, limit: float | None = None) -> bool:
    """Whether n variables fit into memory, and the exact method takes a few minutes at most."""
    have = usable_memory() if limit is None else limit
    return n < _MOST and memory(n) <= have and seconds(n) <= _PATIENCE


def require_fit(n: int, limit: float | None = None) -> None:
    """Raise if n variables do not fit into memory, and say how many do."""

    def what_fits(have: float) -> str:
        most = max((k for k in range(1, _MOST) if memory(k) <= have), default=0)
        return (
            f"Up to {most} variables fit ({in_words(memory(most))}, about {seconds(most):.0f} s). "
            "Leave variables out, or sample (method='mcmc')"
        )

    what = f"The exact posterior of {n} variables (about {seconds(min(n, 200)):.3g} s)"
    require_memory(memory(min(n, 200)), what, what_fits, limit)
