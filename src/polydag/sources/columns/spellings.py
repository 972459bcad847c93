"""Labels that several sources write differently, and levels that only some of them have."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations

_SHOWN = 6


def spelling_notes(column: str, levels: Mapping[str, Sequence[Hashable]]) -> tuple[str, ...]:
    """What a reader should know about the levels of a column at several parties or tasks.

    Two labels may be one: if they are the same but for case and spaces, or if one begins with the other and
    no source has both.

    Examples
    --------
    >>> spelling_notes("sex", {"a": ["F", "M"], "b": ["female", "M"]})
    ("Column sex: may 'F' (a) and 'female' (b) be one label? Write them alike: --recode sex:female=F.",)
    """
    holders: dict[Hashable, list[str]] = {}
    for source, own in levels.items():
        for level in own:
            holders.setdefault(level, []).append(source)
    alike = [pair for pair in combinations(holders, 2) if _may_be_one(*pair, holders)]
    if alike:
        asked = [f"{_told(a, holders)} and {_told(b, holders)}" for a, b in alike[:_SHOWN]]
        more = " …" if len(alike) > _SHOWN else ""
        first, second = alike[0]
        words = f"may {asked[0]} be one label?" + "".join(f" May {pair}?" for pair in asked[1:])
        return (f"Column {column}: {words}{more} Write them alike: --recode {column}:{second}={first}.",)
    rare = [level for level, who in holders.items() if len(who) < len(levels)]
    if not rare or len(levels) < 2:
        return ()
    more = ", …" if len(rare) > _SHOWN else ""
    listed = ", ".join(_told(level, holders) for level in rare[:_SHOWN]) + more
    return (f"Column {column}: only some have the levels {listed}.",)


def _may_be_one(a: Hashable, b: Hashable, holders: Mapping[Hashable, list[str]]) -> bool:
    if not (isinstance(a, str) and isinstance(b, str)):
        return False
    one, other = sorted((_plain(a), _plain(b)), key=len)
    if one == other:
        return True
    together = set(holders[a]) & set(holders[b])
    return bool(one) and not one[0].isdigit() and other.startswith(one) and not together


def _plain(label: str) -> str:
    return " ".join(label.split()).casefold()


def _told(level: Hashable, holders: Mapping[Hashable, list[str]]) -> str:
    whole = isinstance(level, float) and level % 1 == 0
    return f"{int(level) if whole else level!r} ({', '.join(holders[level])})"  # type: ignore[call-overload]
