"""What a study protects from whom, in words."""

from __future__ import annotations

from collections.abc import Mapping

from polydag.federated.models.regimes import known_regimes
from polydag.federated.protocol.programs import Local
from polydag.privacy.masking.agreement import MIN_SITES, Agreement
from polydag.privacy.settings import Privacy


def open_statement() -> str:
    """For sums in the open."""
    return (
        "NOT PRIVATE (privacy = none): whoever adds up sees each party's numbers: no rows, but covariances "
        "can be read off them exactly."
    )


def masked_statement(agreement: Agreement) -> str:
    """For sums under masks."""
    n = len(agreement.all_sites)
    return (
        f"privacy = masked: whoever adds up sees sums over the {n} parties, and no party's own numbers, even "
        f"together with up to {agreement.colluding} of them. The sums themselves and the graph are seen."
    )


def noise_statement(privacy: Privacy, agreement: Agreement) -> str:
    """For differential privacy."""
    colluding = min(agreement.colluding, (len(agreement.all_sites) - 1) // 2)
    return (
        f"All that is seen is ({privacy.epsilon:g}, {privacy.delta:g})-differentially private for any one "
        f"row, as long as no more than {colluding} parties reveal to the coordinator the noise they added."
    )


def unprotected_regimes(sites: Mapping[str, Local]) -> str:
    """Which parties masks do not protect: few have rows with the same interventions; "" for none."""
    holders: dict[frozenset[str], list[str]] = {}
    for name, site in sites.items():
        for regime in known_regimes([site]):
            holders.setdefault(regime, []).append(name)
    sentences = []
    for regime in sorted(holders, key=sorted):
        if len(holders[regime]) < MIN_SITES <= len(sites):
            what = " and ".join(sorted(regime)) or "nothing"
            sentences.append(f"Only {' and '.join(holders[regime])} has rows in which {what} was set")
    if not sentences:
        return ""
    what = "show what these parties add, masked or not"
    return f"{'. '.join(sentences)}: sums over fewer than {MIN_SITES} parties {what}."
