"""What a group of so many rows could have shown: samples of its size from another group's distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polydag.arrays import Array
from polydag.posterior import exact_posterior
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.probabilities import either_way
from polydag.stats import DiscreteCounts, GaussianStats

FOUND = 0.5  # a connection counts as found above this probability


def sampled(stats: Any, n: int, rng: np.random.Generator) -> Any:
    """Statistics of n rows drawn from what some statistics describe; None where that is not possible.

    Numbers are drawn from the normal distribution with their mean and covariance, labels from the rows.
    """
    if isinstance(stats, GaussianStats):
        root = np.linalg.cholesky(stats.covariance + 1e-12 * np.diag(stats.covariance.diagonal()))
        rows = stats.mean + rng.standard_normal((n, stats.d)) @ root.T
        return GaussianStats.from_data(rows, names=stats.names)
    if isinstance(stats, DiscreteCounts):
        counts = rng.multinomial(n, stats.counts / stats.counts.sum()).astype(float)
        seen = counts > 0
        return DiscreteCounts(stats.names, stats.levels, stats.rows[seen], counts[seen])
    return None


def found_share(
    stats: Any, n: int, table: Callable[[Any], FamilyTable], samples: int, random_state: int | None
) -> Array | None:
    """The share of samples of n rows in which each connection is found, in the upper triangle.

    Parameters
    ----------
    stats : statistics
        Of the group in which connections were found.
    n : int
        The number of rows of the other group.
    table : callable
        The table of families, with the structure prior in it, of some statistics.
    """
    rng = np.random.default_rng(random_state)
    total: Array | None = None
    for _ in range(samples):
        drawn = sampled(stats, n, rng)
        if drawn is None:
            return None
        P = exact_posterior(table(drawn)).probabilities
        found = np.triu(either_way(P) > FOUND, 1).astype(float)
        total = found if total is None else total + found
    return None if total is None else total / samples
