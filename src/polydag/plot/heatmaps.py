"""Matrices of edge probabilities as heat maps side by side, and their difference, as self-contained SVG text.

A row is where an edge comes from, a column where it goes. Probable edges are dark; in a difference, blue is
more probable in the first of the two and orange in the second. A key below each map says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.errors import UsageError
from polydag.plot.drawing import FONT, INK, NEGATIVE, POSITIVE, SOFT

_SIDE, _GAP, _TOP, _BOTTOM, _MARGIN = 300.0, 26.0, 34.0, 40.0, 14.0
_COLUMNS = 4
_MOST_LABELS = 40
_FAINTEST = 0.005  # below this nothing is drawn
_LETTER = 0.58  # of the font size, about, a letter is wide
_LONGEST = 16
_STEPS, _STEP = 9, 10.0  # squares of the colour key


class Map(NamedTuple):
    """A matrix `[i, j]` about `i -> j`; values from 0 to 1, or from -1 to 1 for a (signed) difference."""

    title: str
    values: NDArray[np.float64]
    signed: bool = False


def difference(first: Map, second: Map) -> Map:
    """The first less the second."""
    return Map(f"{first.title} − {second.title}", first.values - second.values, signed=True)


def apart(maps: Sequence[Map]) -> Map:
    """The largest value at each place less the smallest."""
    values = np.array([item.values for item in maps])
    return Map("largest difference", values.max(axis=0) - values.min(axis=0))


def heat_maps(names: Sequence[str], maps: Sequence[Map], *, differences: bool = True) -> str:
    """Heat maps side by side, four in a row.

    Parameters
    ----------
    names : sequence of str
        The variables, written beside the maps where there are at most 40.
    maps : sequence of Map
        Probabilities of edges.
    differences : bool
        Add the difference at the end: of two signed, of more how far the tasks are apart.

    Examples
    --------
    >>> heat_maps(["a", "b"], [Map("controls", [[0, 1], [0, 0]])])[:28]
    '<svg xmlns="http://www.w3.or'
    """
    own = [item._replace(values=_checked(item, len(names))) for item in maps]
    if differences and len(own) > 1:
        own.append(difference(*own) if len(own) == 2 else apart(own))
    labelled = len(names) <= _MOST_LABELS
    size = min(11.0, 0.8 * _SIDE / max(len(names), 1))
    room = (
        8.0 + size * _LETTER * min(max((len(name) for name in names), default=0), _LONGEST)
        if labelled
        else 0.0
    )
    columns = min(len(own), _COLUMNS)
    deep = _TOP + room + _SIDE + _BOTTOM
    width = _MARGIN * 2 + columns * (_SIDE + room) + (columns - 1) * _GAP
    height = deep * -(-len(own) // _COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{escape(FONT)}" font-size="11">',
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
    ]
    for number, item in enumerate(own):
        left = _MARGIN + number % _COLUMNS * (_SIDE + room + _GAP) + room
        down = number // _COLUMNS * deep + _TOP + room
        parts += [f'<g transform="translate({left:.1f} {down:.1f})">']
        parts += _map(item, names if labelled else (), size, room)
        parts += ["</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _checked(item: Map, n: int) -> NDArray[np.float64]:
    matrix = np.asarray(item.values, dtype=float)
    low = -1 if item.signed else 0
    if matrix.shape != (n, n) or not ((low <= matrix) & (matrix <= 1)).all():
        raise UsageError(
            f"{item.title}: a heat map of {n} variables needs an {n} x {n} array of numbers from {low} to 1."
        )
    return matrix


def _colour(value: float, signed: bool) -> str:
    return (POSITIVE if value > 0 else NEGATIVE) if signed else INK


def _key(signed: bool) -> list[str]:
    """Which colour stands for which value, below a map."""
    steps = np.linspace(-1.0 if signed else 0.0, 1.0, _STEPS)
    left, down, side = _SIDE - _STEPS * _STEP - 22, _SIDE + 9, _STEP
    parts = [
        f'<rect x="{left + k * side:g}" y="{down:g}" width="{side:g}" height="{side:g}" '
        f'fill="{_colour(value, signed)}" fill-opacity="{abs(value):.3g}"/>'
        for k, value in enumerate(steps)
    ]
    ends = (("−1" if signed else "0", left - 4, "end"), ("1", left + _STEPS * side + 4, "start"))
    return parts + [
        f'<text x="{x:g}" y="{down + 9:g}" text-anchor="{anchor}" fill="{SOFT}">{text}</text>'
        for text, x, anchor in ends
    ]


def _map(item: Map, names: Sequence[str], size: float, room: float) -> list[str]:
    n = len(item.values)
    cell = _SIDE / max(n, 1)
    middle = f'x="{_SIDE / 2:g}" text-anchor="middle"'
    parts = [
        f'<text {middle} y="{-room - 14:.1f}" fill="{INK}">{escape(item.title)}</text>',
        f'<text x="0" y="{_SIDE + 18:g}" fill="{SOFT}">row → column</text>',
        *_key(item.signed),
    ]
    for i, j in np.argwhere(np.abs(item.values) >= _FAINTEST):
        value = float(item.values[i, j])
        colour = _colour(value, item.signed)
        parts.append(
            f'<rect x="{j * cell:.2f}" y="{i * cell:.2f}" width="{cell:.2f}" height="{cell:.2f}" '
            f'fill="{colour}" fill-opacity="{abs(value):.2f}"/>'
        )
    parts.append(f'<rect width="{_SIDE:g}" height="{_SIDE:g}" fill="none" stroke="{SOFT}"/>')
    for k, name in enumerate(names):
        label = escape(name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…")
        line = (k + 0.5) * cell + size * 0.35
        parts += [
            f'<text x="-4" y="{line:.1f}" text-anchor="end" font-size="{size:.1f}" '
            f'fill="{INK}">{label}</text>',
            f'<text transform="translate({line:.1f} -4) rotate(-90)" font-size="{size:.1f}" '
            f'fill="{INK}">{label}</text>',
        ]
    return parts
