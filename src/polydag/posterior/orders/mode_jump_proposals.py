"""How the places of variables in a jump are distributed, fitted to orders that were seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag.posterior.orders.mode_jumps import Jump, Side

Index = NDArray[np.int64]

_STEPS = 60  # of the fixed point
_SHAPES = (0.1, 1000.0)  # the smallest and the largest parameter
_TINY = 1e-300  # where no variable has any choice, there is nothing to divide by


def fitted(jump: Jump, orders: Index) -> Jump:
    """The jump with distributions of places that are as likely as possible, given some orders."""
    along = -1 if jump.backwards else 1
    one, other = (_fitted(side, orders[:, ::along]) for side in jump[:2])
    return Jump(one, other, jump.backwards)


def _fitted(side: Side, orders: Index) -> Side:
    """By Minka's fixed point, which raises the likelihood in every step."""
    from scipy.special import digamma

    from polydag.posterior.orders._mode_jumps_kernels import put_back

    rooms, rng = [], np.random.default_rng(0)  # which is not drawn from
    for order in orders:
        own = np.empty((len(side.sequence), 2))
        line = np.empty_like(order)
        if put_back(np.ascontiguousarray(order), side, False, rng, line, own) > -np.inf:
            rooms.append(own)
    if not rooms:
        return side
    most, room = np.moveaxis(np.array(rooms), 2, 0)
    a, b = side.shapes.T
    for _ in range(_STEPS):
        all_of = (digamma(most + a + b) - digamma(a + b)).sum(axis=0)
        new = [
            own * (digamma(count + own) - digamma(own)).sum(axis=0) / np.maximum(all_of, _TINY)
            for own, count in ((a, room), (b, most - room))
        ]
        a, b = (np.clip(own, *_SHAPES) for own in new)
    return side._replace(shapes=np.column_stack([a, b]))
