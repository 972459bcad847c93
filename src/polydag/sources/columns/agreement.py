"""What several sources with the same columns agree on: kinds, and the levels of labels."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from polydag.data.kinds import has_few_whole_numbers
from polydag.data.table import Kind
from polydag.errors import DataError, UsageError
from polydag.federated.each_party import for_each_party
from polydag.sources.interface import Source
from polydag.sources.table import InMemory
from polydag.stats.discrete import sorted_levels
from polydag.stats.mixed import Levels


def common_names(each: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The columns that all parties have, in the order of most of them."""
    names = Counter(each.values()).most_common(1)[0][0]
    for party, own in each.items():
        if set(own) != set(names):
            raise DataError(_column_difference(party, names, own))
    return names


def _column_difference(party: str, names: tuple[str, ...], own: tuple[str, ...]) -> str:
    parts = [
        f"{what} {', '.join(sorted(columns))}"
        for what, columns in (("lacks", set(names) - set(own)), ("has besides", set(own) - set(names)))
        if columns
    ]
    return (
        f"{party}: its columns are not those of the other parties: it {' and '.join(parts)}. "
        "Leave out what not all have (--columns on the command line), or add it."
    )


def agreed_kinds(
    sources: Mapping[str, Source], names: Sequence[str], *, by_all_rows: bool = False
) -> dict[str, Kind]:
    """The kind of each column in all sources.

    Kinds that are fixed in one source (given, or of text) hold in all. Where a column has numbers everywhere,
    fractions in one source make it continuous in all; otherwise the source with the most rows decides whether
    its whole numbers are labels, since fewer rows say less about that; or all rows do (`by_all_rows`), where
    they are in one place.
    """
    fixed = for_each_party(sources, lambda source: source.fixed_kinds)
    inferred = for_each_party(sources, lambda source: source.kinds)
    agreed: dict[str, Kind] = {}
    for column in names:
        told = {own[column]: source for source, own in fixed.items() if column in own}
        if len(told) > 1:
            raise DataError(
                f"Column {column} holds numbers at {told['continuous']} and labels at {told['discrete']}. "
                "Declare the same kind at every party, or write it in the same way."
            )
        holders = [source for source in sources if column in inferred[source]]
        found = inferred[max(holders, key=lambda name: sources[name].n)][column]
        numbers = [source for source in holders if inferred[source][column] == "continuous"]
        if found == "discrete" and any(_has_fractions(sources[source], column) for source in numbers):
            found = "continuous"
        if by_all_rows and not told:
            tables = [source for source in sources.values() if isinstance(source, InMemory)]
            if len(tables) == len(sources):
                found = _kind_in_all_rows(column, tables)
        agreed[column] = next(iter(told), found)
    return agreed


def _kind_in_all_rows(column: str, tables: Sequence[InMemory]) -> Kind:
    """The kind of a column of numbers over the rows of several tables."""
    parts = [
        table.frame.iloc[:, table.names.index(column)].to_numpy(dtype=float)
        for table in tables
        if column in table.names
    ]
    return "discrete" if has_few_whole_numbers(np.concatenate(parts)) else "continuous"


def _has_fractions(source: Source, column: str) -> bool:
    """Whether a column of numbers has values that are not whole; so too where only statistics are known."""
    try:
        values = source.levels([column])[column]
    except UsageError:
        return True
    return any(float(value) % 1 != 0 for value in values)  # type: ignore[arg-type]


def agreed_fixed_kinds(sources: Mapping[str, Source]) -> dict[str, Kind]:
    """The kinds that are fixed in some source."""
    found: dict[str, Kind] = {}
    for source in sources.values():
        found |= source.fixed_kinds
    return found


def levels_of_each(sources: Mapping[str, Source], labels: Sequence[str]) -> dict[str, Levels]:
    """The levels of each label column in each source."""
    return for_each_party(
        sources, lambda source: source.levels([name for name in labels if name in source.names])
    )


def require_different_labels(each: Mapping[str, Levels], labels: Sequence[str]) -> None:
    """Raise for a column of labels that does no more than name the party, among numbers."""
    for column in labels:
        own = {party: levels[column] for party, levels in each.items() if column in levels}
        if all(len(levels) < 2 for levels in own.values()):
            shown = ", ".join(f"{next(iter(found), 'none')} at {party}" for party, found in own.items())
            raise DataError(
                f"Column {column} has the same label in all rows of a party ({shown}). Rows are centred "
                "within each party, so nothing can be learned about it. Leave it out (--exclude "
                f"{shlex.quote(column)})."
            )


def united_levels(each: Mapping[str, Levels], labels: Sequence[str]) -> Levels:
    """The levels of each label column over all sources."""
    return {
        column: _united(column, {name: own[column] for name, own in each.items() if column in own})
        for column in labels
    }


def _united(column: str, each: Mapping[str, tuple[Hashable, ...]]) -> tuple[Hashable, ...]:
    words = {isinstance(level, str): f"{name} ({level!r})" for name, own in each.items() for level in own}
    if len(words) > 1:
        raise DataError(
            f"Column {column} has words at {words[True]} and numbers at {words[False]}, which would be "
            "different levels. Write it in the same way at every party."
        )
    first, *others = each.values()
    if all(own == first for own in others):
        return first
    return sorted_levels({level for own in each.values() for level in own})
