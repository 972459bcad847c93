"""The coordinator's phases of a masked sum: what it asks, what it remembers, and the sum itself.

A study begins with `JOIN` (everyone's signed key) and `ROSTER` (all keys to all). Where drop-outs are to be
recovered, secrets are shared out for a block of rounds (`ROSTER` or `DEAL`, then `PARCELS`), and after a
round's numbers have come in, sites `OPEN` the sum, having first signed the list of those in it (`AGREE`)
where someone is missing. Where a method needs every site, numbers are all that is sent.
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
    Array,
    Arrays,
    Message,
    position,
)
from polydag.federated.protocol.programs import Shapes
from polydag.federated.protocol.sums import Contributions, Narrow, SecureSum
from polydag.privacy import differencing as rules
from polydag.privacy.masking import coordinator as opening
from polydag.privacy.masking.agreement import BLOCK, LEAST, Terms
from polydag.privacy.masking.identities import shared_secret, study_key
from polydag.privacy.masking.keystreams import SEED, derive, fresh
from polydag.privacy.masking.site import KEY, PARCEL, SIGNATURE, block_of, tag

Memory = Mapping[str, Any]
TAG = "tag"


@dataclass(frozen=True)
class Masking:
    """The coordinator's settings; the defaults are those of `Terms.usual`.

    With `tags`, sites mark their messages, so that forged ones are found out; within one process there is no
    way on which anyone could forge.
    """

    threshold: int | None = None
    tags: bool = True


def begin(settings: Masking, members: tuple[str, ...], *, recover: bool) -> Memory:
    """The state before the first message: a study's name, its terms, a key for tags."""
    terms = Terms.usual(fresh().hex(), members, recover=recover, threshold=settings.threshold)
    terms.require_sound()
    private, public = study_key()
    key = {"private": np.frombuffer(private, np.uint8), "public": np.frombuffer(public, np.uint8)}
    return {"terms": terms.as_words(), "block": -1, "sets": [], "marks": settings.tags, **key}


def terms_of(memory: Memory) -> Terms:
    """The study's terms."""
    return Terms.from_words(memory["terms"])


def first_phase(memory: Memory, round_: int) -> str:
    """What a round begins with."""
    if "keys" not in memory:
        return JOIN
    return DEAL if memory["terms"]["recover"] and block_of(round_) != memory["block"] else ASK


def asked_in(memory: Memory, phase: str, over: tuple[str, ...]) -> tuple[str, ...]:
    """Whom a phase's question goes to."""
    if phase == PARCELS:
        return tuple(memory["parcels"])
    if phase in (AGREE, OPEN):
        return tuple(memory["ready"])
    return over if phase == ASK else tuple(memory["terms"]["members"])


def question(
    memory: Memory, phase: str, round_: int, over: tuple[str, ...], site: str
) -> tuple[Arrays, dict[str, Any]]:
    """What a site is told in a phase."""
    members = memory["terms"]["members"]
    if phase == JOIN:
        return {"key": memory["public"]}, {"terms": memory["terms"], "tags": memory["marks"]}
    if phase == ROSTER:
        return {"keys": memory["keys"], "signatures": memory["signatures"]}, {"block": block_of(round_)}
    if phase == DEAL:
        return {}, {"block": block_of(round_)}
    if phase == PARCELS:
        senders = [sender for sender in memory["parcels"] if sender != site]
        place = {member: number for number, member in enumerate(members)}
        # A sender has a parcel for each of the others, in their order.
        own = [memory["parcels"][sender][place[site] - (place[sender] < place[site])] for sender in senders]
        return {"parcels": np.array(own)}, {"senders": senders}
    meta: dict[str, Any] = {"over": list(over), "list": memory["list"]}
    if phase == OPEN:
        meta["signed"] = {name: value.tobytes().hex() for name, value in memory["signed"].items()}
    return {}, meta


def learned(memory: Memory, phase: str, round_: int, received: Contributions) -> tuple[Memory, str]:
    """What a finished phase before the numbers leaves behind, and the phase that follows."""
    terms = terms_of(memory)
    if phase == JOIN:
        private = memory["private"].tobytes()
        tags = {
            site: np.frombuffer(
                derive(shared_secret(private, received[site]["key"].tobytes()), terms.study, site, "tags"),
                dtype=np.uint8,
            )
            for site in (terms.members if memory["marks"] else ())
        }
        keys = np.array([received[site]["key"] for site in terms.members])
        signatures = np.array([received[site]["signature"] for site in terms.members])
        return {**memory, "keys": keys, "signatures": signatures, "tags": tags}, ROSTER
    if phase in (ROSTER, DEAL):
        if not terms.recover:
            return memory, ASK
        parcels = {site: received[site]["parcels"] for site in terms.members if site in received}
        locked = {site: received[site]["locked"] for site in parcels}
        return {**memory, "parcels": parcels, "locked": locked, "block": block_of(round_)}, PARCELS
    if phase == PARCELS:
        ready = [site for site in terms.members if site in received]
        return {**memory, "ready": ready, "parcels": {}}, ASK
    signed = {site: arrays["signature"] for site, arrays in received.items()}  # AGREE
    return {**memory, "signed": signed}, OPEN


def expected(
    memory: Memory, phase: str, over: Sequence[str], plain: Shapes, narrow: Narrow
) -> dict[str, tuple[int, ...]]:
    """What a reply in a phase consists of; `plain` are the shapes of the numbers before masking."""
    others = len(memory["terms"]["members"]) - 1
    if phase == ASK:
        secure = SecureSum(others + 1, narrow)
        return {name: (secure.ring(name).limbs, *shape) for name, shape in plain.items()}
    if phase in (ROSTER, DEAL) and memory["terms"]["recover"]:
        return {"parcels": (others, PARCEL), "locked": (BLOCK, others * SEED)}
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        JOIN: {"key": (KEY,), "signature": (SIGNATURE,)},
        AGREE: {"signature": (SIGNATURE,)},
        OPEN: {"shares": (len(over), SEED // 2)},
    }
    return shapes.get(phase, {})


def allowed(memory: Memory, present: Sequence[str]) -> tuple[str, ...]:
    """The sites of those present that may be summed over, by the rule against differencing."""
    members = memory["terms"]["members"]
    there = [site for site in members if site in set(present)]
    found = rules.complete(memory["sets"], there, rules.groups(members))
    return found if len(found) >= LEAST else ()


def listed(memory: Memory, over: tuple[str, ...], received: Contributions) -> tuple[Memory, str]:
    """The list of those in the sum, after the numbers have come in; an empty one where there are too few."""
    present = [site for site in over if site in received]
    sites = list(over) if len(present) == len(over) else list(allowed(memory, present))
    memory = {**memory, "list": sites, "numbers": dict(received), "signed": {}}
    return memory, OPEN if sites == list(over) else AGREE


def summed(
    memory: Memory, round_: int, over: tuple[str, ...], received: Contributions, narrow: Narrow
) -> tuple[Memory, dict[str, Array]]:
    """The sum in plain numbers, and a state that has forgotten how it came about."""
    terms = terms_of(memory)
    sites = memory["list"] if terms.recover else list(over)
    numbers = memory["numbers"] if terms.recover else received
    secure = SecureSum(len(terms.members), narrow)
    total = opening.added([numbers[site] for site in sites])
    if terms.recover:
        parts, total = secure.joined(total)
        shares = {site: arrays["shares"] for site, arrays in received.items()}
        opening.unmask(parts, terms, round_, over, sites, shares, memory["locked"])
    sets = memory["sets"] if sites in memory["sets"] else [*memory["sets"], sites]
    memory = {**memory, "sets": sets, "numbers": {}, "list": [], "signed": {}}
    return memory, secure.decode(total)


def tag_texts(message: Message) -> list[Any]:
    """What a tag is put under: all of a message but the tag."""
    shapes = [(name, array.dtype.str, array.shape) for name, array in message.arrays.items()]
    meta = sorted((name, value) for name, value in message.meta.items() if name != TAG)
    head = repr((message.sender, message.recipient, message.round, message.phase, shapes, meta))
    flat = (np.ascontiguousarray(array).reshape(-1) for array in message.arrays.values())
    return [head.encode(), *(array.view(np.uint8).data for array in flat)]


def tagged(message: Message, key: bytes, question_phase: str) -> str:
    """The tag of a site's reply."""
    return tag(key, position(message.round, question_phase), tag_texts(message)).hex()


def objection(memory: Memory, message: Message, phase: str) -> str | None:
    """Why the coordinator does not believe that a message is from its sender."""
    if phase == JOIN or not memory["marks"]:
        return None  # its signature is checked by the other sites, who know the identities
    expected = tagged(message, memory["tags"][message.sender].tobytes(), phase)
    return None if message.meta.get(TAG) == expected else "its tag does not fit: it is forged or was changed"
