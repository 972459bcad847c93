"""Charts as self-contained SVG text, several panels side by side: lines with error bars, curves, boxes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby, pairwise
from math import ceil, floor
from typing import NamedTuple

from polydag.plot.drawing import FONT, INK, SOFT

# Told apart by everyone (Okabe and Ito 2008), and by their marks where colours are not printed.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_KEY, _LETTER, _LINE = 34.0, 6.0, 18.0  # of a legend: the sign and its space, a letter, a line
_WIDTH, _HEIGHT = 300.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 30.0, 42.0
_TICKS = 4
_MANY = 100  # lines of one label, from which on they are thinner


class Line(NamedTuple):
    """One line: a value and the half length of its error bar for each place on the horizontal axis."""

    label: str
    values: Sequence[float]
    errors: Sequence[float]


class Bundle(NamedTuple):
    """Many lines of one label, each with a value for each place: thin, without marks or error bars."""

    label: str
    lines: Sequence[Sequence[float]]


class Panel(NamedTuple):
    """One chart; places on the horizontal axis are evenly spaced, whatever their numbers.

    The vertical axis goes to `top`, or as far as the lines need where that is not given. Later lines lie on
    top of earlier ones.
    """

    title: str
    axis: str
    places: Sequence[object]
    lines: Sequence[Line | Bundle]
    top: float | None = None


class Curve(NamedTuple):
    """One curve of numbers over numbers."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


class CurvePanel(NamedTuple):
    """One chart of curves; both axes begin at zero, and end at `ends` (right, top) where these are given."""

    title: str
    axis: str
    upright: str
    curves: Sequence[Curve]
    ends: tuple[float, float] | None = None


class Box(NamedTuple):
    """What one box stands for."""

    label: str
    values: Sequence[float]


class BoxPanel(NamedTuple):
    """One chart of boxes: quartiles, the range, and every value."""

    title: str
    upright: str
    boxes: Sequence[Box]


def line_charts(panels: Sequence[Panel]) -> str:
    """All panels in a row, with one legend below."""
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    marked = any(isinstance(line, Line) for panel in panels for line in panel.lines)
    return _sheet([_panel(panel, labels) for panel in panels], labels, len(panels), marked)


def curve_charts(panels: Sequence[CurvePanel], per_row: int = 4) -> str:
    """All panels in rows, with one legend below."""
    labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
    return _sheet([_curve_panel(panel, labels) for panel in panels], labels, per_row, marked=False)


def box_charts(panels: Sequence[BoxPanel], per_row: int = 4) -> str:
    """All panels in rows; boxes are named below each."""
    return _sheet([_box_panel(panel) for panel in panels], [], per_row)


def _sheet(drawn: Sequence[Sequence[str]], labels: Sequence[str], per_row: int, marked: bool = True) -> str:
    """Panels in rows, and what their lines are called."""
    width = _WIDTH * min(max(len(drawn), 1), per_row)
    below = _HEIGHT * -(-len(drawn) // per_row)
    places = _legend_places(labels, width)
    height = below + 26.0 + (places[-1][1] if places else 0.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{escape(FONT)}" font-size="11">',
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
    ]
    for number, panel in enumerate(drawn):
        row, column = divmod(number, per_row)
        parts += [f'<g transform="translate({column * _WIDTH:g} {row * _HEIGHT:g})">', *panel, "</g>"]
    for number, (label, (x, down)) in enumerate(zip(labels, places, strict=True)):
        y = below + 9 + down
        parts += [
            f'<path d="M{x:.1f} {y:g}h18" stroke="{_colour(number)}" stroke-width="2"/>',
            *([_mark(x + 9, y, number)] if marked else []),
            f'<text x="{x + 24:.1f}" y="{y + 4:g}" fill="{INK}">{escape(label)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend_places(labels: Sequence[str], width: float) -> list[tuple[float, float]]:
    """Where each label stands: one below the other in as many columns as the longest has room for."""
    longest = max((len(label) for label in labels), default=0)
    columns = max(1, min(len(labels), int((width - _LEFT) // (_KEY + longest * _LETTER))))
    step = (width - _LEFT) / columns
    return [(_LEFT + k % columns * step, k // columns * _LINE) for k in range(len(labels))]


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
    heights = [value for line in panel.lines for value in _heights(line)]
    y = _scale(heights if panel.top is None else [panel.top], _HEIGHT - _BOTTOM, _TOP)
    x = _Scale(-0.5, max(len(panel.places), 1) - 0.5, _LEFT, _WIDTH - _RIGHT, 1.0)
    out = _axes(panel.title, "", y)
    out += [_below(x.place(k), str(place), SOFT) for k, place in enumerate(panel.places)]
    out.append(_below((x.start + x.end) / 2, panel.axis, INK, 30.0))
    for line in panel.lines:
        number = labels.index(line.label)
        out += _line(line, x, y, number) if isinstance(line, Line) else [_bundle(line, x, y, number)]
    return out


def _heights(line: Line | Bundle) -> list[float]:
    """All that must have its place on the vertical axis."""
    if isinstance(line, Bundle):
        return [value for own in line.lines for value in own if value == value]
    return [v + e for v, e in zip(line.values, line.errors, strict=True) if v == v]


def _line(line: Line, x: _Scale, y: _Scale, number: int) -> list[str]:
    seen = [(k, v, e) for k, (v, e) in enumerate(zip(line.values, line.errors, strict=True)) if v == v]
    points = " ".join(f"{x.place(k):.1f},{y.place(v):.1f}" for k, v, _ in seen)
    out = [f'<polyline points="{points}" fill="none" stroke="{_colour(number)}" stroke-width="1.6"/>']
    for k, v, e in seen:
        low, high = y.place(max(v - e, y.low)), y.place(min(v + e, y.high))
        out.append(f'<path d="M{x.place(k):.1f} {low:.1f}V{high:.1f}" stroke="{_colour(number)}"/>')
        out.append(_mark(x.place(k), y.place(v), number))
    return out


def _bundle(bundle: Bundle, x: _Scale, y: _Scale, number: int) -> str:
    """All lines as one path; those that would lie on one another are drawn once."""
    paths = "".join(dict.fromkeys(_steps(line, x, y) for line in bundle.lines))
    width = 0.6 if len(bundle.lines) > _MANY else 1.1
    return f'<path d="{paths}" fill="none" stroke="{_colour(number)}" stroke-width="{width}"/>'


def _steps(line: Sequence[float], x: _Scale, y: _Scale) -> str:
    """The first point and the steps from each to the next, which is shorter; a single point is a dash."""
    points = [(round(x.place(k)), round(10 * y.place(v))) for k, v in enumerate(line) if v == v]
    if len(points) < 2:
        return "".join(f"M{a - 4} {b / 10:g}h8" for a, b in points)
    steps = " ".join(f"{c - a} {(d - b) / 10:g}" for (a, b), (c, d) in pairwise(points))
    return f"M{points[0][0]} {points[0][1] / 10:g}l{steps}"


class _Scale(NamedTuple):
    """Where numbers lie along one side of a panel: `low` at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float
    step: float

    def place(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        return [self.low + k * self.step for k in range(round((self.high - self.low) / self.step) + 1)]


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    """A scale with round ends that holds zero and all values."""
    low, high = min([0.0, *values]), max([0.0, *values])
    step = nice_step((high - low) / _TICKS)
    return _Scale(floor(low / step) * step, max(ceil(high / step - 1e-9), 1) * step, start, end, step)


def _axes(title: str, upright: str, y: _Scale) -> list[str]:
    """The title, and horizontal lines with their numbers."""
    inner, middle = _WIDTH - _LEFT - _RIGHT, _TOP + (_HEIGHT - _TOP - _BOTTOM) / 2
    out = [f'<text x="{_LEFT + inner / 2:g}" y="18" text-anchor="middle" fill="{INK}">{escape(title)}</text>']
    if upright:
        out.append(
            f'<text x="12" y="{middle:g}" text-anchor="middle" fill="{INK}" '
            f'transform="rotate(-90 12 {middle:g})">{escape(upright)}</text>'
        )
    for tick in y.ticks:
        level = y.place(tick)
        out += [
            f'<path d="M{_LEFT:g} {level:.1f}h{inner:g}" stroke="#e5e7eb"/>',
            f'<text x="{_LEFT - 6:g}" y="{level + 4:.1f}" text-anchor="end" fill="{SOFT}">{tick:.4g}</text>',
        ]
    return out


def _below(x: float, text: str, colour: str, down: float = 15.0) -> str:
    return (
        f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + down:g}" text-anchor="middle" fill="{colour}">'
        f"{escape(text)}</text>"
    )


def _curve_panel(panel: CurvePanel, labels: Sequence[str]) -> list[str]:
    right = [panel.ends[0]] if panel.ends else [value for curve in panel.curves for value in curve.x]
    top = [panel.ends[1]] if panel.ends else [value for curve in panel.curves for value in curve.y]
    x, y = _scale(right, _LEFT, _WIDTH - _RIGHT), _scale(top, _HEIGHT - _BOTTOM, _TOP)
    out = _axes(panel.title, panel.upright, y)
    out += [_below(x.place(tick), f"{tick:.4g}", SOFT) for tick in x.ticks]
    out.append(_below((x.start + x.end) / 2, panel.axis, INK, 30.0))
    for curve in panel.curves:
        points = (f"{x.place(a):.1f},{y.place(b):.1f}" for a, b in zip(curve.x, curve.y, strict=True))
        different = " ".join(point for point, _ in groupby(points))
        colour = _colour(labels.index(curve.label))
        out.append(f'<polyline points="{different}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    return out


def _box_panel(panel: BoxPanel) -> list[str]:
    y = _scale([value for box in panel.boxes for value in box.values], _HEIGHT - _BOTTOM, _TOP)
    out = _axes(panel.title, panel.upright, y)
    zero = y.place(0.0)
    out.append(f'<path d="M{_LEFT:g} {zero:.1f}H{_WIDTH - _RIGHT:g}" stroke="{SOFT}"/>')
    room = (_WIDTH - _LEFT - _RIGHT) / max(len(panel.boxes), 1)
    for number, box in enumerate(panel.boxes):
        middle, half, colour = _LEFT + room * (number + 0.5), min(28.0, room / 4), _colour(number)
        out.append(_below(middle, box.label, INK))
        if not box.values:
            continue
        least, first, second, third, most = (y.place(_quantile(box.values, k / 4)) for k in range(5))
        out += [
            f'<path d="M{middle:.1f} {least:.1f}V{first:.1f}M{middle:.1f} {third:.1f}V{most:.1f}" '
            f'stroke="{colour}"/>',
            f'<rect x="{middle - half:.1f}" y="{third:.1f}" width="{2 * half:.1f}" '
            f'height="{max(first - third, 0.5):.1f}" fill="{colour}" fill-opacity="0.2" stroke="{colour}"/>',
            f'<path d="M{middle - half:.1f} {second:.1f}h{2 * half:.1f}" stroke="{colour}" '
            'stroke-width="2"/>',
        ]
        out += [
            f'<circle cx="{middle:.1f}" cy="{y.place(value):.1f}" r="1.8" fill="{colour}"/>'
            for value in box.values
        ]
    return out


def _quantile(values: Sequence[float], share: float) -> float:
    """By straight lines between the sorted values."""
    ranked = sorted(values)
    place = share * (len(ranked) - 1)
    low = floor(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (place - low) * (ranked[high] - ranked[low])


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
