"""Tasks: two clinics with related networks, one of which has too few patients to learn alone."""

from __future__ import annotations

from pathlib import Path

from polydag import formats, runs
from polydag.cli.demos import Answer, Outcome
from polydag.embedded import asia
from polydag.learners import MultitaskDiscovery
from polydag.studies import TasksConfig

ROWS = {"large": 1000, "small": 100}
LOST = 0.25
_FIRST = 2  # the pair of networks that seed 0 draws; one pair is one case, and transfer helps on average


def run(folder: Path, seed: int, *, force: bool = False) -> Outcome:
    """Draw both clinics' rows, learn as `polydag fit --as tasks` does, and alone and pooled beside it."""
    networks = {name: asia().related(LOST, seed + _FIRST + k) for k, name in enumerate(ROWS)}
    tables = {name: networks[name].sample(n, random_state=seed + _FIRST) for name, n in ROWS.items()}
    truth = networks["small"].graph
    place, target = folder / "tasks-data", folder / "tasks"
    with runs.new_folder(place, force=force) as hidden:
        for name, table in tables.items():
            table.to_csv(hidden / f"{name}.csv", index=False)
        formats.write(truth, hidden / "truth.json")
    sources = tuple(str(place / f"{name}.csv") for name in tables)
    result = runs.perform(TasksConfig(data=sources, seed=seed), target, force=force)
    graphs = {
        transfer: MultitaskDiscovery(transfer=transfer).fit(tables).graphs_[1]
        for transfer in ("none", "pool", "learned")
    }
    return Outcome(
        title="Tasks: what affects what in a small clinic, with the help of a larger one?",
        story=(
            f"{ROWS['small']} patients of one clinic and {ROWS['large']} of another. Both networks come from "
            f"the chest clinic network (asia), in which each edge is missing with probability {LOST:g}: "
            "related, but not the same. Connections more probable than 0.5 in the small clinic are compared "
            "with the truth, as learned from its own rows, from the rows of both clinics pooled, and with "
            "transfer."
        ),
        truth=truth,
        answers=(
            Answer("alone", graphs["none"]),
            Answer("all rows pooled", graphs["pool"]),
            Answer("with transfer", graphs["learned"]),
        ),
        result=result,
        data=place,
        run=target,
        files="small.csv",
    )
