"""The rules of `check` about two tables: other columns, kinds, labels and units."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import numpy as np

from polydag.data.checking.findings import Finding
from polydag.data.checking.hints import finite, nearest_factor, usual_factor, written_differently
from polydag.data.checking.rules import levels_of
from polydag.data.table import Table

_FOLD = 5.0  # how far standard deviations differ where units are asked about, whatever the factor
_APART, _ALIKE = 2.0, 0.15  # standard deviations between means; logarithms of ratios of means and spreads
_MOST_NAMED = 20  # columns that are listed in an option


def findings_between(first: Table, other: Table) -> Iterator[Finding]:
    """Findings about how another table differs from the first."""
    pair = f"{first.source} and {other.source}"
    ours, theirs = set(first.names), set(other.names)
    if ours != theirs:
        only = [f"{', '.join(sorted(a - b))} only in {t.source}" for a, b, t in
                ((ours, theirs, first), (theirs, ours, other)) if a - b]  # fmt: skip
        yield Finding("error", pair, f"have different columns: {'; '.join(only)}", _common(first, other))
    elif first.names != other.names:
        yield Finding(
            "info",
            pair,
            "have the same columns in a different order",
            "no action is needed: columns are matched by name",
        )
    for name in (name for name in first.names if name in theirs):
        subject = f"{pair}, column {name}"
        if first.kinds[name] != other.kinds[name]:
            if min(t.frame[name].nunique() for t in (first, other)) < 2:
                continue  # the kind of a column with a single value cannot be inferred
            yield Finding(
                "error",
                subject,
                f"is {first.kinds[name]} in the first and {other.kinds[name]} in the second",
                f"declare its kind: --kind {shlex.quote(f'{name}=continuous')} or --kind "
                f"{shlex.quote(f'{name}=discrete')}",
            )
        elif first.kinds[name] == "discrete":
            a, b = (set(levels_of(t.frame[name])) for t in (first, other))
            if a != b:
                yield Finding(
                    "info" if a < b or b < a else "warning",
                    subject,
                    f"has different levels: {', '.join(sorted(a ^ b)[:8])} in only one of them",
                    _spelling(name, a | b) or "a level may be absent from a table",
                )
        else:
            yield from _unit_findings(first, other, name, subject)


def _common(first: Table, other: Table) -> str:
    """How to use the columns that two tables have in common."""
    common = [name for name in first.names if name in other.names]
    named = shlex.quote(",".join(common)) if 0 < len(common) <= _MOST_NAMED else "a,b,c"
    return f"name those that all tables have (--columns {named}), or give parties --missing em"


def _unit_findings(first: Table, other: Table, name: str, subject: str) -> Iterator[Finding]:
    """A column that may be in other units in the other table.

    A change of units multiplies mean and spread by one factor. Little else does where the means of positive
    values are far apart beside their spread; a small factor needs that, a large one does not.
    """
    values = [finite(table.frame[name]) for table in (first, other)]
    if min(len(own) for own in values) < 2:
        return
    small, large = sorted((float(own.std()), float(own.mean()), table.source)
                          for own, table in zip(values, (first, other), strict=True))  # fmt: skip
    if small[0] <= 0:
        return
    ratio, of_means = large[0] / small[0], large[1] / small[1] if small[1] > 0 else 0.0
    positive = all((own >= 0).all() for own in values)
    apart = positive and large[1] - small[1] > _APART * large[0]
    unit = usual_factor(of_means) if apart and of_means > 0 else ""
    both = bool(unit) and abs(np.log(ratio / of_means)) < _ALIKE
    if ratio <= _FOLD and not both:
        return
    unit = unit if both else usual_factor(ratio)
    factor = nearest_factor(of_means if both else ratio)
    option = shlex.quote(f"{small[2]}:{name}={factor:g}") if unit else f"FILE:{shlex.quote(name)}=FACTOR"
    means = f", means {values[0].mean():.3g} and {values[1].mean():.3g}" if both else ""
    spreads = f"sd {values[0].std():.3g} and {values[1].std():.3g}{means}"
    yield Finding(
        "warning",
        subject,
        f"has scales that differ {ratio:.3g}-fold ({spreads})",
        "check the units: a quantity must have the same unit in all tables"
        + (f" ({unit} differ by such a factor)" if unit else "")
        + f"; --rescale {option} converts them",
    )


def _spelling(name: str, levels: set[str]) -> str:
    alike = written_differently(sorted(levels))
    if not alike:
        return ""
    listed = "; ".join(" = ".join(repr(level) for level in group) for group in alike)
    options = " ".join(
        f"--recode {shlex.quote(f'{name}:{other}={group[0]}')}" for group in alike for other in group[1:]
    )
    return f"write levels in the same way everywhere ({listed}): {options}"
