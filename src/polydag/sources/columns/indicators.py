"""Indicators in place of labels, over parties: their moments, and messages in the names of the labels."""

from __future__ import annotations

from collections.abc import Iterable

from polydag.sources.interface import Mixed, Moments
from polydag.stats import Regimes
from polydag.stats.mixed import Levels, indicators_of


def indicator_moments(mixed: Mixed) -> Moments:
    """Moments of numbers and of indicators of labels, without their kinds."""
    if not isinstance(mixed, Regimes):
        return mixed.moments
    return Regimes({indicators_of(targets, part.levels): part.moments for targets, part in mixed})


def in_names(text: str, targets: Iterable[frozenset[str]], levels: Levels) -> str:
    """A message with the names of variables in place of the indicators that were set."""
    singles = {frozenset({name}) for own in targets for name in own}
    for own in sorted({*targets, *singles}, key=len, reverse=True):
        columns = sorted(indicators_of(own, levels))
        for written in (" and ".join(columns), *(columns if len(own) == 1 else ())):
            text = text.replace(written, " and ".join(sorted(own))) if written else text
    return text
