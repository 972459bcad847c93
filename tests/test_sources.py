"""Sources of statistics: each answers as the rows would, and they nest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from polydag import (
    BOSS,
    GES,
    Bootstrap,
    DiscreteCounts,
    FreeStructure,
    GaussianStats,
    LinkedRows,
    Parties,
    Regimes,
    Tasks,
    simulate,
)
from polydag.cli.main import app
from polydag.data.kinds import resolve_kind
from polydag.errors import DataError, UsageError
from polydag.rows.decorrelation import decorrelate
from polydag.rows.linked_table import LinkedTable
from polydag.sources import Given, InMemory, Stream, as_source
from polydag.stats import MixedStats


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    dag = simulate.dag(6, n_edges=7, names=list("abcdef"), random_state=2)
    return simulate.linear(dag, n=200, random_state=2)


def pupils(n_groups: int, size: int, correlation: float, d: int = 10, seed: int = 0) -> pd.DataFrame:
    dag = simulate.dag(d, n_edges=d, random_state=seed)
    blocks = simulate.clusters("equi", n_groups * size, size, base=correlation)
    X = simulate.linked(dag, row_covariance=blocks, random_state=seed)
    return X.assign(school=[f"s{row // size}" for row in range(n_groups * size)])


def same(first: GaussianStats, second: GaussianStats, tolerance: float = 1e-8) -> None:
    assert first.names == second.names
    assert first.n == second.n
    assert first.mass == pytest.approx(second.mass, rel=tolerance)
    np.testing.assert_allclose(first.mean, second.mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(first.scatter, second.scatter, rtol=tolerance, atol=tolerance)


def test_a_table_answers_as_its_rows(table: pd.DataFrame) -> None:
    source = as_source(table)
    same(source.moments(), GaussianStats.from_data(table))
    assert (source.names, source.n, source.effective_n) == (tuple("abcdef"), 200.0, 200.0)
    assert set(source.kinds.values()) == {"continuous"}
    assert source.disclosure_.empty
    pd.testing.assert_frame_equal(source.rows(), table)
    same(as_source(table.to_numpy()).moments(), GaussianStats.from_data(table.to_numpy()))
    labels = table.gt(0).replace({True: "high", False: "low"})
    assert as_source(labels).contents == "labels"
    assert as_source(labels).counts().n == 200
    assert as_source(table.assign(g="x")).contents == "mixed"


def test_statistics_as_given(table: pd.DataFrame) -> None:
    stats = GaussianStats.from_data(table)
    assert as_source(stats).moments() is stats
    with pytest.raises(DataError, match="needs counts of labels"):
        as_source(stats).counts()
    counts = DiscreteCounts.from_data(table.gt(0))
    assert Given(counts).contents == "labels"
    with pytest.raises(DataError, match="needs numbers"):
        Given(counts).moments()
    with pytest.raises(UsageError, match="given statistics has no rows"):
        Given(stats).rows()


def test_a_stream_has_the_moments_of_its_file(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "rows.parquet")
    stream = Stream(tmp_path / "rows.parquet")
    same(stream.moments(), GaussianStats.from_data(table))
    assert GES().fit(stream).graph_.names == GES().fit(table).graph_.names
    with pytest.raises(UsageError, match="no rows to draw"):
        Bootstrap(GES()).fit(stream)
    with pytest.raises(UsageError, match="moments only"):
        stream.counts()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_stream_has_moments_with_indicators_of_labels(
    table: pd.DataFrame, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = np.where(table["a"] > 0.5, "west", np.where(table["a"] > -0.5, "north", "east"))
    frame = table.assign(ward=ward).sort_values("a", ignore_index=True)  # levels come one after the other
    path = tmp_path / f"rows.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    monkeypatch.setattr("polydag.data.readers.parquet.BATCH_ROWS", 20)
    stream = Stream(path, kinds={"ward": "discrete"})
    assert stream.contents == "mixed"
    whole = InMemory(frame)
    levels = whole.levels(["ward"])
    assert stream.levels(["ward"]) == levels
    same(stream.mixed(levels).moments, whole.mixed(levels).moments)  # type: ignore[union-attr, arg-type]
    assert np.array_equal(BOSS().fit(stream).graph_.adjacency, BOSS().fit(frame).graph_.adjacency)
    parts = {f"party {k}": frame[k::3] for k in range(3)}
    streams = {}
    for name, own in parts.items():
        own.to_csv(tmp_path / f"{name}.csv", index=False)
        streams[name] = Stream(tmp_path / f"{name}.csv", kinds={"ward": "discrete"})
    one, other = BOSS().fit(Parties(streams)).graph_, BOSS().fit(Parties(parts)).graph_
    assert np.array_equal(one.adjacency, other.adjacency)
    many = frame.assign(ward=[f"w{k}" for k in range(len(frame))])
    many.to_csv(tmp_path / "many.csv", index=False)
    with pytest.raises(DataError, match="more than 64 different labels"):
        Stream(tmp_path / "many.csv", kinds={"ward": "discrete"}).moments()


def test_statistics_of_numbers_and_labels_as_given(table: pd.DataFrame) -> None:
    frame = table.assign(ward=np.where(table["a"] > 0, "west", "east"))
    stats = MixedStats.from_data(frame, {"ward": ("east", "west")})
    assert Given(stats).contents == "mixed"
    assert GES().fit(stats).graph_ == GES().fit(frame).graph_
    with pytest.raises(DataError, match="needs counts of labels"):
        Given(stats).counts()


def test_a_large_file_with_labels_is_streamed(
    table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polydag.studies.data.inputs.LARGE_BYTES", 10)
    table.assign(ward=np.where(table["a"] > 0, "west", "east")).to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "-m", "boss", "--kind", "ward=discrete"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    summary = (tmp_path / "run" / "summary.txt").read_text()
    assert "The data is large" in summary
    assert "labels: ward" in summary.lower()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, 2.5, -0.5, np.nan, np.inf]), min_size=12, max_size=12))
def test_kinds_of_a_whole_table_are_those_of_each_column(cells: list[float]) -> None:
    X = pd.DataFrame(np.reshape(cells, (6, 2)), columns=["a", "b"])
    typed, kinds = InMemory(X)._typed
    each = {name: resolve_kind(X[name], None, name, str) for name in X}
    assert kinds == {name: own.kind for name, own in each.items()}
    for name, own in each.items():
        pd.testing.assert_series_equal(typed[name], own.column, check_dtype=own.kind == "continuous")


def test_what_is_no_table() -> None:
    with pytest.raises(DataError, match="got None"):
        as_source(None)
    with pytest.raises(UsageError, match=r"Parties\(\{...\}\).*Tasks\(\{...\}\)"):
        GES().fit({"a": pd.DataFrame({"x": [1.0]})})
    with pytest.raises(DataError, match=r"'rows.csv' is not a table"):
        as_source("rows.csv")


def test_interventions_by_column_and_by_row(table: pd.DataFrame) -> None:
    words = ["none"] * 100 + ["a"] * 50 + ["a + c"] * 50
    targets = [[]] * 100 + [["a"]] * 50 + [["a", "c"]] * 50
    wanted = Regimes.from_data(table, targets, GaussianStats.from_data)
    by_column = InMemory(table.assign(what=words), interventions="what")
    for source in (by_column, InMemory(table, interventions=targets)):
        found = source.moments()
        assert isinstance(found, Regimes)
        assert set(found.parts) == set(wanted.parts)
        for key, part in found:
            same(part, wanted.parts[key])
    by_word = InMemory(table, interventions=words)
    second = ["none"] * 150 + ["c"] * 50
    one = table.assign(first=["none"] * 100 + ["a"] * 100, second=second)
    for source in (by_word, InMemory(one, interventions=["first", "second"])):
        moments = source.moments()
        assert isinstance(moments, Regimes)
        assert {key: part.n for key, part in moments} == {key: part.n for key, part in wanted}
        assert source.names == tuple(table.columns)
    with pytest.raises(DataError, match="row 3: 'z' is not a column"):
        InMemory(table.assign(what=["a", "none", "z"] + ["a"] * 197), interventions="what")


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_resample_of_groups_is_groups(seed: int) -> None:
    """Every drawn group keeps its rows and links, and a group drawn twice is two groups."""
    sizes = [1, 2, 3, 4] * 4
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(rng.normal(size=(len(labels), 3)), columns=list("xyz"))
    source = LinkedRows(rows, groups=labels, structure="common")
    again = source.resampled(rng).table
    assert len(np.unique(again.links.components)) == len(sizes)
    where = {tuple(row): int(label) for row, label in zip(rows.to_numpy(), labels, strict=True)}
    for component in range(len(sizes)):
        members = np.flatnonzero(again.links.components == component)
        origin = {where[tuple(row)] for row in again.values[members]}
        assert len(origin) == 1
        assert len(members) == sizes[origin.pop()]
        inside = np.isin(again.links.pairs, members).all(axis=1)
        assert inside.sum() == len(members) * (len(members) - 1) // 2


def test_a_bootstrap_of_linked_rows_sees_their_correlation() -> None:
    source = LinkedRows(pupils(20, 10, 0.7), groups="school", structure="common")
    fits = [source.resampled(np.random.default_rng(seed)).decorrelation_ for seed in range(20)]
    assert 30 <= np.mean([fit.precision.effective_n for fit in fits]) <= 45
    assert np.mean([fit.before.correlation for fit in fits]) >= 0.6


def test_a_bootstrap_of_one_network_keeps_its_correlation() -> None:
    """Fewer than ten components: decorrelated rows are drawn, the network stays."""
    source = LinkedRows(pupils(4, 25, 0.6), groups="school", structure="common")
    first = source.decorrelation_
    fits = [source.resampled(np.random.default_rng(seed)).decorrelation_ for seed in range(10)]
    mean = np.mean([fit.before.correlation for fit in fits])
    assert mean == pytest.approx(first.before.correlation, abs=0.15)
    assert all(fit.table.links is first.table.links for fit in fits)


def test_frequencies_of_linked_rows_are_no_longer_those_of_independent_ones() -> None:
    X = pupils(20, 10, 0.7, seed=3)
    linked = LinkedRows(X, groups="school", structure="common")
    direct = GES(penalty=2).fit(linked).graph_
    found = Bootstrap(GES(penalty=2), n_resamples=10, random_state=0).fit(linked)
    assert found.graph_.n_edges <= direct.n_edges + 5


def test_decorrelated_parts_add_up_to_the_whole() -> None:
    """With a known correlation and links that do not cross parts, moments of parts are those of the whole."""
    X = pupils(20, 5, 0.5)
    whole = LinkedRows(X, groups="school", correlation=0.4).moments()
    parts = [LinkedRows(part, groups="school", correlation=0.4).moments() for part in (X[:35], X[35:])]
    same(parts[0] + parts[1], whole)


def test_the_source_is_the_two_steps_by_hand() -> None:
    X = pupils(30, 4, 0.6)
    source = LinkedRows(X, groups="school", random_state=1, free=FreeStructure(n_orders=2))
    by_hand = decorrelate(LinkedTable.of(X, "school"), random_state=1, free=FreeStructure(n_orders=2))
    same(source.moments(), by_hand.moments())
    assert BOSS().fit(source).graph_ == BOSS().fit(by_hand.moments()).graph_
    assert source.effective_n == by_hand.precision.effective_n
    assert source.notes == (by_hand.summary,)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs one of groups=, links=, coordinates= and covariance="),
        ({"groups": "school", "links": [(0, 1)]}, "needs one of"),
        ({"groups": "class"}, "no column class"),
        ({"coordinates": ["lon"]}, "no column lon with coordinates"),
        ({"groups": "school", "correlation": 1.0}, "correlation must be a number at least -1 and at most"),
    ],
)
def test_links_that_cannot_be_meant(options: dict[str, Any], said: str) -> None:
    X = pupils(10, 3, 0.5)
    with pytest.raises((DataError, UsageError), match=said):
        LinkedRows(X, **options).moments()


def test_coordinates_by_name_and_by_array() -> None:
    X = pupils(10, 5, 0.5).drop(columns="school")
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, 2))
    named = LinkedRows(X.assign(lon=points[:, 0], lat=points[:, 1]), coordinates=["lon", "lat"], neighbours=3)
    given = LinkedRows(X, coordinates=points, neighbours=3)
    assert named.names == given.names == tuple(X.columns)
    assert np.array_equal(named.table.links.pairs, given.table.links.pairs)


def test_tasks_are_sources_by_name(table: pd.DataFrame) -> None:
    tasks = Tasks([table[:100], table[100:]])
    assert list(tasks) == ["task 1", "task 2"]
    assert (tasks.n, tasks.names) == (200.0, tuple("abcdef"))
    again = tasks.resampled(np.random.default_rng(0))
    assert [source.n for source in again.values()] == [100.0, 100.0]
    with pytest.raises(UsageError, match="written alike"):
        Tasks({1: table, "1": table})
    with pytest.raises(DataError, match="no tasks"):
        Tasks([])
