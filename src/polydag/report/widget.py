"""The interactive graph of the report as a notebook widget (anywidget); it needs the extra `notebook`."""

from __future__ import annotations

from typing import Any

from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.report.page import asset
from polydag.report.view import graph_view


def explore(shown: Any) -> Any:
    """An interactive view of a graph, a posterior or a fitted learner, for notebooks.

    Parameters
    ----------
    shown : Graph, Posterior, or fitted learner
        What to look at: with a threshold slider, search and a panel for each pair, as in a report.
    """
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise UsageError(
            "An interactive view needs the package anywidget: pip install 'polydag[notebook]'. "
            "Without it, plot() draws a picture."
        ) from None
    widget = type(
        "GraphWidget",
        (anywidget.AnyWidget,),
        {"_esm": asset("report.js"), "_css": asset("report.css"), "view": traitlets.Dict().tag(sync=True)},
    )
    return widget(view=_view(shown))


def _view(shown: Any) -> dict[str, Any]:
    if isinstance(shown, Graph):
        return graph_view(shown)
    posterior = getattr(shown, "posterior_", shown)
    if hasattr(posterior, "probabilities"):
        graph = shown.graph_ if hasattr(shown, "graph_") else posterior.graph()
        return graph_view(graph, posterior.probabilities)
    if isinstance(getattr(shown, "graph_", None), Graph):
        return graph_view(shown.graph_)
    raise UsageError(f"explore shows a Graph, a posterior or a fitted learner, not {type(shown).__name__}.")
