"""Sites and a coordinator that watch an exchange folder until the study is finished."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polydag.computing.progress import report
from polydag.deployment import envelopes
from polydag.deployment.coordinator import PRIVATE, CoordinatorEndpoint
from polydag.deployment.exchange import Arrived, Exchange
from polydag.deployment.packing import write_json
from polydag.deployment.site import File, Question, SiteEndpoint
from polydag.errors import DataError, NotConvergedError, UsageError

TASK = "study"
_CLAIM, _STOP = "claim.json", "stop"
_AGAIN = 2.0  # seconds between two attempts of a site that cannot answer at present
_log = logging.getLogger("polydag")

Say = Callable[[str], None]
Approve = Callable[[Question], bool]


def run_site(
    site: SiteEndpoint, exchange: Exchange, joining: File | None, *, approve: Approve, say: Say
) -> None:
    """Answer the coordinator's questions until the study is finished.

    Parameters
    ----------
    site : SiteEndpoint
        The site, which has joined.
    exchange : Exchange
        The folder.
    joining : File, optional
        The file with which the site joins, where the coordinator may not have it yet.
    approve : callable
        Whether a question may be answered; where it may not, the site stops here, and may go on later.
    say : callable
        Takes what the owner should know, one sentence at a time.
    """
    told = _Once(say)
    if joining is not None:
        exchange.put(joining)
    waiting: Arrived | None = None
    report(TASK, 0, None, "waits for the coordinator")
    while not site.finished:
        active = False
        for arrived in exchange.arrived(envelopes.QUESTION, site=site.name):
            waiting = arrived
            active = True
        if waiting is not None:
            try:
                question = site.opened(waiting.content)
            except DataError as error:
                if exchange.is_settled(waiting):
                    told(f"{waiting.name} was refused: {error}")
                waiting = None
                exchange.wait(active=False)
                continue
            waiting = None if _answered(site, exchange, question, approve, told) else waiting
            if waiting is not None:
                time.sleep(_AGAIN)
        told(exchange.trouble)
        exchange.wait(active=active)
    exchange.remove_others(set())


def _answered(
    site: SiteEndpoint, exchange: Exchange, question: Question, approve: Approve, told: _Once
) -> bool:
    """Answer a question; false where something at this site is in the way, and it may be tried again."""
    if not approve(question):
        raise UsageError(
            "The question was not approved, and nothing has left. Start again to be asked once more; the "
            "coordinator waits until then."
        )
    before = site.refusals
    try:
        answer = site.answer(question)
    except DataError as error:
        told(f"Question {question.number} cannot be answered yet: {error}")
        return False
    for note in site.notes:
        told(note)
    if answer is not None:
        _log.info("placed %s", answer.name)
        exchange.put(answer)
        exchange.remove_others({answer.name})
    report(TASK, question.number, None, "answered, waits for the coordinator")
    if site.refusals != before:
        raise DataError(f"The question was refused, which ends the study here: {site.refusals[-1]}")
    return True


def run_coordinator(
    coordinator: CoordinatorEndpoint, exchange: Exchange, *, patience: float | None, say: Say
) -> None:
    """Collect the sites' files and ask the next questions until all sums are there.

    Parameters
    ----------
    coordinator : CoordinatorEndpoint
        The coordinator.
    exchange : Exchange
        The folder.
    patience : float, optional
        Seconds without any answer after which the run stops, to be continued later; no limit by default.
    say : callable
        Takes what the coordinator should know, one sentence at a time.
    """
    told = _Once(say)
    shown: tuple[Any, ...] = ()
    last = time.monotonic()
    (coordinator.folder / PRIVATE / _STOP).unlink(missing_ok=True)
    while True:
        before = coordinator.made_progress
        for arrived in exchange.arrived(envelopes.JOIN, envelopes.ANSWER):
            if (why := coordinator.take(arrived.content)) and exchange.is_settled(arrived):
                told(f"{arrived.name} was refused: {why}")
        coordinator.receive([])
        active = coordinator.made_progress != before
        now = (coordinator.number, len(coordinator.joined), coordinator.finished)
        if now != shown:
            questions = coordinator.questions()
            for question in questions:
                exchange.put(question)
            names = ", ".join(question.name for question in questions)
            _log.info("%s", f"placed {names}" if questions else f"joined: {', '.join(coordinator.joined)}")
            exchange.remove_others({question.name for question in questions})
            shown = now
        waits = ", ".join(coordinator.waits_for)
        report(TASK, coordinator.number, None, f"waits for {waits}" if waits else "")
        if coordinator.finished:
            return
        _require_running(coordinator)
        last = time.monotonic() if active else last
        if patience is not None and time.monotonic() - last > patience:
            without = f", or with --without {waits.replace(', ', ',')}" * coordinator.goes_on_without
            raise NotConvergedError(
                f"No file has arrived for {patience:g} seconds: the study waits for {waits}. Run the command "
                f"again to continue{without}."
            )
        if (coordinator.folder / PRIVATE / _STOP).exists():
            raise NotConvergedError(
                f"Stopped; the study waits for {waits}. Run the command again to continue."
            )
        told(exchange.trouble)
        exchange.wait(active=active)


def _require_running(coordinator: CoordinatorEndpoint) -> None:
    """Raise where no further file can bring the study to its end."""
    state = coordinator.state
    if state is None:
        return
    if coordinator.refused:
        site, why = next(iter(coordinator.refused.items()))
        raise DataError(f"The study cannot continue with {site}: it {why}.")
    if coordinator.stopped:
        raise NotConvergedError(coordinator.stopped)


@contextmanager
def claimed(study: Path, **about: Any) -> Iterator[None]:
    """Hold a study's folder for one coordinator at a time; `about` is what `claim_of` tells others."""
    if not (study / PRIVATE).is_dir():
        raise UsageError(f"{study} is not the folder of a study, which polydag federation init makes.")
    file = study / PRIVATE / _CLAIM
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"Another coordinator is running {study}.") from None
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"process": os.getpid(), **about}).encode())
        yield
    finally:
        os.close(handle)


def claim_of(study: Path) -> dict[str, Any] | None:
    """What the running coordinator of a study has said about itself; None where none is running."""
    try:
        handle = os.open(study / PRIVATE / _CLAIM, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            found: dict[str, Any] = json.loads(os.read(handle, 65536) or b"{}")
            return found
        return None
    finally:
        os.close(handle)


def ask_to_stop(study: Path) -> None:
    """Ask the running coordinator of a study to end; its state stays, and a later one goes on from it."""
    write_json(study / PRIVATE / _STOP, {})


class _Once:
    """Says each sentence once."""

    def __init__(self, say: Say) -> None:
        self._say, self._said = say, set[str]()

    def __call__(self, sentence: str) -> None:
        if sentence and sentence not in self._said:
            self._said.add(sentence)
            _log.info("%s", sentence)
            self._say(sentence)
