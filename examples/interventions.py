"""Interventions: 7,466 single cells under nine conditions (Sachs et al. 2005).

In seven of the nine conditions a reagent acts on a measured protein. Rows in which a protein was set say
nothing about its causes, so `Regimes` scores each protein by the other rows only. (The target of one reagent,
LY294002, is disputed.) Needs the reference data: POLYDAG_DATA names its folder.
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

# Fluorescence is in arbitrary units and skewed: logarithms, in standard deviations.
levels = np.log(proteins)
levels = (levels - levels.mean()) / levels.std()
targets = [[] if pd.isna(target) else [target] for target in cells["target"]]

answers = {
    "all rows, as if only observed": GaussianStats.from_data(levels),
    "all rows, with their targets": Regimes.from_data(levels, targets, GaussianStats.from_data),
}
for rows, statistics in answers.items():
    graph = Notears().fit(statistics).graph_
    print(f"{rows}: {graph.n_edges} edges")
    print("  against the 17 published ones:", metrics.confusion(true=published, estimate=graph))
