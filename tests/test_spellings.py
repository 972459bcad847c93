"""Labels that are written differently, and numbers in other units: noticed, and mended by the study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from polydag import BOSS, Parties, data
from polydag.cli.main import app
from polydag.errors import DataError, UsageError
from polydag.sources import InMemory
from polydag.sources.columns.spellings import spelling_notes


def test_labels_that_may_be_one_are_named() -> None:
    (note,) = spelling_notes("sex", {"a": ["F", "M"], "b": ["female", "male"], "c": [" f", "M"]})
    for pair in ("'F' (a) and 'female' (b)", "'F' (a) and ' f' (c)", "'M' (a, c) and 'male' (b)"):
        assert pair in note
    assert "'F' (a) and 'M'" not in note
    assert spelling_notes("sex", {"a": ["F", "M"], "b": ["M", "F"]}) == ()
    assert spelling_notes("x", {"a": ["no", "north"], "b": ["no", "north"]}) == ()  # both in one source
    (note,) = spelling_notes("ward", {"a": ["east", "west"], "b": ["east"]})
    assert note == "Column ward: only some have the levels 'west' (a)."
    (note,) = spelling_notes("grade", {"a": [1, 2], "b": [1, 2, 3]})
    assert "3 (b)" in note


def hospitals(seed: int = 0) -> dict[str, pd.DataFrame]:
    """Three hospitals; the second writes sex in words and cholesterol in mmol/L."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], 900)
    chol = 200 + 25 * (sex == "M") + 40 * rng.normal(size=900)
    pressure = 0.3 * chol + 10 * rng.normal(size=900)
    X = pd.DataFrame({"sex": sex, "chol": chol, "pressure": pressure})
    parts = {name: X[k::3].reset_index(drop=True) for k, name in enumerate(("north", "south", "west"))}
    south = parts["south"]
    words = south["sex"].map({"F": "female", "M": " m"})
    parts["south"] = south.assign(sex=words, chol=south["chol"] / 38.67)
    return parts


def test_parties_are_told_before_sums_are_used() -> None:
    with pytest.warns(UserWarning, match="mg/dL and mmol/L of cholesterol"):
        model = BOSS().fit(Parties(hospitals()))
    notes = " ".join(model.notes_)
    assert "'F' (north, west) and 'female' (south)" in notes
    assert "'M' (north, west) and ' m' (south)" in notes


def test_other_units_are_noticed_beside_missing_values() -> None:
    holes = {name: own.assign(chol=own["chol"].where(own.index % 5 > 0)) for name, own in hospitals().items()}
    sources = {name: InMemory(own, missing="em") for name, own in holes.items()}
    with pytest.warns(UserWarning, match="south: column chol .*mg/dL and mmol/L of cholesterol"):
        BOSS().fit(Parties(sources))


@pytest.mark.parametrize("shape", ["parties", "tasks"])
def test_a_study_is_mended_by_its_configuration(shape: str, tmp_path: Path) -> None:
    files = []
    for name, own in hospitals().items():
        files.append(str(tmp_path / f"{name}.csv"))
        own.to_csv(files[-1], index=False)
    words = ["fit", "--as", shape, *files, "--seed", "1"]
    words += ["--set", "max_parents=2"] if shape == "tasks" else ["-m", "boss"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "a")])
    assert result.exit_code == 0, result.output
    assert "--recode sex:female=F" in (tmp_path / "a" / "summary.txt").read_text()
    mended = ["--recode", "sex:female=F", "--recode", "sex: m=M", "--rescale", "south.csv:chol=38.67"]
    result = CliRunner().invoke(app, [*words, *mended, "--out", str(tmp_path / "b")])
    assert result.exit_code == 0, result.output
    summary = " ".join((tmp_path / "b" / "summary.txt").read_text().split())
    assert "chol was multiplied by 38.67" in summary
    assert "be one label" not in summary
    assert "mmol/L" not in summary
    again = ["fit", "--config", str(tmp_path / "b" / "config.toml"), "--out", str(tmp_path / "c")]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert (tmp_path / "b" / "graph.json").read_bytes() == (tmp_path / "c" / "graph.json").read_bytes()


def test_recoding_that_cannot_be_meant(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    hospitals()["north"].to_csv(path, index=False)
    with pytest.raises(UsageError, match="COLUMN:OLD=NEW"):
        data.read(path, recode=["sex=F"])
    with pytest.raises(DataError, match="no column height"):
        data.read(path, factors={"height": 2.0})
    with pytest.raises(DataError, match="holds no numbers to rescale"):
        data.read(path, factors={"sex": 2.0})
    for words in ("chol", "chol=x", "other.csv:chol=2"):
        assert CliRunner().invoke(app, ["fit", str(path), "--rescale", words]).exit_code == 2
