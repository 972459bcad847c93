"""At the server: the controller that brings questions to the sites, and their answers back."""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from polydag.deployment.flare.job import TASK
from polydag.deployment.flare.relay import (
    ALIVE,
    ANSWER,
    CONTENT,
    FINISHED,
    HOLD,
    JOIN,
    NAME,
    Relay,
    is_name_of,
)

_PAUSE, _LONGEST = 0.01, 0.1  # seconds between two looks at the folder
_SHOWN = 5.0  # seconds between two signs of life for the server's process
_LOST = HOLD + 45.0  # seconds without a sign of a site's part of the job, after which the job is given up
_FIRST_AGAIN, _LAST_AGAIN = 5.0, 30.0  # seconds until an answer is fetched again that led to nothing


@dataclass
class _Asked:
    """What a site was asked last."""

    name: str | None = None
    mark: tuple[int, int] | None = None
    task: Task | None = None
    wait: float = _FIRST_AGAIN
    again: float = 0.0
    since: float | None = None  # of the first task to which there has been no reply
    finished: bool = False


class Asking(Controller):
    """One task for each site at a time: its last question, and the answer that the site has to it."""

    def __init__(self) -> None:
        super().__init__(task_check_period=0.02)
        self._arrived: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is needed."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is needed: what the sites have sent is in the folder."""

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Leave it: the site has its answer on its disk, and sends it again."""

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Go on until all sites have finished the study, or the job is ended."""
        relay = Relay.of(Path(fl_ctx.get_workspace().get_root_dir()))
        asked = {site: _Asked() for site in relay.sites}
        pause, shown = _PAUSE, -_SHOWN
        while not all(each.finished for each in asked.values()):
            if abort_signal.triggered:
                return
            if time.monotonic() - shown > _SHOWN:
                relay.put(ALIVE, b"")
                shown = time.monotonic()
            before = pause
            pause = min(2 * pause, _LONGEST)
            while not self._arrived.empty():
                site, result = self._arrived.get()
                self._take(relay, site, asked[site], result)
                pause = _PAUSE
            questions = relay.questions()
            for site, each in asked.items():
                if not each.finished and self._ask(relay, site, each, questions.get(site), fl_ctx):
                    pause = _PAUSE
            time.sleep(before)
        relay.set_done()

    def _ask(
        self,
        relay: Relay,
        site: str,
        each: _Asked,
        question: tuple[str, tuple[int, int]] | None,
        fl_ctx: FLContext,
    ) -> bool:
        """Send a site's question, or ask for the file with which it joins; false where there is no need."""
        if each.since is not None and time.monotonic() - each.since > _LOST:  # FLARE would wait for ever
            raise RuntimeError(f"{site} is no longer part of the job; another job goes on")
        if each.task is not None and each.task.completion_status is None:
            return False
        name, mark = question or (None, None)
        if (name, mark) == (each.name, each.mark) and time.monotonic() < each.again:
            return False
        if (name, mark) != (each.name, each.mark):
            each.wait = _FIRST_AGAIN
        content = None if name is None else relay.read(name)
        if name is not None and content is None:
            return False  # it has served in the meantime
        each.name, each.mark = name, mark
        now = time.monotonic()
        each.since = now if each.since is None else each.since
        each.again = now + each.wait
        each.wait = min(2 * each.wait, _LAST_AGAIN)
        each.task = Task(TASK, Shareable({NAME: name, CONTENT: content}), result_received_cb=self._received)
        self.send(each.task, fl_ctx, targets=[site])
        return True

    def _received(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        self._arrived.put((client_task.client.name, client_task.result))

    @staticmethod
    def _take(relay: Relay, site: str, each: _Asked, result: Any) -> None:
        """Place what a site has sent; anything else than a file of its own is left."""
        each.since = None
        if not isinstance(result, Shareable):
            return
        name, content = result.get(NAME), result.get(CONTENT)
        if result.get(FINISHED) is True:
            each.finished = True
        elif name is None and result.get_return_code() == ReturnCode.OK:
            each.again = 0.0  # it has no answer yet
        elif isinstance(content, bytes) and (is_name_of(name, ANSWER, site) or is_name_of(name, JOIN, site)):
            relay.put(name, content)
            relay.forget_before(name)
