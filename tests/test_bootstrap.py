"""Resampling and edge frequencies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import GES, Bootstrap, EqualVariance, GaussianStats, embedded, simulate
from polydag.computing import checkpoint, progress
from polydag.errors import DataError, UsageError
from polydag.metrics.proportions import wilson_interval
from polydag.sources.resampling import draw_groups, draw_rows


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    dag = simulate.dag(5, n_edges=5, names=["a", "b", "c", "d", "e"], random_state=2)
    return simulate.linear(dag, n=150, random_state=2)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("uvwxyz"), min_size=1, max_size=40), st.integers(0, 1000))
def test_groups_come_whole_and_as_many_as_there_are(labels: list[str], seed: int) -> None:
    drawn = [labels[row] for row in draw_groups(labels, np.random.default_rng(seed))]
    sizes = {label: labels.count(label) for label in labels}
    times = {label: drawn.count(label) / sizes[label] for label in sizes}
    assert all(value == int(value) for value in times.values())
    assert sum(times.values()) == len(sizes)


def test_rows_are_drawn_evenly() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount(np.concatenate([draw_rows(5, rng) for _ in range(4000)]), minlength=5)
    assert counts / 4000 == pytest.approx(np.ones(5), abs=0.06)


def test_wilson_interval_against_statsmodels_figures() -> None:
    low, high = wilson_interval(np.array([0.0, 5.0, 10.0]), 10)
    # Wilson (1927): roots of (p - share)² = z² p (1 - p) / n
    for share, bounds in zip((0.0, 0.5, 1.0), zip(low, high, strict=True), strict=True):
        for p in bounds:
            assert (p - share) ** 2 == pytest.approx(1.959964**2 * p * (1 - p) / 10, abs=1e-6)


@pytest.mark.parametrize("learner", [EqualVariance(), GES()])
def test_frequencies_are_those_of_the_single_fits(learner: GES, table: pd.DataFrame) -> None:
    model = Bootstrap(learner, n_resamples=12, random_state=3).fit(table)
    total = np.zeros((5, 5))
    for seed in np.random.SeedSequence(3).spawn(12):
        rows = draw_rows(len(table), np.random.default_rng(seed))
        A = type(learner)().fit(table.iloc[rows]).graph_.adjacency
        total += np.where(A & A.T, 0.5, A)
    assert model.frequencies_.to_numpy() == pytest.approx(total / 12)
    assert list(model.frequencies_.columns) == list("abcde")
    assert list(model.pruned_.columns) == ["source", "target", "weight", "reason"]
    assert (model.pairs_["low"] <= model.pairs_["adjacent"]).all()
    assert (model.pairs_["adjacent"] <= model.pairs_["high"]).all()
    assert model.pairs_["adjacent"].is_monotonic_decreasing


def test_processes_and_interruptions_do_not_change_the_answer(table: pd.DataFrame, tmp_path: Path) -> None:
    plain = Bootstrap(EqualVariance(), n_resamples=25, random_state=1).fit(table)
    spread = Bootstrap(EqualVariance(), n_resamples=25, random_state=1, n_jobs=2).fit(table)
    pd.testing.assert_frame_equal(plain.frequencies_, spread.frequencies_)
    seen: list[int] = []

    class StopHereError(Exception):
        pass

    def listener(step: progress.Step) -> None:
        seen.append(step.done)
        if step.done == 20 and len(seen) == 2:
            raise StopHereError

    with pytest.raises(StopHereError), checkpoint.saving(tmp_path, {"x": "1"}), progress.listening(listener):
        Bootstrap(EqualVariance(), n_resamples=25, random_state=1).fit(table)
    assert seen == [10, 20]
    with checkpoint.saving(tmp_path, {"x": "1"}):
        resumed = Bootstrap(EqualVariance(), n_resamples=25, random_state=1).fit(table)
    pd.testing.assert_frame_equal(plain.frequencies_, resumed.frequencies_)


def test_labels_that_are_not_drawn_stay_known() -> None:
    X = embedded.asia().sample(300, random_state=0)
    assert (X["asia"] == "yes").sum() < 6  # so that some resamples have none
    model = Bootstrap(GES(), n_resamples=5, random_state=0).fit(X.astype(str))
    assert list(model.frequencies_.columns) == list(X.columns)


def test_groups_and_tables(table: pd.DataFrame) -> None:
    schools = [row // 10 for row in range(150)]
    by_school = Bootstrap(EqualVariance(), n_resamples=5, random_state=0).fit(table, groups=schools)
    assert by_school.frequencies_.to_numpy().max() == 1.0


def test_what_cannot_be_drawn_is_refused(table: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match="draws rows again"):
        Bootstrap(GES()).fit(GaussianStats.from_data(table))
    with pytest.raises(UsageError, match="n_resamples"):
        Bootstrap(GES(), n_resamples=0).fit(table)
    with pytest.raises(DataError, match="150 rows, but 3 block"):
        Bootstrap(GES(), n_resamples=2).fit(table, groups=[1, 2, 3])
