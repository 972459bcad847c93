"""The correlation of linked rows: in one table, or in each party's or task's."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from polydag.computing.checkpoint import piece
from polydag.graph import Graph
from polydag.rows.clusters import by_cluster
from polydag.rows.dependence import LEVEL
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
        return _of_several(parts)
    own: Decorrelation = getattr(model, "decorrelation_", found[""])
    rows = parts[""].decorrelated_by(own) if own is not found[""] else parts[""]
    levels = rows.within_and_between(model.graph_)
    return Findings(
        notes=(*sentences(rows), *_of_levels(levels, own)),
        measures=measures(rows),
        tables={
            "row_correlations": by_column(own),
            "row_clusters": by_cluster(own),
            **({} if levels.empty else {"within_and_between": levels}),
        },
        documents={"naive": _as_independent(model, parts[""])},
    )


def _of_several(parts: dict[str, LinkedRows]) -> Findings:
    import pandas as pd

    found = {name: rows.decorrelation_ for name, rows in parts.items()}
    tests = pd.DataFrame([{"name": name, **measures(rows)} for name, rows in parts.items()])
    correlations, clusters = (
        pd.concat([table(own).assign(name=name) for name, own in found.items()], ignore_index=True)
        for table in (by_column, by_cluster)
    )
    return Findings(
        notes=tuple(f"{name}: {sentence}" for name, own in parts.items() for sentence in sentences(own)),
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


def measures(rows: LinkedRows) -> dict[str, float]:
    """What the rows are worth, ignoring dependence and decorrelated, and the tests before and after."""
    found = rows.decorrelation_
    return {
        "effective_n": rows.effective_n,
        "decorrelated_n": float(found.decorrelated_n),
        "row_correlation": found.correlation,
        "p_value_of_independent_rows": found.before.p_value,
        "p_value_after_decorrelation": rows.test_after_.p_value,
    }


def sentences(rows: LinkedRows) -> tuple[str, ...]:
    """Whether rows depend on each other, how columns differ in that, and whether any dependence is left."""
    found = rows.decorrelation_
    if not found.table.links.n_links:  # of which there is a warning already
        return ()
    summary, *further = rows.notes
    result = [summary, _structure(found), *further, *_spread(rows)]
    after = rows.test_after_
    if after.dependent:
        remedy = (
            "subtract group means from all columns, which removes what a group shares in each of them"
            if found.table.links.what == "groups"
            else "trust strong edges only"
            if found.table.places is not None
            else "trust strong edges only; where rows have coordinates, give these instead of links"
        )
        reason = (
            "the links do not explain all of it"
            if rows.columns_differ
            else "columns differ in theirs, or the links do not explain all of it"
        )
        result.append(
            f"Some dependence remains after decorrelation (p = {after.p_value:.2g}): {reason}. To be safe, "
            f"{remedy}."
        )
    elif found.before.dependent:
        result.append(f"No dependence remains after decorrelation (p = {after.p_value:.2g}).")
    return tuple(result)


def _spread(rows: LinkedRows) -> tuple[str, ...]:
    """How columns differ in the correlation of linked rows, beside what the source itself notes."""
    columns = by_column(rows.decorrelation_)[~rows.table.group_level]
    if rows.columns_differ or len(columns) < 2 or not columns["correlation"].any():
        return ()
    columns = columns.sort_values("correlation", kind="stable")
    least, most = columns.iloc[0], columns.iloc[-1]
    return (
        f"By column the correlation of linked rows ranges from {least['correlation']:.2f} "
        f"({least['column']}) to {most['correlation']:.2f} ({most['column']}), see row_correlations.csv; the "
        "model has one for all.",
    )


def _of_levels(levels: pd.DataFrame, found: Decorrelation) -> tuple[str, ...]:
    """The edge whose coefficients within and between groups differ most clearly (Bonferroni's 5 % level)."""
    tested = levels.dropna(subset="p_value")
    if tested.empty or tested["p_value"].min() * len(tested) >= LEVEL:
        return ()
    most = tested.iloc[int(tested["p_value"].argmin())]
    group = found.table.group or "groups"
    return (
        f"Within {group} and between, the coefficient of {most['source']} -> {most['target']} differs: "
        f"{most['within']:.2g} and {most['between']:.2g} (p = {most['p_value']:.1g}; see "
        f"within_and_between.csv). The mean of {most['source']} in a group may represent something else in "
        f"which groups differ.",
    )


def _structure(found: Decorrelation) -> str:
    values = ", ".join(f"{name} {value:.2g}" for name, value in found.parameters.items())
    compared = list(found.candidates["structure"])
    chosen = f", chosen by held-out columns from {', '.join(compared)}" if compared else ""
    detail = f" ({values})" if values else ""
    return f"The structure of the row correlation is {found.structure}{detail}{chosen}."


def by_column(found: Decorrelation) -> pd.DataFrame:
    """Each column's own correlation of linked rows."""
    import pandas as pd

    return pd.DataFrame({"column": found.table.names, "correlation": found.column_correlations})
