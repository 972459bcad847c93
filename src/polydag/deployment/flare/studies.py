"""Studies whose files NVIDIA FLARE carries are made, and their certificates renewed."""

from __future__ import annotations

import shutil
from pathlib import Path

from polydag.deployment.channels import KIT
from polydag.deployment.coordinator import PRIVATE, STUDY, new_study
from polydag.deployment.description import Description, Signed
from polydag.deployment.flare.provisioning import provision, require_names, require_nvflare
from polydag.deployment.packing import read_json, write_json
from polydag.errors import UsageError

_ADDRESS = "address.json"


def new_flare_study(folder: Path, description: Description, kits: Path, server: str, port: int) -> list[Path]:
    """Make a study's folder and one kit for each site, with FLARE's startup kits; returns the kits."""
    require_nvflare()
    require_names(server, port, description.sites)
    made = new_study(folder, description, kits)
    try:
        provision(folder / PRIVATE, dict(zip(description.sites, made, strict=True)), server, port)
        write_json(folder / PRIVATE / KIT / _ADDRESS, {"server": server, "port": port})
    except BaseException:
        for path in (folder, *made):
            shutil.rmtree(path, ignore_errors=True)
        raise
    return made


def renewed(study: Path, kits: Path) -> dict[str, Path]:
    """New certificates of the study's authority: the server's in their place, the sites' in a new folder."""
    require_nvflare()
    if not (study / PRIVATE / KIT).is_dir():
        raise UsageError(f"{study} is no study with --transport nvflare: nothing expires.")
    if kits.exists():
        raise UsageError(f"{kits} already exists. Choose another folder with --kits.")
    address = read_json(study / PRIVATE / KIT / _ADDRESS)
    folders = {site: kits / f"kit-{site}" for site in Signed.read(study / STUDY).description.sites}
    for folder in folders.values():
        folder.mkdir(parents=True, mode=0o700)
    provision(study / PRIVATE, folders, address["server"], int(address["port"]))
    return {site: folder / KIT for site, folder in folders.items()}
