"""The privacy account: how much noise a budget requires, and how much of it has been spent.

Suppose that adding or removing one row changes a released vector by at most Δ. A release with Gaussian noise
of standard deviation `z Δ` has the noise multiplier z. Sums under masks carry the noise of all honest sites.
The total of several releases is computed with privacy loss distributions (PLD, `dp-accounting`). For Gaussian
noise alone it has a closed form (Balle and Wang 2018; Dong et al. 2022), which provides the starting value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from polydag.errors import DataError, UsageError

_LITTLE_NOISE = 0.5  # below it epsilon exceeds 10, and the discretised account takes minutes
_CLOSE = 1e-3  # relative accuracy of the discretised account


class Budget(NamedTuple):
    """The differential privacy that may be spent on a site's rows."""

    epsilon: float
    delta: float

    def check(self) -> None:
        """Raise a `UsageError` for values that are not a budget."""
        if not 0 < self.epsilon < math.inf:
            raise UsageError(f"epsilon must be positive; got {self.epsilon!r}.")
        if not 0 < self.delta < 1:
            raise UsageError(f"delta must lie between 0 and 1; got {self.delta!r}.")


def spent(multipliers: Mapping[float, int], delta: float) -> float:
    """The epsilon of releases with these noise multipliers (mapped to their numbers), at this delta."""
    return _spent(tuple(sorted((float(z), int(count)) for z, count in multipliers.items() if count)), delta)


@lru_cache(maxsize=256)
def _spent(releases: tuple[tuple[float, int], ...], delta: float) -> float:
    if not releases:
        return 0.0
    together = sum(count / z**2 for z, count in releases) ** -0.5
    if together < _LITTLE_NOISE:
        return closed_form_epsilon(together, delta)
    pld, accounting = _modules()
    account = pld.PLDAccountant()
    for z, count in releases:
        account.compose(accounting.GaussianDpEvent(z), count)
    return float(account.get_epsilon(delta))


def _modules() -> tuple[Any, Any]:
    try:
        import dp_accounting
        from dp_accounting import pld
    except ImportError:
        raise UsageError(
            "Differential privacy needs dp-accounting and OpenDP: pip install 'polydag[privacy]'."
        ) from None
    return pld, dp_accounting


def closed_form_delta(z: float, epsilon: float) -> float:
    """Delta of one Gaussian release at epsilon (Balle and Wang 2018, theorem 8)."""
    from scipy.special import log_ndtr, ndtr

    a, b = 0.5 / z, epsilon * z
    return float(ndtr(a - b) - math.exp(epsilon + float(log_ndtr(-a - b))))


def closed_form_epsilon(z: float, delta: float) -> float:
    """Epsilon of one Gaussian release at delta."""
    from scipy.optimize import brentq

    high = 1.0
    while closed_form_delta(z, high) > delta:
        high *= 2
    return float(brentq(lambda epsilon: closed_form_delta(z, epsilon) - delta, 0.0, high))


def closed_form_multiplier(budget: Budget) -> float:
    """The noise multiplier of a single release that spends the whole budget.

    Examples
    --------
    >>> round(closed_form_multiplier(Budget(1.0, 1e-5)), 4)
    3.7306
    """
    from scipy.optimize import brentq

    low, high = 1e-3, 1.0
    while closed_form_delta(high, budget.epsilon) > budget.delta:
        high *= 2
    return float(brentq(lambda z: closed_form_delta(z, budget.epsilon) - budget.delta, low, high, xtol=1e-12))


def multiplier(budget: Budget, releases: int, before: Mapping[float, int] | None = None) -> float:
    """The noise multiplier with which `releases` more fit into a budget, after those `before`."""
    budget.check()
    before = dict(before or {})
    if before and (used := spent(before, budget.delta)) >= budget.epsilon:
        raise DataError(_too_much(used, budget))
    # Gaussian releases compose as one whose inverse square multiplier is the sum of theirs.
    left = closed_form_multiplier(budget) ** -2 - sum(count / z**2 for z, count in before.items())
    if left <= 0:
        raise DataError(_too_much(spent(before, budget.delta), budget))
    z = math.sqrt(releases / left)
    while (found := spent({**before, z: before.get(z, 0) + releases}, budget.delta)) > budget.epsilon * (
        1 + _CLOSE
    ):
        z *= max(1.0001, min(found / budget.epsilon, 1.1))
    return z


def require_within(budget: Budget, before: Mapping[float, int], planned: Mapping[float, int]) -> None:
    """Raise a `DataError` if the planned releases, after those `before`, would exceed the budget."""
    together = dict(before)
    for z, count in planned.items():
        together[z] = together.get(z, 0) + count
    if (found := spent(together, budget.delta)) > budget.epsilon * (1 + 2 * _CLOSE):
        raise DataError(_too_much(found, budget))


def _too_much(found: float, budget: Budget) -> str:
    return (
        f"Together with earlier studies, epsilon would be {found:.4g} at delta = {budget.delta:g}, and the "
        f"budget is {budget.epsilon:g}. Nothing was sent."
    )


def split_budget(
    budget: Budget, parts: Mapping[str, tuple[float, int]], before: Mapping[float, int] | None = None
) -> dict[str, float]:
    """Noise multipliers for several kinds of releases, each given as (share of the budget, number)."""
    whole = multiplier(budget, 1, before)
    total = sum(share for share, _ in parts.values())
    return {name: whole * math.sqrt(count * total / share) for name, (share, count) in parts.items()}
