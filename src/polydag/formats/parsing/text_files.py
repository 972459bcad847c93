"""Read text files, compressed or not, and write them atomically."""

from __future__ import annotations

import gzip
import uuid
from pathlib import Path

from polydag.errors import DataError


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, decompressed if its name ends in `.gz`."""
    try:
        raw = path.read_bytes()
        if path.suffix == ".gz":
            raw = gzip.decompress(raw)
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(f"{path}: line {line} is not UTF-8 text; save the file as UTF-8.") from error
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path}: cannot be read ({reason}).") from error


def write_text(path: Path, text: str) -> None:
    """Write to a temporary file and rename it, so that `path` is never left half written."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror}).") from error
    finally:
        temporary.unlink(missing_ok=True)
