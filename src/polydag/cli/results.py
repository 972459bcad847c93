"""The result of a study, for people and for programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydag.cli.commands.compare import comparison_table
from polydag.cli.terminal.output import out, plain, say, table

if TYPE_CHECKING:
    from polydag.studies.result import EdgeRow, Result

_SHOWN_EDGES, _SHOWN_PRUNED = 60, 6
_SMALL = 1e-3  # weights below it are shown by their first digits


def document(result: Result, folder: Path, comparison: dict[str, float] | None) -> dict[str, Any]:
    """The result for programs."""
    return {
        "run": str(folder),
        "converged": result.converged,
        "n": result.n,
        "nodes": list(result.graph.names),
        "kinds": dict(result.kinds),
        "edges": [edge._asdict() for edge in result.edges],
        "pruned": [edge._asdict() for edge in result.pruned],
        "measures": dict(result.measures),
        "notes": list(result.notes),
        "shape": result.config.shape,
        "method": result.config.method,
        "settings": dict(result.config.settings),
        "seed": result.config.seed,
        "versions": dict(result.versions),
        **({"comparison": comparison} if comparison else {}),
    }


def show(result: Result, folder: Path, comparison: dict[str, float] | None) -> None:
    """The result for people."""
    console = out()
    graph, config = result.graph, result.config
    title = f"{config.method}: {result.size} among {graph.n_nodes} variables, {result.rows}"
    say(console, f"[bold]{plain(title)}[/bold]")
    columns = _columns(result)
    edges = table(("from", "", "to", *columns), numbers=tuple(columns))
    strongest = sorted(result.edges, key=_strength, reverse=True)
    for edge in strongest[:_SHOWN_EDGES]:
        arrow = "→" if edge.directed else "—"
        numbers = (_number(edge, name) for name in columns.values())
        edges.add_row(plain(edge.source), arrow, plain(edge.target), *numbers)
    console.print(edges)
    if len(strongest) > _SHOWN_EDGES:
        say(console, f"… and {len(strongest) - _SHOWN_EDGES} weaker ones in {plain(folder / 'edges.csv')}\n")
    if result.measures:
        say(console, plain(", ".join(f"{name} {value:.4g}" for name, value in result.measures.items())))
    if result.pruned:
        largest = sorted(result.pruned, key=lambda edge: -abs(edge.weight))[:_SHOWN_PRUNED]
        listed = "; ".join(f"{e.source} → {e.target} ({e.weight:.3g}, {e.reason})" for e in largest)
        more = f"; all in {folder / 'pruned.csv'}" if len(largest) < len(result.pruned) else ""
        say(console, plain(f"Removed edges: {len(result.pruned)}, the strongest first: {listed}{more}"))
    for note in result.notes:
        say(console, f"[yellow]Note:[/yellow] {plain(note)}")
    if comparison:
        console.print(comparison_table({"value": comparison}))
    say(console, f"[bold]Run folder:[/bold] {plain(folder)} (open {plain(folder / 'report.html')})")


def _columns(result: Result) -> dict[str, str]:
    """The numbers of edges that the result has: their headers and the fields of `EdgeRow`.

    The strength is for edges that have no coefficient.
    """
    kind = "" if result.confidence is None else result.confidence.kind
    named = {
        "weight": "weight",
        "± s.e.": "standard_error",
        "standardised": "standardized",
        "strength": "strength",
        kind: "confidence",
        "connected": "adjacent",
    }
    edges = result.edges
    if all(edge.standardized is not None for edge in edges):
        del named["strength"]
    return {
        header: name
        for header, name in named.items()
        if any(getattr(edge, name) is not None for edge in edges)
    }


def _strength(edge: EdgeRow) -> float:
    known = (edge.adjacent, edge.standardized, edge.strength, edge.weight)
    return abs(next((value for value in known if value is not None), 0.0))


def _number(edge: EdgeRow, name: str) -> str:
    value = getattr(edge, name)
    if value is None:
        return ""
    if name == "weight":
        colour = "blue" if value > 0 else "red"
        shown = f"{value:.2g}" if 0 < abs(value) < _SMALL else f"{value:.3f}"
        return f"[{colour}]{shown}[/{colour}]"
    return f"{value:.2g}" if name == "standard_error" else f"{value:.2f}"
