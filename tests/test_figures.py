"""Figures for papers: parts of graphs, kinds, sizes and formats."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from polydag import metrics, plot
from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.plot.export import points, save, scaled
from polydag.plot.graph_drawing import SURE
from polydag.report.figures import chosen_part, figure
from polydag.report.pairs import pairs_of
from test_report import graph_files

SVG = "{http://www.w3.org/2000/svg}"
CHAIN = Graph.from_edges("abcde", [("a", "b", 0.9), ("b", "c", -0.8), ("c", "d", 0.1), ("d", "e", 0.7)])


@settings(max_examples=40, deadline=None)
@given(oracles.masks(max_nodes=6), st.integers(1, 12), st.randoms(use_true_random=False))
def test_a_part_has_the_strongest_edges_inside_it(A: np.ndarray, top: int, random: object) -> None:
    W = np.where(A | A.T, np.random.default_rng(random.randint(0, 9999)).normal(size=A.shape), 0.0)  # type: ignore[attr-defined]
    graph = Graph(A, weights=np.where(A, np.where(A & A.T, np.triu(W) + np.triu(W).T, W), 0.0))
    files = graph_files(graph)
    rows = "".join(f"{e.source},{e.target},{e.weight},\n" for e in graph.edges())
    files = graph_files(graph, **{"edges.csv": "source,target,weight,probability\n" + rows})
    part = chosen_part(graph, pairs_of(files, graph), top=top)
    ranked = sorted((abs(edge.weight) for edge in graph.edges()), reverse=True)
    assert sorted((abs(edge.weight) for edge in part.edges()), reverse=True) == ranked[:top]
    assert {str(edge) for edge in part.edges()} <= {str(edge) for edge in graph.edges()}
    assert all((part.adjacency | part.adjacency.T).any(axis=0))


def test_nodes_and_neighbours() -> None:
    found = pairs_of(graph_files(CHAIN), CHAIN)
    assert chosen_part(CHAIN, found, nodes=["d", "a", "b"]).names == ("d", "a", "b")
    assert [str(e) for e in chosen_part(CHAIN, found, nodes=["d", "a", "b"]).edges()] == ["a -> b"]
    assert set(chosen_part(CHAIN, found, neighbours="c").names) == {"b", "c", "d"}
    with pytest.raises(DataError, match="is not a node"):
        chosen_part(CHAIN, found, neighbours="z")


def test_the_graph_of_a_whole_run_is_its_picture() -> None:
    assert figure(graph_files(CHAIN), "graph") == plot.svg(CHAIN)


def test_roc_needs_the_truth_and_shows_the_area() -> None:
    rows = "source,target,probability\na,b,0.9\nc,a,0.6\nb,c,0.4\n"
    graph = Graph.from_edges("abc", [("a", "b", 0.9), ("c", "a", 0.6)])
    truth = Graph.from_edges("abc", ["ab", "bc"])
    files = graph_files(graph, **{"posterior.csv": rows})
    P = np.array([[0, 0.9, 0], [0, 0, 0.4], [0.6, 0, 0]])
    picture = figure(files, "roc", truth=truth)
    assert f"area {metrics.roc_auc(true=truth, scores=P):.2f}" in picture
    with pytest.raises(UsageError, match="--truth"):
        figure(files, "roc")
    with pytest.raises(DataError, match="other variables"):
        figure(files, "roc", truth=Graph.from_edges("abx", ["ab"]))


def test_convergence_and_matrix() -> None:
    history = "round,primal,h\n" + "".join(f"{k},{10.0**-k},{1 / k}\n" for k in range(1, 9))
    files = graph_files(CHAIN, **{"history.csv": history})
    picture = figure(files, "convergence")
    assert "ADMM primal residual" in picture
    assert "log10" in picture
    assert "weight / 0.9" in figure(files, "matrix")
    with pytest.raises(DataError, match="no history"):
        figure(graph_files(CHAIN), "convergence")


def test_a_matrix_is_ordered_by_structure_and_named_after_what_it_shows() -> None:
    graph = Graph.from_edges(["effect", "alone", "cause"], [("cause", "effect")])
    for kind in ("probability", "frequency"):
        rows = f"a,b,adjacent,forward,backward,kind\ncause,effect,1.0,0.9,0.1,{kind}\n"
        picture = figure(graph_files(graph, **{"pairs.csv": rows}), "matrix")
        assert f"{kind} of each edge" in picture
        assert picture.index(">cause<") < picture.index(">effect<") < picture.index(">alone<")


@pytest.mark.parametrize("kind", ["graph", "matrix"])
def test_figures_are_as_wide_as_asked(kind: str, tmp_path: Path) -> None:
    picture = figure(graph_files(CHAIN), kind)
    root = ElementTree.fromstring(scaled(picture, 60.0))
    assert root.attrib["width"] == "60mm"
    _, _, across, down = map(float, root.attrib["viewBox"].split())
    assert float(root.attrib["height"][:-2]) == pytest.approx(60 * down / across, abs=0.01)
    sizes = [points(picture, width) for width in (60, 88, 180)]
    assert all(later / earlier == pytest.approx(b / a) for (earlier, later), (a, b) in
               zip(pairwise(sizes), pairwise((60, 88, 180)), strict=True))  # fmt: skip
    save(picture, tmp_path / "f.svg", 60.0)
    assert (tmp_path / "f.svg").read_text(encoding="utf-8") == scaled(picture, 60.0)


def test_pdf_and_png(tmp_path: Path) -> None:
    pytest.importorskip("typst", reason="the extra figures is not installed")
    picture = figure(graph_files(Graph.from_edges(["α", "<b>"], [("α", "<b>")])), "graph")
    for name in ("f.pdf", "f.png"):
        save(picture, tmp_path / name, 50.8)
    assert (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")
    png = (tmp_path / "f.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert abs(int.from_bytes(png[16:20], "big") - 600) <= 1  # two inches at 300 pixels each


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must end with \.svg, \.pdf, \.png"):
        save(plot.svg(CHAIN), tmp_path / "f.jpg")


def test_script_and_pictures_agree_on_when_a_direction_is_sure() -> None:
    source = Path(__file__).parents[1] / "frontend" / "src" / "pairs.js"
    if not source.is_file():
        pytest.skip("the front end's sources are not here")
    found = re.search(r"const SURE = ([\d.]+);", source.read_text(encoding="utf-8"))
    assert found is not None
    assert float(found[1]) == SURE
