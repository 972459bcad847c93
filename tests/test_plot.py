"""Pictures of graphs: every node and edge is drawn, nothing overlaps, and output is deterministic."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag import simulate
from polydag.embedded import asia
from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.plot import svg
from polydag.plot.horizontal_positions import nearest_positions
from polydag.plot.layered_layout import layered_layout
from polydag.plot.layers import assign, crossings, downward, layered
from polydag.plot.packing import packed
from polydag.plot.svg_style import NEGATIVE, PLAIN, POSITIVE, shortened, text_width

SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def dags(draw: st.DrawFn, largest: int = 12) -> Graph:
    d = draw(st.integers(1, largest))
    seed = draw(st.integers(0, 2**31))
    share = draw(st.floats(0, 1))
    return simulate.dag(d, expected_edges=share * d * (d - 1) / 2, random_state=seed)


def drawn(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def edge_groups(picture: str) -> list[ElementTree.Element]:
    return [group for group in drawn(picture).iter(f"{SVG}g") if group.find(f"{SVG}path") is not None]


@given(dags())
@settings(max_examples=60, deadline=None)
def test_every_node_and_edge_is_drawn_once(graph: Graph) -> None:
    picture = svg(graph)
    labels = [text.text for text in drawn(picture).iter(f"{SVG}text")]
    assert [label for label in labels if label in graph.names] == list(graph.names)
    arrows = [group.findtext(f"{SVG}title", "").split(",")[0] for group in edge_groups(picture)]
    assert sorted(arrows) == sorted(f"{e.source} → {e.target}" for e in graph.edges())
    assert svg(graph) == picture


@given(dags())
@settings(max_examples=60, deadline=None)
def test_boxes_do_not_overlap_and_edges_point_down(graph: Graph) -> None:
    boxes, curves = layered_layout(graph)
    for a, b in itertools.combinations(boxes, 2):
        apart = abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) >= 30
        assert apart
    for curve in curves:
        heights = [y for _, y in curve.points]
        assert heights == sorted(heights)
        assert boxes[curve.upper].y < boxes[curve.lower].y


@given(dags())
@settings(max_examples=40, deadline=None)
def test_everything_lies_inside_the_picture(graph: Graph) -> None:
    left, top, width, height = map(float, drawn(svg(graph)).attrib["viewBox"].split())
    boxes, curves = packed(graph)
    for box in boxes:
        assert left <= box.x - box.width / 2
        assert box.x + box.width / 2 <= left + width
        assert top <= box.y - 15
        assert box.y + 15 <= top + height
    assert all(left <= x <= left + width for curve in curves for x, _ in curve.points)


def brute_crossings(layers: list[list[int]], down: list[list[int]]) -> int:
    count = 0
    for upper, lower in itertools.pairwise(layers):
        edges = [(upper.index(a), lower.index(b)) for a in upper for b in down[a]]
        count += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in itertools.combinations(edges, 2))
    return count


@given(dags(9))
@settings(max_examples=40, deadline=None)
def test_layers_hold_edges_of_length_one_and_crossings_are_counted(graph: Graph) -> None:
    D = downward(graph.adjacency)
    level = assign(D)
    level = [where - min(level) for where in level]
    drawing = layered(D, level)
    place = {vertex: k for k, layer in enumerate(drawing.layers) for vertex in layer}
    assert all(place[b] == place[a] + 1 for a, below in enumerate(drawing.down) for b in below)
    assert crossings(drawing.layers, drawing.down) == brute_crossings(drawing.layers, drawing.down)
    unsorted = layered(D, level).layers
    assert crossings(drawing.layers, drawing.down) <= crossings([sorted(x) for x in unsorted], drawing.down)


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0.5, 4), st.floats(0, 20)), min_size=1, max_size=7))
@settings(max_examples=60, deadline=None)
def test_places_are_the_least_squares_ones(items: list[tuple[float, float, float]]) -> None:
    wishes, weights, gaps = (list(column) for column in zip(*items, strict=True))
    apart = gaps[1:]
    places = np.array(nearest_positions(wishes, weights, apart))
    assert (np.diff(places) >= np.array(apart) - 1e-9).all()

    def cost(x: NDArray[np.float64]) -> float:
        return float(np.array(weights) @ (x - np.array(wishes)) ** 2)

    # The problem is convex, so no small feasible step can improve it; random steps are tried.
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = places + rng.normal(0, 0.3, len(places))
        if (np.diff(other) >= np.array(apart)).all():
            assert cost(other) >= cost(places) - 1e-6


def test_sign_is_colour_and_size_is_width() -> None:
    graph = Graph.from_edges("abc", [("a", "b", 2.0), ("a", "c", -0.5)])
    paths = {group.findtext(f"{SVG}title"): group.find(f"{SVG}path") for group in edge_groups(svg(graph))}
    strong, weak = paths["a → b, weight 2"], paths["a → c, weight -0.5"]
    assert strong is not None
    assert weak is not None
    assert (strong.attrib["stroke"], weak.attrib["stroke"]) == (POSITIVE, NEGATIVE)
    assert float(strong.attrib["stroke-width"]) > float(weak.attrib["stroke-width"])
    assert "positive" in svg(graph)
    assert "negative" in svg(graph)


def test_undirected_edges_have_no_arrowhead() -> None:
    cpdag = asia().graph.to_cpdag()
    picture = svg(cpdag)
    heads = sum(group.find(f"{SVG}polygon") is not None for group in edge_groups(picture))
    assert heads == sum(edge.directed for edge in cpdag.edges())
    assert len(edge_groups(picture)) == cpdag.n_edges
    assert "direction not determined" in picture


def test_a_cyclic_graph_is_drawn_in_node_order() -> None:
    graph = Graph.from_edges("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    boxes, _ = layered_layout(graph)
    assert boxes[0].y < boxes[1].y < boxes[2].y
    assert len(edge_groups(svg(graph))) == 3


def test_names_are_escaped_and_long_ones_kept_in_a_hint() -> None:
    long = "a very long name " * 5
    picture = svg(Graph(np.zeros((3, 3)), ['<b>&"x"</b>', "tab\there\x07", long]))
    labels = [text.text for text in drawn(picture).iter(f"{SVG}text")]
    assert labels[0] == '<b>&"x"</b>'
    assert labels[2] is not None
    assert labels[2].endswith("…")
    assert long in [title.text for title in drawn(picture).iter(f"{SVG}title")]


def test_probabilities_fade_edges() -> None:
    graph = Graph.from_edges("abc", [("a", "b"), ("b", "c")])
    groups = edge_groups(svg(graph, [[0, 0.9, 0], [0, 0, 0.2], [0, 0, 0]]))
    opacity = {group.findtext(f"{SVG}title", "")[:5]: float(group.attrib["opacity"]) for group in groups}
    assert opacity["a → b"] > opacity["b → c"]


def test_pictures_of_posteriors_are_on_one_scale_and_know_no_weights() -> None:
    widths = {}
    for p in (0.51, 0.97):
        graph = Graph.from_edges("abc", [("a", "b", p), ("b", "c", 0.6)])
        picture = svg(graph, np.where(graph.adjacency, graph.weights, 0.1))
        assert not any(word in picture for word in ("weight", "positive", POSITIVE, NEGATIVE)), picture
        assert "probability 0.5<" in picture
        for group in edge_groups(picture):
            path = group.find(f"{SVG}path")
            assert path is not None
            assert path.attrib["stroke"] == PLAIN
            widths[group.findtext(f"{SVG}title"), p] = float(path.attrib["stroke-width"])
    first = "a → b, probability 0.61 (→ 0.51, ← 0.10)"
    second = "a → b, probability 1.00 (→ 0.97, ← 0.10)"
    assert widths[first, 0.51] < widths[second, 0.97]
    other = "b → c, probability 0.70 (→ 0.60, ← 0.10)"
    assert widths[other, 0.51] == widths[other, 0.97]


def test_a_sure_connection_without_a_sure_direction_is_a_thick_line() -> None:
    graph = Graph.from_edges(["raf", "mek", "erk"], [("raf", "mek", 0.504), ("mek", "erk", 0.9)])
    P = np.array([[0, 0.504, 0], [0.496, 0, 0.9], [0, 0.05, 0]])
    picture = svg(graph, P)
    unsure, sure = edge_groups(picture)
    assert unsure.findtext(f"{SVG}title") == "raf — mek, probability 1.00 (→ 0.50, ← 0.50)"
    assert unsure.find(f"{SVG}polygon") is None
    assert sure.find(f"{SVG}polygon") is not None
    widths = [float(group.find(f"{SVG}path").attrib["stroke-width"]) for group in (unsure, sure)]  # type: ignore[union-attr]
    assert widths[0] > widths[1]
    assert "no arrowhead: direction not determined" in picture


def test_weights_beside_bootstrap_probabilities_keep_their_signs() -> None:
    graph = Graph.from_edges("abc", [("a", "b", 0.9), ("b", "c", -0.4)])
    picture = svg(graph, np.where(graph.adjacency, 0.9, 0.0))
    assert "b → c, weight -0.4, probability 0.90 (→ 0.90, ← 0.00)" in picture
    assert all(word in picture for word in (POSITIVE, NEGATIVE, "|weight| 0.9", "fainter: less probable"))


@given(st.text(max_size=60), st.floats(0, 300))
@settings(max_examples=60, deadline=None)
def test_shortened_texts_fit_and_keep_both_ends(text: str, room: float) -> None:
    short = shortened(text, room, 11)
    assert short == "…" or text_width(short, 11) <= room
    if short != text:
        first, _, last = short.partition("…")
        assert text.startswith(first)
        assert text.endswith(last) or "…" in last
        assert len(short) <= len(text)


@pytest.mark.parametrize("bad", [[[0.5]], [[0, 2], [0, 0]], [[np.nan, 0], [0, 0]]])
def test_wrong_probabilities_are_refused(bad: list[list[float]]) -> None:
    with pytest.raises(UsageError, match="Probabilities"):
        svg(Graph(np.zeros((2, 2))), bad)


def test_two_hundred_nodes() -> None:
    graph = simulate.dag(200, expected_edges=400, random_state=0)
    picture = svg(graph)
    assert len(edge_groups(picture)) == graph.n_edges
    _, _, width, height = map(float, drawn(picture).attrib["viewBox"].split())
    assert max(width, height) < 8000
