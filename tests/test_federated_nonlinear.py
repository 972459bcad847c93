"""Networks and time series over parties: sums that equal pooling, consensus, faults, the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from typer.testing import CliRunner

from over_parties import learned
from polydag import GaussianStats, Graph, Knowledge, Notears, Regimes, metrics, simulate, studies
from polydag.cli.main import app
from polydag.errors import DataError, DataWarning, UsageError
from polydag.federated import Ask, Coordinator, Site, run
from polydag.federated.methods.admm import Admm
from polydag.federated.methods.schedules import Default
from polydag.federated.methods.voting import NetworkVoting
from polydag.federated.methods.voting_party import VotingParty
from polydag.federated.models.lagged import LaggedParty
from polydag.federated.models.network_coordinator import NetworkCoordinator
from polydag.federated.models.network_party import Kind, NetworkLoss, NetworkParty
from polydag.federated.protocol.engine import begin
from polydag.federated.protocol.messages import Arrays, same_arrays
from polydag.federated.protocol.storage.resume import pack, unpack
from polydag.learners import EqualVariance
from polydag.learners.notears.lagged import NotearsLagged
from polydag.learners.notears.nonlinear import NotearsMLP
from polydag.losses.lagged import lagged_statistics, slice_names
from polydag.losses.masked import MaskedMLP, MaskedShape, mask_noise
from polydag.losses.mlp import MLP
from polydag.optimize.network_choice import penalty_path
from polydag.optimize.nonlinear import minimise
from polydag.studies import PartiesConfig, load

NAMES = ["age", "dose α", "crp", "il-6"]
OPEN: dict[str, Any] = {"privacy": "none"}


@pytest.fixture(scope="module")
def dag() -> Graph:
    return simulate.dag(4, expected_edges=4, names=NAMES, random_state=3)


@pytest.fixture(scope="module")
def parts(dag: Graph) -> list[pd.DataFrame]:
    rows = simulate.mlp(dag, n=240, random_state=5)
    return [rows.iloc[:60], rows.iloc[60:140], rows.iloc[140:]]


def sample(d: int = 4, lags: int = 2) -> simulate.LaggedSample:
    return simulate.lagged(d, n_steps=30, n_lags=lags, n_realisations=9, random_state=1)


@pytest.fixture(scope="module")
def series() -> list[pd.DataFrame]:
    data = sample().data
    return [data[data["realisation"] % 3 == k] for k in range(3)]


def summed(locals_: list[NetworkParty], ask: Ask) -> dict[str, NDArray[np.float64]]:
    answers = [local.answer({}, ask)[1] for local in locals_]
    return {name: np.sum([each[name] for each in answers], axis=0) for name in answers[0]}


def constants(rows: pd.DataFrame, error: float = 1.5) -> Arrays:
    d = rows.shape[1]
    return {
        "centre": rows.to_numpy().mean(axis=0)[None],
        "rows": np.array([float(len(rows))]),
        "error": np.array(error),
        "forbidden": np.eye(d, dtype=np.uint8),
        "seed": np.array(7),
    }


@pytest.mark.parametrize("kind", ["mlp", "masked"])
def test_what_sites_say_of_networks_adds_up_to_pooling(kind: Kind, parts: list[pd.DataFrame]) -> None:
    rows = pd.concat(parts)
    # Every part a multiple of the mask's draws, so that a row meets the same noise at its site.
    cut = [rows.iloc[:64], rows.iloc[64:160], rows.iloc[160:]]
    told = constants(rows)
    standard = (rows.to_numpy() - told["centre"][0]) / 1.5
    whole: NetworkLoss = MLP(standard, 3)
    if kind == "masked":
        noise = mask_noise(4, 16, np.random.default_rng(7))
        whole = MaskedMLP(standard, MaskedShape(4, 3), noise)
    theta = np.random.default_rng(0).normal(size=(2, whole.shape.size))
    total = summed([NetworkParty(part, kind, 3) for part in cut], Ask("effects", {"W": theta, **told}))
    assert total["share"] == pytest.approx(1)
    for lane in range(2):
        assert total["residuals"][lane] == pytest.approx(whole.squared_residuals(theta[lane]))
    assert total["residuals"][0].sum() / 2 == pytest.approx(whole.value_and_grad(theta[0])[0])
    if isinstance(whole, MLP):
        assert total["slopes"][1] == pytest.approx(whole.squared_slopes(theta[1]))


def test_a_typical_error_is_that_of_the_pooled_learner(parts: list[pd.DataFrame]) -> None:
    rows = pd.concat(parts)
    group = np.zeros(4, dtype=np.int64)
    ask = Ask("errors", {"group": group, "centre": rows.to_numpy().mean(axis=0)[None]})
    answers = [NetworkParty(part).answer({}, ask)[1] for part in parts]
    size = sum(each["log_error"][0] for each in answers) / sum(each["weight"][0] for each in answers)
    S = np.linalg.inv(np.cov(rows.T)).diagonal()
    assert np.exp(size) == pytest.approx(np.exp(-0.5 * np.log(S).mean()), rel=0.15)
    told = NetworkParty(parts[0].iloc[:5]).answer({}, ask)[1]
    assert told["weight"][0] == told["log_error"][0] == 0


def study(
    parts: list[pd.DataFrame], kind: Kind, knowledge: Knowledge, patience: int = 30
) -> tuple[Coordinator, dict[str, Site]]:
    masks = knowledge.masks(NAMES)
    model = NetworkCoordinator(tuple(NAMES), masks, kind, 3, 0.02, 0.003, 0.2, "logdet")
    schedule = Default(pace=10, imbalance=2.0, nudge=1.2, max_inner=10, patience=patience, tolerance=1e-3)
    sites = {f"site {k}": Site(NetworkParty(part, kind, 3)) for k, part in enumerate(parts)}
    return Coordinator(Admm(model, schedule)), sites


def test_along_an_order_consensus_is_the_pooled_optimum(dag: Graph, parts: list[pd.DataFrame]) -> None:
    known = Knowledge(tiers=[[name] for name in dag.topological_order()])
    coordinator, sites = study(parts, "mlp", known)
    state = run(coordinator, sites).coordinator
    rows = pd.concat(parts).to_numpy()
    theta = state.program["theta"][0]
    loss = MLP((rows - state.program["centre"][0]) / float(state.program["error"]), 3)
    lasso = loss.shape.lasso(np.full((4, 4), 0.02))

    def function(at: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        value, slope = loss.value_and_grad(at)
        return value + 0.0015 * float(at @ at), slope + 0.003 * at

    start, held = loss.shape.hold(loss.shape.start(np.random.default_rng(0)), known.masks(NAMES).forbidden)
    pooled = minimise(function, start, lasso, held, tolerance=1e-9, max_iter=3000)
    found = function(theta)[0] + float(lasso @ np.abs(theta))
    assert found == pytest.approx(pooled.value, rel=0.02)


@pytest.mark.parametrize("kind", ["mlp", "masked"])
def test_every_round_of_networks_can_be_restored_bit_for_bit(kind: Kind, parts: list[pd.DataFrame]) -> None:
    parts = [part.iloc[:30] for part in parts]
    coordinator, sites = study(parts, kind, Knowledge(), 3)
    whole = run(coordinator, sites)
    federation = begin(sites)
    while not federation.finished:
        coordinator, sites = study(parts, kind, Knowledge(), 3)  # nothing is remembered outside the states
        federation = unpack(pack(run(coordinator, sites, federation, rounds=7)), sites)
    assert same_arrays(federation.coordinator.result, whole.coordinator.result)
    assert federation.disclosed == whole.disclosed


def test_networks_by_admm_find_what_pooling_finds(dag: Graph, parts: list[pd.DataFrame]) -> None:
    before = [part.copy() for part in parts]
    model = learned(parts, model="mlp", hidden=4, random_state=0, **OPEN)
    for part, copy in zip(parts, before, strict=True):
        pd.testing.assert_frame_equal(part, copy)
    pooled = NotearsMLP(hidden=4, random_state=0).fit(pd.concat(parts))
    assert metrics.shd(true=dag, estimate=pooled.graph_) <= 1
    assert metrics.shd(true=dag, estimate=model.graph_) <= metrics.shd(true=dag, estimate=pooled.graph_) + 1
    assert model.graph_.names == tuple(NAMES)
    assert model.graph_.is_dag
    assert model.converged_
    assert (model.raw_weights_ >= 0).all()
    assert model.weights_[model.graph_.adjacency].min() >= 0.2
    assert model.lambda_used_ in set(model.history_["lambda_"])
    assert set(model.disclosure_["name"]) == {
        "rows", "mass", "sums", "rank", "log_scales", "squares", "log_error", "weight", "parameters",
        "spread", "share", "residuals", "slopes",
    }  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "masked", "hidden": 3, "lambda_": 0.03},
        {"model": "mlp", "hidden": 4, "lambda_": 0.02, "method": "fedavg", "participation": 0.7},
        {"model": "mlp", "hidden": 4, "lambda_": 0.02, "method": "voting"},
        {"model": "mlp", "schedule": "paper"},
        {"model": "mlp", "schedule": "paper", "method": "voting"},
    ],
)
@pytest.mark.filterwarnings("ignore::polydag.errors.ConvergenceWarning")
def test_other_ways_with_networks(settings: dict[str, object], dag: Graph, parts: list[pd.DataFrame]) -> None:
    model = learned(parts, random_state=0, **OPEN, **settings)
    assert metrics.shd(true=dag, estimate=model.graph_) <= 3
    assert model.graph_.is_dag
    if settings.get("schedule") == "paper":
        votes = settings.get("method") == "voting"
        assert model.lambda_used_ == (0.01 if votes else 0.001)
        assert model.n_rounds_ <= 203
        assert votes or model.history_["rho"].iloc[:2].tolist() == pytest.approx([0.1, 0.125])
        assert model.weights_[model.graph_.adjacency].min() >= 0.3
    if settings["model"] == "masked":
        assert model.raw_weights_.max() <= 1


def test_votes_of_networks_take_the_penalty_with_the_least_sum_of_the_parties_own_criteria(
    parts: list[pd.DataFrame],
) -> None:
    settings = {"model": "mlp", "hidden": 3, "method": "voting", "random_state": 0}
    model = learned(parts, **OPEN, **settings)
    lambdas = penalty_path(parts[0].shape[1], float(np.mean([len(part) for part in parts])))
    learners = [NotearsMLP(lambda_=each, hidden=3, random_state=0) for each in lambdas]
    alone = [[clone(learner).fit(part) for part in parts] for learner in learners]
    sums = [sum(own.criterion_ for own in fits) for fits in alone]
    best = int(np.argmin(sums))
    assert model.lambda_used_ == lambdas[best]
    assert model.criterion_ == pytest.approx(sums[best])
    assert model.history_["lambda_"].tolist() == lambdas
    shares = np.mean([own.graph_.adjacency for own in alone[best]], axis=0)
    assert model.votes_ == pytest.approx(shares)
    fixed = learned(parts, lambda_=lambdas[best], **OPEN, **settings)
    assert np.array_equal(fixed.graph_.adjacency, model.graph_.adjacency)
    two = [part.iloc[:40, :2] for part in (*parts, parts[0])]
    known = learned(two, **OPEN, **settings)
    masked = learned(two, **settings)
    assert masked.lambda_used_ == known.lambda_used_
    assert masked.criterion_ == pytest.approx(known.criterion_)
    stable = learned(two, lambda_="stability", **OPEN, **settings)
    assert stable.lambda_used_ in stable.history_["lambda_"].tolist()


def test_votes_of_networks_can_be_saved_between_their_rounds(parts: list[pd.DataFrame]) -> None:
    coordinator = Coordinator(NetworkVoting(tuple(NAMES)))
    learner = NotearsMLP(hidden=2, random_state=0)
    sites = {
        f"site {k}": Site(VotingParty(NetworkParty(part, "mlp", 2), learner)) for k, part in enumerate(parts)
    }
    whole = run(coordinator, sites)
    half = unpack(pack(run(coordinator, sites, rounds=1)), sites)
    assert not half.finished
    assert same_arrays(run(coordinator, sites, half).coordinator.result, whole.coordinator.result)


def test_what_is_known_is_honoured(dag: Graph, parts: list[pd.DataFrame]) -> None:
    edge = next(iter(dag.edges()))
    known = Knowledge(required=[(edge.target, edge.source)])
    model = learned(parts, model="mlp", hidden=3, lambda_=0.05, knowledge=known, random_state=0, **OPEN)
    graph = model.graph_
    assert graph.adjacency[graph.index(edge.target), graph.index(edge.source)]
    assert graph.is_dag


def test_what_is_wrong_with_parties_of_networks_is_told(parts: list[pd.DataFrame]) -> None:
    def complaint(tables: object, **settings: object) -> str:
        with pytest.raises((DataError, UsageError)) as error:
            learned(tables, model="mlp", **OPEN, **settings)
        return str(error.value)

    assert "rows, not statistics" in complaint([GaussianStats.from_data(part) for part in parts])
    assert "supports model linear; got 'mlp'" in complaint(parts, method="varying")
    assert "hidden must be" in complaint(parts, hidden=0)
    assert "lambda2 must be" in complaint(parts, lambda2=-1.0)
    hole = parts[1].assign(crp=parts[1]["crp"].mask(parts[1].index == 62))
    assert complaint({"north": parts[0], "south": hole}).startswith("south: Column crp, row 3")
    said = complaint({"north": parts[0], "south": parts[1].drop(columns="crp")})
    assert "south does not take part" in said
    assert "lacks crp" in said
    far = parts[1].assign(age=parts[1]["age"] * 1e4)
    with pytest.warns(DataWarning, match="site 1: column age"):
        learned([parts[0], far], model="mlp", hidden=1, lambda_=1.0, **OPEN)


def test_masked_sums_do_not_change_networks(parts: list[pd.DataFrame]) -> None:
    chosen = {"model": "mlp", "hidden": 2, "lambda_": 0.05, "random_state": 0}
    hidden = learned(parts, **chosen, privacy="masked")
    seen = learned(parts, **chosen, **OPEN)
    assert hidden.raw_weights_ == pytest.approx(seen.raw_weights_, abs=0.02)
    assert hidden.disclosure_["masked"].any()


def test_the_past_of_series_takes_no_part_in_messages(series: list[pd.DataFrame]) -> None:
    model = learned(series, model="lagged", lags=2, lambda_=0.05, threshold=0.1, **OPEN)
    local = LaggedParty(lagged_statistics(series[0], 2), present=4)
    W = np.zeros((1, 12, 12))
    told = {
        "group": np.zeros(12, dtype=np.int64),
        "centre": local.stats.for_node("x").mean[None] if isinstance(local.stats, Regimes) else
        local.stats.mean[None],
        "rows": np.array([252.0]),
        "scale": np.ones(12),
    }  # fmt: skip
    _, sent = local.answer({}, Ask("consensus", {"W": W, "rho": np.array([0.3]), **told}, {"relax": 1.6}))
    assert (sent["parameters"][0, :, 4:] == 0).all()
    assert np.abs(sent["parameters"][0, :, :4]).max() > 0.05
    assert not model.raw_weights_[:, 4:].any()


@pytest.mark.parametrize("method", ["moments", "admm", "fedavg", "voting"])
def test_series_over_parties_are_those_in_one_place(method: str, series: list[pd.DataFrame]) -> None:
    model = learned(series, model="lagged", lags=2, method=method, **OPEN)
    pooled = NotearsLagged(2, baselines=False).fit(pd.concat(series))
    assert model.graph_.names == slice_names(["x0", "x1", "x2", "x3"], 2)
    assert model.graph_.is_dag
    assert not model.graph_.adjacency[:, 4:].any()
    assert model.instantaneous_graph_.names == ("x0", "x1", "x2", "x3")
    assert np.array_equal(model.lag_weights_[1], model.weights_[8:, :4])
    if method == "voting":
        assert metrics.shd(true=pooled.graph_, estimate=model.graph_) <= 2
        return
    assert np.array_equal(model.graph_.adjacency, pooled.graph_.adjacency)
    exact = 1e-8 if method == "moments" else 1e-6
    assert model.weights_ == pytest.approx(pooled.weights_, abs=exact)


def test_other_learners_are_told_that_nothing_changes_the_past(series: list[pd.DataFrame]) -> None:
    graph = learned(series, model="lagged", lags=2, method="moments", learner=EqualVariance(), **OPEN).graph_
    assert graph.n_edges > 0
    assert not graph.adjacency[:, 4:].any()
    known = Knowledge(required=[("x3[t-1]", "x1[t]")], forbidden=[("x0[t]", "x1[t]")])
    for method in ("moments", "admm"):
        graph = learned(series, model="lagged", lags=2, method=method, knowledge=known, **OPEN).graph_
        assert graph.adjacency[graph.index("x3[t-1]"), graph.index("x1[t]")]
        assert not graph.adjacency[graph.index("x0[t]"), graph.index("x1[t]")]

    class Alone(Notears):
        def __init__(self, lambda_: float = 0.1) -> None:
            super().__init__(lambda_=lambda_)

    with pytest.raises(UsageError, match="does not take background knowledge"):
        learned(series, model="lagged", method="moments", learner=Alone(), **OPEN)


def test_what_is_wrong_with_series_is_told_with_the_party(series: list[pd.DataFrame]) -> None:
    def complaint(tables: object, **settings: object) -> str:
        with pytest.raises((DataError, UsageError)) as error:
            learned(tables, model="lagged", **OPEN, **settings)
        return str(error.value)

    short = series[1][series[1]["t"] < 3]
    assert complaint({"a": series[0], "b": short}, lags=3).startswith("b: No series has more than 3 time")
    gap = series[1][series[1]["t"] != 5]
    said = complaint({"a": series[0], "b": gap}, lags=2)
    assert said.startswith("b: Realisation 1: t = 4 is followed by t = 6")
    assert "lags must be" in complaint(series, lags=0)
    assert "no column day" in complaint(series, time="day")
    assert "supports model linear" in complaint(series, method="varying")
    regimes = Regimes({frozenset(): GaussianStats.from_data(series[0])})
    assert "intervention" in complaint([regimes, series[1]])
    wrong = lagged_statistics(series[0], 1)
    assert "not stacked with 2 lags" in complaint([wrong, wrong], lags=2)


def files(tmp_path: Path, tables: list[pd.DataFrame]) -> list[str]:
    paths = [str(tmp_path / f"{name}.csv") for name, _ in zip("abcdef", tables, strict=False)]
    for path, table in zip(paths, tables, strict=True):
        table.to_csv(path, index=False)
    return paths


def test_networks_from_the_command_line(tmp_path: Path, parts: list[pd.DataFrame]) -> None:
    asked = ["fit", "--as", "parties", "-m", "admm", *files(tmp_path, parts), "--set", "model=mlp",
             "--set", "hidden=3", "--set", "lambda=0.05", "--seed", "1"]  # fmt: skip
    result = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    again = CliRunner().invoke(
        app, ["fit", "--config", str(tmp_path / "run" / "config.toml"), "--out", str(tmp_path / "b")]
    )
    assert again.exit_code == 0, again.output
    assert (tmp_path / "run" / "edges.csv").read_bytes() == (tmp_path / "b" / "edges.csv").read_bytes()


def test_series_from_the_command_line(tmp_path: Path, series: list[pd.DataFrame]) -> None:
    named = [table.rename(columns={"realisation": "who", "t": "day"}) for table in series]
    paths = files(tmp_path, [table.assign(who="p" + table["who"].astype(str)) for table in named])
    asked = ["fit", "--as", "parties", "-m", "admm", *paths, "--set", "model=lagged", "--set", "lags=2"]
    refused = CliRunner().invoke(app, [*asked, "--out", str(tmp_path / "no")])
    assert refused.exit_code == 3
    assert "who" in refused.output
    asked += ["--set", "realisation=who", "--set", "time=day"]
    result = CliRunner().invoke(app, [*asked, "--seed", "1", "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    graph = json.loads((tmp_path / "run" / "graph.json").read_text())
    expected = learned(series, model="lagged", lags=2)
    assert len(graph["edges"]) == expected.graph_.n_edges
    own = {"lags": 2, "realisation": "who", "time": "day"}
    stacked = studies.run(PartiesConfig(data=tuple(paths), method="notears-lagged", settings=own, seed=1))
    summed = learned(series, model="lagged", lags=2, method="moments", **OPEN)
    assert np.array_equal(stacked.graph.adjacency, summed.graph_.adjacency)
    settings = {"model": "lagged", **own}
    few = load(PartiesConfig(data=tuple(paths), method="admm", settings=settings, columns=("x1", "x0")))
    assert few.tables[paths[0]].names == ("x1", "x0", "day", "who")
    with pytest.raises(UsageError, match="leave gaps"):
        load(PartiesConfig(data=tuple(paths), method="admm", settings=settings, missing="drop"))


@pytest.mark.slow
def test_being_federated_costs_little_in_accuracy() -> None:
    more = []
    for seed in range(10):
        rng = np.random.default_rng([seed, 10, 512])
        truth = simulate.dag(10, expected_edges=10, random_state=rng)
        rows = simulate.mlp(truth, n=512, random_state=rng)
        cut = [rows.iloc[k * 128 : (k + 1) * 128] for k in range(4)]
        ours = learned(cut, model="mlp", random_state=0, **OPEN).graph_
        pooled = NotearsMLP(random_state=0).fit(rows).graph_
        more.append(metrics.shd(true=truth, estimate=ours) - metrics.shd(true=truth, estimate=pooled))
    assert np.mean(more) <= 1
