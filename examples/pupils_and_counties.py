"""Two real networks of rows: pupils in schools, and counties with their borders (data in POLYDAG_DATA)."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from polydag import LinkedRowsDAG

TESTS = ["IQ.verb", "IQ.perf", "ses", "langPRET", "langPOST", "aritPRET", "aritPOST"]
SHARES = ["PctRural", "PctBach", "PctEld", "PctFB", "PctPov", "PctBlack"]


def main() -> None:
    """Learn both graphs, and say what the links are worth."""
    folder = Path(os.environ["POLYDAG_DATA"]) / "clustered"
    pupils = pd.read_csv(folder / "bdf_pupils_in_schools.csv.gz")
    schools = LinkedRowsDAG("schoolNR", structure="common").fit(pupils[["schoolNR", *TESTS]])
    print(schools.summary_)

    counties = pd.read_csv(folder / "georgia_counties_159.csv", index_col="AreaKey")
    borders = pd.read_csv(folder / "georgia_queen_contiguity.csv")  # pairs of AreaKey
    neighbours = LinkedRowsDAG(borders, structure="common").fit(counties[SHARES])
    print(neighbours.summary_)
    print(neighbours.column_correlations_.round(2).to_string())


if __name__ == "__main__":
    main()
