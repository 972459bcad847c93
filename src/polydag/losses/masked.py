"""The masked network (Ng et al. 2019): an approximately binary adjacency mask on every network's inputs.

Input i of the network of variable j is multiplied by `M_ij = σ((U_ij + g_ij)/τ)` with logistic noise g: the
Gumbel softmax of two choices. The rows are divided into parts, each with its own noise, which is held fixed
while the loss is minimised. One evaluation thus averages over several draws at the cost of a plain network.
Acyclicity and sparsity are those of the edge probabilities `P = σ(U/τ)`; P/d is always in the domain of the
log-determinant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from polydag.arrays import Array, Mask
from polydag.losses.mlp import MLP, MLPShape

_NEVER = -40.0  # logit, in units of τ, at which the probability is effectively zero
_UNLIKELY = -3.0  # logit, in units of τ, of a probability of 5 %


@dataclass(frozen=True)
class MaskedShape:
    """The parameters of an `MLPShape`, then the logits `U` of shape (d, d)."""

    d: int
    hidden: int = 10
    temperature: float = 0.5

    @property
    def inside(self) -> MLPShape:
        """The networks behind the mask."""
        return MLPShape(self.d, self.hidden)

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.inside.size + self.d**2

    @property
    def ridged(self) -> Mask:
        """All parameters but the logits, for which zero means a probability of one half."""
        return np.arange(self.size) < self.inside.size

    def logits(self, theta: Array) -> Array:
        """The logits U of shape (d, d)."""
        return theta[self.inside.size :].reshape(self.d, self.d)

    def probabilities(self, theta: Array) -> Array:
        """The edge probabilities P of shape (d, d)."""
        result: Array = expit(self.logits(theta) / self.temperature)
        return result

    def start(self, rng: np.random.Generator) -> Array:
        """A random network with mask probabilities of one half.

        Its first-layer weights are larger than in `MLPShape.start`, since the mask already limits the
        effects.
        """
        network = self.inside.start(rng)
        self.inside.split(network).inner[:-1] *= 30
        return np.concatenate([network, np.zeros(self.d**2)])

    def make_unlikely(self, theta: Array, unlikely: Mask) -> Array:
        """The parameters, with the probability set to 5 % for the marked edges."""
        result = theta.copy()
        self.logits(result)[unlikely] = _UNLIKELY * self.temperature
        return result

    def hold(self, theta: Array, forbidden: Mask) -> tuple[Array, Mask]:
        """The parameters without the forbidden effects, and a mask of the parameters held fixed."""
        network, held = self.inside.hold(theta[: self.inside.size], forbidden)
        logits = np.where(forbidden, _NEVER * self.temperature, self.logits(theta))
        return np.concatenate([network, logits.ravel()]), np.concatenate([held, forbidden.ravel()])

    def influence(self, theta: Array) -> Array:
        """V = P/d, the argument of the acyclicity functions."""
        return self.probabilities(theta) / self.d

    def pull_back(self, theta: Array, slope: Array) -> Array:
        """The gradient in the parameters of a function whose gradient in V is `slope`."""
        return self._to_logits(theta, slope / self.d)

    def lasso(self, rates: Array) -> Array:
        """Zero: sparsity is a penalty on the mask."""
        return np.zeros(self.size)

    def sparsity(self, theta: Array, rates: Array) -> tuple[float, Array]:
        """`Σ rates·P`, the expected penalty of the edges, and its gradient."""
        return float(np.vdot(rates, self.probabilities(theta))), self._to_logits(theta, rates)

    def curvature(self, theta: Array, rates: Array, slope: Array) -> Array:
        """An upper bound on the curvature in the logits: the second derivative of σ is at most `P(1 − P)`."""
        P = self.probabilities(theta)
        every = np.zeros(self.size)
        self.logits(every)[:] = P * (1 - P) * (rates + np.abs(slope) / self.d) / self.temperature**2
        return every

    def _to_logits(self, theta: Array, slope: Array) -> Array:
        P = self.probabilities(theta)
        gradient = np.zeros(self.size)
        self.logits(gradient)[:] = slope * P * (1 - P) / self.temperature
        return gradient


class MaskedMLP:
    """The loss of rows under fixed noise of shape (parts, d, d); row r belongs to part `r mod parts`."""

    def __init__(
        self, rows: Array, shape: MaskedShape, noise: Array, *, n_total: float | None = None
    ) -> None:
        self.shape = shape
        self.noise = noise
        total = float(len(rows)) if n_total is None else n_total
        parts = (rows[k :: len(noise)] for k in range(len(noise)))
        self._parts = [MLP(part, shape.hidden, n_total=total) for part in parts]

    def squared_residuals(self, theta: Array) -> Array:
        """The residual sum of squares of every variable under the noise, divided by `n_total`."""
        total = np.zeros(self.shape.d)
        for part, noise in zip(self._parts, self.noise, strict=True):
            total += part.squared_residuals(self._masked(theta, noise)[1])
        return total

    def _masked(self, theta: Array, noise: Array) -> tuple[Array, Array]:
        """The mask under the noise of a part, and the network parameters with masked inputs."""
        M = expit((self.shape.logits(theta) + noise) / self.shape.temperature)
        inside = self.shape.inside
        masked = theta[: inside.size].copy()
        inside.split(masked).inner[:-1] *= M[:, :, None]
        return M, masked

    def value_and_grad(self, theta: Array) -> tuple[float, Array]:
        """The loss and its gradient."""
        inside, tau = self.shape.inside, self.shape.temperature
        bare = theta[: inside.size]
        value, gradient = 0.0, np.zeros_like(theta)
        to_logits = self.shape.logits(gradient)
        for part, noise in zip(self._parts, self.noise, strict=True):
            M, masked = self._masked(theta, noise)
            cost, slope = part.value_and_grad(masked)
            value += cost
            first = inside.split(slope).inner[:-1]
            to_logits += np.einsum("ijk,ijk->ij", first, inside.split(bare).inner[:-1]) * M * (1 - M) / tau
            first *= M[:, :, None]
            gradient[: inside.size] += slope
        return value, gradient


def mask_noise(d: int, parts: int, rng: np.random.Generator) -> Array:
    """Draw logistic noise of shape (parts, d, d) for `MaskedMLP`."""
    return rng.logistic(size=(parts, d, d))
