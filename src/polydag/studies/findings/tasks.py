"""The networks of several tasks: their posteriors, graphs and heat maps, and how they differ."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from polydag.confidence import Confidence
from polydag.posterior.transfer.differences import JOINT, POOLED, PRODUCT
from polydag.studies.findings.interface import Findings
from polydag.studies.findings.posterior import LIKELY, edge_table, listed, scored_by, traces_table, undirected

if TYPE_CHECKING:
    import pandas as pd

_BASES = {
    JOINT: "are joint: they allow for what the tasks have in common, and for what few rows cannot show",
    PRODUCT: "are products of the tasks' own probabilities, which mistake a lack of rows for a difference",
    POOLED: "are zero, because all tasks were given one network",
}
_LISTED_TASKS = 5  # with more tasks, notes are about their mean
_LISTED_UNSURE = 3  # connections that another task has too few rows to show
_MENTIONED = 0.005  # probability of a way of being related, below which it is not mentioned
_MISSED = 0.2  # share of samples that may miss a connection which a task is said to lack
_QUICK = 10  # variables up to which rows are exchanged


def findings(model: Any, source: Any) -> Findings:
    """Of a learner of several tasks."""
    if not hasattr(model, "posteriors_"):
        return Findings()
    count = len(model.tasks_)
    sizes = ", ".join(
        f"{task} ({table.n:.0f} rows, {graph.n_edges} edge{'' if graph.n_edges == 1 else 's'})"
        for (task, table), graph in zip(source.items(), model.graphs_, strict=True)
    )
    own = Findings(
        first_notes=(f"Tasks: {sizes}.",),
        notes=_sentences(model, source),
        settings={"method": model.posteriors_[0].method},
        confidence=Confidence(model.posteriors_[0].names, model.raw_weights_, "probability"),
        mean_of=f"{count} tasks" if count > 1 else "",
        tables=_tables(model),
        documents=_graphs(model),
        pictures=_pictures(model),
    )
    return scored_by(model).with_more(own)


def file_names(tasks: tuple[str, ...]) -> list[str]:
    """The tasks' names as parts of file names, all different."""
    plain = [re.sub(r"[^\w-]+", "-", task).strip("-") for task in tasks]
    # Some file systems do not distinguish "A" from "a".
    alike = len({name.casefold() for name in plain}) < len(plain) or not all(plain)
    return [f"{k}-{name}" if alike else name for k, name in enumerate(plain, start=1)]


def _tables(model: Any) -> dict[str, pd.DataFrame]:
    named = list(zip(file_names(model.tasks_), model.posteriors_, strict=True))
    found = {f"edges-{name}": edge_table(posterior) for name, posterior in named}
    for name, posterior in named:
        found |= traces_table(posterior, f"-{name}")
    if len(model.tasks_) < 2:
        return found
    related = getattr(model, "relatedness_", None)
    if related is not None:
        found["relatedness"] = related.rename_axis("task").reset_index()
    mechanisms = getattr(model, "mechanisms_", None)
    if mechanisms is not None:
        found["mechanisms"] = mechanisms
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


def _sentences(model: Any, source: Any) -> tuple[str, ...]:
    """Which connections all tasks most probably share, which only one has, and which have no direction."""
    if len(model.tasks_) < 2:
        return _undirected(model)
    table = model.connections_
    likely = table[table["shared"] > LIKELY]
    sentences = [*_related(model)]
    if len(likely):
        words = listed(zip(likely["first"], likely["second"], likely["shared"], strict=True))
        sentences.append(f"Most probably connected in all tasks: {words}.")
    for task in model.tasks_:
        sentences += _only_in(model, task)
    sentences += _strengths(model)
    where = "connections.csv; of directed edges, differences.csv"
    basis = "".join(table["basis"].iloc[:1])
    kind = f"Probabilities of differences {_BASES.get(basis, '')} ({where})."
    return (*sentences, *_permuted(model, source), *_undirected(model), *([kind] if basis else []))


def _related(model: Any) -> tuple[str, ...]:
    """How pairs of tasks go together, where that was learned."""
    ways = getattr(model, "ways_", None)
    if not ways:
        return ()
    words = ", ".join(f"{way} {share:.2f}" for way, share in ways.items() if share >= _MENTIONED)
    if len(model.tasks_) == 2:
        return (f"How the two tasks are related, with probabilities: {words}.",)
    return (f"How pairs of tasks are related, with mean probabilities: {words}.",)


def _only_in(model: Any, task: str) -> list[str]:
    """Connections of one task alone; not those that the other tasks have too few rows to show."""
    table = model.connections_
    likely = table[table[f"only in {task}"] > LIKELY]
    if not len(likely):
        return []
    others = [other for other in model.tasks_ if other != task]
    if len(others) >= _LISTED_TASKS:
        words = listed(zip(likely["first"], likely["second"], likely[f"only in {task}"], strict=True))
        return [f"Found in {task} and not in the others, which may have too few rows to show them: {words}."]
    power = {other: model.power(other, task) for other in others}
    sure, unsure = [], []
    for first, second, p in zip(likely["first"], likely["second"], likely[f"only in {task}"], strict=True):
        missed = {other: _missed(found, first, second) for other, found in power.items()}
        other = max(missed, key=lambda name: missed[name])
        if missed[other] <= _MISSED:
            sure.append((first, second, p))
            continue
        how = "" if power[other] is None else (
            f": with {model.n_rows_[other]:.0f} rows a connection as strong as in {task} would be missed in "
            f"{10 * missed[other]:.0f} of 10 such samples"
        )  # fmt: skip
        unsure.append(f"{first} – {second} is found in {task}; {other} has too few rows to show it{how}.")
    sentences = [f"Most probably connected only in {task}: {listed(sure)}."] if sure else []
    more = [f"{len(unsure) - _LISTED_UNSURE} more like this."] if len(unsure) > _LISTED_UNSURE else []
    return [*sentences, *unsure[:_LISTED_UNSURE], *more]


def _strengths(model: Any) -> list[str]:
    """Connections of all tasks whose strength differs."""
    table = model.connections_
    if "other strengths" not in table:
        return []
    likely = table[table["other strengths"] > LIKELY]
    words = listed(zip(likely["first"], likely["second"], likely["other strengths"], strict=True))
    return [f"Most probably in all tasks, but with different strengths: {words}."] if len(likely) else []


def _missed(power: Any, first: str, second: str) -> float:
    """The share of samples that would miss a connection; 1 where that is not known."""
    if power is None:
        return 1.0
    here = power[(power["first"] == first) & (power["second"] == second)]
    return 1.0 - float(here["power"].iloc[0])


def _permuted(model: Any, source: Any) -> tuple[str, ...]:
    """Whether tasks differ at all, by exchanging rows; where that is quick."""
    from polydag.learners.posterior.permutation import permutation_p_value

    if len(model.feature_names_in_) > _QUICK or len(model.tasks_) > _LISTED_TASKS or model.transfer == "pool":
        return ()
    p = permutation_p_value(model, source)
    if p is None:
        return ()
    return (f"Do the tasks differ at all? With rows exchanged between tasks at random, p = {p:.2g}.",)


def _undirected(model: Any) -> tuple[str, ...]:
    """Of each task; of many, or where all have one network, of their mean."""
    if len(model.tasks_) == 1:
        return undirected(model.graph_)
    if len(model.tasks_) > _LISTED_TASKS or model.transfer == "pool":
        return undirected(model.graph_, " in the mean over the tasks")
    return tuple(
        sentence
        for task, graph in zip(model.tasks_, model.graphs_, strict=True)
        for sentence in undirected(graph, f" in {task}")
    )
