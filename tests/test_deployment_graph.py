"""The graph of a finished study goes to the sites, unless it stays with the coordinator."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from apart import SITES, begun, polydag, run_apart, tables
from polydag import runs
from polydag.deployment import sharing
from polydag.deployment.approval import in_words, kind_of
from polydag.deployment.coordinator import CoordinatorEndpoint
from polydag.deployment.description import Column, Signed, described
from polydag.deployment.site import SiteEndpoint
from polydag.errors import DataError
from polydag.privacy.masking.identities import Identity
from polydag.studies.config.shapes import PartiesConfig

BOSS = PartiesConfig(SITES, method="boss", seed=3)
FILES = ("graph.json", "edges.csv")


@pytest.mark.parametrize("method", ["boss", "pc", "posterior"])  # weights, undirected edges, probabilities
def test_each_site_gets_the_graph_that_the_coordinator_has(tmp_path: Path, method: str) -> None:
    found = run_apart(tmp_path, tables(tmp_path), PartiesConfig(SITES, method=method, seed=3))
    run = runs.write(found, tmp_path / "run")
    for site in SITES:
        kept = tmp_path / f"kit-{site}/result"
        assert sorted(path.name for path in kept.iterdir()) == [".files", "edges.csv", "graph.json"]
        for name in FILES:
            assert (kept / name).read_bytes() == (run / name).read_bytes()
        assert SiteEndpoint(tmp_path / f"kit-{site}").outcome == f"The graph is in {kept}."


def by_hand(folder: Path, *options: str) -> str:
    """A study with files that are sent by hand; returns what a site says at its end."""
    files = tables(folder)
    words = ("federation", "init", folder / "study", "--sites", ",".join(SITES), "--method", "boss")
    polydag(*words, "--seed", 3, *options)
    sent = []
    for site in SITES:
        sent.append(folder / f"join-{site}.polydag")
        data = ("--data", files[site], "--home", folder / f"home-{site}", "--out", sent[-1])
        polydag("site", "join", folder / f"kit-{site}", *data)
    for number in (1, 2):
        polydag("coordinator", "advance", folder / "study", *sent)
        asked = [folder / f"study/questions/question-{number}-{site}.polydag" for site in SITES]
        sent = [folder / f"answer-{number}-{site}.polydag" for site in SITES]
        for site, question, answer in zip(SITES, asked, sent, strict=True):
            polydag("site", "answer", folder / f"kit-{site}", question, "--out", answer)
    polydag("coordinator", "advance", folder / "study", *sent)
    last = folder / "study/questions/question-3-north.polydag"
    assert ("brings the graph" in polydag("site", "preview", folder / "kit-north", last)) is not bool(options)
    return polydag("site", "answer", folder / "kit-north", last)


def test_by_files_the_last_question_brings_the_graph(tmp_path: Path) -> None:
    said, kept = by_hand(tmp_path), tmp_path / "kit-north/result"
    assert f"The graph is in {kept}. It has 5 edges among 5 variables." in said
    assert (kept / "graph.json").read_bytes() == (tmp_path / "study/run/graph.json").read_bytes()


def test_a_graph_that_stays_with_the_coordinator_reaches_no_site(tmp_path: Path) -> None:
    assert "The graph stays with the coordinator." in by_hand(tmp_path, "--keep-graph")
    assert (tmp_path / "study/run/graph.json").is_file()
    assert not (tmp_path / "kit-north/result").exists()
    last = (tmp_path / "study/questions/question-3-west.polydag").read_bytes()
    question = SiteEndpoint(tmp_path / "kit-west").opened(last)
    assert question.words.get("graph") is None


@pytest.mark.parametrize("options", [(), ("--keep-graph",)])
def test_the_last_question_brings_no_sums(tmp_path: Path, options: tuple[str, ...]) -> None:
    """But for coarse spreads of columns, by which a site sees that its units are others."""
    by_hand(tmp_path, *options)
    for site in SITES:
        last = (tmp_path / f"study/questions/question-3-{site}.polydag").read_bytes()
        (message,) = SiteEndpoint(tmp_path / f"kit-{site}").opened(last).messages
        assert list(message.arrays) == ["log_scales"]


def test_owners_approve_who_gets_the_graph(tmp_path: Path) -> None:
    identity = Identity()
    kept, given = (
        Signed.by(described(BOSS, keeps_graph=keeps), identity, bytes(32), "00") for keeps in (True, False)
    )
    assert "The graph stays with the coordinator." in in_words(kept)
    assert "The graph goes to all sites." in in_words(given)
    assert kind_of(kept) != kind_of(given)


def test_sums_of_which_no_graph_can_be_made_end_the_study_at_the_sites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tables(tmp_path)
    kits, inbox = begun(tmp_path, files, BOSS)
    coordinator, sites = CoordinatorEndpoint(tmp_path / "study"), [SiteEndpoint(kit) for kit in kits]
    while not coordinator.finished:
        coordinator.receive(inbox)
        if not coordinator.finished:
            asked = zip(sites, coordinator.questions(), strict=True)
            inbox = [answer.content for site, q in asked if (answer := site.receive(q.content))]

    def failing(_: Any) -> Any:
        raise DataError("no graph of this")

    monkeypatch.setattr(sharing, "shared", failing)
    for site, question in zip(sites, coordinator.questions(), strict=True):
        assert site.receive(question.content) is None
        assert site.finished
        assert "could not make a graph" in site.outcome


GRAPH = '{"nodes": ["a", "b"], "edges": [{"source": "a", "target": "b", "weight": 2.0}]}'
EDGES = "source,target,weight,probability\na,b,2.0,\n"
SOUND = {"graph.json": GRAPH, "edges.csv": EDGES, "converged": True}


@pytest.mark.parametrize(
    "change",
    [
        {"converged": 1},
        {"graph.json": b"x"},
        {"graph.json": "[" * 100_000},
        {"../../graph.json": GRAPH},
        {"graph.json": GRAPH.replace('"b"]', '"c"]')},
        {"edges.csv": ""},
        {"edges.csv": EDGES.replace("a,b,2.0", "a,c,2.0")},
        {"edges.csv": EDGES.replace("2.0", "=HYPERLINK(A1)")},
        {"edges.csv": EDGES.replace("probability", "=A1")},
        {"edges.csv": EDGES + "b,a,1.0,\n"},
        {"edges.csv": EDGES.replace("2.0", "inf")},
        {"edges.csv": "source,target\na,b\x00\n"},
    ],
)
def test_something_else_than_a_graph_is_not_written(tmp_path: Path, change: dict[str, Any]) -> None:
    assert "refused" in sharing.keep({**SOUND, **change}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_did_not_converge_is_not_relied_on(tmp_path: Path) -> None:
    assert "refused" in sharing.keep([], tmp_path)
    assert "do not rely" in sharing.keep({**SOUND, "converged": False}, tmp_path)
    assert sharing.where(tmp_path) in sharing.keep(SOUND, tmp_path)  # in place of the one before
    assert "converge" not in sharing.keep(SOUND, tmp_path)


def test_owners_read_what_is_done_to_their_rows_before_they_approve() -> None:
    config = PartiesConfig(
        SITES, method="boss", seed=3, interventions="did", transforms={"x1": "rank"}, missing="drop"
    )
    columns = {"weight": Column(from_="salary", unit="kg"), "x1": Column()}
    description = dataclasses.replace(described(config), columns=columns)
    told = "\n".join(in_words(Signed.by(description, Identity(), bytes(32), "00")))
    assert "What was set by intervention: as in did." in told
    assert "Changed before the sums: x1 (rank)." in told
    assert "Rows with missing values: left out." in told
    assert "Columns: weight (your column salary) in kg; x1." in told
    for missing in ("em", "testwise", "multiple"):
        other = described(PartiesConfig(SITES, method="boss", seed=3, missing=missing))
        assert f"({missing})." in "\n".join(in_words(Signed.by(other, Identity(), bytes(32), "00")))
    cut = described(PartiesConfig(SITES, method="boss", seed=3, discretize="quantile:3"))
    assert "Numbers are cut into levels: quantile:3." in in_words(Signed.by(cut, Identity(), bytes(32), "00"))
    series = described(PartiesConfig(SITES, method="notears-lagged", seed=3))
    assert "as in t and realisation" in "\n".join(in_words(Signed.by(series, Identity(), bytes(32), "00")))
