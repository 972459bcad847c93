"""Startup kits with certificates, made by NVIDIA FLARE's own provisioning.

The kit of a site is the folder `flare` in its polydag kit; that of the server is in the private part of the
study's folder, and so is the key of the authority that signed all certificates. Nobody gets an
administrator's kit: the study's job is signed here, and the key that signed it is not kept.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polydag.deployment.channels import KIT
from polydag.deployment.flare import job
from polydag.errors import DataError, UsageError

_AUTHORITY = "authority"
_VALID_DAYS = 3600  # of the authority's own certificate; FLARE gives 360 days to the others

_AUTHORIZATION: dict[str, Any] = {
    "format_version": "1.0",
    "permissions": {job.ROLE: {"submit_job": "any", "byoc": "none"}},
}
_LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {
        "file": {
            "class": "logging.handlers.RotatingFileHandler",
            "formatter": "plain",
            "filename": "log.txt",
            "maxBytes": 5_000_000,
            "backupCount": 2,
        }
    },
    "loggers": {"root": {"level": "WARNING", "handlers": ["file"]}},
}


def require_nvflare() -> None:
    """Raise a `UsageError` where NVIDIA FLARE is not installed."""
    from importlib.util import find_spec

    if find_spec("nvflare") is None:
        raise UsageError("NVIDIA FLARE is not installed here: pip install 'polydag[federation]'.")


def provision(private: Path, kits: Mapping[str, Path], server: str, port: int) -> None:
    """Write startup kits for the server, in `private`, and for the sites, in their kits.

    Where `private` has an authority already, new certificates and keys are signed by it.
    """
    require_nvflare()
    from nvflare.lighter.constants import CtxKey
    from nvflare.lighter.entity import Participant, Project
    from nvflare.lighter.impl.cert import CertBuilder
    from nvflare.lighter.impl.signature import SignatureBuilder
    from nvflare.lighter.impl.static_file import StaticFileBuilder
    from nvflare.lighter.impl.workspace import WorkspaceBuilder
    from nvflare.lighter.provisioner import Provisioner

    require_names(server, port, tuple(kits))
    ports = {"fed_learn_port": port, "admin_port": port}
    people = [Participant("server", server, job.ORGANIZATION, ports)]
    people += [Participant("client", site, job.ORGANIZATION) for site in kits]
    people += [Participant("admin", job.PERSON, job.ORGANIZATION, {"role": job.ROLE})]
    builders = [
        WorkspaceBuilder(["master_template.yml"]),
        StaticFileBuilder(config_folder="config", scheme="grpc"),
        CertBuilder(root_valid_days=_VALID_DAYS),
        SignatureBuilder(),
    ]
    with tempfile.TemporaryDirectory(dir=private) as folder:
        authority, state = private / KIT / _AUTHORITY, Path(folder) / job.NAME / "state"
        if authority.is_dir():
            shutil.copytree(authority, state)
        messages = _Messages()
        context = Provisioner(folder, builders).provision(Project(job.NAME, "", people), logger=messages)
        if context.get(CtxKey.BUILD_ERROR):
            raise DataError(f"NVIDIA FLARE could not make the startup kits: {'; '.join(messages.errors)}")
        made = Path(context[CtxKey.CURRENT_PROD_DIR])
        for name, target in {
            server: private / KIT,
            **{site: kit / KIT for site, kit in kits.items()},
        }.items():
            shutil.copytree(made / name, target, dirs_exist_ok=True)
            for name, content in (("authorization", _AUTHORIZATION), ("log_config", _LOGGING)):
                (target / "local" / f"{name}.json").write_text(json.dumps(content, indent=1))
        shutil.rmtree(private / KIT / job.FOLDER, ignore_errors=True)
        job.write_signed(private / KIT / job.FOLDER, made / job.PERSON / "startup")
        _keep_authority(state, authority)
    for target in (private / KIT, *(kit / KIT for kit in kits.values())):
        for path in (target, *target.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)


def _keep_authority(state: Path, target: Path) -> None:
    """Keep the authority's own certificate and key, and none of the others."""
    known = json.loads((state / "cert.json").read_text(encoding="utf-8"))
    target.mkdir(exist_ok=True)
    own = {name: value for name, value in known.items() if isinstance(value, str)}
    (target / "cert.json").write_text(json.dumps(own), encoding="utf-8")


class _Messages:
    """What FLARE says while it makes the kits; only its errors matter."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def error(self, text: str) -> None:
        """Keep an error."""
        self.errors.append(text)

    def info(self, text: str) -> None:
        """Leave what is no error."""

    debug = warning = info


def require_names(server: str, port: int, sites: tuple[str, ...]) -> None:
    """Raise a `UsageError` where FLARE does not accept a name or the port."""
    from nvflare.apis.utils.format_check import name_check

    if not 0 < port < 65536:
        raise UsageError(f"--port must be from 1 to 65535; got {port}.")
    if name_check(server, "server")[0]:
        raise UsageError(f"--server must be a host name such as coordinator.example.org; got {server!r}.")
    if wrong := [site for site in sites if name_check(site, "client")[0] or site in (server, "server")]:
        raise UsageError(
            "With NVIDIA FLARE, the name of a site has letters, digits, - and _ only, and is not that of the "
            f"server; got {wrong[0]!r}."
        )
