"""The exact posterior uniform over DAGs, for few variables.

The sum over all DAGs is a sum over subsets of the variables, by inclusion and exclusion over sources
(Robinson 1973; Tian and He 2009; see `_exact_uniform_kernels`). It takes 3^n steps, where the sum over orders
takes n 2^n. DAGs are drawn layer by layer (Kuipers and Moffa 2015; Talvitie, Vuoksenmaa and Koivisto 2020):
first the variables without parents, then those whose parents are all among these, and so on; then families
given the layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.computing.progress import report
from polydag.errors import DataError, UsageError
from polydag.posterior.dags.drawing import check_count
from polydag.posterior.dags.samples import DagSamples
from polydag.posterior.exact.order_posterior import ExactPosterior
from polydag.posterior.families.sorted_families import sort_families
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.memory import in_words, require_memory, usable_memory

Bands = NDArray[np.int32]

_BAND = 1000 * np.log(2.0)
_BYTES = 12.0  # of a mantissa and a band
_MOST = 40  # variables, beyond which no present machine has enough memory
_PATIENCE = 20.0  # seconds beyond which the exact method is not chosen automatically
_LONGEST = 7200.0  # seconds beyond which the exact method is refused


class _Sums(NamedTuple):
    """α and B, each as a mantissa and a band.

    Attributes
    ----------
    alpha : array of shape (n, 2^(n-1))
        `α_i(U)` at `[i, U]`, with bit i removed from U, relative to `exp(reference[i])`.
    alpha_b : int32 array of shape (n, 2^(n-1))
    B : array of shape (2^n,)
    Bb : int array of shape (2^n,)
    reference : array of shape (n,)
        The highest log score of each node.
    masks : list of int arrays
        The parent sets of each node as bits, with bit i removed.
    allowed : list of int arrays
        Their indices in the table.
    """

    alpha: Array
    alpha_b: Bands
    B: Array
    Bb: Index
    reference: Array
    masks: list[Index]
    allowed: list[Index]

    @property
    def log_total(self) -> float:
        """The log of the sum over all DAGs."""
        return float(np.log(self.B[0]) + self.Bb[0] * _BAND + self.reference.sum())


@dataclass(frozen=True, eq=False, repr=False)
class ExactDagPosterior(ExactPosterior):
    """The posterior of a table of families over all DAGs, each of which counts once.

    `log_evidence` is the log of the sum over all DAGs.
    """

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """Independent DAGs from the posterior; this computes the sums over subsets again."""
        return draw_dags(self._table(), count, random_state)

    def _ratio(self, changed: FamilyTable) -> float:
        sums = _summed(changed)
        assert self.log_evidence is not None
        return float(np.exp(sums.log_total - self.log_evidence)) if sums.B[0] > 0 else 0.0


def exact_dag_posterior(table: FamilyTable, *, memory: float | None = None) -> ExactDagPosterior:
    """The exact posterior of every edge and parent set, uniform over DAGs.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them (`with_prior`).
    memory : float, optional
        Bytes that may be used; by default what is available. A `UsageError` is raised if the variables do not
        fit into memory, or if the sum would take more than two hours.
    """
    from polydag.posterior.dags import _exact_uniform_kernels

    require_fit(table.n, memory)
    sums = _required(_summed(table))
    log_total = sums.log_total
    report("sum over DAGs", 1, 2)
    _exact_uniform_kernels.family_factors(table.n, sums.alpha, sums.alpha_b, sums.B, sums.Bb)
    report("sum over DAGs", 2, 2)
    families = np.zeros(table.scores.shape)
    for node in range(table.n):
        own = np.empty(len(sums.masks[node]))
        _exact_uniform_kernels.family_probabilities(
            sums.masks[node], table.scores[node, sums.allowed[node]], sums.reference[node], _BAND,
            sums.alpha[node], sums.alpha_b[node], own,
        )  # fmt: skip
        families[node, sums.allowed[node]] = np.clip(own, 0.0, 1.0)
    return ExactDagPosterior(
        names=table.names,
        probabilities=np.clip(table.edge_sums(families), 0.0, 1.0),
        method="exact",
        candidates=table.candidates,
        sets=table.sets,
        family_probabilities=families,
        log_evidence=log_total,
        table=table,
    )


def draw_dags(
    table: FamilyTable,
    count: int,
    random_state: int | np.random.Generator | None = None,
    *,
    memory: float | None = None,
) -> DagSamples:
    """Independent DAGs from the posterior uniform over DAGs.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them.
    count : int
        How many DAGs.
    random_state : int or Generator, optional
    memory : float, optional
        Bytes that may be used; by default what is available.
    """
    from polydag.posterior.dags._drawing_kernels import draw_dag

    check_count(count)
    require_fit(table.n, memory)
    rng = np.random.default_rng(random_state)
    levels = _draw_levels(_required(_summed(table)), count, rng)
    families = sort_families(table)
    dags = np.empty((count, table.n, table.n), dtype=bool)
    for dag, level in zip(dags, levels, strict=True):
        draw_dag(families, level, True, rng, dag)
    return DagSamples.pack(table.names, dags, "dags")


def _draw_levels(sums: _Sums, count: int, rng: np.random.Generator) -> Index:
    """The layers of DAGs, drawn for all DAGs at once: `[draw, i]` is the layer of variable i."""
    from polydag.posterior.dags import _exact_uniform_kernels

    n = len(sums.alpha)
    full = (1 << n) - 1
    sets, shares, weights = np.empty(full + 1, dtype=np.int64), np.empty(full + 1), np.empty(full + 1)
    levels = np.zeros((count, n), dtype=np.int64)
    # The variables of the layers so far without and with the last layer, and how many layers there are.
    states = np.zeros((count, 3), dtype=np.int64)
    known = -1
    while (going := np.flatnonzero(states[:, 1] != full)).size:
        # Sorted by the variables so far, whose shares are computed once.
        found, which = np.unique(states[going, 1::-1], axis=0, return_inverse=True)
        for number, (S, before) in enumerate(found.tolist()):
            own = going[which.ravel() == number]
            if known != S:
                _exact_uniform_kernels.exact_sources(
                    S, n, sums.alpha, sums.alpha_b, sums.B, sums.Bb, sets, shares
                )
                known = S
            size = 1 << (n - S.bit_count())
            _exact_uniform_kernels.layer_weights(S, before, n, sums.alpha, sums.alpha_b, shares, weights)
            cumulated = np.cumsum(weights[:size])
            if cumulated[-1] == 0.0:  # only rounding can lead to such layers: start again
                states[own] = 0
                continue
            chosen = np.searchsorted(cumulated, rng.random(len(own)) * cumulated[-1], side="right")
            after = sets[np.minimum(chosen, np.flatnonzero(weights[:size])[-1])]
            new = (after[:, None] & ~S) >> np.arange(n) & 1 > 0
            levels[own] = np.where(new, states[own, 2:], levels[own])
            states[own] = np.column_stack([np.full(len(own), S), after, states[own, 2] + 1])
        report("layers of DAGs", int((states[:, 1] == full).sum()), count)
    return levels


def _summed(table: FamilyTable) -> _Sums:
    """α of all nodes and sets, and B of all sets."""
    from polydag.posterior.dags import _exact_uniform_kernels

    n = table.n
    alpha, alpha_b = np.empty((n, 1 << (n - 1))), np.empty((n, 1 << (n - 1)), dtype=np.int32)
    reference, masks, allowed = np.empty(n), [], []
    for node in range(n):
        usable = np.flatnonzero(table.scores[node] > -np.inf)
        if not len(usable):
            raise DataError(f"No parent set of {table.names[node]} is allowed.")
        members = table.members(node)[usable]
        # Bit `node` is removed from the numbers of sets, which do not contain it.
        bits = np.where(members < 0, 0, np.int64(1) << np.maximum(members - (members > node), 0))
        masks.append(bits.sum(axis=1))
        allowed.append(usable)
        reference[node] = table.scores[node].max()
        _exact_uniform_kernels.sums_within(
            masks[node], table.scores[node, usable], reference[node], _BAND, alpha[node], alpha_b[node]
        )
    B, Bb = np.empty(1 << n), np.empty(1 << n, dtype=np.int64)
    _exact_uniform_kernels.backward(n, alpha, alpha_b, B, Bb)
    return _Sums(alpha, alpha_b, B, Bb, reference, masks, allowed)


def _required(sums: _Sums) -> _Sums:
    if not sums.B[0] > 0:
        raise DataError("No order of the variables has an allowed parent set for every variable.")
    return sums


def memory(n: int) -> float:
    """Bytes that the posterior of n variables takes: α, B and F, and the terms of one sum."""
    return 2.0**n * (_BYTES * n / 2 + 2 * 16 + 40)


def seconds(n: int) -> float:
    """The approximate time that the posterior of n variables takes on one core."""
    return 5e-8 * 3.0**n


def fits(n: int, limit: float | None = None) -> bool:
    """Whether n variables fit into memory, and the sum takes seconds."""
    have = usable_memory() if limit is None else limit
    return n < _MOST and memory(n) <= have and seconds(n) <= _PATIENCE


def require_fit(n: int, limit: float | None = None) -> None:
    """Raise if n variables need too much memory or time, and say how many fit."""

    def what_fits(have: float) -> str:
        possible = (k for k in range(1, _MOST) if memory(k) <= have and seconds(k) <= _LONGEST)
        most = max(possible, default=0)
        return (
            f"Up to {most} variables fit ({in_words(memory(most))}, about {seconds(most):.0f} s). "
            "Leave variables out, or sample (method='mcmc')"
        )

    what = f"The exact posterior over DAGs of {n} variables (about {seconds(min(n, 200)):.3g} s)"
    require_memory(memory(min(n, 200)), what, what_fits, limit)
    if seconds(n) > _LONGEST:
        have = usable_memory() if limit is None else limit
        raise UsageError(f"{what} takes too long. {what_fits(have)}.")
