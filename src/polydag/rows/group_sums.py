"""Rows in groups with one correlation, from sums alone: `Σ = (1 − r) I + r J` within each group.

With `w_g = m_g / (1 − r + r m_g)` for a group of m_g rows, the moments of the decorrelated rows are

    1ᵀΣ⁻¹1 = Σ w_g,   mean = Σ w_g x̄_g / Σ w_g,   scatter = W / (1 − r) + Σ w_g (x̄_g − mean)(x̄_g − mean)ᵀ,

where W is the scatter of the rows within their groups. The restricted likelihood of r needs no more, so that
rows can be read once, in any order, and only the groups' sizes and means and W are kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.rows.likelihood.restricted import deviances_of_gram
from polydag.rows.structures.exchangeable import LARGEST
from polydag.stats import GaussianStats
from polydag.stats.rows import numeric_rows, require_finite

_LARGEST = 1e140  # whose squares can still be added up
_TOLERANCE = 1e-5  # of the correlation
_ALIKE = 1e-12  # of a column's variance within groups, relative to all of it


@dataclass(frozen=True, eq=False)
class GroupSums:
    """The sizes and means of groups of rows, and the scatter within all of them.

    Attributes
    ----------
    sizes : array of shape (G,)
        The number of rows of each group.
    means : array of shape (G, d)
        The means of each group.
    within : array of shape (d, d)
        The scatter of the rows about the means of their groups.
    names : tuple of str
        The variables.
    """

    sizes: Array
    means: Array
    within: Array
    names: tuple[str, ...]

    @classmethod
    def from_batches(cls, batches: Iterable[Any], group: str) -> Self:
        """The sums of a stream of Arrow batches or DataFrames; `group` is a column of labels."""
        place: dict[Hashable, int] = {}
        total: Self | None = None
        done = 0
        for batch in batches:
            frame = batch.to_pandas() if hasattr(batch, "to_pandas") else batch
            if group not in frame.columns:
                raise DataError(f"There is no column {group}.")
            if not len(frame):
                continue
            if (lost := frame[group].isna()).any():
                raise DataError(f"Row {done + int(lost.argmax()) + 1} has no value of {group}. Give it one.")
            labels, first = np.unique(frame[group].to_numpy(), return_inverse=True)
            codes = np.array([place.setdefault(label, len(place)) for label in labels.tolist()])[first]
            X, found = numeric_rows(frame.drop(columns=group))
            names = tuple(found or ())
            if not names:
                raise DataError(f"There is no column beside {group}.")
            require_finite(X, names, done)
            for name, largest in zip(names, np.abs(X).max(axis=0), strict=True):
                if largest > _LARGEST:
                    raise DataError(
                        f"The values of column {name} are too large to be squared. Check them, or change "
                        "their units."
                    )
            part = cls._of_rows(X, codes, len(place), names)
            total = part if total is None else total._grown(len(place)) + part
            done += len(X)
        if total is None:
            raise DataError("The data has no rows.")
        return total

    @classmethod
    def _of_rows(cls, X: Array, codes: Index, count: int, names: tuple[str, ...]) -> Self:
        sizes = np.bincount(codes, minlength=count).astype(float)
        shift = X.mean(axis=0)
        sums = np.stack([np.bincount(codes, column, count) for column in (X - shift).T], axis=1)
        means = shift + sums / np.maximum(sizes, 1.0)[:, None]
        left = X - means[codes]
        return cls(sizes, means, left.T @ left, names)

    def _grown(self, count: int) -> Self:
        """The same with room for groups that have no rows yet."""
        more = count - len(self.sizes)
        means = np.concatenate([self.means, np.zeros((more, len(self.names)))])
        return type(self)(np.concatenate([self.sizes, np.zeros(more)]), means, self.within, self.names)

    def __add__(self, other: Self) -> Self:
        sizes = self.sizes + other.sizes
        both = np.maximum(sizes, 1.0)
        delta = other.means - self.means
        means = self.means + delta * (other.sizes / both)[:, None]
        weight = self.sizes * other.sizes / both
        within = self.within + other.within + delta.T @ (delta * weight[:, None])
        return type(self)(sizes, means, within, self.names)

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.sizes.sum())

    @property
    def lowest(self) -> float:
        """The smallest correlation at which Σ is positive definite, with a margin."""
        return -LARGEST / (float(self.sizes.max()) - 1.0)

    @property
    def alike(self) -> list[str]:
        """The columns that are the same in all rows of each group."""
        whole = self.moments(0.0).scatter.diagonal()
        return [self.names[j] for j in np.flatnonzero(self.within.diagonal() <= _ALIKE * whole)]

    def moments(self, correlation: float) -> GaussianStats:
        """The moments of the rows once they are decorrelated."""
        weights = self.sizes / (1.0 - correlation + correlation * self.sizes)
        mass = float(weights.sum())
        mean = weights @ self.means / mass
        between = self.means - mean
        scatter = self.within / (1.0 - correlation) + between.T @ (between * weights[:, None])
        return GaussianStats(float(self.n), mean, scatter, self.names, mass)

    def deviances(self, correlation: float, order: Index) -> Array:
        """`−2 log` of the restricted likelihood of each column, in an order, given those before it."""
        found, d = self.moments(correlation), len(self.names)
        G = np.zeros((1 + d, 1 + d))  # of the intercept and the columns about their mean, all whitened
        G[0, 0], G[1:, 1:] = found.mass, found.scatter[np.ix_(order, order)]
        own = np.log(1.0 - correlation + correlation * self.sizes)
        log_determinant = float(((self.sizes - 1.0) * np.log(1.0 - correlation) + own).sum())
        return deviances_of_gram(G, log_determinant, self.n, 1)

    def likeliest(self, random_state: int | None = None) -> float:
        """The correlation with the highest restricted likelihood of all columns, in a random order."""
        from scipy.optimize import minimize_scalar

        order = np.random.default_rng(0 if random_state is None else random_state).permutation(
            len(self.names)
        )
        found = minimize_scalar(
            lambda r: float(self.deviances(r, order).sum()),
            bounds=(self.lowest, LARGEST),
            method="bounded",
            options={"xatol": _TOLERANCE},
        )
        return float(found.x)

    def effective_n(self, correlation: float) -> float:
        """`n²/tr(Σ²)`: what the rows are worth for edges where their dependence is ignored."""
        m = self.sizes
        return float(self.n**2 / (m * (1.0 + (m - 1.0) * correlation**2)).sum())
