"""What is said of groups that differ: power, permutations, and few rows not taken for a difference."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from polydag import MultitaskDiscovery, Tasks, simulate
from polydag.embedded import asia
from polydag.learners.posterior.permutation import permutation_p_value
from polydag.learners.posterior.power import sampled
from polydag.sources.table import InMemory
from polydag.stats import DiscreteCounts, GaussianStats
from polydag.studies.findings.tasks import findings

CHAIN = simulate.dag(3, n_edges=2, random_state=0)


def numbers(n: int, seed: int) -> pd.DataFrame:
    return simulate.linear(CHAIN, n=n, random_state=seed)


def independent(rows: pd.DataFrame) -> pd.DataFrame:
    """The same columns without any dependence."""
    mixed = np.random.default_rng(0).permuted(rows.to_numpy(), axis=0)
    return pd.DataFrame(mixed, columns=rows.columns)


def test_samples_are_of_the_same_distribution() -> None:
    rng = np.random.default_rng(0)
    stats = GaussianStats.from_data(numbers(500, 0))
    again = sampled(stats, 20_000, rng)
    np.testing.assert_allclose(again.covariance, stats.covariance, rtol=0.1, atol=0.05)
    counts = DiscreteCounts.from_data(asia().sample(500, random_state=0))
    drawn = sampled(counts, 20_000, rng)
    assert drawn.n == 20_000
    assert drawn.levels == counts.levels
    shares = dict(zip(map(tuple, drawn.rows.tolist()), drawn.counts / drawn.n, strict=True))
    for row, count in zip(map(tuple, counts.rows.tolist()), counts.counts, strict=True):
        assert shares.get(row, 0.0) == pytest.approx(count / counts.n, abs=0.02)


def test_power_grows_with_the_number_of_rows() -> None:
    tables = {"few": numbers(8, 0), "some": numbers(40, 1), "many": numbers(1000, 2)}
    model = MultitaskDiscovery(criterion="bge").fit(tables)
    edges = [tuple(sorted((e.source, e.target))) for e in CHAIN.edges()]
    shares = []
    for task in tables:
        power = model.power(task, like="many").set_index(["first", "second"])["power"]
        shares.append(np.mean([power[edge] for edge in edges]))
    assert shares[0] < shares[1] <= shares[2]
    assert shares[2] > 0.9
    assert MultitaskDiscovery(criterion="bge", transfer="pool").fit(tables).power("few", like="many") is None


def test_permutations_find_groups_that_differ_and_no_others() -> None:
    rows = numbers(200, 3)
    shuffled = independent(rows)
    learner = MultitaskDiscovery(criterion="bge")
    assert permutation_p_value(learner, Tasks([rows, shuffled]), n_permutations=19) == 0.05
    halves = Tasks([rows.iloc[:100], rows.iloc[100:]])
    assert permutation_p_value(learner, halves, n_permutations=19) > 0.05


def test_no_permutations_of_rows_that_are_not_exchangeable() -> None:
    rows = numbers(30, 0)
    learner = MultitaskDiscovery(criterion="bge")
    assert permutation_p_value(learner, Tasks([rows, GaussianStats.from_data(rows)])) is None
    blocks = InMemory(rows, blocks=["a"] * 15 + ["b"] * 15)
    assert permutation_p_value(learner, Tasks([rows, blocks])) is None


def said(tables: dict[str, pd.DataFrame], **settings: object) -> str:
    tasks = Tasks(tables)
    return " ".join(findings(MultitaskDiscovery(criterion="bge", **settings).fit(tasks), tasks).notes)


def test_few_rows_are_not_taken_for_a_difference() -> None:
    words = said({"large": numbers(1000, 0), "small": numbers(5, 1)}, transfer="none")
    assert "only in large" not in words
    assert "small has too few rows to show it: with 5 rows" in words
    assert "of 10 such samples" in words
    words = said({"large": numbers(1000, 0), "other": independent(numbers(1000, 1))})
    assert "Most probably connected only in large" in words
    assert "too few rows" not in words
    assert "p = 0.01" in words
