"""Checkpoints: the pieces of a long computation survive an interruption.

Inside `saving(folder, fingerprint)`, `piece(key, compute)` stores its result in the folder and loads it from
there the next time. Outside such a block it only computes. The fingerprint identifies the computation: a
folder that was started with a different fingerprint is refused.

Call `piece` in the process that opened the block. Worker processes compute but do not store.

>>> import tempfile
>>> import numpy as np
>>> with tempfile.TemporaryDirectory() as folder, saving(folder, {"seed": "1"}):
...     first = piece("scores", lambda: {"score": np.ones(2)})
...     again = piece("scores", lambda: {"score": np.zeros(2)})
>>> again["score"].tolist()
[1.0, 1.0]
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Piece = dict[str, NDArray[np.generic]]

FINGERPRINT = "fingerprint.json"
_folder: ContextVar[Path | None] = ContextVar("folder", default=None)


@contextmanager
def saving(folder: str | os.PathLike[str], fingerprint: Mapping[str, str]) -> Iterator[None]:
    """Store the pieces computed inside the block in `folder`, and reuse those that are already there."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    fingerprint_file = path / FINGERPRINT
    if fingerprint_file.exists():
        _require_same_fingerprint(read_fingerprint(path), dict(fingerprint), path)
    else:
        text = json.dumps(dict(fingerprint), indent=1, ensure_ascii=False)
        _write(fingerprint_file, lambda file: file.write(text.encode()))
    token = _folder.set(path)
    try:
        yield
    finally:
        _folder.reset(token)


def piece(key: str, compute: Callable[[], Piece]) -> Piece:
    """The arrays that `compute` returns: loaded if already stored, otherwise computed and stored."""
    folder = _folder.get()
    if folder is None:
        return compute()
    import numpy as np

    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"
    if path.exists():
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            path.unlink()  # damaged, for example by a power cut: compute it again
    token = _folder.set(None)  # a nested piece is part of this one, so its key need not be unique
    try:
        result = compute()
    finally:
        _folder.reset(token)
    _write(path, lambda file: np.savez(file, allow_pickle=False, **result))
    return result


def has_pieces(folder: str | os.PathLike[str]) -> bool:
    """Whether the folder holds anything that a resumed run can use."""
    return any(Path(folder).glob("*.npz"))


def read_fingerprint(folder: str | os.PathLike[str]) -> dict[str, str]:
    """The fingerprint of the computation whose pieces are in the folder."""
    path = Path(folder) / FINGERPRINT
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"There is nothing to resume: {folder} holds no interrupted run.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}). Start over with --force.") from None
    return {str(name): str(value) for name, value in content.items()}


def _require_same_fingerprint(before: dict[str, str], now: dict[str, str], folder: Path) -> None:
    changed = [
        f"{name} was {before.get(name, 'not given')}, now {now.get(name, 'not given')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise UsageError(
            f"{folder} belongs to a different run: {'; '.join(changed)}. "
            "Use the same settings as before, or start over with --force."
        )


def _write(path: Path, write: Callable[[Any], object]) -> None:
    """Write to a temporary file and rename it, so that `path` is never left half written."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error
