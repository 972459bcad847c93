"""Correlation that decays with the distance between two rows of a component: in time, in order, or in space.

`σ_ij = (1 − ν) (γ + (1 − γ) k(d_ij/ℓ))` off the diagonal: ν is the part of the variance that is a row's own,
γ the part that all rows of a component share (a random intercept), and k decays from one to zero. With
`k(x) = exp(−x)` and distances 0, 1, 2 … this is the autoregressive model of order one, with a sign where
neighbours are unlike; with `k(x) = (1 + √3 x) exp(−√3 x)` it is the Matérn model of smoothness 3/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.search import best_parameters
from polydag.rows.likelihood.whitening import Batches, Blocks
from polydag.rows.precision import Layout
from polydag.rows.structures.interface import Fitted

_PIECE = 400  # rows; larger components are divided while parameters are sought
_SHARE = (0.0, 0.98)


@dataclass(frozen=True, eq=False)
class Decay:
    """Exponential decay, or Matérn with smoothness 3/2 (`smooth`), by distance.

    Attributes
    ----------
    layout : Layout
        The network's components.
    places : array of shape (n, k)
        Times, positions or coordinates of the rows, sorted as in the layout.
    smooth : bool
        Matérn instead of exponential.
    intercept : bool
        Whether rows of a component share a part at any distance.
    """

    layout: Layout
    places: Array
    smooth: bool = False
    intercept: bool = True

    @property
    def name(self) -> str:
        """`decay` or `matern`."""
        return "matern" if self.smooth else "decay"

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """Length, own and shared parts with the highest restricted likelihood."""
        batches, distances = _in_pieces(self.layout, self.places)
        unit = self._unit
        free = 3 if self.intercept else 2
        starts = [[1.0, 0.1, 0.1], [2.5, 0.3, 0.05]]
        bounds = [(-1.5, 5.0), _SHARE, _SHARE]
        found: list[tuple[float, Array, float]] = []
        for sign in (1.0, -1.0) if self._alternates else (1.0,):

            def at(theta: Array, sign: float = sign) -> Blocks:
                return Blocks(batches, [self._correlation(d, theta, sign, unit) for d in distances])

            theta = best_parameters(
                at, bounds[:free], [start[:free] for start in starts[: 2 if sign > 0 else 1]], columns, scored
            )
            found.append((float(columns.deviances(at(theta))[scored].sum()), theta, sign))
        _, theta, sign = min(found, key=lambda each: each[0])
        whole = Batches.of(self.layout)
        sigmas = [self._correlation(d, theta, sign, unit) for d in _distances(whole, self.places)]
        shared = float(theta[2]) if self.intercept else 0.0
        parameters = {"length": unit * float(np.exp(theta[0])), "own": float(theta[1]), "shared": shared}
        return Fitted(Blocks(whole, sigmas), parameters if sign > 0 else {**parameters, "alternating": 1.0})

    @cached_property
    def _unit(self) -> float:
        """A typical distance of neighbours: the median distance to the nearest row of the component."""
        nearest = [
            np.where(d > 0, d, np.inf).min(axis=2)
            for d in _in_pieces(self.layout, self.places)[1]
            if d.shape[1] > 1
        ]
        if not nearest:
            return 1.0
        flat = np.concatenate([each.ravel() for each in nearest])
        flat = flat[np.isfinite(flat)]
        return float(np.median(flat)) if len(flat) else 1.0

    @cached_property
    def _alternates(self) -> bool:
        """Whether distances are whole numbers of steps in one dimension, so that signs can alternate."""
        if self.smooth or self.places.shape[1] > 1:
            return False
        steps = self.places[:, 0] / self._unit
        return bool(np.allclose(steps - steps[0], np.round(steps - steps[0]), atol=1e-6))

    def _correlation(self, distances: Array, theta: Array, sign: float, unit: float) -> Array:
        x = distances / (unit * np.exp(theta[0]))
        k = (1.0 + np.sqrt(3.0) * x) * np.exp(-np.sqrt(3.0) * x) if self.smooth else np.exp(-x)
        if sign < 0:
            k = k * np.where(np.round(distances / unit) % 2 == 1, -1.0, 1.0)
        own, shared = theta[1], theta[2] if self.intercept else 0.0
        Sigma = (1.0 - own) * (shared + (1.0 - shared) * k)
        m = Sigma.shape[1]
        Sigma[:, np.arange(m), np.arange(m)] = 1.0 + 1e-10
        return np.asarray(Sigma)


def _distances(batches: Batches, places: Array) -> list[Array]:
    """Distances within each component; one matrix where all of a batch are the same."""
    result = []
    for own in batches.stacked(places):
        d = np.zeros((len(own), own.shape[1], own.shape[1]))
        for axis in range(places.shape[1]):
            d += (own[:, :, None, axis] - own[:, None, :, axis]) ** 2
        d = np.sqrt(d)
        result.append(d[:1] if len(d) > 1 and np.array_equal(d, np.broadcast_to(d[:1], d.shape)) else d)
    return result


def _in_pieces(layout: Layout, places: Array) -> tuple[Batches, list[Array]]:
    """Batches in which large components are divided into near pieces, and their distances.

    The likelihood of the pieces, as if they were independent, finds the parameters at a fraction of the cost.
    """
    pieces: list[Index] = []
    for start, end in zip(layout.starts[:-1], layout.starts[1:], strict=True):
        pieces.extend(_divided(np.arange(start, end), places))
    sizes = np.array([len(piece) for piece in pieces])
    batches = Batches(
        tuple(
            np.array([piece for piece in pieces if len(piece) == m], dtype=np.int64) for m in np.unique(sizes)
        )
    )
    return batches, _distances(batches, places)


def _divided(rows: Index, places: Array) -> list[Index]:
    """Halves along the longer axis, until no piece is too large."""
    if len(rows) <= _PIECE:
        return [rows]
    axis = int(np.argmax(np.ptp(places[rows], axis=0)))
    order = rows[np.argsort(places[rows, axis], kind="stable")]
    half = len(order) // 2
    return [*_divided(order[:half], places), *_divided(order[half:], places)]
