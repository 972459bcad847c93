"""Networks: gradients by finite differences, solvers by optimality conditions, and the estimator."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.base import clone

from polydag import (
    GaussianStats,
    Graph,
    Knowledge,
    metrics,
    orientation,
    simulate,
    studies,
)
from polydag.acyclicity import ACYCLICITY, Acyclicity, LogDet
from polydag.computing import checkpoint, progress
from polydag.computing.progress import Step
from polydag.errors import DataError, UsageError
from polydag.knowledge import Masks
from polydag.learners.notears.nonlinear import NotearsMLP
from polydag.losses.mlp import MLP, MLPShape
from polydag.optimize.additive_order import additive_order, with_functions
from polydag.optimize.network_choice import network_bic, penalty_path
from polydag.optimize.network_steps import augmented, local_step, server_step
from polydag.optimize.nonlinear import Penalties, central, effect_rates, minimise, solve_mlp, standard_rows
from polydag.optimize.pruning import threshold_graph
from polydag.optimize.variance_order import predecessors
from polydag.studies import TableConfig

Array = NDArray[np.float64]
quick = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def free(d: int) -> Masks:
    return Knowledge().masks([f"x{i}" for i in range(d)])


def none_held(size: int) -> NDArray[np.bool_]:
    return np.zeros(size, dtype=bool)


def by_variable(theta: Array, rows: Array, hidden: int) -> Array:
    """The predictions, one variable and one unit at a time."""
    d = rows.shape[1]
    inner, outer, offset = MLPShape(d, hidden).split(theta)
    out = np.empty_like(rows)
    for j in range(d):
        out[:, j] = offset[j]
        for k in range(hidden):
            out[:, j] += outer[j, k] * (expit(rows @ inner[:d, j, k] + inner[d, j, k]) - 0.5)
    return out


@quick
@given(seeds, st.integers(1, 4), st.integers(1, 3))
def test_the_loss_is_that_of_one_network_a_variable(seed: int, d: int, hidden: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(7, d))
    loss = MLP(rows, hidden, n_total=20)
    theta = rng.normal(size=loss.shape.size)
    expected = ((rows - by_variable(theta, rows, hidden)) ** 2).sum() / 40
    assert loss.value_and_grad(theta)[0] == pytest.approx(expected)


@quick
@given(seeds)
def test_the_gradient_is_the_finite_difference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loss = MLP(rng.normal(size=(9, 3)), 2)
    theta = rng.normal(size=loss.shape.size)
    slope = approx_fprime(theta, lambda t: loss.value_and_grad(t)[0], 1e-7)
    assert loss.value_and_grad(theta)[1] == pytest.approx(slope, abs=1e-5)


@quick
@given(seeds)
def test_losses_of_parties_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(11, 3))
    theta = rng.normal(size=MLPShape(3, 4).size)
    whole = MLP(rows, 4).value_and_grad(theta)
    parts = [MLP(part, 4, n_total=11).value_and_grad(theta) for part in (rows[:4], rows[4:])]
    assert whole[0] == pytest.approx(parts[0][0] + parts[1][0])
    assert whole[1] == pytest.approx(parts[0][1] + parts[1][1])


@quick
@given(seeds)
def test_closeness_is_zero_exactly_where_there_is_no_effect(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = MLPShape(4, 3)
    rows = rng.normal(size=(6, 4))
    forbidden = rng.random((4, 4)) < 0.5
    theta, held = shape.hold(rng.normal(size=shape.size), forbidden)
    assert np.array_equal(shape.influence(theta) == 0, forbidden)
    assert held.sum() == 3 * forbidden.sum()
    for i, j in itertools.product(range(4), range(4)):
        moved = rows.copy()
        moved[:, i] += 1
        same = np.allclose(by_variable(theta, rows, 3)[:, j], by_variable(theta, moved, 3)[:, j], atol=1e-12)
        assert same == forbidden[i, j]


@quick
@given(seeds)
def test_slopes_are_the_finite_differences_and_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 3))
    theta = rng.normal(size=MLPShape(3, 2).size)
    slopes = np.empty((3, 3))
    for i in range(3):
        step = np.eye(3)[i] * 1e-6
        up, down = by_variable(theta, rows + step, 2), by_variable(theta, rows - step, 2)
        slopes[i] = (((up - down) / 2e-6) ** 2).mean(axis=0)
    assert MLP(rows, 2).squared_slopes(theta) == pytest.approx(slopes, rel=1e-5, abs=1e-9)
    parts = [MLP(part, 2, n_total=6).squared_slopes(theta) for part in (rows[:2], rows[2:])]
    assert parts[0] + parts[1] == pytest.approx(slopes, rel=1e-5, abs=1e-9)


@quick
@given(seeds)
def test_the_cycles_gradient_is_pulled_back_to_the_parameters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = MLPShape(3, 2)
    theta = rng.uniform(-0.3, 0.3, shape.size)  # every row of V has a sum below one
    for kind in ACYCLICITY.values():
        measure = kind()

        def cycles(t: Array, measure: Acyclicity = measure) -> float:
            return measure.value_and_grad(shape.influence(t))[0]

        _, slope = measure.value_and_grad(shape.influence(theta))
        expected = approx_fprime(theta, cycles, 1e-7)
        assert shape.pull_back(theta, slope) == pytest.approx(expected, abs=1e-5)


@quick
@given(seeds)
def test_minimise_solves_a_lasso_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = rng.normal(size=12)
    lasso = np.where(rng.random(12) < 0.5, 0.6, 0.0)
    held = rng.random(12) < 0.3
    start = rng.normal(size=12)
    end = minimise(
        lambda t: (0.5 * float((t - target) @ (t - target)), t - target), start, lasso, held, tolerance=1e-15
    )
    shrunk = np.sign(target) * np.maximum(np.abs(target) - lasso, 0)
    assert end.theta == pytest.approx(np.where(held, start, shrunk), abs=1e-5)
    assert (end.theta[~held & (shrunk == 0)] == 0).all()
    assert end.converged


@quick
@given(seeds)
def test_a_local_step_is_stationary(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loss = MLP(rng.normal(size=(20, 3)), 2, n_total=50)
    W, beta = 0.5 * rng.normal(size=(2, loss.shape.size))
    W, held = loss.shape.hold(W, free(3).forbidden)
    end = local_step(loss, W, W - beta / 0.7, 0.7, held, tolerance=1e-14, max_iter=2000)
    slope = loss.value_and_grad(end.theta)[1] + beta + 0.7 * (end.theta - W)
    assert slope[~held] == pytest.approx(0, abs=1e-4)
    assert np.array_equal(end.theta[held], W[held])


@quick
@given(seeds)
def test_a_server_step_is_stationary_with_exact_zeros(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, rate, ridge, pull = MLPShape(3, 2), 0.2, 0.1, 1.5
    mean = 0.5 * rng.normal(size=shape.size)
    start, held = shape.hold(np.zeros(shape.size), free(3).forbidden)
    penalties = Penalties(effect_rates(rate, free(3)), ridge)
    price = augmented(0.5, 2.0)
    end = server_step(
        shape, mean, pull, penalties, LogDet(), price, start, held, tolerance=1e-14, max_iter=2000
    )
    h, slope = LogDet().value_and_grad(shape.influence(end.theta))
    gradient = ridge * end.theta + pull * (end.theta - mean)
    gradient += shape.pull_back(end.theta, price(h)[1] * slope)
    lasso = shape.lasso(penalties.effects)
    zero = (end.theta == 0) & ~held
    rest = ~zero & ~held
    assert gradient[rest] == pytest.approx(-(lasso * np.sign(end.theta))[rest], abs=1e-4)
    assert (np.abs(gradient[zero]) <= lasso[zero] + 1e-4).all()


def test_without_cycles_the_server_only_shrinks() -> None:
    shape = MLPShape(2, 1)
    mean = np.linspace(-1, 1, shape.size)
    start, held = shape.hold(np.zeros(shape.size), ~np.triu(np.ones((2, 2), dtype=bool), 1))
    penalties = Penalties(np.full((2, 2), 0.3), 0.5)
    end = server_step(shape, mean, 2.0, penalties, LogDet(), central(1e-6), start, held)
    lasso = shape.lasso(penalties.effects)
    expected = np.sign(mean) * np.maximum(2.0 * np.abs(mean) - lasso, 0) / 2.5
    assert end.theta[~held] == pytest.approx(expected[~held], abs=1e-4)


def test_a_server_step_from_outside_the_domain_is_refused() -> None:
    shape = MLPShape(2, 1)
    start, held = shape.hold(np.full(shape.size, 2.0), free(2).forbidden)
    with pytest.raises(ValueError, match="outside the domain"):
        server_step(shape, start, 1.0, Penalties(np.zeros((2, 2)), 0.0), LogDet(), central(1.0), start, held)


def test_prices_have_their_slopes() -> None:
    for price in (augmented(0.3, 4.0), central(0.1)):
        value, slope = price(0.5)
        assert slope == pytest.approx((price(0.5 + 1e-6)[0] - value) / 1e-6, rel=1e-4)


def test_the_additive_order_finds_a_nonlinear_chain_and_follows_knowledge() -> None:
    rng = np.random.default_rng(0)
    first = rng.normal(size=2000)
    second = np.abs(first) * 2 + rng.normal(size=2000)
    third = np.sin(2 * second) * 3 + rng.normal(size=2000)
    rows = np.column_stack([third, second, first])
    stats = GaussianStats.from_data(with_functions(rows, rows.mean(axis=0), rows.std(axis=0)))
    assert additive_order(stats, free(3)) == [2, 1, 0]
    names = ["x0", "x1", "x2"]
    assert additive_order(stats, Knowledge(tiers=[["x0"], ["x1"], ["x2"]]).masks(names)) == [0, 1, 2]
    circle = Knowledge(forbidden=[("x0", "x1"), ("x1", "x2"), ("x2", "x0")], required=[("x0", "x2")])
    order = additive_order(stats, circle.masks(names))
    assert order.index(0) < order.index(2)


def test_linear_data_gives_the_linear_graph_and_weights() -> None:
    dag = simulate.dag(5, expected_edges=5, weight_range=(0.8, 1.5), random_state=3)
    model = NotearsMLP(random_state=0).fit(simulate.linear(dag, n=400, random_state=3))
    assert metrics.shd(true=dag, estimate=model.graph_) == 0
    assert model.weights_ == pytest.approx(np.abs(dag.weights), abs=0.2)


def test_the_penalty_is_chosen_by_bic(table: pd.DataFrame) -> None:
    model = NotearsMLP(hidden=3, random_state=0).fit(table.iloc[:150])
    path = penalty_path(6, 150)
    assert path == sorted(path, reverse=True)
    assert model.lambda_used_ in path
    assert set(model.history_["lambda_"]) == set(path)
    each = [NotearsMLP(lambda_=value, hidden=3, random_state=0).fit(table.iloc[:150]) for value in path]
    assert model.criterion_ == min(other.criterion_ for other in each)
    assert network_bic(np.ones(3), 100, 2, 5) == pytest.approx(2 * 5 * np.log(100))


def test_the_solution_is_at_least_as_good_as_along_the_true_order() -> None:
    dag = simulate.dag(5, expected_edges=5, random_state=3)
    rows = simulate.mlp(dag, n=200, random_state=3).to_numpy()
    rows = rows - rows.mean(axis=0)
    along = Masks(free(5).required, ~predecessors([dag.index(name) for name in dag.topological_order()]))
    found = solve_mlp(rows, 5, 0.02, 0.01, LogDet(), free(5), 0)
    best = solve_mlp(rows, 5, 0.02, 0.01, LogDet(), along, 0)
    assert found.converged
    assert found.objective <= 1.02 * best.objective
    assert (best.strength[along.forbidden] == 0).all()


@pytest.fixture(scope="module")
def dag() -> Graph:
    return simulate.dag(
        6, expected_edges=8, names=["age", "dose α", "crp", "il-6", "b m", "y"], random_state=4
    )


@pytest.fixture(scope="module")
def table(dag: Graph) -> pd.DataFrame:
    return simulate.mlp(dag, n=400, random_state=4)


def test_the_estimator_finds_most_of_the_truth_whatever_the_common_unit(
    dag: Graph, table: pd.DataFrame
) -> None:
    before = table.copy()
    model = NotearsMLP(random_state=0).fit(table)
    pd.testing.assert_frame_equal(table, before)
    assert metrics.shd(true=dag, estimate=model.graph_) <= 2
    assert model.graph_.names == tuple(table.columns)
    assert model.graph_.is_dag
    assert model.converged_
    assert np.array_equal(model.weights_ > 0, model.graph_.adjacency)
    assert model.raw_weights_[model.graph_.adjacency].min() >= 0.2
    assert model.n_iter_ == model.history_["n_iter"].sum()
    again = clone(model).fit(table * 1000 + 5)
    assert np.array_equal(again.graph_.adjacency, model.graph_.adjacency)
    assert np.array_equal(NotearsMLP(random_state=0).fit(table).raw_weights_, model.raw_weights_)


@pytest.mark.parametrize("mask", [None, "gumbel"])
def test_knowledge_is_honoured(mask: str | None, dag: Graph, table: pd.DataFrame) -> None:
    source, target = next((edge.source, edge.target) for edge in dag.edges())
    required = (target, source)
    known = Knowledge(required=[required], forbidden=[(source, target)])
    model = NotearsMLP(mask=mask, hidden=4, knowledge=known, random_state=0)  # type: ignore[arg-type]
    model.fit(table.iloc[:200])
    graph = model.graph_
    assert graph.is_dag
    assert graph.adjacency[graph.index(required[0]), graph.index(required[1])]
    assert not graph.adjacency[graph.index(source), graph.index(target)]
    assert model.raw_weights_[graph.index(source), graph.index(target)] == pytest.approx(0, abs=1e-12)


@quick
@given(seeds)
def test_thresholds_give_dags_with_the_required_edges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    strength = rng.random((5, 5)) * (rng.random((5, 5)) < 0.7)
    masks = Knowledge(required=[("x0", "x1")]).masks([f"x{i}" for i in range(5)])
    strength[masks.forbidden] = 0
    kept, removed = threshold_graph(strength, masks.required, 0.3)
    assert orientation.topological_order(kept) is not None
    assert kept[0, 1]
    assert {(i, j) for i, j, _ in removed} == {(i, j) for i, j in np.argwhere((strength > 0) & ~kept)}
    assert all(strength[i, j] < 0.3 for i, j, why in removed if why == "threshold")


def test_rows_are_centred_and_share_one_scale() -> None:
    rows = np.random.default_rng(0).normal(3, [1, 2, 4], size=(500, 3))
    standard = standard_rows(rows, GaussianStats.from_data(rows))
    assert standard.mean(axis=0) == pytest.approx(0, abs=1e-12)
    assert standard.std(axis=0) / rows.std(axis=0) == pytest.approx(1 / 2, rel=0.1)


@pytest.mark.parametrize(
    "bad",
    [
        {"lambda_": -1},
        {"lambda_": "stability"},
        {"lambda2": None},
        {"hidden": 0},
        {"mask": "hard"},
        {"acyclicity": "trace"},
        {"threshold": "ebic"},
        {"knowledge": "none"},
    ],
)
def test_wrong_parameters_are_named(bad: dict[str, object], table: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match=next(iter(bad))):
        NotearsMLP(**bad).fit(table)  # type: ignore[arg-type]


def test_wrong_data_is_refused(table: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match="rows, not statistics"):
        NotearsMLP().fit(GaussianStats.from_data(table))
    with pytest.raises(DataError, match="age, row 3"):
        NotearsMLP().fit(table.assign(age=table["age"].mask(table.index == 2)))
    with pytest.raises(DataError, match="crp"):
        NotearsMLP().fit(table.assign(crp=1.0))


def test_networks_from_the_command_line(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "table.csv", index=False)
    settings = {"lambda": 0.1, "hidden": 2}
    result = studies.run(
        TableConfig(data=(str(tmp_path / "table.csv"),), method="notears-mlp", settings=settings, seed=3)
    )
    expected = NotearsMLP(lambda_=0.1, hidden=2, random_state=3).fit(table)
    assert np.array_equal(result.graph.adjacency, expected.graph_.adjacency)
    assert result.measures["lambda_used"] == 0.1


def test_an_interrupted_fit_goes_on_bit_for_bit(table: pd.DataFrame, tmp_path: Path) -> None:
    model = NotearsMLP(hidden=2, random_state=0)
    rows = table.iloc[:80]
    whole = clone(model).fit(rows)
    seen: list[str] = []

    def stop(step: Step) -> None:
        seen.append(step.note)
        if len(set(seen)) > 4:
            raise KeyboardInterrupt

    with checkpoint.saving(tmp_path, {}), pytest.raises(KeyboardInterrupt), progress.listening(stop):
        clone(model).fit(rows)
    assert checkpoint.has_pieces(tmp_path)
    before = len(seen)
    with checkpoint.saving(tmp_path, {}), progress.listening(lambda step: seen.append(step.note)):
        resumed = clone(model).fit(rows)
        other = clone(model).fit(table.iloc[80:160])  # a checkpoint of other rows is not used
    assert seen[0] not in seen[before : before + 5]
    assert np.array_equal(resumed.raw_weights_, whole.raw_weights_)
    pd.testing.assert_frame_equal(resumed.history_, whole.history_)
    assert not np.array_equal(other.raw_weights_, whole.raw_weights_)
