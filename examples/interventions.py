"""Interventions: 7,466 single cells under nine conditions (Sachs et al. 2005).

In seven of the nine conditions a reagent acts on a measured protein. Rows in which a protein was set say
nothing about its causes, so `Regimes` scores each protein by the other rows only. (The target of one reagent,
LY294002, is disputed.) Fluorescence has arbitrary units, and NOTEARS reads directions from scales, so the
logarithms are shown both as they are and standardised: whether the targets help depends on that choice.
Needs the reference data: POLYDAG_DATA names its folder.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from polydag import GaussianStats, Graph, Notears, Regimes, metrics

folder = Path(os.environ["POLYDAG_DATA"]) / "sachs"
cells = pd.read_csv(folder / "sachs_interventional_7466.csv.gz")
edges = pd.read_csv(folder / "sachs_dag_17edges.csv")
proteins = cells.drop(columns=["condition", "target"])
published = Graph.from_edges(list(proteins), edges.itertuples(index=False))

logs = np.log(proteins)
scalings = {"logarithms": logs, "standardised logarithms": (logs - logs.mean()) / logs.std()}
targets = [[] if pd.isna(target) else [target] for target in cells["target"]]

for scaling, levels in scalings.items():
    answers = {
        "as if only observed": GaussianStats.from_data(levels),
        "with their targets": Regimes.from_data(levels, targets, GaussianStats.from_data),
    }
    for rows, statistics in answers.items():
        graph = Notears().fit(statistics).graph_
        found = metrics.confusion(true=published, estimate=graph)
        print(f"{scaling}, rows {rows}: {graph.n_edges} edges; against the 17 published: {found}")
