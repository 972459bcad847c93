"""The exchange folders at both ends of FLARE, and what the parties tell FLARE's processes of the study.

FLARE's processes see names and bytes of `.polydag` files. They cannot open them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from polydag.errors import DataError
from polydag.sealed_files import replace_file

EXCHANGE, ABOUT, DONE, SENT, ALIVE = "exchange", "study.json", "done", "sent", "alive"
PARENT = "POLYDAG_PARENT"  # in the environment: the process that a process of FLARE must not outlive
LARGEST = 1 << 30  # bytes of a file
QUESTION, ANSWER, JOIN = "question", "answer", "join"
HOLD = 15.0  # seconds after which a site without an answer says that it is still there
NAME, CONTENT, FINISHED = "name", "content", "finished"  # of what goes through FLARE
_NUMBERED = re.compile(r"(?P<kind>question|answer)-(?P<number>[0-9]{1,9})-(?P<site>[A-Za-z0-9_-]+)\.polydag")


@dataclass(frozen=True)
class Relay:
    """One party's files.

    Attributes
    ----------
    files : Path
        The study's part of the party's exchange folder.
    sites : tuple of str
        The sites that take part.
    """

    files: Path
    sites: tuple[str, ...]

    def write(self, workspace: Path) -> None:
        """Tell FLARE's processes, which work in this folder."""
        content = {"files": str(self.files), "sites": list(self.sites)}
        replace_file(workspace / ABOUT, json.dumps(content).encode(), private=True)

    @classmethod
    def of(cls, workspace: Path) -> Self:
        """What `write` has told."""
        found: dict[str, Any] = json.loads((workspace / ABOUT).read_text(encoding="utf-8"))
        return cls(Path(found["files"]), tuple(found["sites"]))

    def questions(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """For each site the name of the last question to it, and a mark that changes with the file."""
        found: dict[str, tuple[int, str, tuple[int, int]]] = {}
        for path in _files(self.files):
            parts = _NUMBERED.fullmatch(path.name)
            if parts is None or parts["kind"] != QUESTION or parts["site"] not in self.sites:
                continue
            try:
                about = path.stat()
            except OSError:
                continue  # it has served
            one = (int(parts["number"]), path.name, (about.st_mtime_ns, about.st_ino))
            found[parts["site"]] = max(found.get(parts["site"], one), one)
        return {site: (name, mark) for site, (_, name, mark) in found.items()}

    def put(self, name: str, content: bytes) -> None:
        """Place a file that FLARE has brought."""
        self.files.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(self.files / name, content)

    def read(self, name: str) -> bytes | None:
        """A file, where it is there."""
        try:
            if (self.files / name).stat().st_size > LARGEST:
                raise DataError(f"{name} is larger than {LARGEST} bytes")
            return (self.files / name).read_bytes()
        except OSError:
            return None

    def mark_of(self, name: str) -> int:
        """A number that changes when a file is written."""
        try:
            return (self.files / name).stat().st_mtime_ns
        except OSError:
            return 0

    def forget_before(self, name: str) -> None:
        """Remove what a site was asked, or has answered, before the file of this name."""
        parts = _NUMBERED.fullmatch(name)
        if parts is None:
            return
        for path in _files(self.files):
            other = _NUMBERED.fullmatch(path.name)
            if other is None or (other["kind"], other["site"]) != (parts["kind"], parts["site"]):
                continue
            if int(other["number"]) < int(parts["number"]):
                path.unlink(missing_ok=True)

    @property
    def is_done(self) -> bool:
        """Whether the party has finished the study."""
        return (self.files / DONE).exists()

    def set_done(self) -> None:
        """Say that the party has finished the study."""
        self.put(DONE, b"")


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []  # not there yet


def is_name_of(name: object, kind: str, site: str) -> bool:
    """Whether a name that came through FLARE is that of a file of this kind and site, and no path."""
    if kind == JOIN:
        return name == f"{JOIN}-{site}.polydag"
    parts = _NUMBERED.fullmatch(name) if isinstance(name, str) else None
    return parts is not None and parts["kind"] == kind and parts["site"] == site


def answer_to(question: str) -> str:
    """The name of the answer to a question."""
    return ANSWER + question.removeprefix(QUESTION)
