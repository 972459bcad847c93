"""Coordinates in which one row can do little: centred, whitened, and within a ball.

Noise is added to sums in such a frame, so it is as large in all directions of it. In the columns' own units
it would hide the directions in which the data varies least, and those say which column depends on which. The
data's own frame is found step by step (after Biswas et al. 2020): noisy moments in a wide frame tell enough
for a narrower one. A frame follows from noisy moments alone, so telling it costs nothing more.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_TAIL = math.log(100)  # of Gaussian rows, less than one in a hundred is shortened


class Moments(NamedTuple):
    """Moments within a frame: how many rows, their mean and covariance, and the noise of a covariance."""

    n: float
    mean: Array
    covariance: Array
    noise: float


class Frame(NamedTuple):
    """Rows become `(x − centre) @ transform`, and are shortened to the radius where they are longer."""

    centre: Array
    transform: Array
    radius: float

    @classmethod
    def of_bounds(cls, bounds: Array) -> Self:
        """Columns brought to [−1, 1], rows as long as one that is spread evenly over it typically is."""
        half = np.ptp(bounds, axis=1) / 2
        return cls(bounds.mean(axis=1), np.diag(1 / half), math.sqrt(max(1.0, len(bounds) / 3)))

    def rows(self, table: Array) -> Array:
        """A table in the frame."""
        inside = (table - self.centre) @ self.transform
        norms = np.sqrt((inside**2).sum(axis=1, keepdims=True))
        shorter: Array = inside * np.minimum(1.0, self.radius / np.maximum(norms, 1e-300))
        return shorter

    def moments(self, table: Array) -> Array:
        """Count, sums, and sums of products as one vector; squares weigh less, as they stand there once."""
        rows = self.rows(table)
        products = rows.T @ rows
        upper = np.triu_indices(len(products))
        return np.concatenate(
            [[float(len(rows))], rows.sum(axis=0), (products * _weight(len(products)))[upper]]
        )

    def read(self, found: Array, deviation: float) -> Moments:
        """The moments that a noisy sum of such vectors tells."""
        d = len(self.centre)
        n = max(float(found[0]), deviation, 2.0)  # no fewer than noise alone may amount to
        mean = found[1 : 1 + d] / n
        second = np.zeros((d, d))
        second[np.triu_indices(d)] = found[1 + d :] / n
        second /= _weight(d)
        second += np.triu(second, 1).T
        return Moments(n, mean, second - np.outer(mean, mean), deviation / n)

    def narrowed(self, found: Moments) -> Self:
        """The frame in which rows have about unit variance in every direction that noise does not hide."""
        values, vectors = np.linalg.eigh(found.covariance)
        hidden = found.noise * math.sqrt(len(values))  # how far noise moves the eigenvalues
        spread = np.maximum(values, hidden)
        share = np.clip((values + hidden) / spread, 0.05, 1.0)  # of unit variance, at most
        # A quantile of a sum of squares with these variances (Laurent and Massart 2000).
        square = share.sum() + 2 * math.sqrt((share**2).sum() * _TAIL) + 2 * share.max() * _TAIL
        centre = self.centre + np.linalg.solve(self.transform.T, found.mean)
        return type(self)(centre, self.transform @ (vectors / np.sqrt(spread)), math.sqrt(square))

    def outside(self, found: Moments) -> tuple[float, Array, Array]:
        """Rows, mean and covariance in the columns' own units.

        Directions that noise has turned negative are as narrow as it may be. Noise tells like fewer rows: so
        many that chance would be as large as both together.
        """
        values, vectors = np.linalg.eigh(found.covariance)
        values = np.maximum(values, max(found.noise * math.sqrt(len(values)), 1e-12))
        typical = float(np.exp(np.log(values).mean()))
        n = max(found.n / (1 + found.n * (found.noise / typical) ** 2), 2.0)
        back = np.linalg.inv(self.transform)
        half: Array = (vectors * np.sqrt(values)).T @ back
        return n, self.centre + back.T @ found.mean, half.T @ half

    @property
    def spread(self) -> Array:
        """The covariance that the frame takes the rows to have."""
        back = np.linalg.inv(self.transform)
        return back.T @ back


def moments_sensitivity(radius: float) -> float:
    """How far a row moves the vector of moments within a radius: `1 + r² + r⁴/2` at most, squared."""
    return math.sqrt(1 + radius**2 + radius**4 / 2)


def _weight(d: int) -> Array:
    return np.where(np.eye(d, dtype=bool), math.sqrt(0.5), 1.0)
