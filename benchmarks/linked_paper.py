"""Keep the tables of finished reproductions of the linked-rows paper beside the other results.

    polydag reproduce linked --table 1 --table 2 --seeds 10 --out runs/linked-ours
    python benchmarks/linked_paper.py runs/linked-ours

The columns `paper_…` are the paper's own figures.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from keeping import keep, machine


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep reproduced tables")
    parser.add_argument("folders", nargs="+", type=Path, help="what polydag reproduce wrote")
    for folder in parser.parse_args().folders:
        found = [
            {"table": int(path.stem.removeprefix("table")), **row}
            for path in sorted(folder.glob("table*.csv"))
            for row in pd.read_csv(path).round(3).to_dict("records")
        ]
        columns = list(dict.fromkeys(name for row in found for name in row))
        full = [{name: row.get(name, "") for name in columns} for row in found]
        keep(folder.name.replace("-", "_"), full, machine("polydag"))


if __name__ == "__main__":
    main()
