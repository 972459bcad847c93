"""Moments of rows with missing values: of one table, or of parties that sum under masks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from polydag.arrays import Array, Mask
from polydag.printing import percent
from polydag.stats import GaussianStats
from polydag.stats.gaps.incomplete import How, Incomplete, incomplete_moments

INCOMPLETE = ("testwise", "em")  # ways to moments of rows with missing values
MULTIPLE = "multiple"  # completed tables
ALLOWED = (*INCOMPLETE, MULTIPLE)  # for missing values to stay in a table
_ROUNDS = 30  # of EM over parties
_TOLERANCE = 1e-3  # there: a correlation that changes by less makes no edge
_SHOWN = 6
_WAYS = {
    "testwise": "Each covariance is from the rows that have both columns (test-wise)",
    "em": "Moments are those that a Gaussian leads to expect (EM, {steps} passes over the rows)",
    "multiple": "They were drawn from a Gaussian that was fitted by EM ({steps} passes over the rows)",
}

Statistic = Callable[[Array], GaussianStats]
Sum = Callable[[Mapping[str, GaussianStats]], GaussianStats]


def centred_gaps(frame: pd.DataFrame) -> tuple[Array, Array]:
    """The rows less the means of what is there, and these means; 0 for a column without values."""
    rows = frame.to_numpy(dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without values
        shift = np.nan_to_num(np.nanmean(rows, axis=0))
    return rows - shift, shift


def separate_moments(frame: pd.DataFrame, names: list[str]) -> GaussianStats:
    """The mean and variance of each column from the rows that have it; nothing of pairs."""
    rows, mean = centred_gaps(frame.reindex(columns=names))
    n = float(len(rows))
    there = np.maximum(np.isfinite(rows).sum(axis=0), 1)
    variance = np.nansum(rows**2, axis=0) / there
    return GaussianStats(n, mean, np.diag(n * variance), tuple(names), n)


def summed_gaps(
    frames: Mapping[str, pd.DataFrame], names: tuple[str, ...], how: How, total: Sum, *, centred: bool
) -> Incomplete:
    """Moments of the rows of all parties, one question after the other.

    Parameters
    ----------
    frames : mapping of party to DataFrame
        Numbers with gaps; a column that a party lacks is missing in all of its rows.
    total : callable
        Sums statistics of the parties, under masks.
    centred : bool
        Whether each party subtracts its own means. A column that is constant at a party says nothing there
        then, and counts as missing.
    """
    rows: dict[str, Array] = {}
    for party, frame in frames.items():
        whole = frame.reindex(columns=list(names))
        rows[party] = whole.to_numpy(dtype=float)
        if centred:
            rows[party] = centred_gaps(whole)[0]
            rows[party][:, constant_columns(whole)] = np.nan

    def ask(change: Statistic) -> GaussianStats:
        return total({party: change(own) for party, own in rows.items()})

    return incomplete_moments(ask, names, how, tolerance=_TOLERANCE, max_steps=_ROUNDS)


def constant_columns(frame: pd.DataFrame) -> Mask:
    """The columns that have one value, or none; indicators of a label only together."""
    own = [str(name).partition("=")[0] for name in frame.columns]
    varying = {name for name, values in zip(own, frame.nunique(), strict=True) if values > 1}
    return np.array([name not in varying for name in own], dtype=bool)


def gaps_by_party(frames: Mapping[str, pd.DataFrame], names: tuple[str, ...]) -> tuple[str, ...]:
    """Which columns a party has no values of, in words."""
    notes = []
    for party, frame in frames.items():
        there = {name for name in frame.columns if frame[name].notna().any()}
        lost = dict.fromkeys(name.partition("=")[0] for name in names if name not in there)
        if lost:
            notes.append(f"{party} has no values of {', '.join(lost)}; the other parties have.")
        varying = {name.partition("=")[0] for name in frame.columns if frame[name].nunique() > 1}
        same = [name for name in dict.fromkeys(name.partition("=")[0] for name in names)
                if name not in varying and name not in lost]  # fmt: skip
        if same:
            notes.append(f"{party} has no values of {', '.join(same)} that differ; the other parties have.")
    return tuple(notes)


def gaps_note(found: Incomplete, how: str) -> str:
    """How moments were computed in spite of missing values, and what the rows are worth."""
    share = 1 - found.pairs.diagonal().sum() / (found.rows * len(found.pairs))
    early = "" if found.settled else ", which ended before it had settled"
    way = _WAYS[how].format(steps=found.steps) + early
    worth = f"; for edges the {found.rows:g} rows are worth about {found.stats.n:.0f} complete ones"
    return (
        f"{percent(share)} of the values are missing. {way}{'' if how == MULTIPLE else worth}.{_apart(found)}"
    )


def unknown_pairs(found: Incomplete) -> tuple[tuple[str, str], ...]:
    """Pairs of columns that no row has both of: the rows say nothing about them."""
    names = [name.partition("=")[0] for name in found.stats.names]
    never = {
        (names[i], names[j]): None
        for i, j in combinations(range(len(names)), 2)
        if found.pairs[i, j] == 0 and names[i] != names[j]
    }
    return tuple(never)


def _apart(found: Incomplete) -> str:
    """The pairs about which the rows say nothing, in words."""
    never = unknown_pairs(found)
    if not never:
        return ""
    words = [f"{a} – {b}" for a, b in sorted(never)[:_SHOWN]]
    shown = ", ".join(words) + (", …" if len(never) > _SHOWN else "")
    return (
        f" No row has both columns of {len(never)} pair{'s' * (len(never) > 1)} ({shown}): whether they are "
        "connected is unknown, and no edge between them does not mean that there is none."
    )
