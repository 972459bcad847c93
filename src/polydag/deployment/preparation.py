"""A site's rows as the study wants them, and checks of kinds, units, ranges and labels.

The recipe is part of the study's description; a site whose table differs has a `recipe.toml` of its own in
its kit, with [columns] in the same form, whose `from`, `factor`, `labels` and `na` prevail.
"""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from polydag import data
from polydag.data import Table
from polydag.deployment.description import OPERATORS, Column, Description, condition
from polydag.deployment.specimens import kinds_of, rows_of, typed_levels
from polydag.errors import DataError, UsageError
from polydag.sources.gaps.moments import ALLOWED, constant_columns
from polydag.studies.data.linking import require_interventions
from polydag.studies.data.sources import in_memory
from polydag.studies.plan import plan_of

RECIPE = "recipe.toml"
_OWN = ("from", "factor", "labels", "na")
_MOST_OUTSIDE = 0.05  # share of a column's values that may lie outside the declared range
_FACTORS = (10.0, 18.016, 38.67, 88.42, 88.57, 100.0, 1000.0, 1e6, 2.2046, 2.54, 0.4536, 7.5006, 4.184)


def with_recipe(description: Description, kit: Path) -> Description:
    """The description with a site's own recipe, where it has one."""
    file = kit / RECIPE
    if not file.exists():
        return description
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8")).get("columns", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file} cannot be read as TOML ({error}).") from None
    columns = dict(description.columns)
    for name, own in given.items():
        if name not in columns:
            raise UsageError(f"{file}: the study has no column {name}.")
        if unknown := [key for key in own if key not in _OWN]:
            raise UsageError(f"{file}: the study sets {name}.{unknown[0]}; a recipe has {', '.join(_OWN)}.")
        columns[name] = Column.of(name, {**columns[name].to_json(), **own})
    return dataclasses.replace(description, columns=columns)


def used_columns(description: Description) -> list[str]:
    """The columns of a site's own table that a study needs, also to choose rows or to say more of them."""
    named = [column.from_ or name for name, column in description.columns.items()]
    chosen = [condition(text)[0] for text in description.filters]
    return list(dict.fromkeys([*named, *chosen, *description.config.intervention_columns]))


def besides(description: Description) -> tuple[str, ...]:
    """Columns that are no variables, and may be absent: those of what was set, and of the order of rows."""
    plan = plan_of(description.config)
    order = (plan.series["time"], plan.series["realisation"]) if plan.is_time_series else ()
    return (*plan.config.intervention_columns, *order)


@dataclass(frozen=True, eq=False)
class StudyTable(Table):
    """A site's rows as the study wants them.

    Attributes
    ----------
    gaps : tuple of str
        The columns of the site's own table whose missing values have left out rows.
    """

    gaps: tuple[str, ...] = ()


def selection_of(description: Description, gaps: Sequence[str]) -> str:
    """What decides which rows take part, and which are summed apart; empty where all rows are alike.

    Where rows with missing values are left out, the study's columns decide as conditions do. So do columns
    that say what was set by intervention, and the cells into which numbers are divided for ranks and levels.
    """
    config = description.config
    ranks = [name for name, how in config.transforms.items() if how == "rank"]
    origin = {name: column.from_ or name for name, column in description.columns.items()}
    apart = {
        "interventions": sorted(config.intervention_columns),
        "ranks": sorted(origin.get(name, name) for name in ranks),
        "discretize": config.discretize or "",
    }
    told = {what: how for what, how in apart.items() if how}
    if not description.filters and not gaps and not told:
        return ""
    codes = {name: sorted(column.na) for name, column in description.columns.items() if column.na and gaps}
    return json.dumps([sorted(description.filters), codes, sorted(gaps), told], sort_keys=True)


def _with_gaps(table: Table, gaps: Sequence[str]) -> StudyTable:
    own = {field.name: getattr(table, field.name) for field in dataclasses.fields(table)}
    return StudyTable(**own, gaps=tuple(gaps))


def _incomplete(columns: Mapping[str, pd.Series[Any]]) -> list[str]:
    """The columns in which values are missing, or are not finite."""
    return [
        name
        for name, own in columns.items()
        if own.isna().any() or (own.dtype.kind == "f" and np.isinf(own).any())
    ]


def prepared(
    description: Description, source: str, query: str | None = None, *, released: Sequence[str] = ()
) -> StudyTable:
    """The rows of a file or database as the study wants them; a `DataError` says what does not fit.

    `released` are the columns of the table that the study may have; all by default.
    """
    columns = description.columns
    if released and (other := [name for name in used_columns(description) if name not in released]):
        raise DataError(f"The owner does not release the column {other[0]}.")
    if not columns:
        if description.filters:
            raise UsageError("Filters need the study's columns: describe them with --columns.")
        wanted = list(released) or None
        whole = data.read(source, columns=wanted, missing="keep", query=query)
        require_interventions(description.config, whole.frame, whole.source)
        columns_of = {name: whole.frame[name] for name in whole.names}
        return _settled(description, columns_of, whole.kinds, whole, _incomplete(columns_of))
    origin = {name: column.from_ or name for name, column in columns.items()}
    kinds: Any = {origin[name]: column.kind for name, column in columns.items()}
    codes = sorted({code for column in columns.values() for code in column.na})
    some = description.filters or besides(description)
    wanted = None if some else list(dict.fromkeys(origin.values()))
    read = data.read(source, columns=wanted, kinds=kinds, missing="keep", na=codes, query=query)
    frame = _filtered(read.frame, description.filters, read.source)
    if released and (
        other := [name for name in besides(description) if name in frame and name not in released]
    ):
        raise DataError(f"The owner does not release the column {other[0]}, which orders the rows.")
    require_interventions(description.config, frame, read.source)
    made = {name: _column(name, column, frame[origin[name]], read.source) for name, column in columns.items()}
    for name, column in columns.items():
        if column.kind == "continuous" and column.range is not None:
            _require_range(name, column, made[name].to_numpy(dtype=float), read.source)
    gaps = sorted({origin[name] for name in _incomplete(made)})
    made |= {name: frame[name] for name in besides(description) if name in frame and name not in made}
    kinds_here = {name: kind for name, kind in kinds_of(description).items() if name in made}
    table = _settled(description, made, kinds_here, read, gaps)
    return dataclasses.replace(table, declared=frozenset(columns))


def _settled(
    description: Description,
    columns: Mapping[str, pd.Series[Any]],
    kinds: Mapping[str, Any],
    read: Table,
    gaps: Sequence[str],
) -> StudyTable:
    """The columns as a table, with what the study does about missing values, and its transformations."""
    missing: Any = "keep" if description.missing in ALLOWED else description.missing
    own = {name: how for name, how in description.config.transforms.items() if how != "rank"}
    frame = pd.DataFrame(dict(columns))
    table = data.from_frame(frame, kinds=kinds, missing=missing, transforms=own, source=read.source)
    table = dataclasses.replace(table, notes=(*read.notes, *table.notes), declared=read.declared)
    return _with_gaps(table, gaps if missing == "drop" else ())


def _filtered(frame: pd.DataFrame, filters: tuple[str, ...], source: str) -> pd.DataFrame:
    """The rows that meet all conditions `COLUMN OPERATOR VALUE`; nothing else is ever evaluated."""
    for text in filters:
        name, operator, word = condition(text)
        if name not in frame:
            raise DataError(f"{source} has no column {name}, which the study's filter {text!r} is about.")
        numeric = pd.api.types.is_numeric_dtype(frame[name])
        try:
            value: Any = float(word) if numeric else word.strip("'\"")
        except ValueError:
            raise DataError(f"{source}: column {name} holds numbers, and the filter is {text!r}.") from None
        column = frame[name] if numeric else frame[name].astype(str)
        frame = frame[getattr(column, OPERATORS[operator])(value)]
    return frame.reset_index(drop=True)


def _column(name: str, column: Column, own: pd.Series[Any], source: str) -> pd.Series[Any]:
    if column.kind == "continuous":
        return own if column.factor == 1.0 else own.astype(float) * column.factor
    words = own.map(_word, na_action="ignore").astype(object)
    words = words.map(lambda word: column.labels.get(word, word), na_action="ignore")
    if not column.levels:
        return words
    if unknown := sorted(set(words.dropna()) - set(column.levels)):
        raise DataError(
            f"{source}: column {name} has the label {unknown[0]!r}; the study's are "
            f"{', '.join(column.levels)}. Translate it with labels in {RECIPE}."
        )
    typed = dict(zip(sorted(column.levels), column.levels, strict=True))
    if isinstance(typed_levels(column.levels)[0], int):
        return words.map(int, na_action="ignore")
    return words.map(lambda word: typed[word], na_action="ignore")


def _word(value: Any) -> str:
    return str(int(value)) if isinstance(value, (float, np.floating)) and value == int(value) else str(value)


def _require_range(name: str, column: Column, values: np.ndarray[Any, Any], source: str) -> None:
    """Raise where numbers lie elsewhere than the study says, as they do in another unit."""
    assert column.range is not None
    low, high = column.range
    values = values[np.isfinite(values)]
    if not len(values) or ((values < low) | (values > high)).mean() <= _MOST_OUTSIDE:
        return
    median, middle = float(np.median(values)), math.sqrt(max(low * high, 0.0)) or (low + high) / 2
    fitting = [
        (
            abs(math.log(abs(scaled / middle))) if scaled and middle else 0.0,
            f"{'divided' if divide else 'multiplied'} by {factor:g} they would fit",
        )
        for factor in _FACTORS
        for divide in (True, False)
        if low <= (scaled := median / factor if divide else median * factor) <= high
    ]
    hints = [text for _, text in sorted(fitting)]
    unit = f" {column.unit}" if column.unit else ""
    hint = f"; {hints[0]}: are they in another unit?" if hints else "."
    raise DataError(
        f"{source}: column {name} should lie within {low:g} to {high:g}{unit}, and "
        f"{((values < low) | (values > high)).mean():.0%} of its values do not{hint} Convert it with factor "
        f"in {RECIPE}."
    )


def declared(description: Description, table: Table, min_rows: int) -> dict[str, Any]:
    """What a site tells of its columns where the study leaves them open: names, kinds and labels.

    A label that few rows have may be a name, an address or a rare disease: a `DataError` is raised instead.
    """
    found: dict[str, Any] = {}
    for name, kind in table.kinds.items():
        if name in besides(description):
            continue
        counts = table.frame[name].value_counts() if kind == "discrete" else pd.Series(dtype=int)
        if len(counts) and counts.min() < min_rows:
            raise DataError(
                f"{table.source}: column {name} has labels that fewer than {min_rows} rows have, such as "
                f"{counts.idxmin()!r}; joining would disclose them. Leave the column out "
                "(columns, under [rows] of the policy), merge rare labels, or let the study describe its "
                "columns and their levels (--columns)."
            )
        levels = sorted({_word(value) for value in table.frame[name].dropna()}) if kind == "discrete" else []
        found[name] = {"kind": kind, "levels": levels}
    return found


def holding(description: Description, table: Table, min_rows: int) -> dict[str, Any]:
    """What a site says of its rows, where the study depends on it: nothing of single ones.

    A `DataError` is raised where few rows name a variable as set: what they name may be no variable.
    """
    source = in_memory(plan_of(description.config), table)
    gaps = source.lacks_values or bool(constant_columns(source.frame).any())
    if source.targets is not None:
        targets, fewest = min(rows_of(source).items(), key=lambda own: own[1])
        if fewest < min_rows:
            what = " and ".join(sorted(targets)) or "nothing"
            raise DataError(
                f"{table.source}: there are {fewest:g} rows in which {what} was set; at least "
                f"{min_rows} are needed (min_rows). Leave these rows out."
            )
    regimes = None if source.targets is None else sorted(map(sorted, rows_of(source)))
    return {"gaps": description.missing in ALLOWED and gaps, "regimes": regimes}


def agreed_columns(each: dict[str, dict[str, Any]]) -> dict[str, Column]:
    """The study's columns, where the sites' join files decide: those of all, with the labels of all."""
    (first, names), *others = each.items()
    remedy = "Describe the study's columns with --columns when it is made."
    columns = {}
    for name, own in names.items():
        levels = set(own["levels"])
        for site, found in others:
            if set(found) != set(names):
                odd = sorted(set(found) ^ set(names))[0]
                raise DataError(f"{first} and {site} have different columns: {odd} is at one only. {remedy}")
            if found[name]["kind"] != own["kind"]:
                raise DataError(
                    f"Column {name} is {own['kind']} at {first} and {found[name]['kind']} at {site}. {remedy}"
                )
            levels |= set(found[name]["levels"])
        columns[name] = Column(own["kind"], levels=tuple(sorted(levels)))
    return columns
