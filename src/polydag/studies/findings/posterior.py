"""Posterior probabilities of edges and parent sets, as tables and in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from polydag.studies.findings.interface import Findings

if TYPE_CHECKING:
    import pandas as pd

    from polydag.graph import Graph
    from polydag.posterior.probabilities import Posterior

LIKELY = 0.5  # connections above this probability are listed in words
_LISTED = 5  # connections in a sentence
_LIKELY_SETS = 0.001  # parent sets below this probability are not written down


def findings(model: Any, source: Any) -> Findings:
    """Of a learner with one posterior; what "auto" chose is recorded, since it depends on the machine."""
    learner = getattr(model, "learner_", model)  # of linked rows, learned in turns
    if not hasattr(learner, "posterior_"):
        return Findings()
    if learner is not model:
        return scored_by(learner)
    found: Posterior = model.posterior_
    own = Findings(
        notes=undirected(model.graph_),
        settings={"method": found.method},
        confidence=getattr(model, "confidence_", found.confidence),
        tables={"posterior": edge_table(found), **parent_tables(found), **traces_table(found)},
    )
    return scored_by(model).with_more(own)


def scored_by(learner: Any) -> Findings:
    """Which score a posterior rests on."""
    from polydag.learners.posterior.criterion import criterion_notes

    if not hasattr(learner, "criterion_"):  # a registered learner of probabilities may have no score
        return Findings()
    return Findings(first_notes=criterion_notes(learner), settings={"criterion": learner.criterion_})


def traces_table(posterior: Posterior, suffix: str = "") -> dict[str, pd.DataFrame]:
    """The traces of a posterior by chains; nothing of an exact one."""
    traces = getattr(posterior, "traces", None)
    return {} if traces is None or traces.empty else {f"traces{suffix}": traces}


def listed(connections: Iterable[tuple[str, str, float]]) -> str:
    """Connections in words, the most probable first; of many, how many more there are.

    Examples
    --------
    >>> listed([("x", "y", 0.6), ("a", "b", 1.0)])
    'a – b (1.00), x – y (0.60)'
    """
    ordered = sorted(connections, key=lambda connection: -connection[2])
    words = ", ".join(f"{first} – {second} ({p:.2f})" for first, second, p in ordered[:_LISTED])
    return f"{words} and {len(ordered) - _LISTED} more" if len(ordered) > _LISTED else words


def undirected(graph: Graph, where: str = "") -> tuple[str, ...]:
    """Which connections of a posterior's graph have no direction; `where` names the task."""
    lines = [(edge.source, edge.target, edge.weight) for edge in graph.edges() if not edge.directed]
    if not lines:
        return ()
    return (f"Connected{where}, but the rows do not determine the direction: {listed(lines)}.",)


def edge_table(posterior: Posterior) -> pd.DataFrame:
    """Every ordered pair with its probability, the most probable first, and how well it is known."""
    import numpy as np
    import pandas as pd

    names = np.array(posterior.names)
    source, target = np.nonzero(~np.eye(len(names), dtype=bool))
    table = pd.DataFrame(
        {
            "source": names[source],
            "target": names[target],
            "probability": posterior.probabilities[source, target],
        }
    )
    if posterior.diagnostics is not None:
        table = table.merge(posterior.diagnostics, on=["source", "target"], how="left")
    return table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)


def parent_tables(posterior: Posterior) -> dict[str, pd.DataFrame]:
    """The table of parent sets; none where tables that were completed differ in their candidates."""
    return {} if posterior.sets is None else {"parents": parent_table(posterior)}


def parent_table(posterior: Posterior) -> pd.DataFrame:
    """The parent sets of every variable that are not very improbable."""
    import pandas as pd

    found = []
    for name in posterior.names:
        sets = posterior.parents(name)
        sets = sets[sets["probability"] >= _LIKELY_SETS]
        found.append(
            pd.DataFrame(
                {
                    "variable": name,
                    "parents": [" ".join(parents) for parents in sets["parents"]],
                    "probability": sets["probability"].to_numpy(),
                }
            )
        )
    return pd.concat(found, ignore_index=True)
