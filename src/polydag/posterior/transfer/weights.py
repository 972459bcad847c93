"""Priors of the similarity of parent sets in two tasks (the tasks paper, equations 7 to 10).

For parent sets π and π' inside the same u predecessors the prior is a function of `δ = |π \\ π'|`, the number
of parents that the other task lacks:

    P(π, π' | λ) = (1-λ)^δ / Z(λ),    f(δ) = ∫ (1-λ)^δ / Z(λ) dλ.

Z is `(4-λ)^u` where all pairs of sets count (eq. 8), or the sum over sets of at most `max_parents` members.
With `S(T) = Σ_{π' ⊇ T} s(π')`, sums over the other task's sets are exact and cheap:

    Σ_π' s(π') f(|π \\ π'|) = Σ_{T ⊆ π} c(|π|, |T|) S(T),    c(p, t) = ∫ (1-λ)^{p-t} λ^t / Z(λ) dλ,

since `1 = ((1-λ) + λ)^{|π ∩ π'|}`; every term is positive, and `f(δ) = c(δ, 0)`. A custom prior is a function
f; its c are differences of f.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from polydag.arrays import Array
from polydag.errors import UsageError

Normaliser = Literal["all", "truncated"]
NORMALISERS = ("all", "truncated")
_PANELS, _NODES = 12, 20  # panels are halved towards λ = 1, where the integrand is steep


@runtime_checkable
class TransferPrior(Protocol):
    """What the transfer needs of a prior of pairs of parent sets."""

    def subsets(self, u: int, max_parents: int) -> Array:
        """`log c(p, t)` at `[p, t]` for u predecessors, p up to `max_parents`; -inf where t > p."""


@dataclass(frozen=True)
class Averaged:
    """λ averaged uniformly over [0, 1] (eq. 10).

    Parameters
    ----------
    normaliser : {"all", "truncated"}
        Z over all pairs of sets, as in the paper, where c is a Beta function times 2F1(u, t+1; p+2; 1/4); or
        over sets of at most `max_parents` members.
    """

    normaliser: Normaliser = "all"

    def subsets(self, u: int, max_parents: int) -> Array:
        """`log c(p, t)`."""
        _require_normaliser(self.normaliser)
        result = np.full((max_parents + 1, max_parents + 1), -np.inf)
        if self.normaliser == "truncated":
            x, weight = _quadrature()
            inverse = weight / np.polynomial.polynomial.polyval(x, pair_counts(u, max_parents))
        for p in range(max_parents + 1):
            for t in range(p + 1):
                if self.normaliser == "truncated":
                    result[p, t] = math.log(float(inverse @ (x ** (p - t) * (1 - x) ** t)))
                else:
                    beta = math.lgamma(t + 1) + math.lgamma(p - t + 1) - math.lgamma(p + 2)
                    result[p, t] = beta + log_hyp2f1(u, t + 1, p + 2) - u * math.log(4.0)
        return result


@dataclass(frozen=True)
class Fixed:
    """One λ in [0, 1]: at 0 tasks are unrelated, at 1 a parent must be one in the other task (eq. 9)."""

    lambda_: float
    normaliser: Normaliser = "all"

    def subsets(self, u: int, max_parents: int) -> Array:
        """`log c(p, t)`."""
        _require_normaliser(self.normaliser)
        if not 0 <= self.lambda_ <= 1:
            raise UsageError(f"lambda_ must lie between 0 (no transfer) and 1; got {self.lambda_}.")
        lam, x = self.lambda_, 1.0 - self.lambda_
        if self.normaliser == "truncated":
            log_z = math.log(float(np.polynomial.polynomial.polyval(x, pair_counts(u, max_parents))))
        else:
            log_z = u * math.log(4.0 - lam)
        p, t = np.indices((max_parents + 1, max_parents + 1))
        with np.errstate(divide="ignore"):
            logs = np.log(np.where(t <= p, x ** np.maximum(p - t, 0) * lam**t, 0.0))
        result: Array = logs - log_z
        return result


@dataclass(frozen=True)
class ByDifference:
    """A custom prior.

    Parameters
    ----------
    function : callable
        `function(u, δ)` is the weight of a pair of parent sets that differ by δ. It must be a mixture of
        powers `x^δ` with x in [0, 1], such as `(1-λ)^δ`, `exp(-δ)` or `1/(1+δ)`: decreasing and convex.
    """

    function: Callable[[int, int], float]

    def subsets(self, u: int, max_parents: int) -> Array:
        """`log c(p, t)`, with `c(p, t) = Σ_m (-1)^(t-m) C(t, m) f(p-m)`."""
        f = np.array([self.function(u, delta) for delta in range(max_parents + 1)], dtype=float)
        result = np.full((max_parents + 1, max_parents + 1), -np.inf)
        for p in range(max_parents + 1):
            for t in range(p + 1):
                terms = [(-1) ** (t - m) * math.comb(t, m) * f[p - m] for m in range(t + 1)]
                total, size = math.fsum(terms), max(map(abs, terms))
                if not np.isfinite(total) or total < -1e-12 * size or f[p] <= 0:
                    raise UsageError(
                        f"The weights {f.tolist()} of parent sets that differ by 0, 1, … are not a mixture "
                        "of powers x^δ with x in [0, 1]: they must be positive, decreasing and convex."
                    )
                result[p, t] = math.log(total) if total > 1e-15 * size else -np.inf
        return result


def log_hyp2f1(a: int, b: int, c: int) -> float:
    """`log 2F1(a, b; c; 1/4)` for a, b ≥ 0 and c > b; all terms of its series are positive.

    With thousands of variables the terms overflow, so they are computed relative to the largest.
    """
    if a == 0 or b == 0:
        return 0.0
    k = np.arange(64 + 4 * (a + b), dtype=float)
    ratios = (a + k) * (b + k) / ((c + k) * (k + 1)) / 4
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    top = float(logs.max())
    return top + math.log(math.fsum(np.exp(logs - top).tolist()))


def pair_counts(u: int, max_parents: int) -> Array:
    """The number of pairs of subsets of u elements, up to `max_parents` members, by their difference δ."""
    top = min(u, max_parents)
    counts = [0] * (max_parents + 1)
    for p in range(top + 1):
        for common in range(p + 1):
            others = sum(math.comb(u - p, q - common) for q in range(common, top + 1))
            counts[p - common] += math.comb(u, p) * math.comb(p, common) * others
    return np.array(counts, dtype=float)


def own_marginal(log_c: Array, u: int) -> Array:
    """`log Σ_π' f(|π \\ π'|)` by the size of π, over sets π' of at most `max_parents` members."""
    top = len(log_c) - 1
    f = np.exp(log_c[:, 0] - log_c[0, 0])
    result = np.full(top + 1, -np.inf)
    for p in range(min(top, u) + 1):
        total = [
            math.comb(p, common) * math.comb(u - p, q - common) * f[p - common]
            for common in range(p + 1)
            for q in range(common, min(top, u) + 1)
        ]
        result[p] = math.log(math.fsum(total)) + log_c[0, 0]
    return result


def _require_normaliser(name: str) -> None:
    if name not in NORMALISERS:
        raise UsageError(f"normaliser must be one of {', '.join(NORMALISERS)}; got {name!r}.")


def _quadrature() -> tuple[Array, Array]:
    """Gauss-Legendre points and weights for `x = 1 - λ` on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    ends = np.array([0.0, *(2.0 ** -np.arange(_PANELS - 1, -1, -1))])
    half = np.diff(ends)[:, None] / 2
    x = half * nodes + (ends[:-1, None] + half)
    return x.ravel(), (half * weights).ravel()
