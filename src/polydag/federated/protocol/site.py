"""A site, the program that runs at a party, as a pure state machine.

Its state must be saved before its messages are sent: what a site sends again is what it has stored, never
something new under the same masks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from polydag.errors import DataError
from polydag.federated.protocol.disclosure import Noise
from polydag.federated.protocol.messages import (
    ANSWER,
    ASK,
    COORDINATOR,
    DECLINED,
    ORDER,
    REFUSED,
    Arrays,
    Message,
    position,
    reply_to,
)
from polydag.federated.protocol.programs import Ask, Local
from polydag.federated.protocol.site_protection import SiteProtection, ledger_after, with_tag
from polydag.privacy.ledger import START


@dataclass(frozen=True, eq=False)
class SiteState:
    """All that a site keeps.

    Attributes
    ----------
    name : str
        The site.
    round, phase, sent, sent_meta
        The last question that it answered, and its reply.
    notes : tuple of str
        What its owner should know.
    ledger : tuple of str
        Everything that left it, as lines.
    local : mapping
        The method's own state.
    masking : mapping
        Its secrets for masked sums.
    """

    name: str
    round: int = 0
    phase: str = ANSWER
    notes: tuple[str, ...] = ()
    ledger: tuple[str, ...] = ()
    sent: Arrays = field(default_factory=dict)
    sent_meta: Mapping[str, Any] = field(default_factory=dict)
    local: Arrays = field(default_factory=dict)
    masking: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """Answers the coordinator's questions.

    Parameters
    ----------
    local : Local
        The party's side of the method, with its data.
    min_rows : int
        With fewer rows the site declines. The default suits an organisation of its own; where all rows are in
        one process, no minimum is needed.
    protection : SiteProtection, optional
        With it, numbers leave under masks only.
    last_hash : str
        The hash from which its ledger continues.
    """

    local: Local
    min_rows: int = 10
    protection: SiteProtection | None = None
    last_hash: str = START

    def start(self, name: str) -> SiteState:
        """The state before the first question."""
        return SiteState(name)

    def step(self, state: SiteState, inbox: Iterable[Message]) -> tuple[SiteState, list[Message]]:
        """Answer each question once; a repeated question gets the stored answer, never a new one."""
        outbox: list[Message] = []
        for message in inbox:
            state, reply = self._take(state, message)
            outbox += [] if reply is None else [reply]
        return state, outbox

    def _take(self, state: SiteState, message: Message) -> tuple[SiteState, Message | None]:
        if message.phase == REFUSED and message.sender == COORDINATOR:
            why = f"The coordinator refused an answer: {message.meta.get('why', '')}"
            return dataclasses.replace(state, notes=(*state.notes, why)), None
        if message.sender != COORDINATOR or message.phase not in ORDER:
            why = "a site takes questions from the coordinator only"
            return state, Message(state.name, message.sender, message.round, REFUSED, meta={"why": why})
        now, last = position(message.round, message.phase), position(state.round, state.phase)
        if now <= last:
            return state, self._again(state) if now == last and message.phase != ANSWER else None
        if message.phase == ANSWER:
            state = self._with_notes(state, message)
            return dataclasses.replace(state, round=message.round, phase=ANSWER, sent={}, sent_meta={}), None
        try:
            if problem := self._objection(state, message):
                return state, _refusal(state, message, REFUSED, problem)
            return self._answer(self._with_notes(state, message), message)
        except DataError as error:
            return state, _refusal(state, message, DECLINED, str(error))

    def _with_notes(self, state: SiteState, message: Message) -> SiteState:
        if message.phase not in (ASK, ANSWER):
            return state
        notes = dict.fromkeys((*state.notes, *self.local.notes(state.local, message.arrays)))
        return dataclasses.replace(state, notes=tuple(notes))

    def _objection(self, state: SiteState, message: Message) -> str | None:
        """Why a question cannot be answered as it arrived; a damaged one must not enter the state."""
        if message.phase == ASK:
            return self.local.objection(state.local, self._asked(state, message))
        return None if self.protection is None else self.protection.objection(message)

    def _again(self, state: SiteState) -> Message:
        phase = reply_to(state.phase)
        return Message(state.name, COORDINATOR, state.round, phase, state.sent, state.sent_meta)

    def _answer(self, state: SiteState, message: Message) -> tuple[SiteState, Message]:
        local, memory, noise = state.local, state.masking, Noise()
        if message.phase == ASK:
            ask = self._asked(state, message)
            if (added_noise := getattr(self.local, "noise", None)) is not None:
                noise = added_noise(ask)
            if self.protection is not None:
                memory = self.protection.spend(memory, message, noise)
            local, sent = self.local.answer(state.local, ask)
            if self.protection is not None:
                memory, sent = self.protection.mask(memory, message, sent, self.local.names)
        elif self.protection is None:
            raise DataError("It adds up in the open, and the coordinator asks for masked sums.")
        else:
            memory, sent = self.protection.prepare(memory, state.name, message)
        reply = Message(state.name, COORDINATOR, message.round, reply_to(message.phase), sent)
        reply = with_tag(memory, reply, message.phase)
        over = len(message.meta.get("over", ())) or 1
        ledger = ledger_after(
            state.ledger, state.masking, memory, reply, message.phase, noise, over, self.last_hash
        )
        state = dataclasses.replace(
            state, round=message.round, phase=message.phase, local=local, sent=sent, sent_meta=reply.meta,
            masking=memory, ledger=ledger,
        )  # fmt: skip
        return state, reply

    def _asked(self, state: SiteState, message: Message) -> Ask:
        if self.local.n_rows < self.min_rows:
            raise DataError(
                f"It has {self.local.n_rows:g} rows; its owner asks for at least {self.min_rows} (min_rows)."
            )
        meta = {name: value for name, value in message.meta.items() if name != "task"}
        if self.protection is not None and state.masking and hasattr(self.local, "noise"):
            meta["honest"] = self.protection.honest(state.masking)
        return Ask(str(message.meta.get("task", "")), message.arrays, meta)


def _refusal(state: SiteState, message: Message, phase: str, why: str) -> Message:
    reply = Message(state.name, COORDINATOR, message.round, phase, meta={"why": why})
    return with_tag(state.masking, reply, message.phase)
