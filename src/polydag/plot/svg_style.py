"""Colours, fonts and text measures shared by all SVG pictures."""

from __future__ import annotations

import unicodedata
from html import escape

FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
FONT_SIZE = 13
POSITIVE, NEGATIVE, PLAIN = "#2166ac", "#c0501f", "#4b5563"  # blue and orange: safe for colour-blind readers
INK, SOFT, BOX, BORDER = "#111827", "#6b7280", "#f3f6fb", "#9aa8bd"
_NARROWEST = 0.32  # the width of an i, relative to the font size


def printable(text: str) -> str:
    """The text with control characters replaced by spaces."""
    return "".join(" " if unicodedata.category(character)[0] == "C" else character for character in text)


def escaped(text: str) -> str:
    """Text for XML, which forbids control characters even if escaped: they become spaces."""
    return escape(printable(text))


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """The approximate width of a text; no font is available to measure it."""
    return sum(_character_width(character) for character in text) * size


def shortened(text: str, available: float, size: float = FONT_SIZE) -> str:
    """The text, or its beginning and end if it is wider than `available`.

    Examples
    --------
    >>> shortened("systolic_blood_pressure_12", 100, 11)
    'systolic…sure_12'
    """
    if text_width(text, size) <= available:
        return text
    for kept in range(min(len(text) - 1, int(available / (_NARROWEST * size))), 0, -1):
        cut = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
        if text_width(cut, size) <= available:
            return cut
    return "…"


def _character_width(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in "iljI.,:;|!'()[] ":
        return _NARROWEST
    return 0.85 if character in "mwMW" else 0.68 if character.isupper() else 0.57
