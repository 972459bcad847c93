"""Kinds that are inferred are the same in Python and on the command line, whatever the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from polydag import BOSS, Parties, data
from polydag.cli.main import app
from polydag.errors import DataError
from polydag.sources import InMemory

Rng = np.random.Generator
SORTS = ["fractions", "halves", "few whole", "whole floats"]
SORTS += ["many whole", "apart", "words", "truth", "grades"]
seeds = st.integers(0, 100_000)


def column(rng: Rng, n: int, sort: str) -> Any:
    """The values of one column; some sorts are labels or numbers by how many different ones there are."""
    return {
        "fractions": lambda: rng.normal(size=n).round(2),
        "halves": lambda: rng.integers(0, 4, n) / 2,
        "few whole": lambda: rng.integers(0, int(rng.integers(2, 13)), n),
        "whole floats": lambda: rng.integers(0, int(rng.integers(2, 13)), n).astype(float),
        "many whole": lambda: rng.integers(0, 200, n),
        "apart": lambda: rng.integers(-3, 3, n) * 1000,
        "words": lambda: rng.choice(["a", "b b", "C"], n),
        "truth": lambda: rng.random(n) < 0.5,
        "grades": lambda: np.where(rng.random(n) < 0.8, "high", rng.integers(0, 3, n).astype(str)),
    }[sort]()


def tables(seed: int, number: int) -> list[pd.DataFrame]:
    """Tables of the same columns, a third of them with missing values."""
    rng = np.random.default_rng(seed)
    sorts, gaps = rng.choice(SORTS, 4), 0.1 * (rng.random() < 0.3)
    sizes = rng.integers(8, 80, number)
    whole = [pd.DataFrame({f"c{i}": column(rng, n, sort) for i, sort in enumerate(sorts)}) for n in sizes]
    return [frame.mask(rng.random(frame.shape) < gaps) if gaps else frame for frame in whole]


def command_line(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=seeds)
def test_of_one_table(seed: int, tmp_path: Path) -> None:
    (frame,) = tables(seed, 1)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    _, found = command_line("check", path, "--format", "json")
    checked = {each["name"]: each["kind"] for each in json.loads(found)["columns"]}
    again = pd.read_csv(path)
    for kinds in (
        data.read(path, missing="keep").kinds,
        data.from_frame(frame, missing="keep").kinds,
        InMemory(frame).kinds,
        InMemory(again).kinds,
    ):
        assert dict(kinds) == checked


@pytest.mark.parametrize("shape", ["table", "parties"])
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=seeds)
def test_of_what_was_fitted(shape: str, seed: int, tmp_path: Path) -> None:
    frames = tables(seed, 1 if shape == "table" else 3)
    paths = [tmp_path / f"part{k}.csv" for k in range(len(frames))]
    for frame, path in zip(frames, paths, strict=True):
        frame.to_csv(path, index=False)
    sources = {path.stem: InMemory(pd.read_csv(path), missing="em") for path in paths}
    own = Parties(sources) if shape == "parties" else sources["part0"]
    try:
        fitted: dict[str, str] | None = dict(BOSS().fit(own).kinds_)
    except DataError:
        fitted = None
    common = ("--as", shape, "--method", "boss", "--missing", "em", "--seed", 1, "--quiet", "--force")
    code, found = command_line("fit", *paths, *common, "--format", "json", "--out", tmp_path / "run")
    assert code == (3 if fitted is None else 0)
    assert fitted is None or json.loads(found)["kinds"] == fitted
