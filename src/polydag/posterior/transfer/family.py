"""Transfer in the *family* form: each family's score, weighted by those of similar families in other tasks.

`log β_k(i, π) = s_k(i, π) + Σ_{j≠k} log Σ_π' exp(s_j(i, π')) f(|π \\ π'|)` (eq. 6 as a product over the other
tasks), where all parent sets π' up to `max_parents` count and `|U| = n - 1`, as in the published experiments.
The result is a table of families like any other, for the exact sum over orders or for sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.computing.progress import report
from polydag.errors import UsageError
from polydag.posterior.families import subsets
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.transfer.weights import TransferPrior, own_marginal

Combination = Literal["product", "star"]
COMBINATIONS = ("product", "star")


def subset_tables(table: FamilyTable) -> tuple[NDArray[np.int32], Index]:
    """The indices of the subsets of every set by bit mask, and the number of bits of each mask."""
    from polydag.posterior.transfer._transfer_kernels import subset_numbers

    c = table.candidates.shape[1]
    numbers = subset_numbers(
        table.sets,
        table.sizes,
        subsets.offsets(c, table.max_parents),
        subsets.binomials(c, table.max_parents),
    )
    members = np.bitwise_count(np.arange(1 << table.max_parents)).astype(np.int64)
    return numbers, members


def transfer_factors(source: FamilyTable, log_c: Array) -> Array:
    """`log Σ_π' exp(s(i, π')) f(|π \\ π'|)` for every family (i, π), from one source task's log scores."""
    from polydag.posterior.transfer._transfer_kernels import superset_sums, transfer_sums

    numbers, members = subset_tables(source)
    result = np.zeros_like(source.scores)
    for node in range(source.n):
        sums = superset_sums(source.scores[node], numbers, source.sizes)
        transfer_sums(sums, numbers, source.sizes, members, log_c, result[node])
    return result


def family_form(
    own: Sequence[FamilyTable],
    sources: Sequence[FamilyTable],
    prior: TransferPrior,
    combination: str = "star",
) -> list[FamilyTable]:
    """The tables of all tasks, weighted by each other.

    Parameters
    ----------
    own : sequence of FamilyTable
        Each task's log scores with the structure prior in them.
    sources : sequence of FamilyTable
        The log scores of each task that the others use: without structure prior, but `-inf` where background
        knowledge rules a family out.
    prior : TransferPrior
        How similar parent sets are.
    combination : {"product", "star"}
        With more than two tasks: the product of the pairs' priors, or this divided by `P(π)^(K-2)`, so that
        the prior that the pairs imply for a task's own parent set counts once instead of K - 1 times.

    Notes
    -----
    The work is linear in the number of tasks: the factors of each task are computed once and left out of its
    own sum.
    """
    require_alike(own)
    require_alike(sources)
    require_combination(combination)
    n, top = own[0].n, own[0].max_parents
    log_c = prior.subsets(n - 1, top)
    all_factors = []
    for number, source in enumerate(sources):
        report("transfer", number, len(sources))
        all_factors.append(transfer_factors(source, log_c))
    report("transfer", len(sources), len(sources))
    extra = np.zeros(top + 1)
    if combination == "star" and len(own) > 2:
        extra = -(len(own) - 2) * own_marginal(log_c, n - 1)
    by_size = extra[own[0].sizes]
    # Sums over the tasks before and after each, since -inf cannot be subtracted again.
    zero = np.zeros_like(all_factors[0])
    before, after = [zero], [zero]
    for factors in all_factors[:-1]:
        before.append(before[-1] + factors)
    for factors in all_factors[:0:-1]:
        after.append(after[-1] + factors)
    after.reverse()
    return [
        table.with_scores(table.scores + a + b + by_size)
        for table, a, b in zip(own, before, after, strict=True)
    ]


def require_alike(tables: Sequence[FamilyTable]) -> None:
    """Raise unless all tables are of the same families."""
    first = tables[0]
    for table in tables:
        same = table.names == first.names and table.max_parents == first.max_parents
        if not same or not np.array_equal(table.candidates, first.candidates):
            raise UsageError("Tasks must have the same variables, candidate parents and max_parents.")


def require_combination(combination: str) -> None:
    """Raise for an unknown way to combine more than two tasks."""
    if combination not in COMBINATIONS:
        raise UsageError(f"combination must be one of {', '.join(COMBINATIONS)}; got {combination!r}.")
