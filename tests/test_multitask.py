"""The multitask learner: every kind of transfer, differences, and tables that do not fit together."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from polydag import (
    BayesianDiscovery,
    DiscreteCounts,
    GaussianStats,
    Knowledge,
    MultitaskDiscovery,
    Similarity,
    data,
    simulate,
)
from polydag.computing.progress import listening
from polydag.embedded import asia
from polydag.errors import ConvergenceWarning, DataError, DataWarning, UsageError
from polydag.posterior import family_table
from polydag.posterior.mcmc.chains import Chains
from polydag.posterior.transfer import ByDifference
from polydag.scores import make_score

Array = NDArray[np.float64]


def clinics(sizes: tuple[int, ...] = (120, 80), p_del: float = 0.3) -> list[pd.DataFrame]:
    return [asia().related(p_del, 10 + k).sample(n, random_state=k) for k, n in enumerate(sizes)]


def edges(model: MultitaskDiscovery) -> Array:
    return np.array([posterior.probabilities for posterior in model.posteriors_])


def test_the_example_of_the_issue() -> None:
    controls, patients = clinics(p_del=0.0)
    model = MultitaskDiscovery(
        transfer="family", criterion="k2", structure_prior="fair", max_parents=3, method="exact"
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
    unrelated = MultitaskDiscovery(transfer="family", similarity=Similarity(lambda_=0.0)).fit(tables)
    np.testing.assert_allclose(edges(unrelated), alone, atol=1e-12)


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
    alone = edges(MultitaskDiscovery(transfer="none", criterion=score, max_parents=2).fit(tables))
    model = MultitaskDiscovery(transfer=transfer, criterion=score, max_parents=2).fit(tables)
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
    for graph, posterior in zip(model.graphs_, model.posteriors_, strict=True):
        assert graph == posterior.graph()


def test_one_task_only_is_said_to_be_single_task_learning() -> None:
    table = clinics()[0]
    with pytest.warns(DataWarning, match="only one task"):
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
    (controls, patients), alone = clinics(), MultitaskDiscovery(transfer="none")
    with pytest.raises(DataError, match="patients lacks the column smoke, which controls has"):
        alone.fit({"controls": controls, "patients": patients.drop(columns="smoke")})
    spelt = patients.rename(columns={"smoke": "Smoke"})
    with pytest.raises(DataError, match=r"task 2 lacks the column smoke \(it has 'Smoke', written differ"):
        MultitaskDiscovery().fit([controls, spelt])
    with pytest.raises(DataError, match="controls lacks the column age, which patients has"):
        alone.fit({"controls": controls, "patients": patients.assign(age="old")})
    with pytest.raises(DataError, match="patients has no rows"):
        MultitaskDiscovery().fit({"controls": controls, "patients": patients.iloc[:0]})
    with pytest.raises(DataError, match="There are no tasks"):
        MultitaskDiscovery().fit([])
    with pytest.raises(UsageError, match="Tasks are a mapping of names to tables"):
        MultitaskDiscovery().fit(controls)
    with pytest.raises(UsageError, match="1, '1' are written alike"):
        MultitaskDiscovery().fit({1: controls, "1": patients})
    with pytest.raises(DataError, match="task 2 is None"):
        MultitaskDiscovery().fit([controls, None])
    with pytest.raises(DataError, match=r"lacks the columns smoke, lung, which .* leave them out"):
        alone.fit({"controls": controls, "patients": patients.drop(columns=["smoke", "lung"])})
    with pytest.raises(DataError, match=r"task 2: .*smoke, row 1: the value is missing"):
        MultitaskDiscovery().fit([controls, patients.assign(smoke=None)])


@pytest.mark.parametrize("score", ["k2", "bge"])
def test_files_are_not_read_here(score: str) -> None:
    said = r"^task 2: 'b\.csv' is not a table\. Read the file with polydag\.data\.read.*polydag fit"
    for path in ("b.csv", Path("b.csv")):
        with pytest.raises(DataError, match=said):
            MultitaskDiscovery(criterion=score).fit([clinics()[0], path])
    with pytest.raises(DataError, match=r"^task 1: .* shape \(3,\)"):
        MultitaskDiscovery(criterion=score).fit([np.arange(3), clinics()[0]])


def test_numbers_by_their_kind_are_told_truly() -> None:
    """Whole numbers that a table takes for numbers, though they are few enough for labels."""
    rng = np.random.default_rng(0)
    frames = [
        clinics()[k][["smoke", "lung"]].assign(age=rng.integers(20, 60, n)) for k, n in ((0, 120), (1, 80))
    ]
    tables = [data.from_frame(frame) for frame in frames]
    levels = frames[0]["age"].nunique()
    what = rf"Column age holds numbers by its kind \({levels} different ones\)"
    said = rf"{what}.*bge.*--kind age=discrete.*--discretize"
    with pytest.raises(DataError, match=said):
        MultitaskDiscovery(criterion="bdeu").fit(tables)
    with pytest.raises(DataError, match=said):
        BayesianDiscovery(criterion="bdeu").fit(tables[0])
    # The kind may be that of a later task only, and a column of many values is none for --kind.
    with pytest.raises(DataError, match=r"Column age holds numbers by its kind"):
        MultitaskDiscovery(criterion="bdeu").fit([frames[0], tables[1]])
    many = [frame.assign(age=np.arange(len(frame))) for frame in frames]
    many_levels = r"age has 120 levels, more than 64, but [^-]*--set criterion=bge[^-]*--discretize [^-]*$"
    with pytest.raises(DataError, match=many_levels):
        MultitaskDiscovery(criterion="bdeu").fit([data.from_frame(frame) for frame in many])
    with pytest.raises(DataError, match=said):
        MultitaskDiscovery(criterion="bdeu").fit(frames)  # a DataFrame has the kinds of a file
    labels = [data.from_frame(frame, kinds={"age": "discrete"}) for frame in frames]
    words = [frame.assign(age=frame["age"].astype("category")) for frame in frames]
    np.testing.assert_array_equal(
        edges(MultitaskDiscovery(criterion="bdeu").fit(labels)),
        edges(MultitaskDiscovery(criterion="bdeu").fit(words)),
    )


def test_numbers_are_cut_at_the_same_places_in_all_tasks() -> None:
    dag = simulate.dag(4, n_edges=4, random_state=1)
    tables = [simulate.linear(dag, n=n, random_state=n) + shift for n, shift in ((60, 0.0), (50, 3.0))]
    with pytest.raises(DataError, match=r"Column x0 \(and 3 more\) is continuous, but the score bdeu"):
        MultitaskDiscovery(max_parents=2, criterion="bdeu").fit(tables)
    model = MultitaskDiscovery(max_parents=2, discretize="quantile:3").fit(tables)
    assert model.criterion_ == "bdeu"
    whole = pd.concat(tables, ignore_index=True)
    cut = whole.apply(lambda column: pd.qcut(column, 3, labels=False))
    again = MultitaskDiscovery(max_parents=2).fit([cut.iloc[:60], cut.iloc[60:]])
    np.testing.assert_allclose(edges(model), edges(again), atol=1e-12)
    stats = [GaussianStats.from_data(table).standardized() for table in tables]
    bge = [MultitaskDiscovery(max_parents=2).fit(data) for data in (tables, stats)]
    assert {model.criterion_ for model in bge} == {"bge"}
    np.testing.assert_allclose(edges(bge[0]), edges(bge[1]), atol=1e-10)
    assert all("All columns are numbers: the score is bge." in model.notes_ for model in bge)


def test_whole_numbers_have_the_kind_that_the_rows_of_all_tasks_ask_for() -> None:
    """Four rows with three values would be numbers on their own, and columns may be named by numbers."""
    rng = np.random.default_rng(0)
    few, many = (pd.DataFrame(rng.integers(0, 3, (n, 3))) for n in (4, 40))
    few.iloc[:3] = [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    model = MultitaskDiscovery(max_parents=1).fit([few, many])
    assert (model.criterion_, set(model.kinds_.values())) == ("bdeu", {"discrete"})
    more = many.assign(**{"3": rng.standard_normal(40)})
    mixed = MultitaskDiscovery(max_parents=1).fit([few.assign(**{"3": [0.5, 1.0, 0.1, 2.0]}), more])
    assert (mixed.criterion_, list(mixed.kinds_.values())) == ("dg", [*["discrete"] * 3, "continuous"])


def test_knowledge_holds_in_every_task() -> None:
    known = Knowledge(required=[("smoke", "lung")], forbidden=[("smoke", "bronc")])
    for transfer in ("family", "theorem1", "pool"):
        model = MultitaskDiscovery(transfer=transfer, max_parents=2, knowledge=known).fit(clinics())
        for posterior in model.posteriors_:
            assert posterior.edges.loc["smoke", "lung"] == pytest.approx(1.0)
            assert posterior.edges.loc["smoke", "bronc"] == 0.0


@pytest.mark.parametrize("transfer", ["learned", "family", "theorem1", "none"])
def test_each_task_can_have_a_prior_of_its_own(transfer: str) -> None:
    tables = dict(zip("ab", clinics(), strict=True))
    names = list(tables["a"].columns)
    likely = pd.DataFrame(0.5, index=names, columns=names)
    likely.loc["smoke", "xray"] = 0.99
    settings: dict[str, Any] = {"transfer": transfer, "max_parents": 2}
    plain = MultitaskDiscovery(**settings).fit(tables)
    knowledge = {"b": Knowledge(required=[("smoke", "lung")], forbidden=[("smoke", "bronc")])}
    model = MultitaskDiscovery(**settings, knowledge=knowledge, edge_prior={"a": likely}).fit(tables)
    before, (a, b) = plain.posteriors_[0].edges, (posterior.edges for posterior in model.posteriors_)
    assert b.loc["smoke", "lung"] == pytest.approx(1.0)
    assert b.loc["smoke", "bronc"] == 0.0
    assert a.loc["smoke", "bronc"] > 0.0
    assert a.loc["smoke", "lung"] < 1.0
    assert a.loc["smoke", "xray"] > before.loc["smoke", "xray"] + 0.02
    assert ("smoke", "lung") in [(edge.source, edge.target) for edge in model.graphs_[1].edges()]
    power = model.power("b", "a", n_samples=2)
    assert power is not None
    known = power[(power["first"] == "smoke") & (power["second"] == "lung")]
    assert known["power"].tolist() == [1.0]
    if transfer == "none":
        own = BayesianDiscovery(max_parents=2, knowledge=knowledge["b"]).fit(tables["b"])
        np.testing.assert_allclose(b, own.posterior_.edges, atol=1e-12)
    forbidden = Knowledge(forbidden=[("smoke", "bronc"), ("xray", "lung")])
    alike = [
        edges(MultitaskDiscovery(**settings, knowledge=known_).fit(tables))
        for known_ in (forbidden, dict.fromkeys("ab", forbidden))
    ]
    np.testing.assert_allclose(alike[0], alike[1], atol=1e-9)


def test_priors_of_tasks_that_cannot_be() -> None:
    tables = dict(zip("ab", clinics(), strict=True))
    known = {"b": Knowledge(forbidden=[("smoke", "bronc")])}
    with pytest.raises(UsageError, match=r"knowledge names the task c. The tasks are a, b"):
        MultitaskDiscovery(knowledge={"c": known["b"]}).fit(tables)
    with pytest.raises(UsageError, match="one network, which cannot have a prior for each task"):
        MultitaskDiscovery(transfer="pool", knowledge=known).fit(tables)
    with pytest.raises(UsageError, match="2 tasks of 8 variables are too many for"):
        MultitaskDiscovery(method="mcmc", knowledge=known).fit(tables)
    with pytest.raises(UsageError, match=r"must be a polydag.Knowledge, not str"):
        MultitaskDiscovery(knowledge={"b": "smoke"}).fit(tables)


def test_required_edges_between_numbers_of_one_population() -> None:
    """The marginal scores of a variable that must have parents are ruled out, and needed all the same."""
    dag = simulate.dag(4, n_edges=4, random_state=0)
    tables = [simulate.linear(dag, n=n, random_state=n) for n in (60, 50)]
    model = MultitaskDiscovery(max_parents=2, knowledge=Knowledge(required=[("x0", "x1")])).fit(tables)
    assert model.ways_["one population"] > 0.3
    assert np.isfinite(edges(model)).all()
    np.testing.assert_allclose(edges(model)[:, 0, 1], 1.0, atol=1e-9)


def test_candidate_parents_are_the_same_in_all_tasks() -> None:
    tables = clinics()
    model = MultitaskDiscovery(transfer="family", max_parents=2, max_candidates=4).fit(tables)
    assert [len(kept) for kept in model.candidates_["candidates"]] == [4] * 8
    assert np.isfinite(edges(model)).all()
    with pytest.raises(DataError, match="needs all variables as candidate parents"):
        MultitaskDiscovery(transfer="theorem1", max_parents=2, max_candidates=4).fit(tables)


def test_a_prior_of_ones_own() -> None:
    tables = clinics()
    half = Similarity(lambda_=0.5)
    ours = MultitaskDiscovery(transfer="family", similarity=half, max_parents=2).fit(tables)
    own = Similarity(prior=ByDifference(lambda u, delta: 0.5**delta))
    same = MultitaskDiscovery(transfer="family", similarity=own, max_parents=2).fit(tables)
    np.testing.assert_allclose(edges(ours), edges(same), atol=1e-10)


def test_progress_names_the_tasks_and_comes_to_an_end() -> None:
    seen = []
    with listening(seen.append):
        MultitaskDiscovery(transfer="none", max_parents=1).fit(dict(zip("ab", clinics(), strict=True)))
    steps = [(step.done, step.total, step.note) for step in seen if step.task == "tasks"]
    assert steps == [(0, 2, "a"), (1, 2, "b"), (2, 2, "")]


def test_forty_tasks() -> None:
    tables = [asia().related(0.2, k).sample(30, random_state=k) for k in range(40)]
    once_for_each = Similarity(combination="product")
    product = MultitaskDiscovery(transfer="family", max_parents=2, similarity=once_for_each).fit(tables)
    star = MultitaskDiscovery(transfer="family", max_parents=2).fit(tables)
    assert len(product.posteriors_) == len(star.posteriors_) == 40
    # The pairs' own prior of a parent set counts 39 times in the product: it has fewer edges.
    assert edges(product).sum() < edges(star).sum()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("transfer", "all", "transfer must be one of learned, family, theorem1, none, pool"),
        ("criterion", "magic", "criterion must be one of"),
        ("similarity", 0.5, "similarity must be a polydag.Similarity; got 0.5"),
        ("method", "quick", "method must be one of auto, exact, mcmc"),
        ("max_parents", -1, "max_parents must be a whole number at least 0; got -1"),
        ("max_parents", 2.5, "max_parents must be a whole number at least 0; got 2.5"),
        ("max_parents", "two", "max_parents must be a whole number at least 0; got 'two'"),
        ("structure_prior", "odd", "structure_prior must be one of fair, uniform"),
    ],
)
def test_settings_that_cannot_be(option: str, value: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        MultitaskDiscovery(**{option: value}).fit(clinics())


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("normaliser", "x", "normaliser must be one of all, truncated"),
        ("combination", "sum", "combination must be one of product, star"),
        ("lambda_", 1.5, "lambda_ must be a number at least 0 and at most 1 or 'average'; got 1.5"),
        ("lambda_", "mean", "or 'average'; got 'mean'"),
        ("lambda_", True, "or 'average'; got True"),
        ("prior", 3, "prior must be a prior of pairs of parent sets.*; got 3"),
    ],
)
def test_similarity_that_cannot_be(option: str, value: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Similarity(**{option: value})


@pytest.mark.parametrize("transfer", ["learned", "none", "pool"])
def test_similarity_is_not_ignored(transfer: str) -> None:
    model = MultitaskDiscovery(transfer=transfer).set_params(similarity__lambda_=0.9)
    with pytest.raises(UsageError, match=f"similarity has no effect with transfer='{transfer}'"):
        model.fit(clinics())


@pytest.mark.parametrize("transfer", ["family", "theorem1"])
@pytest.mark.parametrize("normaliser", ["all", "truncated"])
def test_more_parents_than_there_can_be_are_no_bound(transfer: str, normaliser: str) -> None:
    tables = [table[["smoke", "lung", "bronc"]] for table in clinics()]
    over = Similarity(normaliser=normaliser)  # type: ignore[arg-type]
    found = [
        edges(MultitaskDiscovery(transfer=transfer, similarity=over, max_parents=most).fit(tables))
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
    learner = MultitaskDiscovery(transfer="family", max_parents=2)
    expected = edges(learner.set_params(similarity__lambda_=0.5).fit(tables))
    assert not np.allclose(edges(clone(learner).set_params(similarity__lambda_=0.9).fit(tables)), expected)
    for half in (np.float32(0.5), np.float64(0.5), Fraction(1, 2)):
        same = clone(learner).set_params(similarity__lambda_=half).fit(tables)
        np.testing.assert_array_equal(edges(same), expected)


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
        transfer=transfer,
        max_parents=2,
        method="mcmc",
        chains=Chains(bucket_size=3, n_steps=4000),
        random_state=0,
    ).fit({"a": tables[0], "b": tables[1]})
    assert {posterior.method for posterior in sampled.posteriors_} == {"mcmc"}
    np.testing.assert_allclose(edges(sampled), edges(exact), atol=0.05)
    assert set(sampled.history_["task"]) == {"a", "b"}
    assert sampled.n_iter_ > 1


def test_chains_that_do_not_agree_are_told() -> None:
    short = MultitaskDiscovery(
        transfer="family",
        max_parents=2,
        method="mcmc",
        chains=Chains(bucket_size=2, n_steps=40),
        random_state=0,
    )
    with pytest.warns(ConvergenceWarning, match="The chains of task 1, task 2 have not mixed"):
        short.fit(clinics())
    assert not short.converged_
    with pytest.raises(UsageError, match="transfer='theorem1' is always exact"):
        MultitaskDiscovery(transfer="theorem1", method="mcmc").fit(clinics())


# The paper's tables and figures
