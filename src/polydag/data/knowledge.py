"""Background knowledge from a file.

TOML::

    required = [["smoking", "cancer"]]
    forbidden = [["cancer", "age"]]
    tiers = [["age", "sex"], ["smoking"], ["cancer"]]     # the earliest first

CSV, one statement a line: an edge, or the tier of one variable (a smaller number is earlier)::

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

from polydag.data.formats import Source, existing_file
from polydag.errors import DataError
from polydag.knowledge import Knowledge

_HEADER = ["source", "target", "kind"]


class _Statement(NamedTuple):
    """One line of knowledge: an edge with its kind, or a variable with its tier."""

    place: str
    kind: str
    names: tuple[str, ...]
    tier: int = 0


def read_knowledge(path: str | os.PathLike[str]) -> Knowledge:
    """Read required and forbidden edges and tiers from a TOML or CSV file (see the module's text)."""
    label = os.fspath(path)
    file = existing_file(Source(label, None, label))
    suffix = file.suffix.lower()
    if suffix not in (".toml", ".csv"):
        raise DataError(f"{label}: background knowledge is read from .toml and .csv files.")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{label} is not UTF-8 text. Save it as UTF-8.") from None
    statements = (_from_toml if suffix == ".toml" else _from_csv)(text, label)
    try:
        return _together(statements)
    except DataError:
        # The statement that completes the contradiction is the first whose prefix fails.
        for count, statement in enumerate(statements, start=1):
            try:
                _together(statements[:count])
            except DataError as error:
                raise DataError(f"{label}, {statement.place}: {error}") from None
        raise


def _together(statements: Sequence[_Statement]) -> Knowledge:
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
            f"{label}, {_toml_place(text, unknown[0])}: unknown key. Known are required, forbidden and tiers."
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
    """Where a key stands; the parser does not say on which line an entry of it is."""
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
            raise DataError(f"{label}, {place}: {len(cells)} cells where source,target,kind are wanted.")
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
