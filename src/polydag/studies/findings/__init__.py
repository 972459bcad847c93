"""What a fitted learner and its source have to show, beside the graph: notes, measures, tables, pictures."""

from polydag.studies.findings.collected import findings_of
from polydag.studies.findings.interface import Findings

__all__ = ["Findings", "findings_of"]
