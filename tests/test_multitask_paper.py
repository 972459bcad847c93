"""Reproduction of the tasks paper: areas, paired tests, tables, figures and the brain study."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from polydag import Chains
from polydag.cli.main import app
from polydag.reproduce import brain
from polydag.reproduce import multitask as paper
from polydag.reproduce.ranking import areas, paired, roc_points

Array = NDArray[np.float64]
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


def test_areas_are_the_standard_ones() -> None:
    rng = np.random.default_rng(0)
    true = rng.random((2, 6, 6)) < 0.3
    P = rng.random((2, 6, 6)).round(1)
    off = np.broadcast_to(~np.eye(6, dtype=bool), true.shape)
    y, p = true[off], P[off]
    above = (p[y][:, None] > p[~y]).mean() + 0.5 * (p[y][:, None] == p[~y]).mean()
    found = areas(true, P)
    assert found.auc == pytest.approx(above)
    fpr, tpr = roc_points(true, P, "standard")
    assert np.trapezoid(tpr, fpr) == pytest.approx(above)
    assert (fpr[-1], tpr[-1]) == (1.0, 1.0)


def test_the_papers_own_rates() -> None:
    true = np.zeros((1, 3, 3), dtype=bool)
    true[0, 0, 1] = true[0, 1, 2] = True
    P = np.array([[[0, 0.9, 0.7], [0.1, 0, 0.8], [0.2, 0.3, 0]]])
    fpr, tpr = roc_points(true, P, "paper")
    # With k edges accepted: precision, and false edges relative to the remaining pairs.
    np.testing.assert_allclose(tpr, [1, 1, 1, 2 / 3, 2 / 4, 2 / 5])
    np.testing.assert_allclose(fpr, [0, 0, 0, 1 / 3, 2 / 2, 3 / 1])
    expected = 1 / 3 * (1 + 2 / 3) / 2 + 2 / 3 * (2 / 3 + 2 / 4) / 2
    assert areas(true, P).paper_auc == pytest.approx(expected)
    assert np.isnan(areas(~np.ones((1, 3, 3), dtype=bool), P).auc)


def test_corners_of_a_curve_are_all_of_it() -> None:
    rng = np.random.default_rng(1)
    true = rng.random((2, 9, 9)) < 0.1
    P = rng.random((2, 9, 9))
    (x, y), (few_x, few_y) = (roc_points(true, P, "standard", corners=c) for c in (False, True))
    assert len(few_x) < len(x) / 2
    assert np.trapezoid(few_y, few_x) == pytest.approx(np.trapezoid(y, x), abs=1e-12)
    # The paper's curve is not horizontal between corners, and ties may end it before a rate of 1.
    for tied, d in ((0.0, 5), (0.0, 30), (0.3, 5), (0.3, 30), (0.8, 5), (0.8, 30)):
        true = rng.random((4, d, d)) < 0.1
        P = np.clip(rng.random(true.shape) + 0.4 * true - tied, 0, 1)
        few_x, few_y = roc_points(true, P, "paper", corners=True)
        assert len(few_x) <= len(roc_points(true, P, "paper")[0])
        assert (few_x > 1).sum() <= 1
        inside = np.append(few_x[few_x <= 1], 1.0)
        area = np.trapezoid(np.interp(inside, few_x, few_y), inside)
        assert area == pytest.approx(areas(true, P).paper_auc, abs=1e-3)


def test_paired_t_test_names_the_winner() -> None:
    a = np.array([0.8, 0.9, 0.85, 0.95])
    assert paired(a, 0.9 * a, "MTL", "STL").winner == "MTL"
    assert paired(0.9 * a, a, "MTL", "STL").winner == "STL"
    assert paired(a, a, "MTL", "STL").winner == "-"
    assert paired(a, a / 1.1, "MTL", "STL").increase == pytest.approx(10.0)


def test_asia_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bench = paper.Benchmark("asia", (20,), 300, {"method": "exact"})
    monkeypatch.setattr(paper, "benchmark", lambda name, preset: bench)
    monkeypatch.setattr(paper, "LARGE", (100,))
    words = ["reproduce", "multitask", "--table", "1", "--trials", "2", "-q"]
    words += [word for k in ("1", "2", "3") for word in ("--figure", k)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    folder = Path("runs/reproduce-multitask")
    table = pd.read_csv(folder / "table1.csv")
    assert len(table) == 3 * 2
    assert set(table["measure"]) == {"auc", "average_precision", "paper_auc"}
    assert table["MTL"].between(0, 1).all()
    assert set(pd.read_csv(folder / "by_p_del_table1.csv")["p_del"]) == {0.1, 0.2, 0.3, 0.4, 0.5}
    curves = pd.read_csv(folder / "figure2.csv")
    # The paper shows edges that both tasks share and edges of one task only.
    assert set(curves["kind"]) == {"shared", "unique", "reverse", "no edge"}
    assert len(curves) == 4 * 56
    roc = pd.read_csv(folder / "figure3.csv")
    assert set(roc["form"]) == {"standard", "paper"}
    assert roc.groupby(["method", "form"]).size().min() > 21
    assert not (folder / "notes.txt").exists()
    assert set(pd.read_csv(folder / "figure1.csv")["kind"]) == {"true", "reverse", "no edge"}
    assert {path.name for path in folder.glob("*.svg")} == {f"figure{k}.svg" for k in (1, 2, 3)}
    done = CliRunner().invoke(app, ["reproduce", "multitask", "--table", "3", "--out", "x", "-q"])
    assert done.exit_code == 2
    assert "tables 1 and 2" in done.output
    assert not list(Path().glob("x*"))  # nothing remains that would disturb a correct command


def test_series_are_detrended_and_cut_into_four_levels() -> None:
    t = np.arange(200.0)[:, None]
    flat = brain.detrended(np.hstack([3 * t, np.ones_like(t)]), window=11)
    np.testing.assert_allclose(flat[5:-5], 0.0, atol=1e-9)
    z = np.random.default_rng(0).standard_normal((4000, 2))
    levels = brain.four_levels(10 + 5 * z)
    shares = np.bincount(levels[:, 0], minlength=4) / 4000
    np.testing.assert_allclose(shares, [0.16, 0.34, 0.34, 0.16], atol=0.03)
    np.testing.assert_array_equal(levels, brain.four_levels(z))


def test_simulated_groups_have_the_papers_size() -> None:
    groups = brain.simulated(seed=1, regions=12, scans=60)
    assert {name: len(group.subjects) for name, group in groups.items()} == {"controls": 86, "patients": 74}
    assert all(subject.shape == (60, 12) for group in groups.values() for subject in group.subjects)


def test_figures_of_the_brain_study_and_of_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Computed at a tiny size, where chains are too short to converge."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POLYDAG_DATA", raising=False)
    tiny = brain.simulated(seed=1, regions=6, scans=30)
    short = {"chains": Chains(n_steps=40, n_chains=2, bucket_size=3)}
    monkeypatch.setattr(brain, "simulated", lambda: tiny)
    monkeypatch.setattr(brain, "SMALL", (2, 3))
    monkeypatch.setattr(brain, "FEW", 2)
    monkeypatch.setattr(brain, "settings_of", lambda preset: short)
    bench = paper.Benchmark("asia", (20,), 60, {"method": "mcmc", **short})
    monkeypatch.setattr(paper, "benchmark", lambda name, preset: bench)
    words = ["reproduce", "multitask", "--table", "2", "--trials", "2", "-q"]
    words += [word for k in ("4", "5", "6", "7") for word in ("--figure", k)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    folder = Path("runs/reproduce-multitask")
    tests = pd.read_csv(folder / "figure6_tests.csv")
    assert tests["subjects"].tolist() == [2, 2, 3, 3]
    assert tests[["MTL", "STL"]].stack().dropna().between(0, 1).all()
    maps = pd.read_csv(folder / "figure7.csv", dtype={"subjects": str})
    assert set(maps["group"]) == {"controls", "patients"}
    assert set(maps["subjects"]) == {"2", "all"}
    assert (maps["low"] <= maps["mean"] + 1e-12).all()
    assert (maps["mean"] <= maps["high"] + 1e-12).all()
    assert maps.loc[maps["subjects"] == "all", "probability"].notna().all()
    apart = pd.read_csv(folder / "figure7_differences.csv", dtype={"subjects": str})
    assert set(apart["groups"]) == {"controls − patients"}
    assert set(apart["of"]) == {"connection", "edge"}
    for _, own in apart.groupby(["subjects", "of"]):
        assert own["mean"].abs().is_monotonic_decreasing
    assert (apart["sure"] == (np.sign(apart["low"]) * np.sign(apart["high"]) > 0)).all()
    whole = maps[maps["subjects"] == "all"].pivot_table(
        index=["source", "target"], columns="group", values="probability", fill_value=0.0
    )
    every = apart[apart["subjects"] == "all"].set_index(["source", "target"])
    compared = every.loc[every["of"] == "edge", "probability"]
    gap = whole["controls"] - whole["patients"]
    np.testing.assert_allclose(compared, gap.reindex(compared.index), atol=2 * brain._SHOWN)
    connected = every.loc[every["of"] == "connection", "probability"]
    turned = gap.reindex(connected.index.swaplevel()).fillna(0.0).to_numpy()
    np.testing.assert_allclose(
        connected, gap.reindex(connected.index).fillna(0.0) + turned, atol=4 * brain._SHOWN
    )
    assert len(pd.read_csv(folder / "table2.csv")) == 6
    heat = ["figure7-simulated-2.svg", "figure7-simulated-all.svg"]
    expected = {"figure4.svg", "figure5.svg", "figure6.svg", *heat}
    assert {path.name for path in folder.glob("*.svg")} == expected
    # All regions are shown, including those without edges.
    drawn = [(folder / name).read_text(encoding="utf-8") for name in heat]
    assert all([text.index(f">{name}<") for name in tiny["controls"].names] for text in drawn)


def test_chains_that_do_not_agree_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Convergence is reported in the tables, in a separate file and on the terminal."""
    monkeypatch.chdir(tmp_path)
    settings = {"method": "mcmc", "chains": Chains(n_steps=40, n_chains=2, bucket_size=2)}
    monkeypatch.setattr(paper, "benchmark", lambda name, preset: paper.Benchmark("asia", (20,), 60, settings))
    done = CliRunner().invoke(app, ["reproduce", "multitask", "--table", "2", "--trials", "2", "-q"])
    assert done.exit_code == 0, done.output
    folder = Path("runs/reproduce-multitask")
    each = pd.read_csv(folder / "chains_table2.csv")
    assert each.groupby("method").size().to_dict() == {
        "MTL": 2, "MTL, truncated": 2, "POOL": 2, "STL": 2, "truth": 2,
    }  # fmt: skip
    assert not each["converged"].any()
    table = pd.read_csv(folder / "table2.csv")
    assert (table["not_converged"] == 6).all()
    assert (table["fits"] == 6).all()
    assert table["worst_r_hat"].max() == each["r_hat"][each["method"] != "truth"].max()
    said = "table2: the chains have not converged in 10 of 10 fits (R-hat up to"
    assert said in (folder / "notes.txt").read_text(encoding="utf-8")
    assert said in " ".join(done.output.split())


def test_the_brain_study_says_what_its_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference_data: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny = brain.simulated(seed=1, regions=4, scans=30)
    monkeypatch.setattr(brain, "data_sets", lambda: {"simulated": tiny, "abide": tiny})
    monkeypatch.setattr(brain, "SMALL", (2, 100))
    short = {"chains": Chains(n_steps=40, n_chains=2, bucket_size=2)}
    monkeypatch.setattr(brain, "settings_of", lambda preset: short)
    done = CliRunner().invoke(app, ["reproduce", "multitask", "--figure", "6", "--trials", "1", "-q"])
    assert done.exit_code == 0, done.output
    folder = Path("runs/reproduce-multitask")
    said = (folder / "notes.txt").read_text(encoding="utf-8")
    assert "not independent rows" in said
    assert "blocks of about 150 consecutive scans represent subjects" in said
    assert "not independent rows" in " ".join(done.output.split())
    table = pd.read_csv(folder / "figure6.csv")
    assert set(table["data"]) == {"simulated", "abide"}
    assert set(table["subjects"]) == {2}  # a number of subjects that exists


def test_draws_of_subjects_are_as_many_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(brain, "networks", lambda trials, preset: asked.append(trials) or {})
    paper.run([17], 100)
    assert asked == [100]


def test_abide_groups(reference_data: Path) -> None:
    groups = brain.abide()
    assert {name: sum(map(len, group.subjects)) for name, group in groups.items()} == {
        "control": 2250,
        "autism": 2060,
    }
    assert all(len(group.names) == 116 for group in groups.values())
    sizes = {len(subject) for group in groups.values() for subject in group.subjects}
    assert sizes <= {147, 148, 150}


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["figure4", "table2"])
def test_the_stored_fits_of_alarm_are_those_of_this_version(stored: str, reference_data: Path) -> None:
    """Draws and diagnostics of the first fits with 25 rows, as they are kept beside the paper's figures."""
    kept = pd.read_csv(RESULTS / f"multitask_chains_{stored}_published.csv")
    bench = paper.benchmark("alarm", "published")
    trial = (
        paper.draw(bench, paper.example(bench), paper.EXAMPLE_P_DEL)
        if stored == "figure4"
        else paper.draw(bench, 0, paper.P_DEL[0])
    )
    first = kept[(kept.iloc[:, 0] == 0) & (kept["samples"] == 25)].set_index("method")["ess"]
    for method in paper.METHODS:
        fit = paper.learned(bench, [rows.iloc[:25] for rows in trial.rows], method)
        assert float(fit.ess) == pytest.approx(first[method], rel=1e-5)
