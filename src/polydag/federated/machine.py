"""A site and the coordinator as pure state machines, whatever the method.

`step(state, inbox) -> (state, outbox)`: no clock, no files, no hidden memory. A time-out is a message. States
are frozen and can be saved between any two steps (`storing`); whoever restores them gets the same outcome.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polydag.errors import DataError, UsageError
from polydag.federated import sums
from polydag.federated.messages import (
    ASK,
    CLOCK,
    CONTRIBUTION,
    COORDINATOR,
    DECLINED,
    REFUSED,
    TIMEOUT,
    Arrays,
    Message,
)
from polydag.federated.programs import Answer, Ask, Local, Program, Total
from polydag.federated.sums import Contributions

ANSWER = "answer"
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
    round, task, meta, question, asked
        The question under way, and who was asked.
    received : mapping
        What has come in for it, as `sums` keeps it.
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
    asked: tuple[str, ...] = ()
    waited: int = 0
    refusals: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    question: Arrays = field(default_factory=dict)
    received: Contributions = field(default_factory=dict)
    program: Arrays = field(default_factory=dict)
    result: Arrays = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """Who was asked and has not answered."""
        return tuple(site for site in self.asked if site not in self.received)


@dataclass(frozen=True)
class Coordinator:
    """Runs a program over sites; the first time-outs of a round only repeat the question."""

    program: Program
    patience: int = 2

    def start(self, members: Sequence[str]) -> tuple[CoordinatorState, list[Message]]:
        """The first question to the sites."""
        if len(set(members)) != len(members) or not members:
            raise UsageError("A federation needs sites with different names.")
        if bad := [name for name in members if name in (COORDINATOR, CLOCK) or "|" in name]:
            raise UsageError(f"A site cannot be called {bad[0]!r}.")
        own, ask = self.program.begin()
        return _next(CoordinatorState(tuple(members)), own, ask)

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
        if self.program.tolerates_absence and state.received:
            return self._close(state)
        why = f"No answer in round {state.round} ({state.task}) from {', '.join(state.missing)}."
        if own := [text for text in state.refusals if text.startswith(f"round {state.round}: ")]:
            why += " " + "; ".join(own)
        return dataclasses.replace(state, status=STOPPED, reason=why), []

    def _close(self, state: CoordinatorState) -> tuple[CoordinatorState, list[Message]]:
        added = Total(sums.total(state.received, state.members), len(state.received))
        own, ask = self.program.advance(state.program, added)
        return _next(state, own, ask)


def _next(
    state: CoordinatorState, program: Arrays, ask: Ask | Answer
) -> tuple[CoordinatorState, list[Message]]:
    fresh = dataclasses.replace(state, round=state.round + 1, waited=0, program=program, received={})
    if isinstance(ask, Answer):
        done = dataclasses.replace(
            fresh, status=DONE, task=ANSWER, meta={}, question={}, asked=(), result=ask.arrays
        )
        return done, [Message(COORDINATOR, site, done.round, ANSWER, ask.arrays) for site in state.members]
    asked = state.members if ask.sites is None else ask.sites
    fresh = dataclasses.replace(fresh, task=ask.task, meta=ask.meta, question=ask.arrays, asked=asked)
    return fresh, _question(fresh, asked)


def _question(state: CoordinatorState, sites: Iterable[str]) -> list[Message]:
    meta = {**state.meta, "task": state.task}
    return [Message(COORDINATOR, site, state.round, ASK, state.question, meta) for site in sites]


def _objection(state: CoordinatorState, message: Message) -> str | None:
    """Why the coordinator does not accept a message."""
    if message.sender not in state.members:
        return "it is not a member"
    if state.status != RUNNING:
        return "the study is not running"
    if message.phase not in (CONTRIBUTION, DECLINED):
        return f"a site does not send {message.phase!r}"
    if message.round != state.round:
        return f"it is for round {message.round}, not for {state.round}"
    if message.sender not in state.asked:
        return "it was not asked"
    if message.sender in state.received:
        return "it has answered already"
    if message.phase == DECLINED:
        return None
    return sums.objection(message.arrays, state.received)


def _refuse(state: CoordinatorState, message: Message, why: str) -> tuple[CoordinatorState, list[Message]]:
    text = f"round {state.round}: refused a message from {message.sender}: {why}"
    reply = Message(COORDINATOR, message.sender, message.round, REFUSED, meta={"why": why})
    return dataclasses.replace(state, refusals=(*state.refusals, text)), [reply]


@dataclass(frozen=True, eq=False)
class SiteState:
    """All that a site keeps: the last round it answered, what it sent then, and its method's own state."""

    name: str
    round: int = 0
    notes: tuple[str, ...] = ()
    sent: Arrays = field(default_factory=dict)
    local: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """Answers the coordinator's questions; declines with fewer than `min_rows` rows."""

    local: Local
    min_rows: int = 1

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
        if message.sender != COORDINATOR or message.phase not in (ASK, ANSWER):
            why = "a site takes questions from the coordinator only"
            return state, Message(state.name, message.sender, message.round, REFUSED, meta={"why": why})
        if message.round <= state.round:
            if message.round == state.round and message.phase == ASK:
                return state, Message(state.name, COORDINATOR, state.round, CONTRIBUTION, state.sent)
            return state, None
        notes = [note for note in self.local.told(state.local, message.arrays) if note not in state.notes]
        state = dataclasses.replace(state, notes=(*state.notes, *notes))
        if message.phase == ANSWER:
            return dataclasses.replace(state, round=message.round, sent={}), None
        try:
            own, sent = self._answer(state, message)
        except DataError as error:
            return state, Message(state.name, COORDINATOR, message.round, DECLINED, meta={"why": str(error)})
        state = dataclasses.replace(state, round=message.round, local=own, sent=sent)
        return state, Message(state.name, COORDINATOR, message.round, CONTRIBUTION, sent)

    def _answer(self, state: SiteState, message: Message) -> tuple[Arrays, Arrays]:
        if self.local.n_rows < self.min_rows:
            raise DataError(
                f"It has {self.local.n_rows:g} rows; its owner asks for at least {self.min_rows}."
            )
        meta = {name: value for name, value in message.meta.items() if name != "task"}
        return self.local.answer(state.local, Ask(str(message.meta.get("task", "")), message.arrays, meta))
