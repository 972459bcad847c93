"""Acyclicity functions: zero on acyclic graphs and positive elsewhere.

Each is a function of `V = W∘W`, the squared weights, with a non-negative gradient. A step that holds the
gradient fixed is therefore a ridge penalty on each edge, heaviest on the edges that close cycles. To add a
function, write a class with `value_and_grad` in a new file and register it in `polydag.acyclicity.registry`.
"""

from polydag.acyclicity.expm import Expm
from polydag.acyclicity.logdet import LogDet
from polydag.acyclicity.registry import ACYCLICITY, Acyclicity

__all__ = ["ACYCLICITY", "Acyclicity", "Expm", "LogDet"]
