"""Loss functions of a graph's parameters. To add one, write a file and import it here.

Time series need no loss of their own: `lagged` turns them into statistics for `LeastSquares`.
"""

from polydag.losses.least_squares import LeastSquares

__all__ = ["LeastSquares"]
