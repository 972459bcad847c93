"""A first look at tables before learning from them: `check` and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polydag.data.estimates import Estimate, estimates
from polydag.data.findings import (
    SEVERITIES,
    Column,
    Finding,
    Severity,
    between,
    of_columns,
    of_table,
    summarise,
)
from polydag.data.reading import from_frame
from polydag.data.table import Table
from polydag.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CheckReport:
    """What was found in one or several tables."""

    tables: tuple[tuple[str, int, int], ...]
    columns: tuple[Column, ...]
    findings: tuple[Finding, ...]
    estimates: tuple[Estimate, ...]
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> Severity | None:
        """The most serious severity among the findings; None where there are none."""
        found = {finding.severity for finding in self.findings}
        return next((severity for severity in SEVERITIES if severity in found), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for JSON."""
        return {
            "tables": [{"source": s, "rows": n, "columns": d} for s, n, d in self.tables],
            "columns": [column._asdict() for column in self.columns],
            "findings": [finding._asdict() for finding in self.findings],
            "estimates": [estimate._asdict() for estimate in self.estimates],
            "notes": list(self.notes),
        }


def check(tables: Table | pd.DataFrame | Sequence[Table | pd.DataFrame]) -> CheckReport:
    """Look at one or several tables before learning from them.

    Parameters
    ----------
    tables : Table, DataFrame, or a sequence of these
        Read with `missing="keep"` so that missing values are reported rather than refused.
    """
    given: list[Any] = list(tables) if isinstance(tables, (list, tuple)) else [tables]
    if not given:
        raise UsageError("There is no table to check.")
    own = [
        table
        if isinstance(table, Table)
        else from_frame(table, missing="keep", source="The table" if len(given) == 1 else f"Table {number}")
        for number, table in enumerate(given, start=1)
    ]
    columns: list[Column] = []
    findings: list[Finding] = []
    for table in own:
        summaries = [summarise(table, name) for name in table.names]
        columns += summaries
        findings += of_columns(table, summaries)
        findings += of_table(table, summaries)
    for table in own[1:]:
        findings += between(own[0], table)
    n, d = sum(table.n for table in own), len(own[0].names)
    return CheckReport(
        tables=tuple((table.source, table.n, len(table.names)) for table in own),
        columns=tuple(columns),
        findings=tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))),
        estimates=estimates(d, n),
        notes=tuple(f"{table.source}: {note}" for table in own for note in table.notes),
    )
