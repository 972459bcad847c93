"""SVG charts are well-formed, and everything is inside the panel."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag.plot.line_and_box_charts import (
    Box,
    BoxPanel,
    Curve,
    CurvePanel,
    Line,
    Panel,
    _quantile,
    box_charts,
    curve_charts,
    line_charts,
)

SVG = "{http://www.w3.org/2000/svg}"
numbers = st.lists(st.floats(-1e4, 1e4, allow_nan=False), min_size=1, max_size=12)


@given(numbers, st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
@settings(max_examples=50, deadline=None)
def test_quartiles_are_those_of_numpy(values: list[float], share: float) -> None:
    np.testing.assert_allclose(_quantile(values, share), np.quantile(values, share), atol=1e-8)


@given(st.lists(numbers, min_size=1, max_size=3))
@settings(max_examples=50, deadline=None)
def test_boxes_lie_inside_their_panel(groups: list[list[float]]) -> None:
    boxes = [Box(f"<{k}>", values) for k, values in enumerate(groups)]
    root = ET.fromstring(box_charts([BoxPanel("a & b", "decrease", boxes)]))
    places = [float(dot.attrib["cy"]) for dot in root.iter(f"{SVG}circle")]
    assert len(places) == sum(map(len, groups))
    assert all(29.9 <= y <= 178.1 for y in places)
    assert "<0>" in [text.text for text in root.iter(f"{SVG}text")]


def test_curves_lie_inside_their_panels_in_rows_of_four() -> None:
    panel = CurvePanel(
        "title", "x", "y", [Curve("one", [0.0, 0.1], [0.0, 0.93]), Curve("two", [0, 0.1], [0, 0.5])]
    )
    root = ET.fromstring(curve_charts([panel] * 5))
    lines = [line.attrib["points"] for line in root.iter(f"{SVG}polyline")]
    assert len(lines) == 10
    ends = [tuple(map(float, point.split(","))) for line in lines for point in line.split()]
    assert all(52 <= x <= 286 and 30 <= y <= 178 for x, y in ends)
    assert (float(root.attrib["width"]), float(root.attrib["height"])) == (1200.0, 466.0)


def test_a_panel_without_values_is_drawn_empty() -> None:
    root = ET.fromstring(box_charts([BoxPanel("nothing", "y", [Box("none", [])])]))
    assert not list(root.iter(f"{SVG}circle"))


@given(st.lists(st.text(alphabet="abc", min_size=2, max_size=28), min_size=1, max_size=9, unique=True))
@settings(max_examples=30, deadline=None)
def test_the_legend_stays_within_the_picture(labels: list[str]) -> None:
    lines = [Line(label, [0.0, 1.0], [0.0, 0.0]) for label in labels]
    root = ET.fromstring(line_charts([Panel("p", "x", [1, 2], lines)]))
    shown = [text for text in root.iter(f"{SVG}text") if text.text in labels]
    assert len({(text.attrib["x"], text.attrib["y"]) for text in shown}) == len(labels)
    for text in shown:
        assert float(text.attrib["y"]) < float(root.attrib["height"])
        assert float(text.attrib["x"]) + 6 * len(text.text or "") <= float(root.attrib["width"]) + 1
