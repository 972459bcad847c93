"""Calibration as a promise: a small size of benchmarks/calibration.py; in full with the slow tests."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("calibration")
    for name in ("calibration", "keeping"):
        sys.modules.pop(name, None)


def require_calibrated_edges(rows: list[dict[str, Any]], ece: float) -> None:
    """The defaults, over all ways of drawing parameters together and for each of them."""
    default = [row for row in rows if "default" in row["score"]]
    assert len(default) == 6
    assert max(row["ece"] for row in default) < 2.5 * ece
    assert sum(row["ece"] for row in default) / len(default) < ece


def test_edges_of_one_table(calibration: Any) -> None:
    require_calibrated_edges(list(calibration.single(12)), 0.07)


def test_groups_of_the_same_network_have_no_differences(calibration: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(calibration, "SIZES", ((1000, 60),))
    monkeypatch.setattr(calibration, "HOW", ("identical", "related, shared"))
    both = list(calibration.differences(8))
    rows = [row for row in both if row["what"] == "only in one"]
    strengths = [row for row in both if row["what"] == "other strengths"]
    assert max(row["ece"] for row in strengths) < 0.08
    learned = [row for row in rows if row["transfer"] == "learned"]
    alone = [row for row in rows if row["transfer"] == "none"]
    assert sum(row["log_loss"] for row in learned) < 0.7 * sum(row["log_loss"] for row in alone)
    for row in learned:
        assert row["ece"] < 0.06
        if row["tasks"] == "identical":
            assert row["above_0.9"] == 0


@pytest.mark.slow
def test_edges_of_one_table_in_full(calibration: Any) -> None:
    require_calibrated_edges(list(calibration.single(200)), 0.04)


@pytest.mark.slow
def test_tasks_never_lose_much_by_being_learned_together(calibration: Any) -> None:
    rows = [row for row in calibration.several(16) if row["transfer"] == "learned"]
    assert max(row["ratio_to_better"] for row in rows) < 1.15
    assert sum(row["ratio_to_better"] <= 1.05 for row in rows) >= 0.85 * len(rows)


@pytest.mark.slow
def test_differences_in_full(calibration: Any) -> None:
    """Few differences in strength are found where five small groups with labels all have their own."""
    learned = [row for row in calibration.differences(40) if row["transfer"] == "learned"]
    for what, most, mean in (("only in one", 0.08, 0.03), ("other strengths", 0.2, 0.05)):
        errors = [row["ece"] for row in learned if row["what"] == what]
        assert max(errors) < most
        assert sum(errors) / len(errors) < mean


@pytest.mark.slow
def test_joint_chains_are_calibrated_as_exact_sums_are(calibration: Any) -> None:
    """How far tasks are related is approximated by chains; what that costs is small on average."""
    rows = list(calibration.by_chains(8))
    for what in ("edges", "only in one"):
        loss, ece = (
            {
                method: [row[key] for row in rows if (row["what"], row["method"]) == (what, method)]
                for method in ("exact", "mcmc")
            }
            for key in ("log_loss", "ece")
        )
        assert sum(loss["mcmc"]) < 1.1 * sum(loss["exact"])
        assert sum(ece["mcmc"]) / len(ece["mcmc"]) < sum(ece["exact"]) / len(ece["exact"]) + 0.02
