"""The federated methods: each step against brute force, the whole against pooling."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone

from over_parties import learned
from polydag import (
    BOSS,
    GES,
    PC,
    EqualVariance,
    FederatedNotears,
    GaussianStats,
    Graph,
    Knowledge,
    Notears,
    Parties,
    Regimes,
    metrics,
    simulate,
)
from polydag.acyclicity import ACYCLICITY
from polydag.errors import ConvergenceWarning, DataError, DataWarning, UsageError
from polydag.federated.methods.interface import MethodSettings, Study
from polydag.federated.methods.iterative import read_weights
from polydag.federated.methods.schedules import Costs, Default, Paper, RoundSummary
from polydag.federated.methods.voting import VotingMethod
from polydag.federated.models.linear_coordinator import LinearCoordinator
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.models.registry import MODELS
from polydag.federated.party_data.regimes import variable_groups
from polydag.federated.party_data.unit_checks import log_scales, other_units
from polydag.federated.protocol.programs import Ask
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.privacy.settings import Privacy

pytestmark = pytest.mark.portable

quick = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**31 - 1)


def split(rows: pd.DataFrame, k: int) -> list[pd.DataFrame]:
    return [rows.iloc[part] for part in np.array_split(np.arange(len(rows)), k)]


@pytest.fixture(scope="module")
def dag() -> Graph:
    return simulate.dag(8, expected_edges=10, random_state=1)


@pytest.fixture(scope="module")
def rows(dag: Graph) -> pd.DataFrame:
    return simulate.linear(dag, n=400, random_state=2)


@quick
@given(seeds, st.integers(1, 9), st.floats(1e-3, 10))
def test_the_clients_step_is_the_minimum_that_brute_force_finds(seed: int, n: int, rho: float) -> None:
    rng = np.random.default_rng(seed)
    d, total = 3, 40.0
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    local = LinearParty(GaussianStats.from_data(X))
    mean, scale, W = rng.normal(size=d), rng.uniform(0.5, 2, d), rng.normal(size=(1, d, d))
    state = {
        "group": np.zeros(d, dtype=np.int64),
        "centre": mean[None],
        "rows": np.array([total]),
        "scale": scale,
    }
    B = local.proximal(state, W, np.array([rho]))[0]

    def objective(flat: np.ndarray) -> float:
        own = flat.reshape(d, d)
        residual = (X - mean) - ((X - mean) / scale) @ own
        return float((residual**2).sum() / (2 * total) + rho / 2 * ((own - W[0]) ** 2).sum())

    found = minimize(objective, np.zeros(d * d), method="BFGS", options={"gtol": 1e-9})
    assert objective(B.ravel()) <= found.fun + 1e-9
    assert pytest.approx(found.x.reshape(d, d), abs=1e-3) == B


@quick
@given(seeds)
def test_a_round_of_admm_is_equations_2_to_4(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, rho, later = 3, 0.3, 0.5
    local = LinearParty(GaussianStats.from_data(rng.normal(size=(6, d))))
    state = {"group": np.zeros(d, dtype=np.int64), "centre": np.zeros((1, d))}
    told = {"rows": np.array([30.0]), "scale": np.ones(d)}
    W1, W2 = rng.normal(size=(2, 1, d, d))
    state, first = local.answer(
        state, Ask("consensus", {"W": W1, "rho": np.array([rho]), **told}, {"relax": 1.0})
    )
    S = local._gram(state, 0) / 30
    B1 = np.linalg.solve(S + rho * np.eye(d), rho * W1[0] + S)
    assert first["parameters"][0] == pytest.approx(B1)
    beta = rho * (B1 - W2[0])
    _, second = local.answer(state, Ask("consensus", {"W": W2, "rho": np.array([later])}, {"relax": 1.0}))
    B2 = np.linalg.solve(S + later * np.eye(d), later * W2[0] - beta + S)
    assert second["parameters"][0] == pytest.approx(B2 + beta / later)
    assert second["spread"][0] == pytest.approx(((B2 - W2[0]) ** 2).sum())


@quick
@given(seeds, st.sampled_from(["expm", "logdet"]))
def test_the_servers_step_cannot_be_bettered_nearby(seed: int, measure: str) -> None:
    rng = np.random.default_rng(seed)
    d, lambda_, a, b = 4, 0.05, 0.5, 2.0
    names = tuple("abcd")
    masks = Knowledge(forbidden=[("a", "b")]).masks(names)
    model = LinearCoordinator(names, masks, np.zeros(d, dtype=np.int64), lambda_, 0.3, measure)
    M, g = rng.normal(size=(d, d)), rng.uniform(0.5, 2, d)
    scale = np.sqrt(g)  # then the pull on unscaled weights is g
    state = {"lambdas": np.array([lambda_]), "theta": np.zeros((1, d, d)), "scale": scale}
    step = model.server_step(state, 0, M * scale[:, None], 1.0, (a, b), tolerance=1e-12, max_iter=5000)
    found = step.theta / scale[:, None]

    def objective(W: np.ndarray) -> float:
        h = ACYCLICITY[measure]().value_and_grad(W * W)[0]
        near = 0.5 * (g[:, None] * (W - M) ** 2)[~np.eye(d, dtype=bool)].sum()
        return float(near + lambda_ * np.abs(W).sum() + a * h + b / 2 * h * h)

    assert found[0, 1] == 0
    assert not found.diagonal().any()
    free = ~masks.forbidden
    for _ in range(30):
        step = np.where(free, rng.normal(size=(d, d)), 0.0) * 1e-3
        assert objective(found) <= objective(found + step) + 1e-8


def test_the_papers_penalties_grow_as_equations_5_to_7() -> None:
    now = Paper().first(1.0, 1.0)
    assert now == Costs(0.0, 1e-3, 1e-3)
    then = Paper().next_costs(now, RoundSummary(1, 1.0, 1.0, 1.0, 2.0, 1.0))
    assert then == pytest.approx((0.0 + 1e-3 * 2.0, 1.75e-3, 1.25e-3))


def test_in_the_papers_schedule_weights_that_the_penalty_holds_have_not_converged() -> None:
    paper, now = Paper(), Costs(1e9, 1e9, 1e9)
    frozen = RoundSummary(120, 1e-9, 1e-9, 1.0, 1e-12, 1.0)
    assert paper.ended(now, frozen)
    assert not paper.settled(now, frozen)
    assert paper.settled(now, frozen._replace(force=1e-3))
    assert not paper.ended(now, frozen._replace(dual=1e-3))


def test_the_default_penalties_end_where_they_should() -> None:
    schedule = Default()
    now = schedule.first(0.5, 1.0)
    for number in range(1, schedule.pace + 2):
        now = schedule.next_costs(now, RoundSummary(number, 0.1, 0.1, 0.1, 0.0, 1.0))
    assert 1 / now.linear == pytest.approx(schedule.mu_last)
    assert schedule.next_costs(now, RoundSummary(50, 0.1, 0.1, 0.1, 1e-3, 1.0)).linear > now.linear
    assert now.rho == pytest.approx(schedule.share * 0.5)
    assert schedule.next_costs(now, RoundSummary(1, 1.0, 0.01, 0.01, 0.0, 1.0)).rho > now.rho
    assert schedule.next_costs(now, RoundSummary(1, 0.01, 1.0, 1.0, 0.0, 1.0)).rho < now.rho
    assert schedule.settled(now, RoundSummary(60, 1e-3, 1e-3, 1e-3, 0.0, 1.0))
    assert not schedule.settled(now, RoundSummary(60, 0.1, 1e-3, 1e-3, 0.0, 1.0))
    assert schedule.max_rounds(0.01) > schedule.max_rounds(1.0)


@pytest.mark.filterwarnings("ignore:.*compare the units:polydag.errors.DataWarning")  # spreads are random
@quick
@given(seeds, st.lists(st.integers(1, 40), min_size=1, max_size=6), st.floats(0, 1e5))
def test_moments_give_the_pooled_statistics(seed: int, sizes: list[int], far: float) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + far + rng.normal() for n in [9, *sizes]]
    model = learned(tables, method="moments", learner=EqualVariance(), privacy="none")
    pooled = EqualVariance().fit(np.concatenate(tables))
    assert np.array_equal(model.graph_.adjacency, pooled.graph_.adjacency)
    assert model.weights_ == pytest.approx(pooled.weights_, rel=1e-8, abs=1e-8)


def test_moments_equal_pooling_for_any_learner(rows: pd.DataFrame) -> None:
    for learner in (None, EqualVariance()):
        model = learned(split(rows, 7), method="moments", learner=learner)
        pooled = (learner or Notears()).fit(rows)
        assert np.array_equal(model.graph_.adjacency, pooled.graph_.adjacency)
        assert np.abs(model.weights_ - pooled.weights_).max() < 1e-8
        assert model.n_rounds_ == 1


def test_a_party_that_cannot_learn_alone_is_told(rows: pd.DataFrame) -> None:
    still = rows.assign(x3=1.0)
    parts = {"a": rows.iloc[:150], "b": rows.iloc[150:300], "c": rows.iloc[300:], "d": still.iloc[:100]}
    with pytest.warns(DataWarning, match="d: it could not learn from its own rows .*x3"):
        model = learned(parts, method="voting", privacy="none")
    assert model.votes_.max() == 0.75
    assert model.graph_.n_edges > 0


def test_columns_with_commas_do_not_mix_up_regimes(rows: pd.DataFrame) -> None:
    named = rows[["x0", "x1", "x2"]].set_axis(["a", "b", "a,b"], axis=1)
    parts = [GaussianStats.from_data(named.iloc[k::3]) for k in range(3)]
    own = [frozenset(), frozenset({"a", "b"}), frozenset({"a,b"})]
    tables = [Regimes({targets: part}) for targets, part in zip(own, parts, strict=True)]
    model = learned(tables, method="moments", privacy="none")
    pooled = Notears().fit(Regimes(dict(zip(own, parts, strict=True))))
    assert np.abs(model.weights_ - pooled.weights_).max() < 1e-8


def test_a_question_that_leaves_out_rows_is_declined(rows: pd.DataFrame) -> None:
    stats = GaussianStats.from_data(rows[["x0", "x1"]])
    site = LinearParty(Regimes({frozenset(): stats, frozenset({"x1"}): stats}))
    centre, about = np.zeros((1, 2)), {"columns": ["x0", "x1"], "weighted": False}

    def objection(regimes: object, **more: np.ndarray) -> str | None:
        arrays = {"centre": centre, "reference": np.zeros(2), **more}
        return site.objection({}, Ask("scatter", arrays, {**about, "regimes": regimes}))

    with pytest.raises(DataError, match="In some of its rows x1 was set"):
        objection([[]])
    assert objection([[], ["x1"]]) == "2 regimes do not fit 1 centres"
    assert objection(5) == "the question's regimes are 5"
    assert objection([[]], adjustment=np.zeros(2)) == "adjustment of shape (2,) does not fit"


def test_a_second_round_of_moments_is_taken_only_where_digits_would_be_lost(rows: pd.DataFrame) -> None:
    def rounds(table: pd.DataFrame) -> int:
        model = learned(split(table, 3), method="moments", privacy="none")
        assert np.abs(model.weights_ - Notears().fit(table).weights_).max() < 1e-8
        return model.n_rounds_

    far = 1e6 * rows["x2"].std()
    assert (rounds(rows), rounds(rows.assign(x2=rows["x2"] + far))) == (1, 2)


def test_admm_with_one_site_is_pooled_notears(dag: Graph, rows: pd.DataFrame) -> None:
    pooled = Notears().fit(rows)
    model = learned([rows], privacy="none")
    assert np.array_equal(model.graph_.adjacency, pooled.graph_.adjacency)
    assert np.abs(model.weights_ - pooled.weights_).max() < 1e-8
    fixed = learned([rows], lambda_=0.1, threshold=0.0, privacy="none")
    loss = LeastSquares.from_stats(GaussianStats.from_data(rows))
    best = Notears(lambda_=0.1).fit(rows)
    assert fixed.raw_weights_ == pytest.approx(best.raw_weights_, abs=0.02)
    assert loss.value(fixed.raw_weights_) == pytest.approx(loss.value(best.raw_weights_), rel=0.01)


@pytest.mark.parametrize(("k", "privacy"), [(3, "masked"), (16, "masked"), (100, "none")])
def test_admm_finds_the_pooled_graph_however_rows_are_divided(
    rows: pd.DataFrame, k: int, privacy: Literal["masked", "none"]
) -> None:
    pooled = Notears().fit(rows)
    model = learned(split(rows, k), privacy=privacy)
    assert np.array_equal(model.graph_.adjacency, pooled.graph_.adjacency)
    assert np.abs(model.weights_ - pooled.weights_).max() < 1e-8
    assert model.converged_
    assert model.n_rounds_ <= 110


def test_parties_of_unequal_size_in_another_order_and_other_units(rows: pd.DataFrame) -> None:
    parts = [rows.iloc[:7], rows.iloc[7:30], rows.iloc[30:31], rows.iloc[31:]]
    first = learned(parts)
    moved = learned(parts[::-1])
    assert np.array_equal(first.graph_.adjacency, moved.graph_.adjacency)
    assert np.abs(first.weights_ - moved.weights_).max() < 1e-8
    assert first.raw_weights_ == pytest.approx(moved.raw_weights_, abs=1e-6)
    larger = learned([part * 1000 + 5 for part in parts])
    assert np.array_equal(first.graph_.adjacency, larger.graph_.adjacency)


def test_the_papers_schedule(dag: Graph, rows: pd.DataFrame) -> None:
    with pytest.warns(ConvergenceWarning, match="before it had converged"):
        model = learned(split(rows, 4), schedule="paper", privacy="none", random_state=0)
    assert model.lambda_used_ == 0.01
    assert np.abs(model.weights_[model.graph_.adjacency]).min() >= 0.3
    assert model.n_rounds_ <= 202
    assert model.graph_.is_dag
    assert not model.converged_
    last = model.history_.iloc[-1]
    assert last["dual"] < 1e-8 < last["dual"] * last["rho"]
    assert model.history_.loc[1, "rho"] == pytest.approx(1.25e-3)
    names = set(model.disclosure_["name"])
    assert names == {"rows", "mass", "sums", "rank", "log_scales", "squares", "parameters", "spread"}


def test_converged_means_settled_and_without_cycles() -> None:
    weights, history = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[7, 0.1, 0, 1, 0, 0, 0, 1.0]])
    nothing = np.zeros((2, 2), dtype=bool)
    result = {"weights": weights, "raw_weights": weights, "history": history}
    result |= {"lambda_": np.array(0.1), "criterion": np.array(0.0)}
    for settled, h, converged in ((1, 0.0, True), (0, 0.0, False), (1, 0.1, False)):
        own = {**result, "settled": np.array([settled]), "h": np.array(h)}
        assert read_weights(own, ("a", "b"), Masks(nothing, nothing)).converged == converged


def test_fedavg_with_some_of_the_sites(dag: Graph, rows: pd.DataFrame) -> None:
    whole = learned(split(rows, 4), method="fedavg")
    assert metrics.shd(true=dag, estimate=whole.graph_) <= 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        setting = {"method": "fedavg", "participation": 0.5, "privacy": "none", "random_state": 3}
        some = learned(split(rows, 8), **setting)
        again = learned(split(rows, 8), **setting)
    assert some.graph_ == again.graph_
    assert metrics.shd(true=dag, estimate=some.graph_) <= 6
    asked = some.disclosure_.query("round == 5")["site"].nunique()
    assert asked == 4


def test_a_share_that_is_everyone_is_told(rows: pd.DataFrame) -> None:
    with pytest.warns(
        DataWarning, match=r"participation=0.5 of 4 parties, asked in groups of at least 3, is all of them"
    ):
        learned(split(rows, 4), method="fedavg", participation=0.5, lambda_=0.1)


@pytest.mark.parametrize("method", ["admm", "voting", "varying"])
def test_the_odd_party_is_named_though_it_comes_first(method: str, rows: pd.DataFrame) -> None:
    parts = {"odd": rows.rename(columns={"x3": "y"}), "north": rows, "south": rows}
    with pytest.raises(DataError, match=r"odd does not take part: .* it lacks x3 and has in addition y"):
        learned(parts, method=method)


def test_votes_are_shares_and_cycles_are_pruned_unless_the_paper_is_followed() -> None:
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    chain = {}
    for k, (i, j) in enumerate([(0, 1), (1, 2), (2, 0)]):  # three graphs, each with two edges of one cycle
        weights = np.zeros((3, 3))
        weights[i, j] = 1.5
        weights[j, 3 - i - j] = 1.5
        rows = simulate.linear(Graph.from_weights(weights, names), n=300, random_state=rng)
        chain[f"s{k}"] = rows
    ours = learned(chain, method="voting", learner=Notears())
    assert ours.graph_.is_dag
    assert ours.pruned_["reason"].tolist() == ["cycle"]
    assert ours.votes_.max() == pytest.approx(2 / 3)
    improved = learned(chain, method="voting")
    assert improved.graph_.is_dag
    assert improved.votes_ == pytest.approx(ours.votes_)
    paper = learned(chain, method="voting", schedule="paper")
    assert not paper.graph_.is_dag
    assert paper.graph_.n_edges == 3
    known = Knowledge(forbidden=[("a", "b")])
    assert not learned(chain, method="voting", knowledge=known).graph_.adjacency[0, 1]


@pytest.mark.parametrize("learner", [GES(), PC()], ids=str)
def test_undirected_edges_are_votes_for_both_directions(learner: GES | PC, rows: pd.DataFrame) -> None:
    parts = split(rows, 3)
    model = learned(parts, method="voting", learner=learner)
    found = [clone(learner).fit(part).graph_.adjacency for part in parts]
    shares = np.mean(found, axis=0)
    assert model.votes_ == pytest.approx(shares)
    kept, enough = model.graph_.adjacency, shares > 0.5
    assert kept.any()
    assert not (kept & ~enough).any()
    assert np.array_equal(kept & kept.T, enough & enough.T & np.isclose(shares, shares.T))
    gone = {(edge["source"], edge["target"]) for _, edge in model.pruned_.iterrows()}
    for i, j in np.argwhere(enough & ~enough.T & ~kept):
        assert (f"x{i}", f"x{j}") in gone


def test_cycles_of_directed_edges_are_pruned_beside_undirected_ones() -> None:
    shares = np.zeros((5, 5))
    shares[0, 1], shares[1, 2], shares[2, 0] = 1.0, 0.9, 0.6
    shares[3, 4] = shares[4, 3] = 0.7
    shares[0, 3], shares[3, 0] = 0.8, 0.6
    votes = {"shares": shares, "mean_weights": np.zeros((5, 5))}
    party = LinearParty(GaussianStats.from_data(np.eye(5), names=list("abcde")))

    def study(**known: object) -> Study:
        settings = MethodSettings(knowledge=Knowledge(**known))  # type: ignore[arg-type]
        return Study({"a": party}, MODELS["linear"], settings, Privacy())

    read = VotingMethod().read(study(), votes)
    edges = Graph.from_edges("abcde", [("a", "b", 0), ("b", "c", 0), ("a", "d", 0)], [("d", "e", 0)])
    assert np.array_equal(read.graph.adjacency, edges.adjacency)
    assert [(edge.source, edge.target) for edge, _ in read.pruned] == [("c", "a")]
    assert read.history["n_nonzero"].tolist() == [7]
    known = VotingMethod().read(study(required=[("e", "d")]), votes)
    assert known.graph.adjacency[4, 3]
    assert not known.graph.adjacency[3, 4]


def test_the_papers_values_hold_where_nothing_else_is_given(rows: pd.DataFrame) -> None:
    parts = split(rows, 3)
    paper = learned(parts, method="voting", schedule="paper")
    assert paper.lambda_used_ == 0.1
    other = learned(parts, method="voting", schedule="paper", lambda_=0.3, threshold=0.05)
    assert other.lambda_used_ == 0.3
    alone = [Notears(lambda_=0.3, threshold=0.05).fit(part).graph_.adjacency for part in parts]
    assert other.votes_ == pytest.approx(np.mean(alone, axis=0))
    assert list(other.history_.columns) == ["round", "lambda_", "n_nonzero"]


@pytest.mark.parametrize("method", ["admm", "moments", "voting", "fedavg"])
def test_knowledge_is_honoured(method: str, rows: pd.DataFrame) -> None:
    free = Notears().fit(rows).graph_.edges()[0]
    known = Knowledge(
        forbidden=[(free.source, free.target), (free.target, free.source)], required=[("x0", "x7")]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = learned(split(rows, 3), method=method, knowledge=known)
    found = {(edge.source, edge.target) for edge in model.graph_.edges()}
    assert ("x0", "x7") in found
    assert (free.source, free.target) not in found
    assert (free.target, free.source) not in found
    assert model.graph_.is_dag


@pytest.mark.parametrize("method", ["admm", "moments", "fedavg"])
def test_rows_in_which_a_variable_was_set_do_not_score_it(method: str) -> None:
    names = ["a", "b", "c"]
    truth = Graph.from_edges(names, [("a", "b", 1.0), ("b", "c", 1.0)])
    first = simulate.linear(truth, n=300, random_state=0)
    cut = Graph.from_edges(names, [("b", "c", 1.0)])
    second = simulate.linear(cut, n=300, noise_scale=np.array([1.0, 3.0, 1.0]), random_state=1).add([0, 4, 4])
    parts = {
        "watched": Regimes({frozenset(): GaussianStats.from_data(first)}),
        "set": Regimes({frozenset({"b"}): GaussianStats.from_data(second)}),
    }
    pooled = Notears().fit(parts["watched"] + parts["set"])
    model = learned(parts, method=method, privacy="none")
    assert np.array_equal(model.graph_.adjacency, truth.adjacency)
    assert np.abs(model.weights_ - pooled.weights_).max() < 1e-8
    assert model.weights_[0, 1] == pytest.approx(1.0, abs=0.15)


def test_groups_of_variables() -> None:
    assert variable_groups("abc", [frozenset()]).tolist() == [0, 0, 0]
    assert variable_groups("abc", [frozenset("a"), frozenset("ab")]).tolist() == [0, 1, 2]


def test_stability_over_halves_of_the_parties(dag: Graph, rows: pd.DataFrame) -> None:
    setting = {"method": "voting", "privacy": "none", "random_state": 1}
    model = learned(split(rows, 6), lambda_="stability", **setting)
    path = learned(split(rows, 6), **setting)
    assert metrics.shd(true=dag, estimate=model.graph_) <= 3
    assert model.lambda_used_ > 0
    ledger = model.disclosure_
    assert ledger["round"].is_monotonic_increasing
    assert ledger["round"].max() == path.n_rounds_ + 10 * 5 + 1  # the path, halves at five penalties, the end
    with pytest.raises(UsageError, match="at least 4"):
        learned(split(rows, 3), lambda_="stability", privacy="none")
    with pytest.raises(UsageError, match="at least 12 of them, with masked sums"):
        learned(split(rows, 6), lambda_="stability")


def test_the_disclosure_says_what_left(rows: pd.DataFrame) -> None:
    model = learned({"north": rows.iloc[:150], "south": rows.iloc[150:]}, privacy="none")
    ledger = model.disclosure_
    assert list(ledger.columns)[:7] == ["site", "round", "name", "shape", "bytes", "masked", "noise"]
    assert set(ledger["site"]) == {"north", "south"}
    assert not ledger["masked"].any()
    families = ledger[ledger["name"] == "families"]
    pairs = int(families["shape"].iloc[0])
    assert pairs < 8 * 9 / 2  # fewer than all pairs: not the covariance matrix
    assert "scatter" not in set(ledger["name"])


def test_directions_that_follow_the_variances_are_told(rows: pd.DataFrame) -> None:
    pooled = Notears().fit(rows)
    for method in ("admm", "moments"):
        model = learned(split(rows, 3), method=method)
        assert model.varsortability_ == pytest.approx(pooled.varsortability_)
    assert np.isnan(learned(split(rows, 3), method="voting", lambda_=0.1).varsortability_)


SETTINGS: list[dict[str, object]] = [
    {"method": "admm"},
    {"method": "admm", "schedule": "paper"},
    {"method": "moments"},
    {"method": "fedavg"},
    {"method": "varying"},
    {"method": "voting"},
    {"method": "voting", "lambda_": 0.1},
    {"method": "voting", "schedule": "paper"},
    {"method": "voting", "learner": EqualVariance()},
    {"method": "voting", "model": "mlp", "hidden": 2},
    {"method": "admm", "model": "mlp", "hidden": 2, "lambda_": 0.05},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_another_scale_at_one_site_is_told_with_the_column(
    rows: pd.DataFrame, setting: dict[str, object]
) -> None:
    odd = rows.iloc[360:].assign(x3=rows["x3"] * 1e3)
    parts = {"a": rows.iloc[:120], "b": rows.iloc[120:240], "c": rows.iloc[240:360], "south": odd}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        narrow = {name: part[["x2", "x3", "x4"]] for name, part in parts.items()}
        learned(narrow, **setting, privacy="none")
    units = [str(each.message) for each in told if issubclass(each.category, DataWarning)]
    assert len(units) == 1
    assert units[0].startswith("south: column x3 has a standard deviation of ")
    assert "elsewhere (a factor of " in units[0]
    assert "milli- and whole units differ by 1000): compare the units." in units[0]


@quick
@given(seeds, st.integers(2, 12), st.floats(15, 1e6), st.booleans())
def test_of_parties_in_two_units_those_with_fewer_rows_are_told(
    seed: int, k: int, factor: float, smaller: bool
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(20, 60, k).astype(float)
    if k > 2:
        rows[0] = min(rows[0], rows[1:].sum() / 2)  # with nearly half of all rows neither unit is the odd one
    own = (
        rng.uniform(0.8, 1.2, (k, 1))
        * np.where(np.arange(k) == 0, 1 / factor if smaller else factor, 1.0)[:, None]
    )
    summed = sum(log_scales(n, each) for n, each in zip(rows, own, strict=True))
    told = [bool(other_units(("x",), each, np.asarray(summed), n)) for n, each in zip(rows, own, strict=True)]
    if k == 2:
        assert any(told)
    else:
        assert told == [True] + [False] * (k - 1)
    alike = rng.uniform(0.5, 2.0, (k, 1))
    summed = sum(log_scales(n, each) for n, each in zip(rows, alike, strict=True))
    assert not any(other_units(("x",), each, np.asarray(summed), 50) for each in alike)


@pytest.mark.parametrize("masked", ["none", "masked"])
def test_a_clinical_factor_and_a_gain_are_named(masked: str) -> None:
    rows = simulate.linear(simulate.dag(6, n_edges=6, random_state=0), n=400, random_state=0) + 20
    parts = {f"p{k}": rows.iloc[k * 100 : k * 100 + 100] for k in range(4)}
    other = parts["p2"].assign(x4=parts["p2"]["x4"] / 38.67)
    privacy = Privacy(mode=masked)
    with pytest.warns(DataWarning, match=r"^p2: column x4 .*mg/dL and mmol/L of cholesterol differ by 38.67"):
        model = BOSS().fit(Parties({**parts, "p2": other}, privacy=privacy))
    assert sum("x4" in note for note in model.notes_ if note.startswith("p2: ")) == 1
    with pytest.warns(
        DataWarning, match=r"^p1: standard deviations are about \S+ times those elsewhere in 6"
    ):
        FederatedNotears().fit(Parties({**parts, "p1": parts["p1"] * 10}, privacy=privacy))


def test_small_parties_raise_no_alarm_about_units() -> None:
    rows = simulate.linear(simulate.dag(6, n_edges=6, random_state=0), n=600, random_state=0)
    Parties({f"p{k}": rows.iloc[k * 6 : k * 6 + 6] for k in range(100)}).moments()  # warnings are errors


def test_bad_parties_are_told(rows: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"south does not take part.*lacks x3"):
        learned({"north": rows, "south": rows.drop(columns="x3"), "west": rows})
    with pytest.raises(DataError, match=r"south: .*x2"):
        learned({"north": rows, "south": rows.assign(x2="a")})
    with pytest.raises(DataError, match=r"site 2 does not take part: It has 3 rows"):
        learned([rows, rows.iloc[:3], rows], min_rows=5)
    for one in (rows, rows.to_numpy(), "north.csv", None, 3):
        with pytest.raises(UsageError, match=f"list of tables; got one {type(one).__name__}"):
            learned(one)
    with pytest.raises(UsageError, match="written alike"):
        learned({1: rows, "1": rows, "2": rows})  # type: ignore[dict-item]
    labels = {"north": rows, "south": rows.assign(x2=rows["x2"] > 0), "west": rows}
    for model in ("linear", "mlp"):
        with pytest.raises(DataError, match=r"south: column x2 holds True and False"):
            learned(labels, model=model)
    with pytest.raises(DataError, match=r"site 1: column x0 holds True and False"):
        learned([rows.to_numpy() > 0, rows, rows])
    with pytest.raises(DataError, match="no parties"):
        learned([])


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"method": "gossip"}, "method"),
        ({"schedule": "fast"}, "schedule"),
        ({"lambda_": -1}, "lambda_"),
        ({"threshold": "big"}, "threshold"),
        ({"participation": 0.0}, "participation"),
        ({"participation": "half"}, "participation"),
        ({"min_rows": "a"}, "min_rows"),
        ({"min_rows": 2.5}, "min_rows"),
        ({"privacy": "total"}, "mode"),
        ({"learner": Notears()}, "learner"),
        ({"learner": GES(), "method": "voting", "lambda_": "stability"}, "GES has settings of its own"),
    ],
)
def test_bad_settings_are_told(setting: dict[str, object], why: str, rows: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match=why):
        learned(split(rows, 3), **setting)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("privacy", ["masked", "none"])
def test_a_column_that_is_constant_everywhere_is_named(
    rows: pd.DataFrame, setting: dict[str, object], privacy: Literal["masked", "none"]
) -> None:
    parts = split(rows[["x2", "x3", "x4"]].assign(x3=777.7), 3)
    with pytest.raises(DataError, match="x3 is constant"):
        learned(parts, **setting, privacy=privacy)


def test_how_sums_are_formed_does_not_decide_between_penalties() -> None:
    """Several penalties end at one graph here; masks change the last digits of every sum."""
    truth = simulate.dag(6, expected_edges=6, random_state=5)
    parts = split(simulate.linear(truth, n=200, random_state=5), 3)
    plain = learned(parts, privacy="none")
    masked = learned(parts, privacy="masked")
    assert masked.lambda_used_ == pytest.approx(plain.lambda_used_, rel=1e-9)
    assert masked.raw_weights_ == pytest.approx(plain.raw_weights_, abs=1e-6)
    assert masked.pruned_["reason"].tolist() == plain.pruned_["reason"].tolist()
