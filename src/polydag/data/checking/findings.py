"""A finding of `check`: its severity, where it is, what it is, and what to do about it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


class Finding(NamedTuple):
    """One problem: its severity, where it is, what it is, and what to do about it."""

    severity: Severity
    subject: str
    message: str
    advice: str
