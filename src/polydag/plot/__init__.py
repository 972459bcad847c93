"""Pictures of graphs as self-contained SVG, with a built-in layered layout; no other programs are needed."""

from polydag.plot.graph_drawing import svg

__all__ = ["svg"]
