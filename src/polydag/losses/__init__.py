"""What a graph's parameters cost on the data; to add a loss, write a file and name it here."""

from polydag.losses.least_squares import LeastSquares

__all__ = ["LeastSquares"]
