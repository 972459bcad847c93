"""Structures of the row correlation: their likelihood, their parameters, and the choice among them."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, null_space
from scipy.optimize import minimize
from scipy.sparse import csr_array
from typer.testing import CliRunner

from polydag import BOSS, Graph, LinkedRows, LinkedRowsDAG, RowDecorrelator, metrics, simulate
from polydag.cli.main import app
from polydag.data import read_relationships
from polydag.errors import DataError, DataWarning, UsageError
from polydag.rows import Links, row_dependence
from polydag.rows.decorrelation import decorrelate
from polydag.rows.descent.block_descent import Problem
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Blocks, Whitening, as_precision
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import Layout
from polydag.rows.structures import choice
from polydag.rows.structures.choice import Candidate, best
from polydag.rows.structures.decay import Decay
from polydag.rows.structures.exchangeable import Exchangeable, Smooth
from polydag.rows.structures.interface import Fitted
from polydag.rows.structures.known import Known
from polydag.rows.structures.shared_block import SharedBlock, by_distance
from polydag.studies.findings.linked_rows import measures, sentences

pytestmark = pytest.mark.portable

RING = Links.from_edges([(i, (i + 1) % 9) for i in range(9)] + [(9, 10)], 12)
GROUPS = Links.from_groups([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4, 4])


def whitenings() -> dict[str, Whitening]:
    ring, groups = Layout.of(RING), Layout.of(GROUPS)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 15))
    times = rng.random((12, 1)) * 5
    places = np.arange(12) - groups.starts[np.repeat(np.arange(5), groups.sizes)]
    R = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.4], [0.1, 0.4, 1.0]])
    dense = Layout.of(Links.from_covariance(A @ A.T))
    return {
        "common": Exchangeable(ring).at(0.6),
        "negative": Exchangeable(ring).at(-0.2),
        "groups": Exchangeable(groups).at(-0.3),
        "smooth": Smooth(Exchangeable(ring)).at(np.array([0.3, 0.2, 1.7])),
        "known": Known(dense, dense.sorted_blocks(A @ A.T / 15)).at(0.7),
        "block": SharedBlock(groups, places).at(R),
        "decay": Decay(groups, times).fit(columns_of(12, 2, 1), np.ones(2, dtype=bool)).whitening,
    }


def columns_of(n: int, p: int, seed: int) -> Columns:
    return Columns(np.random.default_rng(seed).standard_normal((n, p)), np.ones((n, 1)))


def dense_of(found: Whitening, layout: Layout) -> np.ndarray:
    """Σ with rows sorted as in the layout."""
    return as_precision(found, layout).correlation().toarray()[np.ix_(layout.order, layout.order)]


@pytest.mark.parametrize("name", list(whitenings()))
def test_whitening_is_a_root_of_the_inverse(name: str) -> None:
    found = whitenings()[name]
    layout = Layout.of(
        {"known": Links.from_covariance(np.ones((12, 12)))}.get(
            name, GROUPS if name in ("groups", "block", "decay") else RING
        )
    )
    Sigma = dense_of(found, layout)
    W = found.whiten(np.eye(12))
    np.testing.assert_allclose(W.T @ W @ Sigma, np.eye(12), atol=1e-7)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(Sigma)[1], abs=1e-6)
    if name != "known":
        np.testing.assert_allclose(Sigma.diagonal(), 1.0, atol=1e-8)


def restricted_by_projection(y: np.ndarray, W: np.ndarray, Sigma: np.ndarray) -> float:
    """The likelihood of what is orthogonal to W, by an explicit basis: another form of the same."""
    K = null_space(W.T)
    V = K.T @ Sigma @ K
    z = K.T @ y
    rss = z @ np.linalg.solve(V, z)
    return float(np.linalg.slogdet(V)[1] + np.linalg.slogdet(W.T @ W)[1] + len(z) * np.log(rss))


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=20, deadline=None)
def test_deviances_are_restricted_likelihoods(seed: int, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    layout = Layout.of(GROUPS)
    found = Exchangeable(layout).at(rng.uniform(-0.3, 0.9))
    Sigma = dense_of(found, layout)
    X, Z = (
        rng.standard_normal((12, 4)),
        np.concatenate([np.ones((12, 1)), rng.standard_normal((12, 1))], axis=1),
    )
    parents = (
        np.tri(4, k=-1, dtype=bool) & (rng.random((4, 4)) < 0.5) if sparse else np.tri(4, k=-1, dtype=bool)
    )
    values = Columns(X, Z, parents if sparse else None).deviances(found)
    for j in range(4):
        W = np.concatenate([Z, X[:, parents[j]]], axis=1)
        assert values[j] == pytest.approx(restricted_by_projection(X[:, j], W, Sigma), rel=1e-9)


def analysis_of_variance(y: np.ndarray, size: int) -> float:
    table = y.reshape(-1, size)
    between = size * table.mean(axis=1).var(ddof=1)
    within = table.var(axis=1, ddof=1).mean()
    return float((between - within) / (between + (size - 1) * within))


@given(st.integers(0, 10**6), st.integers(2, 6), st.floats(0.05, 0.85))
@settings(max_examples=15, deadline=None)
def test_column_correlations_are_intraclass_correlations(seed: int, size: int, true: float) -> None:
    rng = np.random.default_rng(seed)
    groups = np.arange(30 * size) // size
    X = np.sqrt(true) * rng.standard_normal((30, 4))[groups] + np.sqrt(1 - true) * rng.standard_normal(
        (30 * size, 4)
    )
    found = decorrelate(LinkedTable.of(X, groups), structure="common").column_correlations
    expected = [analysis_of_variance(column, size) for column in X.T]
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_covariates_of_groups_do_not_bias_the_correlation() -> None:
    rng = np.random.default_rng(0)
    groups = np.arange(300) // 10
    found = []
    for _ in range(10):
        X = np.sqrt(0.5) * (rng.standard_normal((30, 6))[groups] + rng.standard_normal((300, 6)))
        Z = rng.standard_normal((30, 10))[groups]
        fit = decorrelate(LinkedTable.of(X, groups, Z), structure="common")
        found.append(fit.parameters["correlation"])
    assert np.mean(found) == pytest.approx(0.5, abs=0.04)


def test_a_shared_block_has_the_highest_likelihood() -> None:
    rng = np.random.default_rng(1)
    labels = np.concatenate(
        [np.repeat(np.arange(20), 3), np.repeat(np.arange(20, 30), 2)]
    )  # some lack the third
    R = np.array([[1.0, 0.7, 0.2], [0.7, 1.0, 0.5], [0.2, 0.5, 1.0]])
    X = np.concatenate(
        [np.linalg.cholesky(R[:m, :m]) @ rng.standard_normal((m, 4)) for m in [3] * 20 + [2] * 10]
    )
    layout = Layout.of(Links.from_groups(labels))
    places = np.arange(80) - layout.starts[np.repeat(np.arange(30), layout.sizes)]
    columns = Columns(X[layout.order], np.ones((80, 1)))
    structure = SharedBlock(layout, places)
    every = np.ones(4, dtype=bool)

    def at(theta: np.ndarray) -> Blocks:
        a, b, c = np.tanh(theta)
        return structure.at(np.array([[1, a, b], [a, 1, c], [b, c, 1]]))

    def deviance(theta: np.ndarray) -> float:
        return float(min(columns.deviances(at(theta)).sum(), 1e6))

    best = minimize(deviance, np.array([0.5, 0.2, 0.5]), method="Nelder-Mead", options={"maxiter": 2000})
    found = structure.fit(columns, every)
    assert columns.deviances(found.whitening).sum() < best.fun + 1.0
    np.testing.assert_allclose(found.whitening.blocks()[-1][0], at(best.x).sigmas[-1][0], atol=0.05)


def test_a_shared_block_is_evened_out_where_that_explains_held_out_columns() -> None:
    block = simulate.clusters("ar", 12, 12, base=0.6)[0]
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(8), np.linalg.cholesky(block)) @ rng.standard_normal((96, 15))
    rows = LinkedRows(X, groups=np.arange(96) // 12, random_state=0)
    found = rows.decorrelation_
    assert found.structure == "block"
    assert found.parameters["even"] > 0.5
    own = found.precision.correlations[0]
    likeliest = LinkedRows(X, groups=np.arange(96) // 12, structure="block").decorrelation_
    assert np.abs(own - block).mean() < 0.6 * np.abs(likeliest.precision.correlations[0] - block).mean()
    np.testing.assert_allclose(by_distance(own)[0], [np.diagonal(own, k).mean() for k in range(12)])


@pytest.mark.parametrize(
    ("kind", "base", "size", "expected"),
    [
        ("equi", 0.5, 5, {"common"}),
        ("toeplitz", 0.3, 10, {"decay"}),
        ("toeplitz", 0.7, 20, {"decay"}),
        ("ar", 0.7, 20, {"block"}),
    ],
)
def test_the_structure_is_found(kind: str, base: float, size: int, expected: set[str]) -> None:
    dag = simulate.dag(20, n_edges=30, random_state=0)
    blocks = simulate.clusters(kind, 200, size, base=base)
    X = simulate.linked(dag, row_covariance=blocks, random_state=1)
    model = RowDecorrelator(np.arange(200) // size, random_state=0).fit(X)
    assert model.structure_ in expected
    assert set(model.structures_["structure"]) >= {"independent", "common", "decay"}
    assert model.structures_.set_index("structure")["held_out_deviance"].idxmin() in (
        model.structure_,
        "decay",
        "block",
    )
    assert not model.test_after_.dependent
    Sigma = block_diag(*blocks)
    assert model.effective_n_ == pytest.approx(200**2 / np.sum(Sigma**2), rel=0.25)
    off = ~np.eye(200, dtype=bool) & (block_diag(*(np.ones((size, size)),) * (200 // size)) > 0)
    error = np.abs(model.row_correlation_.toarray() - Sigma)[off].mean()
    assert error < 0.12


def test_unlike_pairs_have_a_negative_correlation() -> None:
    dag = simulate.dag(15, n_edges=20, random_state=0)
    pairs = [np.array([[1.0, -0.6], [-0.6, 1.0]])] * 100
    X = simulate.linked(dag, row_covariance=pairs, random_state=1)
    rows = LinkedRows(X, groups=np.arange(200) // 2)
    assert rows.decorrelation_.correlation == pytest.approx(-0.6, abs=0.07)
    assert rows.effective_n == pytest.approx(147, rel=0.08)
    assert rows.decorrelation_.decorrelated_n == 199
    assert "worth about" in rows.decorrelation_.summary


@pytest.mark.parametrize("irregular", [False, True])
def test_panels_decay_with_time(irregular: bool) -> None:
    rng = np.random.default_rng(3)
    patient = np.repeat(np.arange(60), 5)
    times = np.concatenate([np.sort(rng.random(5) * 10) if irregular else np.arange(5.0) for _ in range(60)])
    apart = np.abs(np.subtract.outer(times, times))
    same = np.equal.outer(patient, patient)
    Sigma = np.where(same, 0.3 + 0.7 * np.exp(-apart / 2.0), 0.0)
    dag = simulate.dag(8, n_edges=8, random_state=0)
    X = simulate.linked(dag, row_covariance=Sigma, random_state=1)
    shuffled = rng.permutation(300)
    data = X.assign(patient=patient, visit=times).iloc[shuffled]
    fit = LinkedRows(data, groups="patient", time="visit", structure="decay").decorrelation_
    if irregular:  # five equal steps hardly tell a shared part from a slow decay
        assert fit.parameters["length"] == pytest.approx(2.0, rel=0.35)
        assert fit.parameters["shared"] == pytest.approx(0.3, abs=0.15)
    found = fit.precision.correlation().toarray()
    np.testing.assert_allclose(found, Sigma[np.ix_(shuffled, shuffled)], atol=0.15)
    dates = np.datetime64("2024-01-01") + (times * 86_400_000).astype("timedelta64[ms]")
    again = LinkedRows(data.assign(visit=dates[shuffled]), groups="patient", time="visit", structure="decay")
    assert again.decorrelation_.parameters["length"] == pytest.approx(fit.parameters["length"], rel=1e-3)


def family_kinship(families: int) -> np.ndarray:
    """Two parents, two children: 1 with oneself, a half with parents, children and siblings."""
    K = np.array([[1, 0, 0.5, 0.5], [0, 1, 0.5, 0.5], [0.5, 0.5, 1, 0.5], [0.5, 0.5, 0.5, 1]])
    return block_diag(*([K] * families))


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_heritability_is_found(form: Any) -> None:
    K = family_kinship(100)
    dag = simulate.dag(10, n_edges=12, random_state=0)
    X = simulate.linked(dag, row_covariance=0.6 * K + 0.4 * np.eye(400), random_state=1)
    rows = LinkedRows(X, covariance=form(K))
    assert rows.decorrelation_.structure == "known"
    assert rows.decorrelation_.parameters["h2"] == pytest.approx(0.6, abs=0.08)
    given_share = LinkedRows(X, covariance=form(K), share=0.6)
    L = np.linalg.inv(np.linalg.cholesky(0.6 * K + 0.4 * np.eye(400)))
    expected = L @ X.to_numpy()
    ones = L @ np.ones(400)
    expected -= np.outer(ones, ones @ expected / (ones @ ones))
    np.testing.assert_allclose(given_share.moments().scatter, expected.T @ expected, rtol=1e-8)
    model = LinkedRowsDAG(learner=BOSS()).fit(rows)
    assert metrics.shd(true=dag.to_cpdag(), estimate=model.graph_) <= 4


@pytest.mark.parametrize("units", [1e-6, 1e-3, 1e3, 1e9])
def test_the_estimate_does_not_depend_on_the_units_of_a_covariance(units: float) -> None:
    K = family_kinship(40)
    X = np.linalg.cholesky(0.9 * K + 0.1 * np.eye(160)) @ np.random.default_rng(0).standard_normal((160, 6))
    one, other = (LinkedRows(X, covariance=scale * K).decorrelation_ for scale in (1.0, units))
    share = one.parameters["h2"]
    assert 0.6 < share < 0.99
    assert other.parameters["h2"] == pytest.approx(share / (share + (1 - share) * units), rel=1e-3)
    unit = [each.moments().correlation for each in (one, other)]
    np.testing.assert_allclose(unit[1], unit[0], atol=1e-5)


@pytest.mark.parametrize(
    ("covariance", "share", "why"),
    [
        ("few factors", 1.0, "singular with share=1: some rows follow from others"),
        ("as few factors", 1 - 1e-13, "singular with share=1"),
        ("signs at random", None, r"negative eigenvalues \(down to -"),
        ("signs at random", 0.5, r"negative eigenvalues \(down to -"),
        ("tiny", None, "variances of about 1.1e-20.*other units"),
    ],
)
def test_covariances_that_rows_cannot_have_are_refused(
    covariance: str, share: float | None, why: str
) -> None:
    rng = np.random.default_rng(0)
    factors, noise = rng.standard_normal((30, 3)), rng.standard_normal((30, 30))
    np.fill_diagonal(noise, 0.5)
    K = {"signs at random": noise + noise.T, "tiny": 1e-20 * np.eye(30) + 1e-21}.get(
        covariance, factors @ factors.T
    )
    X = rng.standard_normal((30, 4))
    with pytest.raises(DataError, match=why):
        LinkedRows(X, covariance=K, share=share).moments()
    with pytest.raises(DataError, match=why):
        LinkedRowsDAG().fit(LinkedRows(X, covariance=K, share=share))


def test_a_small_covariance_may_be_all_there_is() -> None:
    """With share=1 it is Σ itself, to the last digit: 1 is not added and taken away."""
    K = 1e-12 * family_kinship(10)
    layout = Layout.of(Links.from_covariance(K))
    found = Known(layout, layout.sorted_blocks(K), 1.0).fit(columns_of(40, 2, 0), np.ones(2, dtype=bool))
    np.testing.assert_allclose(dense_of(found.whitening, layout), K, rtol=1e-9, atol=1e-24)


def test_a_dense_relationship_matrix_from_markers() -> None:
    rng = np.random.default_rng(2)
    markers = rng.standard_normal((150, 400))
    K = markers @ markers.T / 400
    X = np.linalg.cholesky(0.7 * K + 0.3 * np.eye(150)) @ rng.standard_normal((150, 20))
    rows = LinkedRows(X, covariance=K)
    assert rows.decorrelation_.parameters["h2"] == pytest.approx(0.7, abs=0.25)
    assert rows.decorrelation_.before.dependent


def written(folder: Path, K: np.ndarray, form: str) -> Path:
    """A relationship matrix as GCTA, PLINK (triangle, square) or a table of pairs writes it."""
    people = [f"p{i}" for i in range(len(K))]
    lower = [(i, j) for i in range(len(K)) for j in range(i + 1)]
    ids = "".join(f"family{i // 4} {name}\n" for i, name in enumerate(people))
    if form == "grm.gz":
        (folder / "study.grm.id").write_text(ids)
        with gzip.open(folder / "study.grm.gz", "wt") as file:
            file.writelines(f"{i + 1}\t{j + 1}\t1000\t{K[i, j]}\n" for i, j in lower)
    elif form == "csv":
        lines = [f"{people[i]},{people[j]},{K[i, j]}" for i, j in lower if K[i, j]]
        (folder / "study.csv").write_text("a,b,value\n" + "\n".join(lines) + "\n")
    else:
        (folder / "study.rel.id").write_text("#FID IID\n" + ids)
        rows = [K[i] if form == "square" else K[i, : i + 1] for i in range(len(K))]
        (folder / "study.rel").write_text("\n".join("\t".join(map(str, row)) for row in rows) + "\n")
    return folder / f"study.{form if form in ('grm.gz', 'csv') else 'rel'}"


@pytest.mark.parametrize("form", ["grm.gz", "csv", "triangle", "square"])
def test_relationship_files(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 20)).round(2)
    K = (A @ A.T / 20).round(6)
    found = read_relationships(written(tmp_path, K, form))
    order = [f"p{i}" for i in (4, 0, 5, 1)]
    own = found.of(order, "study")
    own = own.toarray() if hasattr(own, "toarray") else own
    np.testing.assert_allclose(own, K[np.ix_([4, 0, 5, 1], [4, 0, 5, 1])])
    with pytest.raises(DataError, match="no relationships of nobody"):
        found.of(["nobody"], "study")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.grm.id": "1 x\n1 y\n", "a.grm": "1 1 9 1\n2 1 9 0.5\n"}, "lacks the relationship of y and y"),
        ({"a.grm.id": "1 x\n", "a.grm": "1 2 9 1\n"}, "line 1: expected two individuals from 1 to 1"),
        ({"a.grm.id": "1 x\n", "a.grm": "one 1 9 1\n"}, "line 1: 'one 1 9 1' are not numbers"),
        ({"a.grm": "1 1 9 1\n"}, "a.grm.id: no such file"),
        ({"a.rel.id": "1 x\n1 y\n", "a.rel": "1\n"}, "neither a square matrix of 2"),
        ({"a.rel.id": "1 x\n2 x\n", "a.rel": "1\n"}, "x occurs twice"),
        ({"a.csv": "a,b\nx,y\n"}, "expected three columns"),
        ({"a.csv": "a,b,r\nx,y,much\n"}, "must be numbers"),
        ({"a.csv": "a,b,r\nx,y,0.5\ny,x,0.4\n"}, "two different relationships"),
    ],
)
def test_relationship_files_that_are_wrong(files: dict[str, str], said: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=said):
        read_relationships(tmp_path / list(files)[-1])


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    K = family_kinship(20)
    written(tmp_path, K, "grm.gz")
    rng = np.random.default_rng(0)
    X = np.linalg.cholesky(0.7 * K + 0.3 * np.eye(80)) @ rng.standard_normal((80, 5))
    table = pd.DataFrame(X, columns=list("abcde")).assign(
        person=[f"p{i}" for i in range(80)],
        patient=np.arange(80) // 4,
        visit=np.tile([0.0, 1.0, 3.0, 7.0], 20),
    )
    table.to_csv("people.csv", index=False)
    pairs = [
        (f"p{4 * f}", f"p{4 * f + k}", "near" if k == 1 else "far") for f in range(20) for k in (1, 2, 3)
    ]
    pd.DataFrame(pairs, columns=["u", "v", "kind"]).to_csv("pairs.csv", index=False)

    def fit(*options: str) -> Any:
        line = [
            "fit",
            "people.csv",
            "--columns",
            "a,b,c,d,e",
            "--method",
            "ges",
            "--seed",
            "1",
            "-q",
            *options,
        ]
        return CliRunner().invoke(app, line)

    done = fit("--covariance", "study.grm.gz", "--row-ids", "person")
    assert done.exit_code == 0, done.output
    assert "known (h2" in done.output.replace("\n", " ")
    done = fit("--groups", "patient", "--time", "visit", "--set", "structure=decay")
    assert done.exit_code == 0, done.output
    assert "decay (length" in " ".join(done.output.split())
    done = fit("--links", "pairs.csv", "--row-ids", "person", "--set", "structure=kinds")
    assert done.exit_code == 0, done.output
    assert "kinds (far" in " ".join(done.output.split())
    for options, code, said in (
        (("--covariance", "study.grm.gz"), 2, "needs --row-ids"),
        (("--time", "visit", "--links", "pairs.csv", "--row-ids", "person"), 2, "give --groups as well"),
        (("--covariance", "study.grm.gz", "--row-ids", "patient"), 3, "occurs twice"),
    ):
        failed = fit(*options)
        assert failed.exit_code == code
        assert said in " ".join(failed.output.split())


def test_kinds_of_links_have_their_own_correlation() -> None:
    rng = np.random.default_rng(0)
    kind = {(0, 1): "parents", (2, 3): "siblings"} | {(a, b): "generations" for a in (0, 1) for b in (2, 3)}
    pairs = pd.DataFrame(
        [(4 * f + a, 4 * f + b, name) for f in range(80) for (a, b), name in kind.items()],
        columns=["u", "v", "kind"],
    )
    Sigma = block_diag(
        *[np.array([[1, 0.2, 0.3, 0.3], [0.2, 1, 0.3, 0.3], [0.3, 0.3, 1, 0.6], [0.3, 0.3, 0.6, 1]])] * 80
    )
    X = np.linalg.cholesky(Sigma) @ rng.standard_normal((320, 10))
    rows = LinkedRows(X, links=pairs)
    assert rows.decorrelation_.structure == "kinds"
    for name, true in (("parents", 0.2), ("siblings", 0.6), ("generations", 0.3)):
        assert rows.decorrelation_.parameters[name] == pytest.approx(true, abs=0.08)


def test_a_grid_with_and_without_coordinates() -> None:
    side = 14
    xy = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2).astype(float)
    apart = np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(axis=-1))
    Sigma = np.exp(-apart / 2.0)
    dag = simulate.dag(8, n_edges=8, random_state=0)
    X = simulate.linked(dag, row_covariance=Sigma, random_state=4)
    by_place = LinkedRows(X, coordinates=xy + 1e-3, neighbours=4, random_state=0).decorrelation_
    assert by_place.structure in ("decay", "matern")
    pairs = np.argwhere(np.triu(apart == 1.0))
    by_link = LinkedRows(X, links=pairs.astype(float), random_state=0).decorrelation_
    assert by_link.structure in ("smooth", "common")
    for found in (by_place, by_link):
        assert found.correlation == pytest.approx(np.exp(-0.5), abs=0.12)
        assert not found.after.dependent


def test_large_components_are_divided_only_to_find_the_length() -> None:
    rng = np.random.default_rng(0)
    points = np.sort(rng.random((500, 1)) * 100, axis=0)
    Sigma = np.exp(-np.abs(points - points.T) / 3.0) + 1e-9 * np.eye(500)
    X = np.linalg.cholesky(Sigma) @ rng.standard_normal((500, 5))
    layout = Layout.of(Links.from_edges([(i, i + 1) for i in range(499)], 500))
    fitted = Decay(layout, points, intercept=False).fit(Columns(X, np.ones((500, 1))), np.ones(5, dtype=bool))
    assert fitted.parameters["length"] == pytest.approx(3.0, rel=0.3)
    (block,) = fitted.whitening.blocks()
    assert block.shape == (1, 500, 500)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"links": [(0, 1)], "time": np.arange(8)}, UsageError, "time= orders the rows within groups"),
        ({"covariance": np.eye(8), "structure": "common"}, UsageError, "structure is known"),
        ({"groups": np.arange(8) // 2, "share": 0.5}, UsageError, "give that as well"),
        ({"covariance": np.eye(7)}, DataError, "is 7 x 7; the data has 8 rows"),
        ({"covariance": np.triu(np.ones((8, 8)))}, DataError, "not symmetric"),
        ({"covariance": np.full((8, 8), np.nan)}, DataError, "missing or infinite"),
        ({"covariance": np.zeros((8, 8))}, DataError, "0 on its diagonal in row 1"),
        ({"groups": np.arange(8) // 2, "time": ["soon"] * 8}, DataError, "numbers, or dates"),
        ({"groups": np.arange(8) // 2, "time": [1.0, None] * 4}, DataError, "Row 2 has no time"),
        ({"groups": np.arange(8) // 2, "time": [1.0] * 3}, DataError, "of 3 rows; the data has 8"),
        ({"links": [(0, 1)], "structure": "decay"}, UsageError, "needs distances"),
        ({"links": [(0, 1)], "structure": "block"}, UsageError, "is for groups="),
        ({"links": [(0, 1)], "structure": "kinds"}, UsageError, "a kind each"),
        ({"groups": np.arange(8) // 4, "correlation": -0.9}, UsageError, "correlation"),
    ],
)
def test_what_cannot_be_meant(options: dict[str, Any], error: type[Exception], said: str) -> None:
    X = np.random.default_rng(0).standard_normal((8, 3))
    with pytest.raises(error, match=said):
        LinkedRows(X, **options).moments()


def test_columns_with_two_values_are_named() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    X[:, 1] = X[:, 1] > 0
    with pytest.warns(DataWarning, match="Column x1 has two values"):
        LinkedRows(X, groups=np.arange(60) // 3)


def test_error_variances() -> None:
    dag = Graph(np.array([[0, 1], [0, 0]]), ["a", "b"], np.array([[0.0, 1.0], [0.0, 0.0]]))
    X = simulate.linked(
        dag,
        row_covariance=simulate.clusters("equi", 600, 3, base=0.5),
        noise_scale=np.array([1.0, 2.0]),
        random_state=0,
    )
    rows = LinkedRows(X, groups=np.arange(600) // 3)
    ordered = LinkedRowsDAG(order=dag.topological_order()).fit(rows).error_variances_
    np.testing.assert_allclose(ordered, [1.0, 4.0], rtol=0.2)
    either = LinkedRowsDAG().fit(rows).error_variances_  # the order is not determined, the product is
    assert either.prod() == pytest.approx(ordered.prod(), rel=0.1)


def test_what_rows_are_worth_where_only_some_columns_depend() -> None:
    rng = np.random.default_rng(0)
    groups = np.arange(300) // 5
    shares = np.array([0.5, 0.5, 0.5, 0.0, 0.0, 0.0])
    X = np.sqrt(shares) * rng.standard_normal((60, 6))[groups] + np.sqrt(1 - shares) * rng.standard_normal(
        (300, 6)
    )
    rows = LinkedRows(X, groups=groups)
    assert rows.decorrelation_.structure == "independent"
    same = np.equal.outer(groups, groups) & ~np.eye(300, dtype=bool)
    sigmas = [np.eye(300) + r * same for r in rows.decorrelation_.column_correlations]
    traces = [np.sum(sigmas[j] * sigmas[k]) for j in range(6) for k in range(j)]
    assert rows.effective_n == pytest.approx(300**2 / np.mean(traces), rel=1e-9)
    # 3 of 15 pairs have a trace of 600, the others of 300: 250 rows.
    assert rows.effective_n == pytest.approx(250, rel=0.08)
    assert f"worth about {rows.effective_n:.0f} for edges" in " ".join(rows.notes)
    assert measures(rows)["effective_n"] == rows.effective_n


def test_columns_that_differ_are_noticed_and_what_to_do_is_said() -> None:
    rng = np.random.default_rng(0)
    groups = np.arange(300) // 10
    shares = np.linspace(0.05, 0.9, 12)
    X = np.sqrt(shares) * rng.standard_normal((30, 12))[groups] + np.sqrt(1 - shares) * rng.standard_normal(
        (300, 12)
    )
    rows = LinkedRows(X, groups=groups)
    assert rows.decorrelation_.after.dependent
    assert not rows.test_after_.dependent  # each column by its own strength
    one_for_all = LinkedRows(X, groups=groups, structure="common")
    assert one_for_all.test_after_ == rows.decorrelation_.after
    assert "subtract group means" in sentences(one_for_all)[-1]
    centred = X - np.array([X[groups == g].mean(axis=0) for g in range(30)])[groups]
    test = row_dependence(centred, Links.from_groups(groups), covariates=np.eye(30)[groups][:, 1:])
    assert not test.dependent  # nothing is left once group means are gone


def test_resamples_keep_times_and_kinship() -> None:
    rng = np.random.default_rng(0)
    K = family_kinship(30)
    X = np.linalg.cholesky(0.5 * K + 0.5 * np.eye(120)) @ rng.standard_normal((120, 6))
    drawn = LinkedRows(X, covariance=K).resampled(rng)
    assert drawn.table.covariance.shape == (drawn.n, drawn.n)
    assert 0 <= drawn.decorrelation_.parameters["h2"] <= 1
    panel = LinkedRows(X, groups=np.arange(120) // 4, time=np.tile(np.arange(4.0), 30), structure="decay")
    again = panel.resampled(rng)
    assert again.table.places is not None
    assert set(again.table.places[:, 0]) == {0.0, 1.0, 2.0, 3.0}
    assert np.isfinite(again.moments().scatter).all()


def test_problem_needs_no_structure_to_be_scaled() -> None:
    """The free structure is the default of a descent, as in the paper."""
    X = np.random.default_rng(0).standard_normal((12, 3))
    assert Problem.of(X, GROUPS).structure == "free"


class _Named(NamedTuple):
    name: str


def _candidate(name: str, deviances: list[float]) -> Candidate:
    return Candidate(_Named(name), np.array(deviances))  # type: ignore[arg-type]


def test_of_candidates_within_one_standard_error_the_simplest_is_taken() -> None:
    simple = _candidate("simple", [10.0, 10.0, 10.0, 10.0])
    noisy = _candidate("noisy", [0.0, 18.0, 2.0, 17.0])  # lower by 3 in all, with a standard error of 19
    loud = _candidate("loud", [-900.0, 9.0, 8.0, 9.0])  # one column outweighs the others many times over
    steady = _candidate("steady", [9.0, 9.1, 8.9, 9.0])  # lower by 4, with a standard error of 0.16
    assert best([simple, noisy]) is simple
    assert best([simple, steady]) is steady
    assert best([simple, loud]) is loud
    assert best([simple, _candidate("hated", [-900.0, 16.0, 15.0, 19.0])]) is simple
    assert best([simple, steady, noisy]) is steady
    assert best([simple, _candidate("hardly", [9.6, 9.6, 9.6, 9.6])]) is simple  # less than 2


@given(st.integers(0, 10_000))
def test_the_choice_is_never_clearly_worse_and_nothing_simpler_would_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = [_candidate(str(k), rng.normal(0, 3, 6).tolist()) for k in range(5)]
    lowest = min(found, key=lambda each: each.deviances.sum())
    chosen = best(found)

    def margin(one: Candidate) -> float:
        gaps = np.clip(one.deviances - lowest.deviances, -20, 20)
        spread = np.sqrt(((gaps - gaps.mean()) ** 2).sum() / 5)
        return float(gaps.sum() - max(2.0, 6 * spread / np.sqrt(6)))

    assert margin(chosen) <= 1e-9
    assert all(margin(each) > -1e-9 for each in found[: int(chosen.structure.name)])


class _Numbered(NamedTuple):
    name: str
    number: float
    deviances: list[float]

    def fit(self, columns: Columns, scored: Any) -> Fitted:
        del columns, scored
        return Fitted(None, {"number": self.number})  # type: ignore[arg-type]


@given(st.integers(0, 10_000))
def test_the_estimate_is_that_of_the_chosen_structure(seed: int) -> None:
    """Also where the free structures, tried last, make another simple one the choice."""
    rng = np.random.default_rng(seed)
    simple = [_Numbered("independent", 0.0, rng.normal(0, 9, 6).tolist()),
              _Numbered("common", 1.0, rng.normal(-4, 9, 6).tolist())]  # fmt: skip
    free = [_Numbered("free", 2.0 + k, rng.normal(-6, 9, 6).tolist()) for k in range(2)]

    def held_out(structures: Sequence[Any], orders: Sequence[Columns]) -> list[Candidate]:
        del orders
        return [Candidate(each, np.array(each.deviances)) for each in structures]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(choice, "by_held_out_columns", held_out)
        columns = Columns(np.zeros((4, 6)), np.ones((4, 1)))
        found = choice.choose(simple, free, columns, lambda fitted, gain: False)
    assert isinstance(found.structure, _Numbered)
    assert found.fitted.parameters["number"] == found.structure.number


def test_rounding_in_the_data_does_not_change_the_structure() -> None:
    """A network with few columns, where one entry for each link and one strength do about as well."""
    rng = np.random.default_rng(3)
    side = 7
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    apart = np.abs(places[:, None] - places[None]).sum(axis=-1)
    links = np.argwhere(np.triu(apart == 1))
    X = np.linalg.cholesky(np.exp(-apart / 2.0)) @ rng.standard_normal((side**2, 6))
    found = [
        LinkedRows(X * (1 + 1e-12 * rng.standard_normal(X.shape)), links=links).decorrelation_
        for _ in range(2)
    ]
    assert found[0].structure == found[1].structure
    assert found[0].correlation == pytest.approx(found[1].correlation, abs=1e-4)
