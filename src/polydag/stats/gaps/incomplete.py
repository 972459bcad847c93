"""Moments of rows with missing values: from the rows that have each pair, or expected under a Gaussian (EM).

Both are sums over rows, so they can be summed over parties. An `Ask` answers with the sum of some statistics
of the rows; for one table that is a call, for parties a masked round.

- *Test-wise*: sums and products of the values z (0 where missing) and of indicators of what is missing give
  each pair's covariance from the rows that have both. Such a matrix need not be positive definite; small
  eigenvalues are then raised and the diagonal restored.
- *EM* (Dempster, Laird and Rubin 1977): missing values are replaced by their expectations given the others of
  their row, their conditional covariances added, and mean and covariance computed again until they settle.
  Every second pass is followed by a longer step in the same direction (SQUAREM, Varadhan and Roland 2008).

An edge is decided given other variables, so that the rows are worth about as many as hold a pair and one
column more: with h the harmonic mean over pairs of the number of rows that hold both, `n (h/n)^{3/2}`. Scores
and tests take that as the number of rows; with n they would take noise for edges (`benchmarks/missing.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.stats.gaussian import GaussianStats

How = Literal["testwise", "em"]
Ask = Callable[[Callable[[Array], GaussianStats]], GaussianStats]
MIN_PAIR = 3  # rows that a covariance needs
_ASTRAY = 10.0  # times the change of the pass before: a longer step led astray
_SWEEPS = 20  # over pairs that no rows hold
_LEAST = 1e-4  # the smallest eigenvalue of a correlation matrix that was made positive definite


class Incomplete(NamedTuple):
    """Moments of incomplete rows.

    `stats.n` is what the rows are worth; `rows` their number, `pairs` (d, d) how many rows hold each pair,
    `steps` how often the rows were asked, `settled` whether EM ended by itself.
    """

    stats: GaussianStats
    rows: float
    pairs: Array
    steps: int
    settled: bool


def incomplete_moments(
    ask: Ask, names: tuple[str, ...], how: How, *, tolerance: float = 1e-4, max_steps: int = 200
) -> Incomplete:
    """Moments of rows with missing values, test-wise or by EM.

    Parameters
    ----------
    ask : callable
        Answers with the sum of statistics of the rows.
    names : tuple of str
        The columns.
    tolerance : float
        EM ends when no correlation changes by more.
    max_steps : int
        Of EM.
    """
    d = len(names)
    first = ask(_with_masks)
    seen = np.round(first.n * (1 - first.mean[d:]))
    if (seen < MIN_PAIR).any():
        name = names[int(np.argmin(seen))]
        raise DataError(
            f"Column {name} has {seen.min():g} values; at least {MIN_PAIR} are needed. Leave it out."
        )
    centre = first.n * first.mean[:d] / seen
    squares = first.scatter.diagonal()[:d] + first.n * first.mean[:d] ** 2
    scale = np.sqrt(np.maximum(squares / seen - centre**2, 0.0))
    if (flat := scale <= 1e-12 * np.abs(centre)).any():
        raise DataError(f"Column {names[int(np.argmax(flat))]} is constant. Leave it out.")
    second = ask(lambda rows: _with_masks((rows - centre) / scale))
    pairs, correlation, spread = _pairwise(second, d)
    correlation = positive_definite(with_unseen_pairs(correlation, pairs))
    steps, settled, mean, covariance = 2, True, np.zeros(d), correlation
    if how == "em":
        covariance = np.outer(spread, spread) * correlation

        def asked(mean: Array, covariance: Array) -> GaussianStats:
            inverse = inverse_covariance(covariance, first.n)
            return ask(lambda rows: expected((rows - centre) / scale, mean, inverse))

        mean, covariance, passes, settled = fixed_point(asked, mean, covariance, tolerance, max_steps)
        steps += passes
    n = first.n * (_harmonic_mean(pairs) / first.n) ** 1.5
    scatter = n * covariance * np.outer(scale, scale)
    return Incomplete(
        GaussianStats(n, centre + scale * mean, scatter, names, n), first.n, pairs, steps, settled
    )


def fixed_point(
    step: Callable[[Array, Array], GaussianStats],
    mean: Array,
    covariance: Array,
    tolerance: float,
    max_steps: int,
) -> tuple[Array, Array, int, bool]:
    """The mean and covariance that EM no longer changes, the number of passes, and whether it settled."""
    before = np.inf  # by how much the last pass before an extrapolation changed them
    held: tuple[Array, Array] | None = None  # where to go on if that went astray
    passes = 0
    while passes < max_steps:
        first = step(mean, covariance)
        passes += 1
        change = _change(first, mean, covariance)
        if change < tolerance:
            return first.mean, first.covariance, passes, True
        if held is not None and change > _ASTRAY * before:
            (mean, covariance), held = held, None
            continue
        if passes == max_steps:
            mean, covariance = first.mean, first.covariance
            break
        second = step(first.mean, first.covariance)
        passes += 1
        before = _change(second, first.mean, first.covariance)
        if before < tolerance:
            return second.mean, second.covariance, passes, True
        held = second.mean, second.covariance
        mean, covariance = _extrapolated((mean, covariance), first, second)
    else:
        mean, covariance = held if held is not None else (mean, covariance)
    return mean, covariance, passes, False


def _change(found: GaussianStats, mean: Array, covariance: Array) -> float:
    return float(np.abs(found.covariance - covariance).max() + np.abs(found.mean - mean).max())


def _extrapolated(
    start: tuple[Array, Array], first: GaussianStats, second: GaussianStats
) -> tuple[Array, Array]:
    """A longer step in the direction of two passes, as long as the covariance stays positive definite."""
    r = (first.mean - start[0], first.covariance - start[1])
    v = (second.mean - first.mean - r[0], second.covariance - first.covariance - r[1])
    along, bend = (float(np.sqrt((m**2).sum() + (c**2).sum())) for m, c in (r, v))
    length = along / bend if bend > 0 else 1.0
    least = 0.1 * float(np.linalg.eigvalsh(second.covariance)[0])
    while length > 1.01:
        mean, covariance = (
            own + 2 * length * change + length**2 * curve
            for own, change, curve in zip(start, r, v, strict=True)
        )
        if np.linalg.eigvalsh(covariance)[0] > max(least, 0.0):
            return mean, covariance
        length = (length + 1) / 2
    return second.mean, second.covariance


def _with_masks(rows: Array) -> GaussianStats:
    """The moments of the values, 0 where missing, and of indicators of what is missing."""
    there = np.isfinite(rows)
    return GaussianStats.from_data(np.hstack([np.where(there, rows, 0.0), ~there]))


def _pairwise(stats: GaussianStats, d: int) -> tuple[Array, Array, Array]:
    """Rows that have each pair, correlations from them (0 where there are too few), standard deviations."""
    sums, totals = stats.scatter + stats.n * np.outer(stats.mean, stats.mean), stats.n * stats.mean
    absent = totals[d:]
    pairs = np.round(stats.n - absent[:, None] - absent[None, :] + sums[d:, d:])
    safe = np.maximum(pairs, 1.0)
    means = (totals[:d, None] - sums[:d, d:]) / safe
    covariance = sums[:d, :d] / safe - means * means.T
    spread = np.sqrt(covariance.diagonal())
    correlation = np.where(pairs >= MIN_PAIR, covariance / np.outer(spread, spread), 0.0)
    np.fill_diagonal(correlation, 1.0)
    return pairs, np.clip(correlation, -1, 1), spread


def with_unseen_pairs(correlation: Array, pairs: Array) -> Array:
    """Correlations of pairs that no rows hold, as if these were independent given what is seen with both.

    Rows say nothing of them, and EM leaves their partial correlation where it starts: zero correlation would
    be a strong claim about it.
    """
    unseen = [(i, j) for i, j in np.argwhere(pairs < MIN_PAIR) if i < j]
    result = correlation.copy()
    for _ in range(_SWEEPS if unseen else 0):
        for i, j in unseen:
            both = np.flatnonzero((pairs[i] >= MIN_PAIR) & (pairs[j] >= MIN_PAIR))
            both = both[(both != i) & (both != j)]
            through = np.linalg.pinv(result[np.ix_(both, both)], hermitian=True) @ result[both, j]
            result[i, j] = result[j, i] = np.clip(result[i, both] @ through, -1, 1)
    return result


def positive_definite(correlation: Array) -> Array:
    """The correlation matrix with eigenvalues below 1e-4 raised to that, and its diagonal restored."""
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= _LEAST:
        return correlation
    raised = (vectors * np.maximum(values, _LEAST)) @ vectors.T
    scale = np.sqrt(raised.diagonal())
    result: Array = raised / np.outer(scale, scale)
    return result


def expected(rows: Array, mean: Array, inverse: Array) -> GaussianStats:
    """The E step: expected moments of rows under a Gaussian with this mean and inverse covariance."""
    from polydag.stats.gaps._incomplete_kernels import fill_expected

    missing = ~np.isfinite(rows)
    R = np.ascontiguousarray(rows - mean)
    extra = np.zeros(inverse.shape)
    fill_expected(R, missing, np.ascontiguousarray(inverse), extra)
    shift = R.mean(axis=0)
    centred = R - shift
    names = tuple(f"x{j}" for j in range(len(mean)))
    n = float(len(R))
    return GaussianStats(n, mean + shift, centred.T @ centred + extra, names, n)


def inverse_covariance(covariance: Array, n: float) -> Array:
    """The inverse covariance; of one that is nearly singular, with a row's worth of variance added."""
    values, vectors = np.linalg.eigh(covariance)
    more = 0.0 if values[0] > 1e-6 * values[-1] else values[-1] / n
    result: Array = (vectors / (np.maximum(values, 0.0) + more)) @ vectors.T
    return result


def _harmonic_mean(pairs: Array) -> float:
    """Of the entries off the diagonal; pairs that no row holds are left out."""
    off = pairs[~np.eye(len(pairs), dtype=bool)] if len(pairs) > 1 else pairs.ravel()
    off = off[off >= MIN_PAIR]
    return float(len(off) / (1 / off).sum()) if len(off) else float(pairs.diagonal().min())
