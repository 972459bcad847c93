"""Where vertices stand: the third step of a layered drawing.

Each layer in turn is moved as close as it can to the mean of its neighbours. With the order fixed, the
places that minimise `Σ w (x - wish)²` under the least distances are an isotonic regression, found by pooling
adjacent violators.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from polydag.plot.layers import Layered

_SWEEPS = 12
_DUMMY_WEIGHT = 4.0  # long edges should be straight


def across(drawing: Layered, widths: Sequence[float], gap: float, bend: float) -> list[float]:
    """The horizontal centre of every vertex; nodes keep `gap` between them, dummies `bend`."""
    n = len(widths)
    half = [width / 2 for width in widths] + [0.0] * (len(drawing.up) - n)
    weight = [1.0] * n + [_DUMMY_WEIGHT] * (len(drawing.up) - n)
    x = [0.0] * len(drawing.up)
    steps = []
    for layer in drawing.layers:
        apart = [half[a] + half[b] + (gap if a < n and b < n else bend) for a, b in pairwise(layer)]
        steps.append(apart)
        offsets = _running(apart)
        for vertex, offset in zip(layer, offsets, strict=True):
            x[vertex] = offset - offsets[-1] / 2
    for sweep in range(_SWEEPS):
        falling = sweep % 2 == 0
        for where in range(len(drawing.layers)) if falling else reversed(range(len(drawing.layers))):
            layer = drawing.layers[where]
            wishes = [_wish(vertex, x, drawing, falling, sweep >= _SWEEPS - 4) for vertex in layer]
            places = closest(wishes, [weight[vertex] for vertex in layer], steps[where])
            for vertex, place in zip(layer, places, strict=True):
                x[vertex] = place
    return x


def _wish(vertex: int, x: Sequence[float], drawing: Layered, falling: bool, both: bool) -> float:
    if both:
        near = drawing.up[vertex] + drawing.down[vertex]
    else:
        near = drawing.up[vertex] if falling else drawing.down[vertex]
    return sum(x[other] for other in near) / len(near) if near else x[vertex]


def _running(apart: Sequence[float]) -> list[float]:
    offsets = [0.0]
    for step in apart:
        offsets.append(offsets[-1] + step)
    return offsets


def closest(wishes: Sequence[float], weights: Sequence[float], apart: Sequence[float]) -> list[float]:
    """The places closest to the wishes in weighted least squares, each at least `apart` from the next."""
    offsets = _running(apart)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        mean, mass, members = wish - offset, weight, 1
        while pools and pools[-1][0] > mean:
            before, heavy, many = pools.pop()
            mean = (before * heavy + mean * mass) / (heavy + mass)
            mass, members = heavy + mass, many + members
        pools.append((mean, mass, members))
    flat = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=True)]
