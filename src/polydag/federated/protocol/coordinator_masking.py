"""The coordinator's phases of a masked sum: its questions, its memory, and the sum itself.

A study begins with `JOIN` (every site sends a signed key) and `ROSTER` (all keys are sent to all sites).
Where sums must survive drop-outs, secrets are distributed for a block of rounds (`ROSTER` or `DEAL`, then
`PARCELS`). When the numbers of a round have arrived, the sites `OPEN` the sum; if a site is missing, they
first sign the list of those in it (`AGREE`). Where a method needs every site, only numbers are sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polydag.errors import DataError
from polydag.federated.protocol.messages import (
    AGREE,
    ASK,
    DEAL,
    EXCHANGE,
    JOIN,
    OPEN,
    PARCELS,
    ROSTER,
    SIGNATURE,
    AnyArray,
    Arrays,
    Message,
)
from polydag.federated.protocol.programs import Shapes
from polydag.federated.protocol.sums import PADS, Contributions, Narrow, SecureSum
from polydag.privacy import differencing
from polydag.privacy.masking.agreement import BLOCK, Agreement
from polydag.privacy.masking.coordinator import MaskedRound, add_masked
from polydag.privacy.masking.identities import (
    Channel,
    Directory,
    Identity,
    is_signed,
    is_tagged,
    study_key,
    tag,
)
from polydag.privacy.masking.keystreams import SEED, random_bytes
from polydag.privacy.masking.site import HEAD, KEY, PAD, PARCEL, block_of
from polydag.privacy.masking.site import SIGNATURE as SIGNATURE_BYTES

Memory = Mapping[str, Any]
_JOINED = ("key", "signature", "head")
_CHANNELS = "channels"


@dataclass(frozen=True)
class Masking:
    """The coordinator's settings.

    Attributes
    ----------
    quorum, groups, parts
        Of the agreement; the defaults are those of `Agreement.default`.
    identity, directory
        The coordinator's own identity and the sites' public keys. With them all messages are signed, so that
        forged ones are detected. Within one process nobody could forge any.
    announced : mapping
        What the study will ask, where it is known on joining, so that a site that its owner does not allow to
        take part can say so at once: `tasks`, `columns`, `rounds`, and `plan`, the releases with noise as
        pairs of multiplier and number.
    """

    quorum: int | None = None
    groups: tuple[tuple[str, ...], ...] | None = None
    parts: Mapping[str, tuple[str, ...]] | None = None
    identity: Identity | None = None
    directory: Directory = field(default_factory=dict, repr=False)
    announced: Mapping[str, Any] = field(default_factory=dict)

    def signed(self, messages: Sequence[Message], memory: Memory | None = None) -> list[Message]:
        """Questions with the coordinator's signature; one that goes to several sites is signed once.

        To sites that have joined the study in `memory`, a tag takes the place of the signature.
        """
        if self.identity is None:
            return list(messages)
        channels = {} if memory is None else memory.get(_CHANNELS, {})
        words: dict[bytes, dict[str, Any]] = {}
        found = []
        for message in messages:
            digest = message.digest
            if message.recipient in channels and message.phase != JOIN:
                said = tag(channels[message.recipient][0].tobytes(), digest).hex()
                found.append(message.with_signature(said))
                continue
            if digest not in words:
                words[digest] = {**message.meta, SIGNATURE: self.identity.sign(digest).hex()}
            found.append(replace(message, meta=words[digest]))
        return found

    def objection(self, message: Message, memory: Memory) -> str | None:
        """Why the coordinator does not believe that a message comes from its sender."""
        if self.identity is None:
            return None
        try:
            signature = bytes.fromhex(message.meta.get(SIGNATURE, ""))
        except (TypeError, ValueError):
            signature = b""
        channel = memory.get(_CHANNELS, {}).get(message.sender)
        if channel is not None and is_tagged(channel[1].tobytes(), signature, message.digest):
            return None
        public = self.directory.get(message.sender, b"")
        if is_signed(public, signature, message.digest):
            return None
        return "it is not signed by its sender: it was forged or changed"


def begin(settings: Masking, all_sites: tuple[str, ...], *, recover: bool) -> Memory:
    """The memory before the first message: the agreement, with the name of the study."""
    agreement = Agreement.default(
        random_bytes().hex(),
        all_sites,
        recover=recover,
        quorum=settings.quorum,
        groups=settings.groups,
        parts=settings.parts,
    )
    agreement.check()
    before = {"question": "", "over": []}
    told: dict[str, Any] = {"agreement": agreement.to_json(), "announced": dict(settings.announced)}
    if settings.identity is not None:
        private, public = study_key()
        told |= {"private": np.frombuffer(private, dtype=np.uint8), EXCHANGE: public.hex()}
    return {**told, "block": -1, "before": before, "wrong": []}


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
        exchange = {EXCHANGE: memory[EXCHANGE]} if EXCHANGE in memory else {}
        return {}, {"agreement": memory["agreement"], "announced": memory["announced"], **exchange}
    study = {"study": memory["agreement"]["study"]}
    if phase == ROSTER:
        roster = {name: memory[name] for name in ("keys", "signatures", "heads")}
        return roster, {**study, "block": block_of(round_)}
    if phase == DEAL:
        return {}, {**study, "block": block_of(round_)}
    if phase == PARCELS:
        senders = [sender for sender in memory["parcels"] if sender != site]
        place = {name: number for number, name in enumerate(all_sites)}
        # A sender has one parcel for each other site, in their order.
        own = [memory["parcels"][sender][place[site] - (place[sender] < place[site])] for sender in senders]
        return {"parcels": np.array(own)}, {**study, "senders": senders}
    meta: dict[str, Any] = {
        **study,
        "over": list(over),
        "list": memory["list"],
        "question": memory["question"],
    }
    if phase == OPEN:
        meta["signed"] = {name: value.tobytes().hex() for name, value in memory["signed"].items()}
    return {}, meta


def after_phase(memory: Memory, phase: str, round_: int, received: Contributions) -> tuple[Memory, str]:
    """The memory after a phase that precedes the numbers, and the phase that follows."""
    agreement = agreement_of(memory)
    if phase == JOIN:
        own = {name: [received[site][name] for site in agreement.all_sites] for name in _JOINED}
        roster = {"keys": own["key"], "signatures": own["signature"], "heads": own["head"]}
        memory = {**memory, **{name: np.array(each) for name, each in roster.items()}}
        return {**memory, _CHANNELS: _channels(memory)} if EXCHANGE in memory else memory, ROSTER
    if phase in (ROSTER, DEAL):
        if not agreement.recover:
            return memory, ASK
        parcels = {site: received[site]["parcels"] for site in agreement.all_sites if site in received}
        locked = {site: received[site]["locked"] for site in parcels}
        checks = {site: received[site]["checks"] for site in parcels}
        known = {"parcels": parcels, "locked": locked, "checks": checks, "block": block_of(round_)}
        return {**memory, **known}, PARCELS
    if phase == PARCELS:
        ready = [site for site in agreement.all_sites if site in received]
        return {**memory, "ready": ready, "parcels": {}}, ASK
    signed = {site: arrays["signature"] for site, arrays in received.items()}  # AGREE
    return {**memory, "signed": signed}, OPEN


def _channels(memory: Memory) -> dict[str, AnyArray]:
    """For each site the keys of questions and answers; none for one whose key is not valid."""
    private, agreement = memory["private"].tobytes(), memory["agreement"]
    found = {}
    for site, key in zip(agreement["all_sites"], memory["keys"], strict=True):
        try:
            channel = Channel.of(private, key.tobytes(), agreement["study"], site)
        except DataError:
            continue  # the other sites refuse it
        found[site] = np.array([np.frombuffer(each, dtype=np.uint8) for each in channel])
    return found


def expected(
    memory: Memory, phase: str, over: Sequence[str], plain: Shapes, narrow: Narrow
) -> dict[str, tuple[int, ...]]:
    """The shapes of a reply in a phase; `plain` are the shapes of the numbers before masking."""
    others = len(memory["agreement"]["all_sites"]) - 1
    if phase == ASK:
        secure = SecureSum(others + 1, narrow)
        pads = {PADS: (others, PAD)} if memory["agreement"]["recover"] else {}
        return {name: (secure.ring(name).limbs, *shape) for name, shape in plain.items()} | pads
    if phase in (ROSTER, DEAL) and memory["agreement"]["recover"]:
        return {"parcels": (others, PARCEL), "locked": (BLOCK, others * SEED), "checks": (2, BLOCK, SEED)}
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        JOIN: {"key": (KEY,), "signature": (SIGNATURE_BYTES,), "head": (HEAD,)},
        AGREE: {"signature": (SIGNATURE_BYTES,)},
        OPEN: {"shares": (len(over), SEED // 2)},
    }
    return shapes.get(phase, {})


def allowed(memory: Memory, present: Sequence[str]) -> tuple[str, ...]:
    """The sites among those present that may be summed over, by the rule against differencing."""
    there = [site for site in memory["agreement"]["all_sites"] if site in set(present)]
    return differencing.complete(there, memory["agreement"]["groups"])


def listed(
    memory: Memory, over: tuple[str, ...], received: Contributions, question: bytes
) -> tuple[Memory, str]:
    """The memory with the list of sites in the sum, empty where there are too few, and the next phase."""
    present = [site for site in over if site in received]
    sites = list(over) if len(present) == len(over) else list(allowed(memory, present))
    memory = {**memory, "list": sites, "numbers": dict(received), "signed": {}, "question": question.hex()}
    return memory, OPEN if sites == list(over) else AGREE


def summed(
    memory: Memory,
    round_: int,
    over: tuple[str, ...],
    received: Contributions,
    narrow: Narrow,
    question: bytes,
) -> tuple[Memory, dict[str, AnyArray]]:
    """The sum in plain numbers, and a memory without the contributions to it.

    A site whose share of a secret was wrong is named in the memory, under `wrong`.
    """
    agreement = agreement_of(memory)
    sites = memory["list"] if agreement.recover else list(over)
    numbers = memory["numbers"] if agreement.recover else received
    secure = SecureSum(len(agreement.all_sites), narrow)
    terms = [{name: array for name, array in numbers[site].items() if name != PADS} for site in sites]
    total, wrong = add_masked(terms), list[str]()
    if agreement.recover:
        parts, total = secure.joined(total)
        shares = {site: arrays["shares"] for site, arrays in received.items()}
        pads = {site: numbers[site][PADS] for site in sites}
        masked = MaskedRound(
            agreement, round_, question, over, sites, shares, pads, memory["locked"], memory["checks"]
        )
        wrong = masked.unmask(parts)
    done = {"numbers": {}, "list": [], "signed": {}, "wrong": wrong}
    before = {"question": question.hex(), "over": list(sites) if agreement.recover else []}
    memory = {**memory, **done, "before": before}
    return memory, secure.decode(total)
