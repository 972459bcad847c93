"""What left each party, in words and bytes, from the disclosure of a run."""

from __future__ import annotations

from typing import Any

from polydag.report.run_files import RESULT, RunFiles


def sites(files: RunFiles) -> dict[str, Any] | None:
    """The arrays that left each party and the privacy settings; None for a run without parties."""
    found = files.document("disclosure.json")
    if not isinstance(found, dict) or not isinstance(found.get("summary"), list):
        return None
    parties: dict[str, list[dict[str, Any]]] = {}
    for entry in found["summary"]:
        parties.setdefault(str(entry.get("site")), []).append(entry)
    settings = files.study.get("privacy")
    notes = (files.document(RESULT) or {}).get("notes", [])
    return {
        "privacy": str(found.get("privacy", "")),
        "bytes": int(found.get("bytes", 0)),
        "settings": {str(k): str(v) for k, v in settings.items()} if isinstance(settings, dict) else {},
        "budget": [str(note) for note in notes if "ε" in str(note) or "epsilon" in str(note)],
        "parties": [
            {"name": name, "text": _in_words(entries), "entries": [_entry(entry) for entry in entries]}
            for name, entries in parties.items()
        ],
    }


def _in_words(entries: list[dict[str, Any]]) -> str:
    arrays = sum(int(entry.get("times", 1)) for entry in entries)
    rounds = max((int(entry.get("last_round", 1)) for entry in entries), default=0)
    size = sum(int(entry.get("bytes", 0)) for entry in entries)
    open_ones = sorted({str(entry.get("name")) for entry in entries if not entry.get("masked")})
    kinds = "all of them masked, or keys" if not open_ones else f"readable: {', '.join(open_ones)}"
    return f"sent {arrays:,} arrays in {rounds:,} rounds, {in_bytes(size)}; {kinds}"


def _entry(entry: dict[str, Any]) -> list[object]:
    return [
        str(entry.get("name", "")),
        str(entry.get("shape", "")),
        int(entry.get("times", 1)),
        int(entry.get("bytes", 0)),
        bool(entry.get("masked")),
    ]


def in_bytes(size: int) -> str:
    """A size in a unit that suits it.

    Examples
    --------
    >>> in_bytes(300), in_bytes(12735552)
    ('300 B', '12.7 MB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"
