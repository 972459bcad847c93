"""Size and power of the tests on linked rows, as shares of data sets in which they reject.

- size: independent rows in 40 groups of 5, with covariates that are the same within groups; `row_dependence`
at 5 % and .1 %. Residuals have fewer dimensions than rows, which a test that permutes them must allow for.
- columns: 30 groups of 10, columns whose intraclass correlations are equal (0.45), or uniform in [0.1, 0.8]:
the test that columns differ (`columns_p_value_`), and the tests for dependence that is left, after one
correlation for all columns (`structure="common"`) and after each column's own ("auto").
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine

from polydag import LinkedRows, simulate
from polydag.rows import Links, row_dependence
from polydag.simulate.sem import propagate

FIRST_SEED = 5000
COVARIATES = (0, 10)
COLUMNS = (1, 6)


def size(p: int, covariates: int, times: int) -> dict[str, Any]:
    rng = np.random.default_rng([FIRST_SEED, p, covariates])
    groups = np.arange(200) // 5
    links = Links.from_groups(groups)
    start, found = time.process_time(), []
    for number in range(times):
        Z = rng.standard_normal((40, covariates))[groups] if covariates else None
        X = rng.standard_normal((200, p)) @ rng.standard_normal((p, p))
        found.append(row_dependence(X, links, covariates=Z, random_state=number).p_value)
    at_5, at_01 = (float(np.mean(np.array(found) <= level)) for level in (0.05, 0.001))
    met = 0.04 <= at_5 <= 0.06 and at_01 <= 0.002
    row = {"what": "size", "p": p, "covariates": covariates, "columns": "independent", "data_sets": times}
    spent = round(time.process_time() - start, 1)
    return {**row, "test": "row_dependence", "at_5": at_5, "at_01": at_01, "met": met, "cpu_s": spent}


def columns(p: int, differ: bool, times: int) -> list[dict[str, Any]]:
    groups = np.arange(300) // 10
    start = time.process_time()
    found: dict[str, list[float]] = {"columns differ": [], "after, one for all": [], "after, auto": []}
    for seed in range(FIRST_SEED, FIRST_SEED + times):
        rng = np.random.default_rng([seed, p])
        truth = simulate.dag(p, n_edges=2 * p, weight_range=(0.25, 1.0), random_state=rng)
        shares = rng.uniform(0.1, 0.8, p) if differ else np.full(p, 0.45)
        shared, own = rng.standard_normal((30, p))[groups], rng.standard_normal((300, p))
        X = propagate(truth, np.sqrt(shares) * shared + np.sqrt(1 - shares) * own)
        one = LinkedRows(X, groups=groups, structure="common", random_state=seed)
        found["columns differ"].append(one.decorrelation_.columns_p_value)
        found["after, one for all"].append(one.test_after_.p_value)
        found["after, auto"].append(LinkedRows(X, groups=groups, random_state=seed).test_after_.p_value)
    spent = round((time.process_time() - start) / 3, 1)
    row = {"what": "columns", "p": p, "covariates": 0, "columns": "differ" if differ else "alike"}
    return [
        {
            **row,
            "data_sets": times,
            "test": name,
            "at_5": round(float(np.mean(np.array(values) <= 0.05)), 4),
            "at_01": round(float(np.mean(np.array(values) <= 0.001)), 4),
            "met": "",
            "cpu_s": spent,
        }
        for name, values in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Size and power of the tests on linked rows")
    parser.add_argument("--size", type=int, default=2500, help="data sets for each line on size")
    parser.add_argument("--columns", type=int, default=40, help="data sets for each line on columns")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [size(p, covariates, chosen.size) for p in COLUMNS for covariates in COVARIATES]
    for differ in (False, True):
        rows.extend(columns(COLUMNS[-1], differ, chosen.columns))
    print(pd.DataFrame(rows).to_string(index=False))
    if not chosen.no_save:
        keep("linked_tests", rows, machine("polydag", "scipy", "numba"))


if __name__ == "__main__":
    main()
