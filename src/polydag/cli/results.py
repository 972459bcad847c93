"""The result of a study, for people and for programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydag.cli.commands.compare import comparison_table
from polydag.cli.output import out, plain, say, table

if TYPE_CHECKING:
    from polydag.studies.result import Result

_SHOWN_EDGES, _SHOWN_PRUNED = 60, 6


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
    title = f"{config.method}: {result.size} among {graph.n_nodes} variables, {result.n:g} rows"
    with_probability = result.probabilities is not None
    headers = ("from", "", "to", "weight", *(("probability",) if with_probability else ()))
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
