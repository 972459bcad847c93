"""How many equations in single sites' statistics a site's sums have been.

The sum over all sites of their moments, or of anything that is linear in these, is a statistic of the pooled
rows and says nothing else. A sum of anything else (parameters, coefficients, votes, logarithms) is an
equation in the statistics of single sites. K sites with d columns have K d (d + 1)/2 covariances, of which
the pooled moments leave (K − 1) d (d + 1)/2 unknown. With as many equations they can be solved for. Some sums
follow from the data alone, whatever a question says: asked for again, they bring no new equation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from polydag.federated.protocol.checks import ADJUSTMENT
from polydag.federated.protocol.messages import Arrays
from polydag.privacy.ledger import DATA, VERSION, Entry

POOLED = frozenset(
    ("rows", "mass", "sums", "scatter", "squares", "share", "families", "counts", "masses", "means", "rank")
)
"""Arrays that are linear in a site's moments and counts, or sums over all sites of squared means."""
COARSE = frozenset(("log_scales",))
"""Arrays that are rounded so coarsely that no equation follows."""
_PRODUCTS = ("scatter", "squares", "families")
SCALED, PARTLY_CENTRED = "scaled ", "partly centred "  # before the names of arrays of adjusted rows


class Sum(NamedTuple):
    """An array that left a site: its name, and its shape without the words of a number."""

    name: str
    shape: tuple[int, ...]


def entry_name(name: str, known: Arrays) -> str:
    """An array's name in the ledger, which says whether sites have adjusted their rows by themselves.

    Moments of rows that each site has divided by its own spread, or moved a part of the way to its own mean,
    are not linear in those of its rows as they are. `known` is what the question brings, and what the site
    has kept of earlier ones.
    """
    adjustment, kind = known.get(ADJUSTMENT), name.split("[")[0]
    if adjustment is None or kind not in POOLED:
        return name
    if 0 < adjustment[0] < 1:
        return PARTLY_CENTRED + name
    return SCALED + name if adjustment[0] > 0 and adjustment[1] > 0 and kind in _PRODUCTS else name


def equations(found: Sum) -> int:
    """How many equations in single sites' covariances a sum brings."""
    name = found.name.split("[")[0]
    if name in POOLED or name in COARSE:
        return 0
    if name.endswith(" scatter") and len(found.shape) == 2:  # symmetric; older ledgers have it whole
        d = found.shape[-1]
        return d * (d + 1) // 2
    if name == "variances":  # degrees of freedom, logarithms, coarse numbers, and a count
        return found.shape[-1]
    return 1 if name == "overall" else math.prod(found.shape)


def depends_on_question(name: str) -> bool:
    """Whether a sum may be a new equation each time, and not the same for the same data."""
    return not (name in ("weighted scatter", "variances", "overall") or name.startswith(SCALED))


def sum_of(name: str, shape: str) -> Sum:
    """From what a ledger says; the first axis holds the words of a number."""
    return Sum(name, tuple(map(int, shape.split("×")[1:])))


def opened(chain: Iterable[Entry]) -> tuple[int, set[str]]:
    """How many equations left without noise, according to a ledger, and the columns they concern."""
    versions: dict[str, str] = {}
    known: set[tuple[str, Sum]] = set()
    count, columns = 0, set[str]()
    for entry in chain:
        if entry.kind == VERSION:
            versions[entry.study] = entry.name
        if entry.kind != DATA or not entry.masked or entry.multiplier:
            continue
        found = sum_of(entry.name, entry.shape)
        version = versions.get(entry.study, "")
        if (new := equations(found)) and (depends_on_question(found.name) or (version, found) not in known):
            known.add((version, found))
            count += new
            columns |= columns_of(version)
    return count, columns


def columns_of(version: str) -> set[str]:
    """The columns of a version of the data."""
    said: Mapping[str, Mapping[str, str]] = json.loads(version) if version else {}
    return set(said.get("columns", ()))


def unknown(sites: int, d: int) -> int:
    """How many covariances of single sites their pooled moments leave unknown."""
    return (sites - 1) * d * (d + 1) // 2
