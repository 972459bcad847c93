"""`check` finds and names every planted problem, and reports none in a sound table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import data
from polydag.data.checking.cost_estimates import COSTS, estimates
from polydag.data.checking.quality import (
    constant_columns,
    dependent_columns,
    duplicate_columns,
    identical_columns,
    require_usable,
)
from polydag.data.checking.report import CheckReport
from polydag.errors import DataError, UsageError
from polydag.stats import GaussianStats


def sound(n: int = 400, d: int = 4, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    scale = np.linspace(1.0, 1.5, d)
    return pd.DataFrame(rng.normal(5, scale, (n, d)), columns=[f"x{j}" for j in range(d)])


def said(report: CheckReport, severity: str | None = None) -> str:
    return "\n".join(
        f"{finding.subject}: {finding.message}"
        for finding in report.findings
        if severity is None or finding.severity == severity
    )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shift=st.sampled_from([0.0, 1.0, -1e4]),
    size=st.sampled_from([1e-3, 1, 1e5]),
)
def test_planted_dependence_is_found_and_nothing_else(seed: int, shift: float, size: float) -> None:
    """A linear combination of columns is reported with its coefficients, whatever the scales."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 6)) @ (np.eye(6) + 0.5 * rng.normal(size=(6, 6))) * size + shift * size
    names = [f"v{j}" for j in range(6)]
    stats = GaussianStats.from_data(X, names=names)
    assert dependent_columns(stats) == []
    assert constant_columns(stats) == []
    assert duplicate_columns(stats) == []
    i, j = rng.choice(6, 2, replace=False)
    total = 2.0 * X[:, i] - 0.5 * X[:, j] + 3.0
    worse = GaussianStats.from_data(np.column_stack([X, total]), names=[*names, "total"])
    (found,) = dependent_columns(worse)
    assert found.column == "total"
    parts = dict(found.parts)
    assert set(parts) == {names[i], names[j]}
    assert parts[names[i]] == pytest.approx(2.0, rel=1e-4)
    assert parts[names[j]] == pytest.approx(-0.5, rel=1e-4)
    with pytest.raises(DataError, match=r"combinations of others: total = constant"):
        require_usable(worse, independent=True)
    require_usable(worse)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), value=st.sampled_from([0.0, 1.0, 0.1, 1e9 + 0.1, -1e-9]))
def test_constant_and_duplicate_columns(seed: int, value: float) -> None:
    rng = np.random.default_rng(seed)
    frame = sound(50, 5, seed)
    frame["same"] = value
    order = rng.permutation(6)
    stats = GaussianStats.from_data(frame.iloc[:, order])
    assert constant_columns(stats) == ["same"]
    assert duplicate_columns(stats) == []
    with pytest.raises(DataError, match=r"mine\.csv: column same is constant"):
        require_usable(stats, source="mine.csv")
    twin = frame.drop(columns="same").assign(
        twin=frame["x2"], near=frame["x2"] * (1 + 1e-3), apart=frame["x2"] + 1
    )
    assert duplicate_columns(GaussianStats.from_data(twin)) == [("x2", "twin")]
    assert identical_columns(twin) == [("x2", "twin")]
    with pytest.raises(DataError, match="x2 = twin"):
        require_usable(GaussianStats.from_data(twin))


def test_identical_columns_of_labels() -> None:
    frame = pd.DataFrame({"a": ["x", "y", "x"], "b": ["x", "y", "x"], "c": ["y", "x", "y"], "d": [1, 0, 1]})
    frame["e"] = frame["d"].astype(bool)
    frame["f"] = frame["a"].astype("category")
    assert identical_columns(frame) == [("a", "b", "f"), ("d", "e")]


def test_more_columns_than_rows_is_said() -> None:
    stats = GaussianStats.from_data(sound(5, 8))
    with pytest.raises(DataError, match="5 rows for 8 columns"):
        require_usable(stats, independent=True)


def test_a_sound_table_raises_no_alarm() -> None:
    report = data.check(sound())
    assert report.worst is None
    assert report.findings == ()
    assert [(column.name, column.kind) for column in report.columns] == [
        (f"x{j}", "continuous") for j in range(4)
    ]
    assert report.tables == (("The table", 400, 4),)


def test_everything_planted_is_found() -> None:
    rng = np.random.default_rng(0)
    frame = sound()
    frame["flat"] = 2.5
    frame["twin"] = frame["x0"]
    frame["sum"] = frame["x1"] + frame["x2"]
    frame["big"] = frame["x3"] * 1e4 + rng.normal(size=400)
    frame["heavy"] = np.exp(2 * rng.normal(size=400))
    frame["id"] = [f"p{i}" for i in range(400)]
    frame["one"] = "same"
    frame["hole"] = np.where(np.arange(400) < 40, np.nan, rng.normal(size=400))
    frame["endless"] = np.where(np.arange(400) == 7, np.inf, rng.normal(size=400))
    report = data.check(frame)
    errors, warnings, infos = (said(report, severity) for severity in ("error", "warning", "info"))
    assert "column flat: is constant" in errors
    assert "columns x0 = twin hold the same values" in errors
    assert "column sum: is a linear combination of other columns: sum = constant + 1·x1 + 1·x2" in errors
    assert "column one: has only one level" in errors
    assert "values are missing: hole 40 (10%)" in errors
    assert "values are infinite: endless 1" in errors
    assert "column id: is discrete with 400 levels" in warnings
    assert "scales differ" in warnings + infos
    assert "(big)" in said(report)
    assert "far from Gaussian: heavy" in infos
    assert report.worst == "error"
    severities = [finding.severity for finding in report.findings]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert all(finding.advice for finding in report.findings)


def test_scales_that_give_directions_away() -> None:
    """In a chain with equal noise variances, later variables have larger variances and larger R²."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 6))
    for j in range(1, 6):
        X[:, j] += 1.5 * X[:, j - 1]
    frame = pd.DataFrame(X, columns=list("abcdef"))
    assert "scales differ: sd from 1" in said(data.check(frame), "warning")
    standardised = (frame - frame.mean()) / frame.std()
    assert "all columns have the same scale" in said(data.check(standardised), "warning")


def test_rows_against_columns() -> None:
    assert "fewer rows (5) than columns (8)" in said(data.check(sound(5, 8)), "warning")
    assert "has 50 rows for 8 columns" in said(data.check(sound(50, 8)), "info")
    assert "repeat an earlier row" in said(
        data.check(pd.concat([sound(100), sound(100).iloc[:50]])), "warning"
    )


def test_tables_are_compared() -> None:
    def table(source: str, frame: pd.DataFrame) -> data.Table:
        return data.from_frame(frame, source=source)

    base = sound().assign(g=["a", "b"] * 200)
    first = table("one.csv", base)
    assert said(data.check([first, table("two.csv", sound(seed=1).assign(g=["b", "a"] * 200))])) == ""
    other = table(
        "two.csv", base.drop(columns="x0").assign(x1=base["x1"] * 1000, g=["a", "c"] * 200, y=base["x0"])
    )
    found = said(data.check([first, other]))
    assert "one.csv and two.csv: have different columns: x0 only in one.csv; y only in two.csv" in found
    assert "one.csv and two.csv, column x1: has scales that differ 1e+03-fold" in found
    assert "column g: has different levels: b, c in only one of them" in found
    swapped = table("two.csv", base[[*base.columns[::-1]]])
    assert "in a different order" in said(data.check([first, swapped]), "info")
    coarse = table("two.csv", base.assign(x2=[0, 1] * 200))
    assert "column x2: is continuous in the first and discrete in the second" in said(
        data.check([first, coarse])
    )


def test_the_report_is_plain_json() -> None:
    frame = sound().assign(g=["a", "b"] * 200, flag=[True, False] * 200, hole=[np.nan, 1.5] * 200)
    table = data.from_frame(frame, missing="impute", source="t.csv")
    report = data.check([table, frame])
    plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert plain["tables"][0] == {"source": "t.csv", "rows": 400, "columns": 7}
    assert plain["notes"] == [f"t.csv: {table.notes[0]}"]
    column = next(item for item in plain["columns"] if item["name"] == "g")
    assert column["levels"] == ["a", "b"]
    assert {item["method"] for item in plain["estimates"]} == {cost.name for cost in COSTS}


def test_costs_grow_with_columns() -> None:
    for cost in COSTS:
        small, large = 10, int(min(100, cost.most_columns))
        assert 0 < cost.memory(small, 100) <= cost.memory(large, 100)
        assert 0 < cost.seconds(small, 100) < cost.seconds(large, 100)
    assert {cost.method for cost in estimates(100, 100)}.isdisjoint({"posterior", "tasks"})


def test_nothing_to_check() -> None:
    with pytest.raises(UsageError, match="no table"):
        data.check([])


def test_hospitals(reference_data: Path) -> None:
    places = [
        reference_data / "heart" / f"heart_{site}.csv"
        for site in ("cleveland", "hungarian", "switzerland", "va")
    ]
    report = data.check([data.read(place, missing="keep") for place in places])
    found = said(report)
    assert "heart_cleveland.csv: values are missing: ca 4 (1%), thal 2 (1%)" in found
    assert "heart_switzerland.csv, column chol: has only one level" in found
    assert "is continuous in the one" not in found
