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


def test_amounts_that_are_mostly_zero_are_left_as_they_are() -> None:
    rows = clean()
    amount = np.exp(rows["st"] * 4)
    mostly = said(rows.assign(gain=amount.where(rows.index % 5 == 0, 0)))
    assert "is 0 in 160 of 200 rows, and far from Gaussian -> leave it as it is" in mostly
    assert "--transform" not in mostly
    assert "--transform gain=log" in said(rows.assign(gain=amount.where(rows.index % 5 > 0, 0)))


def test_tables_that_differ_in_units_or_spelling() -> None:
    first, second = clean(), clean(seed=1)
    second["chol"] /= 38.67
    assert "mmol/L of cholesterol" in said(first, second)
    first["sex"] = np.where(first["ward"] == "a", "F", "M")
    second["sex"] = np.where(second["ward"] == "a", "female", " m")
    assert "'F' = 'female'" in said(first, second)
    assert written_differently(["F", "M", " m", "female"]) == [["M", " m"], ["F", "female"]]
    assert written_differently(["low", "mid", "high"]) == []


@pytest.mark.parametrize("factor", [2.205, 2.54, 3.281, 18.02, 38.67, 0.001])
def test_a_column_in_other_units_is_found_with_the_option_that_converts_it(factor: float) -> None:
    rng = np.random.default_rng(77)
    first, second = (clean(seed=seed).assign(height=rng.normal(170, 10, 200)) for seed in (0, 1))
    words = said(first, second.assign(height=second["height"] / factor))
    assert f"--rescale 'Table {2 if factor > 1 else 1}:height={max(factor, 1 / factor):g}'" in words


def test_amounts_that_differ_without_other_units_are_not_said_to_have_some() -> None:
    rng = np.random.default_rng(2)
    for factor in (0.4, 1.3, 2.2, 3.0):
        first, second = (clean(seed=seed).assign(crp=np.exp(rng.normal(size=200))) for seed in (0, 1))
        assert "--rescale" not in said(first, second.assign(crp=factor * second["crp"]))
        older = second.assign(rate=second["rate"] + 60, chol=second["chol"] * factor**0.3)
        assert "--rescale" not in said(first, older)


def test_tables_with_other_columns_kinds_and_labels() -> None:
    first, second = clean(), clean(seed=1)
    assert "--columns chol,rate,ward" in said(first, second.rename(columns={"st": "depression"}))
    assert "columns are matched by" in said(first, second[["ward", "chol", "rate", "st"]])
    words = said(first.assign(stage=first.index % 3), second.assign(stage=second["st"]))
    assert "--kind stage=continuous or --kind stage=discrete" in words
    sexes = [table.assign(sex=np.where(table["ward"] == "a", "F", "M")) for table in (first, second)]
    sexes[1]["sex"] = sexes[1]["sex"].str.lower()
    assert "--recode sex:f=F --recode sex:m=M" in said(*sexes)


def test_copies_and_sums_are_left_out_by_an_option() -> None:
    rows = clean()
    assert "--exclude twin" in said(rows.assign(twin=rows["chol"]))
    assert "--exclude both" in said(rows.assign(both=rows["chol"] + rows["rate"]))


def test_columns_that_are_to_be_left_out_are_in_no_tier() -> None:
    rows = clean().rename(columns={"rate": "age"}).assign(patient_id=np.arange(200), hospital="north")
    assert 'tiers = [["age"], ["chol", "st", "ward"]]' in said(rows)
