"""How a fit went: the numeric columns of `history.csv` and other tables of a run, as small charts."""

from __future__ import annotations

import re
from typing import Any

from polydag.report.run_files import Row, RunFiles, number

_X = ("round", "n_iter", "iteration", "sweep", "level", "step", "steps", "k")  # what a horizontal axis may be
_SIDE_BY_SIDE = {
    "lambda_": "λ = {:.3g}",
    "start": "start {:.0f}",
}  # what several passes over that axis differ in
_MOST_POINTS = 400
_MOST_CLUSTERS = 500
_CLUSTER = ("rows", "correlation", "correlation_after", "effective_n", "decorrelated_n")
_TRACES = re.compile(r"traces(?:-(.+))?\.csv")
_NAMES = {
    "primal": "ADMM primal residual",
    "dual": "ADMM dual residual",
    "h": "acyclicity h(W)",
    "lambda_": "penalty λ",
    "lambda1": "penalty λ1",
    "bic": "BIC",
    "r_hat": "largest R-hat",
    "ess": "smallest effective sample size",
    "objective": "objective",
    "n_nonzero": "non-zero weights",
    "score": "score",
    "rho": "ADMM ρ",
    "acceptance": "acceptance rate",
}


def charts(files: RunFiles) -> list[dict[str, Any]]:
    """One chart for each numeric column of the history, with lines for the values that run side by side."""
    rows = files.rows("history.csv")
    if len(rows) < 2:
        return []
    columns = [name for name in rows[0] if _numeric(rows, name)]
    axis = next((name for name in _X if name in columns), "")
    lanes = _lanes(rows, axis)
    return [
        {"title": _title(name), "x": axis or "step", "lines": lines}
        for name in columns
        if name not in (axis, "start") and len(lines := _lines(lanes, name, axis))
    ]


def traces(files: RunFiles) -> list[dict[str, Any]]:
    """One chart for each traced quantity, with a line for each chain; of tasks, with the name of the task."""
    found = []
    for name in sorted(files.texts):
        match = _TRACES.fullmatch(name)
        if not match:
            continue
        task, rows = match[1] or "", files.rows(name)
        known = _diagnostics(files.rows(f"edges-{task}.csv" if task else "posterior.csv"))
        chains: dict[str, list[Row]] = {}
        for row in rows:
            chains.setdefault(f"chain {row['chain']}", []).append(row)
        for column in list(rows[0])[2:] if rows else ():
            title = f"{_trace_title(column)}{known.get(column, '')}"
            found.append(
                {
                    "title": f"{task}: {title}" if task else title,
                    "x": "draw",
                    "lines": _lines(chains, column, "draw", constant=True),
                }
            )
    return [chart for chart in found if chart["lines"]]


def _trace_title(column: str) -> str:
    return "log weight of the state" if column == "log_weight" else f"P({column.replace(' -> ', ' → ')})"


def _diagnostics(rows: list[Row]) -> dict[str, str]:
    """R-hat and effective sample size of each edge, in words."""
    known = {}
    for row in rows:
        r_hat, ess = number(row.get("r_hat")), number(row.get("ess"))
        if r_hat is not None and ess is not None:
            known[f"{row['source']} -> {row['target']}"] = f", R-hat {r_hat:.2f}, ESS {ess:.0f}"
    return known


def facts(files: RunFiles) -> list[dict[str, str]]:
    """A history of one row, as words."""
    rows = files.rows("history.csv")
    if len(rows) != 1:
        return []
    return [{"name": _title(name), "value": _rounded(value)} for name, value in rows[0].items()]


def _rounded(text: str) -> str:
    value = number(text)
    return text if value is None else f"{value:.6g}"


def row_correlations(files: RunFiles) -> list[dict[str, Any]]:
    """Each column's correlation over linked rows, as written by studies of linked rows."""
    return [
        {"column": row["column"], "of": row.get("name", ""), "value": number(row["correlation"])}
        for row in files.rows("row_correlations.csv")
        if "column" in row and "correlation" in row
    ]


def row_clusters(files: RunFiles) -> list[dict[str, Any]]:
    """Each cluster of linked rows: how alike its rows are, and what they are worth, before and after."""
    rows = sorted(files.rows("row_clusters.csv"), key=lambda row: -(number(row.get("rows")) or 0.0))
    return [
        {
            "name": ": ".join(filter(None, (row.get("name", ""), row["cluster"]))),
            **{column: number(row.get(column)) for column in _CLUSTER},
        }
        for row in rows[:_MOST_CLUSTERS]
        if "cluster" in row
    ]


def _numeric(rows: list[Row], name: str) -> bool:
    values = {row[name] for row in rows}
    return len(values) > 1 and all(
        number(value) is not None or value in ("", "inf", "nan") for value in values
    )


def _lanes(rows: list[Row], axis: str) -> dict[str, list[Row]]:
    """Rows by penalty or start where several of them share the rounds; otherwise all rows."""
    positions = [row[axis] for row in rows] if axis else []
    by = next((name for name in _SIDE_BY_SIDE if name in rows[0] and number(rows[0][name]) is not None), "")
    if not by or len(set(positions)) == len(rows) or not axis:
        return {"": rows}
    lanes: dict[str, list[Row]] = {}
    for row in rows:
        lanes.setdefault(_SIDE_BY_SIDE[by].format(number(row[by]) or 0.0), []).append(row)
    return lanes


def _lines(
    lanes: dict[str, list[Row]], name: str, axis: str, *, constant: bool = False
) -> list[dict[str, Any]]:
    """One line for each lane; lines that never change say nothing, unless others run beside them."""
    lines = []
    for label, rows in lanes.items():
        points = [
            (number(row[axis]) if axis else float(k), number(row[name]))
            for k, row in enumerate(rows, start=1)
        ]
        known = [(x, y) for x, y in points if x is not None and y is not None]
        every = -(-len(known) // _MOST_POINTS)
        if len({y for _, y in known}) > 1 or (constant and len(known) > 1):
            x, y = zip(*known[::every], strict=True)
            lines.append(
                {"label": label, "x": [float(f"{v:.5g}") for v in x], "y": [float(f"{v:.5g}") for v in y]}
            )
    return lines


def _title(name: str) -> str:
    return _NAMES.get(name, name.rstrip("_").replace("_", " "))
