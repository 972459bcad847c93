"""A known matrix K between rows, as kinship: `Σ = h² K + (1 − h²) I`, h² by restricted likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polydag.arrays import Array, Mask
from polydag.errors import DataError
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.search import best_parameters
from polydag.rows.likelihood.whitening import Batches, SpectralWhitening, Spectrum
from polydag.rows.precision import Layout
from polydag.rows.structures.interface import Fitted

_MOST = 0.999  # of the share that is estimated, where K has a mean variance of one
_TINY = 1e-9  # mean variance of K below which 1 − h² has too few digits
_ROUNDED = 0.01  # negative eigenvalues, of the trace, that rounding and left-out small entries explain
_SINGULAR = 1e-10  # the smallest eigenvalue of Σ, of the largest, below which nothing can be said of Θ


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
        values = [share * own + (1.0 - share) for own in self._spectrum.values]
        return SpectralWhitening(self._spectrum, values, scaled=False)

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """h² with the highest restricted likelihood, whatever the units of K."""
        share = self.share
        if share is None:
            if self._variance < _TINY:
                raise DataError(
                    f"The covariance of the rows has variances of about {self._variance:.2g}, too small to "
                    "estimate its share beside an identity. Give it in other units, where they are about 1."
                )
            found = best_parameters(
                lambda theta: self.at(self._in_units(float(theta[0]))),
                [(0.0, _MOST)],
                [[0.5]],
                columns,
                scored,
            )
            share = self._in_units(float(found[0]))
        result = self.at(share)
        smallest = min(float(own.min()) for own in result.values)
        if smallest <= _SINGULAR * max(float(own.max()) for own in result.values):
            raise DataError(
                f"The covariance of the rows is singular with share={share:g}: some rows follow from others, "
                "and decorrelation would leave nothing of them. Give a smaller share=, or none: it is then "
                "estimated."
            )
        return Fitted(result, {"h2": share})

    def _in_units(self, part: float) -> float:
        """h² where this part of the mean variance is explained."""
        return part / (part + (1.0 - part) * self._variance)

    @cached_property
    def _variance(self) -> float:
        return float(np.concatenate([block.diagonal() for block in self.covariance]).mean())

    @cached_property
    def _spectrum(self) -> Spectrum:
        batches = Batches.of(self.layout)
        found = Spectrum.of(batches, self.layout.stacked(self.covariance))
        values = np.concatenate([own.ravel() for own in found.values])
        if -np.minimum(values, 0.0).sum() > _ROUNDED * np.abs(values).sum():
            raise DataError(
                f"The covariance of the rows has negative eigenvalues (down to {values.min():.3g}, where the "
                f"largest is {values.max():.3g}), so no rows have it. If it was put together pair by pair, "
                "from parts of the data, or small entries were left out, compute it from all rows at once."
            )
        # Relationship matrices from markers have eigenvalues that are zero, or below it by rounding.
        return Spectrum(batches, found.vectors, [np.maximum(own, 0.0) for own in found.values])
