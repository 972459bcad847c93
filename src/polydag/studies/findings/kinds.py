"""What the columns were taken for, what was done about missing values, and what these leave unknown."""

from __future__ import annotations

from typing import Any

from polydag.studies.findings.interface import Findings


def findings(model: Any, source: Any) -> Findings:
    """Of a learner that says what it took each column for; said first where some are labels."""
    import pandas as pd

    from polydag.sources import Tasks
    from polydag.sources.adapt import as_source
    from polydag.sources.columns.kinds_notes import kinds_in_words, kinds_notes

    used = getattr(model, "kinds_", {})
    several = isinstance(source, Tasks) or hasattr(source, "parties")  # the notes of parties are said there
    inferred = () if several else kinds_notes(as_source(source), used)
    labels = "discrete" in used.values()
    words = (f"{kinds_in_words(used)}.",) if labels else ()
    gaps = () if several else getattr(source, "gaps_notes", ())
    unknown = pd.DataFrame(getattr(model, "unknown_pairs_", ()), columns=["a", "b"])
    tables = {} if unknown.empty else {"unknown_pairs": unknown}
    return Findings(first_notes=(*words, *inferred, *gaps), kinds=used, tables=tables)
