"""Tables with numbers and labels: statistics, the degenerate Gaussian score and test, learners."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions
from typer.testing import CliRunner

from polydag import (
    BOSS,
    GES,
    PC,
    BayesianDiscovery,
    Bootstrap,
    Knowledge,
    LinkedRows,
    Notears,
    Parties,
    Privacy,
)
from polydag.cli.main import app
from polydag.errors import DataError, DataWarning
from polydag.scores import make_score, total_score
from polydag.search.pc.independence_tests.choice import make_test
from polydag.sources import InMemory
from polydag.sources.checked import mixed_statistics
from polydag.stats import GaussianStats, MixedStats
from polydag.stats.mixed import with_indicators

seeds = st.integers(0, 10_000)
LEVELS = {"b": ("high", "low", "mid"), "d": (0, 1)}


def mixed_rows(seed: int, n: int = 120) -> pd.DataFrame:
    """Columns a, c, e of numbers; b with three labels, d with two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) @ (np.eye(5) + 0.5 * rng.normal(size=(5, 5)))
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["b"] = pd.qcut(frame["b"], 3, labels=["low", "mid", "high"]).astype(str)
    frame["d"] = (frame["d"] > 0).astype(int)
    return frame


def gaussian_log_likelihood(frame: pd.DataFrame, columns: list[str], levels: dict[str, Any]) -> float:
    """Of the numbers and dummy columns, with one row's worth of variance more for those of each label."""
    parts = [
        frame[[name]].to_numpy(float)
        if name not in levels
        else np.column_stack([frame[name] == level for level in levels[name][:-1]]).astype(float)
        for name in columns
    ]
    if not parts:
        return 0.0
    n = len(frame)
    S = np.cov(np.hstack(parts), rowvar=False, bias=True).reshape(2 * (sum(p.shape[1] for p in parts),))
    start = 0
    extra = np.zeros_like(S)
    for name, part in zip(columns, parts, strict=True):
        own = slice(start, start + part.shape[1])
        extra[own, own] = S[own, own] / n if name in levels else 0.0
        start += part.shape[1]
    return float(-0.5 * n * (np.linalg.slogdet(S + extra)[1] + start * (np.log(2 * np.pi) + 1)))


@given(seed=seeds, k=st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_a_family_scores_as_the_gaussian_of_its_blocks(seed: int, k: int) -> None:
    frame = mixed_rows(seed)
    rng = np.random.default_rng(seed)
    node, *parents = (frame.columns[i] for i in rng.permutation(5)[: k + 1])
    score = make_score("dg", MixedStats.from_data(frame, LEVELS), penalty=1.5)
    size = {name: len(LEVELS.get(name, (0, 1))) - 1 for name in frame}
    own, q = size[node], sum(size[name] for name in parents)
    likelihood = gaussian_log_likelihood(frame, [*parents, node], LEVELS) - gaussian_log_likelihood(
        frame, parents, LEVELS
    )
    price = 1.5 / 2 * np.log(len(frame)) * (own * q + own * (own + 3) / 2)
    index = {name: i for i, name in enumerate(frame)}
    found = score.local_score(index[node], [index[name] for name in parents])
    assert found == pytest.approx(likelihood - price, rel=1e-9)


@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_equivalent_graphs_score_alike_and_levels_have_no_order(seed: int) -> None:
    frame = mixed_rows(seed)
    score = make_score("dg", MixedStats.from_data(frame, LEVELS))
    forward = np.triu(np.ones((5, 5), dtype=bool), 1)
    place = np.random.default_rng(seed).permutation(5)
    assert total_score(score, forward[np.ix_(place, place)]) == pytest.approx(total_score(score, forward))
    other = {"b": ("low", "mid", "high", "never"), "d": (1, 0)}
    again = make_score("dg", MixedStats.from_data(frame, other))
    for node, parents in ((1, (0, 3)), (0, (1, 3)), (3, (1,))):
        assert again.local_score(node, parents) == pytest.approx(score.local_score(node, parents), rel=1e-8)


def test_numbers_alone_have_the_bic_and_labels_that_determine_each_other_a_finite_score() -> None:
    numbers = mixed_rows(0)[["a", "c", "e"]]
    mixed = make_score("dg", MixedStats.from_data(numbers, {}))
    bic = make_score("bic", GaussianStats.from_data(numbers))
    assert mixed.local_score(0, [1, 2]) == pytest.approx(bic.local_score(0, [1, 2]), rel=1e-12)
    mixed = make_score("dg", MixedStats.from_data(numbers, {}), penalty="auto")
    bic = make_score("bic", GaussianStats.from_data(numbers), penalty="auto")
    assert mixed.local_score(0, [1, 2]) == pytest.approx(bic.local_score(0, [1, 2]), rel=1e-12)
    twins = mixed_rows(0).assign(f=lambda t: t["b"].str.upper())
    graph = BOSS().fit(twins).graph_
    assert graph.adjacency[graph.index("b"), graph.index("f")] or graph.adjacency[5, 1]


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_statistics_of_parts_add_up(seed: int) -> None:
    frame = mixed_rows(seed)
    parts = [MixedStats.from_data(frame.iloc[k::3], LEVELS) for k in range(3)]
    whole, summed = MixedStats.from_data(frame, LEVELS), reduce(add, parts)
    np.testing.assert_allclose(summed.moments.scatter, whole.moments.scatter, atol=1e-9)
    np.testing.assert_allclose(summed.blocks.matrix, whole.blocks.matrix, atol=1e-9)
    chosen = whole.select(["d", "a", "b"])
    direct = MixedStats.from_data(frame[["d", "a", "b"]], LEVELS)
    np.testing.assert_allclose(chosen.moments.scatter, direct.moments.scatter, atol=1e-12)


def test_blocks_are_uncorrelated_inside_and_keep_canonical_correlations() -> None:
    frame = mixed_rows(3)
    blocks = MixedStats.from_data(frame, LEVELS).blocks
    assert blocks.sizes.tolist() == [1, 2, 1, 1, 1]
    one = blocks.matrix[blocks.start[1] : blocks.start[2], blocks.start[0] : blocks.start[1]]
    dummies = np.column_stack([np.ones(len(frame)), frame["b"] == "low", frame["b"] == "mid"])
    left = frame["a"] - dummies @ np.linalg.lstsq(dummies, frame["a"], rcond=None)[0]
    assert (one**2).sum() == pytest.approx(1 - left.var(ddof=0) / frame["a"].var(ddof=0), rel=1e-6)


@pytest.fixture(scope="module")
def clinic() -> pd.DataFrame:
    """Ward -> severity -> stay <- age; severity -> died."""
    rng = np.random.default_rng(7)
    n = 900
    ward = rng.choice(["east", "north", "west"], n)
    severity = pd.Series(ward).map({"east": 0.0, "north": 1.0, "west": -1.0}).to_numpy() + rng.normal(size=n)
    age = 60 + 8 * rng.normal(size=n)
    stay = severity + age / 8 + rng.normal(size=n)
    died = (severity + rng.logistic(size=n) > 1).astype(int)
    return pd.DataFrame({"ward": ward, "severity": severity, "age": age, "stay": stay, "died": died})


@pytest.mark.parametrize("learner", [GES(), BOSS(), PC()])
def test_learners_find_a_mixed_graph_and_say_what_columns_were_taken_for(
    learner: Any, clinic: pd.DataFrame
) -> None:
    model = learner.fit(clinic)
    skeleton_ = {frozenset((edge.source, edge.target)) for edge in model.graph_.edges()}
    wanted = [("ward", "severity"), ("severity", "stay"), ("age", "stay"), ("severity", "died")]
    assert skeleton_ == set(map(frozenset, wanted))
    assert model.kinds_ == {"ward": "discrete", "severity": "continuous", "age": "continuous",
                            "stay": "continuous", "died": "discrete"}  # fmt: skip
    assert any("taken as labels: died" in note for note in model.notes_)
    assert model.dag_.weights[2, 3] == pytest.approx(1 / 8, rel=0.2)
    told = learner.fit(InMemory(clinic, kinds={"died": "continuous"}))
    assert told.kinds_["died"] == "continuous"
    assert not any("died" in note for note in told.notes_)


def test_knowledge_names_columns(clinic: pd.DataFrame) -> None:
    first = Knowledge(tiers=[["ward", "age"], ["severity"], ["stay", "died"]])
    graph = BOSS(knowledge=first).fit(clinic).graph_
    assert ("ward", "severity") in {(edge.source, edge.target) for edge in graph.edges() if edge.directed}
    apart = Knowledge(forbidden=[("severity", "died"), ("died", "severity")])
    for learner in (GES(knowledge=apart), PC(knowledge=apart)):
        assert not learner.fit(clinic).graph_.adjacency[1, 4]


def test_parties_give_the_pooled_answer_in_one_round(clinic: pd.DataFrame) -> None:
    parts = {f"hospital {k}": clinic.iloc[k::3] for k in range(3)}
    # The last hospital never sees one ward.
    parts["hospital 2"] = parts["hospital 2"][lambda t: t["ward"] != "west"]
    hospitals = Parties(parts, site_effects="none")
    pooled = mixed_statistics(pd.concat(parts.values()))
    summed = mixed_statistics(hospitals)
    assert summed.n == pooled.n
    np.testing.assert_allclose(summed.moments.scatter, pooled.moments.scatter, rtol=1e-6, atol=1e-6)
    for learner in (BOSS(), PC()):
        assert learner.fit(hospitals).graph_ .adjacency.tolist() == learner.fit(
            pd.concat(parts.values())).graph_.adjacency.tolist()  # fmt: skip
    shown = BOSS().fit(Parties(parts)).disclosure_
    sums = shown[~shown["name"].str.startswith("join")]
    assert sums["masked"].all()
    assert set(sums["round"]) == {1}


def test_a_posterior_and_a_bootstrap_of_mixed_columns(clinic: pd.DataFrame) -> None:
    model = BayesianDiscovery(criterion="dg", max_parents=2).fit(clinic)
    edges = model.posterior_.edges
    assert edges.loc["age", "stay"] > 0.95
    assert edges.loc["ward", "died"] + edges.loc["died", "ward"] < 0.1
    again = Bootstrap(GES(), n_resamples=10, random_state=0).fit(clinic)
    assert again.frequencies_.loc["age", "stay"] == 1


def test_labels_are_never_silently_numbers(clinic: pd.DataFrame) -> None:
    numbers = clinic.drop(columns="ward")
    assert any("taken as quantities" in note and "died" in note for note in Notears().fit(numbers).notes_)
    for source in (clinic, InMemory(numbers, kinds={"died": "discrete"})):
        for learner in (Notears(), GES(criterion="bic"), PC(test="fisher-z")):
            with pytest.raises(DataError, match=r"(ward|died).* holds labels.*--kind"):
                learner.fit(source)
    with pytest.raises(DataError, match=r"severity.*declared continuous.*--discretize"):
        PC(test="g2").fit(InMemory(clinic, kinds={"severity": "continuous"}))
    with pytest.raises(DataError, match="ward, row 3: the value is missing"):
        BOSS().fit(clinic.assign(ward=clinic["ward"].where(clinic.index != 2)))
    with pytest.raises(DataError, match="ward has only one level"):
        BOSS().fit(clinic.assign(ward="east"))


def test_parties_agree_on_kinds_or_say_who_differs(clinic: pd.DataFrame) -> None:
    small = clinic.iloc[:3]
    parties = Parties({"large": clinic.iloc[3:], "small": small}, privacy=Privacy(mode="none"))
    assert parties.kinds["died"] == "discrete"  # three rows alone might be of numbers
    told = {"a": InMemory(clinic, kinds={"died": "continuous"}), "b": clinic.assign(died="no")}
    with pytest.raises(DataError, match="died holds numbers at a and labels at b"):
        _ = Parties(told).kinds
    named = {party: clinic.assign(site=party) for party in ("north", "south")}
    with pytest.raises(DataError, match=r"site has the same label .*north at north, south .*--exclude site"):
        BOSS().fit(Parties(named, privacy=Privacy(mode="none")))
    words = {"a": clinic, "b": clinic.assign(died=np.where(clinic["died"] == 1, "yes", "no"))}
    with pytest.raises(DataError, match=r"died has words at b .* and numbers at a"):
        BOSS().fit(Parties(words, privacy=Privacy(mode="none")))


def test_the_test_of_blocks_is_wilks_lambda() -> None:
    frame = mixed_rows(5, n=200)
    stats = MixedStats.from_data(frame, LEVELS)
    test = make_test(stats, 0.05)
    dummies = {name: with_indicators(frame[[name]], LEVELS).to_numpy() for name in frame}
    for x, y, given_ in (("b", "a", ()), ("b", "d", ("a",)), ("c", "e", ("b", "d")), ("b", "c", ("a", "d"))):
        Z = np.column_stack([np.ones(200), *(dummies[name] for name in given_)])
        left = {name: dummies[name] - Z @ np.linalg.lstsq(Z, dummies[name], rcond=None)[0] for name in (x, y)}
        both = np.hstack([left[x], left[y]])
        log_lambda = (
            np.linalg.slogdet(both.T @ both)[1]
            - np.linalg.slogdet(left[x].T @ left[x])[1]
            - np.linalg.slogdet(left[y].T @ left[y])[1]
        )
        a, b = left[x].shape[1], left[y].shape[1]
        statistic = -(200 - (Z.shape[1] - 1) - (a + b + 3) / 2) * log_lambda
        expected = distributions.chi2.sf(statistic, a * b)
        found = _p_value(test, stats.names, x, y, given_)
        assert found == pytest.approx(expected, abs=0.02, rel=0.1)


def _p_value(test: Any, names: tuple[str, ...], x: str, y: str, given_: tuple[str, ...]) -> float:
    from polydag.scores.mixed._blocks_kernels import log_left
    from polydag.search.pc.independence_tests._mixed_kernels import _p_value as kernel

    start = test.stats.blocks.start
    i, t = names.index(x), names.index(y)
    members = np.array([*(names.index(name) for name in given_), 0], dtype=np.int64)
    alone = log_left(test._matrix, start, i, members[: len(given_)])
    return float(kernel(test._matrix, start, test.stats.n, 5, i, t, members, len(given_), alone))


@pytest.mark.slow
def test_the_test_of_blocks_keeps_its_level() -> None:
    """Columns that depend on a common cause only, given that cause: 5 % of the tests reject."""
    rng = np.random.default_rng(0)
    rejected = []
    for _ in range(1500):
        cause = rng.normal(size=150)
        frame = pd.DataFrame({
            "cause": cause,
            "three": np.digitize(cause + rng.normal(size=150), [-1, 1]),
            "two": (cause + rng.logistic(size=150) > 0).astype(int),
            "number": 0.7 * cause + rng.normal(size=150),
        })  # fmt: skip
        stats = MixedStats.from_data(frame, {"three": (0, 1, 2), "two": (0, 1)})
        test = make_test(stats, 0.05)
        pairs = [("three", "number"), ("two", "number")]
        rejected.append([_p_value(test, stats.names, x, y, ("cause",)) < 0.05 for x, y in pairs])
    np.testing.assert_allclose(np.mean(rejected, axis=0), 0.05, atol=0.02)


def test_a_column_that_is_constant_at_one_party_is_taken_from_the_others() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=600)
    b = a + rng.normal(size=600)
    X = pd.DataFrame({"a": a, "b": b, "c": b + rng.normal(size=600), "l": np.where(a > 0, "x", "y")})
    parts = {"p": X[:200].assign(c=3.0), "q": X[200:400].assign(l="x"), "r": X[400:]}
    assert BOSS().fit(Parties(parts)).kinds_["c"] == "continuous"
    model = BOSS().fit(Parties({name: InMemory(own, missing="em") for name, own in parts.items()}))
    assert any("p has no values of c that differ" in note for note in model.notes_)
    assert model.kinds_ == {"a": "continuous", "b": "continuous", "c": "continuous", "l": "discrete"}
    found = {frozenset(edge[:2]) for edge in model.graph_.edges()}
    assert found == {frozenset("ab"), frozenset("bc"), frozenset("al")}
    whole = {name: own[["a"]].assign(k=np.arange(len(own)) % 3) for name, own in parts.items()}
    assert BOSS().fit(Parties(whole)).kinds_["k"] == "discrete"


def pupils(seed: int = 0) -> pd.DataFrame:
    """Pupils in schools, with a label among numbers; every column has an effect of the school of its own."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(90), 5)
    u = 1.5 * rng.normal(size=(90, 4))[school]
    a = u[:, 0] + rng.normal(size=450)
    passed = np.where(a + u[:, 1] + rng.normal(size=450) > 0, "yes", "no")
    b = np.where(passed == "yes", 2.0, 0.0) + u[:, 2] + rng.normal(size=450)
    c = u[:, 3] + rng.normal(size=450)
    return pd.DataFrame({"school": school, "a": a, "passed": passed, "b": b, "c": c})


def test_other_levels_are_other_columns_of_the_same_moments() -> None:
    X = pupils()[["a", "passed", "b"]].assign(ward=np.random.default_rng(1).choice(["n", "w"], 450))
    own = MixedStats.from_data(X, {"passed": ("no", "yes"), "ward": ("n", "w")})
    levels = {"passed": ("maybe", "no", "yes"), "ward": ("w", "e", "n")}
    found, wanted = own.with_levels(levels), MixedStats.from_data(X, levels)
    assert found.moments.names == wanted.moments.names
    np.testing.assert_allclose(found.moments.mean, wanted.moments.mean, atol=1e-12)
    np.testing.assert_allclose(found.moments.scatter, wanted.moments.scatter, atol=1e-8)
    with pytest.raises(DataError, match="'n', which is not among"):
        own.with_levels({"passed": ("no", "yes"), "ward": ("w",)})


def test_labels_among_linked_rows_are_decorrelated_as_indicators() -> None:
    X = pupils()
    source = LinkedRows(X, groups="school", random_state=0)
    assert source.names == ("a", "passed", "b", "c")
    assert source.kinds["passed"] == "discrete"
    coded = X.assign(passed=(X["passed"] == "yes").astype(float))
    with pytest.warns(DataWarning, match="two values"):
        numbers = LinkedRows(coded, groups="school", random_state=0)
    np.testing.assert_allclose(
        source.mixed(source.levels(["passed"])).moments.scatter, numbers.moments().scatter
    )
    wanted = {frozenset(("a", "passed")), frozenset(("passed", "b"))}
    for learner in (BOSS(), GES(), PC(), BayesianDiscovery(criterion="dg")):
        model = learner.fit(source)
        assert {frozenset(edge[:2]) for edge in model.graph_.edges()} == wanted
        assert any("decorrelated as indicators" in note for note in model.notes_)


def test_parties_with_linked_rows_and_labels_sum_decorrelated_moments() -> None:
    X = pupils()
    parts = {f"party {k}": X[X["school"] % 3 == k] for k in range(3)}
    rare = parts["party 0"]["passed"].mask(parts["party 0"]["a"] > 3, "distinction")
    parts["party 0"] = parts["party 0"].assign(passed=rare)
    sources = {name: LinkedRows(own, groups="school", correlation=0.6) for name, own in parts.items()}
    model = BOSS().fit(Parties(sources, site_effects="none"))
    levels = {"passed": ("distinction", "no", "yes")}
    total = reduce(add, (own.mixed(levels).moments for own in sources.values()))
    found = Parties(sources, site_effects="none").mixed(levels)
    assert isinstance(found, MixedStats)
    np.testing.assert_allclose(found.moments.scatter, total.scatter, rtol=1e-6, atol=1e-6)
    assert frozenset(("a", "passed")) in {frozenset(edge[:2]) for edge in model.graph_.edges()}


def test_a_study_takes_labels_among_linked_rows(tmp_path: Path) -> None:
    pupils().to_csv(tmp_path / "pupils.csv", index=False)
    words = ["fit", str(tmp_path / "pupils.csv"), "--groups", "school", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, [*words, "-m", "boss"])
    assert result.exit_code == 0, result.output
    assert set(pd.read_csv(tmp_path / "run" / "edges.csv")["source"]) <= {"a", "passed", "b"}
    result = CliRunner().invoke(app, [*words, "-m", "notears", "--force"])
    assert result.exit_code == 3
    assert "passed is not numeric" in " ".join(result.output.split())
