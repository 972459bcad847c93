"""Least squares of every variable on a small neural network of the others (Zheng et al. 2020).

Variable j is `offset_j + Σ_k outer_jk (σ(bias_jk + Σ_i inner_ijk x_i) − ½)` plus noise, σ the logistic
function. Less its value at zero a unit has no effect on the mean, so the offset stays small and can be
shrunk like everything else. All networks are evaluated at once: two matrix products, one each way.

How strongly i acts on j is `V_ij = Σ_k inner_ijk²`, zero only if i has no effect: the acyclicity functions
take V. Its size means little, as weights and outer weights trade off; what is reported as an edge's strength
is the slope of the prediction, root mean square over the rows: in a linear model, the weight. `Shape` is
what a solver needs to know of the parameters without any data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Shape(Protocol):
    """The parameters of a family of networks, as one flat vector."""

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
        """Which parameters are shrunk by the ℓ2 penalty."""
        ...

    def start(self, rng: np.random.Generator) -> Array:
        """Random parameters with next to no effects."""
        ...

    def hold(self, theta: Array, forbidden: Mask) -> tuple[Array, Mask]:
        """Parameters without the forbidden effects, and which of them may not move."""
        ...

    def closeness(self, theta: Array) -> Array:
        """V, what the acyclicity functions take."""
        ...

    def pull_back(self, theta: Array, slope: Array) -> Array:
        """The gradient with respect to the parameters of a function whose gradient in V is `slope`."""
        ...

    def lasso(self, rates: Array) -> Array:
        """The ℓ1 penalty of every parameter, where each effect's is given."""
        ...

    def sparsity(self, theta: Array, rates: Array) -> tuple[float, Array]:
        """The smooth part of the sparsity penalty, and its gradient."""
        ...

    def curvature(self, theta: Array, rates: Array, slope: Array) -> Array:
        """How fast the gradients of `sparsity` and of a function with gradient `slope` in V change."""
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
        """The number of first-layer weights, without biases; they come first."""
        return self.d * self.d * self.hidden

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.n_inner + self.d * (2 * self.hidden + 1)

    @property
    def ridged(self) -> Mask:
        """Which parameters are shrunk by the ℓ2 penalty: all."""
        return np.ones(self.size, dtype=bool)

    def split(self, theta: Array) -> Parts:
        """The layers."""
        d, m = self.d, self.hidden
        end = (d + 1) * d * m
        return Parts(
            theta[:end].reshape(d + 1, d, m), theta[end : end + d * m].reshape(d, m), theta[end + d * m :]
        )

    def start(self, rng: np.random.Generator) -> Array:
        """Random parameters: hardly any effects, spread biases, outer weights that let gradients through."""
        theta = np.zeros(self.size)
        inner, outer, _ = self.split(theta)
        inner[:-1] = 0.01 * rng.standard_normal((self.d, self.d, self.hidden))
        inner[-1] = 0.1 * rng.standard_normal((self.d, self.hidden))
        outer[:] = 0.5 * rng.standard_normal((self.d, self.hidden))
        return theta

    def hold(self, theta: Array, forbidden: Mask) -> tuple[Array, Mask]:
        """Parameters without the forbidden effects, and which of them may not move."""
        held = np.zeros(self.size, dtype=bool)
        held[: self.n_inner] = np.repeat(forbidden.ravel(), self.hidden)
        return np.where(held, 0.0, theta), held

    def closeness(self, theta: Array) -> Array:
        """V, the squared norms of the first-layer weights."""
        inner = self.split(theta).inner[:-1]
        result: Array = np.einsum("ijk,ijk->ij", inner, inner)
        return result

    def pull_back(self, theta: Array, slope: Array) -> Array:
        """`2·slope_ij·inner_ijk`, zero elsewhere."""
        gradient = np.zeros(self.size)
        self.split(gradient).inner[:-1] = 2 * slope[:, :, None] * self.split(theta).inner[:-1]
        return gradient

    def lasso(self, rates: Array) -> Array:
        """The ℓ1 penalty of every parameter: an effect's, on each of its first-layer weights."""
        every = np.zeros(self.size)
        every[: self.n_inner] = np.repeat(rates.ravel(), self.hidden)
        return every

    def sparsity(self, theta: Array, rates: Array) -> tuple[float, Array]:
        """Nothing: the ℓ1 penalty is all there is."""
        return 0.0, np.zeros(self.size)

    def curvature(self, theta: Array, rates: Array, slope: Array) -> Array:
        """`2·slope_ij` for each first-layer weight: V is quadratic in them."""
        return 2 * self.lasso(slope)


class MLP:
    """The loss `Σ residual² / 2n` of rows; `n` is that of all parties, so that their losses add up."""

    def __init__(self, rows: Array, hidden: int = 10, *, n_total: float | None = None) -> None:
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.shape = MLPShape(self.rows.shape[1], hidden)
        self.n_total = float(len(self.rows)) if n_total is None else float(n_total)
        self._inputs = np.column_stack([self.rows, np.ones(len(self.rows))])  # the last one feeds the biases
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
        """Prediction minus value; leaves the hidden units, less their value at zero, in `_units`."""
        d, m = parts.outer.shape
        units = self._units
        np.matmul(self._inputs, parts.inner.reshape(d + 1, d * m), out=units)
        expit(units, out=units)
        units -= 0.5
        predicted = np.einsum("njk,jk->nj", units.reshape(-1, d, m), parts.outer)
        residual: Array = predicted + parts.offset - self.rows
        return residual

    def squared_residuals(self, theta: Array) -> Array:
        """Every variable's residual sum of squares, divided by `n_total`: parties' add up."""
        residual = self._residuals(self.shape.split(theta))
        result: Array = np.einsum("nj,nj->j", residual, residual) / self.n_total
        return result

    def squared_slopes(self, theta: Array) -> Array:
        """`[i, j]`: the mean of `(∂f_j/∂x_i)²` over the rows, divided by `n_total`: parties' add up."""
        inner, outer, _ = self.shape.split(theta)
        d, m = outer.shape
        units = expit(self._inputs @ inner.reshape(d + 1, d * m)).reshape(-1, d, m)
        slopes = (units * (1 - units) * outer).transpose(1, 2, 0)
        products = slopes @ slopes.transpose(0, 2, 1) / self.n_total
        by_target = inner[:-1].transpose(1, 0, 2)
        result: Array = np.einsum("jik,jik->ij", by_target @ products, by_target)
        return np.maximum(result, 0.0)
