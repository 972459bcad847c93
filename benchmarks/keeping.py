"""What all benchmarks share: where figures were taken, and how they are kept."""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def machine(*packages: str) -> dict[str, str]:
    """The date, the machine, and the versions of Python, NumPy and `packages`."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    versions = {name: importlib.metadata.version(name) for name in ("numpy", *packages)}
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": model or platform.processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        **versions,
    }


def keep(name: str, rows: Iterable[Mapping[str, Any]], place: Mapping[str, str]) -> Path:
    """Write figures to results/NAME.csv, replacing what was there; rows that say so are of another day."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    full = [{**row, **{key: place[key] for key in place if key not in row}} for row in rows]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(full[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(full)
    print(f"kept in {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")
    return path
