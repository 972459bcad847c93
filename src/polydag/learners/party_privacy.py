"""How parties' sums are protected in one process: identities, guards, ledgers, and what to say about it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np

from polydag.errors import DataWarning, UsageError
from polydag.federated import Coordinator, Federation, Local, Program, Site
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
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.site_protection import Guard
from polydag.learners.party_models import known_regimes
from polydag.privacy import ledger
from polydag.privacy.dp.accounting import Budget, divided
from polydag.privacy.masking.agreement import LEAST, Terms
from polydag.privacy.masking.identities import Identity
from polydag.stats import GaussianStats, Regimes

if TYPE_CHECKING:
    from polydag.learners.federated import FederatedNotears

PRIVACY = ("masked", "none")
PRIVATE_METHODS = ("moments", "admm", "fedavg")
REHEARSED = 4  # thresholds beyond it take time, and in one process there is nobody to be protected from
PRIVATE_ROUNDS = 30  # of noisy gradients


class Study(NamedTuple):
    """The machines of a study, and a sentence that says what they protect."""

    coordinator: Coordinator
    sites: dict[str, Site]
    protection: str


def study(settings: FederatedNotears, program: Program, locals_: Mapping[str, Local]) -> Study:
    """The coordinator and the sites, each with its own identity and what its ledger remembers."""
    past = {name: ledger.read_whole(_file(settings, name)) if settings.ledgers else () for name in locals_}
    last = {name: chain[-1].hash if chain else ledger.START for name, chain in past.items()}
    if settings.privacy == "none":
        sites = {name: Site(local, settings.min_rows, last=last[name]) for name, local in locals_.items()}
        return Study(Coordinator(program), sites, OPEN)
    terms = Terms.usual("", tuple(locals_), recover=program.tolerates_absence, threshold=settings.quorum)
    if settings.quorum is None and not terms.recover:
        terms = dataclasses.replace(terms, threshold=min(terms.threshold, REHEARSED))
    terms.require_sound()
    masking = Masking(terms.threshold, tags=False)
    budget = None
    if settings.epsilon is not None:
        budget = Budget(settings.budget or settings.epsilon, settings.delta)
    identities = {name: Identity() for name in locals_}
    directory = {name: identity.public for name, identity in identities.items()}
    sites = {
        name: Site(
            local,
            settings.min_rows,
            Guard(
                identities[name],
                directory,
                sets=ledger.sets_of(past[name]),
                budget=budget,
                spent=ledger.multipliers(past[name]),
            ),
            last[name],
        )
        for name, local in locals_.items()
    }
    told = _told(terms) if settings.epsilon is None else f"{_told(terms)} {_noise_told(settings, terms)}"
    if shown := _shown(locals_):
        warnings.warn(shown, DataWarning, stacklevel=4)
        told = f"{told} But: {shown}"
    return Study(Coordinator(program, masking=masking), sites, told)


OPEN = (
    "NOT PRIVATE (privacy = none): whoever adds up sees each site's numbers: no rows, but covariances can be "
    "read off them exactly."
)


def _told(terms: Terms) -> str:
    n = len(terms.members)
    return (
        f"privacy = masked: whoever adds up sees sums over the {n} sites, and no site's own numbers, even "
        f"together with up to {terms.colluding} of the sites. The sums themselves and the graph are seen."
    )


def _shown(locals_: Mapping[str, Local]) -> str:
    """Which sites' numbers masks do not hide, as too few have rows in which the same variables were set."""
    holders: dict[frozenset[str], list[str]] = {}
    for name, local in locals_.items():
        for regime in known_regimes([local]):
            holders.setdefault(regime, []).append(name)
    said = []
    for regime in sorted(holders, key=sorted):
        if len(holders[regime]) < LEAST <= len(locals_):
            what = " and ".join(sorted(regime)) or "nothing"
            said.append(f"Only {' and '.join(holders[regime])} has rows in which {what} was set")
    if not said:
        return ""
    return f"{'. '.join(said)}: sums over fewer than {LEAST} sites show what these sites add, masked or not."


def _noise_told(settings: FederatedNotears, terms: Terms) -> str:
    colluding = min(terms.colluding, (len(terms.members) - 1) // 2)
    return (
        f"All that is seen is ({settings.epsilon:g}, {settings.delta:g})-differentially private for any one "
        f"row, as long as no more than {colluding} sites tell the coordinator the noise that they added."
    )


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
    return Plan(multipliers, counts, _bounds(settings, names))


def _bounds(settings: FederatedNotears, names: tuple[str, ...]) -> tuple[tuple[float, float], ...] | None:
    if settings.bounds is None:
        return None
    pairs = []
    for name in names:
        found = settings.bounds.get(name) if isinstance(settings.bounds, Mapping) else settings.bounds
        if found is None or len(found) != 2 or not found[0] < found[1]:
            raise UsageError(
                f"bounds must hold (lowest, highest) for every column, or be one such pair for all; "
                f"{name} has {found!r}."
            )
        pairs.append((float(found[0]), float(found[1])))
    return tuple(pairs)


def check_privacy(settings: FederatedNotears) -> None:
    """Raise settings of differential privacy that do not go together."""
    if settings.epsilon is None:
        if settings.budget is not None or settings.bounds is not None:
            raise UsageError("budget and bounds belong to differential privacy: give epsilon.")
        return
    Budget(settings.epsilon, settings.delta).require_sound()
    if settings.privacy != "masked":
        raise UsageError("epsilon goes with privacy='masked': sites add noise that hides in the sum.")
    if settings.method not in PRIVATE_METHODS or settings.model != "linear":
        known = ", ".join(PRIVATE_METHODS)
        raise UsageError(f"epsilon goes with the linear model and method {known}; got {settings.method!r}.")
    if settings.participation < 1 or settings.lambda_ == "stability":
        raise UsageError("With epsilon all parties take part in one study: no participation, no stability.")


def keep_ledgers(settings: FederatedNotears, federation: Federation) -> None:
    """Put what left each site at the end of its ledger's file, where ledgers are kept."""
    if settings.ledgers:
        for name, state in federation.sites.items():
            ledger.write(_file(settings, name), state.ledger)


def _file(settings: FederatedNotears, site: str) -> Path:
    folder = Path(str(settings.ledgers))
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; ledgers are kept in a folder, one file a site.")
    return folder / f"{quote(site, safe=' ')}.jsonl"
