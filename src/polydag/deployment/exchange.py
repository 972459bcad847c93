"""A folder that the parties can see as the channel: each side watches it, and goes on by itself.

A file appears there under its final name only when it is whole; what is still being copied is left alone.
Nothing depends on clocks or on the order in which files arrive. Each side puts its own file back if it
disappears before it has served, and removes it afterwards, so a lost, repeated, late or overwritten file
costs time and nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from polydag.deployment import envelopes
from polydag.deployment.envelopes import SUFFIX
from polydag.deployment.site import File
from polydag.errors import DataError
from polydag.sealed_files import replace_file

_NAME = re.compile(
    rf"(?P<kind>join|question|answer)(?:(?<!join)-(?P<number>[0-9]{{1,9}}))?-(?P<site>.+){re.escape(SUFFIX)}"
)
_SHORTEST, _LONGEST = 0.01, 1.0  # seconds between two looks at the folder
_SETTLED = 2.0  # seconds after which an unchanged file is no longer taken for one that is being copied
_FIRST_AGAIN, _LAST_AGAIN = 1.0, 60.0  # seconds until a file that has disappeared is put back

_Seen = tuple[int, int, int]


@dataclass(frozen=True)
class Arrived:
    """A file in the folder."""

    name: str
    content: bytes


class Exchange:
    """One study's part of a folder, as one of its parties sees it.

    Parameters
    ----------
    folder : path
        The folder that all parties can see.
    study : str
        The name of the study.
    """

    def __init__(self, folder: str | Path, study: str) -> None:
        self.folder = Path(folder) / f"study-{study[:16]}"
        self._done: dict[str, _Seen] = {}
        self._doubtful: dict[str, tuple[_Seen, float]] = {}
        self._placed: dict[str, _Placed] = {}
        self._pause = _SHORTEST
        self.trouble = ""  # why a file cannot be placed at present
        if not Path(folder).is_dir():
            raise DataError(f"{folder} is not a folder. Create it where all parties of the study can see it.")

    def arrived(self, *kinds: str, site: str | None = None) -> Iterator[Arrived]:
        """New or changed files of some kinds, the earliest questions first; none twice."""
        for name in self._names(kinds, site):
            path = self.folder / name
            if (seen := _seen(path)) is None or self._done.get(name) == seen:
                continue
            try:
                content = envelopes.read_file(path)
            except DataError:
                content = b""
            if _seen(path) != seen:
                continue  # it is being written
            self._done[name] = seen
            yield Arrived(name, content)

    def _names(self, kinds: tuple[str, ...], site: str | None) -> list[str]:
        try:
            names = [path.name for path in self.folder.iterdir()]
        except OSError:
            return []  # not there yet, or out of reach for a while
        found = []
        for name in names:
            parts = _NAME.fullmatch(name)
            if parts and parts["kind"] in kinds and site in (None, parts["site"]):
                found.append((int(parts["number"] or 0), name))
        return [name for _, name in sorted(found)]

    def is_settled(self, arrived: Arrived) -> bool:
        """Whether a file that cannot be read has stayed as it is: then it is damaged, not on its way."""
        seen, now = self._done.get(arrived.name), time.monotonic()
        if seen is None:
            return False
        before = self._doubtful.get(arrived.name)
        if before is None or before[0] != seen:
            self._doubtful[arrived.name] = (seen, now)
        elif now - before[1] >= _SETTLED:
            return True
        del self._done[arrived.name]  # look again
        return False

    def put(self, file: File) -> None:
        """Place a file, whole under its name or not at all; it is put back while it is not removed."""
        self._placed[file.name] = _Placed(file.content)
        self._place(file.name)
        self._pause = _SHORTEST

    def deliver(self, file: File) -> None:
        """Place a file that is the last one: it stays there."""
        self.put(file)

    def _place(self, name: str) -> None:
        placed = self._placed[name]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.folder / name, placed.content)
        except (OSError, DataError) as error:  # out of reach for a while: it is tried again
            placed.seen, self.trouble = None, str(error)
            return
        placed.seen, self.trouble = _seen(self.folder / name), ""

    def remove_others(self, names: set[str]) -> None:
        """Remove one's own files but these: they have served."""
        for name in set(self._placed) - names:
            del self._placed[name]
            try:
                (self.folder / name).unlink(missing_ok=True)
            except OSError:  # the channel keeps what was sent
                continue

    def wait(self, *, active: bool) -> None:
        """Pause before the next look, longer the longer nothing happens; put back what is missing."""
        self._pause = _SHORTEST if active else min(2 * self._pause, _LONGEST)
        time.sleep(self._pause)
        now = time.monotonic()
        for name, placed in self._placed.items():
            lost = placed.seen is None or _seen(self.folder / name) != placed.seen
            if lost and now >= placed.again:
                placed.wait = min(2 * placed.wait, _LAST_AGAIN)
                placed.again = now + placed.wait
                self._place(name)


@dataclass
class _Placed:
    content: bytes
    seen: _Seen | None = None
    wait: float = _FIRST_AGAIN / 2
    again: float = 0.0


def _seen(path: Path) -> _Seen | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns, about.st_ino
