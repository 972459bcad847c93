"""A known matrix K between rows, as kinship: `Σ = h² K + (1 − h²) I`, h² by restricted likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polydag.arrays import Array, Mask
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.search import best_parameters
from polydag.rows.likelihood.whitening import Batches, SpectralWhitening, Spectrum
from polydag.rows.precision import Layout
from polydag.rows.structures.interface import Fitted


@dataclass(frozen=True, eq=False)
class Known:
    """A known covariance of the rows, with the share of the variance that it explains.

    Attributes
    ----------
    layout : Layout
        The components of K.
    covariance : list of arrays
        K, one matrix for each component, rows sorted as in the layout.
    share : float, optional
        h², where it is known.
    """

    layout: Layout
    covariance: list[Array]
    share: float | None = None
    name: str = "known"

    def at(self, share: float) -> SpectralWhitening:
        """Σ for a given h²."""
        values = [share * own + 1.0 - share for own in self._spectrum.values]
        return SpectralWhitening(self._spectrum, values, scaled=False)

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """h² with the highest restricted likelihood, between 0 and almost 1."""
        share = self.share
        if share is None:
            found = best_parameters(
                lambda theta: self.at(float(theta[0])), [(0.0, 0.999)], [[0.5]], columns, scored
            )
            share = float(found[0])
        return Fitted(self.at(share), {"h2": share})

    @cached_property
    def _spectrum(self) -> Spectrum:
        batches = Batches.of(self.layout)
        found = Spectrum.of(batches, self.layout.stacked(self.covariance))
        # Relationship matrices from markers have eigenvalues that are zero, or below it by rounding.
        return Spectrum(batches, found.vectors, [np.maximum(values, 0.0) for values in found.values])
