"""What `check` suspects from names and values, and the option that answers it; nothing in clean data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from polydag import data
from polydag.data.checking.hints import written_differently


def clean(n: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "chol": rng.normal(220, 40, n), "rate": rng.normal(140, 20, n), "st": rng.normal(1, 0.3, n),
        "ward": rng.choice(["a", "b"], n),
    })  # fmt: skip


def said(frame: pd.DataFrame, *others: pd.DataFrame) -> str:
    report = data.check([frame, *others] if others else frame)
    return "\n".join(f"{finding.message} -> {finding.advice}" for finding in report.findings)


def test_clean_data_raise_no_suspicion() -> None:
    for seed in range(10):
        words = said(clean(seed=seed))
        for suspicion in (
            "identifier",
            "missing value",
            "two units",
            "follow each other",
            "but one",
            "cause",
        ):
            assert suspicion not in words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.assign(chol=t["chol"].where(t.index % 9 > 0, 0)), "--na chol=0"),
        (lambda t: t.assign(rate=t["rate"].where(t.index != 3, 999)), "--na rate=999"),
        (lambda t: t.assign(st=t["st"].where(t.index % 20 > 0, 9)), "--na st=9"),
        (lambda t: t.assign(patient_id=np.arange(200) * 7), "--exclude patient_id"),
        (lambda t: t.assign(who=[f"p{i}" for i in range(200)]), "identifier"),
        (
            lambda t: t.assign(chol=t["chol"].where(t.index % 3 > 0, t["chol"] / 38.67)),
            "mmol/L of cholesterol",
        ),
        (lambda t: t.assign(age=t["rate"] / 3, sex=t["ward"]), 'tiers = [["age", "sex"], ["chol", "rate"'),
        (lambda t: t.assign(chol=np.exp(t["st"] * 4)), "--transform chol=log"),
        (lambda t: t.assign(chol=-np.exp(t["st"] * 4)), "--transform chol=rank"),
        (lambda t: t.assign(chol=np.cumsum(t["chol"] - 220), rate=np.cumsum(t["rate"] - 140)), "--groups"),
        (lambda t: pd.concat([t, t.iloc[:9].assign(st=1.234)]), "all columns but one"),
        (lambda t: t.assign(chol=t["chol"].where(t.index > 2)), "--missing em"),
    ],
)
def test_a_suspicion_names_its_option(change: object, words: str) -> None:
    assert words in said(change(clean()))  # type: ignore[operator]


def test_tables_that_differ_in_units_or_spelling() -> None:
    first, second = clean(), clean(seed=1)
    second["chol"] /= 38.67
    assert "mmol/L of cholesterol" in said(first, second)
    first["sex"] = np.where(first["ward"] == "a", "F", "M")
    second["sex"] = np.where(second["ward"] == "a", "female", " m")
    assert "'F' = 'female'" in said(first, second)
    assert written_differently(["F", "M", " m", "female"]) == [["M", " m"], ["F", "female"]]
    assert written_differently(["low", "mid", "high"]) == []


def test_columns_that_are_to_be_left_out_are_in_no_tier() -> None:
    rows = clean().rename(columns={"rate": "age"}).assign(patient_id=np.arange(200), hospital="north")
    assert 'tiers = [["age"], ["chol", "st", "ward"]]' in said(rows)
