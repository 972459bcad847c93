"""Linked rows: pupils of a school are alike; taken as independent they show effects that do not exist."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from polydag import formats, runs, simulate
from polydag.cli.demos import Answer, Outcome
from polydag.learners import GES
from polydag.studies import TableConfig

SCHOOLS, PUPILS, QUANTITIES, EDGES = 30, 10, 30, 30
ALIKE = 0.6
PENALTY = 2.0


def run(folder: Path, seed: int, *, force: bool = False) -> Outcome:
    """Draw the pupils, learn as `polydag fit --groups school` does, and as if pupils were independent."""
    n = SCHOOLS * PUPILS
    truth = simulate.dag(QUANTITIES, n_edges=EDGES, weight_range=(0.4, 1.0), random_state=seed)
    schools = simulate.clusters("equi", n, PUPILS, base=ALIKE)
    rows = simulate.linked(truth, row_covariance=schools, noise_scale=(0.8, 1.2), random_state=seed + 1)
    place, target = folder / "linked-data", folder / "linked"
    with runs.new_folder(place, force=force) as hidden:
        labelled = rows.assign(school=[f"school {1 + row // PUPILS}" for row in np.arange(n)])
        labelled.to_csv(hidden / "data.csv", index=False)
        formats.write(truth, hidden / "truth.json")
    config = TableConfig(
        data=(str(place / "data.csv"),),
        method="ges",
        groups="school",
        settings={"penalty": PENALTY},
        seed=seed,
    )
    result = runs.perform(config, target, force=force, truth=truth.to_cpdag())
    return Outcome(
        title="Linked rows: what affects what among pupils who share schools?",
        story=(
            f"{n} pupils in {SCHOOLS} schools, {QUANTITIES} quantities, simulated from a linear model with "
            f"{EDGES} causal edges; the errors of two pupils of a school have a correlation of {ALIKE}. The "
            "same search (GES) is fitted to the rows as if they were independent, and to the decorrelated "
            "rows. It learns equivalence classes of graphs, so an edge may have no direction."
        ),
        truth=truth.to_cpdag(),
        answers=(
            Answer("as independent", GES(penalty=PENALTY).fit(rows).graph_),
            Answer("decorrelated", result.graph),
        ),
        result=result,
        data=place,
        run=target,
    )
