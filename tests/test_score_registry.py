"""A new score is one file and one line, and then works in searches, posteriors and on the command line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from asked import AskedCounts, labels
from drawn import sample
from polydag.cli.main import app
from polydag.errors import UsageError
from polydag.learners import BOSS, GES, BayesianDiscovery, MultitaskDiscovery
from polydag.parameters import number, setting
from polydag.posterior import family_table
from polydag.scores import SCORES, ScoreSpec, kind_of, known_scores, make_score, resolve
from polydag.scores.discrete.dirichlet import DirichletScore
from polydag.scores.discrete.pseudocounts import PER_CELL
from polydag.scores.discrete.score import DiscreteScore
from polydag.scores.gaussian.form import GaussianTerms
from polydag.scores.gaussian.score import GaussianScore
from polydag.sources.checked import statistics
from polydag.stats import GaussianStats


class PlainHannanQuinn:
    """Nothing but what is required."""

    kind = "numbers"

    def __init__(self, stats: GaussianStats) -> None:
        self.stats, self.names = stats, stats.names

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        S, n, where = self.stats.covariance, self.stats.n, list(parents)
        explained = S[where, node] @ np.linalg.solve(S[np.ix_(where, where)], S[where, node]) if where else 0
        likelihood = -0.5 * n * (math.log(2 * math.pi * (S[node, node] - explained)) + 1)
        return float(likelihood - (len(where) + 2) * math.log(math.log(n)))


@dataclass(frozen=True, eq=False)
class HannanQuinn(GaussianScore):
    """The same in the form that is compiled."""

    weight: float = setting(1.0, number(above=0), "how much a parameter costs")

    def terms(self, part: GaussianStats) -> GaussianTerms:
        price = self.weight * math.log(math.log(part.n))
        variance = part.covariance.diagonal()
        return GaussianTerms(
            matrix=part.correlation,
            base=-0.5 * part.n * (np.log(2 * math.pi * variance) + 1) - 2 * price,
            step=np.full(part.d, -price),
            power=part.n,
            growth=0.0,
        )


@dataclass(frozen=True, eq=False)
class Jeffreys(DirichletScore):
    """Jeffreys' prior: half an imaginary row in every cell."""

    def prior(self) -> tuple[int, float]:
        return PER_CELL, 0.5


@dataclass(frozen=True, eq=False)
class DiscreteBIC(DiscreteScore):
    """The likelihood of a table, less a price for each of its parameters."""

    def of_table(self, table: Any, configurations: float) -> float:
        totals = table.sum(axis=1, keepdims=True)
        share = np.divide(table, totals, out=np.ones_like(table), where=table > 0)
        parameters = configurations * (table.shape[1] - 1)
        return float((table * np.log(share)).sum() - 0.5 * parameters * math.log(self.n))


NEW = {"plain-hq": PlainHannanQuinn, "hq": HannanQuinn, "jeffreys": Jeffreys, "discrete-bic": DiscreteBIC}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    SCORES.update(NEW)
    yield
    for name in NEW:
        del SCORES[name]


def table(name: str) -> pd.DataFrame:
    if kind_of(name) == "numbers":
        return pd.DataFrame(sample(1, 6, 150, edges=7)).add_prefix("x")
    counts = labels(1, 6, 300)
    return pd.DataFrame(np.repeat(counts.rows, counts.counts.astype(int), axis=0)).add_prefix("x").astype(str)


@pytest.mark.parametrize("name", [*SCORES, *NEW])
def test_a_registered_score_works_in_searches_and_tables(name: str) -> None:
    data = table(name)
    graphs = [learner(criterion=name).fit(data).graph_ for learner in (GES, BOSS)]
    assert all(graph.n_edges > 2 for graph in graphs)
    stats = statistics(data, resolve(name, kind_of(name) or "numbers").needs)
    score = make_score(name, stats)
    found = family_table(score, 3)
    for node in range(6):
        for s in range(0, found.scores.shape[1], 3):
            expected = score.local_score(node, found.parents(node, s))
            assert found.scores[node, s] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", [*NEW, "bic"])
def test_a_registered_score_works_in_posteriors(name: str) -> None:
    data = table(name)
    one = BayesianDiscovery(criterion=name, max_parents=2).fit(data)
    assert ((one.posterior_.edges.to_numpy() >= 0) & (one.posterior_.edges.to_numpy() <= 1)).all()
    assert one.best_graph_.n_edges > 2
    several = MultitaskDiscovery(criterion=name, max_parents=2).fit([data.iloc[:75], data.iloc[75:]])
    assert len(several.posteriors_) == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plain-hq", ["--method", "ges"]),
        ("jeffreys", ["--method", "boss"]),
        ("hq", ["--method", "posterior", "--set", "max_parents=2"]),
    ],
)
def test_a_registered_score_works_on_the_command_line(name: str, words: list[str], tmp_path: Path) -> None:
    source, out = tmp_path / "table.csv", tmp_path / "run"
    data = table(name) if kind_of(name) == "numbers" else "level " + table(name)
    data.to_csv(source, index=False)
    result = CliRunner().invoke(
        app, ["fit", str(source), *words, "--set", f"criterion={name}", "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert name in (out / "config.toml").read_text()


def test_a_plain_score_equals_its_compiled_form() -> None:
    data = table("hq")
    stats = GaussianStats.from_data(data)
    plain, compiled = make_score("plain-hq", stats), make_score("hq", stats)
    np.testing.assert_allclose(family_table(plain, 3).scores, family_table(compiled, 3).scores, rtol=1e-9)
    for learner in (GES, BOSS):
        one, two = (learner(criterion=name).fit(data) for name in ("plain-hq", "hq"))
        assert one.graph_ == two.graph_
        assert one.score_ == pytest.approx(two.score_)


def test_a_score_of_tables_takes_tables_that_are_asked_for() -> None:
    counts = labels(4, 5, 200)
    source = AskedCounts(counts)
    for name in ("jeffreys", "discrete-bic"):
        near, far = make_score(name, counts), make_score(name, source)
        np.testing.assert_allclose(family_table(far, 2).scores, family_table(near, 2).scores, rtol=1e-10)
    assert len(source.questions) == 2


def test_discrete_bic_counts_parameters_and_likelihood() -> None:
    counts = labels(4, 3, 200)
    joint = counts.table(["x0", "x1", "x2"])
    given = joint.sum(axis=2, keepdims=True)
    terms = joint[joint > 0] * np.log((joint / np.where(given > 0, given, 1))[joint > 0])
    r = joint.shape
    expected = terms.sum() - 0.5 * math.log(200) * r[0] * r[1] * (r[2] - 1)
    assert make_score("discrete-bic", counts).local_score(2, [0, 1]) == pytest.approx(expected)


def test_options_reach_the_score_from_a_learner() -> None:
    data = table("hq")
    sparse = GES(criterion="hq", criterion_options={"weight": 50.0}).fit(data)
    assert sparse.graph_.n_edges < GES(criterion="hq").fit(data).graph_.n_edges
    counts = table("bdeu")
    dense = BOSS(criterion="bdeu", criterion_options={"equivalent_sample_size": 100.0}).fit(counts)
    assert dense.score_ != BOSS(criterion="bdeu").fit(counts).score_
    with pytest.raises(UsageError, match="weight must be a number above 0; got -1"):
        GES(criterion="hq", criterion_options={"weight": -1}).fit(data)
    with pytest.raises(UsageError, match="score k2 has no option weight; it has no options"):
        GES(criterion="k2", criterion_options={"weight": 1}).fit(counts)
    with pytest.raises(UsageError, match="criterion_options must be a mapping"):
        GES(criterion_options=[1]).fit(data)  # type: ignore[arg-type]


def test_scores_are_resolved_by_name_and_kind() -> None:
    assert resolve("auto", "numbers").name == "bic"
    assert resolve("auto", "labels").name == "bdeu"
    assert resolve("auto", "mixed").name == resolve("dg", "labels").name == "dg"
    assert resolve("hq", "numbers").options["weight"].help == "how much a parameter costs"
    assert kind_of("auto") is None
    assert {"bdeu", "bds", "k2", "jeffreys", "discrete-bic"} <= set(known_scores("labels"))
    with pytest.raises(
        UsageError, match=r"bdeu is for labels, but the data are numbers: use bic, bge, .*plain-hq or hq"
    ):
        resolve("bdeu", "numbers")
    with pytest.raises(UsageError, match="bic is for numbers, but the data are columns of numbers"):
        resolve("bic", "mixed")
    with pytest.raises(UsageError, match="no score 'aic'; known are bic, bge"):
        resolve("aic", "numbers")
    with pytest.raises(UsageError, match=r"criterion must be one of auto, bic, .*discrete-bic; got 'aic'"):
        GES(criterion="aic").fit(table("bic"))

    class Undeclared:
        kind: ClassVar[str] = "words"

    with pytest.raises(UsageError, match="must declare kind = 'numbers', 'labels' or 'mixed'; got 'words'"):
        ScoreSpec("undeclared", Undeclared)
