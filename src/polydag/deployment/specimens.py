"""Tables in place of the sites' own: with the right columns and labels, and nothing of their rows.

The learner runs on them wherever a site's rows are out of reach. What it needs to know of these without
asking is in the study's description: the columns, whether values are missing, and which variables were set.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pandas as pd

from polydag import data
from polydag.data import Table
from polydag.deployment.description import Description
from polydag.losses.lagged import REALISATION, TIME
from polydag.sources import InMemory
from polydag.sources.gaps.moments import ALLOWED
from polydag.stats import Regimes
from polydag.studies.data.sources import in_memory
from polydag.studies.plan import Plan, plan_of

Rows = Mapping[frozenset[str], float]
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")
_LEAST = 4  # rows of each part of a specimen
_NOTHING_SET: frozenset[str] = frozenset()


class Elsewhere(InMemory):
    """A specimen as a source, which stands for as many rows as it is told, per set of variables set."""

    stands_for: Rows = MappingProxyType({})

    @property
    def n(self) -> float:
        """The number of rows that it stands for."""
        return float(sum(self.stands_for.values()))

    def counts(self) -> Any:
        """Counts with the labels of the study, which add up to the number of rows."""
        own = super().counts()
        if isinstance(own, Regimes):
            return Regimes({targets: self._counted(part, targets) for targets, part in own})
        return self._counted(own, _NOTHING_SET)

    def _counted(self, own: Any, targets: frozenset[str]) -> Any:
        return dataclasses.replace(own, counts=own.counts * (self.stands_for.get(targets, 0.0) / own.n))

    def with_data(self, data: Any) -> Self:
        """Other contents for the same rows."""
        again = super().with_data(data)
        again.stands_for = self.stands_for
        return again


def tables_of(
    description: Description, rows: Rows, own: Mapping[str, Table] | None = None
) -> dict[str, InMemory]:
    """Sources for all sites: specimens that stand for `rows` in all, less those of the tables in `own`."""
    plan, own = plan_of(description.config), own or {}
    made = dict[str, Table]()  # sites of which the same is said have the same
    found = dict[str, InMemory]()
    for site in description.sites:
        if site in own:
            found[site] = in_memory(plan, own[site])
            continue
        said = repr(description.holdings.get(site))
        if said not in made:
            made[said] = specimen(description, site)
        found[site] = in_memory(plan, made[said], Elsewhere)
    left = dict(rows)
    for site in own:
        for targets, n in rows_of(found[site]).items():
            left[targets] = left.get(targets, 0.0) - n
    for site, source in found.items():
        if isinstance(source, Elsewhere):
            held = regimes_of(description, site)
            source.stands_for = {targets: left.pop(targets) for targets in held if targets in left}
    return found


def rows_of(source: InMemory) -> dict[frozenset[str], float]:
    """The number of rows of a table, per set of variables that were set."""
    if source.targets is None:
        return {_NOTHING_SET: source.n}
    return {targets: float(n) for targets, n in Counter(map(frozenset, source.targets)).items()}


def typed_levels(levels: Sequence[str]) -> tuple[Any, ...]:
    """Labels as tables hold them: whole numbers where all of them are."""
    whole = all(_WHOLE.fullmatch(level) for level in levels)
    return tuple(sorted(map(int, levels))) if whole else tuple(sorted(levels))


def regimes_of(description: Description, site: str) -> list[frozenset[str]]:
    """The sets of variables that were set in some of a site's rows."""
    told = description.holdings.get(site, {}).get("regimes")
    return [_NOTHING_SET] if told is None else [frozenset(targets) for targets in told]


def specimen(description: Description, site: str) -> Table:
    """A small table with the columns of the study, in which every label occurs."""
    plan, told = plan_of(description.config), description.holdings.get(site, {})
    regimes = regimes_of(description, site)
    most = max([_LEAST + _lags(plan), *(len(column.levels) for column in description.columns.values())])
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for name, column in description.columns.items():
        if column.kind == "discrete":
            levels = typed_levels(column.levels)
            columns[name] = [levels[row % len(levels)] for row in range(most)] * len(regimes)
        else:
            columns[name] = rng.standard_normal(most * len(regimes))
    frame = pd.DataFrame(columns)
    if told.get("gaps"):
        frame = pd.concat([frame, pd.DataFrame([[None] * len(columns)], columns=frame.columns)])
    if told.get("regimes") is not None:
        first, *others = description.config.intervention_columns
        words = ["+".join(sorted(targets)) or "none" for targets in regimes for _ in range(most)]
        frame = frame.assign(**{first: words}, **dict.fromkeys(others, "none"))
    frame = frame.assign(**_order(plan, len(frame)))
    kinds = {name: kind for name, kind in kinds_of(description).items() if name in frame}
    missing: Any = "keep" if description.missing in ALLOWED else "error"
    return data.from_frame(frame, kinds=kinds, missing=missing, source="the study")


def kinds_of(description: Description) -> Any:
    """The kind of each column, and of those that name what was set."""
    named = dict.fromkeys(description.config.intervention_columns, "discrete")
    return {name: column.kind for name, column in description.columns.items()} | named


def _lags(plan: Plan) -> int:
    return int(plan.series["lags"]) if plan.is_time_series else 0


def _order(plan: Plan, n: int) -> dict[str, Any]:
    """The columns that put rows in order, where a time series has them under names of its own."""
    if not plan.is_time_series:
        return {}
    usual = {"time": TIME, "realisation": REALISATION}
    values: dict[str, Any] = {"time": np.arange(n), "realisation": np.zeros(n)}
    return {plan.series[what]: values[what] for what, name in usual.items() if plan.series[what] != name}
