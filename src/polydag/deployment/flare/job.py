"""The job of a study in NVIDIA FLARE: which of our classes run at the server and at the sites.

The job is signed when the study is made, by a person whose key is then thrown away: nobody can submit another
one. It names classes that polydag installs, and sends no code.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAME, APP, TASK = "polydag", "app", "question"
FOLDER, STORE = "job", "jobs"
PERSON, ORGANIZATION, ROLE = "coordinator@polydag.org", "polydag", "lead"

SERVER: dict[str, Any] = {
    "format_version": 2,
    "server": {"heart_beat_timeout": 600, "task_request_interval": 0.05},
    "task_data_filters": [],
    "task_result_filters": [],
    "components": [],
    "workflows": [{"id": "asking", "path": "polydag.deployment.flare.asking.Asking", "args": {}}],
    "dead_client_grace_period": 2.0,
    "dead_client_check_lead_time": 2.0,
}
SITE: dict[str, Any] = {
    "format_version": 2,
    "executors": [
        {"tasks": [TASK], "executor": {"path": "polydag.deployment.flare.answering.Answering", "args": {}}}
    ],
    "task_data_filters": [],
    "task_result_filters": [],
    "components": [],
    "task_check_interval": 1.0,
}


def write_signed(folder: Path, person: Path) -> None:
    """Write the job's app, signed with the key and the certificate in the startup kit of a person."""
    from nvflare.lighter.utils import load_private_key_file, sign_folders

    config = folder / APP / "config"
    config.mkdir(parents=True)
    for name, content in (("config_fed_server", SERVER), ("config_fed_client", SITE)):
        (config / f"{name}.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    sign_folders(str(folder), load_private_key_file(str(person / "client.key")), str(person / "client.crt"))


def write_zip(folder: Path, sites: Sequence[str], target: Path) -> None:
    """Write the archive of the signed job for some sites, all of which must take part."""
    meta = {
        "name": NAME,
        "resource_spec": {},
        "min_clients": len(sites),
        "mandatory_clients": list(sites),
        "deploy_map": {APP: ["server", *sites]},
    }
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(f"{NAME}/meta.json", json.dumps(meta))
        for path in sorted(folder.rglob("*")):
            archive.write(path, f"{NAME}/{path.relative_to(folder)}")
