"""Least squares of every variable on a small neural network of the others (Zheng et al. 2020).

Variable j is `offset_j + Σ_k outer_jk (σ(bias_jk + Σ_i inner_ijk x_i) − ½)` plus noise, where σ is the
logistic function. Subtracting ½ centres the units, so the offset stays small and can be penalised like the
other parameters. All networks are evaluated at once, with one matrix product forward and one backward.

The influence of i on j is `V_ij = Σ_k inner_ijk²`, the argument of the acyclicity functions. It is zero only
if i has no effect. Its size is not interpretable, because inner and outer weights can be rescaled against
each other. The reported strength of an edge is therefore the root mean square slope of the prediction over
the rows, which in a linear model is the weight. A `Shape` describes the parameters to a solver, without data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import expit

from polydag.arrays import Array, Mask


class Shape(Protocol):
    """The layout of the parameters of all networks in one flat vector."""

    @property
    def d(self) -> int:
        """The number of variables."""
        ...

    @property
    def size(self) -> int:
        """The number of parameters."""
        ...

    @property
    def ridged(self) -> Mask:
        """Which parameters the ℓ2 penalty applies to."""
        ...

    def start(self, rng: np.random.Generator) -> Array:
        """Random parameters with very small effects."""
        ...

    def hold(self, theta: Array, forbidden: Mask) -> tuple[Array, Mask]:
        """The parameters without the forbidden effects, and a mask of the parameters held fixed."""
        ...

    def influence(self, theta: Array) -> Array:
        """V, the argument of the acyclicity functions."""
        ...

    def pull_back(self, theta: Array, slope: Array) -> Array:
        """The gradient in the parameters of a function whose gradient in V is `slope`."""
        ...

    def lasso(self, rates: Array) -> Array:
        """The ℓ1 penalty rate of every parameter, given the rate of each effect."""
        ...

    def sparsity(self, theta: Array, rates: Array) -> tuple[float, Array]:
        """The smooth part of the sparsity penalty, and its gradient."""
        ...

    def curvature(self, theta: Array, rates: Array, slope: Array) -> Array:
        """A diagonal curvature bound of `sparsity` plus a function whose gradient in V is `slope`."""
        ...


class Parts(NamedTuple):
    """Views into a flat vector of parameters; `inner[d]` holds the biases."""

    inner: Array
    outer: Array
    offset: Array


@dataclass(frozen=True)
class MLPShape:
    """`inner` of shape (d + 1, d, hidden), then `outer` (d, hidden), then `offset` (d,)."""

    d: int
    hidden: int = 10

    @property
    def n_inner(self) -> int:
        """The number of first-layer weights without biases, which come first in the vector."""
        return self.d * self.d * self.hidden

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.n_inner + self.d * (2 * self.hidden + 1)

    @property
    def ridged(self) -> Mask:
        """Which parameters the ℓ2 penalty applies to: all of them."""
        return np.ones(self.size, dtype=bool)

    def split(self, theta: Array) -> Parts:
        """Views of the layers."""
        d, m = self.d, self.hidden
        end = (d + 1) * d * m
        return Parts(
            theta[:end].reshape(d + 1, d, m), theta[end : end + d * m].reshape(d, m), theta[end + d * m :]
        )

    def start(self, rng: np.random.Generator) -> Array:
        """Random parameters: very small effects, spread biases, outer weights large enough for gradients."""
        theta = np.zeros(self.size)
        inner, outer, _ = self.split(theta)
        inner[:-1] = 0.01 * rng.standard_normal((self.d, self.d, self.hidden))
        inner[-1] = 0.1 * rng.standard_normal((self.d, self.hidden))
        outer[:] = 0.5 * rng.standard_normal((self.d, self.hidden))
        return theta

    def hold(self, theta: Array, forbidden: Mask) -> tuple[Array, Mask]:
        """The parameters without the forbidden effects, and a mask of the parameters held fixed."""
        held = np.zeros(self.size, dtype=bool)
        held[: self.n_inner] = np.repeat(forbidden.ravel(), self.hidden)
        return np.where(held, 0.0, theta), held

    def influence(self, theta: Array) -> Array:
        """V, the squared norms of the first-layer weights."""
        inner = self.split(theta).inner[:-1]
        result: Array = np.einsum("ijk,ijk->ij", inner, inner)
        return result

    def pull_back(self, theta: Array, slope: Array) -> Array:
        """`2·slope_ij·inner_ijk` for the first-layer weights, zero elsewhere."""
        gradient = np.zeros(self.size)
        self.split(gradient).inner[:-1] = 2 * slope[:, :, None] * self.split(theta).inner[:-1]
        return gradient

    def lasso(self, rates: Array) -> Array:
        """The ℓ1 penalty rate of every parameter: each first-layer weight has the rate of its effect."""
        every = np.zeros(self.size)
        every[: self.n_inner] = np.repeat(rates.ravel(), self.hidden)
        return every

    def sparsity(self, theta: Array, rates: Array) -> tuple[float, Array]:
        """Zero: the ℓ1 penalty is the only sparsity penalty."""
        return 0.0, np.zeros(self.size)

    def curvature(self, theta: Array, rates: Array, slope: Array) -> Array:
        """`2·slope_ij` for each first-layer weight: V is quadratic in them."""
        return 2 * self.lasso(slope)


class MLP:
    """The loss `Σ residual² / 2n` of rows; `n` counts the rows of all parties, so that losses add up."""

    def __init__(self, rows: Array, hidden: int = 10, *, n_total: float | None = None) -> None:
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.shape = MLPShape(self.rows.shape[1], hidden)
        self.n_total = float(len(self.rows)) if n_total is None else float(n_total)
        self._inputs = np.column_stack([self.rows, np.ones(len(self.rows))])  # the last is the bias input
        self._units = np.empty((len(self.rows), self.shape.d * hidden))
        self._slopes = np.empty_like(self._units)

    def value_and_grad(self, theta: Array) -> tuple[float, Array]:
        """The loss and its gradient."""
        gradient = np.empty_like(theta)
        parts, into = self.shape.split(theta), self.shape.split(gradient)
        d, m = parts.outer.shape
        residual = self._residuals(parts)
        units, slopes = self._units, self._slopes
        by_variable = units.reshape(-1, d, m)
        value = 0.5 * float(np.vdot(residual, residual)) / self.n_total
        residual /= self.n_total
        into.offset[:] = residual.sum(axis=0)
        np.einsum("njk,nj->jk", by_variable, residual, out=into.outer)
        np.multiply(units, units, out=slopes)
        np.subtract(0.25, slopes, out=slopes)  # the derivative of σ, from σ − ½
        slopes *= parts.outer.ravel()
        slopes.reshape(-1, d, m)[...] *= residual[:, :, None]
        np.matmul(self._inputs.T, slopes, out=into.inner.reshape(d + 1, d * m))
        return value, gradient

    def _residuals(self, parts: Parts) -> Array:
        """Prediction minus observation; stores the centred hidden units in `_units`."""
        d, m = parts.outer.shape
        units = self._units
        np.matmul(self._inputs, parts.inner.reshape(d + 1, d * m), out=units)
        expit(units, out=units)
        units -= 0.5
        predicted = np.einsum("njk,jk->nj", units.reshape(-1, d, m), parts.outer)
        residual: Array = predicted + parts.offset - self.rows
        return residual

    def squared_residuals(self, theta: Array) -> Array:
        """The residual sum of squares of every variable, divided by `n_total`; additive over parties."""
        residual = self._residuals(self.shape.split(theta))
        result: Array = np.einsum("nj,nj->j", residual, residual) / self.n_total
        return result

    def squared_slopes(self, theta: Array) -> Array:
        """`[i, j]` is `Σ (∂f_j/∂x_i)²` over the rows, divided by `n_total`; additive over parties."""
        inner, outer, _ = self.shape.split(theta)
        d, m = outer.shape
        units = expit(self._inputs @ inner.reshape(d + 1, d * m)).reshape(-1, d, m)
        slopes = (units * (1 - units) * outer).transpose(1, 2, 0)
        products = slopes @ slopes.transpose(0, 2, 1) / self.n_total
        by_target = inner[:-1].transpose(1, 0, 2)
        result: Array = np.einsum("jik,jik->ij", by_target @ products, by_target)
        return np.maximum(result, 0.0)
