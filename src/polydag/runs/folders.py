"""Create run folders atomically, without ever overwriting other files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polydag.errors import DataError, UsageError

MANIFEST = ".files"  # lists the files written by a run; --force deletes no others


def next_free(parent: str | os.PathLike[str], stem: str) -> Path:
    """The first of `stem-1, stem-2, …` that neither exists nor is being written."""
    number = 1
    while _taken(Path(parent) / f"{stem}-{number}"):
        number += 1
    return Path(parent) / f"{stem}-{number}"


def last_partial(parent: str | os.PathLike[str], stem: str) -> Path:
    """The most recently changed interrupted run of this name, for --resume without --out."""
    found = [path for path in Path(parent).glob(f"{stem}-*.partial") if path.is_dir()]
    if not found:
        raise UsageError(
            f"There is nothing to resume: no interrupted run {Path(parent) / stem}-*. Name it with --out."
        )
    return max(found, key=lambda path: path.stat().st_mtime).with_suffix("")


def partial(out: Path) -> Path:
    """The folder that holds the unfinished run of `out`."""
    return out.with_name(f"{out.name}.partial")


def _taken(path: Path) -> bool:
    return path.exists() or partial(path).exists()


@contextmanager
def new_folder(out: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A hidden folder to write into; it becomes `out` if the block succeeds and is deleted otherwise."""
    target = Path(out)
    require_free(target, force=force)
    with explaining_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            yield hidden
            written = sorted(path.name for path in hidden.iterdir())
            (hidden / MANIFEST).write_text("".join(f"{name}\n" for name in written), encoding="utf-8")
            umask = os.umask(0)
            os.umask(umask)
            hidden.chmod(0o777 & ~umask)  # mkdtemp's 0700 would lock other users out
            _rename(hidden, target)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)


def require_free(out: Path, *, force: bool = False) -> None:
    """Raise `UsageError` if writing to `out` would overwrite anything without permission."""
    if not out.name:
        raise UsageError(f"{out} cannot be the name of a new folder.")
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file. Choose another name with --out.")
    inside = sorted(path.name for path in out.iterdir())
    if not inside:
        return
    if not force:
        raise UsageError(
            f"{out} already exists. Choose another folder with --out, or replace it with --force."
        )
    manifest = out / MANIFEST
    ours = {MANIFEST, *manifest.read_text(encoding="utf-8").splitlines()} if manifest.is_file() else set()
    if foreign := [name for name in inside if name not in ours]:
        raise UsageError(
            f"{out} is not replaced, because it contains {foreign[0]}, which no run has written. "
            "Choose another folder with --out."
        )


def _rename(hidden: Path, target: Path) -> None:
    if not target.exists():
        hidden.replace(target)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    target.replace(old)
    try:
        hidden.replace(target)
    except BaseException:
        old.replace(target)
        raise
    shutil.rmtree(old)


@contextmanager
def explaining_write_errors(out: Path) -> Iterator[None]:
    """Turn operating system errors, such as a full disk, into a `DataError` about `out`."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{out} cannot be written: {error.strerror or error}. No partial files remain."
        ) from error
