"""Two real networks of rows: pupils in schools, and counties with their borders (data in POLYDAG_DATA)."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from polydag import GES, Knowledge, LinkedRows, plot

# What was measured later does not act on what was measured before.
PUPILS = [["ses", "IQ.verb", "IQ.perf"], ["langPRET", "aritPRET"], ["langPOST", "aritPOST"]]
SHARES = ["PctRural", "PctBach", "PctEld", "PctFB", "PctPov", "PctBlack"]


def study(name: str, rows: LinkedRows, table: pd.DataFrame, knowledge: Knowledge | None = None) -> None:
    """Learn a graph, say what the links are worth, and draw it."""
    model = GES(penalty=1, escape=False, knowledge=knowledge).fit(rows)
    found = rows.decorrelation_
    print(f"{name}: {found.summary}")
    print(pd.Series(found.column_correlations, index=list(rows.names)).round(2).to_string())
    left = "some" if found.after.dependent else "none"
    print(f"Dependence left after decorrelation: {left} (p = {found.after.p_value:.1g}).")
    alone = GES(penalty=1, escape=False, knowledge=knowledge).fit(table[list(rows.names)]).graph_
    print(f"Edges: {model.graph_.n_edges}; if rows are taken as independent: {alone.n_edges}.\n")
    Path(f"{name}.svg").write_text(plot.svg(model.graph_), encoding="utf-8")


def main() -> None:
    """Both studies."""
    folder = Path(os.environ["POLYDAG_DATA"]) / "clustered"
    pupils = pd.read_csv(folder / "bdf_pupils_in_schools.csv.gz").rename(columns={"schoolNR": "schools"})
    variables = [name for tier in PUPILS for name in tier]
    linked = LinkedRows(pupils[["schools", *variables]], groups="schools")
    study("pupils", linked, pupils, Knowledge(tiers=PUPILS))
    counties = pd.read_csv(folder / "georgia_counties_159.csv", index_col="AreaKey")
    borders = pd.read_csv(folder / "georgia_queen_contiguity.csv")  # pairs of AreaKey
    study("counties", LinkedRows(counties[SHARES], links=borders), counties)


if __name__ == "__main__":
    main()
