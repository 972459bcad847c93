"""Line charts with error bars as self-contained SVG text, several panels side by side."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from polydag.plot.drawing import FONT, INK, SOFT

# Told apart by everyone (Okabe and Ito 2008), and by their marks where colours are not printed.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_WIDTH, _HEIGHT = 300.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 30.0, 42.0
_TICKS = 4


class Line(NamedTuple):
    """One line: a value and the half length of its error bar for each place on the horizontal axis."""

    label: str
    values: Sequence[float]
    errors: Sequence[float]


class Panel(NamedTuple):
    """One chart; places on the horizontal axis are evenly spaced, whatever their numbers."""

    title: str
    axis: str
    places: Sequence[object]
    lines: Sequence[Line]


def line_charts(panels: Sequence[Panel]) -> str:
    """All panels in a row, with one legend below."""
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    width = _WIDTH * len(panels)
    height = _HEIGHT + 26.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{escape(FONT)}" font-size="11">',
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        parts += [f'<g transform="translate({number * _WIDTH:g} 0)">', *_panel(panel, labels), "</g>"]
    for number, label in enumerate(labels):
        x = _LEFT + number * max(110.0, (width - _LEFT) / max(len(labels), 1))
        parts += [
            f'<path d="M{x:.1f} {_HEIGHT + 9:g}h18" stroke="{_colour(number)}" stroke-width="2"/>',
            _mark(x + 9, _HEIGHT + 9, number),
            f'<text x="{x + 24:.1f}" y="{_HEIGHT + 13:g}" fill="{INK}">{escape(label)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _mark(x: float, y: float, number: int) -> str:
    colour = _colour(number)
    if number % 3 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
    if number % 3 == 1:
        return f'<rect x="{x - 2.8:.1f}" y="{y - 2.8:.1f}" width="5.6" height="5.6" fill="{colour}"/>'
    return f'<path d="M{x:.1f} {y - 3.6:.1f}l3.4 6h-6.8z" fill="{colour}"/>'


def _panel(panel: Panel, labels: Sequence[str]) -> list[str]:
    tops = [v + e for line in panel.lines for v, e in zip(line.values, line.errors, strict=True) if v == v]
    step = nice_step(max(tops, default=1.0) / _TICKS)
    top = step * _TICKS
    while top < max(tops, default=0.0):
        top += step
    inner, deep = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(place: int) -> float:
        return _LEFT + inner * (place + 0.5) / max(len(panel.places), 1)

    def y(value: float) -> float:
        return _TOP + deep * (1 - value / top)

    middle = f'x="{_LEFT + inner / 2:g}"'
    out = [f'<text {middle} y="18" text-anchor="middle" fill="{INK}">{escape(panel.title)}</text>']
    for k in range(round(top / step) + 1):
        level = y(k * step)
        out += [
            f'<path d="M{_LEFT:g} {level:.1f}h{inner:g}" stroke="#e5e7eb"/>',
            f'<text x="{_LEFT - 6:g}" y="{level + 4:.1f}" text-anchor="end" fill="{SOFT}">'
            f"{k * step:g}</text>",
        ]
    for k, place in enumerate(panel.places):
        out.append(
            f'<text x="{x(k):.1f}" y="{_HEIGHT - _BOTTOM + 15:g}" text-anchor="middle" fill="{SOFT}">'
            f"{escape(str(place))}</text>"
        )
    out.append(
        f'<text {middle} y="{_HEIGHT - 12:g}" text-anchor="middle" fill="{INK}">{escape(panel.axis)}</text>'
    )
    for line in panel.lines:
        number = labels.index(line.label)
        seen = [(k, v, e) for k, (v, e) in enumerate(zip(line.values, line.errors, strict=True)) if v == v]
        points = " ".join(f"{x(k):.1f},{y(v):.1f}" for k, v, _ in seen)
        out.append(f'<polyline points="{points}" fill="none" stroke="{_colour(number)}" stroke-width="1.6"/>')
        for k, v, e in seen:
            low, high = y(max(v - e, 0.0)), y(v + e)
            out.append(f'<path d="M{x(k):.1f} {low:.1f}V{high:.1f}" stroke="{_colour(number)}"/>')
            out.append(_mark(x(k), y(v), number))
    return out


def nice_step(rough: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten.

    Examples
    --------
    >>> nice_step(0.3), nice_step(7)
    (0.5, 10.0)
    """
    if rough <= 0:
        return 0.25
    power = 1e-12
    while power * 10 <= rough:
        power *= 10
    return next(
        round(factor * power, 12)
        for factor in (1.0, 2.0, 2.5, 5.0, 10.0)
        if factor * power >= rough * (1 - 1e-9)
    )
