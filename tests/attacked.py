"""A study under attack: sites as they would run at hospitals, and a coordinator that signs what it likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polydag import GaussianStats
from polydag.federated import Message, Site
from polydag.federated.methods.statistics.moments import Moments
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.protocol import coordinator_masking as masked
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.messages import ASK, COORDINATOR, JOIN, REFUSED, ROSTER
from polydag.federated.protocol.programs import Local
from polydag.federated.protocol.reasons import REASONS
from polydag.federated.protocol.site import SiteState
from polydag.federated.protocol.site_protection import SiteProtection
from polydag.privacy import ledger
from polydag.privacy.ledger import Entry
from polydag.privacy.masking.identities import Identity
from polydag.privacy.policy import Policy

D = 3
NAMES = tuple(f"x{i}" for i in range(D))
IDENTITIES = {name: Identity() for name in (COORDINATOR, *(f"site {k}" for k in range(9)))}
DIRECTORY = {name: identity.public for name, identity in IDENTITIES.items()}


def rows(k: int, n: int = 40) -> np.ndarray:
    return np.random.default_rng(k).normal(size=(n, D)) + k


def party(k: int, n: int = 40) -> LinearParty:
    return LinearParty(GaussianStats.from_data(rows(k, n), names=NAMES))


def site(name: str, local: Local, earlier: Sequence[Any] = (), **allowed: Any) -> Site:
    policy = Policy(DIRECTORY, **allowed)
    return Site(local, protection=SiteProtection(IDENTITIES[name], policy, tuple(earlier)))


def sites_of(n: int, **allowed: Any) -> dict[str, Site]:
    return {f"site {k}": site(f"site {k}", party(k), **allowed) for k in range(n)}


FIRST = Moments(NAMES).begin()[1]


class Attack:
    """A dishonest coordinator: it sends what it likes, with its signature, and sees every answer."""

    def __init__(self, sites: Mapping[str, Site], **settings: Any) -> None:
        self.sites = dict(sites)
        self.states = {name: SiteState(name) for name in sites}
        self.masking = Masking(identity=IDENTITIES[COORDINATOR], directory=DIRECTORY, **settings)
        self.memory: Any = {}

    def send(self, recipient: str, round_: int, phase: str, arrays: Any = None, **meta: Any) -> Message:
        message = Message(COORDINATOR, recipient, round_, phase, arrays or {}, meta)
        return self.forward(self.masking.signed([message])[0])

    def forward(self, message: Message) -> Message:
        name = message.recipient
        self.states[name], (reply,) = self.sites[name].step(self.states[name], [message])
        return reply

    def join(self, *, recover: bool = False, round_: int = 1, **change: Any) -> dict[str, Message]:
        """Keys are exchanged as they should be; `change` alters the agreement."""
        self.memory = masked.begin(self.masking, tuple(self.sites), recover=recover)
        self.memory = {**self.memory, "agreement": {**self.memory["agreement"], **change}}
        replies = {}
        for phase in (JOIN, ROSTER):
            for name in self.sites:
                arrays, meta = masked.question(self.memory, phase, round_, tuple(self.sites), name)
                replies[name] = self.send(name, round_, phase, arrays, **meta)
            if any(reply.phase == REFUSED for reply in replies.values()):
                return replies
            received = {name: reply.arrays for name, reply in replies.items()}
            self.memory, following = masked.after_phase(self.memory, phase, round_, received)
        if recover:
            for name in self.sites:
                arrays, meta = masked.question(self.memory, following, round_, tuple(self.sites), name)
                self.send(name, round_, following, arrays, **meta)
            self.memory = {**self.memory, "ready": list(self.sites)}
        return replies

    def ask(self, recipient: str, round_: int = 1, over: Any = None, **changes: Any) -> Message:
        """Ask a site for its moments; `changes` alter the words or the arrays of the question."""
        arrays = {name: changes.pop(name) for name in list(changes) if isinstance(changes[name], np.ndarray)}
        meta = {
            **FIRST.meta,
            "task": FIRST.task,
            "over": list(self.sites) if over is None else over,
            "study": self.memory["agreement"]["study"],
            "before": self.memory["before"],
            **changes,
        }
        return self.send(recipient, round_, ASK, {**FIRST.arrays, **arrays}, **meta)

    def reasons(self, name: str) -> str:
        return " ".join(self.states[name].refusals)


def remembered(attack: Attack, name: str, before: Sequence[Entry] = ()) -> tuple[Entry, ...]:
    """The ledger of a site after an attack, as it would be on its disk."""
    last = before[-1].hash if before else ledger.START
    return (*before, *ledger.parse(ledger.sealed(attack.states[name].ledger, last)))


def is_constant_refusal(message: Message) -> bool:
    """Whether a message says no more than that a question was refused."""
    return message.phase == REFUSED and not message.arrays and set(message.meta) <= {"signature"}


def is_refusal_to_join(message: Message, reason: str | None = None) -> bool:
    """Whether a message says no more than that, and for which reason of the list, a site does not join."""
    plain = not message.arrays and set(message.meta) <= {"signature", "reason"}
    expected = REASONS if reason is None else (reason,)
    return message.phase == REFUSED and plain and message.meta.get("reason") in expected
