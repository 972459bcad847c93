"""A site, the program that runs at a party, as a pure state machine.

Its state must be saved before its messages are sent: what a site sends again is what it has stored, never
something new under the same masks.

Whatever is wrong with a question, the answer is one and the same refusal, without a reason: which questions a
site can answer may depend on its data. The reason is kept at the site for its owner. Under masks a refused
question counts as answered, stands in the ledger, and ends the study at this site, so that refusals cannot be
used to ask again and again. Only a site that does not join, before any question about data, may say why, in
one of the words of `reasons`, and one of them is common to all that depends on the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from polydag.errors import DataError
from polydag.federated.protocol.disclosure import Noise, answer_entries, refusal_entry
from polydag.federated.protocol.messages import (
    ANSWER,
    ASK,
    COORDINATOR,
    JOIN,
    LAST_ROUND,
    ORDER,
    REFUSED,
    Arrays,
    Message,
    message_problem,
    position,
    reply_to,
)
from polydag.federated.protocol.programs import Ask, Local
from polydag.federated.protocol.reasons import REASON, WITHHELD, JoinRefusedError
from polydag.federated.protocol.site_protection import SiteProtection, rows_of_parts, study_of
from polydag.privacy.ledger import text_of

_MOST_REASONS = 100


@dataclass(frozen=True, eq=False)
class SiteState:
    """All that a site keeps.

    Attributes
    ----------
    name : str
        The site.
    round, phase, reply, sent, sent_meta
        The last question that it answered, and its reply.
    closed : bool
        Whether it has refused a question, which ends the study here.
    notes : tuple of str
        What its owner should know.
    refusals : tuple of str
        Why it has refused questions, in words for its owner.
    ledger : tuple of str
        What the ledger has to hold of this study, as lines that are not yet sealed.
    local : mapping
        The method's own state.
    masking : mapping
        Its secrets for masked sums.
    """

    name: str
    round: int = 0
    phase: str = ANSWER
    reply: str = ""
    closed: bool = False
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
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
        With fewer rows the site does not take part, unless all numbers have noise. The default suits an
        organisation of its own; where all rows are in one process, no minimum is needed.
    protection : SiteProtection, optional
        With it, numbers leave under masks only.
    """

    local: Local
    min_rows: int = 10
    protection: SiteProtection | None = None

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
        if why := self._not_a_question(state, message):
            known = type(message.round) is int and 0 <= message.round < LAST_ROUND
            return _with_reason(state, why), _refusal(state.name, message.round if known else 0)
        if message.phase == REFUSED:
            why = f"The coordinator refused an answer: {str(message.meta.get('why', ''))[:200]}"
            return dataclasses.replace(state, notes=(*state.notes, why)[-_MOST_REASONS:]), None
        now, last = position(message.round, message.phase), position(state.round, state.phase)
        if now <= last:
            return state, self._again(state) if now == last and message.phase != ANSWER else None
        if state.closed and message.phase != ANSWER:
            return state, self._signed(state.masking, _refusal(state.name, message.round))
        try:
            if message.phase == ANSWER:
                state = self._with_notes(state, message)
                return dataclasses.replace(
                    state, round=message.round, phase=ANSWER, reply="", sent={}, sent_meta={}
                ), None
            return self._answer(self._with_notes(state, message), message)
        except Exception as error:  # no question may end the program that runs at a hospital
            return self._refuse(state, message, error)

    def _not_a_question(self, state: SiteState, message: Message) -> str | None:
        """Why something that arrived is no question of this study's coordinator; nothing is done about it."""
        most = float("inf") if self.protection is None else self.protection.policy.bytes
        if why := message_problem(message, most):
            return why
        if message.sender != COORDINATOR or message.phase not in (*ORDER, REFUSED):
            return "A site takes questions from the coordinator only."
        if self.protection is not None and not self.protection.is_genuine(message, state.masking):
            return "The question is not signed by the coordinator: it was changed on the way, or is forged."
        return None

    def _with_notes(self, state: SiteState, message: Message) -> SiteState:
        if message.phase not in (ASK, ANSWER):
            return state
        notes = dict.fromkeys((*state.notes, *self.local.notes(state.local, message.arrays)))
        return dataclasses.replace(state, notes=tuple(notes)[-_MOST_REASONS:])

    def _again(self, state: SiteState) -> Message:
        return Message(state.name, COORDINATOR, state.round, state.reply, state.sent, state.sent_meta)

    def _answer(self, state: SiteState, message: Message) -> tuple[SiteState, Message]:
        local, memory, noise = state.local, state.masking, Noise()
        if message.phase == ASK:
            if self.protection is not None:
                self.protection.require_question(memory, message)
            self._require_same_data(memory)
            ask = self._asked(state, message)
            if why := self.local.objection(state.local, ask):
                raise DataError(why)
            if (added_noise := getattr(self.local, "noise", None)) is not None:
                noise = added_noise(ask)
            if self.protection is not None:
                memory = self.protection.spend(memory, message, noise, state.ledger)
            try:
                local, sent = self.local.answer(state.local, ask)
                if self.protection is not None:
                    if noise.multiplier == 0:
                        about = self.protection.require_unsolvable
                        about(memory, {**state.local, **ask.arrays}, sent, self.local, state.ledger)
                    memory, sent = self.protection.mask(memory, message, sent, self.local.names)
            except Exception as error:
                raise _ChargedError(_in_words(error), noise.multiplier) from error
        elif self.protection is None:
            raise DataError("It adds up without masks, and the coordinator asks for masked sums.")
        else:
            memory, sent = self.protection.prepare(memory, state.name, message, self.local)
            if message.phase == JOIN:  # at last: other reasons do not depend on the data
                memory = self._with_data(memory)
        reply = Message(state.name, COORDINATOR, message.round, reply_to(message.phase), sent)
        reply = self._signed(state.masking, reply)
        over = message.meta.get("over")
        entries = (
            [] if self.protection is None else self.protection.memories(state.masking, memory, message.round)
        )
        entries += answer_entries(
            study_of(memory),
            reply,
            message.phase,
            {**state.local, **message.arrays},
            over=len(over) if over else 1,
            noise=noise,
        )
        state = dataclasses.replace(
            state, round=message.round, phase=message.phase, reply=reply.phase, local=local, sent=sent,
            sent_meta=reply.meta, masking=memory, ledger=(*state.ledger, *map(text_of, entries)),
        )  # fmt: skip
        return state, reply

    def _refuse(self, state: SiteState, message: Message, error: Exception) -> tuple[SiteState, Message]:
        """Refuse a genuine question; unless it is to join, the reason stays here."""
        why = _in_words(error)
        state = _with_reason(state, why)
        told = {}
        if message.phase == JOIN and isinstance(error, JoinRefusedError):
            told = {REASON: error.reason}
        known = {} if message.phase == JOIN else state.masking  # keys of this study, if any
        reply = self._signed(known, _refusal(state.name, message.round, told))
        if self.protection is None:  # numbers are seen anyway; a damaged question is asked again
            return state, reply
        multiplier = getattr(error, "multiplier", 0.0)
        entry = refusal_entry(study_of(state.masking), message.round, why, multiplier)
        return dataclasses.replace(
            state, round=message.round, phase=message.phase, reply=REFUSED, sent={}, sent_meta=reply.meta,
            closed=True, ledger=(*state.ledger, text_of(entry)),
        ), reply  # fmt: skip

    def _signed(self, memory: Mapping[str, Any], message: Message) -> Message:
        if self.protection is None or not self.protection.signs:
            return message
        return message.with_signature(self.protection.signature(memory, message.digest))

    @property
    def _noisy(self) -> bool:
        """Whether all numbers leave with noise; then no refusal may depend on the data, which noise hides."""
        return hasattr(self.local, "noise")

    @cached_property
    def _version(self) -> str:
        """The version of the data, which does not change while the program runs."""
        assert self.protection is not None
        return self.protection.version_of(self.local)

    def _with_data(self, memory: Mapping[str, Any]) -> Mapping[str, Any]:
        """The memory of a site that joins with its data; raises where the data are kept back."""
        assert self.protection is not None
        if not self._noisy:
            self.protection.require_data(memory, self.local, self._version)
            if why := self._too_few():
                raise JoinRefusedError(WITHHELD, why)
        return {**memory, "version": self._version}

    def _require_same_data(self, memory: Mapping[str, Any]) -> None:
        """Raise where the data are no longer those with which the site has joined, or are too few."""
        if self._noisy:
            return
        if why := self._too_few():
            raise DataError(why)
        if self.protection is not None and memory["version"] != self._version:
            raise DataError(
                "Its data has changed since it joined the study: sums before and after would show the rows "
                "in which they differ. Use the data as they were, or start a new study."
            )

    def _too_few(self) -> str | None:
        least = self.min_rows
        if self.protection is not None:
            least = max(least, self.protection.policy.min_rows)
        parts = rows_of_parts(self.local)
        part = min(parts, key=lambda own: parts[own])
        if parts[part] >= least:
            return None
        where = f" in which {part or 'nothing'} was set" if len(parts) > 1 else ""
        return f"It has {parts[part]:g} rows{where}; its owner asks for at least {least} (min_rows)."

    def _asked(self, state: SiteState, message: Message) -> Ask:
        meta = {name: value for name, value in message.meta.items() if name != "task"}
        if self.protection is not None and state.masking and hasattr(self.local, "noise"):
            meta["honest"] = self.protection.honest(state.masking)
        return Ask(str(message.meta.get("task", "")), message.arrays, meta)


class _ChargedError(DataError):
    """A question that failed after its noise was charged to the budget: it may have been drawn."""

    def __init__(self, why: str, multiplier: float) -> None:
        super().__init__(why)
        self.multiplier = multiplier


def _in_words(error: Exception) -> str:
    if isinstance(error, DataError):
        return str(error)
    return f"The question could not be answered ({type(error).__name__}: {error})."


def _with_reason(state: SiteState, why: str) -> SiteState:
    return dataclasses.replace(state, refusals=(*state.refusals, why)[-_MOST_REASONS:])


def _refusal(site: str, round_: int, told: Mapping[str, Any] | None = None) -> Message:
    """The one refusal: it says nothing but which question it is about, and on joining a word of a list."""
    return Message(site, COORDINATOR, round_, REFUSED, meta=told or {})
