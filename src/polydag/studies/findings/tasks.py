"""The networks of several tasks: their posteriors, graphs and heat maps, and how they differ."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from polydag.confidence import Confidence
from polydag.studies.findings.interface import Findings
from polydag.studies.findings.posterior import LIKELY, edge_table, listed, undirected

if TYPE_CHECKING:
    import pandas as pd

_LISTED_TASKS = 5  # with more tasks, notes are about their mean


def findings(model: Any, source: Any) -> Findings:
    """Of a learner of several tasks."""
    if not hasattr(model, "posteriors_"):
        return Findings()
    count = len(model.tasks_)
    sizes = ", ".join(
        f"{task} ({table.n:.0f} rows, {graph.n_edges} edge{'' if graph.n_edges == 1 else 's'})"
        for (task, table), graph in zip(source.items(), model.graphs_, strict=True)
    )
    return Findings(
        first_notes=(f"Tasks: {sizes}.",),
        notes=_sentences(model),
        settings={"method": model.posteriors_[0].method},
        confidence=Confidence(model.posteriors_[0].names, model.raw_weights_, "probability"),
        mean_of=f"{count} tasks" if count > 1 else "",
        tables=_tables(model),
        documents=_graphs(model),
        pictures=_pictures(model),
    )


def file_names(tasks: tuple[str, ...]) -> list[str]:
    """The tasks' names as parts of file names, all different."""
    plain = [re.sub(r"[^\w-]+", "-", task).strip("-") for task in tasks]
    # Some file systems do not distinguish "A" from "a".
    alike = len({name.casefold() for name in plain}) < len(plain) or not all(plain)
    return [f"{k}-{name}" if alike else name for k, name in enumerate(plain, start=1)]


def _tables(model: Any) -> dict[str, pd.DataFrame]:
    found = {
        f"edges-{name}": edge_table(posterior)
        for name, posterior in zip(file_names(model.tasks_), model.posteriors_, strict=True)
    }
    if len(model.tasks_) < 2:
        return found
    return {**found, "differences": model.differences_, "connections": model.connections_}


def _graphs(model: Any) -> dict[str, Any]:
    from polydag.formats import graphjson

    named = zip(file_names(model.tasks_), model.graphs_, strict=True)
    return {f"graph-{name}": json.loads(graphjson.to_text(graph)) for name, graph in named}


def _pictures(model: Any) -> dict[str, str]:
    from polydag import plot
    from polydag.plot.heatmaps import Map, heat_maps
    from polydag.posterior.probabilities import either_way

    names = file_names(model.tasks_)
    maps = [Map(t, p.probabilities) for t, p in zip(model.tasks_, model.posteriors_, strict=True)]
    found = {
        f"graph-{name}": plot.svg(graph, posterior.probabilities)
        for name, graph, posterior in zip(names, model.graphs_, model.posteriors_, strict=True)
    }
    # Directions differ between tasks by chance, connections do not.
    either = [Map(item.title, either_way(item.values)) for item in maps]
    variables = model.posteriors_[0].names
    return {
        **found,
        "heatmaps": heat_maps(variables, maps),
        "heatmaps-connections": heat_maps(variables, either),
    }


def _sentences(model: Any) -> tuple[str, ...]:
    """Which connections all tasks most probably share, which only one has, and which have no direction."""
    if len(model.tasks_) < 2:
        return _undirected(model)
    table = model.connections_
    columns = {"in all tasks": "shared"} | {f"only in {task}": f"only in {task}" for task in model.tasks_}
    sentences = []
    for where, column in columns.items():
        likely = table[table[column] > LIKELY]
        if len(likely):
            words = listed(zip(likely["first"], likely["second"], likely[column], strict=True))
            sentences.append(f"Most probably connected {where}: {words}.")
    where = "connections.csv; of directed edges, differences.csv"
    basis = "".join(table["basis"].iloc[:1])
    kind = f"Probabilities of differences ({where}) are of the kind: {basis}."
    return (*sentences, *_undirected(model), *([kind] if basis else []))


def _undirected(model: Any) -> tuple[str, ...]:
    """Of each task; of many, or where all have one network, of their mean."""
    names, threshold = model.posteriors_[0].names, model.threshold
    if len(model.tasks_) == 1:
        return undirected(names, model.raw_weights_, threshold)
    if len(model.tasks_) > _LISTED_TASKS or model.transfer == "pool":
        return undirected(names, model.raw_weights_, threshold, " in the mean over the tasks")
    return tuple(
        sentence
        for task, posterior in zip(model.tasks_, model.posteriors_, strict=True)
        for sentence in undirected(names, posterior.probabilities, threshold, f" in {task}")
    )
