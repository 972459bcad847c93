"""Line, curve and box charts in panels side by side, as self-contained SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby, pairwise
from math import ceil, floor
from typing import NamedTuple

from polydag.plot.svg_style import FONT, INK, SOFT

# Safe for colour-blind readers (Okabe and Ito 2008); markers differ as well, for black-and-white print.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_KEY, _LETTER, _LINE = 34.0, 6.0, 18.0  # in a legend: width of the key and of a letter, height of a line
_WIDTH, _HEIGHT = 300.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 30.0, 42.0
_TICKS = 4
_MANY = 100  # a bundle of more lines than this has thinner lines


class Line(NamedTuple):
    """A line: a value and half the length of its error bar for each position on the horizontal axis."""

    label: str
    values: Sequence[float]
    errors: Sequence[float]


class Bundle(NamedTuple):
    """Many lines with the same label, one value per position: thin, without markers or error bars."""

    label: str
    lines: Sequence[Sequence[float]]


class Panel(NamedTuple):
    """One line chart, with evenly spaced positions `x_values` on the horizontal axis.

    The vertical axis ends at `y_max`; by default it covers all lines. Later lines are drawn over earlier
    ones.
    """

    title: str
    x_label: str
    x_values: Sequence[object]
    lines: Sequence[Line | Bundle]
    y_max: float | None = None


class Curve(NamedTuple):
    """A curve through the points (x, y)."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


class CurvePanel(NamedTuple):
    """One chart of curves; both axes start at zero and end at `limits` (x, y) if given."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    limits: tuple[float, float] | None = None


class Box(NamedTuple):
    """The values of one box."""

    label: str
    values: Sequence[float]


class BoxPanel(NamedTuple):
    """One chart of boxes: quartiles, range and individual values."""

    title: str
    y_label: str
    boxes: Sequence[Box]


def line_charts(panels: Sequence[Panel]) -> str:
    """Draw all panels in a row, with a common legend below."""
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    marked = any(isinstance(line, Line) for panel in panels for line in panel.lines)
    return _sheet([_panel(panel, labels) for panel in panels], labels, len(panels), marked)


def curve_charts(panels: Sequence[CurvePanel], per_row: int = 4) -> str:
    """Draw the panels in rows, with a common legend below."""
    labels = list(dict.fromkeys(curve.label for panel in panels for curve in panel.curves))
    return _sheet([_curve_panel(panel, labels) for panel in panels], labels, per_row, marked=False)


def box_charts(panels: Sequence[BoxPanel], per_row: int = 4) -> str:
    """Draw the panels in rows, with the labels of the boxes below each panel."""
    return _sheet([_box_panel(panel) for panel in panels], [], per_row)


def _sheet(drawn: Sequence[Sequence[str]], labels: Sequence[str], per_row: int, marked: bool = True) -> str:
    """Panels in rows, and the legend of their lines."""
    width = _WIDTH * min(max(len(drawn), 1), per_row)
    below = _HEIGHT * -(-len(drawn) // per_row)
    positions = _legend_positions(labels, width)
    height = below + 26.0 + (positions[-1][1] if positions else 0.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="{escape(FONT)}" font-size="11">',
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
    ]
    for number, panel in enumerate(drawn):
        row, column = divmod(number, per_row)
        parts += [f'<g transform="translate({column * _WIDTH:g} {row * _HEIGHT:g})">', *panel, "</g>"]
    for number, (label, (x, down)) in enumerate(zip(labels, positions, strict=True)):
        y = below + 9 + down
        parts += [
            f'<path d="M{x:.1f} {y:g}h18" stroke="{_colour(number)}" stroke-width="2"/>',
            *([_marker(x + 9, y, number)] if marked else []),
            f'<text x="{x + 24:.1f}" y="{y + 4:g}" fill="{INK}">{escape(label)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend_positions(labels: Sequence[str], width: float) -> list[tuple[float, float]]:
    """The position of each legend entry, in as many columns as fit the longest label."""
    longest = max((len(label) for label in labels), default=0)
    columns = max(1, min(len(labels), int((width - _LEFT) // (_KEY + longest * _LETTER))))
    step = (width - _LEFT) / columns
    return [(_LEFT + k % columns * step, k // columns * _LINE) for k in range(len(labels))]


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _marker(x: float, y: float, number: int) -> str:
    colour = _colour(number)
    if number % 3 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
    if number % 3 == 1:
        return f'<rect x="{x - 2.8:.1f}" y="{y - 2.8:.1f}" width="5.6" height="5.6" fill="{colour}"/>'
    return f'<path d="M{x:.1f} {y - 3.6:.1f}l3.4 6h-6.8z" fill="{colour}"/>'


def _panel(panel: Panel, labels: Sequence[str]) -> list[str]:
    heights = [value for line in panel.lines for value in _heights(line)]
    y = _scale(heights if panel.y_max is None else [panel.y_max], _HEIGHT - _BOTTOM, _TOP)
    x = _Scale(-0.5, max(len(panel.x_values), 1) - 0.5, _LEFT, _WIDTH - _RIGHT, 1.0)
    out = _axes(panel.title, "", y)
    out += [_below(x.position(k), str(value), SOFT) for k, value in enumerate(panel.x_values)]
    out.append(_below((x.start + x.end) / 2, panel.x_label, INK, 30.0))
    for line in panel.lines:
        number = labels.index(line.label)
        out += _line(line, x, y, number) if isinstance(line, Line) else [_bundle(line, x, y, number)]
    return out


def _heights(line: Line | Bundle) -> list[float]:
    """The values that the vertical axis must cover."""
    if isinstance(line, Bundle):
        return [value for own in line.lines for value in own if value == value]
    return [v + e for v, e in zip(line.values, line.errors, strict=True) if v == v]


def _line(line: Line, x: _Scale, y: _Scale, number: int) -> list[str]:
    seen = [(k, v, e) for k, (v, e) in enumerate(zip(line.values, line.errors, strict=True)) if v == v]
    points = " ".join(f"{x.position(k):.1f},{y.position(v):.1f}" for k, v, _ in seen)
    out = [f'<polyline points="{points}" fill="none" stroke="{_colour(number)}" stroke-width="1.6"/>']
    for k, v, e in seen:
        low, high = y.position(max(v - e, y.low)), y.position(min(v + e, y.high))
        out.append(f'<path d="M{x.position(k):.1f} {low:.1f}V{high:.1f}" stroke="{_colour(number)}"/>')
        out.append(_marker(x.position(k), y.position(v), number))
    return out


def _bundle(bundle: Bundle, x: _Scale, y: _Scale, number: int) -> str:
    """All lines as one path; identical lines are drawn once."""
    paths = "".join(dict.fromkeys(_steps(line, x, y) for line in bundle.lines))
    width = 0.6 if len(bundle.lines) > _MANY else 1.1
    return f'<path d="{paths}" fill="none" stroke="{_colour(number)}" stroke-width="{width}"/>'


def _steps(line: Sequence[float], x: _Scale, y: _Scale) -> str:
    """The first point and relative steps, which are short to write; a single point becomes a dash."""
    points = [(round(x.position(k)), round(10 * y.position(v))) for k, v in enumerate(line) if v == v]
    if len(points) < 2:
        return "".join(f"M{a - 4} {b / 10:g}h8" for a, b in points)
    steps = " ".join(f"{c - a} {(d - b) / 10:g}" for (a, b), (c, d) in pairwise(points))
    return f"M{points[0][0]} {points[0][1] / 10:g}l{steps}"


class _Scale(NamedTuple):
    """A linear scale along one side of a panel: `low` is at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float
    step: float

    def position(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        return [self.low + k * self.step for k in range(round((self.high - self.low) / self.step) + 1)]


def _scale(values: Sequence[float], start: float, end: float) -> _Scale:
    """A scale with round limits that covers zero and all values."""
    low, high = min([0.0, *values]), max([0.0, *values])
    step = nice_step((high - low) / _TICKS)
    return _Scale(floor(low / step) * step, max(ceil(high / step - 1e-9), 1) * step, start, end, step)


def _axes(title: str, y_label: str, y: _Scale) -> list[str]:
    """The title, the vertical label, and grid lines with tick labels."""
    inner, middle = _WIDTH - _LEFT - _RIGHT, _TOP + (_HEIGHT - _TOP - _BOTTOM) / 2
    out = [f'<text x="{_LEFT + inner / 2:g}" y="18" text-anchor="middle" fill="{INK}">{escape(title)}</text>']
    if y_label:
        out.append(
            f'<text x="12" y="{middle:g}" text-anchor="middle" fill="{INK}" '
            f'transform="rotate(-90 12 {middle:g})">{escape(y_label)}</text>'
        )
    for tick in y.ticks:
        level = y.position(tick)
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
    right = [panel.limits[0]] if panel.limits else [value for curve in panel.curves for value in curve.x]
    top = [panel.limits[1]] if panel.limits else [value for curve in panel.curves for value in curve.y]
    x, y = _scale(right, _LEFT, _WIDTH - _RIGHT), _scale(top, _HEIGHT - _BOTTOM, _TOP)
    out = _axes(panel.title, panel.y_label, y)
    out += [_below(x.position(tick), f"{tick:.4g}", SOFT) for tick in x.ticks]
    out.append(_below((x.start + x.end) / 2, panel.x_label, INK, 30.0))
    for curve in panel.curves:
        points = (f"{x.position(a):.1f},{y.position(b):.1f}" for a, b in zip(curve.x, curve.y, strict=True))
        different = " ".join(point for point, _ in groupby(points))
        colour = _colour(labels.index(curve.label))
        out.append(f'<polyline points="{different}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    return out


def _box_panel(panel: BoxPanel) -> list[str]:
    y = _scale([value for box in panel.boxes for value in box.values], _HEIGHT - _BOTTOM, _TOP)
    out = _axes(panel.title, panel.y_label, y)
    zero = y.position(0.0)
    out.append(f'<path d="M{_LEFT:g} {zero:.1f}H{_WIDTH - _RIGHT:g}" stroke="{SOFT}"/>')
    column_width = (_WIDTH - _LEFT - _RIGHT) / max(len(panel.boxes), 1)
    for number, box in enumerate(panel.boxes):
        middle, half, colour = (
            _LEFT + column_width * (number + 0.5),
            min(28.0, column_width / 4),
            _colour(number),
        )
        out.append(_below(middle, box.label, INK))
        if not box.values:
            continue
        least, first, second, third, most = (y.position(_quantile(box.values, k / 4)) for k in range(5))
        out += [
            f'<path d="M{middle:.1f} {least:.1f}V{first:.1f}M{middle:.1f} {third:.1f}V{most:.1f}" '
            f'stroke="{colour}"/>',
            f'<rect x="{middle - half:.1f}" y="{third:.1f}" width="{2 * half:.1f}" '
            f'height="{max(first - third, 0.5):.1f}" fill="{colour}" fill-opacity="0.2" stroke="{colour}"/>',
            f'<path d="M{middle - half:.1f} {second:.1f}h{2 * half:.1f}" stroke="{colour}" '
            'stroke-width="2"/>',
        ]
        out += [
            f'<circle cx="{middle:.1f}" cy="{y.position(value):.1f}" r="1.8" fill="{colour}"/>'
            for value in box.values
        ]
    return out


def _quantile(values: Sequence[float], probability: float) -> float:
    """The quantile by linear interpolation between the sorted values."""
    ordered = sorted(values)
    rank = probability * (len(ordered) - 1)
    low = floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def nice_step(rough: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `rough`.

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
