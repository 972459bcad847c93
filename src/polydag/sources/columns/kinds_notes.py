"""What a reader of a result should know about the kinds of its columns."""

from __future__ import annotations

from collections.abc import Mapping

from polydag.data.table import Kind
from polydag.sources.interface import Source
from polydag.sources.tasks import Tasks

_SHOWN = 12


def kinds_notes(source: Source | Tasks, used: Mapping[str, Kind]) -> tuple[str, ...]:
    """Whole numbers whose kind was inferred, and what they were taken for."""
    given = source.fixed_kinds
    few = [name for name, kind in source.kinds.items() if kind == "discrete" and name not in given]
    labels = [name for name in few if used.get(name) == "discrete"]
    numbers = [name for name in few if used.get(name) == "continuous"]
    notes = []
    if labels:
        example = labels[0] if len(labels) == 1 else "NAME"
        notes.append(
            f"Few whole numbers, taken as labels: {_listed(labels)}. If they are quantities, declare "
            f"them continuous (--kind {example}=continuous; in Python kinds=)."
        )
    if numbers:
        notes.append(
            f"Few whole numbers, taken as quantities, since this method is for numbers: "
            f"{_listed(numbers)}. If "
            "they are labels, use a method for mixed columns, such as boss, ges or pc."
        )
    return tuple(notes)


def kinds_in_words(kinds: Mapping[str, str]) -> str:
    """Which columns were taken for numbers and which for labels."""
    parts = {"Numbers": "continuous", "labels": "discrete"}
    found = {word: [name for name, kind in kinds.items() if kind == own] for word, own in parts.items()}
    words = "; ".join(f"{word}: {_listed(names)}" for word, names in found.items() if names)
    return words[0].upper() + words[1:]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
