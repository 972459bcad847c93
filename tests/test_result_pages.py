"""Tables in the documentation show the figures that benchmarks have kept."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def kept(name: str) -> list[dict[str, str]]:
    with (ROOT / f"benchmarks/results/{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def table(page: str, first: str) -> list[list[str]]:
    """The cells of the table whose header begins with these words, without the header."""
    lines = (ROOT / "docs/results" / page).read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return rows


def test_what_the_defaults_give() -> None:
    found = kept("defaults")
    expected = []
    for setting in dict.fromkeys(row["setting"] for row in found):
        ways = [row for row in found if row["setting"] == setting]
        (default,) = [row for row in ways if row["way"] == "default"]
        (best,) = [row for row in ways if row["best"] == "True"]
        peers = [row for row in ways if row["of"] == "peer"]
        peer = min(peers, key=lambda row: float(row["cpdag_shd"]), default=None)
        mark = "" if default["default_within_target"] == "True" else " **missed**"
        if mark and default["worse_than_best_by_2_se"] == "False":
            mark = " **missed**, within two standard errors"
        own = f"{float(default['cpdag_shd']):.1f} ± {float(default['standard_error']):.1f}{mark}"
        others = [f"{float(row['cpdag_shd']):.1f} ({row['way']})" if row else "" for row in (best, peer)]
        expected.append([setting, own, *others])
    assert table("defaults.md", "setting") == expected


def test_the_time_of_dense_graphs() -> None:
    expected = [
        [row["p"], row["degree"], row["search"], f"{float(row['cpu_s']):.1f}",
         row["target_s"].removesuffix(".0"), f"{float(row['recall']):.3f}",
         f"{float(row['precision']):.3f}", row["seeds"]]
        for row in kept("dense")
    ]  # fmt: skip
    assert table("defaults.md", "variables") == expected


@pytest.mark.parametrize("learner", ["BOSS", "GES", "PC", "Notears", "admm", "fedavg", "voting", "varying"])
def test_parties_whose_means_differ(learner: str) -> None:
    rows = [row for row in kept("sites") if row["setting"].startswith("6 parties, 80 rows")]
    own = {float(row["shift"]): row for row in rows if row["learner"] == learner}
    expected = [own[by]["default"] for by in (0.0, 1.0, 2.0)] + [own[2.0]["none"], own[2.0]["pooled"]]
    shown = next(row for row in table("federated.md", "setting | learner") if row[1].strip("`") == learner)
    assert shown[2:] == expected


def test_scores_for_numbers_and_labels() -> None:
    ways = ["dg", "cg", "dummies", "levels", "codes", "numbers only"]
    found = {(row["design"], row["d"], row["n"], row["way"]): row["wrong_edges"] for row in kept("mixed")}
    expected = [
        [f"{d}, {n}{', spreads' if design == 'spreads' else ''}", *(found[design, d, n, way] for way in ways)]
        for design in ("means", "spreads") for d in ("20", "50") for n in ("200", "1000")
    ]  # fmt: skip
    assert table("columns.md", "variables, rows") == expected


def test_everyday_tables() -> None:
    ways = ["as it is", "check", "complete rows", "dummies", "levels", "numbers only"]
    found = {
        (row["table"], row["n"], row["way"]): row["wrong_edges"] if row["fits"] != "0" else "refused"
        for row in kept("everyday")
    }
    expected = [
        [f"{name}, {n}", *(found[name, n, way] for way in ways)]
        for name in ("census", "cars", "clinic") for n in ("400", "2000")
    ]  # fmt: skip
    assert table("columns.md", "table, rows") == expected
