"""Pictures of graphs as self-contained SVG: own layered layout, no other programs needed."""

from polydag.plot.drawing import svg

__all__ = ["svg"]
