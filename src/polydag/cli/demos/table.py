"""One table: a made-up health survey whose causes are known, because we made them up.

The rows are drawn from a linear model on the graph below. The naive answer joins what is correlated.
"""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist

import numpy as np

from polydag import formats, runs, simulate
from polydag.cli.demos import Answer, Outcome
from polydag.graph import Graph
from polydag.stats import GaussianStats
from polydag.studies import TableConfig

ROWS = 800
NOISE = (0.8, 1.2)
LEVEL = 0.05

EFFECTS = (
    ("age", "income", 0.6), ("education", "income", 1.1), ("education", "smoking", -0.8),
    ("income", "stress", -0.7), ("income", "exercise", 0.6), ("stress", "smoking", 0.7),
    ("stress", "sleep", -0.9), ("exercise", "body_mass", -0.8), ("sugar", "body_mass", 0.7),
    ("sugar", "glucose", 0.8), ("body_mass", "glucose", 0.9), ("glucose", "insulin", 1.0),
    ("body_mass", "cholesterol", 0.8), ("age", "blood_pressure", 0.7), ("salt", "blood_pressure", 0.7),
    ("body_mass", "blood_pressure", 0.7), ("stress", "blood_pressure", 0.6), ("smoking", "inflammation", 0.8),
    ("body_mass", "inflammation", 0.6), ("smoking", "lung_function", -1.1), ("exercise", "heart_rate", -0.8),
    ("sleep", "heart_rate", -0.6), ("cholesterol", "artery_stiffness", 0.8), ("age", "artery_stiffness", 0.8),
    ("inflammation", "artery_stiffness", 0.6), ("blood_pressure", "kidney_function", -0.8),
    ("glucose", "kidney_function", -0.6), ("artery_stiffness", "heart_risk", 0.9),
    ("blood_pressure", "heart_risk", 0.7), ("lung_function", "sick_days", -0.7),
    ("heart_risk", "sick_days", 0.8), ("sick_days", "care_cost", 0.9), ("kidney_function", "care_cost", -0.7),
)  # fmt: skip


def run(folder: Path, seed: int, *, force: bool = False) -> Outcome:
    """Draw the survey, learn its graph as `polydag fit` does, and answer naively beside it."""
    truth = true_graph()
    rows = simulate.linear(truth, n=ROWS, noise_scale=NOISE, random_state=seed)
    survey, target = folder / "table-data", folder / "table"
    with runs.new_folder(survey, force=force) as hidden:
        rows.to_csv(hidden / "data.csv", index=False)
        formats.write(truth, hidden / "truth.json")
    config = TableConfig(data=(str(survey / "data.csv"),), method="notears", seed=seed)
    result = runs.perform(config, target, force=force, truth=truth)
    return Outcome(
        title="One table: who causes what in a health survey?",
        story=(
            f"{ROWS} people, {truth.n_nodes} quantities, drawn from a made-up linear model whose "
            f"{truth.n_edges} causal edges are known; its errors have standard deviations from {NOISE[0]} to "
            f"{NOISE[1]}. The naive answer joins every pair whose correlation is significant ({LEVEL:.0%}, "
            f"corrected for {_pairs(truth)} tests)."
        ),
        truth=truth,
        answers=(
            Answer("correlations", correlated(GaussianStats.from_data(rows))),
            Answer("notears", result.graph),
        ),
        result=result,
        data=survey,
        run=target,
    )


def true_graph() -> Graph:
    """The survey's causes, the variables in alphabetical order so that it gives nothing away."""
    names = sorted({end for edge in EFFECTS for end in edge[:2]})
    return Graph.from_edges(names, EFFECTS)


def _pairs(graph: Graph) -> int:
    return graph.n_nodes * (graph.n_nodes - 1) // 2


def correlated(stats: GaussianStats) -> Graph:
    """Undirected edges between variables whose correlation is significant after Bonferroni's correction."""
    d = len(stats.names)
    limit = NormalDist().inv_cdf(1 - LEVEL / (d * (d - 1)))
    r = np.triu(stats.correlation, 1)
    joined = np.abs(np.arctanh(r)) * np.sqrt(stats.n - 3) > limit
    both = joined | joined.T
    return Graph(both, stats.names, np.where(both, r + r.T, 0.0))
