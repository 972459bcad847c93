"""A study that survives an interruption: blocks of rounds, each stored as a piece of a checkpoint.

What happened after the last stored block is not known: numbers may have left the sites. So a study that goes
on from stored blocks never uses a mask of before; the sites join again with fresh keys, and the rounds since
then are asked and entered in the ledgers once more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from polydag.computing.checkpoint import piece
from polydag.errors import DataError, NotConvergedError
from polydag.federated.protocol.coordinator import (
    RUNNING,
    STOPPED,
    Coordinator,
    CoordinatorState,
)
from polydag.federated.protocol.engine import Federation, Recorder, begin, run, unrecorded
from polydag.federated.protocol.messages import AnyArray, Arrays
from polydag.federated.protocol.site import Site, SiteState
from polydag.federated.protocol.storage.states import from_arrays, to_arrays

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


def run_in_pieces(
    coordinator: Coordinator, sites: Mapping[str, Site], key: str, record: Recorder = unrecorded
) -> Federation:
    """Run a study to its end; blocks that are already stored are not run again.

    If it stops early, the blocks up to there are kept, and the next attempt continues from them.
    """
    federation = begin(sites)
    block, stored = 0, False
    while federation.coordinator.status == RUNNING:
        now, computed = _renewed(coordinator, federation) if stored else federation, list[bool]()

        def further(now: Federation = now, computed: list[bool] = computed) -> dict[str, AnyArray]:
            computed.append(True)
            later = run(coordinator, sites, now, rounds=BLOCK, record=record)
            if later.coordinator.status == STOPPED:
                raise _stopped(later)
            return pack(later)

        federation = unpack(piece(f"{key}-rounds-{block}", further), sites)
        block, stored = block + 1, not computed
    return federation


def _renewed(coordinator: Coordinator, federation: Federation) -> Federation:
    """A stored study with fresh keys; what is left of a plan for the privacy budget is kept."""
    if coordinator.masking is None:
        return federation
    plans = {
        name: {"plan": state.masking["plan"]} if "plan" in state.masking else {}
        for name, state in federation.sites.items()
    }
    states = {
        name: dataclasses.replace(state, masking=plans[name]) for name, state in federation.sites.items()
    }
    return Federation(coordinator.renewed(federation.coordinator), states)


def _stopped(federation: Federation) -> Exception:
    """Why a study stopped; within one process the reasons that sites keep to themselves are known."""
    for name in federation.coordinator.missing:
        if reasons := federation.sites[name].refusals:
            return DataError(f"{name} does not take part: {reasons[-1]}")
    return NotConvergedError(federation.coordinator.reason)
