"""Check tables before learning from them: `check` and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag.data.checking.between_tables import findings_between
from polydag.data.checking.cost_estimates import Estimate, estimates
from polydag.data.checking.findings import SEVERITIES, Finding, Severity
from polydag.data.checking.hints import hints
from polydag.data.checking.rules import ColumnSummary, column_findings, summarise, table_findings
from polydag.data.reading import from_frame
from polydag.data.table import Kind, Table
from polydag.data.written_numbers import UnreadableColumnError
from polydag.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


class Readable(NamedTuple):
    """A table, and what was found while it was read."""

    table: Table
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class CheckReport:
    """The findings in one or more tables, with column summaries and cost estimates.

    `tables` has one entry (source, number of rows, number of columns) per table.
    """

    tables: tuple[tuple[str, int, int], ...]
    columns: tuple[ColumnSummary, ...]
    findings: tuple[Finding, ...]
    estimates: tuple[Estimate, ...]
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> Severity | None:
        """The highest severity among the findings; None if there are none."""
        found = {finding.severity for finding in self.findings}
        return next((severity for severity in SEVERITIES if severity in found), None)

    def to_dict(self) -> dict[str, Any]:
        """The report as lists and dictionaries, for JSON."""
        return {
            "tables": [{"source": s, "rows": n, "columns": d} for s, n, d in self.tables],
            "columns": [column._asdict() for column in self.columns],
            "findings": [finding._asdict() for finding in self.findings],
            "estimates": [estimate._asdict() for estimate in self.estimates],
            "notes": list(self.notes),
        }


def readable(read: Callable[[Mapping[str, Kind]], Table], kinds: Mapping[str, Kind]) -> Readable:
    """A table as `read` returns it for kinds of columns, with unreadable columns as labels."""
    own: dict[str, Kind] = dict(kinds)
    findings: list[Finding] = []
    while True:
        try:
            return Readable(read(own), tuple(findings))
        except UnreadableColumnError as error:
            subject, _, words = str(error).partition(f"column {error.column}")
            problem, _, advice = words.lstrip(", :").partition(". ")
            findings.append(Finding("error", f"{subject}column {error.column}", problem, advice.rstrip(".")))
            own[error.column] = "discrete"


def check(
    tables: Table | pd.DataFrame | Sequence[Table | pd.DataFrame], found: Sequence[Finding] = ()
) -> CheckReport:
    """Check one or more tables before learning from them.

    Parameters
    ----------
    tables : Table, DataFrame, or a sequence of these
        Read files with `missing="keep"`, so that missing values are reported instead of raising an error.
    found : sequence of Finding
        What was found while they were read.
    """
    given: list[Any] = list(tables) if isinstance(tables, (list, tuple)) else [tables]
    if not given:
        raise UsageError("There is no table to check.")
    columns: list[ColumnSummary] = []
    findings, checked = list(found), []
    for number, table in enumerate(given, start=1):
        if isinstance(table, Table):
            checked.append(table)
            continue
        source = "The table" if len(given) == 1 else f"Table {number}"
        own = readable(partial(_from_frame, table, source), {})
        checked.append(own.table)
        findings += own.findings
    for table in checked:
        summaries = [summarise(table, name) for name in table.names]
        columns += summaries
        known = {finding.subject for finding in findings}
        findings += [finding for finding in column_findings(table, summaries) if finding.subject not in known]
        findings += table_findings(table, summaries)
        findings += hints(table)
    for table in checked[1:]:
        findings += findings_between(checked[0], table)
    n, d = sum(table.n for table in checked), len(checked[0].names)
    return CheckReport(
        tables=tuple((table.source, table.n, len(table.names)) for table in checked),
        columns=tuple(columns),
        findings=tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))),
        estimates=estimates(d, n, labels=all(column.kind == "discrete" for column in columns)),
        notes=tuple(f"{table.source}: {note}" for table in checked for note in table.notes),
    )


def _from_frame(frame: pd.DataFrame, source: str, kinds: Mapping[str, Kind]) -> Table:
    return from_frame(frame, kinds=kinds, missing="keep", source=source)
