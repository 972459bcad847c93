"""At a site: the executor that places a question in the site's folder, and brings the answer back."""

from __future__ import annotations

import time
from pathlib import Path

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from polydag.deployment.flare.relay import (
    CONTENT,
    FINISHED,
    HOLD,
    JOIN,
    NAME,
    QUESTION,
    SENT,
    Relay,
    answer_to,
    is_name_of,
)

_PAUSE, _SLOW, _HURRY = 0.01, 0.2, 2.0  # seconds between two looks, at first and after a while


class Answering(Executor):
    """Waits until the site has answered; a site that its owner has stopped keeps the coordinator waiting."""

    def __init__(self) -> None:
        super().__init__()
        self._last = ""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Say in the folder what has reached the server."""
        if event_type == EventType.AFTER_SEND_TASK_RESULT and self._last:
            Relay.of(Path(fl_ctx.get_workspace().get_root_dir())).put(SENT, self._last.encode())

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Answer one task: a question with its name, or none, which asks for the file with which it joins."""
        site = fl_ctx.get_identity_name()
        relay = Relay.of(Path(fl_ctx.get_workspace().get_root_dir()))
        name, content = shareable.get(NAME), shareable.get(CONTENT)
        if name is None:
            wanted = f"{JOIN}-{site}.polydag"
        elif is_name_of(name, QUESTION, site) and isinstance(content, bytes):
            wanted = answer_to(name)
            if relay.read(wanted) is None:
                relay.put(name, content)
                relay.forget_before(name)
        else:
            return make_reply(ReturnCode.BAD_TASK_DATA)
        began = time.monotonic()
        while not abort_signal.triggered:
            waited = time.monotonic() - began
            if (found := relay.read(wanted)) is not None:
                self._last = wanted
                return Shareable({NAME: wanted, CONTENT: found})
            if relay.is_done:
                self._last = FINISHED
                return Shareable({FINISHED: True})
            if waited > HOLD:
                self._last = ""
                return Shareable()  # the site is there, and has no answer yet
            time.sleep(_PAUSE if waited < _HURRY else _SLOW)
        return make_reply(ReturnCode.TASK_ABORTED)
