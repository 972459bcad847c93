"""Figures of the tasks paper: a common scale for all panels, rare edges on top, small files."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pandas as pd
import pytest

from polydag.plot.line_and_box_charts import COLOURS, Bundle, Line, Panel, line_charts
from polydag.reproduce import brain
from polydag.reproduce import multitask as paper
from polydag.reproduce.ranking import roc_points

SVG = "{http://www.w3.org/2000/svg}"


def learning_curves(d: int, sizes: tuple[int, ...], highest: float) -> pd.DataFrame:
    """A table in the form of figures 2 and 4, with random posteriors; true edges come first."""
    rng = np.random.default_rng(0)
    pairs = list(itertools.permutations(range(d), 2))
    kinds = dict.fromkeys(pairs, "no edge")
    for k in range(d - 1):
        kinds[k, k + 1], kinds[k + 1, k] = ("unique", "shared")[k % 2], "reverse"
    rows = [
        (size, method, f"x{i}", f"x{j}", kinds[i, j], highest * rng.random(), 0.1)
        for size in sizes
        for method in paper.METHODS
        for i, j in pairs
    ]
    return pd.DataFrame(rows, columns=["samples", "method", "source", "target", "kind", "mean", "sd"])


def ticks(panel: ElementTree.Element) -> list[str]:
    ends = [text.text or "" for text in panel.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
    return [text for text in ends if text]


def panels(picture: str) -> list[ElementTree.Element]:
    return [group for group in ElementTree.fromstring(picture).iter(f"{SVG}g") if group.get("transform")]


@pytest.mark.parametrize("highest", [0.3, 0.77, 1.0])
def test_probabilities_have_one_axis_and_rare_edges_lie_on_top(highest: float) -> None:
    table = learning_curves(4, (5, 10, 20), highest)
    drawn = panels(paper.pictures({"figure2": table})["figure2"])
    assert len(drawn) == 4
    for panel in drawn:
        assert ticks(panel) == ["0", "0.25", "0.5", "0.75", "1"]
        lines = [path for path in panel.iter(f"{SVG}path") if path.get("fill") == "none"]
        assert [path.get("stroke") for path in lines] == list(COLOURS[:4])  # no edge first, unique last
        assert [path.attrib["d"].count("M") for path in lines] == [6, 3, 1, 2]


def test_more_than_a_thousand_lines_a_panel_stay_a_small_file() -> None:
    table = learning_curves(37, (25, 50, 75, 100, 200, 300, 400, 500), 1.0)
    assert len(table) == 4 * 1332 * 8
    assert len(paper.pictures({"figure4": table})["figure4"].encode()) < 400_000


def test_bundles_go_through_their_points() -> None:
    values = [[0.0, 0.5, 1.0], [1.0, float("nan"), 0.25], [0.3, 0.3, 0.3], [0.3, 0.3, 0.3]]
    picture = line_charts([Panel("p", "x", [1, 2, 3], [Bundle("all", values)], y_max=1.0)])
    (path,) = (p.attrib["d"] for p in ElementTree.fromstring(picture).iter(f"{SVG}path") if p.get("fill"))
    lines = path.split("M")[1:]
    assert len(lines) == 3  # identical lines are drawn once
    for line, expected in zip(lines, values, strict=False):
        start, steps = (np.array(part.split(), dtype=float).reshape(-1, 2) for part in line.split("l"))
        points = np.cumsum(np.vstack([start, steps]), axis=0)
        seen = [(52 + 234 * (k + 0.5) / 3, 178 - 148 * v) for k, v in enumerate(expected) if v == v]
        assert (np.abs(points - seen) <= [0.51, 0.06]).all()


def test_single_points_and_error_bars_beyond_the_axis_are_drawn() -> None:
    dash = line_charts([Panel("p", "x", [1], [Bundle("one", [[0.5]])], y_max=1.0)])
    assert 'd="M165 104h8"' in dash
    bars = line_charts([Panel("p", "x", [1], [Line("one", [0.9], [0.4])], y_max=1.0)])
    assert 'd="M169.0 104.0V30.0"' in bars


def test_roc_curves_fill_one_square_and_reach_its_end() -> None:
    rng = np.random.default_rng(0)
    true, parts = rng.random((2, 9, 9)) < 0.2, []
    for size, method, form in itertools.product((5, 10), ("MTL", "STL"), paper.FORMS):
        P = np.where(rng.random(true.shape) < 0.5, 0.0, rng.random(true.shape))  # many tied at 0
        fpr, tpr = roc_points(true, P, form, corners=True)
        columns = {"samples": size, "method": method, "form": form, "fpr": fpr, "tpr": tpr}
        parts.append(pd.DataFrame(columns))
    drawn = panels(paper.pictures({"figure3": pd.concat(parts)})["figure3"])
    assert len(drawn) == 4
    for panel in drawn:
        assert ticks(panel) == ["0", "0.25", "0.5", "0.75", "1"]
        for curve in panel.iter(f"{SVG}polyline"):
            points = [tuple(map(float, point.split(","))) for point in curve.attrib["points"].split()]
            assert points[0][0] == 52
            assert points[-1][0] == 286
            assert all(52 <= x <= 286 and 30 <= y <= 178 for x, y in points)


def test_figure_6_compares_sets_of_data_on_the_same_axes() -> None:
    rows = [
        (data, subjects, draw, method, scale * (1 + draw) / 1000, scale / 9)
        for data, scale in (("simulated", 1), ("abide", 7))
        for subjects in (2, 5)
        for draw in (0, 1)
        for method in brain.METHODS
    ]
    table = pd.DataFrame(rows, columns=["data", "subjects", "draw", "method", "non_edges", "edges"])
    axes = [ticks(panel) for panel in panels(brain.pictures({"figure6": table})["figure6"])]
    assert axes[0] == axes[2]
    assert float(axes[0][-1]) < 0.1
    assert axes[1] == axes[3] == ["0", "0.25", "0.5", "0.75", "1"]
