"""A federation under malformed messages and damaged saved states: refusals, and errors of ours only."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import cases, mutated, survives

from polydag import GaussianStats, simulate
from polydag.errors import DataError
from polydag.federated import Coordinator, Message, Site, run
from polydag.federated.methods.statistics.moments import Moments
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.protocol.coordinator import CoordinatorState
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.messages import COORDINATOR, ORDER, REFUSED, TIMEOUT
from polydag.federated.protocol.site import SiteState
from polydag.federated.protocol.site_protection import SiteProtection
from polydag.federated.protocol.storage.states import load, save
from polydag.privacy.masking.identities import Identity
from polydag.privacy.policy import Policy

NAMES = tuple(f"x{i}" for i in range(3))
PARTIES = [f"site {k}" for k in range(4)]
IDENTITIES = {name: Identity() for name in (COORDINATOR, *PARTIES)}
DIRECTORY = {name: identity.public for name, identity in IDENTITIES.items()}
MASKING = Masking(identity=IDENTITIES[COORDINATOR], directory=DIRECTORY)
WORDS: list[Any] = [
    *(None, True, -1, 0, 1e300, float("nan"), "", "x" * 1000, [], ["a", 3], {}, {"a": {"b": 1}}),
    *(2**80, "site 1", b"bytes", [[[]]]),
]


def masked() -> tuple[Coordinator, dict[str, Site]]:
    dag = simulate.dag(3, n_edges=2, random_state=0)
    policy = Policy(DIRECTORY)
    sites = {
        name: Site(
            LinearParty(GaussianStats.from_data(simulate.linear(dag, n=30, random_state=k))),
            protection=SiteProtection(IDENTITIES[name], policy),
        )
        for k, name in enumerate(PARTIES)
    }
    return Coordinator(Moments(NAMES), masking=MASKING), sites


def in_the_open() -> tuple[Coordinator, dict[str, Site]]:
    _, sites = masked()
    return Coordinator(Moments(NAMES)), {name: Site(site.local) for name, site in sites.items()}


def any_array(rng: np.random.Generator) -> np.ndarray:
    """An array of any shape and type."""
    shape = tuple(int(side) for side in rng.integers(0, 4, size=int(rng.integers(0, 4))))
    numbers = rng.normal(size=shape) * 10.0 ** float(rng.integers(-9, 300))
    return np.asarray(numbers).astype(str(rng.choice(["f8", "c16", "U3", "?", "O"])))


def distorted(message: Message, rng: np.random.Generator) -> Message:
    """The message with one part that nobody would send."""
    meta, arrays = dict(message.meta), dict(message.arrays)
    match int(rng.integers(8)):
        case 0 if meta:
            meta[str(rng.choice(list(meta)))] = WORDS[int(rng.integers(len(WORDS)))]
        case 1 if meta:
            del meta[str(rng.choice(list(meta)))]
        case 2 if arrays:
            arrays[str(rng.choice(list(arrays)))] = any_array(rng)
        case 3 if arrays:
            del arrays[str(rng.choice(list(arrays)))]
        case 4:
            arrays[f"array {rng.integers(9)}"] = any_array(rng)
        case 5:
            phase = str(rng.choice([*ORDER, "contribution", "declined", REFUSED, TIMEOUT, "nonsense", ""]))
            return dataclasses.replace(message, phase=phase)
        case 6:
            return dataclasses.replace(message, round=int(rng.choice([-1, 0, 1, 2, 3, 10**6])))
        case 7:
            sender = str(rng.choice([*PARTIES, COORDINATOR, "stranger", ""]))
            return dataclasses.replace(message, sender=sender)
    return dataclasses.replace(message, meta=meta, arrays=arrays)


@pytest.mark.parametrize("federation", [in_the_open, masked])
@pytest.mark.filterwarnings("error")
def test_malformed_messages_in_every_phase(federation: Callable[[], Any]) -> None:
    coordinator, sites = federation()
    coordinator = dataclasses.replace(coordinator, patience=2)
    for seed, rng in cases(60):

        def carry(message: Message, rng: np.random.Generator = rng) -> list[Message]:
            if rng.random() > 0.15:
                return [message]
            changed = distorted(message, rng)
            if changed.sender == COORDINATOR and rng.random() < 0.7:  # a dishonest coordinator signs it, too
                try:
                    return MASKING.signed([changed])
                except (TypeError, ValueError):  # what cannot be JSON cannot be sent
                    return [message]
            return [changed]

        survives(lambda carry=carry: run(coordinator, sites, carry=carry), seed)


@pytest.mark.parametrize("federation", [in_the_open, masked])
def test_damaged_states_are_refused_by_name(tmp_path: Path, federation: Callable[[], Any]) -> None:
    end = run(*federation())
    path = tmp_path / "state"
    for kind, state in ((CoordinatorState, end.coordinator), (SiteState, end.sites["site 0"])):
        save(state, path)
        whole = path.read_bytes()
        for seed, rng in cases(150):
            damaged = mutated(whole, rng)
            path.write_bytes(damaged)
            if damaged != whole:
                with pytest.raises(DataError, match="state"):
                    load(kind, path)
            assert seed >= 0
