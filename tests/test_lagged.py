"""Time series: stacking compared with hand-made rows, merging of statistics, and the estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from polydag import BOSS, FederatedNotears, GaussianStats, Knowledge, Parties, metrics, simulate, studies
from polydag.errors import DataError, UsageError
from polydag.learners.notears.lagged import NotearsLagged
from polydag.losses.lagged import (
    lagged_statistics,
    nothing_changes_the_past,
    slice_names,
    split_lags,
    stack,
    variables_of,
)
from polydag.studies import TableConfig
from polydag.studies.findings.single_graph import scale_caution


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_stacking_is_that_by_hand_in_any_row_order(seed: int, lags: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, 3)
    lengths[0] = 7
    series = {name: rng.normal(size=(n, 2)) for name, n in zip("abc", lengths, strict=True)}
    long = pd.concat(
        pd.DataFrame({"realisation": name, "t": np.arange(len(x)) + 5, "u": x[:, 0], "v": x[:, 1]})
        for name, x in series.items()
    ).sample(frac=1, random_state=seed % 1000)
    expected = [
        np.concatenate([x[t - k] for k in range(lags + 1)])
        for x in series.values()
        for t in range(lags, len(x))
    ]
    stacked = stack(long, lags)
    assert tuple(stacked.columns) == slice_names(["u", "v"], lags)
    order = np.lexsort(stacked.to_numpy().T)
    wanted = np.array(expected)
    assert stacked.to_numpy()[order] == pytest.approx(wanted[np.lexsort(wanted.T)])


def test_columns_have_any_name_and_rows_may_be_in_the_order_of_time() -> None:
    data = simulate.lagged(3, n_steps=9, n_realisations=2, random_state=0).data
    expected = stack(data, 2)
    named = data.rename(columns={"t": "day", "realisation": "who"}).assign(who=["ann"] * 9 + ["bob"] * 9)
    pd.testing.assert_frame_equal(stack(named, 2, time="day", realisation="who"), expected)
    pd.testing.assert_frame_equal(stack(data.drop(columns="t"), 2), expected)
    one = data[data["realisation"] == 1].drop(columns=["t", "realisation"])
    pd.testing.assert_frame_equal(stack(one, 2), expected.iloc[7:].reset_index(drop=True))
    assert np.array_equal(stack(one.to_numpy(), 2), stack(one, 2))  # type: ignore[arg-type]


def test_labels_may_say_which_series_a_row_belongs_to() -> None:
    data = simulate.lagged(3, n_steps=9, n_realisations=2, random_state=0).data
    named = data.drop(columns="realisation").assign(who=["ann"] * 9 + ["bob"] * 9)
    with pytest.raises(DataError, match="--set realisation=who"):
        stack(named, 2)
    assert len(stack(named, 2, realisation="who")) == 14


def test_names_of_slices() -> None:
    assert slice_names(["dose", "y"], 2) == ("dose[t]", "y[t]", "dose[t-1]", "y[t-1]", "dose[t-2]", "y[t-2]")
    assert variables_of(slice_names(["a[t]", "b"], 2), 2) == ("a[t]", "b")
    with pytest.raises(DataError, match=r"x\[t\], y\[t\], x\[t-1\], y\[t-1\]"):
        variables_of(["x", "y"], 1)


def test_statistics_of_parties_merge_to_those_of_all() -> None:
    data = simulate.lagged(3, n_steps=12, n_lags=2, n_realisations=4, random_state=0).data
    whole = lagged_statistics(data, 2)
    first = data["realisation"] < 1
    merged = lagged_statistics(data[first], 2) + lagged_statistics(data[~first], 2)
    assert merged.n == whole.n == 4 * 10
    assert merged.scatter == pytest.approx(whole.scatter)
    one = data[first].drop(columns="realisation")
    assert lagged_statistics(one, 2).scatter == pytest.approx(lagged_statistics(data[first], 2).scatter)


def test_the_past_is_nobodys_target() -> None:
    names = slice_names(["x", "y"], 1)
    known = Knowledge(required=[("x[t-1]", "y[t]")], forbidden=[("x[t]", "y[t]")])
    masks = nothing_changes_the_past(["x", "y"], 1, known).masks(names)
    allowed = [(names[i], names[j]) for i, j in np.argwhere(~masks.forbidden)]
    assert allowed == [
        ("y[t]", "x[t]"), ("x[t-1]", "x[t]"), ("x[t-1]", "y[t]"), ("y[t-1]", "x[t]"), ("y[t-1]", "y[t]")
    ]  # fmt: skip
    assert masks.required.sum() == 1
    with pytest.raises(DataError, match="required and forbidden"):
        nothing_changes_the_past(["x", "y"], 1, Knowledge(required=[("x[t]", "y[t-1]")]))


def test_finds_both_sorts_of_effects_from_rows_and_from_statistics() -> None:
    names = ["age", "dose α", "crp", "il-6", "b m", "y"]
    sample = simulate.lagged(6, n_steps=50, n_lags=2, n_realisations=20, names=names, random_state=1)
    before = sample.data.copy()
    model = NotearsLagged(2).fit(sample.data)
    pd.testing.assert_frame_equal(sample.data, before)
    assert metrics.shd(true=sample.instantaneous, estimate=model.instantaneous_graph_) <= 1
    assert model.instantaneous_graph_.names == tuple(names)
    assert model.lag_weights_ == pytest.approx(np.array(sample.lags), abs=0.15)
    assert model.graph_.is_dag
    assert not model.graph_.adjacency[:, 6:].any()
    assert model.graph_.names == slice_names(names, 2)
    assert np.array_equal(model.graph_.weights[:6, :6], model.instantaneous_graph_.weights)
    assert np.array_equal(model.graph_.weights[12:, :6], model.lag_weights_[1])
    assert model.converged_
    assert {"source", "target"} <= set(model.edges_.columns)
    parts = [lagged_statistics(sample.data[sample.data["realisation"] % 3 == k], 2) for k in range(3)]
    merged = clone(model).fit(parts[0] + parts[1] + parts[2])
    common = NotearsLagged(2, baselines=False).fit(sample.data)
    assert merged.weights_ == pytest.approx(common.weights_, abs=1e-8)


@pytest.mark.parametrize("spread", [0.0, 1.0, 100.0])
def test_baselines_of_series_change_nothing(spread: float) -> None:
    sample = simulate.lagged(5, n_steps=40, n_realisations=12, random_state=2)
    names, rng = list(sample.instantaneous.names), np.random.default_rng(0)
    level = spread * rng.normal(size=(12, 5))
    data = sample.data.copy()
    data[names] += level[pd.factorize(data["realisation"])[0]]
    first, found = NotearsLagged().fit(sample.data), NotearsLagged().fit(data)
    np.testing.assert_allclose(found.weights_, first.weights_, atol=1e-7)
    found = {f"p{k}": data[data["realisation"] % 3 == k] for k in range(3)}
    for learner in (NotearsLagged(), FederatedNotears(model="lagged")):
        again = learner.fit(Parties(found))
        np.testing.assert_allclose(again.weights_, first.weights_, atol=1e-6)
    rows = NotearsLagged(lambda_="stability", random_state=0)
    assert np.array_equal(rows.fit(data).graph_.adjacency, rows.fit(sample.data).graph_.adjacency)


def test_every_series_but_the_first_costs_a_row() -> None:
    sample = simulate.lagged(3, n_steps=20, n_realisations=4, random_state=0)
    own, common = (lagged_statistics(sample.data, 1, baselines=each) for each in (True, False))
    assert common.n == 4 * 19
    assert own.n == common.n - 3
    rows = sample.data.drop(columns=["t", "realisation"]).to_numpy().reshape(4, 20, 3)
    centred = [
        np.hstack([each[1:] - each[1:].mean(axis=0), each[:-1] - each[:-1].mean(axis=0)]) for each in rows
    ]
    np.testing.assert_allclose(own.scatter, sum(each.T @ each for each in centred), rtol=1e-9)


def test_the_paper_setting_is_recovered() -> None:
    """20 variables, two lags, 8 parties with 10 realisations of 50 steps each."""
    sample = simulate.lagged(20, n_steps=50, n_lags=2, n_realisations=80, random_state=3)
    model = NotearsLagged(lags=2).fit(sample.data)
    truth = np.concatenate([sample.instantaneous.adjacency, *(lag != 0 for lag in sample.lags)])
    found = model.graph_.adjacency[:, :20]
    assert 2 * (truth & found).sum() / (truth.sum() + found.sum()) >= 0.95


def test_knowledge_is_over_slices() -> None:
    sample = simulate.lagged(3, n_steps=40, n_realisations=3, random_state=2)
    known = Knowledge(required=[("x0[t-1]", "x2[t]")], forbidden=[("x1[t-1]", "x1[t]"), ("x0[t]", "x1[t]")])
    graph = NotearsLagged(1, knowledge=known).fit(sample.data).graph_
    edges = {(edge.source, edge.target) for edge in graph.edges()}
    assert ("x0[t-1]", "x2[t]") in edges
    assert not edges & {("x1[t-1]", "x1[t]"), ("x0[t]", "x1[t]")}
    with pytest.raises(DataError, match="x0"):
        NotearsLagged(1, knowledge=Knowledge(forbidden=[("x0", "x1")])).fit(sample.data)


def test_bad_series_are_refused_with_the_place() -> None:
    data = simulate.lagged(2, n_steps=6, n_realisations=2, random_state=0).data
    with pytest.raises(DataError, match=r"no column day \(time="):
        stack(data, 1, time="day")
    with pytest.raises(DataError, match=r"no column who \(realisation="):
        NotearsLagged(1, realisation="who").fit(data)
    with pytest.raises(DataError, match="no variables"):
        stack(data[["t", "realisation"]], 1)
    with pytest.raises(DataError, match="Realisation 1: t = 2 is followed by t = 4"):
        stack(data.drop(index=9), 1)
    with pytest.raises(DataError, match="t = 3 is followed by t = 3"):
        stack(pd.concat([data, data.iloc[[3]]]), 1)
    with pytest.raises(DataError, match="more than 6"):
        stack(data, 6)
    with pytest.raises(DataError, match="x1"):
        stack(data.assign(x1=np.nan), 1)
    with pytest.raises(DataError, match="x1 is"):
        stack(data.assign(x1="a"), 1)
    with pytest.raises(UsageError, match="lags"):
        NotearsLagged(0).fit(data)
    with pytest.raises(UsageError, match="Knowledge"):
        NotearsLagged(1, knowledge=[("x0", "x1")]).fit(data)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="not stacked with 2 lags"):
        NotearsLagged(2).fit(lagged_statistics(data, 1))
    with pytest.raises(DataError, match="not stacked with 1 lags"):
        NotearsLagged(1).fit(GaussianStats.from_data(data[["x0", "x1"]]))


def test_series_from_the_command_line(tmp_path: Path) -> None:
    data = simulate.lagged(3, n_steps=40, n_realisations=3, random_state=2).data
    named = data.rename(columns={"realisation": "who"}).assign(who=[f"p{k}" for k in data["realisation"]])
    named.to_csv(tmp_path / "series.csv", index=False)
    (tmp_path / "known.csv").write_text("source,target,kind\nx0[t-1],x2[t],required\n")
    settings = {"realisation": "who", "lags": 1}

    def config(**other: Any) -> TableConfig:
        file = str(tmp_path / "series.csv")
        return TableConfig(data=(file,), method="notears-lagged", settings=settings, seed=0, **other)

    known = str(tmp_path / "known.csv")
    result = studies.run(config(knowledge=known))
    expected = NotearsLagged(1, knowledge=Knowledge(required=[("x0[t-1]", "x2[t]")])).fit(data)
    assert np.array_equal(result.graph.adjacency, expected.graph_.adjacency)
    assert studies.run(config(columns=("x2", "x0"))).graph.names == slice_names(["x2", "x0"], 1)
    for wrong in ({"missing": "drop"}, {"bootstrap": 5}):
        with pytest.raises(UsageError, match="series"):
            studies.run(config(**wrong))
    (tmp_path / "known.csv").write_text("source,target,kind\nx0,x2,required\n")
    with pytest.raises(DataError, match=r"known\.csv"):
        studies.run(config(knowledge=known))


def test_directions_that_rest_on_units_are_told_and_boss_on_slices_does_not_use_them() -> None:
    sample = simulate.lagged(5, n_steps=40, n_realisations=12, random_state=4)
    names = list(sample.instantaneous.names)
    units = dict(zip(names, (1e-2, 1.0, 30.0, 0.1, 1e3), strict=True))
    other = sample.data.assign(**{name: factor * sample.data[name] for name, factor in units.items()})
    (note,) = scale_caution(NotearsLagged().fit(other))
    assert "BOSS on the time slices" in note
    parts = [other[other["realisation"] % 3 == k] for k in range(3)]
    over_parties = FederatedNotears(model="lagged").fit(parts)
    assert any("BOSS on the parties' summed moments of time slices" in each for each in over_parties.notes_)
    known = nothing_changes_the_past(names, 1)
    for data in (sample.data, other):
        found = BOSS(knowledge=known).fit(lagged_statistics(data, 1, baselines=True)).graph_
        within, lagged = split_lags(found, 1)
        assert metrics.shd_cpdag(true=sample.instantaneous, estimate=within) <= 1
        assert np.array_equal(lagged != 0, np.array(sample.lags) != 0)
