"""A paper's tables and figures: which are asked for, computed with a resumable state, written to a folder."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

PAPERS = {
    "federated": "polydag.reproduce.federated",
    "linked": "polydag.reproduce.linked",
    "multitask": "polydag.reproduce.multitask",
}


class Reproduction(NamedTuple):
    """What is to be computed; `tables` are numbered as in the paper's module."""

    paper: str
    tables: list[int]
    seeds: int
    preset: str
    settings: Mapping[str, Any]

    @property
    def module(self) -> Any:
        """The module that reproduces the paper."""
        return importlib.import_module(PAPERS[self.paper])


class Reproduced(NamedTuple):
    """Tables by name, pictures (SVG) by name, and notes."""

    tables: dict[str, pd.DataFrame]
    pictures: dict[str, str]
    notes: list[str]


def reproduction(
    paper: str,
    tables: list[int],
    figures: list[int],
    *,
    seeds: int | None,
    preset: str,
    settings: Mapping[str, Any],
) -> Reproduction:
    """What the options ask for; raises for what a paper does not have."""
    if paper not in PAPERS:
        raise UsageError(f"No paper is called {paper!r}. Known are {', '.join(PAPERS)}.")
    module = importlib.import_module(PAPERS[paper])
    if settings and not hasattr(module, "SETTINGS"):
        raise UsageError(f"The reproduction of the {paper} paper has nothing to --set.")
    if tables and getattr(module, "ONLY_FIGURES", False):
        raise UsageError(f"The results of the {paper} paper are figures: use --figure {tables[0]}.")
    if unknown := [number for number in figures if number not in module.FIGURES]:
        raise UsageError(
            f"Figure {unknown[0]} holds no results; those that do: {', '.join(map(str, module.FIGURES))}."
        )
    wanted = sorted({*tables, *(module.FIGURES[number] for number in figures)})
    trials: int = getattr(module, "TRIALS", 10)
    return Reproduction(paper, wanted or list(module.TABLES), seeds or trials, preset, settings)


def compute(asked: Reproduction, folder: Path, *, resume: bool, force: bool) -> Reproduced:
    """Compute what is asked for; an interruption leaves finished parts beside the folder."""
    from polydag import __version__, runs
    from polydag.computing import checkpoint

    fingerprint = {
        "polydag": __version__,
        "paper": asked.paper,
        "preset": f"{asked.preset} {dict(asked.settings)}",
    }
    module, more = asked.module, {"settings": asked.settings} if asked.settings else {}
    with (
        runs.unfinished_run(folder, resume=resume, force=force) as unfinished,
        checkpoint.saving(unfinished, fingerprint),
    ):
        tables: dict[str, pd.DataFrame] = module.run(asked.tables, asked.seeds, asked.preset, **more)
    pictures = module.pictures(tables) if hasattr(module, "pictures") else {}
    notes = module.notes(tables) if hasattr(module, "notes") else []
    return Reproduced(tables, pictures, notes)


def write(found: Reproduced, folder: Path, *, force: bool) -> None:
    """Write tables as CSV and text, pictures and notes; nothing is left to resume then."""
    from polydag import runs

    with runs.new_folder(folder, force=force) as hidden:
        for name, frame in found.tables.items():
            frame.to_csv(hidden / f"{name}.csv", index=False, lineterminator="\n")
            if name.startswith("table"):
                (hidden / f"{name}.txt").write_text(as_text(frame), encoding="utf-8")
        for name, drawn in found.pictures.items():
            (hidden / f"{name}.svg").write_text(drawn, encoding="utf-8")
        if found.notes:
            text = "".join(f"{note}\n" for note in found.notes)
            (hidden / "notes.txt").write_text(text, encoding="utf-8")
    shutil.rmtree(runs.partial(folder), ignore_errors=True)


def as_text(frame: pd.DataFrame) -> str:
    """A table for people."""
    text: str = frame.to_string(index=False, float_format=lambda value: f"{value:.2f}")
    return f"{text}\n"
