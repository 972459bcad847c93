"""All findings of a study, chosen by what the fitted learner and its source have."""

from __future__ import annotations

from functools import reduce
from typing import Any

from polydag.studies.findings import kinds, linked_rows, parties, posterior, single_graph, tasks
from polydag.studies.findings.interface import Findings

# Each takes the fitted learner and its source, and finds nothing where they are not its own.
_ALL = (
    kinds.findings,
    single_graph.findings,
    posterior.findings,
    tasks.findings,
    linked_rows.findings,
    parties.findings,
)


def findings_of(model: Any, source: Any) -> Findings:
    """What a fitted learner and its source have to show."""
    return reduce(Findings.with_more, (findings(model, source) for findings in _ALL))
