"""A study that survives an interruption: blocks of rounds, each stored as a piece of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

from polydag.checkpoint import piece
from polydag.errors import DataError, NotConvergedError
from polydag.federated.protocol.coordinator import (
    RUNNING,
    STOPPED,
    UNWILLING,
    Coordinator,
    CoordinatorState,
)
from polydag.federated.protocol.engine import Federation, begin, run
from polydag.federated.protocol.messages import AnyArray, Arrays
from polydag.federated.protocol.site import Site, SiteState
from polydag.federated.protocol.storage import from_arrays, to_arrays

BLOCK = 20  # rounds between two saves


def pack(federation: Federation) -> dict[str, AnyArray]:
    """All states as one flat mapping of arrays."""
    arrays = {f"coordinator|{name}": a for name, a in to_arrays(federation.coordinator).items()}
    for site, state in federation.sites.items():
        arrays |= {f"site|{site}|{name}": a for name, a in to_arrays(state).items()}
    return arrays


def unpack(arrays: Arrays, sites: Mapping[str, Site]) -> Federation:
    """The federation restored to the last bit."""
    owned: dict[str, dict[str, AnyArray]] = {name: {} for name in sites}
    central: dict[str, AnyArray] = {}
    for key, array in arrays.items():
        kind, _, rest = key.partition("|")
        if kind == "coordinator":
            central[rest] = array
        elif kind == "site":
            site, _, name = rest.partition("|")
            owned[site][name] = array
    return Federation(
        from_arrays(CoordinatorState, central),
        {name: from_arrays(SiteState, own) for name, own in owned.items()},
    )


def run_in_pieces(coordinator: Coordinator, sites: Mapping[str, Site], key: str) -> Federation:
    """Run a study to its end; blocks that are already stored are not run again.

    If it stops early, the blocks up to there are kept, and the next attempt continues from them.
    """
    federation = begin(sites)
    block = 0
    while federation.coordinator.status == RUNNING:
        now = federation

        def further(now: Federation = now) -> dict[str, AnyArray]:
            later = run(coordinator, sites, now, rounds=BLOCK)
            state = later.coordinator
            if state.status == UNWILLING:
                raise DataError(state.reason)
            if state.status == STOPPED:
                raise NotConvergedError(state.reason)
            return pack(later)

        federation = unpack(piece(f"{key}-rounds-{block}", further), sites)
        block += 1
    return federation
