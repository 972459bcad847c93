"""What left the parties of a study, how it was protected, and what each party has of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polydag.confidence import Confidence
from polydag.federated.session import runs_elsewhere
from polydag.studies.findings.interface import Findings

if TYPE_CHECKING:
    import pandas as pd

_ONE_PROCESS = (
    "disclosure.json lists everything that left the parties. Here all parties "
    "ran in one process, which read every table; between organisations, each "
    "runs its own site."
)
_APART = (
    "disclosure.json lists everything that reached the coordinator. Each party "
    "ran its own site, whose ledger lists what left it."
)


def findings(model: Any, source: Any) -> Findings:
    """Of a source of parties."""
    if not hasattr(source, "parties"):
        return Findings()
    documents = {"disclosure": disclosure(model.disclosure_, source.privacy.mode)}
    if hasattr(model, "party_weights_"):
        documents["party_weights"] = party_weights(model)
    return Findings(
        notes=(*site_notes(model, source), model.protection_, _APART if runs_elsewhere() else _ONE_PROCESS),
        confidence=_votes(model, len(source.parties)),
        documents=documents,
    )


def _votes(model: Any, n: int) -> Confidence | None:
    """The share of the parties that found each edge by themselves, where they voted."""
    if not hasattr(model, "votes_"):
        return None
    return Confidence(model.graph_.names, model.votes_, "votes", n=n)


def site_notes(model: Any, source: Any) -> tuple[str, ...]:
    """How the parties compare; what single parties noticed is among the warnings already."""
    own = tuple(f"{party}: " for party in source.parties)
    return tuple(note for note in model.notes_ if not note.startswith(own))


def party_weights(model: Any) -> dict[str, Any]:
    """Each party's own coefficients of the shared graph; between organisations they stay with the party."""
    names = model.graph_.names
    return {
        party: [
            {"source": names[i], "target": names[j], "weight": float(own[i, j])}
            for i, j in zip(*model.graph_.adjacency.nonzero(), strict=True)
        ]
        for party, own in model.party_weights_.items()
    }


def disclosure(entries: pd.DataFrame, privacy: str) -> dict[str, Any]:
    """What left the parties, summed up by party and name, and in full."""
    grouped = entries.groupby(["site", "name", "shape", "masked"], sort=False)
    summary = grouped.agg(times=("round", "size"), first_round=("round", "min"), last_round=("round", "max"),
                          bytes=("bytes", "sum")).reset_index()  # fmt: skip
    return {
        "privacy": privacy,
        "bytes": int(entries["bytes"].sum()),
        "summary": _records(summary),
        "entries": _records(entries),
    }


def _records(table: pd.DataFrame) -> list[Mapping[str, Any]]:
    columns = [table[name].tolist() for name in table.columns]
    return [dict(zip(table.columns, row, strict=True)) for row in zip(*columns, strict=True)]
