"""Keep what a finished reproduction found beside the other results, under the paper's name.

    polydag reproduce multitask --table 2 --preset published --trials 10 --out runs/tasks-paper
    python benchmarks/reproduced.py multitask runs/tasks-paper --name published
    polydag reproduce federated --figure 1 --seeds 5 --out runs/parties-paper
    python benchmarks/reproduced.py federated runs/parties-paper

Tables go to results/<paper>_table<number>[_name].csv, where `p_del` is "all", or the probability of deletion
where the table is there for each of them apart; figures of means and errors to <paper>_figure<number>.csv. Of
learning curves (figures 1, 2 and 4) the means over edges of a kind are kept, and how many are above a
quarter; of the brain study the tests of figure 6 and the largest differences between the groups (figure 7);
of all that is sampled, how well chains agree.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from keeping import keep, machine

SMALL = {
    "multitask": ("chains_*.csv", "figure6_tests.csv"),
    "federated": ("figure?.csv",),
}
MOST = 40  # differences between groups that are kept, of each kind


def found(paper: str, folder: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """What is kept, by name."""
    for path in sorted(folder.glob("table*.csv")):
        parts = [pd.read_csv(path).assign(p_del="all")]
        apart = path.with_name(f"by_p_del_{path.name}")
        if apart.exists():
            parts.append(pd.read_csv(apart))
        yield path.stem, pd.concat(parts, ignore_index=True)
    for pattern in SMALL[paper]:
        for path in sorted(folder.glob(pattern)):
            yield path.stem, pd.read_csv(path)
    for number in (1, 2, 4) if paper == "multitask" else ():
        for path in folder.glob(f"figure{number}.csv"):
            yield f"{path.stem}_kinds", by_kind(pd.read_csv(path))
    for path in folder.glob("figure7_differences.csv"):
        yield path.stem, pd.read_csv(path).groupby(["data", "subjects", "of"], sort=False).head(MOST)


def by_kind(curves: pd.DataFrame) -> pd.DataFrame:
    """Posteriors of edges as means over those that are shared, unique, the reverse of an edge, or none."""
    found = curves.groupby(["kind", "method", "samples"], sort=False)["mean"]
    table = found.agg(edges="size", mean="mean", above_a_quarter=lambda own: int((own > 0.25).sum()))
    return table.reset_index()


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep what was reproduced")
    parser.add_argument("paper", choices=list(SMALL))
    parser.add_argument("folder", type=Path, help="what polydag reproduce wrote")
    parser.add_argument("--name", default="", help="what tells it from other runs, added to the files' names")
    chosen = parser.parse_args()
    ending = f"_{chosen.name}" if chosen.name else ""
    for name, table in found(chosen.paper, chosen.folder):
        keep(f"{chosen.paper}_{name}{ending}", table.round(6).to_dict("records"), machine("polydag"))


if __name__ == "__main__":
    main()
