"""What notebooks show of graphs, posteriors and learners."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from browser import CHROMIUM, chromium
from polydag import simulate
from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.learners import EqualVariance
from polydag.plot import picture, svg
from polydag.posterior.probabilities import Posterior
from polydag.report import explore
from polydag.report.page import asset

GRAPH = Graph.from_edges(["<b>a</b>", "b"], [("<b>a</b>", "b", 0.4)])


def test_a_graph_is_its_picture_with_escaped_names(tmp_path: Path) -> None:
    assert GRAPH._repr_svg_() == svg(GRAPH)
    assert "<b>" not in GRAPH._repr_html_()
    GRAPH.plot().save(tmp_path / "graph.svg", 60)
    assert "60mm" in (tmp_path / "graph.svg").read_text(encoding="utf-8")


def test_large_graphs_show_their_strongest_edges() -> None:
    graph = simulate.dag(70, n_edges=200, random_state=1)
    shown = graph.plot()
    assert shown.caption == "the 80 strongest edges of 70 nodes and 200 edges"
    weights = sorted(np.abs(graph.weights[graph.adjacency]))[-3:]
    assert all(f"weight {value:.3g}" in graph.plot(top=3).svg.replace("-", "") for value in weights)
    assert picture(graph, top=200).svg == svg(graph)


def test_a_posterior_shows_probabilities() -> None:
    posterior = Posterior(("x", "y"), np.array([[0.0, 0.6], [0.4, 0.0]]), "exact")
    assert "x — y, probability 1.00" in posterior._repr_html_()
    view = explore_view(posterior)
    assert view["graphs"][0]["pairs"] == [[0, 1, 1, 1, 0.6, 0.4]]


def test_a_learner_shows_parameters_and_once_fitted_its_graph() -> None:
    learner = EqualVariance()
    assert "<figure>" not in learner._repr_mimebundle_()["text/html"]
    learner.fit(simulate.linear(simulate.dag(3, n_edges=2, random_state=1), n=50, random_state=1))
    assert svg(learner.graph_).partition("<title>")[2] in learner._repr_mimebundle_()["text/html"]
    assert learner.plot().svg == svg(learner.graph_)
    assert explore_view(learner)["nodes"] == list(learner.graph_.names)


def explore_view(shown: object) -> dict[str, list[dict[str, object]]]:
    pytest.importorskip("anywidget", reason="the extra notebook is not installed")
    view: dict[str, list[dict[str, object]]] = explore(shown).view
    json.dumps(view, allow_nan=False)
    return view


def test_what_cannot_be_explored_is_refused() -> None:
    pytest.importorskip("anywidget", reason="the extra notebook is not installed")
    with pytest.raises(UsageError, match="not str"):
        explore("graph")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt install chromium)")
@pytest.mark.xdist_group("browser")
def test_the_widget_draws_with_the_script_of_the_report(tmp_path: Path) -> None:
    """As anywidget does it: the script is a module whose `render` gets the model and an element."""
    view = explore_view(GRAPH)
    with chromium() as browser:
        (tmp_path / "page.html").write_text("<!doctype html><body>")
        browser.open((tmp_path / "page.html").as_uri())
        script = json.dumps(asset("report.js"))
        browser.run(
            f"import(URL.createObjectURL(new Blob([{script}], {{ type: 'text/javascript' }}))).then((m) => "
            f"m.default.render({{ model: {{ get: () => ({json.dumps(view)}) }}, el: document.body }}))"
            ".then(() => true)"
        )
        browser.wait("/1 edge shown of 1/.test(document.querySelector('.count')?.textContent)")
