"""In the server's process: the study's job is submitted when its sites are there, and again if it ends.

FLARE neither resumes a job whose process was killed nor starts a site's part of it again; a new job goes on
where the old one was, because nothing is lost with a job.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import SystemComponents
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_def import JobMetaKey, RunStatus
from nvflare.private.fed.server.job_meta_validator import JobMetaValidator

from polydag.deployment.flare import job
from polydag.deployment.flare.relay import ALIVE, Relay

_PAUSE = 0.2
_SILENT = 90.0  # seconds without a sign of life of the controller
_FIRST_AGAIN, _LAST_AGAIN = 0.5, 10.0  # seconds between an ended job and the next
_STEADY = 30.0  # seconds after which a job counts as having started well
_ALIVE = {
    status.value
    for status in (RunStatus.SUBMITTED, RunStatus.APPROVED, RunStatus.DISPATCHED, RunStatus.RUNNING)
}


class Submitting(FLComponent):
    """Keeps one job of the study alive until all sites have finished."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin when the server has started."""
        if event_type == EventType.SYSTEM_START:
            workspace = Path(fl_ctx.get_workspace().get_root_dir())
            threading.Thread(target=self._run, args=(fl_ctx.get_engine(), workspace), daemon=True).start()

    def _run(self, engine: Any, workspace: Path) -> None:
        wait = _FIRST_AGAIN
        while not Relay.of(workspace).is_done:
            began = time.monotonic()
            try:
                self._one_job(engine, workspace)
            except Exception:  # a job that FLARE is just writing, or a full disk: it is tried again
                self.logger.exception("The study's job could not be submitted or watched.")
            time.sleep(wait)
            wait = _FIRST_AGAIN if time.monotonic() - began > _STEADY else min(2 * wait, _LAST_AGAIN)

    def _one_job(self, engine: Any, workspace: Path) -> None:
        """Submit the job when all its sites are there, and return when it has ended, or cannot go on."""
        relay = Relay.of(workspace)
        while not (sites := _connected(engine, relay)).keys() >= set(relay.sites):
            time.sleep(_PAUSE)
            relay = Relay.of(workspace)
        manager = engine.get_component(SystemComponents.JOB_MANAGER)
        current = self._submit(engine, manager, workspace, relay.sites)
        mark, since = relay.mark_of(ALIVE), time.monotonic()
        while not relay.is_done:
            time.sleep(_PAUSE)
            if (new := relay.mark_of(ALIVE)) != mark:
                mark, since = new, time.monotonic()
            elif time.monotonic() - since > _SILENT:  # FLARE hangs: the command starts the server again
                self.logger.warning("The job %s shows no sign of life; the server starts again.", current)
                os._exit(1)
            with engine.new_context() as fl_ctx:
                found = manager.get_job(current, fl_ctx)
                if found is not None and found.meta.get(JobMetaKey.STATUS.value) not in _ALIVE:
                    self.logger.warning("The job %s has ended early; another one goes on.", current)
                    return
                more = Relay.of(workspace)  # of other sites, where one takes part again
                if (now := _connected(engine, more)) != sites:  # FLARE waits for the parts that are gone
                    again = ", ".join(site for site in more.sites if now.get(site) != sites.get(site))
                    self.logger.warning("%s left or joined the job %s; another one goes on.", again, current)
                    engine.job_runner.stop_run(current, fl_ctx)
                    return

    @staticmethod
    def _submit(engine: Any, manager: Any, workspace: Path, sites: tuple[str, ...]) -> str:
        archive = workspace / "job.zip"
        job.write_zip(workspace / job.FOLDER, sites, archive)
        valid, error, meta = JobMetaValidator().validate(job.NAME, str(archive))
        if not valid:
            raise RuntimeError(f"NVIDIA FLARE does not accept the study's job: {error}")
        meta |= {
            JobMetaKey.STUDY.value: "default",
            JobMetaKey.SUBMITTER_NAME.value: job.PERSON,
            JobMetaKey.SUBMITTER_ORG.value: job.ORGANIZATION,
            JobMetaKey.SUBMITTER_ROLE.value: job.ROLE,
            JobMetaKey.JOB_FOLDER_NAME.value: job.NAME,
        }
        with engine.new_context() as fl_ctx:
            return str(manager.create(meta, str(archive), fl_ctx)[JobMetaKey.JOB_ID.value])


def _connected(engine: Any, relay: Relay) -> dict[str, str]:
    """The sites of the study that are connected, each with what FLARE knows its present process by."""
    return {client.name: client.token for client in engine.get_clients() if client.name in relay.sites}
