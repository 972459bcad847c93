"""Checkpoints: the pieces of a long computation survive an interruption.

Inside `saving(folder, fingerprint)`, `piece(key, compute)` stores its result in the folder and loads it from
there the next time. Outside such a block it only computes. The fingerprint identifies the computation: a
folder that was started with a different fingerprint is refused. A piece that is damaged is computed again.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from polydag import sealed_files
from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Piece = dict[str, NDArray[np.generic]]

FINGERPRINT, SUFFIX = "fingerprint", ".piece"
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
        sealed_files.write(fingerprint_file, "fingerprint", json.dumps(dict(fingerprint)).encode())
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
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}{SUFFIX}"
    if path.exists():
        try:
            return sealed_files.read_arrays(path, "piece")
        except DataError:
            path.unlink(missing_ok=True)  # damaged, for example by a power cut: compute it again
    token = _folder.set(None)  # a nested piece is part of this one, so its key need not be unique
    try:
        result = compute()
    finally:
        _folder.reset(token)
    sealed_files.write_arrays(path, "piece", result)
    return result


def has_pieces(folder: str | os.PathLike[str]) -> bool:
    """Whether the folder holds anything that a resumed run can use."""
    return any(Path(folder).glob(f"*{SUFFIX}"))


def read_fingerprint(folder: str | os.PathLike[str]) -> dict[str, str]:
    """The fingerprint of the computation whose pieces are in the folder."""
    path = Path(folder) / FINGERPRINT
    if not path.exists():
        raise UsageError(f"There is nothing to resume: {folder} holds no interrupted run.")
    try:
        content = json.loads(sealed_files.read(path, "fingerprint"))
    except DataError as error:
        raise DataError(f"{error} Start over with --force.") from None
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
