"""`polydag check`: a look at the data before learning from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from polydag.cli.options import (
    Columns,
    Debug,
    Format,
    Kinds,
    OutputFormat,
    Query,
    Quiet,
    column_list,
    kind_map,
)

if TYPE_CHECKING:
    from polydag.data import CheckReport

NAME = "check"
_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def command(
    data: Annotated[list[str], typer.Argument(help="Files (CSV, Parquet, Arrow) or database addresses.")],
    query: Query = None,
    columns: Columns = None,
    kind: Kinds = None,
    output: OutputFormat = Format.text,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Look at data before learning from it: types, holes, columns that cannot be used, what methods cost.

    Ends with the exit code 3 where something was found that learning would stumble over.

    Example: polydag check patients.csv
    """
    from polydag import data as reading
    from polydag import progress
    from polydag.cli.output import as_json
    from polydag.cli.progress import shown
    from polydag.studies.inputs import public

    tables = []
    kinds: dict[str, reading.Kind] = kind_map(kind)  # type: ignore[assignment]  # checked there
    with shown(quiet=quiet):
        for number, source in enumerate(data):
            progress.report("reading", number, len(data), public(source))
            tables.append(
                reading.read(source, columns=column_list(columns), kinds=kinds, missing="keep", query=query)
            )
        report = reading.check(tables)
    if output is Format.json:
        as_json(report.to_dict())
    else:
        _show(report)
    if report.worst == "error":
        raise typer.Exit(3)


def _show(report: CheckReport) -> None:
    from polydag.cli.output import out, plain, say, table

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
