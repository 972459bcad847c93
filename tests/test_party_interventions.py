"""Interventions on tables with labels over parties: sums per set of variables that were set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from polydag import (
    BOSS,
    GES,
    PC,
    BayesianDiscovery,
    DiscreteCounts,
    MultitaskDiscovery,
    Parties,
    Privacy,
    Regimes,
    Tasks,
)
from polydag.cli.main import app
from polydag.errors import DataError, UsageError
from polydag.sources import InMemory
from polydag.stats import MixedStats

few = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
LEARNERS: list[Any] = [
    GES(max_parents=2),
    BOSS(max_parents=2),
    PC(max_conditioning=2),
    BayesianDiscovery(max_parents=2),
]
Part = tuple[pd.DataFrame, list[str]]


def clinic(n: int, rng: np.random.Generator, shift: float = 0.0) -> Part:
    """smoker -> dose -> ill -> stay and drug -> ill, where drug, ill or dose is set in some rows."""
    did = rng.choice(["none", "drug", "ill", "dose"], n, p=[0.4, 0.2, 0.2, 0.2]).tolist()
    was = np.array(did)
    drug = np.where(was == "drug", rng.choice(["b", "c"], n), rng.choice(["a", "b"], n, p=[0.7, 0.3]))
    smoker = rng.choice(["no", "yes"], n)
    dose = np.where(was == "dose", rng.normal(size=n), 1.5 * (smoker == "yes") + rng.normal(size=n)) + shift
    risk = 2.0 * (dose - shift) - 2.5 * (drug == "b")
    ill = np.where(was == "ill", rng.random(n) < 0.5, rng.logistic(size=n) < risk)
    stay = 1.5 * ill + rng.normal(size=n) + shift
    columns = {
        "drug": drug,
        "smoker": smoker,
        "dose": dose,
        "ill": np.where(ill, "ill", "well"),
        "stay": stay,
    }
    return pd.DataFrame(columns), did


def labels_of(part: Part) -> Part:
    frame, did = part
    cut = {name: np.where(frame[name] > frame[name].mean(), "high", "low") for name in ("dose", "stay")}
    return frame.assign(**cut), did


def parties_of(parts: list[Part], **settings: Any) -> Parties:
    own = {f"h{k}": InMemory(frame, interventions=did) for k, (frame, did) in enumerate(parts)}
    return Parties(own, **settings)


def pooled(parts: list[Part]) -> InMemory:
    frame = pd.concat([frame for frame, _ in parts], ignore_index=True)
    return InMemory(frame, interventions=[own for _, did in parts for own in did])


def alike(learner: Any, first: Any, second: Any) -> None:
    a, b = learner.fit(first), type(learner)(**learner.get_params(deep=False)).fit(second)
    assert np.array_equal(a.graph_.adjacency, b.graph_.adjacency)
    if isinstance(a, BayesianDiscovery):
        np.testing.assert_allclose(a.posterior_.probabilities, b.posterior_.probabilities, atol=1e-7)


@few
@given(st.integers(0, 2**32 - 1), st.integers(3, 5), st.sampled_from(["masked", "none"]))
def test_counts_of_each_regime_are_those_of_the_pooled_rows(seed: int, k: int, mode: str) -> None:
    rng = np.random.default_rng(seed)
    parts = [labels_of(clinic(int(rng.integers(40, 70)), rng)) for _ in range(k)]
    parties = parties_of(parts, privacy=Privacy(mode=mode))
    found, wanted = parties.counts(), pooled(parts).counts()
    assert isinstance(found, Regimes)
    assert set(found.parts) == set(wanted.parts)
    sets = [tuple(rng.permutation(5)[: rng.integers(0, 4)].tolist()) for _ in range(4)]
    for targets, part in found:
        assert part.n == wanted.parts[targets].n
        levels = dict(zip(part.names, part.levels, strict=True))
        whole: DiscreteCounts = wanted.parts[targets].with_levels(levels)
        for own, table in zip(part.tables(sets), whole.tables(sets), strict=True):
            assert np.array_equal(own, table)
    sums = parties.disclosure_
    assert sums.loc[sums["name"].str.startswith("counts of "), "round"].nunique() == 1  # for all regimes
    assert bool(sums["masked"].all()) == (mode == "masked")


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda own: type(own).__name__)
def test_labels_under_interventions_give_the_answer_of_pooling(learner: Any) -> None:
    rng = np.random.default_rng(1)
    parts = [labels_of(clinic(n, rng)) for n in (300, 200, 250)]
    alike(learner, parties_of(parts), pooled(parts))


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda own: type(own).__name__)
def test_numbers_and_labels_under_interventions_give_the_answer_of_pooling(learner: Any) -> None:
    rng = np.random.default_rng(2)
    parts = [clinic(n, rng) for n in (300, 200, 250)]
    own = learner.set_params(criterion="dg") if isinstance(learner, BayesianDiscovery) else learner
    alike(own, parties_of(parts, site_effects="none"), pooled(parts))


@few
@given(st.integers(0, 2**32 - 1))
def test_moments_of_each_regime_are_those_of_rows_about_the_parties_own_baseline(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [clinic(int(rng.integers(40, 90)), rng, shift=10.0 * k) for k in range(3)]
    levels = {"drug": ("a", "b", "c"), "smoker": ("no", "yes"), "ill": ("ill", "well")}
    found = parties_of(parts).mixed(levels)
    assert isinstance(found, Regimes)
    baseline = np.array([own == "none" for _, did in parts for own in did])
    expanded = [MixedStats.from_data(frame[np.array(did) == "none"], levels).moments for frame, did in parts]
    common = sum(part.mean * part.n for part in expanded) / baseline.sum()
    for targets, part in found:
        moved = []
        for (frame, did), before in zip(parts, expanded, strict=True):
            rows = frame[[own == "+".join(targets or ["none"]) for own in did]]
            if len(rows):
                own = MixedStats.from_data(rows, levels).moments
                moved.append((own.n, own.mean - before.mean + common, own.scatter))
        n = sum(own for own, _, _ in moved)
        mean = sum(own * where for own, where, _ in moved) / n
        scatter = sum(inner + own * np.outer(at - mean, at - mean) for own, at, inner in moved)
        np.testing.assert_allclose(part.moments.mean, mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(part.moments.scatter, scatter, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda own: type(own).__name__)
def test_parties_that_differ_in_their_means_make_no_edges(learner: Any) -> None:
    rng = np.random.default_rng(3)
    parts = [clinic(400, rng, shift=5.0 * k) for k in range(3)]
    if isinstance(learner, BayesianDiscovery):
        learner.set_params(criterion="dg")
    wanted = {("drug", "ill"), ("smoker", "dose"), ("dose", "ill"), ("ill", "stay")}
    edges = learner.fit(parties_of(parts)).graph_.edges()
    assert {(edge.source, edge.target) for edge in edges} == wanted


def test_rows_that_too_few_parties_have_are_not_summed_under_masks() -> None:
    rng = np.random.default_rng(4)
    parts = [clinic(60, rng) for _ in range(4)]
    few_rows = [(frame, did if k < 2 else ["none"] * 60) for k, (frame, did) in enumerate(parts)]
    for change in (lambda part: part, labels_of):
        shown = [change(part) for part in few_rows]
        with pytest.raises(UsageError, match=r"Only h0 and h1 have rows in which (dose|drug|ill) was set"):
            GES().fit(parties_of(shown))
        alike(GES(), parties_of(shown, privacy=Privacy(mode="none"), site_effects="none"), pooled(shown))


@pytest.mark.parametrize("change", [lambda part: part, labels_of], ids=["numbers and labels", "labels"])
def test_a_party_keeps_back_the_rows_of_a_set_of_which_it_has_too_few(change: Any) -> None:
    rng = np.random.default_rng(11)
    parts = [clinic(90, rng) for _ in range(3)]
    frame, did = parts[1]
    rare = [name if k < 4 or name != "ill" else "none" for k, name in enumerate(["ill"] * 4 + did[4:])]
    shown = [change(parts[0]), change((frame, rare)), change(parts[2])]
    GES(max_parents=2).fit(parties_of(shown, min_rows=4))
    with pytest.raises(DataError, match=r"h1.*4 rows in which ill was set.*at least 5"):
        GES().fit(parties_of(shown, min_rows=5))


def test_numbers_that_were_set_in_all_rows_are_told_by_name() -> None:
    rng = np.random.default_rng(5)
    parts = [(frame, ["drug"] * 50) for frame, _ in (clinic(50, rng) for _ in range(3))]
    with pytest.raises(DataError, match=r"drug was set in every row of every party"):
        GES().fit(parties_of(parts))


def test_rows_without_a_baseline_are_centred_in_each_regime() -> None:
    rng = np.random.default_rng(6)
    parts = [
        (frame[["dose", "stay"]], ["dose", "stay"] * 30) for frame, _ in (clinic(60, rng) for _ in "abc")
    ]
    found = parties_of(parts).moments()
    assert isinstance(found, Regimes)
    for targets, part in found:
        rows = [frame[[name in targets for name in did]] for frame, did in parts]
        scatter = sum(np.cov(own.T) * (len(own) - 1) for own in rows)
        np.testing.assert_allclose(part.scatter, scatter, rtol=1e-8)
        assert part.n == sum(len(own) - 1 for own in rows)
    GES().fit(parties_of(parts))


def test_a_label_that_only_interventions_change_is_used() -> None:
    """In the rows of the first regime such a column is constant."""
    rng = np.random.default_rng(7)
    parts = []
    for _ in range(3):
        did = ["none"] * 100 + ["drug"] * 100
        drug = np.where(np.array(did) == "none", "no", rng.choice(["no", "yes"], 200))
        well = np.where(rng.random(200) < np.where(drug == "yes", 0.9, 0.3), "yes", "no")
        parts.append((pd.DataFrame({"drug": drug, "well": well, "age": rng.normal(size=200)}), did))
    for change in (lambda frame: frame, lambda frame: frame.drop(columns="age")):
        shown = [(change(frame), did) for frame, did in parts]
        for learner in (GES(), PC()):
            for source in (pooled(shown), parties_of(shown)):
                edges = learner.fit(source).graph_.edges()
                assert [(edge.source, edge.target, edge.directed) for edge in edges] == [
                    ("drug", "well", True)
                ]


@pytest.mark.parametrize("how", ["discretized", "ranked"])
def test_columns_are_changed_in_all_rows_whatever_was_set(how: str) -> None:
    rng = np.random.default_rng(8)
    parts = [clinic(200, rng) for _ in range(3)]
    parties = parties_of(parts)
    changed = (
        parties.discretized("quantile:3")
        if how == "discretized"
        else parties.with_normal_scores(["dose", "stay"])
    )
    plain = Parties([frame for frame, _ in parts])
    again = (
        plain.discretized("quantile:3")
        if how == "discretized"
        else plain.with_normal_scores(["dose", "stay"])
    )
    for party, (_, did) in zip(changed.parties, parts, strict=True):
        own: Any = changed.parties[party]
        pd.testing.assert_frame_equal(own.data, list(again.parties.values())[int(party[1:])].rows())
        assert [list(targets) for targets in own.targets] == [
            [] if name == "none" else [name] for name in did
        ]
    edges = {frozenset((edge.source, edge.target)) for edge in GES().fit(changed).graph_.edges()}
    assert frozenset(("drug", "ill")) in edges


def test_tasks_of_parties_under_interventions() -> None:
    rng = np.random.default_rng(9)
    groups = [[labels_of(clinic(150, rng)) for _ in range(3)] for _ in range(2)]
    learner = MultitaskDiscovery(criterion="bdeu", max_parents=2, transfer="family")
    found = learner.fit(Tasks({f"t{k}": parties_of(parts) for k, parts in enumerate(groups)}))
    wanted = MultitaskDiscovery(criterion="bdeu", max_parents=2, transfer="family").fit(
        Tasks({f"t{k}": pooled(parts) for k, parts in enumerate(groups)})
    )
    for first, second in zip(found.posteriors_, wanted.posteriors_, strict=True):
        np.testing.assert_allclose(first.probabilities, second.probabilities, atol=1e-7)


@pytest.mark.parametrize("more", [[], ["--discretize", "quantile:2"], ["--method", "pc"]])
def test_the_command_line(more: list[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    files = []
    for k in range(3):
        frame, did = clinic(400, rng)
        files.append(str(tmp_path / f"h{k}.csv"))
        frame.assign(did=did).to_csv(files[-1], index=False)
    command = [
        "fit",
        "--as",
        "parties",
        *files,
        "--interventions",
        "did",
        "--out",
        str(tmp_path / "run"),
        *more,
    ]
    result = CliRunner().invoke(app, [*command, "--seed", "1", "--quiet"])
    assert result.exit_code == 0, result.output
    edges = json.loads((tmp_path / "run" / "graph.json").read_text())["edges"]
    found = {(edge["source"], edge["target"]) for edge in edges}
    assert found == {("drug", "ill"), ("smoker", "dose"), ("dose", "ill"), ("ill", "stay")}
