"""What the names and values of columns hint at: order of time, identifiers, codes, units, order of the rows.

These are suspicions. Each says with which option to act on it; nothing is done by itself.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.arrays import Array
from polydag.data.checking.findings import Finding
from polydag.data.checking.order import ORDER_ADVICE, alike_in_order

if TYPE_CHECKING:
    import pandas as pd

    from polydag.data.table import Table

# What nothing else in a table can cause: one of these words, and no others than those that go with it. An age
# at onset or death is an effect.
_FIRST = frozenset({"age", "sex", "gender", "ethnicity", "race", "birth", "dob", "yob"})
_WITH_FIRST = frozenset(
    {"patient", "subject", "person", "mother", "father", "maternal", "paternal", "baseline", "visit", "entry"}
    | {
        "inclusion",
        "enrolment",
        "enrollment",
        "admission",
        "at",
        "in",
        "of",
        "on",
        "year",
        "years",
        "yr",
        "yrs",
    }
    | {"y", "date", "day", "month", "group", "category", "cat", "class", "code"}
)
_IDENTIFIERS = frozenset({"id", "ids", "uuid", "nr", "number", "index", "key", "mrn", "pid"})
_ROWS = frozenset({"patient", "subject", "record", "row", "case"})
_CODES = (0, 9, 99, 999, 9999, -1, -9, -99, -999)
_FAR, _AWAY = 4.0, 1.0  # standard deviations of the others: how far a single value, and a spike, is from them
_MOSTLY = 0.5  # of rows, from which values of their own are those of an identifier
_MOST_LABELS = 50
_SHARE = 0.005  # of rows, from which a code is suspected
# Factors between usual units: cholesterol and glucose in mg/dL and mmol/L, pounds and kilograms, inches and
# centimetres, feet and metres, creatinine, °F; powers of ten are in any case.
FACTORS = {
    38.67: "mg/dL and mmol/L of cholesterol",
    18.02: "mg/dL and mmol/L of glucose",
    88.4: "mg/dL and µmol/L of creatinine",
    88.57: "mg/dL and mmol/L of triglycerides",
    2.205: "pounds and kilograms",
    2.54: "inches and centimetres",
    3.281: "feet and metres",
    7.5: "mmHg and kPa",
    10.0: "a power of ten",
    100.0: "a power of ten",
    1000.0: "a power of ten",
}


def hints(table: Table) -> Iterator[Finding]:
    """All suspicions about one table."""
    yield from _tiers(table)
    yield from column_hints(table)
    yield from _near_duplicates(table)
    yield from _order(table)


def column_hints(table: Table) -> Iterator[Finding]:
    """Suspicions about single columns: that a learner would take something for what it is not."""
    for name in table.names:
        yield from _identifier(table, name)
        if table.kinds[name] == "continuous":
            yield from _codes(table, name)
            yield from _two_units(table, name)
        else:
            yield from _code_among_labels(table, name)
            yield from _spellings(table, name)


def _tiers(table: Table) -> Iterator[Finding]:
    first = [name for name in table.names if _comes_first(name)]
    rest = [name for name in table.names if name not in first and not _is_of_no_use(table, name)]
    if not first or not rest:
        return
    tiers = ", ".join(
        f"[{', '.join(json.dumps(name, ensure_ascii=False) for name in tier)}]" for tier in (first, rest)
    )
    yield Finding(
        "info",
        table.source,
        f"nothing in the table can cause {', '.join(first)}, by their names",
        f"say so in a file such as first.toml, with the line tiers = [{tiers}], and add --knowledge "
        "first.toml",
    )


def _is_of_no_use(table: Table, name: str) -> bool:
    """Whether it is proposed to leave the column out."""
    return table.frame[name].nunique() < 2 or any(_identifier(table, name))


def _identifier(table: Table, name: str) -> Iterator[Finding]:
    column = table.frame[name].dropna()
    numbers = column.dtype.kind in "iuf"
    whole = not numbers or bool((column % 1 == 0).all())
    every = len(column) >= 10 and column.nunique() == len(column) and whole
    named = _names_rows(name)
    if named and not every and len(column) >= 10 and column.nunique() > _MOSTLY * len(column):
        repeated = int(column.duplicated().sum())
        yield Finding(
            "warning",
            f"{table.source}, column {name}",
            f"looks like an identifier, and {repeated} rows have that of an earlier row",
            "if these are the same individuals, keep one row of each, or link their rows "
            f"(--groups {shlex.quote(name)}); otherwise leave it out: --exclude {shlex.quote(name)}",
        )
        return
    steps = every and numbers and bool((np.abs(np.diff(np.sort(column.to_numpy(dtype=float)))) == 1).all())
    if steps or (every and (named or not numbers)):
        yield Finding(
            "warning",
            f"{table.source}, column {name}",
            "has another value in every row: it looks like an identifier",
            f"leave it out: --exclude {shlex.quote(name)}",
        )


def _words(name: str) -> list[str]:
    """The words of a name, without what is in brackets: `patientAge (years)` is patient, age."""
    plain = re.sub(r"[(\[].*?[)\]]", " ", name)
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain)
    return [word for word in re.split(r"[\W_\d]+", apart.casefold()) if word]


def _comes_first(name: str) -> bool:
    words = set(_words(name))
    return bool(words & _FIRST) and words <= _FIRST | _WITH_FIRST


def _names_rows(name: str) -> bool:
    words = _words(name)
    return bool(words) and (words[-1] in _IDENTIFIERS or (len(words) == 1 and words[0] in _ROWS))


def _codes(table: Table, name: str) -> Iterator[Finding]:
    """A spike at a usual code that lies outside of the other values."""
    values = finite(table.frame[name])
    for code in _CODES:
        hit = values == code
        count, others = int(hit.sum()), values[~hit]
        if not count or len(others) < 5 or others.min() <= code <= others.max():
            continue
        gap = min(abs(code - others.min()), abs(code - others.max()))
        spacing = np.median(np.diff(np.unique(others))) if len(np.unique(others)) > 1 else 0.0
        least = _AWAY if count >= max(2, _SHARE * len(values)) else _FAR
        if gap > max(least * others.std(), 3 * spacing):
            yield Finding(
                "warning",
                f"{table.source}, column {name}",
                f"is {code} in {count} row{'s' * (count > 1)}, and between {others.min():.4g} and "
                f"{others.max():.4g} elsewhere: {code} may stand for a missing value",
                f"if so, add --na {shlex.quote(f'{name}={code}')} (and --missing em)",
            )


def _code_among_labels(table: Table, name: str) -> Iterator[Finding]:
    """A usual code above or below small whole numbers that follow each other, as 9 after 1 to 4."""
    column = table.frame[name]
    if column.dtype.kind not in "iuf":
        return
    levels = np.unique(finite(column))
    for code in (code for code in _CODES if code in levels and code != 0):
        others = levels[levels != code]
        if len(others) >= 2 and (code < others.min() - 1 or code == -1 or code > others.max() + 2):
            count = int((column == code).sum())
            yield Finding(
                "warning",
                f"{table.source}, column {name}",
                f"is {code} in {count} row{'s' * (count > 1)}, and between {others.min():g} and "
                f"{others.max():g} elsewhere: {code} may stand for a missing value",
                f"if so, add --na {shlex.quote(f'{name}={code}')} (and --missing em)",
            )


def _spellings(table: Table, name: str) -> Iterator[Finding]:
    """Labels that differ in case, blanks or length of the word only."""
    column = table.frame[name].dropna()
    if column.dtype.kind in "iufb" or column.nunique() > _MOST_LABELS:
        return
    counts = column.astype(str).value_counts()
    groups = written_differently([str(level) for level in counts.index])
    if groups:
        options = [
            f"--recode {shlex.quote(f'{name}:{other}={group[0]}')}" for group in groups for other in group[1:]
        ]
        yield Finding(
            "warning",
            f"{table.source}, column {name}",
            f"may have one label written in several ways: "
            f"{'; '.join(' = '.join(repr(level) for level in group) for group in groups)}",
            f"if so, add {' '.join(options)}",
        )


def _two_units(table: Table, name: str) -> Iterator[Finding]:
    """Positive values in two clusters whose medians differ by a usual factor between units."""
    values = finite(table.frame[name])
    if (values < 0).any():
        return  # no amounts in units
    values = np.sort(values[values > 0])
    if len(values) < 20:
        return
    logs = np.log(values)
    gaps = np.diff(logs)
    k = int(np.argmax(gaps)) + 1
    low, high = values[:k], values[k:]
    if min(len(low), len(high)) < max(3, 0.01 * len(values)) or gaps[k - 1] < np.log(1.5):
        return
    ratio = float(np.median(high) / np.median(low))
    spread = max(float(np.ptp(np.log(low))), float(np.ptp(np.log(high))))
    unit = usual_factor(ratio)
    if unit and gaps[k - 1] > 0.3 * spread:
        yield Finding(
            "warning",
            f"{table.source}, column {name}",
            f"has {len(low)} values up to {low[-1]:.4g} and {len(high)} from {high[0]:.4g} on, {ratio:.3g} "
            f"times as large: perhaps two units ({unit})",
            "convert them to one unit before reading",
        )


def usual_factor(ratio: float) -> str:
    """The units between which a ratio of scales is usual; empty for others."""
    near = nearest_factor(ratio)
    return FACTORS[near] if abs(np.log(ratio / near)) < np.log(1.2) else ""


def nearest_factor(ratio: float) -> float:
    """The usual factor between units that comes closest to a ratio of scales."""
    return min(FACTORS, key=lambda factor: abs(float(np.log(ratio / factor))))


def _near_duplicates(table: Table) -> Iterator[Finding]:
    """Rows that differ from an earlier one in a single column, though the columns have many values."""
    names = [name for name in table.names if table.frame[name].nunique() > 10]
    if len(names) < 3 or len(table.names) > 60:
        return
    exact = table.frame.duplicated().to_numpy()
    near = np.zeros(table.n, dtype=bool)
    for left in table.names:
        others = [name for name in table.names if name != left]
        near |= table.frame.duplicated(subset=others).to_numpy() & ~exact
    if near.sum() > max(1, 0.002 * table.n):
        rows = ", ".join(str(row + 1) for row in np.flatnonzero(near)[:5].tolist())
        yield Finding(
            "info",
            table.source,
            f"{int(near.sum())} rows equal an earlier row in all columns but one (rows {rows}, …)",
            "if they are the same individual, keep one row of each, or link the rows (--groups COLUMN)",
        )


def _order(table: Table) -> Iterator[Finding]:
    """Correlation between rows that follow each other in the file, in two columns or more."""
    if found := alike_in_order(table):
        yield Finding(
            "warning",
            table.source,
            f"rows that follow each other in the file are alike: {', '.join(found[:6])}",
            ORDER_ADVICE,
        )


def finite(column: pd.Series[Any]) -> Array:
    """The finite values of a column."""
    values = column.to_numpy(dtype=float)
    return np.asarray(values[np.isfinite(values)])


def written_differently(levels: Sequence[str]) -> list[list[str]]:
    """Levels that differ in case, blanks or length of the word only: "F", "f", " f", "female"."""
    alike: dict[str, list[str]] = {}
    for level in levels:
        alike.setdefault(" ".join(level.casefold().split()), []).append(level)
    groups = [group for group in alike.values() if len(group) > 1]
    short = [key for key in alike if len(key) == 1 and key.isalpha()]
    for letter in short:
        longer = [key for key in alike if len(key) > 1 and key.isalpha() and key.startswith(letter)]
        if len(longer) == 1:
            groups = [group for group in groups if group not in (alike[letter], alike[longer[0]])]
            groups.append([*alike[letter], *alike[longer[0]]])
    return groups
