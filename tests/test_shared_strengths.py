"""Strengths that some of several tasks share, against the sum over all sets of sharing tasks."""

from __future__ import annotations

import itertools
import math
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import pytest

from polydag import MultitaskDiscovery
from polydag.posterior import family_table
from polydag.posterior.transfer import shared_strengths
from polydag.posterior.transfer.shared_strengths import SharedStrengths
from polydag.scores import make_score
from polydag.stats import DiscreteCounts, Regimes

LEVELS = {"a": ("x", "y"), "b": (0, 1, 2), "c": (0, 1)}


def drawn(seed: int, m: int = 40, flipped: bool = False) -> pd.DataFrame:
    """b follows a, in the other direction where flipped; c is by itself."""
    rng = np.random.default_rng(seed)
    a, c = rng.integers(0, 2, (2, m))
    b = np.where(rng.random(m) < 0.8, 2 * (1 - a if flipped else a), rng.integers(0, 3, m))
    return pd.DataFrame({"a": np.array(LEVELS["a"])[a], "b": b, "c": c})


def counted(rows: pd.DataFrame) -> DiscreteCounts:
    return DiscreteCounts.from_data(rows, levels=LEVELS)


def scored(stats: Any) -> np.ndarray:
    return family_table(make_score("bdeu", stats, equivalent_sample_size=4.0), 2).scores


@pytest.mark.parametrize("K", [3, 5])
def test_sums_over_sets_of_sharing_tasks(K: int) -> None:
    stats = [counted(drawn(k, flipped=k == 0)) for k in range(K)]
    table = family_table(make_score("bdeu", stats[0], equivalent_sample_size=4.0), 2)
    found = SharedStrengths.of(table, stats, 4.0)
    assert found is not None
    shared = found.among(range(K))
    own = np.array([scored(part) for part in stats])
    terms = []
    for size in range(K + 1):
        for S in itertools.combinations(range(K), size):
            alone = sum((own[k] for k in range(K) if k not in S), np.zeros_like(own[0]))
            together = scored(reduce(add, [stats[k] for k in S])) if S else 0.0
            terms.append(alone + together - math.log((K + 1) * math.comb(K, size)))
    exact = np.logaddexp.reduce(terms, axis=0)
    assert (shared.together.scores <= exact + 1e-9).all()
    np.testing.assert_allclose(shared.together.scores, exact, atol=2.5)
    np.testing.assert_allclose(sum(t.scores for t in shared.tasks), shared.together.scores, atol=1e-9)
    assert shared.all_alike == pytest.approx(np.exp(terms[-1] - shared.together.scores))
    b_from_a = table.index(1, [0])
    assert shared.all_alike[1, b_from_a] < 0.01
    assert shared.all_alike[2, 0] > 0.3


def test_tasks_with_interventions_are_counted_where_a_variable_was_not_set() -> None:
    frames = [drawn(k) for k in range(3)]
    targets = [[]] * 25 + [["b"]] * 15
    stats = [Regimes.from_data(frame, targets, counted) for frame in frames]
    table = family_table(make_score("bdeu", stats[0], equivalent_sample_size=4.0), 1)
    found = SharedStrengths.of(table, stats, 4.0)
    assert found is not None
    kept = SharedStrengths.of(table, [counted(frame.iloc[:25]) for frame in frames], 4.0)
    whole = SharedStrengths.of(table, [counted(frame) for frame in frames], 4.0)
    assert kept is not None
    assert whole is not None
    parts = [own.among(range(3)).together.scores for own in (found, kept, whole)]
    np.testing.assert_allclose(parts[0][1], parts[1][1])
    np.testing.assert_allclose(parts[0][[0, 2]], parts[2][[0, 2]])


def test_a_task_of_its_own_does_not_spoil_what_the_others_share(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [drawn(k, 30, flipped=k == 0) for k in range(8)]
    frames = [own.astype({name: pd.CategoricalDtype(LEVELS[name]) for name in own}) for own in tables]
    some = MultitaskDiscovery().fit(frames)
    assert some.posteriors_[0].edges.loc[["a", "b"], ["a", "b"]].to_numpy().sum() > 0.9
    altered = some.connections_.set_index(["first", "second"])["other strengths"]
    assert altered["a", "b"] > 0.9
    assert len(some.sample_dags(20, random_state=0)) == 8
    monkeypatch.setattr(shared_strengths, "_ENTRIES", 0)
    whole = MultitaskDiscovery().fit(frames)
    kept = [model.connections_.set_index(["first", "second"])["shared"]["a", "b"] for model in (some, whole)]
    assert kept[0] > kept[1] - 0.05
