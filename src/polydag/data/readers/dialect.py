"""How a file of separated text is written: separator, decimal mark and encoding.

Spreadsheets write what their country does: semicolons and decimal commas, tabs, Windows-1252, UTF-16. The
separator that the suffix stands for is taken where it fits the first lines, and another where only that fits.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

_SEPARATORS = (",", ";", "\t")
_HEAD = 1 << 16  # bytes
_RECORDS = 50
_COMMA = re.compile(r'(?:^|;|\t)"?[+-]?\d+,\d+"?(?=;|\t|$)', re.MULTILINE)
_BLOCK = 1 << 20
_NAMES = {";": "semicolons", "\t": "tabs", ",": "commas"}
_WINDOWS = "cp1252"


class Dialect(NamedTuple):
    """How cells are separated and encoded, and what stands before decimals."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def notes(self, usual: str) -> tuple[str, ...]:
        """What a reader should know, unless it is the usual."""
        found = []
        if self.separator != usual:
            found.append(f"Cells are separated by {_NAMES[self.separator]}.")
        if self.decimal == ",":
            found.append("Numbers have decimal commas.")
        if self.encoding == _WINDOWS:
            found.append("The text is not UTF-8 and was read as Windows-1252; check names with accents.")
        return tuple(found)


def dialect(path: Path, usual: str, *, compressed: bool) -> Dialect:
    """How a file is written; `usual` is the separator that its suffix stands for."""
    opener: Callable[[Path], Any] = gzip.open if compressed else lambda own: own.open("rb")
    with opener(path) as file:
        head = file.read(_HEAD)
        encoding = _encoding(head, file)
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
    whole = text if len(head) < _HEAD else text[: text.rfind("\n") + 1]
    separator = _separator(whole, usual)
    decimal = "," if separator != "," and _COMMA.search(whole) else "."
    return Dialect(separator, decimal, encoding)


def _encoding(head: bytes, rest: Any) -> str:
    """UTF-16 by its mark; UTF-8 where all bytes are; else that of Windows in western countries."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(head)
        while block := rest.read(_BLOCK):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return _WINDOWS
    return "utf-8"


def _separator(text: str, usual: str) -> str:
    """The first separator that gives all lines the same number of cells, more than one."""
    candidates = (usual, *(other for other in _SEPARATORS if other != usual))
    widths = {separator: _widths(text, separator) for separator in candidates}
    for separator, found in widths.items():
        if len(set(found)) == 1 and found[0] > 1:
            return separator
    return max(candidates, key=lambda separator: widths[separator][0] if widths[separator] else 0)


def _widths(text: str, separator: str) -> list[int]:
    found = []
    try:
        for record in csv.reader(text.splitlines(keepends=True), delimiter=separator):
            if record:
                found.append(len(record))
            if len(found) == _RECORDS:
                break
    except csv.Error:
        return found
    return found
