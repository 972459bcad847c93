"""Coordinates in which the effect of one row is small: centred, whitened, and clipped to a ball.

Noise is added to sums in such coordinates, where it has the same size in every direction. In the original
units it would hide the directions in which the data varies least, and those determine which column depends on
which. The whitening is found step by step (after Biswas et al. 2020): noisy moments in wide coordinates
suffice for narrower ones. It follows from noisy moments alone, so publishing it costs no further privacy.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from polydag.arrays import Array

_TAIL = math.log(100)  # fewer than one Gaussian row in a hundred is clipped


class WhitenedMoments(NamedTuple):
    """Moments in whitened coordinates: rows, mean, covariance, and the noise of a covariance entry."""

    n: float
    mean: Array
    covariance: Array
    noise: float


class Whitening(NamedTuple):
    """The map of rows to `(x − centre) @ transform`, clipped to norm `radius`."""

    centre: Array
    transform: Array
    radius: float

    @classmethod
    def from_bounds(cls, bounds: Array) -> Self:
        """Map columns to [−1, 1]; the radius is the typical norm of a row that is uniform on it."""
        half = np.ptp(bounds, axis=1) / 2
        return cls(bounds.mean(axis=1), np.diag(1 / half), math.sqrt(max(1.0, len(bounds) / 3)))

    def apply(self, table: Array) -> Array:
        """The rows of a table in whitened coordinates; one that overflows is moved to the centre."""
        with np.errstate(over="ignore", invalid="ignore"):
            inside = (table - self.centre) @ self.transform
            norms = np.sqrt((inside**2).sum(axis=1, keepdims=True))
        inside = np.where(np.isfinite(norms), inside, 0.0)
        norms = np.where(np.isfinite(norms), norms, 0.0)
        clipped: Array = inside * np.minimum(1.0, self.radius / np.maximum(norms, 1e-300))
        return clipped

    def moment_vector(self, table: Array) -> Array:
        """Count, sums and sums of products as one vector; squares get less weight, since they occur once."""
        rows = self.apply(table)
        products = rows.T @ rows
        upper = np.triu_indices(len(products))
        return np.concatenate(
            [[float(len(rows))], rows.sum(axis=0), (products * _weight(len(products)))[upper]]
        )

    def moments_from(self, vector: Array, deviation: float) -> WhitenedMoments:
        """The moments in a noisy sum of moment vectors, whose noise has this standard deviation."""
        d = len(self.centre)
        n = max(float(vector[0]), deviation, 2.0)  # no fewer than noise alone may produce
        mean = vector[1 : 1 + d] / n
        second = np.zeros((d, d))
        second[np.triu_indices(d)] = vector[1 + d :] / n
        second /= _weight(d)
        second += np.triu(second, 1).T
        return WhitenedMoments(n, mean, second - np.outer(mean, mean), deviation / n)

    def narrowed(self, found: WhitenedMoments) -> Self:
        """A whitening that gives about unit variance to every direction that noise does not hide."""
        values, vectors = np.linalg.eigh(found.covariance)
        hidden = found.noise * math.sqrt(len(values))  # how far noise moves the eigenvalues
        spread = np.maximum(values, hidden)
        share = np.clip((values + hidden) / spread, 0.05, 1.0)  # of unit variance, at most
        # A quantile of a sum of squares with these variances (Laurent and Massart 2000).
        square = share.sum() + 2 * math.sqrt((share**2).sum() * _TAIL) + 2 * share.max() * _TAIL
        centre = self.centre + np.linalg.solve(self.transform.T, found.mean)
        return type(self)(centre, self.transform @ (vectors / np.sqrt(spread)), math.sqrt(square))

    def original_moments(self, found: WhitenedMoments) -> tuple[float, Array, Array]:
        """Effective rows, mean and covariance in the original units.

        Eigenvalues that noise has made negative are raised to the size of the noise. The number of rows is
        reduced to the one at which sampling error alone would be as large as sampling error and noise are
        together.
        """
        values, vectors = np.linalg.eigh(found.covariance)
        values = np.maximum(values, max(found.noise * math.sqrt(len(values)), 1e-12))
        typical = float(np.exp(np.log(values).mean()))
        n = max(found.n / (1 + found.n * (found.noise / typical) ** 2), 2.0)
        back = np.linalg.inv(self.transform)
        half: Array = (vectors * np.sqrt(values)).T @ back
        return n, self.centre + back.T @ found.mean, half.T @ half

    @property
    def covariance(self) -> Array:
        """The covariance of rows that this whitening maps to unit covariance."""
        back = np.linalg.inv(self.transform)
        return back.T @ back


def moment_sensitivity(radius: float) -> float:
    """How far one row of norm at most `radius` moves the moment vector: √(1 + r² + r⁴/2) at most."""
    return math.sqrt(1 + radius**2 + radius**4 / 2)


def _weight(d: int) -> Array:
    return np.where(np.eye(d, dtype=bool), math.sqrt(0.5), 1.0)
