"""Horizontal positions of the vertices: the third step of a layered drawing.

Each layer in turn is moved as close as possible to the means of its neighbours. For a fixed order, the
positions that minimise `Σ w (x - target)²` subject to minimum distances are an isotonic regression, found by
pooling adjacent violators.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from polydag.plot.layers import Layered

_SWEEPS = 12
_DUMMY_WEIGHT = 4.0  # long edges should be straight


def horizontal_positions(drawing: Layered, widths: Sequence[float], gap: float, bend: float) -> list[float]:
    """The horizontal centre of every vertex; nodes are at least `gap` apart, dummy vertices `bend`."""
    n = len(widths)
    half = [width / 2 for width in widths] + [0.0] * (len(drawing.up) - n)
    weight = [1.0] * n + [_DUMMY_WEIGHT] * (len(drawing.up) - n)
    x = [0.0] * len(drawing.up)
    distances = []
    for layer in drawing.layers:
        apart = [half[a] + half[b] + (gap if a < n and b < n else bend) for a, b in pairwise(layer)]
        distances.append(apart)
        offsets = _running(apart)
        for vertex, offset in zip(layer, offsets, strict=True):
            x[vertex] = offset - offsets[-1] / 2
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for where in range(len(drawing.layers)) if downwards else reversed(range(len(drawing.layers))):
            layer = drawing.layers[where]
            targets = [_target(vertex, x, drawing, downwards, sweep >= _SWEEPS - 4) for vertex in layer]
            found = nearest_positions(targets, [weight[vertex] for vertex in layer], distances[where])
            for vertex, position in zip(layer, found, strict=True):
                x[vertex] = position
    return x


def _target(vertex: int, x: Sequence[float], drawing: Layered, downwards: bool, both: bool) -> float:
    """The mean position of the neighbours of a vertex, above, below or both."""
    if both:
        near = drawing.up[vertex] + drawing.down[vertex]
    else:
        near = drawing.up[vertex] if downwards else drawing.down[vertex]
    return sum(x[other] for other in near) / len(near) if near else x[vertex]


def _running(apart: Sequence[float]) -> list[float]:
    offsets = [0.0]
    for step in apart:
        offsets.append(offsets[-1] + step)
    return offsets


def nearest_positions(
    targets: Sequence[float], weights: Sequence[float], apart: Sequence[float]
) -> list[float]:
    """The positions nearest to the targets in weighted least squares, at least `apart` from each other."""
    offsets = _running(apart)
    pools: list[tuple[float, float, int]] = []  # mean, weight, size
    for target, own_weight, offset in zip(targets, weights, offsets, strict=True):
        mean, weight, size = target - offset, own_weight, 1
        while pools and pools[-1][0] > mean:
            last_mean, last_weight, last_size = pools.pop()
            mean = (last_mean * last_weight + mean * weight) / (last_weight + weight)
            weight, size = last_weight + weight, last_size + size
        pools.append((mean, weight, size))
    flat = [mean for mean, _, size in pools for _ in range(size)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=True)]
