"""Interventions on linked rows: against dense algebra, against independent rows, and what they find."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from polydag import BOSS, GES, PC, BayesianDiscovery, Bootstrap, LinkedRows, LinkedRowsDAG, Notears
from polydag.cli.main import app
from polydag.errors import DataError, UsageError
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Estimated
from polydag.rows.structures.exchangeable import Exchangeable
from polydag.scores import make_score
from polydag.sources import InMemory


def trial(
    seed: int, *, groups: int = 40, size: int = 6, alike: float = 0.6, rate: float = 0.2
) -> pd.DataFrame:
    """x -> y -> z in schools; in some rows of every school x or y was set. w has no edges."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(groups), size)
    n = len(school)

    def error() -> np.ndarray:
        shared = rng.standard_normal(groups)[school]
        return np.asarray(np.sqrt(alike) * shared + np.sqrt(1 - alike) * rng.standard_normal(n))

    what = rng.choice(["x", "y", "none"], size=n, p=[rate, rate, 1 - 2 * rate])
    x = np.where(what == "x", 1.5 * rng.standard_normal(n), error())
    y = np.where(what == "y", 1.5 * rng.standard_normal(n), 0.8 * x + error())
    z = 0.7 * y + error()
    return pd.DataFrame({"x": x, "y": y, "z": z, "w": error(), "school": school, "what": what})


def linked(data: pd.DataFrame, **options: Any) -> LinkedRows:
    return LinkedRows(InMemory(data, interventions="what"), **{"groups": "school", **options})


def edges(model: Any) -> set[str]:
    return {str(edge) for edge in model.graph_.edges()}


def families(p: int) -> list[tuple[int, tuple[int, ...]]]:
    return [
        (j, parents)
        for j in range(p)
        for size in range(p)
        for parents in combinations([i for i in range(p) if i != j], size)
    ]


@pytest.mark.parametrize("name", ["bic", "bge"])
def test_without_correlation_scores_are_those_of_independent_rows(name: str) -> None:
    data = trial(0)
    plain = InMemory(data.drop(columns="school"), interventions="what")
    one = make_score(name, plain.moments())
    other = make_score(name, linked(data, correlation=0.0).family_moments())
    assert set(one.targets) == set(other.targets)
    for j, parents in families(4):
        assert other.local_score(j, parents) == pytest.approx(one.local_score(j, parents), rel=1e-11)
    independent = linked(data, structure="independent")
    assert edges(GES().fit(independent)) == edges(GES().fit(plain))


def known_sigma(kind: str, data: pd.DataFrame, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Arguments of `LinkedRows` with a known Σ, and Σ."""
    n = len(data)
    same = np.equal.outer(data["school"].to_numpy(), data["school"].to_numpy())
    if kind == "groups":
        return {"groups": "school", "correlation": 0.5}, np.where(same, 0.5, 0.0) + 0.5 * np.eye(n)
    blocks = rng.standard_normal((n, 3))
    K = np.where(same, blocks @ blocks.T / 3, 0.0) + 0.2 * np.eye(n)
    return {"groups": None, "covariance": K, "share": 0.7}, 0.7 * K + 0.3 * np.eye(n)


@pytest.mark.parametrize("kind", ["groups", "kinship"])
@pytest.mark.parametrize("covariate", [False, True])
def test_scores_are_those_of_generalised_least_squares_in_the_rows_not_set(
    kind: str, covariate: bool
) -> None:
    data = trial(1, groups=15).sample(frac=1.0, random_state=1).reset_index(drop=True)
    rng = np.random.default_rng(2)
    age = rng.standard_normal(len(data))
    data["z"] += 2.0 * age * covariate
    options, Sigma = known_sigma(kind, data, rng)
    table = data.drop(columns=[] if kind == "groups" else "school")
    source = linked(table, **options, covariates=age[:, None] if covariate else None)
    score = make_score("bic", source.family_moments(), penalty=1.0)
    X = data[list("xyzw")].to_numpy()

    def deviance(j: int, parents: tuple[int, ...]) -> float:
        rows = (data["what"] != "xyzw"[j]).to_numpy()
        inverse = np.linalg.inv(Sigma[np.ix_(rows, rows)])
        parts = [np.ones((len(X), 1)), X[:, parents], *([age[:, None]] if covariate else [])]
        W, y = np.concatenate(parts, axis=1)[rows], X[rows, j]
        left = y - W @ np.linalg.solve(W.T @ inverse @ W, W.T @ inverse @ y)
        n = int(rows.sum())
        return n * math.log(left @ inverse @ left) + len(parents) * math.log(n)

    for j, parents in families(4):
        gain = score.local_score(j, parents) - score.local_score(j, ())
        assert -2 * gain == pytest.approx(deviance(j, parents) - deviance(j, ()), rel=1e-8, abs=1e-8)


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_the_likelihood_of_some_rows_is_that_of_their_part_of_sigma(seed: int) -> None:
    rng = np.random.default_rng(seed)
    school = rng.integers(0, 6, 24)
    data = pd.DataFrame(rng.standard_normal((24, 3)), columns=list("abc")).assign(school=school)
    found = LinkedRows(data, groups="school", correlation=0.4).decorrelation_
    layout = found.precision.layout
    kept = rng.random(24) < 0.7
    kept[:6] = True
    X, Z = rng.standard_normal((kept.sum(), 2)), np.ones((kept.sum(), 1))
    Sigma = found.precision.correlation().toarray()[np.ix_(layout.order, layout.order)][np.ix_(kept, kept)]
    inverse = np.linalg.inv(Sigma)
    expected = []
    for j in range(2):
        W = np.concatenate([Z, X[:, :j]], axis=1)
        G = W.T @ inverse @ W
        left = X[:, j] - W @ np.linalg.solve(G, W.T @ inverse @ X[:, j])
        degrees = len(W) - W.shape[1]
        logs = np.linalg.slogdet(Sigma)[1] + np.linalg.slogdet(G)[1]
        expected.append(logs + degrees * np.log(left @ inverse @ left))
    for whitening in (Exchangeable(layout).at(0.4), Estimated(found.precision)):
        deviances = Columns(X, Z, kept=kept).deviances(whitening)
        np.testing.assert_allclose(deviances, expected, rtol=1e-9, atol=1e-9)


def test_the_correlation_is_that_of_the_rows_in_which_nothing_was_set() -> None:
    data = trial(3)
    found = linked(data, structure="common").decorrelation_
    untouched = data[data["what"] == "none"].drop(columns="what").reset_index(drop=True)
    own = LinkedRows(untouched, groups="school", structure="common").decorrelation_
    assert found.parameters["correlation"] == pytest.approx(own.parameters["correlation"], abs=1e-3)
    assert found.before.p_value == own.before.p_value
    assert 0.45 < found.parameters["correlation"] < 0.75
    np.testing.assert_allclose(found.column_correlations, own.column_correlations, atol=1e-3)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 12), marks=pytest.mark.slow)])
def test_directions_that_observation_alone_does_not_give(seeds: range) -> None:
    for seed in seeds:
        data = trial(10 + seed)
        observed = data.assign(what="none")[data["what"] == "none"].reset_index(drop=True)
        assert edges(GES().fit(linked(observed))) == {"x -- y", "y -- z"}
        source = linked(data)
        assert edges(GES().fit(source)) == {"x -> y", "y -> z"}
        assert edges(BOSS().fit(source)) == {"x -> y", "y -> z"}
        posterior = BayesianDiscovery(criterion="bge").fit(source).posterior_
        likely = posterior.probabilities
        assert likely[0, 1] > 0.95
        assert likely[1, 2] > 0.95
        assert likely[3].max() < 0.5


@pytest.mark.slow
def test_false_edges_where_links_are_ignored() -> None:
    """Eight columns without edges, of which two are set in some rows, in 30 schools of 10."""
    found, ignored = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        school = np.repeat(np.arange(30), 10)
        what = rng.choice(["x0", "x1", "none"], size=300, p=[0.2, 0.2, 0.6])
        X = np.sqrt(0.6) * rng.standard_normal((30, 8))[school] + np.sqrt(0.4) * rng.standard_normal((300, 8))
        for j in (0, 1):
            X[what == f"x{j}", j] = rng.standard_normal((what == f"x{j}").sum())
        data = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)]).assign(what=what, school=school)
        found += len(GES(penalty=1.0).fit(linked(data, structure="common")).graph_.edges())
        plain = InMemory(data.drop(columns="school"), interventions="what")
        ignored += len(GES(penalty=1.0).fit(plain).graph_.edges())
    assert found <= 20 * 28 * 0.05
    assert ignored > 5 * found


def test_a_bootstrap_keeps_what_was_set() -> None:
    data = trial(4)
    source = linked(data, structure="common")
    drawn = source.resampled(np.random.default_rng(0))
    assert drawn.table.was_set is not None
    pairs = {(*row, *own) for row, own in zip(source.table.values, source.table.was_set, strict=True)}
    assert {(*row, *own) for row, own in zip(drawn.table.values, drawn.table.was_set, strict=True)} <= pairs
    model = Bootstrap(GES(), n_resamples=10, random_state=0).fit(source)
    assert model.frequencies_.loc["x", "y"] > 0.8


def test_a_property_of_the_group_counts_where_it_was_not_set() -> None:
    data = trial(5, groups=60)
    rng = np.random.default_rng(5)
    budget = rng.standard_normal(60)
    data["w"] = budget[data["school"]]
    data.loc[data["school"] < 20, "what"] = "w"
    source = linked(data, structure="common")
    stats = source.family_moments()
    assert stats.for_node("w").n == 40
    assert stats.for_node("w").scatter[3, 3] == pytest.approx(budget[20:].var() * 40, rel=1e-9)
    assert stats.for_node("z").n == 360
    assert "w, x, y" in source.notes[1] or "x, y, w" in source.notes[1]


@pytest.mark.parametrize(
    ("learner", "said"),
    [
        (PC(), "Use BOSS, GES or BayesianDiscovery"),
        (Notears(), "Use BOSS, GES or BayesianDiscovery"),
        (LinkedRowsDAG(), "does not use interventions"),
    ],
)
def test_what_does_not_take_them_says_so(learner: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        learner.fit(linked(trial(6), structure="common"))


def test_too_little_is_named() -> None:
    data = trial(7)
    with pytest.raises(UsageError, match="structure='free' needs all of them"):
        linked(data, structure="free")
    with pytest.raises(DataError, match=r"In 0 rows nothing was set.*correlation="):
        linked(data.assign(what="x"))
    with pytest.raises(DataError, match="x was set in every row"):
        GES().fit(linked(data.assign(what="x"), correlation=0.5))
    still = data.assign(x=data["x"].where(data["what"] == "x", 1.0))
    with pytest.raises(DataError, match=r"Column x is constant in the .* rows in which nothing was set"):
        linked(still)
    with pytest.raises(DataError, match="school"):
        linked(data.assign(what="school"))


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trial(8).to_csv("pupils.csv", index=False)
    line = ["fit", "pupils.csv", "--groups", "school", "--interventions", "what", "--seed", "1", "-q"]
    done = CliRunner().invoke(app, [*line, "--method", "ges", "--out", "run"])
    assert done.exit_code == 0, done.output
    found = pd.read_csv("run/edges.csv")
    assert {(row.source, row.target) for row in found.itertuples()} == {("x", "y"), ("y", "z")}
    assert "in which nothing was set" in " ".join(Path("run/summary.txt").read_text().split())
    done = CliRunner().invoke(app, [*line, "--method", "posterior", "--set", "criterion=bge"])
    assert done.exit_code == 0, done.output
    failed = CliRunner().invoke(app, [*line, "--method", "pc"])
    assert failed.exit_code == 2
    assert "Methods that do: ges, boss, posterior" in " ".join(failed.output.split())
