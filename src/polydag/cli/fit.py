"""`polydag fit`: from data to a graph and a run folder."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polydag.cli.options import (
    Columns,
    Debug,
    Force,
    Format,
    Kinds,
    MissingChoice,
    Out,
    OutputFormat,
    Query,
    Quiet,
    Seed,
    column_list,
    kind_map,
)

if TYPE_CHECKING:
    from polydag.runs import Recorded
    from polydag.studies.result import Result

NAME = "fit"
RUNS = Path("runs")
LINKED = "Linked rows (--as linked)"
PARTIES = "Parties (--as parties)"
POSTERIOR = "Probabilities of edges (--as posterior, --as tasks)"
_SHOWN_EDGES, _SHOWN_PRUNED = 60, 6


def _methods() -> list[str]:
    from polydag.learners import LEARNERS, ROW_LEARNERS

    return sorted(LEARNERS | ROW_LEARNERS)


def _shapes() -> list[str]:
    from polydag.studies import SHAPES

    return sorted(SHAPES)


def command(
    data: Annotated[
        list[str] | None, typer.Argument(help="Files (CSV, Parquet, Arrow) or database addresses.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", "-m", help="notears (default), equal-variance, …", autocompletion=_methods),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="What the data is: pooled (default), posterior, parties, tasks, linked.",
            autocompletion=_shapes,
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the method, NAME=VALUE, as lambda_=0.1. Repeatable."),
    ] = None,
    bootstrap: Annotated[
        int | None,
        typer.Option("--bootstrap", min=0, help="Draw the rows again this often; edges get their frequency."),
    ] = None,
    query: Query = None,
    columns: Columns = None,
    kind: Kinds = None,
    missing: Annotated[
        MissingChoice | None,
        typer.Option("--missing", help="Rows with missing values: stop (error, default), drop or impute."),
    ] = None,
    knowledge: Annotated[
        Path | None,
        typer.Option("--knowledge", help="Required and forbidden edges, tiers: a .toml or .csv file."),
    ] = None,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="A graph file to compare the result with.")
    ] = None,
    links: Annotated[
        Path | None,
        typer.Option("--links", help="Linked rows: a file of pairs of rows.", rich_help_panel=LINKED),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option("--groups", help="The column (or file) with group labels.", rich_help_panel=LINKED),
    ] = None,
    coords: Annotated[
        str | None,
        typer.Option("--coords", help="Linked rows: X,Y:K for K nearest neighbours.", rich_help_panel=LINKED),
    ] = None,
    row_ids: Annotated[
        str | None,
        typer.Option("--row-ids", help="The column with the names in --links.", rich_help_panel=LINKED),
    ] = None,
    covariates: Annotated[
        str | None,
        typer.Option("--covariates", help="Columns that the means depend on.", rich_help_panel=LINKED),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option("--order", help="All variables, causes first (method bcd).", rich_help_panel=LINKED),
    ] = None,
    discretize: Annotated[
        str | None,
        typer.Option(
            "--discretize",
            help="Cut numbers into levels: quantile:4, or interval:4 of equal width.",
            rich_help_panel=POSTERIOR,
        ),
    ] = None,
    task_column: Annotated[
        str | None,
        typer.Option(
            "--task-column",
            help="Tasks: the column of one file that tells them apart.",
            rich_help_panel=POSTERIOR,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", help="A dask scheduler whose workers run the chains.", rich_help_panel=POSTERIOR
        ),
    ] = None,
    interventions: Annotated[
        str | None,
        typer.Option(
            "--interventions",
            help="The column that names what was set in a row: none, a column, several joined by +.",
            rich_help_panel=PARTIES,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Run this configuration; options given as well take precedence."),
    ] = None,
    out: Out = None,
    seed: Seed = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes at work at once.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
    force: Force = False,
    output: OutputFormat = Format.text,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn a graph from data and write a run folder.

    Example: polydag fit patients.csv --knowledge known.toml --out runs/patients

    Again, bit for bit: polydag fit --config runs/patients/config.toml
    """
    from polydag import metrics, runs
    from polydag.cli.compiling import compilation_reported
    from polydag.cli.graphs import read_graph
    from polydag.cli.output import as_json
    from polydag.cli.progress import shown
    from polydag.errors import NotConvergedError
    from polydag.studies.methods import parse_settings

    given = {
        "data": tuple(data) if data else None,
        "method": method,
        "shape": shape,
        "settings": parse_settings(setting or ()) or None,
        "bootstrap": bootstrap,
        "query": query,
        "columns": column_list(columns),
        "kinds": kind_map(kind) or None,
        "missing": missing and missing.value,
        "knowledge": knowledge and str(knowledge),
        "links": links and str(links),
        "groups": groups,
        "coords": coords,
        "row_ids": row_ids,
        "covariates": column_list(covariates),
        "order": column_list(order),
        "discretize": discretize,
        "task_column": task_column,
        "cluster": cluster,
        "interventions": interventions,
        "seed": seed,
        "jobs": jobs,
    }
    recorded = _study(config, {name: value for name, value in given.items() if value is not None})
    true = read_graph(truth) if truth else None
    folder = out or _default_out(recorded.config.data[0], recorded.config.method, resume)
    with shown(quiet=quiet), compilation_reported():
        result = runs.perform(
            recorded.config,
            folder,
            force=force,
            resume=resume,
            expected=recorded.sha256,
            expected_by=str(config),
        )
    found = metrics.compare(true=true, estimate=result.graph) if true else None
    if output is Format.json:
        as_json(document(result, folder, found))
    else:
        show(result, folder, found)
    if not result.converged:
        raise NotConvergedError(
            f"{result.config.method} did not converge; do not rely on this graph. The run folder is {folder}."
        )


def _study(path: Path | None, given: dict[str, Any]) -> Recorded:
    """The study of a configuration file, changed by the command line; or of the command line alone."""
    from polydag import runs, studies
    from polydag.errors import UsageError
    from polydag.studies.inputs import is_database

    shape = given.pop("shape", None)
    if path is None:
        if "data" not in given:
            raise UsageError("Name the data (polydag fit data.csv), or a configuration with --config.")
        kind = studies.shape(shape or "pooled").CONFIG
        _require_fields(kind, given)
        return runs.Recorded(kind(**given), {})
    config, sha256 = runs.read_config(path)
    if shape is not None and shape != config.shape:
        studies.shape(shape)  # an unknown one is told as such
        raise UsageError(
            f"{path} describes a study with --as {config.shape}; --as {shape} does not fit it. Leave --as "
            "out, or name the data and the options without --config."
        )
    _require_fields(type(config), given)
    if "settings" in given and "method" not in given:
        given["settings"] = {**config.settings, **given["settings"]}
    elif given.get("method", config.method) != config.method:
        given.setdefault("settings", {})  # those of another method mean nothing to this one
    if "data" in given:
        sha256 = {name: mark for name, mark in sha256.items() if name not in config.data}
    elif given.keys() & {"query", "columns", "kinds", "missing"}:
        sha256 = {name: mark for name, mark in sha256.items() if not is_database(name)}
    return runs.Recorded(dataclasses.replace(config, **given), sha256)


def _require_fields(kind: type[Any], given: dict[str, Any]) -> None:
    """Say which option belongs to another shape of data."""
    from polydag import studies
    from polydag.errors import UsageError

    known = _fields(kind)
    if strange := [name for name in given if name not in known]:
        option = f"--{strange[0].replace('_', '-')}"
        takes = [name for name in studies.SHAPES if strange[0] in _fields(studies.shape(name).CONFIG)]
        raise UsageError(f"{option} goes with {' or '.join(f'--as {name}' for name in takes)}.")


def _fields(kind: type[Any]) -> set[str]:
    return {item.name for item in dataclasses.fields(kind)}


def _default_out(source: str, method: str, resume: bool) -> Path:
    from polydag import runs
    from polydag.studies.inputs import public

    name = Path(public(source).partition("?")[0]).name.partition(".")[0] or "data"
    stem = f"{name}-{method}"
    return runs.last_partial(RUNS, stem) if resume else runs.next_free(RUNS, stem)


def document(result: Result, folder: Path, found: dict[str, float] | None) -> dict[str, Any]:
    """The result for programs."""
    return {
        "run": str(folder),
        "converged": result.converged,
        "n": result.n,
        "nodes": list(result.graph.names),
        "edges": [edge._asdict() for edge in result.edges],
        "pruned": [edge._asdict() for edge in result.pruned],
        "measures": dict(result.measures),
        "notes": list(result.notes),
        "method": result.config.method,
        "settings": dict(result.config.settings),
        "seed": result.config.seed,
        "versions": dict(result.versions),
        **({"comparison": found} if found else {}),
    }


def show(result: Result, folder: Path, found: dict[str, float] | None) -> None:
    """The result for people."""
    from polydag.cli.compare import comparison_table
    from polydag.cli.output import out, plain, say, table

    console = out()
    graph, config = result.graph, result.config
    title = f"{config.method}: {result.size} among {graph.n_nodes} variables, {result.n:g} rows"
    with_chance = result.probabilities is not None
    headers = ("from", "", "to", "weight", *(("probability",) if with_chance else ()))
    say(console, f"[bold]{plain(title)}[/bold]")
    edges = table(headers, numbers=("weight", "probability"))
    strongest = sorted(result.edges, key=lambda edge: -abs(edge.weight))
    for edge in strongest[:_SHOWN_EDGES]:
        colour = "blue" if edge.weight > 0 else "red"
        edges.add_row(
            plain(edge.source),
            "→" if edge.directed else "—",
            plain(edge.target),
            f"[{colour}]{edge.weight:.3f}[/{colour}]",
            *((f"{edge.probability:.2f}",) if edge.probability is not None else ()),
        )
    console.print(edges)
    if len(strongest) > _SHOWN_EDGES:
        say(console, f"… and {len(strongest) - _SHOWN_EDGES} weaker ones in {plain(folder / 'edges.csv')}\n")
    if result.measures:
        told = ", ".join(f"{name} {value:.4g}" for name, value in result.measures.items())
        say(console, plain(told))
    if result.pruned:
        largest = sorted(result.pruned, key=lambda edge: -abs(edge.weight))[:_SHOWN_PRUNED]
        listed = "; ".join(f"{e.source} → {e.target} ({e.weight:.3g}, {e.reason})" for e in largest)
        more = f"; all in {folder / 'pruned.csv'}" if len(largest) < len(result.pruned) else ""
        say(console, plain(f"Taken out, {len(result.pruned)} in all, the strongest first: {listed}{more}"))
    for note in result.notes:
        say(console, f"[yellow]Note:[/yellow] {plain(note)}")
    if found:
        console.print(comparison_table(found))
    say(console, f"[bold]Run folder:[/bold] {plain(folder)} (picture: {plain(folder / 'graph.svg')})")
