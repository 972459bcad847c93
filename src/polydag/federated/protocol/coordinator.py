"""The coordinator as a pure state machine, whatever the method."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polydag.errors import DataError, UsageError
from polydag.federated.protocol import coordinator_masking as masked
from polydag.federated.protocol import sums
from polydag.federated.protocol.checks import reply_problem
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.messages import (
    AGREE,
    ANSWER,
    ASK,
    CLOCK,
    COORDINATOR,
    JOIN,
    OPEN,
    ORDER,
    REFUSED,
    ROSTER,
    TIMEOUT,
    Arrays,
    Message,
    message_problem,
    reply_to,
)
from polydag.federated.protocol.programs import Answer, Ask, Program, Shapes, Total
from polydag.federated.protocol.reasons import told_reason
from polydag.federated.protocol.sums import Contributions

RUNNING, DONE, STOPPED = "running", "done", "stopped"
_MOST_REASONS = 1000


@dataclass(frozen=True, eq=False)
class CoordinatorState:
    """All that the coordinator knows.

    Attributes
    ----------
    all_sites : tuple of str
        The sites that take part.
    status : {"running", "done", "stopped"}
        `reason` says why the study stopped.
    round, task, meta, question, intended, over
        The current question, the sites that the program means, and those over which the sum is formed.
    phase, asked, expected
        The current phase of it, the sites that were asked, and the shapes of their answers.
    received : mapping
        The answers so far, as `sums` keeps them.
    summing : mapping
        The memory of masked sums.
    waited : int
        Time-outs in this round.
    refusals : tuple of str
        Messages that were not accepted, with sender and reason.
    program, result : mappings
        The method's own state, and its outcome.
    """

    all_sites: tuple[str, ...]
    status: str = RUNNING
    reason: str = ""
    round: int = 0
    task: str = ""
    phase: str = ASK
    intended: tuple[str, ...] = ()
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
        """The sites that were asked and have not answered."""
        return tuple(site for site in self.asked if site not in self.received)


@dataclass(frozen=True)
class Coordinator:
    """Runs a program over sites.

    Parameters
    ----------
    program : Program
        What is asked, and what follows from the sums.
    patience : int
        A phase ends with this time-out at the latest; earlier ones repeat the question.
    masking : Masking, optional
        With it the coordinator sees sums only, without it the numbers of every site.
    pipelined : bool
        Send the first question together with all keys, where no secrets are distributed: sites have nothing
        to reply to the keys, and messages that travel slowly are saved.
    """

    program: Program
    patience: int = 2
    masking: Masking | None = None
    pipelined: bool = False

    def start(self, all_sites: Sequence[str]) -> tuple[CoordinatorState, list[Message]]:
        """The first question to the sites."""
        if len(set(all_sites)) != len(all_sites) or not all_sites:
            raise UsageError("A federation needs sites with different names.")
        if bad := [name for name in all_sites if name in (COORDINATOR, CLOCK) or "|" in name]:
            raise UsageError(f"A site cannot be called {bad[0]!r}.")
        state = CoordinatorState(tuple(all_sites))
        if self.masking is not None:
            recover = self.program.tolerates_absence
            memory = masked.begin(self.masking, state.all_sites, recover=recover)
            state = dataclasses.replace(state, summing=memory)
        return self._signed(_next(state, *self.program.begin()))

    def renewed(self, state: CoordinatorState) -> CoordinatorState:
        """A saved state with a new agreement: the sites join again, with fresh keys, before the next round.

        After an interruption nobody knows what has left the sites since the state was saved, so no mask of
        before is used again.
        """
        if self.masking is None or state.status == DONE:
            return state
        recover = self.program.tolerates_absence
        memory = masked.begin(self.masking, state.all_sites, recover=recover)
        over = state.intended or state.all_sites
        return dataclasses.replace(
            state, summing=memory, phase=JOIN, over=over, asked=state.all_sites, received={}
        )

    def step(
        self, state: CoordinatorState, inbox: Iterable[Message]
    ) -> tuple[CoordinatorState, list[Message]]:
        """Process messages; proceed to the next question when the answers are complete."""
        outbox: list[Message] = []
        # One copy per step, filled by `_take`: a copy per message would make a round quadratic in the sites.
        state = dataclasses.replace(state, received=dict(state.received))
        for message in inbox:
            state, more = self._signed(self._take(state, message))
            outbox += more
        return state, outbox

    def _signed(self, done: tuple[CoordinatorState, list[Message]]) -> tuple[CoordinatorState, list[Message]]:
        if self.masking is None or self.masking.identity is None:
            return done
        return done[0], self.masking.signed(done[1], done[0].summing)

    def resume(self, state: CoordinatorState) -> tuple[CoordinatorState, list[Message]]:
        """Continue from a saved state: sites that have not answered are asked again."""
        if state.status == DONE:
            return state, []
        state = dataclasses.replace(state, status=RUNNING, reason="", waited=0)
        return self._signed((state, [*self._keys(state), *_question(state, state.missing)]))

    def _keys(self, state: CoordinatorState) -> list[Message]:
        """All keys again, where the first question travels together with them."""
        if not self.pipelined or (state.round, state.phase) != (1, ASK) or not state.summing:
            return []
        if state.summing["agreement"]["recover"]:
            return []
        return _question(dataclasses.replace(state, phase=ROSTER), state.missing)

    def _take(self, state: CoordinatorState, message: Message) -> tuple[CoordinatorState, list[Message]]:
        if message.phase == TIMEOUT and message.sender == CLOCK:
            return self._late(state) if message.round == state.round else (state, [])
        if self.pipelined and (message.phase, message.round, state.phase) == (ROSTER, state.round, ASK):
            return state, []
        if why := self._objection(state, message):
            return _refuse(state, message, why)
        if message.phase == REFUSED:  # a damaged question is asked again after a time-out
            text = f"round {state.round}: {message.sender} {self._refused(state, message)}"
            return dataclasses.replace(state, refusals=(*state.refusals, text)[-_MOST_REASONS:]), []
        state.received[message.sender] = message.arrays  # type: ignore[index]
        return self._close(state) if len(state.received) == len(state.asked) else (state, [])

    def _refused(self, state: CoordinatorState, message: Message) -> str:
        """What a site's refusal says: on joining a reason, if it has a public one."""
        genuine = self.masking is not None and self.masking.objection(message, state.summing) is None
        if state.phase == JOIN and genuine and (why := told_reason(message.meta)):
            return f"does not join: {why}"
        return "refused the question; its owner can see why"

    def _objection(self, state: CoordinatorState, message: Message) -> str | None:
        """Why the coordinator does not accept a message."""
        if why := message_problem(message):
            return why
        if message.sender not in state.all_sites:
            return "it is not a site of this study"
        if state.status != RUNNING:
            return "the study is not running"
        if message.phase not in (*map(reply_to, ORDER), REFUSED) or message.phase == ANSWER:
            return f"a site does not send {message.phase!r}"
        if message.phase == REFUSED:  # one of something unreadable names no round
            return None if message.round in (0, state.round) else "it refuses a question of another round"
        if message.round != state.round:
            return f"it is for round {message.round}, not for {state.round}"
        if message.phase != reply_to(state.phase):
            return f"it answers {message.phase!r} of this round, and the question is {state.phase!r}"
        if message.sender not in state.asked:
            return "it was not asked"
        if message.sender in state.received:
            return "it has answered already"
        if self.masking is not None and (why := self.masking.objection(message, state.summing)):
            return why
        return reply_problem(message.arrays, _expected(state))

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
        """Whether a phase can end without the sites that have not answered."""
        if state.phase in (AGREE, OPEN):
            return len(state.received) >= masked.agreement_of(state.summing).quorum
        tolerant = self.program.tolerates_absence and state.phase not in (JOIN, ROSTER)
        return tolerant and bool(state.received)

    def _close(self, state: CoordinatorState) -> tuple[CoordinatorState, list[Message]]:
        if not state.summing:
            return self._advance(state, sums.total(state.received, state.all_sites), len(state.received))
        if state.phase not in (ASK, OPEN):
            memory, phase = masked.after_phase(state.summing, state.phase, state.round, state.received)
            state, outbox = _enter(dataclasses.replace(state, summing=memory), phase)
            if self.pipelined and phase == ROSTER and not memory["agreement"]["recover"]:
                state, more = _enter(state, ASK)
                outbox += more
            return state, outbox
        if state.phase == ASK and self.program.tolerates_absence:
            question = _asked(state)
            memory, phase = masked.listed(state.summing, state.over, state.received, question)
            if not memory["list"]:
                return _stop(state, _too_few(state, state.missing))
            return _enter(dataclasses.replace(state, summing=memory), phase)
        narrow = sums.narrow_of(state.meta)
        count = len(state.summing["list"]) if state.phase == OPEN else len(state.over)
        try:
            memory, arrays = masked.summed(
                state.summing, state.round, state.over, state.received, narrow, _asked(state)
            )
        except DataError as error:
            return _stop(state, str(error))
        wrong = [
            f"round {state.round}: {site} sent a wrong share; it was left out" for site in memory["wrong"]
        ]
        state = dataclasses.replace(state, summing=memory, refusals=(*state.refusals, *wrong))
        return self._advance(state, arrays, count)

    def _advance(
        self, state: CoordinatorState, arrays: Arrays, count: int
    ) -> tuple[CoordinatorState, list[Message]]:
        return _next(state, *self.program.advance(state.program, Total(arrays, count)))


def _too_few(state: CoordinatorState, missing: Iterable[str]) -> str:
    return (
        f"Without {', '.join(missing)}, the sum of round {state.round} ({state.task}) would be over too few "
        "sites, or reveal single ones in combination with earlier sums."
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
        arrays = {name: np.asarray(array) for name, array in ask.arrays.items()}
        return done, _copies(Message(COORDINATOR, "", done.round, ANSWER, arrays), state.all_sites)
    over = state.all_sites if ask.sites is None else ask.sites
    expected = {name: list(shape) for name, shape in ask.returns.items()}
    fresh = dataclasses.replace(
        fresh,
        task=ask.task,
        meta=ask.meta,
        question=ask.arrays,
        expected=expected,
        intended=over,
        over=over,
    )
    return _enter(fresh, masked.first_phase(state.summing, fresh.round) if state.summing else ASK)


def _enter(state: CoordinatorState, phase: str) -> tuple[CoordinatorState, list[Message]]:
    """Begin a phase: send its question to the sites concerned."""
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
    return _copies(_ask(state), sites)


def _copies(message: Message, sites: Iterable[str]) -> list[Message]:
    """The same message to several sites; its hash is computed once."""
    return [dataclasses.replace(message, recipient=site) for site in sites]


def _ask(state: CoordinatorState) -> Message:
    """The question about data, which is the same for all sites."""
    meta = {**state.meta, "task": state.task}
    if state.summing:
        about = {"study": state.summing["agreement"]["study"], "before": state.summing["before"]}
        meta |= {"over": list(state.over), **about}
    return Message(COORDINATOR, "", state.round, ASK, state.question, meta)


def _asked(state: CoordinatorState) -> bytes:
    """The hash of the current question about data."""
    return _ask(state).digest


def _expected(state: CoordinatorState) -> Shapes:
    """The shapes of a reply in this phase."""
    plain = {name: tuple(shape) for name, shape in state.expected.items()}
    if not state.summing:
        return plain
    return masked.expected(state.summing, state.phase, state.over, plain, sums.narrow_of(state.meta))


def _refuse(state: CoordinatorState, message: Message, why: str) -> tuple[CoordinatorState, list[Message]]:
    text = f"round {state.round}: refused a message from {message.sender}: {why}"
    reply = Message(COORDINATOR, message.sender, message.round, REFUSED, meta={"why": why})
    return dataclasses.replace(state, refusals=(*state.refusals, text)[-_MOST_REASONS:]), [reply]
