"""Distributions of places in mode jumps, fitted to orders around the modes."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Index
from polydag.posterior.orders.mode_jumps.moves import Layout, ModeJump

_STEPS = 60  # of the fixed-point iteration
_SHAPES = (0.1, 1000.0)  # the smallest and the largest parameter
_TINY = 1e-300  # keeps the divisor positive where no variable has any choice


def fit_proposals(mode_jump: ModeJump, orders: Index) -> ModeJump:
    """The jump with maximum-likelihood distributions of places, given orders of shape (orders, n)."""
    along = -1 if mode_jump.backwards else 1
    one, other = (_fitted(layout, orders[:, ::along]) for layout in mode_jump.layouts)
    return ModeJump((one, other), mode_jump.backwards)


def _fitted(layout: Layout, orders: Index) -> Layout:
    """By Minka's fixed-point iteration, which raises the likelihood in every step."""
    from scipy.special import digamma

    from polydag.posterior.orders.mode_jumps._proposals_kernels import insert_part

    seen, rng = [], np.random.default_rng(0)  # not drawn from
    for order in orders:
        places = np.empty((len(layout.sequence), 2))
        if (
            insert_part(np.ascontiguousarray(order), layout, False, rng, np.empty_like(order), places)
            > -np.inf
        ):
            seen.append(places)
    if not seen:
        return layout
    available, left = np.moveaxis(np.array(seen), 2, 0)
    a, b = layout.shapes.T
    for _ in range(_STEPS):
        divisor = (digamma(available + a + b) - digamma(a + b)).sum(axis=0)
        new = [
            own * (digamma(count + own) - digamma(own)).sum(axis=0) / np.maximum(divisor, _TINY)
            for own, count in ((a, left), (b, available - left))
        ]
        a, b = (np.clip(own, *_SHAPES) for own in new)
    return layout._replace(shapes=np.column_stack([a, b]))
