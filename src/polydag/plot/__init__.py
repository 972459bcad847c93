"""Pictures of graphs as self-contained SVG, with a built-in layered layout; no other programs are needed."""

from polydag.plot.graph_drawing import svg
from polydag.plot.pictures import Picture, picture

__all__ = ["Picture", "picture", "svg"]
