"""FLARE's process at a party: started, watched, started again, and ended with all that it has started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polydag.deployment.flare import job
from polydag.deployment.flare.relay import PARENT
from polydag.sealed_files import replace_file

LOG = "process.log"
_APPLICATIONS = "nvflare.private.fed.app."
_PAUSE = 0.2
_FIRST_AGAIN, _LAST_AGAIN = 0.5, 10.0  # seconds until a process that has ended is started again
_STEADY = 60.0  # seconds after which a process counts as having started well
_OURS = "polydag.deployment.flare."
_CLASSES = ("asking.Asking", "answering.Answering", "submitting.Submitting", "ending.EndsWithItsParent")
_SCHEDULE = {  # jobs that FLARE still lists as running are none; by default it waits up to 10 minutes
    "max_jobs": 100,
    "min_schedule_interval": 1.0,
    "max_schedule_interval": 2.0,
    "max_schedule_count": 1_000_000,
}
_NOT_USED = ("site_log_streamer", "log_receiver")  # FLARE would send the sites' logs to the server

Say = Callable[[str], None]


@dataclass(frozen=True)
class Party:
    """Where FLARE's process works, and what it is.

    Attributes
    ----------
    workspace : Path
        The startup kit.
    site : str, optional
        The site; None at the server.
    """

    workspace: Path
    site: str | None = None

    @property
    def command(self) -> list[str]:
        """What is run; nothing in it is secret."""
        kind = "server" if self.site is None else "client"
        words = ["-m", f"{_APPLICATIONS}{kind}.{kind}_train", "-m", str(self.workspace)]
        words += ["-s", f"fed_{kind}.json", "--set", "secure_train=true", "config_folder=config"]
        words += [
            f"org={job.ORGANIZATION}",
            *([] if self.site is None else [f"uid={self.site}", "heart_beat_interval=4"]),
        ]
        return [sys.executable, *words]

    def prepare(self) -> None:
        """Write FLARE's settings: our classes may run, and all it stores is in this folder."""
        local = self.workspace / "local"
        found: dict[str, Any] = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
        found["class_allow_list"] = [_OURS + name for name in _CLASSES]
        components = [each for each in found["components"] if each["id"] not in _NOT_USED]
        components.append({"id": "ending", "path": f"{_OURS}ending.EndsWithItsParent", "args": {}})
        if self.site is None:
            storage = found["snapshot_persistor"]["args"]["storage"]["args"]
            storage["root_dir"] = str(self.workspace / "snapshots")
            for each in components:
                if each["id"] == "job_scheduler":
                    each["args"] |= _SCHEDULE
                if each["id"] == "job_manager":
                    each["args"]["uri_root"] = str(self.workspace / job.STORE)
            components.append({"id": "submitting", "path": f"{_OURS}submitting.Submitting", "args": {}})
        else:
            found["allow_log_streaming"] = False
            found["client"]["maint_msg_timeout"] = 10.0  # seconds for an answer of the server
        replace_file(local / "resources.json", json.dumps({**found, "components": components}).encode())

    def start(self) -> subprocess.Popen[bytes]:
        """Start FLARE's process; what an earlier one has left is removed."""
        self.end()
        self.prepare()
        for name in (job.STORE, "snapshots", "tmp"):
            shutil.rmtree(self.workspace / name, ignore_errors=True)
        (self.workspace / "tmp").mkdir(mode=0o700)
        own = {PARENT: str(os.getpid()), "TMPDIR": str(self.workspace / "tmp")}
        own |= {"NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "2", "MALLOC_ARENA_MAX": "2"}
        own |= {"NVFLARE_STRICT_START_JOB_REPLY_CHECK": "true"}
        environment = {**os.environ, **own}
        with (self.workspace / LOG).open("ab") as log:
            return subprocess.Popen(
                self.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the command, which ends the process
            )

    def end(self) -> None:
        """End FLARE's processes that work in this folder; a killed one loses nothing."""
        import psutil

        place, found = str(self.workspace), []
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if place in words and any(word.startswith(_APPLICATIONS) for word in words):
                found.append(process)
        for process in found:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(found, timeout=10)


@contextmanager
def running(party: Party, say: Say) -> Iterator[None]:
    """Keep FLARE's process running during the block."""
    stop = threading.Event()
    keeper = threading.Thread(target=_keep, args=(party, stop, say), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        stop.set()
        keeper.join()


def _keep(party: Party, stop: threading.Event, say: Say) -> None:
    wait = _FIRST_AGAIN
    try:
        while not stop.is_set():
            process, began = party.start(), time.monotonic()
            while process.poll() is None and not stop.wait(_PAUSE):
                continue
            if stop.is_set():
                break
            wait = _FIRST_AGAIN if time.monotonic() - began > _STEADY else min(2 * wait, _LAST_AGAIN)
            say(f"NVIDIA FLARE's process has ended; it is started again (see {party.workspace / LOG}).")
            stop.wait(wait)
    finally:
        party.end()
