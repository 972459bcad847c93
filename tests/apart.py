"""Studies whose sites run apart, each step by endpoints that read their state from the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from typer.testing import CliRunner

from polydag import simulate
from polydag.cli.main import app
from polydag.deployment.coordinator import CoordinatorEndpoint, new_study
from polydag.deployment.description import described
from polydag.deployment.site import SiteEndpoint
from polydag.studies.config.shapes import PartiesConfig
from polydag.studies.result import Result

SITES = ("north", "south", "west")
PATIENCE = 300  # seconds, on a busy machine


def tables(folder: Path, seed: int = 1) -> dict[str, Path]:
    """Three tables of one linear model."""
    rows = simulate.linear(simulate.dag(5, n_edges=5, random_state=seed), n=150, random_state=seed)
    files = {}
    for number, site in enumerate(SITES):
        files[site] = folder / f"{site}.csv"
        rows[50 * number : 50 * (number + 1)].to_csv(files[site], index=False)
    return files


def begun(folder: Path, files: Mapping[str, Path], config: PartiesConfig) -> tuple[list[Path], list[bytes]]:
    """The kits of a new study in `folder`, and the files with which its sites join."""
    kits = new_study(folder / "study", described(config), folder)
    joined = [
        SiteEndpoint(kit).join(str(files[site]), folder / f"home-{site}", solvable=True).content
        for site, kit in zip(config.data, kits, strict=True)
    ]
    return kits, joined


def run_apart(folder: Path, files: Mapping[str, Path], config: PartiesConfig) -> Result:
    """The result of a study, after whatever number of rounds."""
    kits, inbox = begun(folder, files, config)
    coordinator = CoordinatorEndpoint(folder / "study")
    sites = [SiteEndpoint(kit) for kit in kits]
    for site in sites:
        site.__enter__()
    try:
        for _ in range(1000):
            assert coordinator.receive(inbox) == []
            assert not coordinator.refused
            answers = [
                site.receive(q.content) for site, q in zip(sites, coordinator.questions(), strict=True)
            ]
            inbox = [answer.content for answer in answers if answer is not None]
            if coordinator.finished:
                return coordinator.result()
    finally:
        for site in sites:
            site.__exit__()
    raise AssertionError("the study does not end")


def polydag(*words: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.output


class Processes:
    """Real processes of one study, ended by their ids."""

    def __init__(self, folder: Path, method: str = "boss", *options: str) -> None:
        self.folder, self.files = folder, tables(folder)
        self.running: dict[str, subprocess.Popen[str]] = {}
        init = ("federation", "init", folder / "study", "--sites", ",".join(SITES))
        polydag(*init, "--method", method, "--seed", 3, *options)
        (folder / "exchange").mkdir()

    def start(self, who: str) -> None:
        words = ["coordinator", "run", "study"]
        if who != "coordinator":
            words = ["site", "start", f"kit-{who}", "--data", str(self.files[who]), "--home", f"home-{who}"]
            words += ["--approve", "always", "--solvable"]
        self.running[who] = subprocess.Popen(
            [sys.executable, "-m", "polydag", *words, "--exchange", "exchange"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"},
        )

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.running.values():
            process.kill()
            process.communicate()

    def finish(self, who: str) -> str:
        output, _ = self.running.pop(who).communicate(timeout=PATIENCE)
        return output
