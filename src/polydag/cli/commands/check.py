"""`polydag check`: what to know about data before learning from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from polydag.cli.options import Debug, Format, OutputFormat, Quiet
from polydag.cli.study_options import given_options, with_study_options

if TYPE_CHECKING:
    from polydag.data import CheckReport, Table
    from polydag.data.checking.findings import Finding
    from polydag.data.table import Kind

NAME = "check"
_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


@with_study_options("data", "query", "columns", "exclude", "kinds", "na", "recode", required="data")
def command(
    *, output: OutputFormat = Format.text, quiet: Quiet = False, debug: Debug = False, **options: Any
) -> None:
    """Check data before learning: kinds of columns, missing values, unusable columns, cost of methods.

    The exit code is 3 if something was found that would stop a study.

    Example: polydag check patients.csv
    """
    from polydag import data as reading
    from polydag.cli.terminal.output import as_json
    from polydag.cli.terminal.progress import displayed_progress
    from polydag.computing import progress
    from polydag.data.checking.report import readable
    from polydag.studies.data.addresses import public

    given = given_options(options)
    sources = given.pop("data")
    kinds = given.pop("kinds", {})
    tables: list[Table] = []
    found: list[Finding] = []
    with displayed_progress(quiet=quiet):
        for number, source in enumerate(sources):
            progress.report("reading", number, len(sources), public(source))
            own = readable(partial(_read, source, given), kinds)
            tables.append(own.table)
            found += own.findings
        report = reading.check(tables, found)
    if output is Format.json:
        as_json(report.to_dict())
    else:
        _show(report)
    if report.worst == "error":
        raise typer.Exit(3)


def _read(source: str, given: dict[str, Any], kinds: Mapping[str, Kind]) -> Table:
    from polydag import data

    return data.read(source, **given, kinds=kinds, missing="keep")


def _show(report: CheckReport) -> None:
    from polydag.cli.terminal.output import out, plain, say, table

    console = out()
    for source, rows, n_columns in report.tables:
        say(console, f"[bold]{plain(source)}[/bold]: {rows} rows, {n_columns} columns")
    several = len(report.tables) > 1
    columns = table(
        (*(("table",) if several else ()), "column", "kind", "missing", "distinct", "mean", "sd", "levels"),
        numbers=("missing", "distinct", "mean", "sd"),
    )
    for column in report.columns:
        levels = column.levels or ()
        columns.add_row(
            *((plain(column.table),) if several else ()),
            plain(column.name),
            column.kind,
            str(column.missing) if column.missing else "",
            str(column.distinct),
            "" if column.mean is None else f"{column.mean:.4g}",
            "" if column.sd is None else f"{column.sd:.4g}",
            plain(", ".join(levels[:6]) + (", …" if len(levels) > 6 else "")),
        )
    console.print(columns)
    costs = table(("method", "memory", "time", "note on the predicted cost"), numbers=("memory", "time"))
    for cost in report.estimates:
        costs.add_row(cost.method, _bytes(cost.memory_bytes), _seconds(cost.seconds), plain(cost.note))
    console.print(costs)
    say(console, "[bold]Findings[/bold]" if report.findings else "[bold green]No findings.[/bold green]")
    for finding in report.findings:
        style = _STYLES[finding.severity]
        console.print(
            f"[{style}]{finding.severity}[/{style}] {plain(finding.subject)}: {plain(finding.message)}"
        )
        say(console, f"  → {plain(finding.advice)}")
    for note in report.notes:
        say(console, plain(note))


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return "under 1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
