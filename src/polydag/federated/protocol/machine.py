"""A site and the coordinator as pure state machines, whatever the method.

`step(state, inbox) -> (state, outbox)`: no clock, no files, no hidden memory. A time-out is a message. States
are frozen and can be saved between any two steps (`storing`); whoever restores them gets the same outcome.

How a round's sum is formed is a matter of phases: in the open, one question and one answer; masked, those of
`masked` (the coordinator's side) and `guard` (a site's). A site's state is to be saved before its messages
are sent: what it sends again is what it has stored, never something new under the same masks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polydag.errors import DataError, UsageError
from polydag.federated.protocol import coordinator_masking as masked
from polydag.federated.protocol import sums
from polydag.federated.protocol.checks import unfit
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.disclosure import Noise
from polydag.federated.protocol.messages import (
    AGREE,
    ANSWER,
    ASK,
    CLOCK,
    COORDINATOR,
    DECLINED,
    JOIN,
    OPEN,
    ORDER,
    REFUSED,
    ROSTER,
    TIMEOUT,
    Arrays,
    Message,
    position,
    reply_to,
)
from polydag.federated.protocol.programs import Answer, Ask, Local, Program, Shapes, Total
from polydag.federated.protocol.site_protection import Guard, noted, with_tag
from polydag.federated.protocol.sums import Contributions
from polydag.privacy.ledger import START

RUNNING, DONE, STOPPED, UNWILLING = "running", "done", "stopped", "unwilling"


@dataclass(frozen=True, eq=False)
class CoordinatorState:
    """All that the coordinator knows.

    Attributes
    ----------
    members : tuple of str
        The sites that take part.
    status : {"running", "done", "stopped", "unwilling"}
        Where it stands; `reason` says why it stopped, or who does not take part.
    round, task, meta, question, over
        The question under way, and the sites over which is summed.
    phase, asked, expected
        Which part of it is under way, who was asked for that, and the shapes of what they answer.
    received : mapping
        What has come in for it, as `sums` keeps it.
    summing : mapping
        What masked sums remember.
    waited : int
        Time-outs in this round.
    refusals : tuple of str
        Messages that were not accepted, with sender and reason.
    program, result : mappings
        The method's own state, and its outcome.
    """

    members: tuple[str, ...]
    status: str = RUNNING
    reason: str = ""
    round: int = 0
    task: str = ""
    phase: str = ASK
    over: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    waited: int = 0
    refusals: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    question: Arrays = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)
    received: Contributions = field(default_factory=dict)
    summing: Mapping[str, Any] = field(default_factory=dict)
    program: Arrays = field(default_factory=dict)
    result: Arrays = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """Who was asked and has not answered."""
        return tuple(site for site in self.asked if site not in self.received)


@dataclass(frozen=True)
class Coordinator:
    """Runs a program over sites; the first time-outs of a phase only repeat the question.

    With `masking`, it sees sums only; without, every site's numbers.
    """

    program: Program
    patience: int = 2
    masking: Masking | None = None

    def start(self, members: Sequence[str]) -> tuple[CoordinatorState, list[Message]]:
        """The first question to the sites."""
        if len(set(members)) != len(members) or not members:
            raise UsageError("A federation needs sites with different names.")
        if bad := [name for name in members if name in (COORDINATOR, CLOCK) or "|" in name]:
            raise UsageError(f"A site cannot be called {bad[0]!r}.")
        state = CoordinatorState(tuple(members))
        if self.masking is not None:
            recover = self.program.tolerates_absence
            memory = masked.begin(self.masking, state.members, recover=recover)
            state = dataclasses.replace(state, summing=memory)
        return _next(state, *self.program.begin())

    def step(
        self, state: CoordinatorState, inbox: Iterable[Message]
    ) -> tuple[CoordinatorState, list[Message]]:
        """Take in messages; go on to the next question when the answers are complete."""
        outbox: list[Message] = []
        # One copy a step, which `_take` fills: a copy a message would make a round quadratic in the sites.
        state = dataclasses.replace(state, received=dict(state.received))
        for message in inbox:
            state, more = self._take(state, message)
            outbox += more
        return state, outbox

    def resume(self, state: CoordinatorState) -> tuple[CoordinatorState, list[Message]]:
        """Go on from a saved state: those who have not answered are asked again."""
        if state.status == DONE:
            return state, []
        state = dataclasses.replace(state, status=RUNNING, reason="", waited=0)
        return state, _question(state, state.missing)

    def _take(self, state: CoordinatorState, message: Message) -> tuple[CoordinatorState, list[Message]]:
        if message.phase == TIMEOUT and message.sender == CLOCK:
            return self._late(state) if message.round == state.round else (state, [])
        if why := _objection(state, message):
            return _refuse(state, message, why)
        if message.phase == REFUSED:  # it has kept its state, and is asked again in time
            text = (
                f"round {state.round}: {message.sender} refused the question: {message.meta.get('why', '')}"
            )
            return dataclasses.replace(state, refusals=(*state.refusals, text)), []
        if message.phase == DECLINED:
            why = f"{message.sender} does not take part: {message.meta.get('why', 'no reason given')}"
            return dataclasses.replace(state, status=UNWILLING, reason=why), []
        state.received[message.sender] = message.arrays  # type: ignore[index]
        return self._close(state) if len(state.received) == len(state.asked) else (state, [])

    def _late(self, state: CoordinatorState) -> tuple[CoordinatorState, list[Message]]:
        if state.status != RUNNING:
            return state, []
        state = dataclasses.replace(state, waited=state.waited + 1)
        if state.waited < self.patience:
            return state, _question(state, state.missing)
        if self._enough(state):
            return self._close(state)
        return _stop(
            state, f"No answer in round {state.round} ({state.task}) from {', '.join(state.missing)}."
        )

    def _enough(self, state: CoordinatorState) -> bool:
        """Whether a phase can end without those who have not answered."""
        if state.phase in (AGREE, OPEN):
            return len(state.received) >= masked.terms_of(state.summing).threshold
        tolerant = self.program.tolerates_absence and state.phase not in (JOIN, ROSTER)
        return tolerant and bool(state.received)

    def _close(self, state: CoordinatorState) -> tuple[CoordinatorState, list[Message]]:
        if not state.summing:
            return self._advance(state, sums.total(state.received, state.members), len(state.received))
        if state.phase not in (ASK, OPEN):
            memory, phase = masked.learned(state.summing, state.phase, state.round, state.received)
            return _enter(dataclasses.replace(state, summing=memory), phase)
        if state.phase == ASK and self.program.tolerates_absence:
            memory, phase = masked.listed(state.summing, state.over, state.received)
            if not memory["list"]:
                return _stop(state, _too_few(state, state.missing))
            return _enter(dataclasses.replace(state, summing=memory), phase)
        narrow = sums.narrow_of(state.meta)
        count = len(state.summing["list"]) if state.phase == OPEN else len(state.over)
        memory, arrays = masked.summed(state.summing, state.round, state.over, state.received, narrow)
        return self._advance(dataclasses.replace(state, summing=memory), arrays, count)

    def _advance(
        self, state: CoordinatorState, arrays: Arrays, count: int
    ) -> tuple[CoordinatorState, list[Message]]:
        return _next(state, *self.program.advance(state.program, Total(arrays, count)))


def _too_few(state: CoordinatorState, missing: Iterable[str]) -> str:
    return (
        f"Without {', '.join(missing)}, the sum of round {state.round} ({state.task}) would be over too few "
        "sites, or show single ones beside earlier sums."
    )


def _stop(state: CoordinatorState, why: str) -> tuple[CoordinatorState, list[Message]]:
    if own := [text for text in state.refusals if text.startswith(f"round {state.round}: ")]:
        why += " " + "; ".join(own)
    return dataclasses.replace(state, status=STOPPED, reason=why), []


def _next(
    state: CoordinatorState, program: Arrays, ask: Ask | Answer
) -> tuple[CoordinatorState, list[Message]]:
    fresh = dataclasses.replace(state, round=state.round + 1, waited=0, program=program, received={})
    if isinstance(ask, Answer):
        done = dataclasses.replace(
            fresh, status=DONE, task=ANSWER, meta={}, question={}, asked=(), over=(), result=ask.arrays
        )
        return done, [Message(COORDINATOR, site, done.round, ANSWER, ask.arrays) for site in state.members]
    over = state.members if ask.sites is None else ask.sites
    expected = {name: list(shape) for name, shape in ask.returns.items()}
    fresh = dataclasses.replace(
        fresh, task=ask.task, meta=ask.meta, question=ask.arrays, expected=expected, over=over
    )
    return _enter(fresh, masked.first_phase(state.summing, fresh.round) if state.summing else ASK)


def _enter(state: CoordinatorState, phase: str) -> tuple[CoordinatorState, list[Message]]:
    """Begin a phase: put its question to those whom it concerns."""
    over = state.over
    if phase == ASK and state.summing and (ready := state.summing.get("ready")) is not None:
        away = [site for site in over if site not in ready]
        if away:
            over = masked.allowed(state.summing, [site for site in over if site in ready])
        if not over:
            return _stop(state, _too_few(state, away))
    asked = masked.asked_in(state.summing, phase, over) if state.summing else over
    state = dataclasses.replace(state, phase=phase, over=over, asked=asked, received={}, waited=0)
    return state, _question(state, asked)


def _question(state: CoordinatorState, sites: Iterable[str]) -> list[Message]:
    if state.phase != ASK:
        return [
            Message(
                COORDINATOR,
                site,
                state.round,
                state.phase,
                *masked.question(state.summing, state.phase, state.round, state.over, site),
            )
            for site in sites
        ]
    meta = {**state.meta, "task": state.task}
    if state.summing:
        meta["over"] = list(state.over)
    return [Message(COORDINATOR, site, state.round, ASK, state.question, meta) for site in sites]


def _objection(state: CoordinatorState, message: Message) -> str | None:
    """Why the coordinator does not accept a message."""
    if message.sender not in state.members:
        return "it is not a member"
    if state.status != RUNNING:
        return "the study is not running"
    if message.phase not in (*map(reply_to, ORDER), DECLINED, REFUSED) or message.phase == ANSWER:
        return f"a site does not send {message.phase!r}"
    if message.round != state.round:
        return f"it is for round {message.round}, not for {state.round}"
    if message.phase not in (reply_to(state.phase), DECLINED, REFUSED):
        return f"it answers {message.phase!r} of this round, and the question is {state.phase!r}"
    if message.sender not in state.asked:
        return "it was not asked"
    if message.sender in state.received:
        return "it has answered already"
    if state.summing and (why := masked.objection(state.summing, message, state.phase)):
        return why
    return None if message.phase in (DECLINED, REFUSED) else unfit(message.arrays, _expected(state))


def _expected(state: CoordinatorState) -> Shapes:
    """What a reply in this phase consists of."""
    plain = {name: tuple(shape) for name, shape in state.expected.items()}
    if not state.summing:
        return plain
    return masked.expected(state.summing, state.phase, state.over, plain, sums.narrow_of(state.meta))


def _refuse(state: CoordinatorState, message: Message, why: str) -> tuple[CoordinatorState, list[Message]]:
    text = f"round {state.round}: refused a message from {message.sender}: {why}"
    reply = Message(COORDINATOR, message.sender, message.round, REFUSED, meta={"why": why})
    return dataclasses.replace(state, refusals=(*state.refusals, text)), [reply]


def _no(state: SiteState, message: Message, phase: str, why: str) -> Message:
    no = Message(state.name, COORDINATOR, message.round, phase, meta={"why": why})
    return with_tag(state.masking, no, message.phase)


@dataclass(frozen=True, eq=False)
class SiteState:
    """All that a site keeps.

    The last question it answered (`round`, `phase`) and what it sent then, its method's own state, its
    secrets for masked sums, and the ledger of all that left it, as lines.
    """

    name: str
    round: int = 0
    phase: str = ANSWER
    notes: tuple[str, ...] = ()
    ledger: tuple[str, ...] = ()
    sent: Arrays = field(default_factory=dict)
    said: Mapping[str, Any] = field(default_factory=dict)
    local: Arrays = field(default_factory=dict)
    masking: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """Answers the coordinator's questions; declines with fewer than `min_rows` rows.

    The floor is that of an organisation on its own; where all rows are in one process, there need be none.
    With a `guard` its numbers leave under masks only. `last` is the hash that its ledger goes on from.
    """

    local: Local
    min_rows: int = 10
    guard: Guard | None = None
    last: str = START

    def start(self, name: str) -> SiteState:
        """The state before the first question."""
        return SiteState(name)

    def step(self, state: SiteState, inbox: Iterable[Message]) -> tuple[SiteState, list[Message]]:
        """Answer each question once; a repeated question gets the stored answer again, never a new one."""
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
            state = self._told(state, message)
            return dataclasses.replace(state, round=message.round, phase=ANSWER, sent={}, said={}), None
        try:
            if damage := self._objection(state, message):
                return state, _no(state, message, REFUSED, damage)
            return self._answer(self._told(state, message), message)
        except DataError as error:
            return state, _no(state, message, DECLINED, str(error))

    def _told(self, state: SiteState, message: Message) -> SiteState:
        if message.phase not in (ASK, ANSWER):
            return state
        notes = dict.fromkeys((*state.notes, *self.local.told(state.local, message.arrays)))
        return dataclasses.replace(state, notes=tuple(notes))

    def _objection(self, state: SiteState, message: Message) -> str | None:
        """Why a question cannot be answered as it came; a damaged one must not enter the state."""
        if message.phase == ASK:
            return self.local.objection(state.local, self._asked(state, message))
        return None if self.guard is None else self.guard.objection(message)

    def _again(self, state: SiteState) -> Message:
        phase = reply_to(state.phase)
        return Message(state.name, COORDINATOR, state.round, phase, state.sent, state.said)

    def _answer(self, state: SiteState, message: Message) -> tuple[SiteState, Message]:
        own, memory, noise = state.local, state.masking, Noise()
        if message.phase == ASK:
            ask = self._asked(state, message)
            if (adds := getattr(self.local, "noise", None)) is not None:
                noise = adds(ask)
            if self.guard is not None:
                memory = self.guard.afford(memory, message, noise)
            own, sent = self.local.answer(state.local, ask)
            if self.guard is not None:
                memory, sent = self.guard.hide(memory, message, sent, self.local.names)
        elif self.guard is None:
            raise DataError("It adds up in the open, and the coordinator asks for masked sums.")
        else:
            memory, sent = self.guard.prepare(memory, state.name, message)
        reply = Message(state.name, COORDINATOR, message.round, reply_to(message.phase), sent)
        reply = with_tag(memory, reply, message.phase)
        over = len(message.meta.get("over", ())) or 1
        ledger = noted(state.ledger, state.masking, memory, reply, message.phase, noise, over, self.last)
        state = dataclasses.replace(
            state, round=message.round, phase=message.phase, local=own, sent=sent, said=reply.meta,
            masking=memory, ledger=ledger,
        )  # fmt: skip
        return state, reply

    def _asked(self, state: SiteState, message: Message) -> Ask:
        if self.local.n_rows < self.min_rows:
            raise DataError(
                f"It has {self.local.n_rows:g} rows; its owner asks for at least {self.min_rows} (min_rows)."
            )
        meta = {name: value for name, value in message.meta.items() if name != "task"}
        if self.guard is not None and state.masking and hasattr(self.local, "noise"):
            meta["honest"] = self.guard.honest(state.masking)
        return Ask(str(message.meta.get("task", "")), message.arrays, meta)
