"""Sites and a coordinator that run apart: the endpoints agree with parties in one process."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from apart import SITES, run_apart, tables
from polydag import studies
from polydag.cli.main import app
from polydag.deployment import envelopes
from polydag.deployment.coordinator import CoordinatorEndpoint, new_study
from polydag.deployment.description import Column, Description, described
from polydag.deployment.preparation import prepared
from polydag.deployment.site import SiteEndpoint
from polydag.errors import DataError, UsageError
from polydag.studies.config.shapes import PartiesConfig


def config_of(method: str, **settings: object) -> PartiesConfig:
    return PartiesConfig(SITES, method=method, seed=3, settings=settings)


@pytest.mark.parametrize("method", ["boss", "admm"])
def test_masked_sums_give_the_graph_of_one_process(tmp_path: Path, method: str) -> None:
    files = tables(tmp_path)
    apart = run_apart(tmp_path, files, config_of(method))
    together = studies.run(PartiesConfig(tuple(map(str, files.values())), method=method, seed=3))
    np.testing.assert_array_equal(apart.graph.adjacency, together.graph.adjacency)


@pytest.mark.parametrize(
    ("method", "effects", "refused"),
    [
        ("admm", "means", "its owner does not allow admm"),
        ("boss", "random", "its owner does not allow site_effects='random'"),
        ("boss", "means", None),
    ],
)
def test_sums_that_can_be_solved_are_joined_only_if_the_owner_allows_it(
    tmp_path: Path, method: str, effects: str, refused: str | None
) -> None:
    files = tables(tmp_path)
    config = PartiesConfig(SITES, method=method, seed=3, site_effects=effects)
    kits = new_study(tmp_path / "study", described(config), tmp_path)
    joined = [
        SiteEndpoint(kit).join(str(files[site]), tmp_path / f"home-{site}").content
        for site, kit in zip(SITES, kits, strict=True)
    ]
    coordinator = CoordinatorEndpoint(tmp_path / "study")
    if refused is None:
        assert coordinator.receive(joined) == []
        return
    with pytest.raises(DataError, match=f"north does not take part: {refused}"):
        coordinator.receive(joined)


def test_altered_foreign_and_repeated_files_are_refused_or_ignored(tmp_path: Path) -> None:
    files = tables(tmp_path)
    study, other = tmp_path / "study", tmp_path / "other"
    kits = new_study(study, described(config_of("boss")), tmp_path)
    new_study(other, described(config_of("boss")), tmp_path / "others")
    joined = [
        SiteEndpoint(kit).join(str(files[site]), tmp_path / f"home-{site}").content
        for site, kit in zip(SITES, kits, strict=True)
    ]
    (foreign,) = CoordinatorEndpoint(other).receive(joined[:1])
    assert "belongs to the study" in foreign
    coordinator = CoordinatorEndpoint(study)
    for place in (0, 9, 40, len(joined[0]) // 2, len(joined[0]) - 1):
        altered = bytearray(joined[0])
        altered[place] ^= 1
        assert len(coordinator.receive([bytes(altered)])) == 1
    for malformed in (
        b"",
        b"POLYDAG1",
        b"\x80\x04.",
        b"PK\x03\x04" + bytes(100),
        b"POLYDAG1" + b"\xff" * 200,
    ):
        assert len(coordinator.receive([malformed])) == 1
    assert coordinator.waits_for == SITES
    assert coordinator.receive([*joined, *joined]) == []
    question = {envelopes.header_of(file.content).recipient: file for file in coordinator.questions()}
    north, south = SiteEndpoint(kits[0]), SiteEndpoint(kits[1])
    with pytest.raises(DataError, match="meant for north, not for south"):
        south.receive(question["north"].content)
    first, again = (north.receive(question["north"].content) for _ in range(2))
    assert first is not None
    assert again is not None
    assert coordinator.receive([first.content, again.content]) == []
    assert coordinator.waits_for == SITES[1:]


def test_the_commands_go_from_three_tables_to_a_run_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tables(tmp_path)
    monkeypatch.chdir(tmp_path)

    def polydag(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    polydag("federation", "init", "study", "--sites", ",".join(SITES), "--method", "boss", "--seed", "3")
    for site in SITES:
        polydag("site", "join", f"kit-{site}", "--data", str(files[site]), "--home", f"home-{site}")
    polydag("coordinator", "advance", "study", *(f"join-{site}.polydag" for site in SITES))
    for number in (1, 2):
        for site in SITES:
            question = f"study/questions/question-{number}-{site}.polydag"
            assert f"Question {number}" in polydag("site", "preview", f"kit-{site}", question)
            polydag("site", "answer", f"kit-{site}", question)
        polydag("coordinator", "advance", "study", *(f"answer-{number}-{site}.polydag" for site in SITES))
    polydag(
        "fit",
        "--as",
        "parties",
        *map(str, files.values()),
        *["--method", "boss", "--seed", "3", "--out", "one"],
    )
    assert (tmp_path / "study/run/graph.json").read_text() == (tmp_path / "one/graph.json").read_text()
    assert "150 rows" in (tmp_path / "study/run/summary.txt").read_text()


@pytest.fixture
def described_columns() -> Description:
    columns = {
        "age": Column(unit="years", range=(18.0, 110.0)),
        "smoker": Column("discrete", levels=("no", "yes"), labels={"0": "no", "1": "yes"}, na=("9",)),
        "chol": Column(unit="mmol/L", range=(1.0, 15.0), from_="cholesterol"),
    }
    first = described(dataclasses.replace(config_of("boss"), missing="drop"))
    return dataclasses.replace(first, columns=columns, filters=("age >= 40",))


def clinical(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    smoker = rng.choice([0, 1, 9], n, p=[0.5, 0.4, 0.1])
    age, chol = rng.integers(20, 90, n), rng.uniform(3, 8, n).round(2)
    return pd.DataFrame({"age": age, "smoker": smoker, "cholesterol": chol, "note": "secret"})


def test_a_recipe_makes_the_same_table_of_csv_parquet_and_sql(
    tmp_path: Path, described_columns: Description
) -> None:
    rows = clinical()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    with contextlib.closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        rows.to_sql("patients", database, index=False)
    kept = rows[(rows["age"] >= 40) & (rows["smoker"] != 9)].reset_index(drop=True)
    for source, query in (
        (str(tmp_path / "rows.csv"), None),
        (str(tmp_path / "rows.parquet"), None),
        (f"sqlite:///{tmp_path}/rows.db", "SELECT * FROM patients"),
    ):
        table = prepared(described_columns, source, query)
        assert list(table.frame) == ["age", "smoker", "chol"]
        np.testing.assert_array_equal(table.frame["chol"], kept["cholesterol"])
        np.testing.assert_array_equal(table.frame["smoker"], kept["smoker"].map({0: "no", 1: "yes"}))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cholesterol": 38.67}, r"chol should lie within 1 to 15 mmol/L.*divided by 38.67 they would fit"),
        ({"age": 365.0}, "age should lie within 18 to 110 years"),
    ],
)
def test_numbers_in_another_unit_stop_a_site_before_the_first_sum(
    tmp_path: Path, described_columns: Description, change: dict[str, float], why: str
) -> None:
    rows = clinical()
    rows = rows.assign(**{name: rows[name] * factor for name, factor in change.items()})
    rows.to_csv(tmp_path / "north.csv", index=False)
    kit = new_study(tmp_path / "study", described_columns, tmp_path)[0]
    with pytest.raises(DataError, match=why):
        SiteEndpoint(kit).join(str(tmp_path / "north.csv"), tmp_path / "home")
    assert not (kit / "site.json").exists()
    (kit / "recipe.toml").write_text(
        "".join(
            f"[columns.{'chol' if name == 'cholesterol' else name}]\nfactor = {1 / factor}\n"
            for name, factor in change.items()
        )
    )
    assert SiteEndpoint(kit).join(str(tmp_path / "north.csv"), tmp_path / "home")


def test_a_site_with_few_rows_or_other_labels_does_not_join(
    tmp_path: Path, described_columns: Description
) -> None:
    kit = new_study(tmp_path / "study", described_columns, tmp_path)[0]
    for rows, why in (
        (clinical(12), "at least 10 are asked for"),
        (clinical().replace({"smoker": {1: 2}}), r"the label '2'; the study's are no, yes"),
        (clinical().drop(columns="age"), "age"),
    ):
        rows.to_csv(tmp_path / "north.csv", index=False)
        with pytest.raises(DataError, match=why):
            SiteEndpoint(kit).join(str(tmp_path / "north.csv"), tmp_path / "home")


def test_parties_with_another_version_do_not_take_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site runs the learner to know what it is asked for, and learners change between versions."""
    kit = new_study(tmp_path / "study", described(config_of("boss")), tmp_path)[0]
    monkeypatch.setattr("polydag.__version__", "0.9")
    for start in (lambda: SiteEndpoint(kit), lambda: CoordinatorEndpoint(tmp_path / "study")):
        with pytest.raises(
            UsageError, match=r"made with polydag .*, and this is 0\.9\. .* pip install polydag=="
        ):
            start()
