"""Options that several commands share, and how lists are written."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How results are shown."""

    text = "text"
    json = "json"


class MissingChoice(StrEnum):
    """What to do about missing values."""

    error = "error"
    drop = "drop"
    impute = "impute"
    testwise = "testwise"
    em = "em"
    multiple = "multiple"


class Transport(StrEnum):
    """What carries the files of a study between its parties."""

    files = "files"
    nvflare = "nvflare"


class Approve(StrEnum):
    """When the owner of a site is asked."""

    once = "once"
    always = "always"
    ask = "ask"


OutputFormat = Annotated[
    Format, typer.Option("--format", help="The format of the result on standard output.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no notes.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output of an earlier run.")]
Watch = Annotated[
    bool, typer.Option("--watch", help="Serve a page on this machine that follows the run, until Ctrl-C.")
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="The folder to write; a new one by default.")]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="The random seed; drawn and recorded by default.")
]


def column_list(text: str | None) -> tuple[str, ...] | None:
    """The names in a comma-separated list; a name with a comma is quoted as in CSV."""
    if text is None:
        return None
    import csv

    from polydag.errors import UsageError

    names = tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []))
    if not names or not all(names):
        raise UsageError(f"--columns is a list of names such as age,income; got {text!r}.")
    return names


def kind_map(texts: list[str] | None) -> dict[str, str]:
    """The kinds written as NAME=KIND."""
    from polydag.errors import UsageError

    result = {}
    for text in texts or ():
        name, equals, kind = text.rpartition("=")
        if not equals or not name or kind not in ("continuous", "discrete"):
            raise UsageError(f"--kind is NAME=continuous or NAME=discrete; got {text!r}.")
        result[name] = kind
    return result


def transform_map(texts: list[str] | None) -> dict[str, str]:
    """The transformations written as NAME=log, NAME=rank or NAME=none."""
    from polydag.data.transform import TRANSFORMS
    from polydag.errors import UsageError

    result = {}
    for text in texts or ():
        name, equals, how = text.rpartition("=")
        if not equals or not name or how not in TRANSFORMS:
            raise UsageError(f"--transform is NAME=log, NAME=rank or NAME=none; got {text!r}.")
        result[name] = how
    return result
