"""Create run folders atomically, without ever overwriting other files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from polydag.computing.checkpoint import has_pieces
from polydag.errors import DataError, UsageError
from polydag.runs.claims import LOCK, claimed

MANIFEST = ".files"  # lists the files written by a run; --force deletes no others


def next_free(parent: str | os.PathLike[str], stem: str) -> Path:
    """The first of `stem-1, stem-2, …` that neither exists nor is being written."""
    number = 1
    while _taken(Path(parent) / f"{stem}-{number}"):
        number += 1
    return Path(parent) / f"{stem}-{number}"


def last_partial(parent: str | os.PathLike[str], stem: str) -> Path | None:
    """The most recently changed interrupted run of this name, for --resume without --out, if there is one."""
    found = [path for path in Path(parent).glob(f"{stem}-*.partial") if path.is_dir()]
    return max(found, key=lambda path: path.stat().st_mtime).with_suffix("") if found else None


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
    stage = target.with_name(f".{target.name}.writing")
    with explaining_write_errors(target), claimed(stage, target):
        try:
            new, old = stage / "new", stage / "old"
            if old.exists() and not target.exists():  # a run was killed just when it replaced the folder
                old.replace(target)
                require_free(target, force=force)
            _clear(stage)
            new.mkdir()
            yield new
            written = sorted(path.name for path in new.iterdir())
            (new / MANIFEST).write_text("".join(f"{name}\n" for name in written), encoding="utf-8")
            _exchange(new, target, old)
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Delete what a killed run has left in a folder that is now claimed."""
    for path in folder.iterdir():
        if path.name == LOCK:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _exchange(new: Path, target: Path, old: Path) -> None:
    if target.exists():
        target.replace(old)
    try:
        new.replace(target)
    except BaseException:
        if old.exists():
            old.replace(target)
        raise


@contextmanager
def unfinished_run(out: Path, *, resume: bool, force: bool) -> Iterator[Path]:
    """The folder of an unfinished run, which this process alone may use; it is found if resumed, or made.

    After an error it is kept if it holds anything that a resumed run can use, and the error says so. After
    invalid settings or data there is nothing to resume.
    """
    folder = partial(out)
    require_free(out, force=force)
    with ExitStack() as held:
        with explaining_write_errors(out):
            held.enter_context(claimed(folder, out))
        if not resume:
            if has_pieces(folder) and not force:
                raise UsageError(
                    f"{folder} belongs to an interrupted run. Continue with --resume, start over with "
                    "--force, or choose another folder with --out."
                )
            with explaining_write_errors(out):
                _clear(folder)
        try:
            yield folder
        except BaseException as error:
            hopeless = not resume and not _resuming_may_help(error)
            if hopeless or not has_pieces(folder):
                shutil.rmtree(folder, ignore_errors=True)
            elif _resuming_may_help(error):
                error.add_note(f"Finished parts are kept in {folder}: add --out {out} --resume to continue.")
            raise


def _resuming_may_help(error: BaseException) -> bool:
    """Whether resuming can succeed: not after invalid settings or data, but after, say, a full disk."""
    invalid = isinstance(error, UsageError | DataError) and not isinstance(error.__cause__, OSError)
    return not invalid


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


@contextmanager
def explaining_write_errors(out: Path) -> Iterator[None]:
    """Turn operating system errors, such as a full disk, into a `DataError` about `out`."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{out} cannot be written: {error.strerror or error}. No partial files remain."
        ) from error
