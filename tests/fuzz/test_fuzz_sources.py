"""Any learner, with any settings, of any source: an answer that can be used, or a refusal in our words."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fuzzing import cases, survives
from random_data import a_learner, data_for
from sklearn.base import clone

from polydag import (  # fmt: skip
    BOSS,
    GES,
    PC,
    BayesianDiscovery,
    Bootstrap,
    DiscreteCounts,
    EqualVariance,
    FederatedNotears,
    GaussianStats,
    LinkedRows,
    LinkedRowsDAG,
    MultitaskDiscovery,
    Parties,
    Regimes,
    Tasks,
    simulate,
)
from polydag.data import read
from polydag.errors import ConvergenceWarning, DataError, DataWarning, UsageError
from polydag.sources import InMemory, Stream
from polydag.sources.given import Given

NUMBERS = ("weights_", "raw_weights_", "frequencies_", "edge_probabilities_")
TABLES = ("edges_", "pruned_", "history_", "disclosure_", "differences_", "connections_", "relatedness_")


def use(fitted: Any) -> None:
    """What people do with a fitted learner."""
    for attribute in NUMBERS:
        value = getattr(fitted, attribute, None)
        assert value is None or np.isfinite(np.asarray(value, dtype=float)).all(), attribute
    for attribute in TABLES:
        assert isinstance(getattr(fitted, attribute, pd.DataFrame()), pd.DataFrame), attribute
    one = getattr(fitted, "posterior_", None)
    for posterior in [one] if one is not None else getattr(fitted, "posteriors_", []):
        edges = posterior.edges.to_numpy(dtype=float)
        assert ((edges > -1e-9) & (edges < 1 + 1e-9)).all()
    assert type(fitted).__name__ in repr(fitted)
    assert fitted._repr_html_()
    again = pickle.loads(pickle.dumps(fitted))
    if hasattr(fitted, "graph_"):
        assert again.graph_ == fitted.graph_


def test_any_learner_of_any_data(tmp_path: Path) -> None:
    answered = 0
    for seed, rng in cases(25):
        folder = tmp_path / str(seed)
        folder.mkdir()

        def action(rng: np.random.Generator = rng, folder: Path = folder) -> None:
            nonlocal answered
            name, learner = a_learner(rng)
            with warnings.catch_warnings():
                for ours in (ConvergenceWarning, DataWarning):
                    warnings.simplefilter("ignore", ours)
                use(clone(learner).fit(data_for(name, folder, rng)))
            answered += 1

        survives(action, seed)
    assert answered


@pytest.fixture(scope="module")
def labels() -> pd.DataFrame:
    return (simulate.linear(simulate.dag(4, n_edges=4, random_state=0), n=90, random_state=1) > 0).astype(str)


def parties(labels: pd.DataFrame, **settings: Any) -> Parties:
    return Parties([InMemory(labels[k::3].reset_index(drop=True), **settings) for k in range(3)])


@pytest.mark.parametrize(
    ("learner", "mixed", "interventions"),
    [
        (BOSS(), False, None),
        (PC(), False, None),
        (BOSS(), False, [["x0"], [], []] * 10),
        (PC(), False, [["x0"], [], []] * 10),
        (BOSS(criterion="cg"), True, None),
        (PC(test="cg"), True, None),
    ],
)
def test_a_result_over_parties_can_be_stored_without_them(
    labels: pd.DataFrame, learner: Any, mixed: bool, interventions: Any
) -> None:
    table = labels.assign(size=np.random.default_rng(0).normal(size=90)) if mixed else labels
    fitted = clone(learner).fit(parties(table, interventions=interventions))
    assert pickle.loads(pickle.dumps(fitted)).graph_ == fitted.graph_
    if not mixed and interventions is None:
        with pytest.raises(UsageError, match="not stored with a result"):
            pickle.loads(pickle.dumps(fitted._moments)).tables([(0, 1)])


def test_tasks_of_parties_are_pooled_as_their_rows_are(labels: pd.DataFrame) -> None:
    learner = MultitaskDiscovery(transfer="pool", criterion="bdeu")
    halves = [labels[:45], labels[45:]]
    expected = clone(learner).fit(Tasks(halves)).posteriors_[0].edges
    asked = clone(learner).fit(Tasks([parties(half.reset_index(drop=True)) for half in halves]))
    np.testing.assert_allclose(asked.posteriors_[0].edges, expected, atol=1e-12)


def test_interventions_on_tables_of_arrow(labels: pd.DataFrame) -> None:
    told = [["x0"], [], []] * 30
    expected = GES().fit(InMemory(labels, interventions=told)).graph_
    for container in (pa.Table.from_pandas(labels), pa.RecordBatch.from_pandas(labels)):
        assert GES().fit(InMemory(container, interventions=told)).graph_ == expected
    numbers = labels.replace({"True": 1.0, "False": -0.5}).astype(float)
    numbers += np.random.default_rng(0).normal(size=numbers.shape)
    expected = GES().fit(InMemory(numbers, interventions=told)).graph_
    found = GES().fit(InMemory(pa.Table.from_pandas(numbers), interventions=told)).graph_
    np.testing.assert_array_equal(found.adjacency, expected.adjacency)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"n": np.nan}, "of nan rows"),
        ({"n": -3.0}, "of -3 rows"),
        ({"mass": np.inf}, "mass inf"),
        ({"scatter": np.array([[2.0, 1.0], [0.0, 2.0]])}, "not symmetric"),
        ({"scatter": np.array([[1.0, 2.0], [2.0, 1.0]])}, "negative eigenvalues"),
        ({"scatter": np.full((2, 2), np.nan)}, "missing or infinite"),
        ({"scatter": np.eye(3)}, r"name 2 variables, .* scatter \(3, 3\)"),
    ],
)
def test_moments_that_no_rows_have_are_refused(change: dict[str, Any], why: str) -> None:
    sound = GaussianStats(40.0, np.zeros(2), 40 * np.array([[1.0, 0.5], [0.5, 1.0]]), ("a", "b"), 40.0)
    assert Given(sound).n == 40
    wrong = dataclasses.replace(sound, **change)
    for given in (wrong, Regimes({frozenset(): sound, frozenset({"a"}): wrong})):
        with pytest.raises(DataError, match=why):
            GES().fit(given)


def test_counts_under_interventions_are_no_numbers(labels: pd.DataFrame) -> None:
    counted = Regimes.from_data(labels, [["x0"], []] * 45, DiscreteCounts.from_data)
    with pytest.raises(DataError, match="hold labels, not numbers"):
        FederatedNotears().fit(Parties([counted] * 3))


def test_tables_without_columns_are_refused(labels: pd.DataFrame, tmp_path: Path) -> None:
    none = GaussianStats(9.0, np.zeros(0), np.zeros((0, 0)), (), 9.0)
    searches = [GES(criterion=criterion) for criterion in ("bic", "dg")]
    tests = [PC(test=test) for test in ("fisher-z", "dg")]
    for learner in (*searches, *tests, BOSS(), PC(), BayesianDiscovery(criterion="bge"), EqualVariance()):
        for source in (none, Parties([none] * 3)):
            with pytest.raises(DataError, match="no columns"):
                learner.fit(source)
    for suffix, save in (("csv", labels.to_csv), ("parquet", labels.to_parquet)):
        path = tmp_path / f"labels.{suffix}"
        save(path, index=False)
        for asked in (
            lambda path=path: GES().fit(Stream(path, columns=[])),
            lambda path=path: read(path, columns=[]),
        ):
            with pytest.raises(UsageError, match="columns= names no columns"):
                asked()


def test_means_that_cannot_be_squared_are_refused() -> None:
    far = GaussianStats(40.0, np.array([1e200, 0.0]), 40 * np.eye(2), ("a", "b"), 40.0)
    with pytest.raises(DataError, match=r"column a .* larger than 1e\+100.* other units"):
        GES().fit(far)


def test_no_rows_and_labels_are_refused_by_name(labels: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="no rows"):
        LinkedRows(labels[:0], groups=[])
    with pytest.raises(DataError, match="no rows to draw"):
        Bootstrap(EqualVariance(), n_resamples=2).fit(InMemory(np.zeros((0, 2)), blocks=[]))
    table = labels.assign(size=np.random.default_rng(0).normal(size=90))
    rows = LinkedRows(table, groups=[row // 3 for row in range(90)], structure="common")
    with pytest.raises(UsageError, match="learns from numbers, and x0, x1, x2, x3 are labels"):
        LinkedRowsDAG().fit(rows)


@pytest.mark.parametrize("labels_as", ["indicators", "latent"])
def test_linked_rows_with_two_columns_of_one_name_are_refused(labels_as: Any) -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 3)), columns=["a", "b", "a"])
    for given in (table, InMemory(table)):
        with pytest.raises(DataError, match="several columns have the name a"):
            LinkedRows(given, groups=[row // 3 for row in range(12)], labels=labels_as)


def test_linked_rows_with_cells_of_several_values_are_refused() -> None:
    table = pd.DataFrame({"a": np.arange(12.0), "b": [[1]] * 12})
    with pytest.raises(DataError, match="Column b holds lists"):
        LinkedRows(table, groups=[row // 3 for row in range(12)])
