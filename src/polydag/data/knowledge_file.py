"""Read background knowledge from a file.

TOML::

    required = [["smoking", "cancer"]]
    forbidden = [["cancer", "age"]]
    tiers = [["age", "sex"], ["smoking"], ["cancer"]]     # earliest first

CSV, with one statement per line: an edge, or the tier of a variable (smaller numbers are earlier)::

    source,target,kind
    smoking,cancer,required
    cancer,age,forbidden
    age,,tier 1
    smoking,,tier 2
"""

from __future__ import annotations

import csv
import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from polydag.data.readers.interface import Location, existing_file
from polydag.errors import DataError
from polydag.knowledge import Knowledge

_HEADER = ["source", "target", "kind"]


class _Statement(NamedTuple):
    """One statement: an edge and its kind, or variables and their tier."""

    place: str
    kind: str
    names: tuple[str, ...]
    tier: int = 0


def read_knowledge(path: str | os.PathLike[str]) -> Knowledge:
    """Read required and forbidden edges and tiers from a TOML or CSV file (see the module docstring)."""
    label = os.fspath(path)
    file = existing_file(Location(label, None, label))
    suffix = file.suffix.lower()
    if suffix not in (".toml", ".csv"):
        raise DataError(f"{label}: background knowledge must be in a .toml or .csv file.")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{label} is not UTF-8 text. Save it as UTF-8.") from None
    statements = (_from_toml if suffix == ".toml" else _from_csv)(text, label)
    try:
        return _combine(statements)
    except DataError:
        # The first prefix of the statements that fails ends with the one that completes the contradiction.
        for count, statement in enumerate(statements, start=1):
            try:
                _combine(statements[:count])
            except DataError as error:
                raise DataError(f"{label}, {statement.place}: {error}") from None
        raise


def _combine(statements: Sequence[_Statement]) -> Knowledge:
    tiers: dict[int, list[str]] = {}
    for statement in statements:
        if statement.kind == "tier":
            tiers.setdefault(statement.tier, []).extend(statement.names)
    return Knowledge(
        required=_edges(statements, "required"),
        forbidden=_edges(statements, "forbidden"),
        tiers=[tiers[number] for number in sorted(tiers)],
    )


def _edges(statements: Iterable[_Statement], kind: str) -> list[tuple[str, ...]]:
    return [statement.names for statement in statements if statement.kind == kind]


def _from_toml(text: str, label: str) -> list[_Statement]:
    try:
        content: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{label} is not valid TOML: {error}.") from None
    if unknown := [key for key in content if key not in ("required", "forbidden", "tiers")]:
        raise DataError(
            f"{label}, {_toml_place(text, unknown[0])}: unknown key. "
            "The keys are required, forbidden and tiers."
        )
    result = []
    for key, entries in content.items():
        kind = "tier" if key == "tiers" else key
        shape = "a list of lists of names" if key == "tiers" else "a list of pairs [source, target]"
        for number, entry in enumerate(entries if isinstance(entries, list) else [None]):
            place = _toml_place(text, key, None if entry is None else number)
            named = isinstance(entry, list) and all(isinstance(name, str) for name in entry)
            if not named or (kind != "tier" and len(entry) != 2):
                shown = entries if entry is None else entry
                raise DataError(f"{label}, {place}: {key} must be {shape}; got {shown!r}.")
            result.append(_Statement(place, kind, tuple(entry), number + 1))
    return result


def _toml_place(text: str, key: str, entry: int | None = None) -> str:
    """The line of a key, and the number of its entry: the parser does not report the lines of entries."""
    pattern = re.compile(rf"""^\s*\[*\s*["']?{re.escape(key)}["']?\s*[=\].]""")
    lines = (number for number, line in enumerate(text.splitlines(), start=1) if pattern.match(line))
    place = f"line {next(lines, 1)}, {key}"
    return place if entry is None else f"{place}, entry {entry + 1}"


def _from_csv(text: str, label: str) -> list[_Statement]:
    reader = csv.reader(text.splitlines(keepends=True), skipinitialspace=True)
    result = []
    header: list[str] | None = None
    for record in reader:
        cells = [cell.strip() for cell in record]
        place = f"line {reader.line_num}"
        if not any(cells):
            continue
        if header is None:
            header = [cell.lower() for cell in cells]
            if header != _HEADER:
                raise DataError(
                    f"{label}, {place}: the header must be {','.join(_HEADER)}; got {','.join(cells)}."
                )
            continue
        if len(cells) != 3:
            raise DataError(f"{label}, {place}: got {len(cells)} cells instead of source,target,kind.")
        result.append(_csv_statement(*cells, place=place, label=label))
    return result


def _csv_statement(source: str, target: str, kind: str, *, place: str, label: str) -> _Statement:
    if kind.lower() in ("required", "forbidden") and source and target:
        return _Statement(place, kind.lower(), (source, target))
    if (tier := re.fullmatch(r"tier\s+(\d+)", kind.lower())) and source and not target:
        return _Statement(place, "tier", (source,), int(tier[1]))
    raise DataError(
        f"{label}, {place}: {source},{target},{kind} is neither an edge (source,target,required or "
        "forbidden) nor a tier (name,,tier 1)."
    )
