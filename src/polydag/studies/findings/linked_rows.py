"""The correlation of linked rows: in one table, or in each party's or task's."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from polydag.computing.checkpoint import piece
from polydag.graph import Graph
from polydag.rows.clusters import by_cluster
from polydag.studies.data.sources import linked_parts
from polydag.studies.findings.interface import Findings

if TYPE_CHECKING:
    import pandas as pd

    from polydag.rows.decorrelation import Decorrelation
    from polydag.sources import LinkedRows


def findings(model: Any, source: Any) -> Findings:
    """Of a source with linked rows."""
    parts = linked_parts(source)
    if not parts:
        return Findings()
    found = {name: rows.decorrelation_ for name, rows in parts.items()}
    if "" not in found:
        return _of_several(found)
    own: Decorrelation = getattr(model, "decorrelation_", found[""])
    return Findings(
        notes=sentences(own),
        measures=measures(own),
        tables={"row_correlations": by_column(own), "row_clusters": by_cluster(own)},
        documents={"naive": _as_independent(model, parts[""])},
    )


def _of_several(found: dict[str, Decorrelation]) -> Findings:
    import pandas as pd

    tests = pd.DataFrame([{"name": name, **measures(own)} for name, own in found.items()])
    correlations, clusters = (
        pd.concat([table(own).assign(name=name) for name, own in found.items()], ignore_index=True)
        for table in (by_column, by_cluster)
    )
    return Findings(
        notes=tuple(f"{name}: {sentence}" for name, own in found.items() for sentence in sentences(own)),
        measures={name: float(tests[name].sum()) for name in ("effective_n", "decorrelated_n")},
        tables={
            "row_dependence": tests,
            "row_correlations": correlations[["name", "column", "correlation"]],
            "row_clusters": clusters[["name", *clusters.columns[:-1]]],
        },
    )


def _as_independent(model: Any, rows: LinkedRows) -> dict[str, Any]:
    """The graph that the same learner finds where the links are ignored."""
    from sklearn.base import clone

    from polydag.formats import graphjson

    def learn() -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit to the linked rows has given them
            graph = clone(model).fit(rows.as_independent()).graph_
        return {"adjacency": graph.adjacency, "weights": graph.weights}

    found = piece("rows as independent", learn)
    graph = Graph(found["adjacency"], rows.names, found["weights"])
    document: dict[str, Any] = json.loads(graphjson.to_text(graph))
    return document


def measures(found: Decorrelation) -> dict[str, float]:
    """What the rows are worth, ignoring dependence and decorrelated, and the tests before and after."""
    return {
        "effective_n": found.precision.effective_n,
        "decorrelated_n": float(found.decorrelated_n),
        "row_correlation": found.correlation,
        "p_value_of_independent_rows": found.before.p_value,
        "p_value_after_decorrelation": found.after.p_value,
    }


def sentences(found: Decorrelation) -> tuple[str, ...]:
    """Whether rows depend on each other, how columns differ in that, and whether any dependence is left."""
    columns = by_column(found).sort_values("correlation", kind="stable")
    if not columns["correlation"].any():  # without links, of which there is a warning already
        return ()
    least, most = columns.iloc[0], columns.iloc[-1]
    spread = (
        f"By column the correlation of linked rows ranges from {least['correlation']:.2f} "
        f"({least['column']}) to {most['correlation']:.2f} ({most['column']}), see row_correlations.csv; the "
        "model has one for all."
    )
    result = [found.summary, _structure(found), spread]
    after = found.after
    remedy = (
        "subtract group means from all columns, which removes what a group shares in each of them"
        if found.table.links.what == "groups"
        else "trust strong edges only, or leave out the columns that differ most"
    )
    if after.dependent:
        result.append(
            f"Some dependence remains after decorrelation (p = {after.p_value:.2g}): columns differ in "
            f"theirs, or the links do not explain all of it. To be safe, {remedy}."
        )
    elif found.before.dependent:
        result.append(f"No dependence remains after decorrelation (p = {after.p_value:.2g}).")
    return tuple(result)


def _structure(found: Decorrelation) -> str:
    values = ", ".join(f"{name} {value:.2g}" for name, value in found.parameters.items())
    compared = [name for name in found.candidates["structure"] if name != found.structure]
    chosen = f"; it explains held-out columns better than {', '.join(compared)}" if compared else ""
    detail = f" ({values})" if values else ""
    return f"The structure of the row correlation is {found.structure}{detail}{chosen}."


def by_column(found: Decorrelation) -> pd.DataFrame:
    """Each column's own correlation of linked rows."""
    import pandas as pd

    return pd.DataFrame({"column": found.table.names, "correlation": found.column_correlations})
