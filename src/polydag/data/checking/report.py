"""Check tables before learning from them: `check` and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polydag.data.checking.cost_estimates import Estimate, estimates
from polydag.data.checking.findings import SEVERITIES, Finding, Severity
from polydag.data.checking.hints import hints
from polydag.data.checking.rules import (
    ColumnSummary,
    column_findings,
    findings_between,
    summarise,
    table_findings,
)
from polydag.data.reading import from_frame
from polydag.data.table import Table
from polydag.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


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


def check(tables: Table | pd.DataFrame | Sequence[Table | pd.DataFrame]) -> CheckReport:
    """Check one or more tables before learning from them.

    Parameters
    ----------
    tables : Table, DataFrame, or a sequence of these
        Read files with `missing="keep"`, so that missing values are reported instead of raising an error.
    """
    given: list[Any] = list(tables) if isinstance(tables, (list, tuple)) else [tables]
    if not given:
        raise UsageError("There is no table to check.")
    checked = [
        table
        if isinstance(table, Table)
        else from_frame(table, missing="keep", source="The table" if len(given) == 1 else f"Table {number}")
        for number, table in enumerate(given, start=1)
    ]
    columns: list[ColumnSummary] = []
    findings: list[Finding] = []
    for table in checked:
        summaries = [summarise(table, name) for name in table.names]
        columns += summaries
        findings += column_findings(table, summaries)
        findings += table_findings(table, summaries)
        findings += hints(table)
    for table in checked[1:]:
        findings += findings_between(checked[0], table)
    n, d = sum(table.n for table in checked), len(checked[0].names)
    return CheckReport(
        tables=tuple((table.source, table.n, len(table.names)) for table in checked),
        columns=tuple(columns),
        findings=tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))),
        estimates=estimates(d, n),
        notes=tuple(f"{table.source}: {note}" for table in checked for note in table.notes),
    )
