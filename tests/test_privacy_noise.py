"""Differential privacy: the scale of noise, the account, sensitivities, the budget, what runs really leak."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

from over_parties import learned
from polydag import GaussianStats, metrics, simulate
from polydag.cli.main import app
from polydag.errors import DataError, DataWarning, UsageError
from polydag.federated.methods.private.party import BOUNDS, GRADIENT, MOMENTS, WHITENING, PrivateParty
from polydag.federated.protocol.programs import Ask
from polydag.privacy import ledger
from polydag.privacy.dp import accounting, clipping
from polydag.privacy.dp.accounting import Budget, multiplier, spent
from polydag.privacy.dp.noise import GRID, NoiseShare, add_noise_share, discrete_gaussian
from polydag.privacy.dp.whitening import Whitening, moment_sensitivity

pytestmark = pytest.mark.portable

quick = settings(max_examples=30, deadline=None)
seeds = st.integers(0, 2**31 - 1)
ONE = Budget(1.0, 1e-5)


def test_the_scale_of_noise_is_the_analytic_one() -> None:
    assert multiplier(ONE, 1) == pytest.approx(3.7306, abs=1e-4)
    assert multiplier(ONE, 100) == pytest.approx(37.3, abs=0.05)
    assert spent({multiplier(ONE, 100): 100}, 1e-5) == pytest.approx(1.0, abs=2e-3)


@settings(max_examples=8, deadline=None)
@given(st.floats(0.3, 20), st.floats(0.1, 5))
def test_the_closed_form_agrees_with_numerical_integration(z: float, epsilon: float) -> None:
    grid = np.linspace(-60 * z, 60 * z + 1, 400_001)
    with_row, without = stats.norm.pdf(grid, 1, z), stats.norm.pdf(grid, 0, z)
    area = np.trapezoid(np.maximum(with_row - math.exp(epsilon) * without, 0.0), grid)
    assert accounting.closed_form_delta(z, epsilon) == pytest.approx(area, rel=1e-3, abs=1e-9)


def test_budgets_are_divided_and_what_is_spent_before_counts() -> None:
    shares = {"a": (0.2, 1), "b": (0.8, 10)}
    found = accounting.split_budget(ONE, shares)
    assert spent({found["a"]: 1, found["b"]: 10}, 1e-5) == pytest.approx(1.0, abs=2e-3)
    after = multiplier(Budget(2.0, 1e-5), 1, {5.0: 3})
    assert spent({5.0: 3, after: 1}, 1e-5) == pytest.approx(2.0, abs=4e-3)
    with pytest.raises(DataError, match=r"epsilon would be 1\.326.*budget is 1"):
        multiplier(ONE, 1, {5.0: 3})
    accounting.require_within(ONE, {}, {4.0: 1})
    with pytest.raises(DataError, match="Nothing was sent"):
        accounting.require_within(ONE, {4.0: 1}, {4.0: 1})
    for bad in (Budget(0.0, 1e-5), Budget(1.0, 0.0), Budget(1.0, 1.0), Budget(math.inf, 1e-5)):
        with pytest.raises(UsageError):
            multiplier(bad, 1)


def test_the_discrete_gaussian_has_its_variance_and_shape() -> None:
    drawn = discrete_gaussian(1000.0, 20_000)
    assert drawn.std() == pytest.approx(1000, rel=0.03)
    assert stats.kstest(drawn / 1000, "norm").pvalue > 1e-4
    small = discrete_gaussian(1.0, 20_000)
    weights = np.exp(-(np.arange(-8, 9) ** 2) / 2)
    share = weights / weights.sum()
    counts = np.array([(small == k).sum() for k in range(-8, 9)])
    common = share * len(small) > 5
    assert stats.chisquare(
        counts[common], share[common] / share[common].sum() * counts[common].sum()
    ).pvalue > 1e-4  # fmt: skip


def test_shares_of_noise_add_up_to_the_whole_and_stay_on_the_grid() -> None:
    shared = NoiseShare(2.0, 3.0, honest=4)
    values = np.full(4000, 1 / 3)
    total = sum(add_noise_share(values, shared) for _ in range(4)) - 4 / 3
    assert total.std() == pytest.approx(6.0, rel=0.06)
    assert np.all(np.mod(add_noise_share(values, shared) / GRID, 1) == 0)
    assert shared.deviation(4000) > 3.0  # rounding is in the account
    with pytest.raises(DataError, match="too small"):
        add_noise_share(values, NoiseShare(1e-9, 1.0, 1))
    with pytest.raises(DataError, match="too many rows"):
        add_noise_share(np.array([1e12]), shared)


rows_of = st.integers(1, 6).flatmap(
    lambda d: st.lists(st.lists(st.floats(-50, 50), min_size=d, max_size=d), min_size=1, max_size=12)
)


def some_whitening(d: int, rng: np.random.Generator) -> Whitening:
    return Whitening(rng.normal(size=d), rng.normal(size=(d, d)), float(rng.uniform(0.1, 9)))


@quick
@given(rows_of, seeds)
def test_one_row_moves_nothing_further_than_the_sensitivity(rows: list[list[float]], seed: int) -> None:
    table = np.array(rows)
    d = table.shape[1]
    rng = np.random.default_rng(seed)
    fewer = np.delete(table, rng.integers(len(table)), axis=0)
    moved = np.linalg.norm(clipping.histogram(table) - clipping.histogram(fewer))
    assert moved <= clipping.histogram_sensitivity(d) + 1e-9
    whitening = some_whitening(d, rng)
    assert np.linalg.norm(whitening.apply(table), axis=1).max() <= whitening.radius + 1e-9
    moved = np.linalg.norm(whitening.moment_vector(table) - whitening.moment_vector(fewer))
    assert moved <= moment_sensitivity(whitening.radius) + 1e-9
    M, largest = rng.normal(size=(d, d)), float(rng.uniform(0.01, 5))
    inside, less = whitening.apply(table), whitening.apply(fewer)
    moved = np.linalg.norm(
        clipping.clipped_gradient(inside, M, largest) - clipping.clipped_gradient(less, M, largest)
    )
    assert moved <= largest + 1e-9


@quick
@given(st.integers(1, 6), seeds)
def test_moments_in_whitened_coordinates_tell_those_of_the_columns(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(40, d)) @ rng.normal(size=(d, d)) + 3
    whitening = Whitening(rng.normal(size=d), rng.normal(size=(d, d)) + 3 * np.eye(d), 1e6)
    found = whitening.moments_from(whitening.moment_vector(table), 1e-12)
    n, mean, covariance = whitening.original_moments(found)
    assert n == pytest.approx(40)
    assert mean == pytest.approx(table.mean(axis=0), rel=1e-6, abs=1e-6)
    exact = np.cov(table.T, bias=True).reshape(d, d)
    assert covariance == pytest.approx(exact, rel=1e-4, abs=1e-6 * np.trace(exact))
    narrow = whitening.narrowed(found)
    assert narrow.covariance == pytest.approx(exact, rel=1e-4, abs=1e-6 * np.trace(exact))
    whitened = narrow._replace(radius=1e6).apply(table)
    assert np.cov(whitened.T, bias=True).reshape(d, d) == pytest.approx(np.eye(d), abs=1e-3)


def test_directions_that_noise_hides_are_not_blown_up() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(2000, 3)) * [1.0, 0.1, 1e-4]
    wide = Whitening(np.zeros(3), np.eye(3) / 5, 1.0)
    found = wide.moments_from(
        wide.moment_vector(table), 2.0
    )  # a noise of 0.001 in the whitening, about the second variance
    narrow = wide.narrowed(found)

    def spreads(whitening: Whitening) -> np.ndarray:
        return np.linalg.svd(whitening.apply(table), compute_uv=False) / np.sqrt(2000)

    first, second, third = spreads(narrow)
    assert 0.5 < first < 2
    assert second < 0.9
    assert third < 0.01
    # In the narrower whitening the same noise hides less, and the next one shows the second direction, too.
    first, second, third = spreads(narrow.narrowed(narrow.moments_from(narrow.moment_vector(table), 2.0)))
    assert 0.5 < second <= first < 2
    assert third < 0.1


def test_the_gradient_is_that_of_least_squares_where_nothing_is_clipped() -> None:
    rng = np.random.default_rng(0)
    X, W, step = rng.normal(size=(20, 3)), rng.normal(size=(3, 3)), 1e-6
    whitening = Whitening(rng.normal(size=3), rng.normal(size=(3, 3)), 1e6)
    back = np.linalg.inv(whitening.transform)
    found = -back.T @ clipping.clipped_gradient(whitening.apply(X), back @ (np.eye(3) - W), 1e9)
    Z = X - whitening.centre

    def loss(V: np.ndarray) -> float:
        return float(0.5 * ((Z - Z @ V) ** 2).sum())

    for i in range(3):
        for j in range(3):
            moved = W.copy()
            moved[i, j] += step
            assert found[i, j] == pytest.approx((loss(moved) - loss(W)) / step, abs=1e-3)


def test_bounds_are_found_under_noise_and_missing_rows_are_told() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 2)) * [1.0, 100.0] + [0.0, 1000.0]
    found = clipping.bounds_from(clipping.histogram(rows), 10.0, ("a", "b"))
    assert (found[:, 0] < np.quantile(rows, 0.05, axis=0)).all()
    assert (found[:, 1] > np.quantile(rows, 0.95, axis=0)).all()
    assert np.abs(found[0]).max() < 20
    with pytest.raises(DataError, match=r"Column a: there are too few rows.*bounds="):
        clipping.bounds_from(clipping.histogram(rows[:50]), 30.0, ("a", "b"))


def leaked(first: np.ndarray, second: np.ndarray, delta: float) -> float:
    """A lower bound on epsilon by the best threshold test, at 99.9 % confidence (Clopper and Pearson)."""
    half = len(first) // 2
    best, sure = -math.inf, 0.0
    for cut in np.quantile(first[:half], np.linspace(0.02, 0.7, 40)):
        p, q = (first[:half] > cut).mean(), (second[:half] > cut).mean()
        if q > 0.01 and math.log(max(p - delta, 1e-9) / q) > best:
            best, sure = math.log(max(p - delta, 1e-9) / q), float(cut)
    n = len(first) - half
    hits, false = int((first[half:] > sure).sum()), int((second[half:] > sure).sum())
    low = stats.beta.ppf(0.0005, hits, n - hits + 1)
    high = stats.beta.ppf(0.9995, false + 1, n - false)
    return math.log((low - delta) / high)


def test_many_runs_on_neighbouring_tables_leak_less_than_is_claimed() -> None:
    epsilon, delta, runs, honest = 4.0, 1e-5, 12_000, 3
    shared = NoiseShare(multiplier(Budget(epsilon, delta), 1), 1.0, honest)

    def released(value: float) -> np.ndarray:
        # Only the honest sites' noise: the others have told theirs. Each entry is a run of its own.
        whole = add_noise_share(np.full(runs, value), shared)
        for _ in range(honest - 1):
            whole = whole + add_noise_share(np.zeros(runs), shared)
        return whole

    found = leaked(released(1.0), released(0.0), delta)  # a row that adds as much as a row can
    assert 0.1 * epsilon < found < epsilon  # it does find something, and less than was claimed


@pytest.mark.parametrize("task", [MOMENTS, GRADIENT])
def test_what_a_site_says_of_neighbouring_tables_leaks_less_than_is_claimed(task: str) -> None:
    epsilon, delta, runs = 4.0, 1e-5, 2000
    z = multiplier(Budget(epsilon, delta), 1)
    whitening = {"centre": np.zeros(2), "transform": np.eye(2)}
    meta = {"multiplier": z, "honest": 1, "radius": 1.5, "max_norm": 1.0}
    ask = Ask(task, {**whitening, "residual": np.eye(2)}, meta)
    table = np.random.default_rng(0).normal(size=(20, 2)) / 9
    more = np.vstack([table, [[0.0, 40.0]]])  # a row as far out as it likes

    def released(rows: np.ndarray) -> np.ndarray:
        local = PrivateParty(rows, ("a", "b"))
        return np.array([next(iter(local.answer({}, ask)[1].values())).ravel() for _ in range(runs)])

    first, second = released(more), released(table)
    towards = first.mean(axis=0) - second.mean(axis=0)  # the direction that tells them apart best
    found = leaked(first @ towards, second @ towards, delta)
    assert 0.05 * epsilon < found < epsilon


@pytest.fixture(scope="module")
def parts() -> list[pd.DataFrame]:
    dag = simulate.dag(4, expected_edges=4, random_state=1)
    rows = simulate.linear(dag, n=4000, random_state=2)
    return [rows.iloc[k::4] for k in range(4)]


@pytest.mark.parametrize("method", ["moments", "admm", "fedavg"])
def test_every_number_that_leaves_is_noisy_and_the_ledger_says_what_was_spent(
    method: str, parts: list[pd.DataFrame], tmp_path: Path
) -> None:
    setting = {"method": method, "epsilon": 2.0, "ledgers": str(tmp_path)}
    model = learned(parts, **setting)
    assert model.graph_.is_dag
    data = model.disclosure_[~model.disclosure_["name"].str.contains(": ")]
    assert (data["noise"] > 0).all()
    assert "(2, 1e-05)-differentially private" in model.protection_
    assert "no more than 1 parties" in model.protection_
    chain = ledger.read_intact(tmp_path / "site 1.jsonl")
    assert spent(ledger.multipliers(chain), 1e-5) == pytest.approx(2.0, rel=5e-3)
    told = CliRunner().invoke(app, ["ledger", str(tmp_path / "site 1.jsonl")])
    assert told.exit_code == 0
    assert "epsilon = 2" in told.output
    with pytest.raises(DataError, match=r"does not take part: Together with earlier studies, .* budget is 2"):
        learned(parts, **setting)
    after = ledger.read_intact(tmp_path / "site 1.jsonl")[len(chain) :]
    assert after[-1].kind == ledger.REFUSED
    assert not any(entry.kind == ledger.DATA for entry in after)


def test_a_larger_budget_lets_a_second_study_in(parts: list[pd.DataFrame], tmp_path: Path) -> None:
    setting = {"method": "moments", "epsilon": 1.0, "ledgers": str(tmp_path), "bounds": (-20, 20)}
    for _ in range(2):
        learned(parts, **setting, budget=1.6)
    with pytest.raises(DataError, match=r"budget is 1\.6"):
        learned(parts, **setting, budget=1.6)


@pytest.fixture
def _seeded_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of a seed: the real one comes from the operating system, and now and then hides an edge."""
    rng = np.random.default_rng(0)

    def drawn(scale: float, size: int) -> np.ndarray:
        return np.rint(rng.normal(scale=scale, size=size)).astype(np.int64)

    monkeypatch.setattr("polydag.privacy.dp.noise.discrete_gaussian", drawn)


@pytest.mark.usefixtures("_seeded_noise")
def test_private_moments_near_the_exact_ones_with_a_large_budget(parts: list[pd.DataFrame]) -> None:
    exact = learned(parts, method="moments")
    noisy = learned(parts, method="moments", epsilon=1000.0, bounds=(-25, 25))
    found = exact.graph_.adjacency
    assert np.array_equal(noisy.graph_.adjacency | found, noisy.graph_.adjacency)
    assert np.abs(noisy.weights_ - exact.weights_)[found].max() < 0.1


@pytest.mark.usefixtures("_seeded_noise")
@pytest.mark.parametrize("method", ["moments", "admm", "fedavg"])
def test_twenty_thousand_rows_in_any_units_are_enough_for_a_private_graph(method: str) -> None:
    truth = simulate.dag(6, expected_edges=6, random_state=4)
    rows = simulate.linear(truth, n=20_000, random_state=5) * 1e-3 + 7.0
    model = learned([rows.iloc[k::5] for k in range(5)], method=method, epsilon=3.0)
    assert metrics.shd(true=truth, estimate=model.graph_) <= 1


@pytest.mark.usefixtures("_seeded_noise")
def test_too_few_rows_for_the_noise_are_told(parts: list[pd.DataFrame]) -> None:
    few = [part.iloc[:40] for part in parts]
    with pytest.warns(DataWarning, match=r"epsilon = 0\.5 leaves as much information as .* larger epsilon"):
        model = learned(few, method="moments", epsilon=0.5, bounds=(-20, 20))
    assert np.isfinite(model.weights_).all()


def test_a_site_answers_nothing_without_noise_and_nothing_past_its_plan(parts: list[pd.DataFrame]) -> None:
    local = PrivateParty(parts[0].to_numpy(), tuple(parts[0].columns))
    with pytest.raises(DataError, match="does not answer 'scatter'"):
        local.answer({}, Ask("scatter", {}, {"multiplier": 1.0, "honest": 2}))
    about = {"radius": 2.0}
    assert local.noise(Ask(MOMENTS, {}, {"multiplier": 2.0, "honest": 4, **about})).multiplier == 2.0
    for task in (BOUNDS, WHITENING, MOMENTS):
        narrow = local.noise(Ask(task, {}, {"multiplier": 2.0, "honest": 4, **about})).deviation
        assert narrow == pytest.approx(
            local.noise(Ask(task, {}, {"multiplier": 4.0, "honest": 16, **about})).deviation
        )
    wide = {"multiplier": 1.0, "honest": 1, "max_norm": 3.0}
    assert local.noise(Ask(GRADIENT, {}, wide)).deviation == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"epsilon": -1.0}, "epsilon must be a number above 0"),
        ({"epsilon": 1.0, "delta": 2.0}, "delta"),
        ({"epsilon": 1.0, "privacy": "none"}, "mode='masked'"),
        ({"epsilon": 1.0, "method": "voting"}, "admm or fedavg"),
        ({"epsilon": 1.0, "method": "fedavg", "participation": 0.5}, "no participation"),
        ({"epsilon": 1.0, "bounds": {"x0": (0, 1)}, "method": "admm"}, "x1 it is None"),
        ({"epsilon": 1.0, "bounds": (3, 1)}, "bounds must hold"),
        ({"bounds": (0, 1)}, "give epsilon"),
    ],
)
def test_settings_that_do_not_go_together_are_told(
    setting: dict[str, object], why: str, parts: list[pd.DataFrame]
) -> None:
    with pytest.raises(UsageError, match=why):
        learned(parts, **{"method": "moments", **setting})


def test_statistics_have_no_rows_to_bound(parts: list[pd.DataFrame]) -> None:
    with pytest.raises(UsageError, match="needs rows, not statistics"):
        learned([GaussianStats.from_data(p) for p in parts], method="moments", epsilon=1.0)


def test_the_ledger_command(parts: list[pd.DataFrame], tmp_path: Path) -> None:
    learned(parts, method="moments", ledgers=str(tmp_path))
    file = tmp_path / "site 2.jsonl"
    told = CliRunner().invoke(app, ["ledger", str(file)])
    assert told.exit_code == 0, told.output
    assert "1 study, " in told.output
    assert "only sums over 4 sites or more could be read" in told.output.replace("\n", " ")
    assert "keys or shares" in told.output
    as_json = CliRunner().invoke(app, ["ledger", str(file), "--format", "json"])
    assert '"whole": true' in as_json.output
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], *lines[3:]]) + "\n")
    broken = CliRunner().invoke(app, ["ledger", str(file)])
    assert broken.exit_code == 3
    assert "breaks at entry 3" in broken.output.replace("\n", " ")
    learned(parts, method="moments", privacy="none", ledgers=str(tmp_path / "open"))
    told = CliRunner().invoke(app, ["ledger", str(tmp_path / "open" / "site 2.jsonl")])
    assert "NOT MASKED" in told.output
    assert CliRunner().invoke(app, ["ledger", str(tmp_path / "nothing")]).exit_code == 3


def test_a_run_folder_holds_neither_hashes_nor_numbers_of_rows(tmp_path: Path) -> None:
    """Beside a private study, both would say whether a row was in it."""
    rng = np.random.default_rng(0)
    secrets = []
    for k, n in enumerate((1733, 1741, 1747)):
        file = tmp_path / f"h{k}.csv"
        pd.DataFrame(rng.normal(size=(n, 2)), columns=["x", "y"]).to_csv(file, index=False)
        secrets += [hashlib.sha256(file.read_bytes()).hexdigest(), str(n)]
    secrets += [str(1733 + 1741 + 1747), "5,221"]
    files = [str(tmp_path / f"h{k}.csv") for k in range(3)]
    fit = ["fit", *files, "--as", "parties", "--method", "ges", "--seed", "1"]
    for options, expected in ((["--set", "epsilon=5"], False), ([], True)):
        out = tmp_path / f"run{expected}"
        done = CliRunner().invoke(app, [*fit, *options, "--out", str(out)])
        assert done.exit_code == 0, done.output
        texts = [done.output, *(path.read_text() for path in out.rglob("*") if path.is_file())]
        assert any(secret in text for secret in secrets for text in texts) == expected
