"""Numbers as people write them into cells: `61 %`, `125 mmHg`, `33,5`, `1,001.8`.

A column is taken for numbers only if all of its cells are written in the same way, so that nothing is
guessed: one unit, and one reading of commas. What was done is said in words.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_MOST_UNITS = 3  # of numbers; what follows more often is part of a label
_MINUS = "\u2212"
_BLANKS = " \u00a0\u202f"  # also between thousands
_CELL = re.compile(
    rf"(?P<number>[+\-{_MINUS}]?\d(?:[\d.,'{_BLANKS}]*\d)?(?:[eE][+-]?\d+)?)"
    r"\s*(?P<unit>[^\d\s.,+\-/:<>=()].*)?"
)
# How the digits may be written. The first way that fits all cells is taken.
_POINT = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_COMMA = re.compile(rf"[+-]?(?:\d{{1,3}}(?:[.'{_BLANKS}]\d{{3}})+|\d+)(?:,\d+)?(?:[eE][+-]?\d+)?")
_GROUPS = re.compile(rf"[+-]?(?:\d{{1,3}}(?:[,'{_BLANKS}]\d{{3}})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_DATE = re.compile(r"(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})([ T].*)?")


class UnreadableColumnError(DataError):
    """Cells that can be taken neither for numbers nor for labels before somebody decides.

    Attributes
    ----------
    column : str
        Its name.
    """

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


class Written(NamedTuple):
    """A column of numbers, missing where a cell is no number, and what was read into its cells."""

    values: pd.Series[Any]
    how: str  # empty for plain numbers


def written_numbers(text: pd.Series[Any], label: str) -> Written | None:
    """The numbers in a column of text; None where fewer than half of the cells hold one.

    Parameters
    ----------
    text : Series of str
        Cells without blanks around them; some may be missing.
    label : str
        The source and the column, for messages.

    Raises
    ------
    DataError
        If cells have different units, or commas that may be decimal commas or separate thousands.

    Examples
    --------
    >>> import pandas as pd
    >>> written_numbers(pd.Series(["61 %", "58 %"]), "t.csv, column ef").how
    "without their unit '%'"
    >>> written_numbers(pd.Series(["33,5", "30,25"]), "t.csv, column bmi").values.tolist()
    [33.5, 30.25]
    """
    parts = {cell: found for cell in text.dropna().unique() if (found := _CELL.fullmatch(cell))}
    if 2 * text.isin(parts).sum() <= text.notna().sum():
        return None
    units = Counter(text.map({cell: found["unit"] or "" for cell, found in parts.items()}).dropna())
    if len(units) > _MOST_UNITS:
        return None
    read, how = _digits({cell: _plain(found["number"]) for cell, found in parts.items()}, label)
    if read is None:
        return None
    words = [word for word in (how, _without_unit(units, label)) if word]
    return Written(text.map(read).astype(float), " and ".join(words))


def looks_like_dates(text: pd.Series[Any]) -> bool:
    """Whether nearly all cells are dates."""
    cells = text.dropna().astype(str)
    return len(cells) > 0 and bool(cells.map(lambda cell: _DATE.fullmatch(cell) is not None).mean() > 0.9)


def _plain(number: str) -> str:
    return number.replace(_MINUS, "-")


def _digits(numbers: dict[str, str], label: str) -> tuple[dict[str, float] | None, str]:
    """The value of each cell, and how its digits were read."""
    found = set(numbers.values())
    if all(map(_POINT.fullmatch, found)):
        return {cell: float(number) for cell, number in numbers.items()}, ""
    comma, groups = (all(map(way.fullmatch, found)) for way in (_COMMA, _GROUPS))
    if comma and groups and any("," in number for number in found):
        example = next(number for number in numbers.values() if "," in number)
        raise UnreadableColumnError(
            f"{label}: {example!r} may be {example.replace(',', '.')} or {example.replace(',', '')}. Write "
            f"numbers with a decimal point and without separators of thousands, or {_otherwise(label)}",
            column_of(label),
        )
    if comma:
        values = {
            cell: float(_without(number, f".'{_BLANKS}").replace(",", "."))
            for cell, number in numbers.items()
        }
        return values, "with decimal commas" if any("," in number for number in found) else ""
    if groups:
        return {cell: float(_without(number, f",'{_BLANKS}")) for cell, number in numbers.items()}, (
            "without the commas between thousands"
        )
    return None, ""


def _without(number: str, separators: str) -> str:
    return number.translate(dict.fromkeys(map(ord, separators)))


def _without_unit(counts: Counter[str], label: str) -> str:
    if len(counts) > 1:
        listed = ", ".join(
            f"{repr(unit) if unit else 'none'} in {count} cells" for unit, count in counts.most_common()
        )
        raise UnreadableColumnError(
            f"{label}: numbers have different units ({listed}). Write them in one unit, "
            f"or {_otherwise(label)}",
            column_of(label),
        )
    unit = next(iter(counts))
    return f"without their unit {unit!r}" if unit else ""


def _otherwise(label: str) -> str:
    name = column_of(label)
    return (
        f"leave the column out (--exclude {shlex.quote(name)}) or take its cells as labels "
        f"(--kind {shlex.quote(f'{name}=discrete')})."
    )


def column_of(label: str) -> str:
    """The name of a column in the words for it, which begin with the source."""
    return label.rpartition("column ")[2]
