"""Files that polydag writes for itself: complete or absent, with a version and a checksum.

A sealed file is one line of ASCII, `polydag <kind> 1 sha256:<digest>`, and then the contents. `read` compares
the digest before anything interprets the contents, so damage of any sort (a flipped bit, a missing end,
another file under the same name) raises one `DataError` that names the file. A new layout of the contents is
a new `kind`. `read_arrays` and `write_arrays` keep arrays, without pickles. `replace_file` is the atomic
write alone, for files that other programs read.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     write(f"{folder}/notes", "notes", b"two lines")
...     read(f"{folder}/notes", "notes")
b'two lines'
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from polydag.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    AnyArray = NDArray[np.generic]

VERSION = 1
_LONGEST_HEADER = 200


def _header(kind: str, content: bytes) -> bytes:
    return f"polydag {kind} {VERSION} sha256:{hashlib.sha256(content).hexdigest()}\n".encode("ascii")


def write(path: str | os.PathLike[str], kind: str, content: bytes) -> None:
    """Write a sealed file that only its owner may read. `kind` is one word that says what it holds."""
    replace_file(path, _header(kind, content) + content, private=True)


def read(path: str | os.PathLike[str], kind: str) -> bytes:
    """The contents of a sealed file; `DataError` if it is absent, damaged, or of another kind or version."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    header, newline, content = raw[:_LONGEST_HEADER].partition(b"\n")
    words = header.decode("ascii", errors="replace").split(" ")
    if not newline or len(words) != 4 or words[0] != "polydag":
        raise DataError(f"{path} is damaged, or was not written by this version of polydag.")
    if words[1] != kind:
        raise DataError(f"{path} holds a {words[1]}, where a {kind} was expected.")
    if words[2] != str(VERSION):
        raise DataError(
            f"{path} has version {words[2]} of its format; this polydag reads version {VERSION}. "
            "Use the version of polydag that wrote it."
        )
    content = raw[len(header) + 1 :]
    if _header(kind, content) != header + newline:
        raise DataError(f"{path} is damaged: its contents do not match its checksum.")
    return content


def write_arrays(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, AnyArray]) -> None:
    """Write named arrays to a sealed file."""
    import numpy as np

    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **arrays)
    write(path, kind, out.getvalue())


def read_arrays(path: str | os.PathLike[str], kind: str) -> dict[str, AnyArray]:
    """The arrays of a sealed file that `write_arrays` wrote."""
    import zipfile

    import numpy as np

    content = read(path, kind)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} does not hold arrays ({error}).") from None


def replace_file(path: str | os.PathLike[str], content: bytes, *, private: bool = False) -> None:
    """Write a file completely or not at all: an old one stays until the new one is on the disk."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                if private:  # a site must not fall back to an older state after a power cut
                    file.flush()
                    os.fsync(file.fileno())
            if not private:
                umask = os.umask(0)
                os.umask(umask)
                Path(name).chmod(0o666 & ~umask)  # mkstemp's 0600 would lock other users out
            Path(name).replace(target)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error


def write_all(handle: int, content: bytes) -> None:
    """Write all bytes to a file descriptor; `os.write` may write a part when a disk is almost full."""
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]
