"""The coordinator's phases of a masked sum: its questions, its memory, and the sum itself.

A study begins with `JOIN` (every site sends a signed key) and `ROSTER` (all keys are sent to all sites).
Where sums must survive drop-outs, secrets are distributed for a block of rounds (`ROSTER` or `DEAL`, then
`PARCELS`). When the numbers of a round have arrived, the sites `OPEN` the sum; if a site is missing, they
first sign the list of those in it (`AGREE`). Where a method needs every site, only numbers are sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag.federated.protocol.messages import (
    AGREE,
    ASK,
    DEAL,
    JOIN,
    OPEN,
    PARCELS,
    ROSTER,
    AnyArray,
    Arrays,
    Message,
    position,
)
from polydag.federated.protocol.programs import Shapes
from polydag.federated.protocol.sums import Contributions, Narrow, SecureSum
from polydag.privacy import differencing
from polydag.privacy.masking import coordinator as coordinator_masks
from polydag.privacy.masking.agreement import BLOCK, MIN_SITES, Agreement
from polydag.privacy.masking.identities import shared_secret, study_key
from polydag.privacy.masking.keystreams import SEED, derive_key, random_bytes
from polydag.privacy.masking.site import KEY, PARCEL, SIGNATURE, block_of, tag

Memory = Mapping[str, Any]
TAG = "tag"


@dataclass(frozen=True)
class Masking:
    """The coordinator's settings; the default quorum is that of `Agreement.default`.

    With `tags`, sites authenticate their messages, so that forged ones are detected. Within one process
    nobody could forge any.
    """

    quorum: int | None = None
    tags: bool = True


def begin(settings: Masking, all_sites: tuple[str, ...], *, recover: bool) -> Memory:
    """The memory before the first message: the agreement, with the name of the study, and a key for tags."""
    agreement = Agreement.default(random_bytes().hex(), all_sites, recover=recover, quorum=settings.quorum)
    agreement.check()
    private, public = study_key()
    key = {"private": np.frombuffer(private, np.uint8), "public": np.frombuffer(public, np.uint8)}
    return {"agreement": agreement.to_json(), "block": -1, "sets": [], "tagging": settings.tags, **key}


def agreement_of(memory: Memory) -> Agreement:
    """The study's agreement."""
    return Agreement.from_json(memory["agreement"])


def first_phase(memory: Memory, round_: int) -> str:
    """The first phase of a round."""
    if "keys" not in memory:
        return JOIN
    return DEAL if memory["agreement"]["recover"] and block_of(round_) != memory["block"] else ASK


def asked_in(memory: Memory, phase: str, over: tuple[str, ...]) -> tuple[str, ...]:
    """The sites that are asked in a phase."""
    if phase == PARCELS:
        return tuple(memory["parcels"])
    if phase in (AGREE, OPEN):
        return tuple(memory["ready"])
    return over if phase == ASK else tuple(memory["agreement"]["all_sites"])


def question(
    memory: Memory, phase: str, round_: int, over: tuple[str, ...], site: str
) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and words of the question to a site in a phase."""
    all_sites = memory["agreement"]["all_sites"]
    if phase == JOIN:
        return {"key": memory["public"]}, {"agreement": memory["agreement"], "tags": memory["tagging"]}
    if phase == ROSTER:
        return {"keys": memory["keys"], "signatures": memory["signatures"]}, {"block": block_of(round_)}
    if phase == DEAL:
        return {}, {"block": block_of(round_)}
    if phase == PARCELS:
        senders = [sender for sender in memory["parcels"] if sender != site]
        place = {name: number for number, name in enumerate(all_sites)}
        # A sender has one parcel for each other site, in their order.
        own = [memory["parcels"][sender][place[site] - (place[sender] < place[site])] for sender in senders]
        return {"parcels": np.array(own)}, {"senders": senders}
    meta: dict[str, Any] = {"over": list(over), "list": memory["list"]}
    if phase == OPEN:
        meta["signed"] = {name: value.tobytes().hex() for name, value in memory["signed"].items()}
    return {}, meta


def after_phase(memory: Memory, phase: str, round_: int, received: Contributions) -> tuple[Memory, str]:
    """The memory after a phase that precedes the numbers, and the phase that follows."""
    agreement = agreement_of(memory)
    if phase == JOIN:
        private = memory["private"].tobytes()
        tags = {
            site: np.frombuffer(
                derive_key(
                    shared_secret(private, received[site]["key"].tobytes()), agreement.study, site, "tags"
                ),
                dtype=np.uint8,
            )
            for site in (agreement.all_sites if memory["tagging"] else ())
        }
        keys = np.array([received[site]["key"] for site in agreement.all_sites])
        signatures = np.array([received[site]["signature"] for site in agreement.all_sites])
        return {**memory, "keys": keys, "signatures": signatures, "tags": tags}, ROSTER
    if phase in (ROSTER, DEAL):
        if not agreement.recover:
            return memory, ASK
        parcels = {site: received[site]["parcels"] for site in agreement.all_sites if site in received}
        locked = {site: received[site]["locked"] for site in parcels}
        return {**memory, "parcels": parcels, "locked": locked, "block": block_of(round_)}, PARCELS
    if phase == PARCELS:
        ready = [site for site in agreement.all_sites if site in received]
        return {**memory, "ready": ready, "parcels": {}}, ASK
    signed = {site: arrays["signature"] for site, arrays in received.items()}  # AGREE
    return {**memory, "signed": signed}, OPEN


def expected(
    memory: Memory, phase: str, over: Sequence[str], plain: Shapes, narrow: Narrow
) -> dict[str, tuple[int, ...]]:
    """The shapes of a reply in a phase; `plain` are the shapes of the numbers before masking."""
    others = len(memory["agreement"]["all_sites"]) - 1
    if phase == ASK:
        secure = SecureSum(others + 1, narrow)
        return {name: (secure.ring(name).limbs, *shape) for name, shape in plain.items()}
    if phase in (ROSTER, DEAL) and memory["agreement"]["recover"]:
        return {"parcels": (others, PARCEL), "locked": (BLOCK, others * SEED)}
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        JOIN: {"key": (KEY,), "signature": (SIGNATURE,)},
        AGREE: {"signature": (SIGNATURE,)},
        OPEN: {"shares": (len(over), SEED // 2)},
    }
    return shapes.get(phase, {})


def allowed(memory: Memory, present: Sequence[str]) -> tuple[str, ...]:
    """The sites among those present that may be summed over, by the rule against differencing."""
    all_sites = memory["agreement"]["all_sites"]
    there = [site for site in all_sites if site in set(present)]
    found = differencing.complete_groups(memory["sets"], there, differencing.groups(all_sites))
    return found if len(found) >= MIN_SITES else ()


def listed(memory: Memory, over: tuple[str, ...], received: Contributions) -> tuple[Memory, str]:
    """The memory with the list of sites in the sum, empty where there are too few, and the next phase."""
    present = [site for site in over if site in received]
    sites = list(over) if len(present) == len(over) else list(allowed(memory, present))
    memory = {**memory, "list": sites, "numbers": dict(received), "signed": {}}
    return memory, OPEN if sites == list(over) else AGREE


def summed(
    memory: Memory, round_: int, over: tuple[str, ...], received: Contributions, narrow: Narrow
) -> tuple[Memory, dict[str, AnyArray]]:
    """The sum in plain numbers, and a memory without the contributions to it."""
    agreement = agreement_of(memory)
    sites = memory["list"] if agreement.recover else list(over)
    numbers = memory["numbers"] if agreement.recover else received
    secure = SecureSum(len(agreement.all_sites), narrow)
    total = coordinator_masks.add_masked([numbers[site] for site in sites])
    if agreement.recover:
        parts, total = secure.joined(total)
        shares = {site: arrays["shares"] for site, arrays in received.items()}
        coordinator_masks.unmask(parts, agreement, round_, over, sites, shares, memory["locked"])
    sets = memory["sets"] if sites in memory["sets"] else [*memory["sets"], sites]
    memory = {**memory, "sets": sets, "numbers": {}, "list": [], "signed": {}}
    return memory, secure.decode(total)


def tag_texts(message: Message) -> list[Any]:
    """What a tag authenticates: all of a message except the tag."""
    shapes = [(name, array.dtype.str, array.shape) for name, array in message.arrays.items()]
    meta = sorted((name, value) for name, value in message.meta.items() if name != TAG)
    head = repr((message.sender, message.recipient, message.round, message.phase, shapes, meta))
    flat = (np.ascontiguousarray(array).reshape(-1) for array in message.arrays.values())
    return [head.encode(), *(array.view(np.uint8).data for array in flat)]


def tagged(message: Message, key: bytes, question_phase: str) -> str:
    """The tag of a site's reply."""
    return tag(key, position(message.round, question_phase), tag_texts(message)).hex()


def objection(memory: Memory, message: Message, phase: str) -> str | None:
    """Why the coordinator does not believe that a message comes from its sender."""
    if phase == JOIN or not memory["tagging"]:
        return None  # the other sites, which know the identities, check its signature
    expected = tagged(message, memory["tags"][message.sender].tobytes(), phase)
    return None if message.meta.get(TAG) == expected else "its tag does not fit: it was forged or changed"
