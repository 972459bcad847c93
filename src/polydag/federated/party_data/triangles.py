"""Symmetric matrices as their upper triangles: what is below says nothing more, and takes as many bytes."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array


def triangle_size(d: int) -> int:
    """How many numbers a symmetric matrix of d rows holds.

    Examples
    --------
    >>> triangle_size(3)
    6
    """
    return d * (d + 1) // 2


def triangle_of(matrix: Array) -> Array:
    """The upper triangle of a symmetric matrix, row by row."""
    return np.asarray(matrix[np.triu_indices(len(matrix))])


def symmetric(triangle: Array, d: int) -> Array:
    """The symmetric matrix of d rows with this upper triangle.

    Examples
    --------
    >>> symmetric(np.array([1.0, 2.0, 3.0]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    found = np.empty((d, d))
    rows, columns = np.triu_indices(d)
    found[rows, columns] = triangle
    found[columns, rows] = triangle
    return found
