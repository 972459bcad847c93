"""Odd numbers and odd containers: an answer without NaN, or an error that says what to do."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from fuzzing import SECONDS, survives

from polydag import (
    BOSS,
    GES,
    PC,
    BayesianDiscovery,
    Bootstrap,
    Chains,
    EqualVariance,
    FederatedNotears,
    LinkedRows,
    LinkedRowsDAG,
    MultitaskDiscovery,
    Notears,
    NotearsLagged,
    NotearsMLP,
    Parties,
    RowDecorrelator,
    Tasks,
    simulate,
)
from polydag.errors import ConvergenceWarning, DataError, DataWarning

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)) @ (np.eye(4) + np.triu(np.full((4, 4), 0.7), 1))
FRAME = pd.DataFrame(X, columns=list("abcd"))
LABELS = pd.DataFrame(RNG.integers(0, 2, (N, 3)).astype(str), columns=list("abc"))


class Foreign:
    """A table of another library, which offers the Arrow PyCapsule interface and nothing else."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table(FRAME).__arrow_c_stream__(requested_schema)


def multi_index() -> pd.DataFrame:
    frame = FRAME.copy()
    frame.columns = pd.MultiIndex.from_product([["a", "b"], [1, 2]])
    return frame


def nearly_collinear(size: float) -> np.ndarray:
    copy = X.copy()
    copy[:, 3] = copy[:, 0] + size * np.random.default_rng(1).normal(size=N)
    return copy


SCALES = {
    f"{scale:g}": X * scale
    for scale in (1e-320, 1e-300, 1e-160, 1e-100, 1e-30, 1e-8, 1e8, 1e30, 1e100, 1e160, 1e300)
}
MIXTURES = {
    "scales 1e±8": X * [1e8, 1, 1e-8, 1],
    "scales 1e±50": X * [1e50, 1, 1e-50, 1],
    "scales 1e±160": X * [1e160, 1, 1e-160, 1],
    "one at 1e300": X * [1e300, 1, 1, 1],
    "offset 1e12": X + 1e12,
    "offset 1e300": X + 1e300,
    "largest": np.where(RNG.random((N, 4)) > 0.5, 1.7e308, -1.7e308),
    "denormal": np.where(np.eye(N, 4) > 0, 5e-324, 0.0),
    "nearly collinear 1e-14": nearly_collinear(1e-14),
    "nearly collinear 1e-7": nearly_collinear(1e-7),
    "constant": np.column_stack([X, np.ones(N)]),
    "inf": np.where(X > 2, np.inf, X),
    "nan": np.where(X > 2, np.nan, X),
}
SIZES = {f"{n} rows": X[:n] for n in range(6)} | {f"{p} columns": X[:, :p] for p in range(3)}
CONTAINERS = {
    "list": X.tolist(),
    "ragged": [[1, 2], [3]],
    "series": FRAME["a"],
    "dict": {"a": X[:, 0], "b": X[:, 1]},
    "sparse matrix": scipy.sparse.csr_matrix(X),
    "sparse array": scipy.sparse.csr_array(X),
    "sparse columns": pd.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(np.round(X))),
    "generator": (row for row in X),
    "none": None,
    "text": "file.csv",
    "scalar": 3.0,
    "one dimension": X[:, 0],
    "three dimensions": X[None],
    "duplicate names": FRAME.set_axis(["a", "a", "b", "c"], axis="columns"),
    "numbers as names": pd.DataFrame(X),
    "nan as a name": FRAME.rename(columns={"a": np.nan}),
    "empty name": FRAME.rename(columns={"a": ""}),
    "multi index": multi_index(),
    "duplicate rows' names": FRAME.set_index(np.zeros(N, dtype=int)),
    "arrow table": pa.Table.from_pandas(FRAME),
    "arrow batch": pa.RecordBatch.from_pandas(FRAME),
    "foreign": Foreign(),
    "nullable": FRAME.convert_dtypes(),
    "nullable with holes": FRAME.astype("Float64").mask(FRAME > 2),
    "dates": FRAME.assign(e=pd.date_range("2020", periods=N)),
    "dates with a zone": FRAME.assign(e=pd.date_range("2020", periods=N, tz="UTC")),
    "durations": FRAME.assign(e=pd.to_timedelta(np.arange(N), "D")),
    "periods": FRAME.assign(e=pd.period_range("2020", periods=N)),
    "intervals": FRAME.assign(e=pd.interval_range(0, N)),
    "date objects": FRAME.assign(e=[datetime.date(2020, 1, 1)] * N),
    "decimals": FRAME.map(lambda value: decimal.Decimal(str(round(value, 3)))),
    "tuples": FRAME.assign(e=[(1, 2)] * N),
    "lists": FRAME.assign(e=[[1]] * N),
    "object array": X.astype(object),
    "object columns": FRAME.astype(object),
    "complex": X + 1j,
    "text array": X.astype(str),
    "huge whole numbers": [[10**400, 1], [2, 3], [4, 5]],
    "records": np.array([tuple(row) for row in X], dtype=[(name, float) for name in "abcd"]),
    "masked": np.ma.array(X, mask=X > 2),
    "matrix": np.asmatrix(X),
    "float16": X.astype(np.float16),
    "float32": X.astype(np.float32),
    "long double": X.astype(np.longdouble),
    "uint64": (np.abs(X) * 1e18).astype(np.uint64),
    "truth values": X > 0,
    "labels": LABELS,
    "one label": LABELS.assign(e="x"),
    "categories": LABELS.astype("category"),
}
CASES = SCALES | MIXTURES | SIZES | CONTAINERS
SHORT = Chains(n_chains=2, n_steps=200)
GROUPS = {"groups": [row // 4 for row in range(N)], "structure": "common"}
LEARNERS: dict[str, Callable[[Any], Any]] = {
    "BOSS": lambda data: BOSS().fit(data),
    "GES": lambda data: GES().fit(data),
    "PC": lambda data: PC().fit(data),
    "Notears": lambda data: Notears().fit(data),
    "EqualVariance": lambda data: EqualVariance().fit(data),
    "NotearsMLP": lambda data: NotearsMLP(hidden=2, lambda_=0.1, random_state=0).fit(data),
    "NotearsLagged": lambda data: NotearsLagged(lambda_=0.1).fit(data),
    "BayesianDiscovery": lambda data: BayesianDiscovery(criterion="bge").fit(data),
    "BayesianDiscovery, chains": lambda data: BayesianDiscovery(
        criterion="bge", method="mcmc", chains=SHORT
    ).fit(data),
    "Bootstrap": lambda data: Bootstrap(EqualVariance(), n_resamples=3, random_state=0).fit(data),
    "MultitaskDiscovery": lambda data: MultitaskDiscovery(criterion="bge").fit(Tasks([data, data])),
    "FederatedNotears": lambda data: FederatedNotears(lambda_=0.1).fit(Parties([data] * 3)),
    "GES over parties": lambda data: GES().fit(Parties([data] * 3)),
    "GES on linked rows": lambda data: GES().fit(LinkedRows(data, **GROUPS)),
    "LinkedRowsDAG": lambda data: LinkedRowsDAG(random_state=0).fit(LinkedRows(data, **GROUPS)),
    "RowDecorrelator": lambda data: RowDecorrelator(GROUPS["groups"], structure="common").fit(data),
}


def tried(learner: str, case: str) -> Any:
    """The fitted learner; a warning of ours is an answer too."""
    data = (row for row in X) if case == "generator" else CASES[case]
    try:
        return LEARNERS[learner](data)
    except (ConvergenceWarning, DataWarning):
        return None


@pytest.mark.parametrize("learner", LEARNERS)
def test_an_answer_without_nan_or_a_clear_error(learner: str) -> None:
    cases = list(CASES)
    if not SECONDS:
        cases = (
            np.random.default_rng(len(learner))
            .permutation(cases)[: 5 if learner == "NotearsMLP" else 20]
            .tolist()
        )
    answered = 0
    for case in ["float32", *cases]:

        def action(case: str = case) -> None:
            nonlocal answered
            fitted = tried(learner, case)
            for attribute in ("weights_", "raw_weights_", "frequencies_", "edge_probabilities_"):
                value = getattr(fitted, attribute, None)
                assert value is None or np.isfinite(np.asarray(value, dtype=float)).all(), attribute
            answered += 1

        try:
            survives(action, 0)
        except AssertionError as error:
            raise AssertionError(f"{learner}, {case}: {error}") from error
    assert answered


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("series", r"single column.*to_frame"),
        ("generator", "read only once"),
        ("sparse matrix", r"sparse matrix.*toarray"),
        ("multi index", r"several levels of names.*join"),
        ("dates", "Column e holds labels.*leave the column out"),
        ("periods", r"Column e holds period\[D\]"),
        ("complex", "Complex data not supported"),
        ("text array", "holds text.*DataFrame"),
        ("records", r"pandas\.DataFrame"),
        ("ragged", "cannot be read as numbers"),
        ("1e+300", "too large to be squared.*units"),
        ("1e-160", "vary by less than 1e-100.*Use other units"),
        ("0 columns", r"0 feature\(s\)"),
        ("0 rows", "no rows"),
    ],
)
def test_what_is_wrong_and_what_to_do(case: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        LEARNERS["EqualVariance"]((row for row in X) if case == "generator" else CASES[case])


def test_containers_of_the_same_numbers_give_the_same_graph() -> None:
    expected = GES().fit(FRAME)
    for case in ("list", "arrow table", "arrow batch", "foreign", "nullable", "decimals", "object columns"):
        found = GES().fit(CASES[case])
        assert (found.graph_.adjacency == expected.graph_.adjacency).all(), case
    import polars

    found = GES().fit(polars.from_arrow(pa.table(FRAME)))
    assert (found.graph_.adjacency == expected.graph_.adjacency).all()
    with pytest.raises(DataError, match=r"lazy frame.*collect"):
        GES().fit(polars.from_arrow(pa.table(FRAME)).lazy())


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e8, 1e30])
def test_graphs_do_not_depend_on_units_common_to_all_columns(scale: float) -> None:
    table = simulate.linear(simulate.dag(6, n_edges=7, random_state=3), n=200, random_state=3)
    for learner in (Notears(), EqualVariance(), GES(), BOSS(), PC()):
        expected, found = learner.fit(table).graph_, learner.fit(table * scale).graph_
        assert (found.adjacency == expected.adjacency).all(), learner
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-6, atol=1e-9)
