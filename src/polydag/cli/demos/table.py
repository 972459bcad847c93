"""One table: a simulated health survey of numbers and labels, whose causes are known.

Each quantity is drawn given its causes; some are recorded as labels, the others in their usual units. The
naive answer joins what is correlated.
"""

from __future__ import annotations

from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag import formats, runs
from polydag.cli.demos import Answer, Outcome
from polydag.graph import Graph
from polydag.stats import GaussianStats
from polydag.studies import TableConfig

if TYPE_CHECKING:
    import pandas as pd

ROWS = 800
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


LABELS = {
    "exercise": ("low", "moderate", "high"),
    "smoking": ("never", "former", "current"),
    "stress": ("low", "high"),
}
# Mean and standard deviation of the quantities with well-known units; the others are indices about 50.
UNITS = {
    "age": (52.0, 13.0), "blood_pressure": (128.0, 16.0), "body_mass": (27.0, 4.5),
    "care_cost": (4100.0, 1500.0), "cholesterol": (5.2, 1.0), "education": (12.5, 2.5), "glucose": (5.6, 0.9),
    "heart_rate": (71.0, 10.0), "income": (3400.0, 900.0), "salt": (8.6, 2.4), "sick_days": (11.0, 4.0),
    "sleep": (7.1, 1.0),
}  # fmt: skip
INDEX = (50.0, 10.0)


def run(folder: Path, seed: int, *, force: bool = False) -> Outcome:
    """Draw the survey, learn its graph as `polydag fit` does, and answer naively beside it."""
    truth = true_graph()
    rows, codes = survey_rows(truth, seed)
    survey, target = folder / "table-data", folder / "table"
    with runs.new_folder(survey, force=force) as hidden:
        rows.to_csv(hidden / "data.csv", index=False)
        formats.write(truth, hidden / "truth.json")
    config = TableConfig(data=(str(survey / "data.csv"),), seed=seed)
    result = runs.perform(config, target, force=force, truth=truth)
    return Outcome(
        title="One table: who causes what in a health survey?",
        story=(
            f"{ROWS} people, {truth.n_nodes} quantities ({', '.join(LABELS)} are labels), simulated "
            f"from a model with {truth.n_edges} known causal edges. The naive answer joins every pair "
            f"whose correlation is significant ({LEVEL:.0%}, corrected for {_pairs(truth)} tests)."
        ),
        truth=truth,
        answers=(
            Answer("correlations", correlated(GaussianStats.from_data(codes))),
            Answer(result.config.method, result.graph),
        ),
        result=result,
        data=survey,
        run=target,
    )


def survey_rows(truth: Graph, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The survey as recorded, and the same in standard units with the labels by their positions."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    recorded: dict[str, list[str] | np.ndarray[Any, Any]] = {}
    values: dict[str, np.ndarray[Any, Any]] = {}
    for name in truth.topological_order():
        drawn = rng.normal(size=ROWS)
        for parent in truth.parents(name):
            drawn = drawn + truth.weights[truth.index(parent), truth.index(name)] * values[parent]
        if name in LABELS:
            levels = LABELS[name]
            cuts = np.quantile(drawn, np.arange(1, len(levels)) / len(levels))
            code = np.searchsorted(cuts, drawn)
            recorded[name], drawn = [levels[k] for k in code], code.astype(float)
        values[name] = (drawn - drawn.mean()) / drawn.std()
        if name not in LABELS:
            mean, deviation = UNITS.get(name, INDEX)
            recorded[name] = (mean + deviation * values[name]).round(2)
    order = list(truth.names)
    return pd.DataFrame(recorded)[order], pd.DataFrame(values)[order]


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
