"""The multitask learner: every kind of transfer, differences, and tables that do not fit together."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from polydag import (
    BayesianDiscovery,
    DiscreteCounts,
    GaussianStats,
    Knowledge,
    MultitaskDiscovery,
    data,
    simulate,
)
from polydag.cli.main import app
from polydag.discovery import family_table
from polydag.discovery.transfer import ByDifference
from polydag.embedded import asia
from polydag.errors import ConvergenceWarning, DataError, DataWarning, UsageError
from polydag.progress import listening
from polydag.reproduce import brain
from polydag.reproduce import multitask as paper
from polydag.reproduce.ranking import areas, paired, roc_points
from polydag.scores import make_score

Array = NDArray[np.float64]


def clinics(sizes: tuple[int, ...] = (120, 80), p_del: float = 0.3) -> list[pd.DataFrame]:
    return [asia().related(p_del, 10 + k).sample(n, random_state=k) for k, n in enumerate(sizes)]


def edges(model: MultitaskDiscovery) -> Array:
    return np.array([posterior.probabilities for posterior in model.posteriors_])


def test_the_example_of_the_issue() -> None:
    controls, patients = clinics(p_del=0.0)
    model = MultitaskDiscovery(
        transfer="family", score="k2", structure_prior="fair", max_parents=3, method="exact"
    ).fit([controls, patients])
    assert model.tasks_ == ("task 1", "task 2")
    assert model.posteriors_[0].edges.loc["bronc", "dysp"] > 0.5
    assert list(model.differences_.columns) == [
        "source", "target", "in task 1", "in task 2", "shared", "only in task 1", "only in task 2", "basis",
    ]  # fmt: skip
    assert len(model.differences_) == 8 * 7
    assert model.feature_names_in_.tolist() == list(controls.columns)


def test_without_transfer_every_task_is_alone() -> None:
    tables = clinics()
    alone = [BayesianDiscovery().fit(table).posterior_.probabilities for table in tables]
    np.testing.assert_allclose(edges(MultitaskDiscovery(transfer="none").fit(tables)), alone, atol=1e-12)
    np.testing.assert_allclose(edges(MultitaskDiscovery(lambda_=0.0).fit(tables)), alone, atol=1e-12)


def test_pooling_is_one_task_of_all_rows() -> None:
    tables = clinics()
    model = MultitaskDiscovery(transfer="pool").fit(tables)
    whole = BayesianDiscovery().fit(pd.concat(tables, ignore_index=True)).posterior_.probabilities
    np.testing.assert_allclose(edges(model), [whole, whole], atol=1e-12)
    assert (model.differences_[["only in task 1", "only in task 2"]] == 0).all(axis=None)
    assert set(model.differences_["basis"]) == {"one network for all"}
    assert (model.difference(0, 1)["only in task 1"] == 0).all()


@pytest.mark.parametrize("score", ["k2", "bdeu", "bds", "bge"])
@pytest.mark.parametrize("transfer", ["family", "theorem1"])
def test_tasks_draw_nearer(transfer: str, score: str) -> None:
    if score == "bge":
        dag = simulate.dag(6, n_edges=6, random_state=0)
        tables = [simulate.linear(dag, n=n, random_state=n) for n in (25, 15)]
    else:
        tables = [asia().sample(n, random_state=n) for n in (40, 25)]
    alone = edges(MultitaskDiscovery(transfer="none", score=score, max_parents=2).fit(tables))
    model = MultitaskDiscovery(transfer=transfer, score=score, max_parents=2).fit(tables)
    together = edges(model)
    assert np.abs(together[0] - together[1]).sum() < np.abs(alone[0] - alone[1]).sum()
    assert set(model.differences_["basis"]) == {"joint" if transfer == "theorem1" else "product of marginals"}


@pytest.mark.parametrize("transfer", ["family", "theorem1", "none"])
@pytest.mark.parametrize("sizes", [(60, 40), (60, 40, 50)])
def test_differences_add_up(transfer: str, sizes: tuple[int, ...]) -> None:
    model = MultitaskDiscovery(transfer=transfer, max_parents=2).fit(clinics(sizes))
    table = model.differences_.set_index(["source", "target"])
    only = table[[f"only in {task}" for task in model.tasks_]]
    assert only.max(axis=1).is_monotonic_decreasing
    for k, task in enumerate(model.tasks_):
        posterior = model.posteriors_[k].edges
        inside = table[f"in {task}"]
        assert all(posterior.loc[pair] == pytest.approx(inside[pair]) for pair in table.index)
        assert (table["shared"] <= inside + 1e-12).all()
        assert (table[f"only in {task}"] + table["shared"] <= inside + 1e-12).all()
    pair = model.difference("task 1", 1).set_index(["source", "target"]).loc[table.index]
    assert (pair["only in task 1"] >= table["only in task 1"] - 1e-12).all()
    views = transfer == "theorem1"  # of what is shared: each task has its own
    for name in ("task 1", "task 2"):
        both = pair[f"shared from {name}" if views else "shared"]
        np.testing.assert_allclose(both + pair[f"only in {name}"], pair[f"in {name}"], atol=1e-12)
        if views:
            assert (table["shared"] <= table[f"shared from {name}"]).all()
            assert len(sizes) > 2 or (pair[f"shared from {name}"] == table[f"shared from {name}"]).all()
    if not views:
        expected = table["in task 1"] * (1 - table["in task 2"])
        np.testing.assert_allclose(pair["only in task 1"], expected, atol=1e-12)
        if len(sizes) == 3:
            expected = expected * (1 - table["in task 3"])
            np.testing.assert_allclose(table["only in task 1"], expected, atol=1e-12)


@pytest.mark.parametrize("transfer", ["family", "theorem1", "none", "pool"])
def test_connections_are_edges_in_either_direction(transfer: str) -> None:
    model = MultitaskDiscovery(transfer=transfer, max_parents=2).fit(clinics((60, 40, 50)))
    table = model.connections_.set_index(["first", "second"])
    assert len(table) == 8 * 7 / 2
    assert table[[f"only in {task}" for task in model.tasks_]].max(axis=1).is_monotonic_decreasing
    for k, task in enumerate(model.tasks_):
        P = model.posteriors_[k].edges
        expected = [P.loc[a, b] + P.loc[b, a] for a, b in table.index]
        np.testing.assert_allclose(table[f"in {task}"], expected, atol=1e-12)
        assert (table["shared"] + table[f"only in {task}"] <= table[f"in {task}"] + 1e-12).all()
    pair = model.difference(0, 1, of="connections").set_index(["first", "second"]).loc[table.index]
    if transfer in ("family", "none"):
        np.testing.assert_allclose(
            pair["only in task 1"], table["in task 1"] * (1 - table["in task 2"]), atol=1e-12
        )
    elif transfer == "pool":
        assert (pair["only in task 1"] == 0).all()
    else:
        directed = model.difference(0, 1).set_index(["source", "target"])["only in task 1"]
        np.testing.assert_allclose(
            pair["only in task 1"], [directed[a, b] + directed[b, a] for a, b in table.index], atol=1e-12
        )
    with pytest.raises(UsageError, match="'edges' or in 'connections'; got 'arrows'"):
        model.difference(0, 1, of="arrows")  # type: ignore[arg-type]


def test_names_of_tasks_and_their_numbers() -> None:
    controls, patients = clinics()
    model = MultitaskDiscovery(max_parents=2).fit({"controls": controls, "patients": patients})
    assert model.tasks_ == ("controls", "patients")
    assert "only in patients" in model.differences_
    pd.testing.assert_frame_equal(model.difference("controls", "patients"), model.difference(0, 1))
    with pytest.raises(UsageError, match=r"no task 'nurses'\. The tasks are controls, patients"):
        model.difference("nurses", 0)
    with pytest.raises(UsageError, match="'controls' and 0 are the same"):
        model.difference("controls", 0)
    with pytest.raises(UsageError, match="call fit first"):
        MultitaskDiscovery().difference(0, 1)
    # Names come first: these tasks are called 1 and 2.
    numbered = MultitaskDiscovery(max_parents=2).fit({1: controls, 2: patients})
    for first, second in ((1, 2), (np.int64(1), np.int64(2)), ("1", "2"), (0, 2)):
        assert "only in 2" in numbered.difference(first, second)
    with pytest.raises(UsageError, match="no task 3"):
        numbered.difference(1, 3)
    assert model.history_["task"].tolist() == ["controls", "patients"]
    assert all(graph.is_dag for graph in (model.graph_, *model.graphs_))


def test_one_task_only_is_said_to_be_single_task_learning() -> None:
    table = clinics()[0]
    with pytest.warns(DataWarning, match="one task only"):
        model = MultitaskDiscovery(transfer="theorem1").fit([table])
    np.testing.assert_allclose(
        edges(model)[0], BayesianDiscovery().fit(table).posterior_.probabilities, atol=1e-12
    )
    with pytest.raises(UsageError, match="nothing to compare: task 1 is the only task"):
        model.difference(0, 1)


def test_levels_are_united_over_the_tasks() -> None:
    rng = np.random.default_rng(0)
    a = pd.DataFrame({"x": rng.integers(0, 2, 50), "y": rng.integers(0, 3, 50), "z": np.zeros(50, dtype=int)})
    b = pd.DataFrame({"z": rng.integers(0, 2, 40), "y": rng.integers(1, 4, 40), "x": rng.integers(0, 2, 40)})
    model = MultitaskDiscovery(max_parents=2).fit([a, b])
    levels = {"x": [0, 1], "y": [0, 1, 2, 3], "z": [0, 1]}
    counts = [DiscreteCounts.from_data(table[["x", "y", "z"]], levels=levels) for table in (a, b)]
    again = MultitaskDiscovery(max_parents=2).fit(counts)
    np.testing.assert_array_equal(edges(model), edges(again))
    with pytest.raises(DataError, match=r"Column z has only one level \(.*\), the same in every task"):
        MultitaskDiscovery(max_parents=2).fit([a, a])


def test_words_and_numbers_are_not_united() -> None:
    controls, patients = clinics()
    numbers = controls.assign(smoke=(controls["smoke"] == controls["smoke"].iloc[0]).astype(int))
    said = r"Column smoke has words in patients \('.*\) and numbers in controls \(0, 1\).*astype\(str\)"
    with pytest.raises(DataError, match=said):
        MultitaskDiscovery(max_parents=2).fit({"controls": numbers, "patients": patients})
    as_words = numbers.assign(smoke=numbers["smoke"].astype(str))
    with pytest.raises(DataError, match=r"words in task 2 .* and numbers in task 1"):
        MultitaskDiscovery(max_parents=2).fit([numbers, as_words])


def test_tables_that_do_not_fit() -> None:
    controls, patients = clinics()
    with pytest.raises(DataError, match="patients lacks the column smoke, which controls has"):
        MultitaskDiscovery().fit({"controls": controls, "patients": patients.drop(columns="smoke")})
    spelt = patients.rename(columns={"smoke": "Smoke"})
    with pytest.raises(DataError, match=r"task 2 lacks the column smoke \(it has 'Smoke', written differ"):
        MultitaskDiscovery().fit([controls, spelt])
    with pytest.raises(DataError, match="controls lacks the column age, which patients has"):
        MultitaskDiscovery().fit({"controls": controls, "patients": patients.assign(age="old")})
    with pytest.raises(DataError, match="patients has no rows"):
        MultitaskDiscovery().fit({"controls": controls, "patients": patients.iloc[:0]})
    with pytest.raises(DataError, match="There are no tasks"):
        MultitaskDiscovery().fit([])
    with pytest.raises(UsageError, match="Tasks are a list of tables"):
        MultitaskDiscovery().fit(controls)
    with pytest.raises(UsageError, match="1, '1' are written alike"):
        MultitaskDiscovery().fit({1: controls, "1": patients})
    with pytest.raises(DataError, match="task 2 is None"):
        MultitaskDiscovery().fit([controls, None])
    with pytest.raises(DataError, match=r"lacks the columns smoke, lung, which .* leave them out"):
        MultitaskDiscovery().fit({"controls": controls, "patients": patients.drop(columns=["smoke", "lung"])})
    with pytest.raises(DataError, match=r"task 2: .*smoke, row 1: the value is missing"):
        MultitaskDiscovery().fit([controls, patients.assign(smoke=None)])


@pytest.mark.parametrize("score", ["k2", "bge"])
def test_files_are_not_read_here(score: str) -> None:
    said = (
        r"^task 2: 'b\.csv' is not a table, and files are not read here: .*polydag\.data\.read.*polydag fit"
    )
    for path in ("b.csv", Path("b.csv")):
        with pytest.raises(DataError, match=said):
            MultitaskDiscovery(score=score).fit([clinics()[0], path])
    with pytest.raises(DataError, match=r"^task 1: .* shape \(3,\)"):
        MultitaskDiscovery(score=score).fit([np.arange(3), clinics()[0]])


def test_numbers_by_their_kind_are_told_truly() -> None:
    """Whole numbers that a table takes for numbers, though they are few enough for labels."""
    rng = np.random.default_rng(0)
    frames = [
        clinics()[k][["smoke", "lung"]].assign(age=rng.integers(20, 60, n)) for k, n in ((0, 120), (1, 80))
    ]
    tables = [data.from_frame(frame) for frame in frames]
    levels = frames[0]["age"].nunique()
    what = rf"Column age holds numbers by its kind \({levels} different ones\)"
    said = rf"{what}.*--discretize.*--kind age=discrete.*bge"
    with pytest.raises(DataError, match=said):
        MultitaskDiscovery().fit(tables)
    with pytest.raises(DataError, match=said):
        BayesianDiscovery().fit(tables[0])
    # The kind may be that of a later task only, and a column of many values is none for --kind.
    with pytest.raises(DataError, match=r"Column age holds numbers by its kind"):
        MultitaskDiscovery().fit([frames[0], tables[1]])
    many = [frame.assign(age=np.arange(len(frame))) for frame in frames]
    with pytest.raises(DataError, match=r"age has 120 levels, more than 64, but [^-]*--discretize [^-]*$"):
        MultitaskDiscovery().fit([data.from_frame(frame) for frame in many])
    labels = [data.from_frame(frame, kinds={"age": "discrete"}) for frame in frames]
    np.testing.assert_array_equal(
        edges(MultitaskDiscovery().fit(labels)), edges(MultitaskDiscovery().fit(frames))
    )


def test_numbers_are_cut_at_the_same_places_in_all_tasks() -> None:
    dag = simulate.dag(4, n_edges=4, random_state=1)
    tables = [simulate.linear(dag, n=n, random_state=n) + shift for n, shift in ((60, 0.0), (50, 3.0))]
    with pytest.raises(DataError, match=r"Column x0 \(and 3 more\) is continuous, but the score k2"):
        MultitaskDiscovery(max_parents=2).fit(tables)
    model = MultitaskDiscovery(max_parents=2, discretize="quantile:3").fit(tables)
    whole = pd.concat(tables, ignore_index=True)
    cut = whole.apply(lambda column: pd.qcut(column, 3, labels=False))
    again = MultitaskDiscovery(max_parents=2).fit([cut.iloc[:60], cut.iloc[60:]])
    np.testing.assert_allclose(edges(model), edges(again), atol=1e-12)
    stats = [GaussianStats.from_data(table).standardized() for table in tables]
    bge = [edges(MultitaskDiscovery(score="bge", max_parents=2).fit(data)) for data in (tables, stats)]
    np.testing.assert_allclose(bge[0], bge[1], atol=1e-10)


def test_knowledge_holds_in_every_task() -> None:
    known = Knowledge(required=[("smoke", "lung")], forbidden=[("smoke", "bronc")])
    for transfer in ("family", "theorem1", "pool"):
        model = MultitaskDiscovery(transfer=transfer, max_parents=2, knowledge=known).fit(clinics())
        for posterior in model.posteriors_:
            assert posterior.edges.loc["smoke", "lung"] == pytest.approx(1.0)
            assert posterior.edges.loc["smoke", "bronc"] == 0.0


def test_candidate_parents_are_the_same_in_all_tasks() -> None:
    tables = clinics()
    model = MultitaskDiscovery(max_parents=2, max_candidates=4).fit(tables)
    assert [len(kept) for kept in model.candidates_["candidates"]] == [4] * 8
    assert np.isfinite(edges(model)).all()
    with pytest.raises(DataError, match="needs all variables as candidate parents"):
        MultitaskDiscovery(transfer="theorem1", max_parents=2, max_candidates=4).fit(tables)


def test_a_prior_of_ones_own() -> None:
    tables = clinics()
    ours = MultitaskDiscovery(lambda_=0.5, max_parents=2).fit(tables)
    own = ByDifference(lambda u, delta: 0.5**delta)
    same = MultitaskDiscovery(transfer_prior=own, max_parents=2).fit(tables)
    np.testing.assert_allclose(edges(ours), edges(same), atol=1e-10)


def test_progress_names_the_tasks_and_comes_to_an_end() -> None:
    seen = []
    with listening(seen.append):
        MultitaskDiscovery(max_parents=1).fit(dict(zip(("a", "b"), clinics(), strict=True)))
    steps = [(step.done, step.total, step.note) for step in seen if step.task == "tasks"]
    assert steps == [(0, 2, "a"), (1, 2, "b"), (2, 2, "")]


def test_forty_tasks() -> None:
    tables = [asia().related(0.2, k).sample(30, random_state=k) for k in range(40)]
    product = MultitaskDiscovery(max_parents=2, combination="product").fit(tables)
    star = MultitaskDiscovery(max_parents=2).fit(tables)
    assert len(product.posteriors_) == len(star.posteriors_) == 40
    # The pairs' own prior of a parent set counts 39 times in the product: it has fewer edges.
    assert edges(product).sum() < edges(star).sum()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("transfer", "all", "transfer must be one of family, theorem1, none, pool"),
        ("normaliser", "x", "normaliser must be one of all, truncated"),
        ("combination", "sum", "combination must be one of product, star"),
        ("score", "bic", "score must be one of k2"),
        ("lambda_", 1.5, "lambda_ is a number from 0 to 1, or 'average'; got 1.5"),
        ("lambda_", "mean", "or 'average'; got 'mean'"),
        ("transfer_prior", 3, "transfer_prior is a prior of pairs of parent sets.*; got 3"),
        ("method", "quick", "method must be one of auto, exact, mcmc"),
        ("lambda_", True, "or 'average'; got True"),
        ("max_parents", -1, "max_parents must not be negative; got -1"),
        ("max_parents", 2.5, "max_parents is a whole number from 0; got 2.5"),
        ("max_parents", "two", "max_parents is a whole number from 0; got 'two'"),
        ("structure_prior", "odd", "structure_prior must be one of fair, uniform"),
    ],
)
def test_settings_that_cannot_be(option: str, value: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        MultitaskDiscovery(**{option: value}).fit(clinics())


@pytest.mark.parametrize("transfer", ["family", "theorem1"])
@pytest.mark.parametrize("normaliser", ["all", "truncated"])
def test_more_parents_than_there_can_be_are_no_bound(transfer: str, normaliser: str) -> None:
    tables = [table[["smoke", "lung", "bronc"]] for table in clinics()]
    found = [
        edges(MultitaskDiscovery(transfer=transfer, normaliser=normaliser, max_parents=most).fit(tables))
        for most in (2, 3, 99)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    alone = [BayesianDiscovery(max_parents=most).fit(tables[0]).posterior_.probabilities for most in (2, 3)]
    np.testing.assert_array_equal(*alone)
    single = MultitaskDiscovery(transfer=transfer).fit([table[["smoke"]] for table in tables])
    assert edges(single).tolist() == [[[0.0]], [[0.0]]]
    score = make_score("k2", DiscreteCounts.from_data(tables[0][["smoke"]]))
    with pytest.raises(UsageError, match="max_parents = 3 is too large: 1 variable allows at most 0"):
        family_table(score, 3)


def test_lambda_is_any_real_number() -> None:
    tables = clinics()
    expected = edges(MultitaskDiscovery(lambda_=0.5, max_parents=2).fit(tables))
    for half in (np.float32(0.5), np.float64(0.5), Fraction(1, 2)):
        np.testing.assert_array_equal(
            edges(MultitaskDiscovery(lambda_=half, max_parents=2).fit(tables)), expected
        )


@pytest.mark.parametrize("transfer", ["family", "theorem1"])
def test_memory_that_no_machine_has_is_told_briefly(transfer: str) -> None:
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (20, 200)))
    with pytest.raises(UsageError, match=r"needs \d\.\de\+5\d GB; \d+\.\d GB can be used"):
        MultitaskDiscovery(transfer=transfer, method="exact", memory=2.0).fit([table, table])


@pytest.mark.parametrize("transfer", ["family", "none", "pool"])
def test_chains_find_what_is_exact(transfer: str) -> None:
    tables = clinics()
    exact = MultitaskDiscovery(transfer=transfer, max_parents=2, method="exact").fit(tables)
    sampled = MultitaskDiscovery(
        transfer=transfer, max_parents=2, method="mcmc", bucket_size=3, n_steps=4000, random_state=0
    ).fit({"a": tables[0], "b": tables[1]})
    assert {posterior.method for posterior in sampled.posteriors_} == {"mcmc"}
    np.testing.assert_allclose(edges(sampled), edges(exact), atol=0.05)
    assert set(sampled.history_["task"]) == {"a", "b"}
    assert sampled.n_iter_ > 1


def test_chains_that_do_not_agree_are_told() -> None:
    short = MultitaskDiscovery(max_parents=2, method="mcmc", bucket_size=2, n_steps=40, random_state=0)
    with pytest.warns(ConvergenceWarning, match="The chains of task 1, task 2 do not agree"):
        short.fit(clinics())
    assert not short.converged_
    with pytest.raises(UsageError, match="transfer='theorem1' is exact"):
        MultitaskDiscovery(transfer="theorem1", method="mcmc").fit(clinics())


# The paper's tables and figures


def test_areas_are_the_standard_ones() -> None:
    rng = np.random.default_rng(0)
    true = rng.random((2, 6, 6)) < 0.3
    P = rng.random((2, 6, 6)).round(1)
    off = np.broadcast_to(~np.eye(6, dtype=bool), true.shape)
    y, p = true[off], P[off]
    above = (p[y][:, None] > p[~y]).mean() + 0.5 * (p[y][:, None] == p[~y]).mean()
    found = areas(true, P)
    assert found.auc == pytest.approx(above)
    fpr, tpr = roc_points(true, P, "standard")
    assert np.trapezoid(tpr, fpr) == pytest.approx(above)
    assert (fpr[-1], tpr[-1]) == (1.0, 1.0)


def test_the_papers_own_rates() -> None:
    true = np.zeros((1, 3, 3), dtype=bool)
    true[0, 0, 1] = true[0, 1, 2] = True
    P = np.array([[[0, 0.9, 0.7], [0.1, 0, 0.8], [0.2, 0.3, 0]]])
    fpr, tpr = roc_points(true, P, "paper")
    # With k edges accepted: precision, and false ones among the pairs that are left.
    np.testing.assert_allclose(tpr, [1, 1, 1, 2 / 3, 2 / 4, 2 / 5])
    np.testing.assert_allclose(fpr, [0, 0, 0, 1 / 3, 2 / 2, 3 / 1])
    expected = 1 / 3 * (1 + 2 / 3) / 2 + 2 / 3 * (2 / 3 + 2 / 4) / 2
    assert areas(true, P).paper_auc == pytest.approx(expected)
    assert np.isnan(areas(~np.ones((1, 3, 3), dtype=bool), P).auc)


def test_corners_of_a_curve_are_all_of_it() -> None:
    rng = np.random.default_rng(1)
    true = rng.random((2, 9, 9)) < 0.1
    P = rng.random((2, 9, 9))
    (x, y), (few_x, few_y) = (roc_points(true, P, "standard", corners=c) for c in (False, True))
    assert len(few_x) < len(x) / 2
    assert np.trapezoid(few_y, few_x) == pytest.approx(np.trapezoid(y, x), abs=1e-12)
    # The paper's form bends between corners, and in it all other pairs can be tied before a rate of 1.
    for tied, d in ((0.0, 5), (0.0, 30), (0.3, 5), (0.3, 30), (0.8, 5), (0.8, 30)):
        true = rng.random((4, d, d)) < 0.1
        P = np.clip(rng.random(true.shape) + 0.4 * true - tied, 0, 1)
        few_x, few_y = roc_points(true, P, "paper", corners=True)
        assert len(few_x) <= len(roc_points(true, P, "paper")[0])
        assert (few_x > 1).sum() <= 1
        inside = np.append(few_x[few_x <= 1], 1.0)
        area = np.trapezoid(np.interp(inside, few_x, few_y), inside)
        assert area == pytest.approx(areas(true, P).paper_auc, abs=1e-3)


def test_paired_t_test_names_the_winner() -> None:
    a = np.array([0.8, 0.9, 0.85, 0.95])
    assert paired(a, 0.9 * a, "MTL", "STL").winner == "MTL"
    assert paired(0.9 * a, a, "MTL", "STL").winner == "STL"
    assert paired(a, a, "MTL", "STL").winner == "-"
    assert paired(a, a / 1.1, "MTL", "STL").increase == pytest.approx(10.0)


def test_asia_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bench = paper.Benchmark("asia", (20,), 300, {"method": "exact"})
    monkeypatch.setattr(paper, "benchmark", lambda name, preset: bench)
    monkeypatch.setattr(paper, "LARGE", (100,))
    words = ["reproduce", "multitask", "--table", "1", "--trials", "2", "-q"]
    words += [word for k in ("1", "2", "3") for word in ("--figure", k)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    folder = Path("runs/reproduce-multitask")
    table = pd.read_csv(folder / "table1.csv")
    assert len(table) == 3 * 2
    assert set(table["measure"]) == {"auc", "average_precision", "paper_auc"}
    assert table["MTL"].between(0, 1).all()
    assert set(pd.read_csv(folder / "by_p_del_table1.csv")["p_del"]) == {0.1, 0.2, 0.3, 0.4, 0.5}
    curves = pd.read_csv(folder / "figure2.csv")
    # The paper's curves are of edges that tasks share and of edges of one task only.
    assert set(curves["kind"]) == {"shared", "unique", "reverse", "no edge"}
    assert len(curves) == 4 * 56
    roc = pd.read_csv(folder / "figure3.csv")
    assert set(roc["form"]) == {"standard", "paper"}
    assert roc.groupby(["method", "form"]).size().min() > 21
    assert not (folder / "notes.txt").exists()
    assert set(pd.read_csv(folder / "figure1.csv")["kind"]) == {"true", "reverse", "no edge"}
    assert {path.name for path in folder.glob("*.svg")} == {f"figure{k}.svg" for k in (1, 2, 3)}
    done = CliRunner().invoke(app, ["reproduce", "multitask", "--table", "3", "--out", "x", "-q"])
    assert done.exit_code == 2
    assert "tables 1 and 2" in done.output
    assert not list(Path().glob("x*"))  # nothing is left that a correct command would stumble over


def test_series_are_detrended_and_cut_into_four_levels() -> None:
    t = np.arange(200.0)[:, None]
    flat = brain.detrended(np.hstack([3 * t, np.ones_like(t)]), window=11)
    np.testing.assert_allclose(flat[5:-5], 0.0, atol=1e-9)
    z = np.random.default_rng(0).standard_normal((4000, 2))
    levels = brain.four_levels(10 + 5 * z)
    shares = np.bincount(levels[:, 0], minlength=4) / 4000
    np.testing.assert_allclose(shares, [0.16, 0.34, 0.34, 0.16], atol=0.03)
    np.testing.assert_array_equal(levels, brain.four_levels(z))


def test_simulated_groups_have_the_papers_size() -> None:
    groups = brain.simulated(seed=1, regions=12, scans=60)
    assert {name: len(group.subjects) for name, group in groups.items()} == {"controls": 86, "patients": 74}
    assert all(subject.shape == (60, 12) for group in groups.values() for subject in group.subjects)


def test_figures_of_the_brain_study_and_of_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are computed, at a tiny size: chains are too short to agree."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POLYDAG_DATA", raising=False)
    tiny = brain.simulated(seed=1, regions=6, scans=30)
    short = {"n_steps": 40, "n_chains": 2, "bucket_size": 3}
    monkeypatch.setattr(brain, "simulated", lambda: tiny)
    monkeypatch.setattr(brain, "SMALL", (2, 3))
    monkeypatch.setattr(brain, "FEW", 2)
    monkeypatch.setattr(brain, "settings_of", lambda preset: short)
    bench = paper.Benchmark("asia", (20,), 60, {"method": "mcmc", **short})
    monkeypatch.setattr(paper, "benchmark", lambda name, preset: bench)
    words = ["reproduce", "multitask", "--table", "2", "--trials", "2", "-q"]
    words += [word for k in ("4", "5", "6", "7") for word in ("--figure", k)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    folder = Path("runs/reproduce-multitask")
    tests = pd.read_csv(folder / "figure6_tests.csv")
    assert tests["subjects"].tolist() == [2, 2, 3, 3]
    assert tests[["MTL", "STL"]].stack().dropna().between(0, 1).all()
    maps = pd.read_csv(folder / "figure7.csv", dtype={"subjects": str})
    assert set(maps["group"]) == {"controls", "patients"}
    assert set(maps["subjects"]) == {"2", "all"}
    assert (maps["low"] <= maps["mean"] + 1e-12).all()
    assert (maps["mean"] <= maps["high"] + 1e-12).all()
    assert maps.loc[maps["subjects"] == "all", "probability"].notna().all()
    apart = pd.read_csv(folder / "figure7_differences.csv", dtype={"subjects": str})
    assert set(apart["groups"]) == {"controls − patients"}
    assert set(apart["of"]) == {"connection", "edge"}
    for _, own in apart.groupby(["subjects", "of"]):
        assert own["mean"].abs().is_monotonic_decreasing
    assert (apart["sure"] == (np.sign(apart["low"]) * np.sign(apart["high"]) > 0)).all()
    whole = maps[maps["subjects"] == "all"].pivot_table(
        index=["source", "target"], columns="group", values="probability", fill_value=0.0
    )
    every = apart[apart["subjects"] == "all"].set_index(["source", "target"])
    compared = every.loc[every["of"] == "edge", "probability"]
    gap = whole["controls"] - whole["patients"]
    np.testing.assert_allclose(compared, gap.reindex(compared.index), atol=2 * brain._SHOWN)
    connected = every.loc[every["of"] == "connection", "probability"]
    turned = gap.reindex(connected.index.swaplevel()).fillna(0.0).to_numpy()
    np.testing.assert_allclose(
        connected, gap.reindex(connected.index).fillna(0.0) + turned, atol=4 * brain._SHOWN
    )
    assert len(pd.read_csv(folder / "table2.csv")) == 6
    heat = ["figure7-simulated-2.svg", "figure7-simulated-all.svg"]
    expected = {"figure4.svg", "figure5.svg", "figure6.svg", *heat}
    assert {path.name for path in folder.glob("*.svg")} == expected
    # All regions have their places, with an edge or without.
    drawn = [(folder / name).read_text(encoding="utf-8") for name in heat]
    assert all([text.index(f">{name}<") for name in tiny["controls"].names] for text in drawn)


def test_chains_that_do_not_agree_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the tables, in a file beside them and on the terminal."""
    monkeypatch.chdir(tmp_path)
    settings = {"method": "mcmc", "n_steps": 40, "n_chains": 2, "bucket_size": 2}
    monkeypatch.setattr(paper, "benchmark", lambda name, preset: paper.Benchmark("asia", (20,), 60, settings))
    done = CliRunner().invoke(app, ["reproduce", "multitask", "--table", "2", "--trials", "2", "-q"])
    assert done.exit_code == 0, done.output
    folder = Path("runs/reproduce-multitask")
    each = pd.read_csv(folder / "chains_table2.csv")
    assert each.groupby("method").size().to_dict() == {
        "MTL": 2, "MTL, truncated": 2, "POOL": 2, "STL": 2, "truth": 2,
    }  # fmt: skip
    assert not each["converged"].any()
    table = pd.read_csv(folder / "table2.csv")
    assert (table["not_converged"] == 6).all()
    assert (table["fits"] == 6).all()
    assert table["worst_r_hat"].max() == each["r_hat"][each["method"] != "truth"].max()
    said = "table2: in 10 of 10 fits the chains do not agree (R-hat up to"
    assert said in (folder / "notes.txt").read_text(encoding="utf-8")
    assert said in " ".join(done.output.split())


def test_the_brain_study_says_what_its_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference_data: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = brain.simulated(seed=1, regions=4, scans=30)
    monkeypatch.setattr(brain, "data_sets", lambda: {"simulated": tiny, "abide": tiny})
    monkeypatch.setattr(brain, "SMALL", (2, 100))
    monkeypatch.setattr(brain, "settings_of", lambda preset: {"n_steps": 40, "n_chains": 2, "bucket_size": 2})
    done = CliRunner().invoke(app, ["reproduce", "multitask", "--figure", "6", "--trials", "1", "-q"])
    assert done.exit_code == 0, done.output
    folder = Path("runs/reproduce-multitask")
    said = (folder / "notes.txt").read_text(encoding="utf-8")
    assert "not independent rows" in said
    assert "blocks of about 150 consecutive scans stand in for subjects" in said
    assert "not independent rows" in " ".join(done.output.split())
    table = pd.read_csv(folder / "figure6.csv")
    assert set(table["data"]) == {"simulated", "abide"}
    assert set(table["subjects"]) == {2}  # a number of subjects that is there


def test_draws_of_subjects_are_as_many_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(brain, "networks", lambda trials, preset: asked.append(trials) or {})
    paper.run([17], 100)
    assert asked == [100]


def test_abide_groups(reference_data: Path) -> None:
    groups = brain.abide()
    assert {name: sum(map(len, group.subjects)) for name, group in groups.items()} == {
        "control": 2250,
        "autism": 2060,
    }
    assert all(len(group.names) == 116 for group in groups.values())
    sizes = {len(subject) for group in groups.values() for subject in group.subjects}
    assert sizes <= {147, 148, 150}
