"""Read text files, compressed or not, and write them atomically."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from polydag.errors import DataError
from polydag.sealed_files import replace_file

LARGEST = 1 << 30  # bytes after decompression; a small file can expand to a thousand times its size


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, decompressed if its name ends in `.gz`."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            raw = file.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise DataError(f"{path} holds more than 1 GB of text, which is too much for a graph.")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(f"{path}: line {line} is not UTF-8 text; save the file as UTF-8.") from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path}: cannot be read ({reason}).") from error


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text; `path` is never left half written."""
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        bad = text[error.start : error.end]
        raise DataError(
            f"{path}: a name contains {bad!r}, which UTF-8 cannot represent. Rename it."
        ) from None
    replace_file(path, content)
