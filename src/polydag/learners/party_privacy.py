"""Differential privacy of a federated study: the noise that each release gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.errors import UsageError
from polydag.federated.methods.differential_privacy import (
    BOUNDS,
    FRAME,
    FRAMES,
    GRADIENT,
    MOMENTS,
    SHARES,
    Plan,
    PrivateLocal,
)
from polydag.privacy.dp.accounting import Budget, divided
from polydag.privacy.settings import Privacy
from polydag.stats import GaussianStats, Regimes

if TYPE_CHECKING:
    from polydag.learners.federated import FederatedNotears

PRIVATE_METHODS = ("moments", "admm", "fedavg")
PRIVATE_ROUNDS = 30  # of noisy gradients


def private_local(table: Any) -> PrivateLocal:
    """A site's side under differential privacy; it needs rows, as each row's effect is bounded."""
    if isinstance(table, (GaussianStats, Regimes)):
        raise UsageError(
            "Differential privacy bounds what each row can do, so it needs rows; a party gave statistics."
        )
    frame = getattr(table, "frame", table)
    names = GaussianStats.from_data(frame).names  # which also checks the values
    return PrivateLocal(np.asarray(frame, dtype=float), names)


def private_plan(settings: FederatedNotears, names: tuple[str, ...]) -> Plan:
    """How the noise is divided over the releases of a study."""
    assert settings.epsilon is not None
    last = {MOMENTS: 1} if settings.method == "moments" else {GRADIENT: PRIVATE_ROUNDS}
    counts = {**({BOUNDS: 1} if settings.bounds is None else {}), FRAME: FRAMES, **last}
    budget = Budget(settings.epsilon, settings.delta)
    budget.require_sound()
    multipliers = divided(budget, {name: (SHARES[name], count) for name, count in counts.items()})
    return Plan(multipliers, counts, privacy_of(settings).bounds_of(names))


def privacy_of(settings: FederatedNotears) -> Privacy:
    """The settings of protection as one group, which checks itself."""
    return Privacy(
        settings.privacy, settings.quorum, settings.ledgers, settings.epsilon, settings.delta,
        settings.budget, settings.bounds,
    )  # fmt: skip


def check_privacy(settings: FederatedNotears) -> None:
    """Raise where differential privacy is asked of a method that does not support it."""
    if privacy_of(settings).epsilon is None:
        return
    if settings.method not in PRIVATE_METHODS or settings.model != "linear":
        known = ", ".join(PRIVATE_METHODS)
        raise UsageError(f"epsilon goes with the linear model and method {known}; got {settings.method!r}.")
    if settings.participation < 1 or settings.lambda_ == "stability":
        raise UsageError("With epsilon all parties take part in one study: no participation, no stability.")
