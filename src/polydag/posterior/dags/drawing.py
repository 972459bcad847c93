"""DAGs from sampled orders: first an order, then the parents of every variable from those before it.

The order is drawn exactly from the sums over subsets where there are few variables, otherwise from the bucket
orders that Markov chains visited. Either way a DAG occurs with its probability under the posterior over
orders.
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Index
from polydag.computing.progress import report
from polydag.errors import DataError, UsageError
from polydag.posterior.dags.samples import DagSamples
from polydag.posterior.exact import subset_lattice as lattice
from polydag.posterior.families.sorted_families import sort_families
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.draws import BucketDraws

_PIECE = 200  # draws between two progress reports


def check_count(count: int) -> None:
    """Raise unless the number of DAGs is positive."""
    if count < 1:
        raise UsageError(f"The number of DAGs to draw must be positive; got {count}.")


def dags_by_orders(
    table: FamilyTable,
    count: int,
    random_state: int | np.random.Generator | None = None,
    *,
    n_jobs: int = 1,
    memory: float | None = None,
) -> DagSamples:
    """Independent, exact draws of DAGs from the posterior over orders.

    Parameters
    ----------
    table : FamilyTable
        Log scores with the log prior in them.
    count : int
        How many DAGs.
    random_state : int or Generator, optional
    n_jobs : int
        Threads for the sums over subsets.
    memory : float, optional
        Bytes that may be used; what is available by default.
    """
    from polydag.posterior.dags import _drawing_kernels as _kernels

    check_count(count)
    lattice.require_fit(table.n, memory)
    rng = np.random.default_rng(random_state)
    grid = lattice.lattice(table)
    values = lattice.scaled(table, grid)
    F, Fb = lattice.forward(grid, values, n_jobs, "orders")
    if not F[-1] > 0:
        raise DataError("No order of the variables has an allowed parent set for every variable.")
    families = sort_families(table)
    dags = np.empty((count, table.n, table.n), dtype=bool)
    for begin in range(0, count, _PIECE):
        piece = dags[begin : begin + _PIECE]
        _kernels.draw_by_orders(families, F, Fb, values.reference, rng, piece)
        report("DAGs", begin + len(piece), count)
    return DagSamples.pack(table.names, dags, "orders")


def dags_by_buckets(
    table: FamilyTable,
    draws: BucketDraws,
    count: int,
    random_state: int | np.random.Generator | None = None,
) -> DagSamples:
    """DAGs from bucket orders that chains visited, evenly over all chains.

    Parameters
    ----------
    table : FamilyTable
        The table that the chains ran on.
    draws : BucketDraws
        The bucket orders.
    count : int
        How many DAGs; several from one bucket order where there are more DAGs than these.
    random_state : int or Generator, optional
    """
    from polydag.posterior.dags import _drawing_kernels as _kernels
    from polydag.posterior.mcmc.bucket_orders import BucketOrders

    check_count(count)
    rng = np.random.default_rng(random_state)
    states = draws.buckets.reshape(-1, table.n)
    size = int(np.bincount(states[0]).max())
    buckets = BucketOrders.of(table, size)
    families = sort_families(table)
    dags = np.empty((count, table.n, table.n), dtype=bool)
    for k, state in enumerate(states[evenly_spaced(len(states), count)]):
        order = buckets.linear_order(rng, np.argsort(state, kind="stable"))
        _kernels.draw_dag(families, np.argsort(order), False, rng, dags[k])
        report("DAGs", k + 1, count)
    return DagSamples.pack(table.names, dags, "orders")


def evenly_spaced(available: int, count: int) -> Index:
    """`count` indices below `available`, as evenly spaced as possible."""
    return (np.arange(count) * available // count).astype(np.int64)
