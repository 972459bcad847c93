"""One strength for all links, `Θ ∝ I + τ·Laplacian`, or a correlation that reaches further along them.

Within a group whose rows are all linked this is the same correlation `τ/(1 + τ)` for every pair, whatever the
group's size (the random-intercept model); on a network it is the intrinsic autoregressive model of spatial
statistics, kept proper by the identity (Leroux et al. 2000). A negative τ, as far as Θ stays positive
definite, makes linked rows less alike than others.

`Σ ∝ (1 − ν) (I + τ·Laplacian)^−α + ν I` has two parameters more: a row's own part ν of the variance, and the
smoothness α, with which the correlation of rows that are several links apart grows. All variances are scaled
to one, and one eigendecomposition of the Laplacian serves all parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from polydag.arrays import Array, Mask
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.search import best_parameters
from polydag.rows.likelihood.whitening import Batches, Blocks, SpectralWhitening, Spectrum, Whitening
from polydag.rows.precision import Layout
from polydag.rows.structures.interface import Fitted

LARGEST = 0.98  # of τ/(1 + τ); beyond it Θ is hardly invertible


@dataclass(frozen=True, eq=False)
class Exchangeable:
    """One strength for all links, of either sign."""

    layout: Layout
    name: str = "common"

    def at(self, strength: float) -> Whitening:
        """Σ for `τ/(1 + τ) = strength`, the correlation of two rows in a complete group."""
        if self._complete:
            sigmas = [
                (np.full((m, m), strength) + (1.0 - strength) * np.eye(m))[None]
                for m in (rows.shape[1] for rows in self._batches.rows)
            ]
            return Blocks(self._batches, sigmas)
        tau = strength / (1.0 - strength)
        return SpectralWhitening(
            self.spectrum, [1.0 / (1.0 + tau * values) for values in self.spectrum.values], scaled=True
        )

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """The strength with the highest restricted likelihood."""
        bounds = [(self.lowest, LARGEST)]
        strength = float(
            best_parameters(lambda theta: self.at(float(theta[0])), bounds, [[0.3]], columns, scored)[0]
        )
        return Fitted(self.at(strength), {"correlation" if self._complete else "strength": strength})

    def along_links(self, strengths: Array) -> Array:
        """The average correlation of linked rows at each strength."""
        if self._complete:
            return strengths
        ends = [
            np.nonzero(np.triu(stack < 0, 1)) for stack in self.layout.stacked(laplacian_blocks(self.layout))
        ]
        return np.array([self._along(ends, float(strength)) for strength in strengths])

    def _along(self, ends: list[tuple[Any, ...]], strength: float) -> float:
        """The average of Σ over the given pairs of rows, without all of Σ."""
        found = self.at(strength)
        assert isinstance(found, SpectralWhitening)
        total, count = 0.0, 0
        for U, f, (k, i, j) in zip(self.spectrum.vectors, found.values, ends, strict=True):
            d = np.einsum("kij,kj->ki", U * U, f)
            values = np.einsum("ej,ej,ej->e", U[k, i], f[k], U[k, j]) / np.sqrt(d[k, i] * d[k, j])
            total, count = total + float(values.sum()), count + len(values)
        return total / max(count, 1)

    @property
    def lowest(self) -> float:
        """The smallest strength at which Θ is positive definite, with a margin."""
        largest = (
            float(self.layout.sizes.max())
            if self._complete
            else max(float(values.max()) for values in self.spectrum.values)
        )
        return 0.0 if largest <= 1.0 else -LARGEST / (largest - 1.0)

    @cached_property
    def _batches(self) -> Batches:
        return Batches.of(self.layout)

    @cached_property
    def _complete(self) -> bool:
        sizes = self.layout.sizes
        return bool((np.diff(self.layout.frees) == sizes * (sizes + 1) // 2).all())

    @cached_property
    def spectrum(self) -> Spectrum:
        """That of the Laplacian."""
        return Spectrum.of(self._batches, self.layout.stacked(laplacian_blocks(self.layout)))


@dataclass(frozen=True, eq=False)
class Independent:
    """No correlation, with which the others are compared."""

    common: Exchangeable
    name: str = "independent"

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """Nothing is estimated."""
        return Fitted(self.common.at(0.0), {})


@dataclass(frozen=True, eq=False)
class Smooth:
    """A correlation that falls with the distance along the links of a network."""

    common: Exchangeable
    name: str = "smooth"

    def at(self, theta: Array) -> Whitening:
        """Σ for the logarithm of τ, the own part ν and the smoothness α."""
        tau, own, power = float(np.exp(theta[0])), float(theta[1]), float(theta[2])
        spectrum = self.common.spectrum
        values = [(1.0 - own) * (1.0 + tau * each) ** -power + own for each in spectrum.values]
        return SpectralWhitening(spectrum, values, scaled=True)

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """The parameters with the highest restricted likelihood."""
        bounds = [(-6.0, 6.0), (0.0, 0.98), (0.25, 4.0)]
        theta = best_parameters(self.at, bounds, [[0.5, 0.05, 1.0]], columns, scored)
        parameters = {
            "strength": float(np.exp(theta[0])),
            "own": float(theta[1]),
            "smoothness": float(theta[2]),
        }
        return Fitted(self.at(theta), parameters)


def laplacian_blocks(layout: Layout) -> list[Array]:
    """The Laplacian of each component's links."""
    result = []
    for c, m in enumerate(layout.sizes):
        free = slice(layout.frees[c], layout.frees[c + 1])
        A = np.zeros((m, m))
        A[layout.rows[free], layout.columns[free]] = 1.0
        A = np.maximum(A, A.T)
        np.fill_diagonal(A, 0.0)
        result.append(np.diag(A.sum(axis=1)) - A)
    return result
