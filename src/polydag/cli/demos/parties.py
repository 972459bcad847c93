"""Parties: the survey's rows divided among hospitals that each have too few and keep them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from polydag import formats, runs, simulate
from polydag.cli.demos import Answer, Outcome
from polydag.cli.demos.table import true_graph

NOISE = (0.8, 1.2)  # standard deviations of the errors
HOSPITALS = (20, 35, 30, 60, 25, 40, 30, 45, 35, 50, 30, 40)


def run(folder: Path, seed: int, *, force: bool = False) -> Outcome:
    """Draw the hospitals' rows, learn one graph over all of them, and let them vote beside it."""
    from polydag.learners import AutoDAG, FederatedNotears
    from polydag.studies import PartiesConfig

    truth = true_graph()
    rows = simulate.linear(truth, n=sum(HOSPITALS), noise_scale=NOISE, random_state=seed)
    ends = np.cumsum(HOSPITALS)
    tables = {
        f"hospital-{k}": rows.iloc[end - size : end]
        for k, (size, end) in enumerate(zip(HOSPITALS, ends, strict=True), start=1)
    }
    place, target = folder / "parties-data", folder / "parties"
    with runs.new_folder(place, force=force) as hidden:
        for name, table in tables.items():
            table.to_csv(hidden / f"{name}.csv", index=False)
        formats.write(truth, hidden / "truth.json")
    sources = tuple(str(place / f"{name}.csv") for name in tables)
    result = runs.perform(PartiesConfig(data=sources, seed=seed), target, force=force, truth=truth)
    largest = max(tables.values(), key=len)
    return Outcome(
        title="Parties: one graph over hospitals that keep their patients' rows",
        story=(
            f"{len(HOSPITALS)} hospitals with {min(HOSPITALS)} to {max(HOSPITALS)} patients each, simulated "
            f"from one model of {truth.n_nodes} quantities and {truth.n_edges} edges. Naive answers: "
            "the largest hospital alone, and edges that more than half of the hospitals found alone. polydag "
            "adds up the hospitals' statistics under masks; pooling all rows is the benchmark."
        ),
        truth=truth,
        answers=(
            Answer("largest alone", AutoDAG().fit(largest).graph_),
            Answer("voting", FederatedNotears(method="voting").fit(tables).graph_),
            Answer(result.config.method, result.graph),
            Answer("all rows pooled", AutoDAG().fit(rows).graph_),
        ),
        result=result,
        data=place,
        run=target,
        files="hospital-1.csv",
    )
