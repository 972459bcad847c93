"""Heat maps of edge probabilities side by side, with their difference, as self-contained SVG.

Edges point from rows to columns; symmetric matrices represent undirected connections. Probable edges are
dark. In a difference, blue means more probable in the first matrix and orange in the second. A colour key is
below each map, and the tooltip of a cell gives its variables and value.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array
from polydag.errors import UsageError
from polydag.plot.svg_style import FONT, INK, NEGATIVE, POSITIVE, SOFT, escaped, shortened, text_width

_SIDE, _GAP, _TOP, _BOTTOM, _MARGIN = 300.0, 26.0, 34.0, 40.0, 14.0
_COLUMNS = 4
_MOST_LABELS = 40
_FAINTEST = 0.005  # below this nothing is drawn
_FONT_SIZE = 11.0
_LONGEST = 9.3  # the longest name, relative to the font size: about 16 letters
_TITLE = _SIDE + _MARGIN
_MINUS = " − "
_STEPS, _STEP = 9, 10.0  # squares of the colour key


class Map(NamedTuple):
    """A matrix whose entry `[i, j]` refers to `i -> j`; from 0 to 1, or from -1 to 1 if signed."""

    title: str
    values: Array
    signed: bool = False


def difference(first: Map, second: Map) -> Map:
    """The first map minus the second."""
    return Map(f"{first.title}{_MINUS}{second.title}", first.values - second.values, signed=True)


def value_range(maps: Sequence[Map]) -> Map:
    """The largest minus the smallest value of each entry."""
    values = np.array([item.values for item in maps])
    return Map("largest − smallest", values.max(axis=0) - values.min(axis=0))


def heat_maps(names: Sequence[str], maps: Sequence[Map], *, differences: bool = True) -> str:
    """Draw heat maps side by side, four per row.

    Parameters
    ----------
    names : sequence of str
        The variables. They are written beside the maps if there are at most 40; long names are shortened in
        the middle.
    maps : sequence of Map
        Edge probabilities; if all maps are symmetric, probabilities of undirected connections.
    differences : bool
        Whether to add a last map: the signed difference of two maps, or the range of more than two.

    Examples
    --------
    >>> heat_maps(["a", "b"], [Map("controls", [[0, 1], [0, 0]])])[:28]
    '<svg xmlns="http://www.w3.or'
    """
    own = [item._replace(values=_checked(item, len(names))) for item in maps]
    if differences and len(own) > 1:
        own.append(difference(*own) if len(own) == 2 else value_range(own))
    joint = "–" if _symmetric(own) else "→"
    labelled = 0 < len(names) <= _MOST_LABELS
    size = min(_FONT_SIZE, 0.8 * _SIDE / max(len(names), 1))
    label_space = min(max(text_width(name, size) for name in names), _LONGEST * size) + 8 if labelled else 0.0
    columns = min(len(own), _COLUMNS)
    deep = _TOP + label_space + _SIDE + _BOTTOM
    width = _MARGIN * 2 + columns * (_SIDE + label_space) + (columns - 1) * _GAP
    height = deep * -(-len(own) // _COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{escape(FONT)}" font-size="{_FONT_SIZE:g}">',
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
    ]
    for number, item in enumerate(own):
        left = _MARGIN + number % _COLUMNS * (_SIDE + label_space + _GAP) + label_space
        down = number // _COLUMNS * deep + _TOP + label_space
        parts += [f'<g transform="translate({left:.1f} {down:.1f})">']
        parts += _map(item, names, joint, label_space)
        parts += _labels(names, size) if labelled else []
        parts += ["</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _checked(item: Map, n: int) -> Array:
    matrix = np.asarray(item.values, dtype=float)
    low = -1 if item.signed else 0
    if matrix.shape != (n, n) or not ((low <= matrix) & (matrix <= 1)).all():
        raise UsageError(
            f"{item.title}: a heat map of {n} variables needs an {n} x {n} array of values from {low} to 1."
        )
    return matrix


def _colour(value: float, signed: bool) -> str:
    return (POSITIVE if value > 0 else NEGATIVE) if signed else INK


def _key(signed: bool) -> list[str]:
    """The colour key below a map."""
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


def _symmetric(maps: Sequence[Map]) -> bool:
    """Whether all maps with non-zero entries are symmetric."""
    filled = [item.values for item in maps if item.values.any()]
    return bool(filled) and all(np.array_equal(values, values.T) for values in filled)


def _map(item: Map, names: Sequence[str], joint: str, label_space: float) -> list[str]:
    cell = _SIDE / max(len(names), 1)
    shown = [escaped(name) for name in names]
    parts = [
        f'<text x="{_SIDE / 2:g}" text-anchor="middle" y="{-label_space - 14:.1f}" fill="{INK}">'
        f"{_with_tooltip(item.title, _title(item.title))}</text>",
        f'<text x="0" y="{_SIDE + 18:g}" fill="{SOFT}">row {joint} column</text>',
        *_key(item.signed),
    ]
    for i, j in np.argwhere(np.abs(item.values) >= _FAINTEST):
        value = float(item.values[i, j])
        written = f"{value:+.2f}".replace("-", "−") if item.signed else f"{value:.2f}"
        parts.append(
            f'<rect x="{j * cell:.2f}" y="{i * cell:.2f}" width="{cell:.2f}" height="{cell:.2f}" '
            f'fill="{_colour(value, item.signed)}" fill-opacity="{abs(value):.2f}">'
            f"<title>{shown[i]} {joint} {shown[j]} {written}</title></rect>"
        )
    return [*parts, f'<rect width="{_SIDE:g}" height="{_SIDE:g}" fill="none" stroke="{SOFT}"/>']


def _labels(names: Sequence[str], size: float) -> list[str]:
    """The variable names beside the rows and above the columns."""
    cell = _SIDE / len(names)
    style = f'font-size="{size:.1f}" fill="{INK}"'
    parts = []
    for k, name in enumerate(names):
        label = _with_tooltip(name, shortened(name, _LONGEST * size, size))
        line = (k + 0.5) * cell + size * 0.35
        parts += [
            f'<text x="-4" y="{line:.1f}" text-anchor="end" {style}>{label}</text>',
            f'<text transform="translate({line:.1f} -4) rotate(-90)" {style}>{label}</text>',
        ]
    return parts


def _title(title: str) -> str:
    """A title that fits above its map; in a difference, both names are shortened."""
    if text_width(title, _FONT_SIZE) <= _TITLE:
        return title
    names = title.split(_MINUS)
    available = (_TITLE - (len(names) - 1) * text_width(_MINUS, _FONT_SIZE)) / len(names)
    return shortened(
        _MINUS.join(shortened(name, available, _FONT_SIZE) for name in names), _TITLE, _FONT_SIZE
    )


def _with_tooltip(full: str, shown: str) -> str:
    """The content of a text element; a shortened text has the full text as its tooltip."""
    return escaped(shown) if shown == full else f"<title>{escaped(full)}</title>{escaped(shown)}"
