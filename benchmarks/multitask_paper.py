"""Keep the tables of a finished reproduction of the tasks paper beside the other results.

    polydag reproduce multitask --table 1 --trials 30 --out runs/tasks-paper
    python benchmarks/multitask_paper.py runs/tasks-paper

Each table goes to results/multitask_table<number>.csv; `p_del` is "all", or the probability of deletion where
the table is there for each of them apart.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from keeping import keep, machine


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep reproduced tables")
    parser.add_argument("folder", type=Path, help="what polydag reproduce wrote")
    folder = parser.parse_args().folder
    for path in sorted(folder.glob("table*.csv")):
        parts = [pd.read_csv(path).assign(p_del="all")]
        apart = path.with_name(f"by_p_del_{path.name}")
        if apart.exists():
            parts.append(pd.read_csv(apart))
        rows = pd.concat(parts, ignore_index=True).round(6).to_dict("records")
        keep(f"multitask_{path.stem}", rows, machine("polydag"))


if __name__ == "__main__":
    main()
