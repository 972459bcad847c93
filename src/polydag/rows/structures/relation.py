"""One correlation for each kind of link, siblings and cousins for example: `Σ = I + Σ_k ρ_k A_k`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Mask
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.search import best_parameters
from polydag.rows.likelihood.whitening import Batches, Blocks
from polydag.rows.precision import Layout
from polydag.rows.structures.interface import Fitted


@dataclass(frozen=True, eq=False)
class Relation:
    """A correlation for each kind of link; rows that are not linked are independent.

    Attributes
    ----------
    layout : Layout
        The network's components.
    indicators : dict
        For each kind the components' matrices A, 1 where two rows have a link of this kind.
    """

    layout: Layout
    indicators: dict[str, list[Array]]
    name: str = "kinds"

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """The correlations with the highest restricted likelihood; Σ stays positive definite."""
        batches = Batches.of(self.layout)
        stacks = [self.layout.stacked(blocks) for blocks in self.indicators.values()]

        def at(theta: Array) -> Blocks:
            sigmas = []
            for number, rows in enumerate(batches.rows):
                Sigma = np.broadcast_to(np.eye(rows.shape[1]), stacks[0][number].shape).copy()
                for value, stack in zip(theta, stacks, strict=True):
                    Sigma += value * stack[number]
                sigmas.append(Sigma)
            return Blocks(batches, sigmas)

        bounds = [(-0.98, 0.98)] * len(stacks)
        starts = [[0.02] * len(stacks), [0.3 / 2**k for k in range(len(stacks))]]
        theta = best_parameters(at, bounds, starts, columns, scored)
        return Fitted(at(theta), {kind: float(r) for kind, r in zip(self.indicators, theta, strict=True)})
