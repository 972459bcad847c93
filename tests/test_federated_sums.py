"""Sums of statistics over parties: moments and counts equal those of the pooled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import DiscreteCounts, GaussianStats, Privacy, Regimes, simulate
from polydag.errors import DataError, UsageError
from polydag.federated.methods.private.moments import summed_private_moments
from polydag.federated.methods.statistics.counts import CountsParty, CountsProgram, summed_counts
from polydag.federated.methods.statistics.moments import summed_moments
from polydag.federated.protocol.programs import Ask

few = settings(max_examples=12, deadline=None)
seeds = st.integers(0, 2**31 - 1)
modes = st.sampled_from(["masked", "none"])
LEVELS: dict[str, list[Any]] = {"a": ["no", "yes"], "b": [0, 1, 2], "c": ["x", "y"], "d": [True, False]}


def labels(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame({name: rng.choice(np.array(own, dtype=object), n) for name, own in LEVELS.items()})


def parts_of(table: pd.DataFrame, k: int) -> dict[str, DiscreteCounts]:
    return {f"p{i}": DiscreteCounts.from_data(table.iloc[i::k], levels=LEVELS) for i in range(k)}


def crossed(table: pd.DataFrame, columns: tuple[int, ...]) -> np.ndarray:
    """The contingency table by counting row by row."""
    names = list(LEVELS)
    found = np.zeros([len(LEVELS[names[c]]) for c in columns])
    for row in table.itertuples(index=False):
        found[tuple(LEVELS[names[c]].index(row[c]) for c in columns)] += 1
    return found


@few
@given(seeds, st.integers(3, 6), modes)
def test_summed_counts_are_the_whole_numbers_of_the_pooled_rows(seed: int, k: int, mode: str) -> None:
    rng = np.random.default_rng(seed)
    table = labels(rng, int(rng.integers(k, 80)))
    sets = [tuple(rng.permutation(4)[: rng.integers(0, 5)].tolist()) for _ in range(5)]
    found, outcome = summed_counts(parts_of(table, k), sets, Privacy(mode=mode))
    for columns, counts in zip(sets, found, strict=True):
        assert np.array_equal(counts, crossed(table, columns))
    assert outcome.n_rounds == 1
    assert set(outcome.disclosure["site"]) == {f"p{i}" for i in range(k)}
    sums = outcome.disclosure.query("name == 'counts'")
    assert bool(sums["masked"].all()) == (mode == "masked")


def test_large_counts_stay_exact_under_masks() -> None:
    rows, many = np.array([[0], [1]], dtype=np.int32), np.array([2.0**48 + 1, 3.0])
    party = DiscreteCounts(("a",), ((0, 1),), rows, many)
    (found,), _ = summed_counts(dict.fromkeys("abc", party), [(0,)], Privacy())
    assert found.tolist() == [3 * (2**48 + 1), 9]


def test_levels_must_be_agreed_and_rows_whole() -> None:
    rng = np.random.default_rng(0)
    parties = parts_of(labels(rng, 60), 4)
    odd = labels(rng, 9).assign(b=5)
    with pytest.raises(DataError, match=r"p1 does not take part: Its levels of column b are 5, .* 0, 1, 2"):
        summed_counts({**parties, "p1": DiscreteCounts.from_data(odd)}, [(0,)], Privacy())
    heavy = DiscreteCounts.from_data(labels(rng, 9), levels=LEVELS, weights=np.full(9, 0.5))
    with pytest.raises(DataError, match="p2 does not take part: Its rows are weighted"):
        summed_counts({**parties, "p2": heavy}, [(0,)], Privacy())
    other = DiscreteCounts.from_data(labels(rng, 9).drop(columns="c"))
    with pytest.raises(DataError, match=r"p3 does not take part: .*lacks c"):
        summed_counts({**parties, "p3": other}, [(0,)], Privacy())
    with pytest.raises(DataError, match="at least 99"):
        summed_counts(parties, [(0,)], Privacy(), min_rows=99)
    with pytest.raises(UsageError, match="columns of numbers only"):
        summed_counts(parties, [(0,)], Privacy(epsilon=1.0))


def test_a_question_about_counts_that_lacks_something_is_not_answered() -> None:
    counts = DiscreteCounts.from_data(labels(np.random.default_rng(0), 20), levels=LEVELS)
    party = CountsParty(counts)
    _, ask = CountsProgram(counts.names, counts.levels, ((0, 1),)).begin()
    assert party.objection({}, ask) is None
    without = {name: value for name, value in ask.meta.items() if name != "sets"}
    assert party.objection({}, Ask(ask.task, {}, without)) == "the question lacks sets"
    beyond = Ask(ask.task, {}, {**ask.meta, "sets": [[7]]})
    assert party.objection({}, beyond) == "a set names a column that does not exist"
    with pytest.raises(DataError, match="does not know the question 'scatter'"):
        party.objection({}, Ask("scatter"))


@few
@given(seeds, st.integers(3, 6), modes)
def test_summed_moments_are_those_of_the_pooled_rows(seed: int, k: int, mode: str) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) + 5
    parties = {f"p{i}": GaussianStats.from_data(rows[i::k]) for i in range(k)}
    found, outcome = summed_moments(parties, Privacy(mode=mode))
    pooled = GaussianStats.from_data(rows)
    assert isinstance(found, GaussianStats)
    assert found.n == 60
    assert found.mean == pytest.approx(pooled.mean)
    assert found.scatter == pytest.approx(pooled.scatter, rel=1e-8, abs=1e-8)
    assert outcome.protection.startswith("privacy = masked" if mode == "masked" else "NOT PRIVATE")


def test_summed_moments_keep_regimes_apart() -> None:
    rng = np.random.default_rng(0)
    stats = [GaussianStats.from_data(rng.normal(size=(20 + k, 2)), names=["a", "b"]) for k in range(4)]
    parties = {
        "p0": stats[0],
        "p1": Regimes({frozenset(): stats[1], frozenset({"b"}): stats[2]}),
        "p2": Regimes({frozenset({"b"}): stats[3]}),
    }
    found, _ = summed_moments(parties, Privacy(mode="none"))
    assert isinstance(found, Regimes)
    assert {targets: part.n for targets, part in found.parts.items()} == {
        frozenset(): 41.0,
        frozenset({"b"}): 45.0,
    }


def test_noise_needs_rows_and_an_epsilon() -> None:
    rows = simulate.linear(simulate.dag(3, expected_edges=2, random_state=0), n=60, random_state=0)
    parts = {f"p{k}": rows.iloc[k::3] for k in range(3)}
    with pytest.raises(UsageError, match="needs rows, not statistics"):
        summed_moments(
            {name: GaussianStats.from_data(part) for name, part in parts.items()}, Privacy(epsilon=1)
        )
    with pytest.raises(UsageError, match="epsilon"):
        summed_private_moments(parts, Privacy())
