"""Which method suits a table, by the kind of its columns and by its size.

The rule follows from `benchmarks/defaults.py`: of the methods whose result does not depend on the units of
the columns, BOSS makes the fewest errors, for numbers and for labels. GES takes its place where BOSS would
take too long.
"""

from __future__ import annotations

from typing import NamedTuple

from polydag.data.checking.cost_estimates import estimates

PATIENCE = 60.0  # seconds that a method may be predicted to take without being announced


class Choice(NamedTuple):
    """A method by its name on the command line, and why it was chosen, in a sentence."""

    method: str
    reason: str


def choose(*, d: int, n: float, score: str = "", labels: bool = False) -> Choice:
    """The method that learns one graph from `d` columns and `n` rows.

    `score` says how it scores them, and `labels` that all hold labels: GES is no faster there.

    Examples
    --------
    >>> choose(d=8, n=500).method
    'boss'
    """
    seconds = {cost.method: cost.seconds for cost in estimates(d, n, labels=labels)}
    columns = f"{d} columns{score and f', with {score}'}"
    if seconds["boss"] <= PATIENCE or labels:
        why = "of the searches that do not depend on units, it makes the fewest errors"
        long = f" It takes about {_duration(seconds['boss'])}." if seconds["boss"] > PATIENCE else ""
        return Choice("boss", f"Method auto chose boss for {columns}: {why}.{long}")
    instead = f"boss would take about {_duration(seconds['boss'])} (--method boss)"
    takes = f"; ges takes about {_duration(seconds['ges'])}" if seconds["ges"] > PATIENCE else ""
    return Choice("ges", f"Method auto chose ges for {columns}: {instead}{takes}.")


def _duration(seconds: float) -> str:
    minutes = max(round(seconds / 60), 1)
    return "a minute" if minutes == 1 else f"{minutes} minutes"
