"""What a graph's parameters cost on the data; to add a loss, write a file and name it here.

Time series need no loss of their own: `lagged` turns them into statistics for `LeastSquares`.
"""

from polydag.losses.least_squares import LeastSquares

__all__ = ["LeastSquares"]
