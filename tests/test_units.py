"""Statistics give the answer of their rows, whatever the columns' units; scale-free learners ignore units.

Rows lie on a grid of 2⁻²⁰, scales are powers of two from 2⁻¹⁰ to 2¹⁰ and shifts whole numbers up to 10⁶, so
that rescaled rows lose nothing in floating point. Statistics lose something: a mean of 10⁶ is rounded, and
beside a standard deviation of 10⁻³ that leaves seven digits. Tolerances below are multiples of this loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag import simulate
from polydag.learners import (
    BOSS,
    GES,
    LEARNERS,
    PC,
    AutoDAG,
    BayesianDiscovery,
    EqualVariance,
    MultitaskDiscovery,
    Notears,
)
from polydag.learners.notears.lagged import NotearsLagged
from polydag.losses.lagged import lagged_statistics
from polydag.sources import Parties
from polydag.stats import GaussianStats, Regimes
from polydag.stats.regimes import standardized

Array = NDArray[np.float64]
SCALE_FREE: dict[str, Callable[[], Any]] = {
    "auto": AutoDAG,
    "ges, bic": GES,
    "ges, bge": lambda: GES(criterion="bge"),
    "boss, bic": BOSS,
    "boss, bge": lambda: BOSS(criterion="bge"),
    "pc": PC,
    "posterior, bge": lambda: BayesianDiscovery(criterion="bge"),
}
IN_UNITS: dict[str, Callable[[], Any]] = {
    "notears, logdet": Notears,
    "notears, expm": lambda: Notears(acyclicity="expm"),
    "equal variance": EqualVariance,
}
ALL = SCALE_FREE | IN_UNITS
# The same examples every time: where two graphs score alike to seven digits, rounding may choose.
quick = settings(max_examples=20, deadline=None, derandomize=True)


@dataclass(frozen=True, eq=False)
class Case:
    """A table, the same rows in other units, and where to cut them into parts."""

    plain: Array = field(repr=False)
    scale: Array
    shift: Array
    cuts: tuple[int, ...]

    @property
    def rows(self) -> Array:
        return self.plain * self.scale + self.shift

    @property
    def loss(self) -> float:
        """What rounding does to a mean beside the column's standard deviation; two digits at least."""
        return float(2e-16 * (100 + np.abs(self.rows).max(axis=0) / self.rows.std(axis=0)).max())

    def parts(self, build: Callable[[Array], Any] = GaussianStats.from_data) -> list[Any]:
        return [build(part) for part in np.split(self.rows, self.cuts)]

    def standard(self, weights: Array) -> Array:
        """Weights of the rescaled columns, in the units of the plain ones."""
        return np.asarray(weights * self.scale[:, None] / self.scale[None, :])


@st.composite
def cases(draw: st.DrawFn, n_parts: int | None = None) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, n = draw(st.integers(2, 5)), draw(st.integers(60, 200))
    edges = draw(st.integers(1, d * (d - 1) // 2))
    dag = simulate.dag(d, n_edges=edges, weight_range=(0.3, 1.0), random_state=rng)
    plain = np.round(np.array(simulate.linear(dag, n=n, random_state=rng)) * 2**20) / 2**20
    powers = draw(st.lists(st.integers(-10, 10), min_size=d, max_size=d))
    shifts = draw(st.lists(st.integers(-1_000_000, 1_000_000), min_size=d, max_size=d))
    many = (1, 4) if n_parts is None else (n_parts - 1, n_parts - 1)
    cuts = draw(st.sets(st.integers(10, n - 10), min_size=many[0], max_size=many[1]))
    case = Case(plain, 2.0 ** np.array(powers), np.array(shifts, dtype=float), tuple(sorted(cuts)))
    assert np.array_equal((case.rows - case.shift) / case.scale, plain)
    return case


def assert_same_fit(
    case: Case, found: Any, expected: Any, *, same_units: bool = True, set_rows: int = 0
) -> None:
    """The same graph, and whatever else the learner tells up to the digits that the statistics have.

    `set_rows` is how many rows set the first variable, and so do not score it.
    """
    n, loss = len(case.plain), case.loss
    found, expected = (getattr(model, "learner_", model) for model in (found, expected))  # of AutoDAG
    if hasattr(found, "posterior_"):
        P, Q = found.posterior_.probabilities, expected.posterior_.probabilities
        np.testing.assert_allclose(P, Q, rtol=0, atol=n * loss)
        assert found.best_score_ == pytest.approx(expected.best_score_, abs=10 * n * loss)
        # Both directions of a sure edge between two variables have a probability of exactly 0.5.
        if (np.abs(P - 0.5) > n * loss).all():
            assert np.array_equal(found.graph_.adjacency, expected.graph_.adjacency)
        return
    assert np.array_equal(found.graph_.adjacency, expected.graph_.adjacency)
    # An undirected edge has the coefficient of one of its directions, so weights are compared in the DAG.
    one, other = (getattr(model, "dag_", model.graph_) for model in (found, expected))
    if np.array_equal(one.adjacency, other.adjacency):
        weights = case.standard(other.weights) if same_units else other.weights
        np.testing.assert_allclose(case.standard(one.weights), weights, rtol=0, atol=1e3 * loss)
    if hasattr(found, "score_"):
        # The likelihood of BIC is a density in the units of the data; BGe's is of standardised columns.
        in_units = not same_units and found.criterion != "bge"
        logs = np.log(case.scale)
        jacobian = n * logs.sum() - set_rows * logs[0] if in_units else 0.0
        assert found.score_ + jacobian == pytest.approx(expected.score_, abs=10 * n * loss)
    if hasattr(found, "pvalues_"):
        np.testing.assert_allclose(found.pvalues_, expected.pvalues_, rtol=0, atol=n * loss)


def test_every_learner_of_one_table_is_here() -> None:
    assert {type(make()) for make in ALL.values()} >= set(LEARNERS.values())


@pytest.mark.parametrize("name", ALL)
@quick
@given(cases())
def test_summed_statistics_give_the_answer_of_the_rows(name: str, case: Case) -> None:
    whole = ALL[name]().fit(case.rows)
    assert_same_fit(case, ALL[name]().fit(reduce(add, case.parts())), whole)


@pytest.mark.parametrize("name", SCALE_FREE)
@quick
@given(cases())
def test_units_do_not_matter_to_scale_free_learners(name: str, case: Case) -> None:
    plain = SCALE_FREE[name]().fit(case.plain)
    for data in (case.rows, reduce(add, case.parts())):
        assert_same_fit(case, SCALE_FREE[name]().fit(data), plain, same_units=False)


@pytest.mark.parametrize("name", ["ges, bge", "boss, bge", "posterior, bge", "ges, bic", "boss, bic"])
@quick
@given(cases(n_parts=2))
def test_units_do_not_matter_with_interventions(name: str, case: Case) -> None:
    def regimes(observed: Any, changed: Any) -> Regimes[GaussianStats]:
        return Regimes({frozenset(): observed, frozenset({"x0"}): changed})

    plain = SCALE_FREE[name]().fit(
        regimes(*(GaussianStats.from_data(part) for part in np.split(case.plain, case.cuts)))
    )
    set_rows = len(case.plain) - case.cuts[0]
    whole = SCALE_FREE[name]().fit(regimes(*case.parts()))
    assert_same_fit(case, whole, plain, same_units=False, set_rows=set_rows)
    halves = case.parts(lambda rows: (GaussianStats.from_data(rows[:5]), GaussianStats.from_data(rows[5:])))
    summed = regimes(*(half[0] for half in halves)) + regimes(*(half[1] for half in halves))
    found = SCALE_FREE[name]().fit(summed)
    assert_same_fit(case, found, plain, same_units=False, set_rows=set_rows)


@pytest.mark.parametrize("transfer", ["family", "theorem1", "none", "pool"])
@quick
@given(cases(n_parts=2))
def test_units_do_not_matter_to_tasks(transfer: str, case: Case) -> None:
    def edges(tables: list[Any]) -> Array:
        model = MultitaskDiscovery(transfer=transfer, criterion="bge", max_parents=2).fit(tables)
        return np.array([posterior.probabilities for posterior in model.posteriors_])

    plain = edges(np.split(case.plain, case.cuts))
    mixed = [case.parts(pd.DataFrame)[0].set_axis([f"x{i}" for i in range(case.plain.shape[1])], axis=1),
             case.parts()[1]]  # fmt: skip
    alone = case.parts(lambda rows: Regimes({frozenset(): GaussianStats.from_data(rows)}))
    for tables in (np.split(case.rows, case.cuts), case.parts(), mixed, alone):
        # The parts have at least ten rows, and their standard deviations may be smaller than the whole's.
        np.testing.assert_allclose(edges(tables), plain, rtol=0, atol=10 * len(case.plain) * case.loss)


@settings(quick, max_examples=5)
@given(cases(n_parts=3))
@pytest.mark.parametrize("name", ALL)
def test_masked_sums_over_parties_give_the_answer_of_the_rows(name: str, case: Case) -> None:
    tables = {f"site {k}": part for k, part in enumerate(case.parts(pd.DataFrame))}
    model = ALL[name]().fit(Parties(tables, site_effects="none"))
    whole = ALL[name]().fit(case.rows)
    assert np.array_equal(model.graph_.adjacency, whole.graph_.adjacency)


@quick
@given(st.integers(0, 1000), st.lists(st.integers(-10, 10), min_size=3, max_size=3))
def test_summed_statistics_of_series_give_the_answer_of_the_rows(seed: int, powers: list[int]) -> None:
    sample = simulate.lagged(3, n_steps=60, n_realisations=3, random_state=seed)
    names = sample.instantaneous.names
    data = sample.data.copy()
    scale = 2.0 ** np.array(powers)
    data[list(names)] = data[list(names)] * scale + np.array([1e6, 0.0, -1e5])
    whole = NotearsLagged(lags=1, baselines=False).fit(data)
    parts = [lagged_statistics(part, 1) for _, part in data.groupby("realisation")]
    found = NotearsLagged(lags=1).fit(reduce(add, parts))
    assert np.array_equal(found.graph_.adjacency, whole.graph_.adjacency)
    unit = np.tile(scale, 2)
    assert found.weights_ * unit[:, None] / unit == pytest.approx(
        whole.weights_ * unit[:, None] / unit, abs=1e-5
    )


@quick
@given(cases())
def test_regimes_share_one_scale(case: Case) -> None:
    parts = case.parts()
    regimes = Regimes({frozenset({f"x{k}"} if k else ()): part for k, part in enumerate(parts[:2])})
    scaled = standardized(regimes)
    rows = np.concatenate(np.split(case.rows, case.cuts)[:2])
    assert isinstance(scaled, Regimes)
    for (targets, part), own in zip(scaled, np.split(case.rows, case.cuts), strict=False):
        z = (own.astype(np.longdouble) - rows.astype(np.longdouble).mean(axis=0)) / rows.std(axis=0)
        direct = GaussianStats.from_data(z.astype(float), names=part.names)
        assert part.n == regimes.parts[targets].n
        np.testing.assert_allclose(part.mean, direct.mean, rtol=0, atol=10 * case.loss)
        np.testing.assert_allclose(part.scatter, direct.scatter, rtol=0, atol=10 * part.n * case.loss)
    only = standardized(Regimes({frozenset(): parts[0]}))
    assert isinstance(only, Regimes)
    np.testing.assert_allclose(
        only.parts[frozenset()].scatter, parts[0].standardized().scatter, rtol=1e-12, atol=1e-12 * parts[0].n
    )
