"""What the columns were taken for."""

from __future__ import annotations

from typing import Any

from polydag.studies.findings.interface import Findings


def findings(model: Any, source: Any) -> Findings:
    """Of a learner that says what it took each column for."""
    from polydag.sources import Tasks
    from polydag.sources.adapt import as_source
    from polydag.sources.kinds_notes import kinds_in_words, kinds_notes

    used = getattr(model, "kinds_", {})
    if not used:
        return Findings()
    inferred = () if isinstance(source, Tasks) else kinds_notes(as_source(source), used)
    return Findings(first_notes=(f"Columns: {kinds_in_words(used)}.", *inferred))
