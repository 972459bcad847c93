"""The structures that a table's links, times or coordinates allow."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import UsageError
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import Layout
from polydag.rows.structures.decay import Decay
from polydag.rows.structures.exchangeable import Exchangeable, Independent, Smooth
from polydag.rows.structures.interface import Structure
from polydag.rows.structures.known import Known
from polydag.rows.structures.relation import Relation
from polydag.rows.structures.shared_block import SharedBlock, shared_blocks

STRUCTURES = ("auto", "free", "common", "decay", "matern", "block", "smooth", "kinds", "independent")
MOST_ROWS = 500  # of a component with one entry of Θ for each link, where that is to be tried
_MOST_PLACES, _MOST_KINDS = 60, 6
_VALUES_PER_PLACE = 3  # observed groups and columns for each place of a shared block


def simple_structures(layout: Layout, table: LinkedTable, p: int) -> list[Structure]:
    """Those with few parameters first; a shared block only where groups and columns are many enough."""
    common = Exchangeable(layout)
    found: list[Structure] = [Independent(common), common]
    if table.links.what == "links":
        found.append(Smooth(common))
    if table.links.kinds is not None and 2 <= len(np.unique(table.links.kinds)) <= _MOST_KINDS:
        found.append(named_structure("kinds", layout, table))
    if has_distances(table):
        found.append(named_structure("decay", layout, table))
        if table.places is not None and table.places.shape[1] > 1:
            found.append(named_structure("matern", layout, table))
    if table.links.what == "groups":
        places = group_places(layout, table)
        if 2 <= places.max() + 1 <= _MOST_PLACES and _least_seen(places) * p >= _VALUES_PER_PLACE * (
            places.max() + 1
        ):
            found.extend(shared_blocks(layout, places))
    return found


def has_distances(table: LinkedTable) -> bool:
    """Whether rows of a component have a distance: in time, in space, or in the order of a group."""
    return table.places is not None or table.links.what == "groups"


def named_structure(name: str, layout: Layout, table: LinkedTable, share: float | None = None) -> Structure:
    """The structure of a name, or an error that says what it needs."""
    if table.covariance is not None:
        return Known(layout, layout.sorted_blocks(table.covariance), share)
    if name == "common":
        return Exchangeable(layout)
    if name == "smooth":
        return Smooth(Exchangeable(layout))
    if name in ("decay", "matern"):
        if not has_distances(table):
            raise UsageError(
                f"structure={name!r} needs distances between rows: give coordinates=, or groups= with time=."
            )
        points = (
            group_places(layout, table)[:, None].astype(float)
            if table.places is None
            else _sorted(layout, table)
        )
        return Decay(layout, points, smooth=name == "matern", intercept=table.links.what == "groups")
    if name == "block":
        if table.links.what != "groups":
            raise UsageError("structure='block' is for groups=: each row has a place in its group.")
        return SharedBlock(layout, group_places(layout, table))
    if table.links.kinds is None:
        raise UsageError("structure='kinds' needs links with a kind each: a column `kind` beside the pairs.")
    return Relation(layout, _indicators(layout, table))


def _sorted(layout: Layout, table: LinkedTable) -> Array:
    assert table.places is not None
    return table.places[layout.order]


def group_places(layout: Layout, table: LinkedTable) -> Index:
    """Each row's place in its group, sorted as in the layout: of its time among all, or its rank.

    Times are places of their own where few of them are common to all groups and none occurs twice in a group.
    """
    component = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
    if table.places is None:
        return np.asarray(np.arange(layout.n) - layout.starts[component], dtype=np.int64)
    times = table.places[layout.order, 0]
    distinct, which = np.unique(times, return_inverse=True)
    once = len(np.unique(np.stack([component, which]), axis=1).T) == layout.n
    if once and len(distinct) <= _MOST_PLACES:
        return np.asarray(which, dtype=np.int64)
    order = np.lexsort((times, component))
    places = np.empty(layout.n, dtype=np.int64)
    places[order] = np.arange(layout.n) - layout.starts[component[order]]
    return places


def _least_seen(places: Index) -> int:
    """How many groups have the rarest place."""
    return int(np.bincount(places).min())


def _indicators(layout: Layout, table: LinkedTable) -> dict[str, list[Array]]:
    from scipy.sparse import csr_array

    links = table.links
    assert links.kinds is not None
    i, j = links.pairs.T
    result = {}
    for kind in np.unique(links.kinds):
        own = links.kinds == kind
        ends = (np.concatenate([i[own], j[own]]), np.concatenate([j[own], i[own]]))
        matrix = csr_array((np.ones(2 * int(own.sum())), ends), shape=(links.n, links.n))
        result[str(kind)] = layout.sorted_blocks(matrix)
    return result
