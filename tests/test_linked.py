"""The decorrelating transformer and the learner of DAGs with linked rows."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import runpy
import warnings
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from scipy.linalg import block_diag
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from polydag import (
    BOSS,
    GES,
    PC,
    BayesianDiscovery,
    Bootstrap,
    EqualVariance,
    FreeStructure,
    Graph,
    LinkedRows,
    LinkedRowsDAG,
    MultitaskDiscovery,
    Notears,
    RowDecorrelator,
    Tasks,
    metrics,
    runs,
    simulate,
    studies,
)
from polydag.cli.main import app
from polydag.errors import ConvergenceWarning, DataError, DataWarning, UsageError
from polydag.learners.linked_rows.linked_rows_dag import _turn
from polydag.reproduce import linked as paper
from polydag.reproduce.linked_settings import PRESETS, chosen, published, real, simulated
from polydag.rows.estimate import scaled_problem
from polydag.rows.linked_table import LinkedTable
from polydag.studies import TableConfig, TasksConfig
from polydag.studies.plan import plan_of
from printed import same_output

pytestmark = pytest.mark.portable

N, SIZE = 200, 5
SCHOOL = np.arange(N) // SIZE
FEW = FreeStructure(n_orders=1)  # for speed
SOURCE = ("groups", "links", "structure", "free", "covariates")


@pytest.fixture(scope="module")
def truth() -> Graph:
    return simulate.dag(40, n_edges=40, random_state=0)


@pytest.fixture(scope="module")
def rows(truth: Graph) -> pd.DataFrame:
    return simulate.linked(truth, row_covariance=blocks(), random_state=1)


def blocks() -> list[np.ndarray]:
    return simulate.clusters("equi", N, SIZE, base=0.7)


def pupils(rows: pd.DataFrame, **settings: Any) -> LinkedRows:
    return LinkedRows(rows, groups=SCHOOL, **{"free": FEW, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def decorrelator(rows: pd.DataFrame) -> RowDecorrelator:
    return RowDecorrelator(SCHOOL, random_state=0, free=FreeStructure(n_orders=2)).fit(rows)


def test_row_correlations_are_close_to_the_truth(decorrelator: RowDecorrelator) -> None:
    Sigma = block_diag(*blocks())
    found = decorrelator.row_correlation_.toarray()
    off = (Sigma != 0) & ~np.eye(N, dtype=bool)
    assert np.abs(found - Sigma)[off].mean() < np.abs(Sigma)[off].mean() / 3
    assert not found[Sigma == 0].any()
    assert decorrelator.effective_n_ == pytest.approx(N**2 / np.sum(Sigma**2), rel=0.15)
    L = decorrelator.row_factor_.toarray()
    np.testing.assert_allclose(L.T @ L @ found, np.eye(N), atol=1e-8)


def test_the_test_rejects_before_and_not_after(decorrelator: RowDecorrelator) -> None:
    assert decorrelator.test_.dependent
    assert not decorrelator.test_after_.dependent
    assert decorrelator.column_correlations_.mean() == pytest.approx(0.7, abs=0.1)
    assert "within groups" in decorrelator.summary_


def test_transform_whitens_and_keeps_names(decorrelator: RowDecorrelator, rows: pd.DataFrame) -> None:
    Z = decorrelator.transform(rows)
    assert list(Z.columns) == list(rows.columns)
    expected = decorrelator.row_factor_ @ (rows.to_numpy() - decorrelator.means_)
    np.testing.assert_allclose(Z, expected, atol=1e-9)
    np.testing.assert_allclose(decorrelator.transform(rows.to_numpy()), expected, atol=1e-9)
    with pytest.raises(DataError, match="rows and columns of the one"):
        decorrelator.transform(rows.iloc[:10])


def test_shifted_and_scaled_columns_give_the_same(decorrelator: RowDecorrelator, rows: pd.DataFrame) -> None:
    again = RowDecorrelator(SCHOOL, random_state=0, free=FreeStructure(n_orders=2)).fit(3.0 * rows + 100.0)
    np.testing.assert_allclose(
        again.row_correlation_.toarray(), decorrelator.row_correlation_.toarray(), atol=1e-3
    )


def test_known_order(truth: Graph, rows: pd.DataFrame) -> None:
    model = LinkedRowsDAG(order=truth.topological_order()).fit(pupils(rows))
    assert metrics.shd(true=truth, estimate=model.graph_) <= 1
    assert model.converged_
    assert set(model.history_) >= {"lambda_", "n_edges", "criterion", "objective"}
    assert model.graph_.n_edges + len(model.pruned_) >= np.count_nonzero(model.raw_weights_)
    kept = truth.adjacency & model.graph_.adjacency
    np.testing.assert_allclose(model.weights_[kept], truth.weights[kept], atol=0.4)
    number = LinkedRowsDAG(order=truth.topological_order(), lambda_=60.0, threshold=0.1).fit(pupils(rows))
    assert number.lambda_used_ == 60.0


def test_unknown_order_beats_ignoring_the_network(truth: Graph, rows: pd.DataFrame) -> None:
    naive = metrics.shd(true=truth.to_cpdag(), estimate=GES().fit(rows).graph_)
    model = GES().fit(pupils(rows, free=FreeStructure(n_orders=2)))
    assert metrics.shd(true=truth.to_cpdag(), estimate=model.graph_) < naive / 2


@pytest.mark.parametrize("learner", [GES(penalty=2), BOSS(penalty=2), EqualVariance()])
def test_rounds_go_on_until_graph_and_rows_agree(learner: Any, truth: Graph, rows: pd.DataFrame) -> None:
    model = LinkedRowsDAG(learner=learner, max_rounds=20).fit(pupils(rows))
    assert model.converged_
    criteria = model.history_["criterion"].to_numpy()
    assert len(criteria) >= 2
    assert (np.diff(criteria[:-1]) < 0).all()
    assert criteria[-1] >= criteria[-2]
    # Σ is that of the graph: fitted to it again, it does not change.
    table = LinkedTable.of(rows, SCHOOL)
    again = _turn(*scaled_problem(table, 0.01, 1), table, model.learner_, model.decorrelation_.estimate)
    assert again is not None
    assert np.array_equal(again.decorrelation.precision.thetas, model.row_precision_.thetas)
    assert type(model.learner_) is type(learner)


def test_rounds_that_do_not_suffice(rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    falling = count(0, -1)
    monkeypatch.setattr("polydag.learners.linked_rows.linked_rows_dag.bic", lambda *_: float(next(falling)))
    with pytest.warns(ConvergenceWarning, match="still improving after 2 rounds"):
        model = LinkedRowsDAG(max_rounds=2).fit(pupils(rows))
    assert not model.converged_


def test_a_graph_of_no_dag_ends_the_rounds(rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polydag.learners.linked_rows.linked_rows_dag._turn", lambda *_: None)
    with pytest.warns(ConvergenceWarning, match="that of no DAG"):
        model = LinkedRowsDAG(learner=PC(), max_rounds=2).fit(pupils(rows))
    assert model.graph_.n_edges > 0


@pytest.mark.parametrize("learner", [GES(), Notears(lambda_=0.1), EqualVariance()])
def test_without_links_it_is_the_plain_learner(learner: GES, rows: pd.DataFrame) -> None:
    with pytest.warns(DataWarning, match="no links"):
        source = LinkedRows(rows, links=[])
    model = clone(learner).fit(source)
    plain = learner.fit(rows)
    assert model.graph_.edges() == plain.graph_.edges() or np.allclose(
        model.graph_.weights, plain.graph_.weights, atol=1e-6
    )
    assert source.effective_n == N


def test_groups_and_covariates_by_name(rows: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    age = rng.standard_normal(N)
    data = (rows + 5.0 * age[:, None]).assign(age=age, school=[f"s{s}" for s in SCHOOL])
    by_name = RowDecorrelator("school", covariates=["age"], free=FEW, random_state=0).fit(data)
    assert list(by_name.feature_names_in_) == list(rows.columns)
    by_value = RowDecorrelator(SCHOOL, covariates=age, free=FEW, random_state=0).fit(rows)
    np.testing.assert_allclose(
        by_name.row_correlation_.toarray(), by_value.row_correlation_.toarray(), atol=1e-4
    )
    np.testing.assert_allclose(by_name.transform(data), by_value.transform(rows), atol=1e-3)
    assert "within school" in by_name.summary_


def test_rows_are_named_by_the_index(rows: pd.DataFrame) -> None:
    named = rows.set_axis([f"r{i}" for i in range(N)])
    pairs = [(f"r{i}", f"r{i + 1}") for i in range(0, N, 2)]
    one = RowDecorrelator(pairs, free=FEW, random_state=0).fit(named)
    two = RowDecorrelator([(i, i + 1) for i in range(0, N, 2)], free=FEW, random_state=0).fit(rows)
    assert np.array_equal(one.row_correlation_.toarray(), two.row_correlation_.toarray())


@pytest.mark.parametrize(
    ("kind", "structure"), [("equi", "common"), ("toeplitz", "decay"), ("star", "block")]
)
def test_links_share_one_strength_where_that_explains_more(kind: str, structure: str, truth: Graph) -> None:
    base = 0.7 if kind == "toeplitz" else None
    groups = simulate.clusters(kind, N, 10, base=base, random_state=2)
    X = simulate.linked(truth, row_covariance=groups, random_state=1)
    model = RowDecorrelator(np.arange(N) // 10, free=FEW, random_state=0).fit(X)
    assert model.structure_ == structure


def test_few_columns_share_one_strength(rows: pd.DataFrame) -> None:
    model = RowDecorrelator(SCHOOL, random_state=0).fit(rows.iloc[:, :3])
    assert model.structure_ == "common"
    assert model.row_correlation_[0, 1] == pytest.approx(0.7, abs=0.12)
    with pytest.warns(DataWarning, match="Θ is mostly noise"):
        RowDecorrelator(SCHOOL, structure="free", free=FEW).fit(rows.iloc[:, :3])


def test_a_column_that_is_the_same_in_linked_rows(rows: pd.DataFrame) -> None:
    data = rows.assign(size=np.repeat(np.random.default_rng(0).standard_normal(N // SIZE), SIZE))
    with pytest.warns(DataWarning, match="Column size is the same in all linked rows"):
        model = RowDecorrelator(SCHOOL, structure="common").fit(data)
    without = RowDecorrelator(SCHOOL, structure="common").fit(rows)
    assert model.structure_parameters_["correlation"] == pytest.approx(
        without.structure_parameters_["correlation"], abs=0.02
    )
    assert model.column_correlations_["size"] == 1.0
    assert not model.test_after_.dependent
    # Given a causal structure, too.
    source = LinkedRows(data, groups=SCHOOL, structure="common")
    in_turns = LinkedRowsDAG(learner=BOSS(penalty=2)).fit(source)
    assert in_turns.structure_parameters_["correlation"] == pytest.approx(0.7, abs=0.1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X: X.assign(x1=X["x0"] + X["x2"]), "combinations of others"),
        (lambda X: X.assign(x1="a"), "Column x1 is .*, not numeric"),
        (lambda X: X.assign(x1=1.0), "x1 is constant"),
        (lambda X: X.assign(x1=X["x1"].mask(X.index == 3)), "Column x1, row 4"),
        (lambda X: X.iloc[:3], "at least 4"),
    ],
)
def test_columns_that_cannot_be_used(change: object, said: str, rows: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=said):
        RowDecorrelator([(0, 1)]).fit(change(rows))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"links": "class"}, DataError, "no column class"),
        ({"groups": SCHOOL, "covariates": "age"}, DataError, "no column age"),
        ({"groups": np.zeros(N)}, DataError, "linked with every other"),
        ({"links": [(0, 777)]}, DataError, "do not exist: 777"),
        ({"groups": SCHOOL, "order": ["x1"]}, DataError, "order lacks x0"),
        ({"groups": SCHOOL, "order": ["y"]}, DataError, "order names y"),
        ({"groups": SCHOOL, "order": ["x1"], "learner": GES()}, UsageError, "not both"),
        ({"groups": SCHOOL, "lambda_": -1.0}, UsageError, "lambda_"),
        ({"groups": SCHOOL, "threshold": "none"}, UsageError, "threshold"),
        ({"groups": SCHOOL, "max_rounds": 0}, UsageError, "max_rounds"),
        ({"groups": SCHOOL, "free": 0}, UsageError, "free must be a polydag.FreeStructure"),
        ({"groups": SCHOOL, "structure": "tight"}, UsageError, "structure"),
    ],
)
def test_settings_that_cannot_be_meant(
    options: dict, error: type[Exception], said: str, rows: pd.DataFrame
) -> None:
    source = {name: options[name] for name in options if name in SOURCE}
    options = {name: options[name] for name in options if name not in SOURCE}
    with pytest.raises(error, match=said):
        LinkedRowsDAG(**options).fit(LinkedRows(rows, **source))


def test_an_order_with_a_name_twice(rows: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="x0 twice"):
        LinkedRowsDAG(order=[*rows.columns, "x0"]).fit(pupils(rows))


def test_more_columns_than_rows_with_a_tiny_penalty(rows: pd.DataFrame) -> None:
    few = rows.iloc[:30]
    with pytest.warns(DataWarning, match="The path stopped"):
        model = LinkedRowsDAG(order=list(rows.columns), lambda_=1e-6).fit(LinkedRows(few, groups=SCHOOL[:30]))
    assert np.isfinite(model.raw_weights_).all()


def test_equal_columns_that_outnumber_the_rows(rows: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="x0 = x1"):
        LinkedRows(rows.iloc[:30].assign(x1=rows["x0"]), groups=SCHOOL[:30])


def test_the_source_has_the_moments_of_the_transformed_rows(rows: pd.DataFrame) -> None:
    """Up to the mean: the transformer leaves a small one, which the next step of a pipeline takes out."""
    white = RowDecorrelator(SCHOOL, free=FEW, random_state=0).fit_transform(rows).to_numpy()
    np.testing.assert_allclose(pupils(rows).moments().scatter, white.T @ white, rtol=1e-8, atol=1e-8)
    pipeline = make_pipeline(RowDecorrelator(SCHOOL, free=FEW, random_state=0), GES(penalty=2))
    parts = pipeline.fit(rows)[-1].graph_
    assert metrics.shd(true=GES(penalty=2).fit(pupils(rows)).graph_, estimate=parts) <= 2


@pytest.mark.slow  # the tests of the documentation run the example as well, and compare what it prints
def test_the_documentation_shows_the_pictures_of_the_example(
    reference_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[1]
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(root / "examples" / "pupils_and_counties.py"), run_name="__main__")
    for name in ("pupils", "counties"):
        kept = (root / "docs" / "results" / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
        assert same_output(kept, (tmp_path / f"{name}.svg").read_text(encoding="utf-8"))


def test_pupils_in_schools(reference_data: Path) -> None:
    pupils = pd.read_csv(reference_data / "clustered" / "bdf_pupils_in_schools.csv.gz")
    columns = ["schoolNR", "IQ.verb", "IQ.perf", "ses", "langPRET", "langPOST", "aritPRET", "aritPOST"]
    model = RowDecorrelator("schoolNR", structure="common").fit(pupils[columns])
    assert model.test_.dependent
    assert 0.1 < model.test_.correlation < 0.4
    assert 500 < model.effective_n_ < 2287


@pytest.fixture
def files(rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    data = rows.iloc[:, :20].assign(school=[f"s{s}" for s in SCHOOL], pupil=[f"p{i}" for i in range(N)])
    data = data.assign(
        age=rng.standard_normal(N), lon=np.repeat(rng.random(N // SIZE), SIZE), lat=rng.random(N)
    )
    data.to_csv("pupils.csv", index=False)
    pairs = [(i, j) for i in range(N) for j in range(i + 1, N) if SCHOOL[i] == SCHOOL[j]]
    pd.DataFrame([(f"p{i}", f"p{j}") for i, j in pairs], columns=["u", "v"]).to_csv("named.csv", index=False)
    pd.DataFrame([(i + 1, j + 1) for i, j in pairs], columns=["u", "v"]).to_csv("numbered.csv", index=False)
    data[["pupil", "school"]].to_csv("labels.csv", index=False)
    Path("strange.csv").write_text("u,v\np1,p1000\n")
    Path("narrow.csv").write_text("u\np1\n")
    Path("halved.csv").write_text("u,v\np1,p2\np3,\n")
    Path("none.csv").write_text("u,v\n")
    Path("odd.csv").write_text("u,v\np1,p2\np2,p1\np3,p3\n")
    return tmp_path


VARIABLES = [f"x{i}" for i in range(20)]


def config(**options: object) -> TableConfig:
    given = {"columns": tuple(VARIABLES), "seed": 1, "settings": {"n_orders": 1}, **options}
    return TableConfig(data=("pupils.csv",), **given)  # type: ignore[arg-type]


def test_names_numbers_and_groups_are_the_same_study(files: Path) -> None:
    ways = (
        {"groups": "school"},
        {"links": "named.csv", "row_ids": "pupil"},
        {"links": "numbered.csv"},
        {"groups": "labels.csv"},
    )
    results = [runs.perform(config(**way), f"run{k}") for k, way in enumerate(ways)]
    assert results[0].graph.names == tuple(VARIABLES)
    for other in results[1:]:
        assert other.graph.edges() == results[0].graph.edges()
    assert "named.csv" in results[1].sha256
    assert any("within school" in note for note in results[0].notes)
    assert results[0].measures["effective_n"] < N
    again = runs.read_config("run1").config
    assert isinstance(again, TableConfig)
    assert runs.perform(again, "again").graph.edges() == results[1].graph.edges()


def test_the_command_line(files: Path) -> None:
    line = ["fit", "pupils.csv", "--columns", ",".join(VARIABLES), "--seed", "1", "-q"]
    order = ["--order", ",".join(VARIABLES), "--method", "bcd"]
    done = CliRunner().invoke(app, [*line, "--groups", "school", "--covariates", "age", *order])
    assert done.exit_code == 0, done.output
    assert "Rows are correlated within school" in done.output
    done = CliRunner().invoke(app, [*line, "--coords", "lon,lat:3", "--set", "n_orders=1"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--links", "named.csv"], 3, "--row-ids"),
        (["--links", "named.csv", "--row-ids", "nobody"], 3, "nobody"),
        (
            ["--groups", "school", "--links", "named.csv"],
            2,
            "one of --groups, --links, --coords and --covariance",
        ),
        (["--groups", "school", "--order", "x0,x1"], 3, "order lacks x2"),
        (["--groups", "school", "--order", "x0,x1", "--method", "ges"], 2, "--order is for the method bcd"),
        (["--groups", "school", "--method", "bcd"], 2, "needs a known order"),
        (
            ["--groups", "school", "--method", "ges", "--set", "colour=1"],
            2,
            "of rows: labels, structure, correlation, share; of free: lambda2, n_orders",
        ),
        (["--links", "strange.csv", "--row-ids", "pupil"], 3, "do not exist: 'p1000'"),
        (["--links", "narrow.csv", "--row-ids", "pupil"], 3, "has one column"),
        (["--links", "halved.csv", "--row-ids", "pupil"], 3, "halved.csv, line 3: a link needs two rows"),
        (["--groups", "nowhere"], 3, "no column nowhere"),
        (["--groups", "none.csv"], 3, "none.csv has 0 lines, the data 200 rows"),
        (["--coords", "lon,lat:0"], 2, "from 1 to 199"),
        (["--groups", "school", "--covariates", "pupil"], 3, "pupil is not numeric"),
        (["--covariates", "age"], 2, "--covariates is for linked rows"),
        (["--groups", "school", "--set", "colour=1"], 2, "no setting colour"),
        (["--coords", "lon,lat"], 2, "lon,lat:5"),
        (["--links", "numbered.csv", "--missing", "drop"], 2, "row numbers would shift"),
    ],
)
def test_a_command_line_that_cannot_be_meant(files: Path, options: list[str], code: int, said: str) -> None:
    line = ["fit", "pupils.csv", "--columns", ",".join(VARIABLES), "-q"]
    done = CliRunner().invoke(app, [*line, *options])
    assert done.exit_code == code
    assert said in done.output


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.csv", ["The network has no links: rows are taken as independent"]),
        ("odd.csv", ["1 link is given more than once", "1 link is from a row to itself (first: 'p3')"]),
    ],
)
def test_odd_files_of_links_are_told_and_used(files: Path, name: str, said: list[str]) -> None:
    result = runs.perform(config(links=name, row_ids="pupil"), "run")
    for sentence in said:
        assert any(sentence in note for note in result.notes)


def test_rows_left_out_take_their_links_along(files: Path) -> None:
    data = pd.read_csv("pupils.csv")
    data.loc[3, "x0"] = None
    data.to_csv("pupils.csv", index=False)
    result = runs.perform(config(links="named.csv", row_ids="pupil", missing="drop"), "run")
    assert result.n == N - 1


def test_an_order_makes_bcd_the_method(files: Path) -> None:
    assert plan_of(config(groups="school", order=tuple(VARIABLES))).method.name == "bcd"
    assert plan_of(config(groups="school")).method.name == "boss"


def test_a_study_of_linked_rows_repeats_bit_for_bit(files: Path) -> None:
    line = ["fit", "pupils.csv", "--columns", ",".join(VARIABLES), "--groups", "school", "--seed", "1", "-q"]
    done = CliRunner().invoke(app, [*line, "--set", "n_orders=1", "--out", "run"])
    assert done.exit_code == 0, done.output
    assert "[study.settings.rows]" in Path("run/config.toml").read_text()
    for folder, shape in (("again", []), ("same", ["--as", "table"])):
        done = CliRunner().invoke(app, ["fit", "--config", "run/config.toml", "-q", "--out", folder, *shape])
        assert done.exit_code == 0, done.output
        for name in ("edges.csv", "config.toml", "row_correlations.csv"):
            assert Path(folder, name).read_bytes() == Path("run", name).read_bytes()
    done = CliRunner().invoke(app, ["fit", "--config", "run/config.toml", "-q", "--as", "parties"])
    assert done.exit_code == 2
    assert "--as parties does not fit" in " ".join(done.output.split())
    Path("round.toml").write_text(Path("run/config.toml").read_text().replace('"table"', '"round"'))
    done = CliRunner().invoke(app, ["fit", "--config", "round.toml", "-q"])
    assert done.exit_code == 2
    assert "round.toml: No shape of data is called 'round'" in " ".join(done.output.split())


COMMON = {"structure": "common"}


def test_a_study_is_the_learner_over_linked_rows(files: Path) -> None:
    data = pd.read_csv("pupils.csv")[[*VARIABLES, "school"]]
    rows = LinkedRows(data, groups="school", structure="common", random_state=1)
    for name, learner in (("boss", BOSS()), ("pc", PC())):
        result = studies.run(config(groups="school", method=name, settings=COMMON))
        assert result.graph == learner.fit(rows).graph_
        assert result.measures["effective_n"] == pytest.approx(rows.effective_n)
    posterior = studies.run(
        config(groups="school", method="posterior", columns=tuple(VARIABLES[:5]), settings=COMMON)
    )
    few = LinkedRows(data[[*VARIABLES[:5], "school"]], groups="school", structure="common", random_state=1)
    expected = BayesianDiscovery(criterion="bge").fit(few).posterior_.probabilities
    np.testing.assert_allclose(posterior.probabilities, expected, rtol=1e-9)
    in_turns = studies.run(config(groups="school", settings={"structure": "common", "max_rounds": 3}))
    expected_turns = LinkedRowsDAG(learner=BOSS(), max_rounds=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert in_turns.graph == expected_turns.fit(rows).graph_


def test_a_bootstrap_draws_whole_groups(files: Path) -> None:
    result = studies.run(config(groups="school", bootstrap=4, columns=tuple(VARIABLES[:6]), settings=COMMON))
    data = pd.read_csv("pupils.csv")[[*VARIABLES[:6], "school"]]
    rows = LinkedRows(data, groups="school", structure="common", random_state=1)
    expected = Bootstrap(BOSS(), n_resamples=4, random_state=1).fit(rows)
    np.testing.assert_array_equal(result.probabilities, expected.frequencies_.to_numpy())
    assert result.confidence is not None
    pd.testing.assert_frame_equal(result.confidence.pairs(), expected.pairs_)


def test_tables_put_together_are_linked_as_one(files: Path) -> None:
    data = pd.read_csv("pupils.csv")
    data.iloc[: N // 2].to_csv("first.csv", index=False)
    data.iloc[N // 2 :].to_csv("second.csv", index=False)
    for way in ({"groups": "school"}, {"links": "numbered.csv"}, {"groups": "labels.csv"}):
        whole = studies.run(config(**way, settings=COMMON))
        parts = studies.run(
            dataclasses.replace(config(**way, settings=COMMON), data=("first.csv", "second.csv"))
        )
        assert parts.graph == whole.graph


def test_tasks_with_linked_rows(files: Path) -> None:
    data = pd.read_csv("pupils.csv")[[*VARIABLES[:5], "school", "pupil"]].assign(year=["a", "b"] * (N // 2))
    data.to_csv("years.csv", index=False)
    schools = data.assign(within=data["school"] + data["year"])
    pairs = [
        (a, b) for _, group in schools.groupby("within")["pupil"] for a, b in itertools.combinations(group, 2)
    ]
    pd.DataFrame(pairs, columns=["u", "v"]).to_csv("pairs.csv", index=False)
    schools[["within"]].to_csv("within.csv", index=False)
    parts = {year: part.drop(columns=["year", "pupil"]) for year, part in data.groupby("year")}
    rows = {
        year: LinkedRows(part.reset_index(drop=True), groups="school", structure="common", random_state=1)
        for year, part in parts.items()
    }
    expected = MultitaskDiscovery(criterion="bge").fit(Tasks(rows))
    given: dict[str, Any] = {"seed": 1, "settings": COMMON, "columns": tuple(VARIABLES[:5])}
    one_file = functools.partial(TasksConfig, data=("years.csv",), task_column="year", **given)
    for way in ({"groups": "school"}, {"links": "pairs.csv", "row_ids": "pupil"}, {"groups": "within.csv"}):
        result = studies.run(one_file(**way))
        np.testing.assert_allclose(result.probabilities, expected.raw_weights_, rtol=1e-9)
        assert list(result.tables["row_dependence"]["name"]) == ["a", "b"]
        assert any(note.startswith("b: Rows are correlated") for note in result.notes)
    for year, part in data.groupby("year"):
        part.drop(columns="year").to_csv(f"{year}.csv", index=False)
    files_each = functools.partial(TasksConfig, data=("a.csv", "b.csv"), **given)
    for way in ({"groups": "school"}, {"links": "pairs.csv", "row_ids": "pupil"}):
        result = studies.run(files_each(**way))
        np.testing.assert_allclose(result.probabilities, expected.raw_weights_, rtol=1e-9)
    with pytest.raises(UsageError, match="a file with a label for each row of one table"):
        studies.load(files_each(groups="within.csv"))
    with pytest.raises(DataError, match="are in different tasks; links must stay within one"):
        studies.load(files_each(links="named.csv", row_ids="pupil"))
    with pytest.raises(DataError, match=r"do not exist: 'p1000'"):
        studies.load(files_each(links="strange.csv", row_ids="pupil"))


def test_groups_are_not_imputed(files: Path) -> None:
    data = pd.read_csv("pupils.csv")
    data.loc[3, "x0"] = None
    data.to_csv("pupils.csv", index=False)
    assert studies.load(config(groups="school", missing="impute")).n == N
    data.loc[5, "school"] = None
    data.to_csv("pupils.csv", index=False)
    with pytest.raises(DataError, match=r"column school: 1 of 200 rows have no value, and .* not imputed"):
        studies.load(config(groups="school", missing="impute"))
    assert studies.load(config(groups="school", missing="drop")).n == N - 2


@pytest.fixture
def small_paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    whole = paper.simulated
    monkeypatch.setattr(paper, "simulated", lambda *given: whole(*given, [(40, 20)], ["equi"], 4))


def reproduce(*options: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", "linked", *options, "-q"])


def test_a_small_reproduction(small_paper: None) -> None:
    done = reproduce("--table", "1", "--figure", "3", "--seeds", "2")
    assert done.exit_code == 0, done.output
    first = pd.read_csv("runs/reproduce-linked/table1.csv").set_index("algorithm")
    assert (first["TP"] + first["FP"] == first["P"]).all()
    assert first.loc["BCD", "SHD"] <= first.loc["bench", "SHD"]
    assert set(pd.read_csv("runs/reproduce-linked/table2.csv")["algorithm"]) == {"GES", "GES-L", "PC", "PC-L"}
    curves = pd.read_csv("runs/reproduce-linked/figure2.csv")
    assert curves.groupby("algorithm")["tpr"].apply(lambda y: y.is_monotonic_increasing).all()
    for number in (2, 3):
        assert Path(f"runs/reproduce-linked/figure{number}.svg").read_text().startswith("<svg")


def test_an_interrupted_reproduction_goes_on(small_paper: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, drawn = paper.ordered, []

    def interrupted(sample: Any, *rest: Any) -> dict[str, np.ndarray]:
        drawn.append(sample)
        if len(drawn) == 2:
            raise KeyboardInterrupt
        return whole(sample, *rest)

    monkeypatch.setattr(paper, "ordered", interrupted)
    stopped = reproduce("--table", "1", "--seeds", "3")
    assert stopped.exit_code == 130
    assert "--out runs/reproduce-linked --resume" in " ".join(stopped.output.split())
    assert reproduce("--table", "1", "--seeds", "3").exit_code == 2  # says that there is something to resume
    assert reproduce("--table", "1", "--seeds", "3", "--resume").exit_code == 0
    assert len(drawn) == 4  # the first is not computed again
    assert not Path("runs/reproduce-linked.partial").exists()


def test_the_paper_stands_beside(small_paper: None) -> None:
    given = published()
    assert len(given) == 84
    table = paper.run([1], 1, "published")["table1"]
    assert table["paper_SHD"].isna().all()  # these sizes are not in the paper
    row = given[(given["table"] == 2) & (given["rows"] == "(300, 100)") & (given["kind"] == "toeplitz")]
    assert row.set_index("algorithm")["SHD"].to_dict() == {
        "GES": 336.6,
        "GES-L": 100.2,
        "PC": 264.2,
        "PC-L": 151.2,
    }


def test_what_the_paper_leaves_open_is_an_option(small_paper: None) -> None:
    done = reproduce("--table", "1", "--seeds", "1", "--set", "links=support", "--set", "threshold=0.3")
    assert done.exit_code == 0, done.output
    cut = pd.read_csv("runs/reproduce-linked/table1.csv")
    assert cut["P"].nunique() == 1
    assert 0 < cut["P"][0] < 60


def test_edges_are_ranked_by_their_t_statistics_or_by_their_weights() -> None:
    setting = paper.simulated(1, chosen("ours", {}), [(60, 30)], ["equi"], 6)[0]._replace(predicted=15)
    by_t, by_weight = (
        [paper.ordered(setting.draw(seed), setting, chosen("ours", {"ranking": how})) for seed in range(4)]
        for how in ("t", "weights")
    )
    for name in ("BCD", "bench"):
        false = [[found[name][2] for found in each] for each in (by_t, by_weight)]
        assert np.sum(false[0]) < np.sum(false[1])
        assert all(found[name][0] == 15 for found in by_t)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--figure", "1"], "Figure 1 holds no results"),
        (["--table", "5"], "tables 1 to 4"),
        (["--preset", "theirs"], "preset must be one of ours, published"),
        (["--set", "colour=1"], "no setting colour"),
        (["--set", "links=all"], "links must be one of clusters, support"),
    ],
)
def test_a_reproduction_that_cannot_be_meant(small_paper: None, options: list[str], said: str) -> None:
    done = reproduce(*options)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_real_networks_are_drawn_as_the_paper_says(reference_data: Path) -> None:
    cells = {cell.labels: cell for cell in real(3, reference_data)}
    assert cells["facebook", "andes"].predicted == 200
    sample = cells["celegans_n306", "barley"].draw(0)
    assert sample.rows.shape == (100, 192)
    assert sample.truth.n_edges == 336
    weights = np.abs(sample.truth.weights[sample.truth.adjacency])
    assert 0.1 <= weights.min() <= weights.max() <= 1.0
    assert np.array_equal(sample.links, sample.links.T)


@pytest.mark.slow
def test_expected_figures_with_a_known_order() -> None:
    (cell,) = simulated(1, PRESETS["ours"], [(300, 100)], ["toeplitz"])
    found = [paper.ordered(cell.draw(seed), cell, PRESETS["ours"]) for seed in range(10)]
    predicted, right, wrong = np.mean([each["BCD"][:3] for each in found], axis=0)
    assert predicted == 146
    assert right >= 144
    assert wrong <= 2
    assert np.mean([each["bench"][2] for each in found]) > 5


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["ours", "published"])
def test_expected_figures_with_an_unknown_order(preset: str) -> None:
    (cell,) = simulated(2, PRESETS[preset], [(300, 100)], ["toeplitz"])
    found = [paper.unordered(cell.draw(seed), cell, PRESETS[preset]) for seed in range(4)]
    shd = {name: np.mean([each[name][-1] for each in found]) for name in found[0]}
    assert shd["GES"] > 300
    assert shd["GES-L"] <= 105
    assert shd["PC"] > 200
    assert shd["PC-L"] <= 151
