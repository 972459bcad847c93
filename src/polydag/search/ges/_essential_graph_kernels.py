"""Essential graphs (CPDAGs, interventional ones too), compiled: operators are applied and undone in place.

A `Pdag` is an essential graph: `A[i, j]` is `i -> j`, both entries true is undirected; `near[i, :degree[i]]`
are the nodes adjacent to i in increasing order. After an operator, directed edges turn into undirected ones
until all are strongly protected (Andersson, Madigan and Perlman 1997; Hauser and Bühlmann 2012), which
touches only what surrounds the changed edge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Index, Int, Mask
from polydag.compilation import inner, kernel

INSERT, DELETE, TURN_LINE, TURN_ARROW = 0, 1, 2, 3


class Pdag(NamedTuple):
    """An essential graph, and each node's class: an arrow between classes is compelled by the targets."""

    A: Mask
    near: NDArray[np.int32]
    degree: Index
    group: Index


class Change(NamedTuple):
    """What an operator did: the edges it touched and their former state (0 none, 1 ->, 2 <-, 3 line)."""

    i: Index
    j: Index
    before: Index
    done: bool


@kernel
def adjacent(A: Mask, i: Int, j: Int) -> bool:
    """Whether there is any edge between i and j."""
    return bool(A[i, j] or A[j, i])


@inner
def _connect(G: Pdag, i: Int, j: Int) -> None:
    """List j among the nodes adjacent to i."""
    place = G.degree[i]
    while place > 0 and G.near[i, place - 1] > j:
        G.near[i, place] = G.near[i, place - 1]
        place -= 1
    G.near[i, place] = j
    G.degree[i] += 1


@inner
def _disconnect(G: Pdag, i: Int, j: Int) -> None:
    """Take j off the nodes adjacent to i."""
    place = 0
    while G.near[i, place] != j:
        place += 1
    G.degree[i] -= 1
    for k in range(place, G.degree[i]):
        G.near[i, k] = G.near[i, k + 1]


@inner
def _set_edge(G: Pdag, i: Int, j: Int, state: Int) -> None:
    """Give the pair a state (0 none, 1 ->, 2 <-, 3 undirected), lists of adjacent nodes included."""
    was = adjacent(G.A, i, j)
    G.A[i, j] = state == 1 or state == 3
    G.A[j, i] = state == 2 or state == 3
    if was and state == 0:
        _disconnect(G, i, j)
        _disconnect(G, j, i)
    elif not was and state != 0:
        _connect(G, i, j)
        _connect(G, j, i)


@inner
def parents_and_neighbors(G: Pdag, y: Int) -> tuple[Index, Index]:
    """The nodes with an arrow into y, and those with an undirected edge to y."""
    parents = np.empty(G.degree[y], np.int64)
    neighbors = np.empty(G.degree[y], np.int64)
    a = b = 0
    for k in range(G.degree[y]):
        x = G.near[y, k]
        if G.A[x, y]:
            if G.A[y, x]:
                neighbors[b] = x
                b += 1
            else:
                parents[a] = x
                a += 1
    return parents[:a], neighbors[:b]


@inner
def _component(G: Pdag, start: Int, component: Index, number: Int) -> Index:
    """The nodes that undirected paths join to start; `component` gets their number."""
    nodes = np.empty(len(G.degree), np.int64)
    nodes[0], count, at = start, 1, 0
    component[start] = number
    while at < count:
        a = nodes[at]
        at += 1
        for k in range(G.degree[a]):
            b = G.near[a, k]
            if component[b] != number and G.A[a, b] and G.A[b, a]:
                component[b] = number
                nodes[count] = b
                count += 1
    return nodes[:count]


@inner
def _orient_from(G: Pdag, nodes: Index, component: Index, first: Index) -> None:
    """Orient a chain component away from a clique, in a maximum cardinality order that begins with it.

    Any order of a clique begins such an order, and in a chordal graph it makes no v-structure.
    """
    n, p = len(nodes), len(G.degree)
    number = component[nodes[0]]
    after = np.empty(p, np.int64)
    prior = np.empty(p, np.int64)
    weight = np.zeros(p, np.int64)
    place = np.full(p, -1, np.int64)
    head = np.full(n + 1, -1, np.int64)
    for k in range(n - 1, -1, -1):
        v = nodes[k]
        after[v], prior[v] = head[0], -1
        if head[0] >= 0:
            prior[head[0]] = v
        head[0] = v
    heaviest = 0
    for step in range(n):
        if step < len(first):
            v = first[step]
        else:
            while head[heaviest] < 0:
                heaviest -= 1
            v = head[heaviest]
        _unlink(head, after, prior, weight[v], v)
        place[v] = step
        heaviest += 1
        for k in range(G.degree[v]):
            w = G.near[v, k]
            if component[w] == number and place[w] < 0:
                _unlink(head, after, prior, weight[w], w)
                weight[w] += 1
                rest = head[weight[w]]
                after[w], prior[w] = rest, -1
                if rest >= 0:
                    prior[rest] = w
                head[weight[w]] = w
    for v in nodes:
        for k in range(G.degree[v]):
            w = G.near[v, k]
            if component[w] == number and place[v] < place[w]:
                G.A[w, v] = False


@inner
def _unlink(head: Index, after: Index, prior: Index, weight: Int, v: Int) -> None:
    if prior[v] >= 0:
        after[prior[v]] = after[v]
    else:
        head[weight] = after[v]
    if after[v] >= 0:
        prior[after[v]] = prior[v]


@inner
def _eliminate_sinks(
    G: Pdag, nodes: Index, component: Index, forbidden: Mask, informed: bool, orient: bool
) -> bool:
    """Whether a partly oriented chain component can be oriented without v-structure or cycle.

    A node is taken out when nothing points away from it, by an arrow or by knowledge, and its remaining
    neighbours form a clique; with `orient` their edges are turned towards it.
    """
    number = component[nodes[0]]
    gone = np.zeros(len(G.degree), np.bool_)
    ring = np.empty(len(nodes), np.int64)
    remaining, progress = len(nodes), True
    while remaining and progress:
        progress = False
        for s in nodes:
            if gone[s]:
                continue
            size, fits = 0, True
            for k in range(G.degree[s]):
                w = G.near[s, k]
                if component[w] != number or gone[w]:
                    continue
                if not G.A[w, s] or (informed and forbidden[w, s]):
                    fits = False
                    break
                ring[size] = w
                size += 1
            for a in range(size):
                if not fits:
                    break
                for b in range(a):
                    if not adjacent(G.A, ring[a], ring[b]):
                        fits = False
                        break
            if fits:
                gone[s] = progress = True
                remaining -= 1
                if orient:
                    for a in range(size):
                        G.A[s, ring[a]] = False
    return remaining == 0


@kernel
def protected(G: Pdag, a: Int, b: Int) -> bool:
    """Whether the arrow a -> b is strongly protected: by the targets, or by one of four configurations."""
    A = G.A
    if G.group[a] != G.group[b]:
        return True
    for k in range(G.degree[a]):
        w = G.near[a, k]
        if A[w, a] and not A[a, w] and not adjacent(A, w, b):
            return True
    sides = np.empty(G.degree[b], np.int64)
    size = 0
    for k in range(G.degree[b]):
        w = G.near[b, k]
        if w == a or not A[w, b] or A[b, w]:
            continue
        if not A[a, w]:
            if not A[w, a]:
                return True
        elif not A[w, a]:
            return True
        else:
            for t in range(size):
                if not adjacent(A, sides[t], w):
                    return True
            sides[size] = w
            size += 1
    return False


@inner
def _push(stack: Index, size: int, a: Int, b: Int) -> tuple[Index, int]:
    if size == len(stack):
        larger = np.empty((2 * size, 2), np.int64)
        for k in range(size):
            larger[k, 0], larger[k, 1] = stack[k, 0], stack[k, 1]
        stack = larger
    stack[size, 0], stack[size, 1] = a, b
    return stack, size + 1


@inner
def _push_around(G: Pdag, stack: Index, size: int, v: Int) -> tuple[Index, int]:
    """Put every arrow at v on the stack."""
    for k in range(G.degree[v]):
        w = G.near[v, k]
        if G.A[v, w] and not G.A[w, v]:
            stack, size = _push(stack, size, v, w)
        elif G.A[w, v] and not G.A[v, w]:
            stack, size = _push(stack, size, w, v)
    return stack, size


@inner
def _release(
    G: Pdag,
    stack: Index,
    size: int,
    component: Index,
    log_i: Index,
    log_j: Index,
    log_before: Index,
    count: int,
) -> int:
    """Make arrows undirected until all are strongly protected; components are logged already."""
    while size:
        size -= 1
        a, b = stack[size, 0], stack[size, 1]
        if not G.A[a, b] or G.A[b, a] or protected(G, a, b):
            continue
        G.A[b, a] = True
        if component[a] == 0 or component[a] != component[b]:
            log_i[count], log_j[count], log_before[count] = a, b, 1
            count += 1
        stack, size = _push_around(G, stack, size, b)
        for k in range(G.degree[a]):
            c = G.near[a, k]
            if G.A[a, c] and not G.A[c, a] and adjacent(G.A, b, c):
                stack, size = _push(stack, size, a, c)
    return count


@kernel
def make_essential(G: Pdag) -> None:
    """Turn a DAG into its essential graph."""
    p = len(G.degree)
    stack, size = np.empty((64, 2), np.int64), 0
    for v in range(p):
        for k in range(G.degree[v]):
            if G.A[v, G.near[v, k]]:
                stack, size = _push(stack, size, v, G.near[v, k])
    total = G.degree.sum() + 1
    log_i, log_j, log_before = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    _release(G, stack, size, np.zeros(p, np.int64), log_i, log_j, log_before, 0)


@kernel
def apply(G: Pdag, kind: Int, x: Int, y: Int, members: Index, forbidden: Mask, informed: bool) -> Change:
    """Apply an operator: orient what it needs oriented, change the edge, and return to an essential graph.

    Insert and Delete orient y's component away from the members; Turn of an arrow y -> x also x's away from
    x; Turn of an undirected edge fixes the arrows at both ends and completes them, where that can be done.
    """
    p = len(G.degree)
    A = G.A
    component = np.zeros(p, np.int64)
    most = G.degree.sum() + 2
    log_i, log_j, log_before = (
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
    )
    count = 0
    log_i[count], log_j[count] = x, y
    log_before[count] = A[x, y] + 2 * A[y, x]
    count += 1
    line = A[x, y] and A[y, x]
    nodes = _component(G, y, component, 1)
    count = _log_component(G, nodes, component, x, y, log_i, log_j, log_before, count)
    others = nodes[:0]
    if kind == TURN_LINE:
        done = _orient_around(G, nodes, component, x, y, members, forbidden)
    else:
        with_x = kind == DELETE and line
        first = np.empty(len(members) + 1 + with_x, np.int64)
        for k in range(len(members)):
            first[k] = members[k]
        if with_x:
            first[len(members)] = x
        first[-1] = y
        _orient_from(G, nodes, component, first)
        if kind == TURN_ARROW:
            others = _component(G, x, component, 2)
            count = _log_component(G, others, component, x, y, log_i, log_j, log_before, count)
            _orient_from(G, others, component, np.array([x]))
        done = True
    if done:
        _set_edge(G, x, y, 0 if kind == DELETE else 1)
        stack, size = np.empty((64, 2), np.int64), 0
        stack, size = _push_oriented(G, stack, size, others, component)
        stack, size = _push_oriented(G, stack, size, nodes, component)
        for v in (x, y):
            stack, size = _push_around(G, stack, size, v)
        for k in range(G.degree[x]):
            b = G.near[x, k]
            if A[x, b] and not A[b, x] and A[y, b] and not A[b, y]:
                stack, size = _push_around(G, stack, size, b)
        count = _release(G, stack, size, component, log_i, log_j, log_before, count)
        if informed:
            done = _admits(G, log_i[:count], log_j[:count], forbidden)
    change = Change(log_i[:count], log_j[:count], log_before[:count], done)
    if not done:
        undo(G, change)
    return change


@inner
def _log_component(
    G: Pdag,
    nodes: Index,
    component: Index,
    x: Int,
    y: Int,
    log_i: Index,
    log_j: Index,
    log_before: Index,
    count: int,
) -> int:
    """Log a component's edges as undirected, except the operator's own."""
    for v in nodes:
        for k in range(G.degree[v]):
            w = G.near[v, k]
            if v < w and component[w] == component[v] and not ((v == x and w == y) or (v == y and w == x)):
                log_i[count], log_j[count], log_before[count] = v, w, 3
                count += 1
    return count


@inner
def _push_oriented(G: Pdag, stack: Index, size: int, nodes: Index, component: Index) -> tuple[Index, int]:
    """Put a component's arrows on the stack, those found first on top."""
    for k in range(len(nodes) - 1, -1, -1):
        v = nodes[k]
        for t in range(G.degree[v]):
            w = G.near[v, t]
            if component[w] == component[v] and G.A[v, w] and not G.A[w, v]:
                stack, size = _push(stack, size, v, w)
    return stack, size


@inner
def _orient_around(
    G: Pdag, nodes: Index, component: Index, x: Int, y: Int, members: Index, forbidden: Mask
) -> bool:
    """Orient a component: y's parents in it become the members, x's become y and the members next to x."""
    A = G.A
    inside = np.zeros(len(G.degree), np.bool_)
    for s in members:
        inside[s] = True
    for k in range(G.degree[y]):
        w = G.near[y, k]
        if component[w] == component[y]:
            if inside[w]:
                A[y, w] = False
            else:
                A[w, y] = False
    for k in range(G.degree[x]):
        w = G.near[x, k]
        if component[w] == component[x] and w != y:
            if inside[w]:
                A[x, w] = False
            else:
                A[w, x] = False
    possible: bool = _eliminate_sinks(G, nodes, component, forbidden, False, True)
    return possible


@inner
def _admits(G: Pdag, log_i: Index, log_j: Index, forbidden: Mask) -> bool:
    """Whether some DAG of the class has no forbidden edge, looking only at what changed."""
    component = np.zeros(len(G.degree), np.int64)
    number = 0
    for k in range(len(log_i)):
        for a, b in ((log_i[k], log_j[k]), (log_j[k], log_i[k])):
            if G.A[a, b] and not G.A[b, a] and forbidden[a, b]:
                return False
            if component[a] == 0:
                number += 1
                nodes = _component(G, a, component, number)
                if len(nodes) > 1 and not _eliminate_sinks(G, nodes, component, forbidden, True, False):
                    return False
    return True


@kernel
def undo(G: Pdag, change: Change) -> None:
    """Put back every edge of a change, the operator's own last."""
    for k in range(len(change.i) - 1, -1, -1):
        _set_edge(G, change.i[k], change.j[k], change.before[k])


@kernel
def affected(G: Pdag, change: Change, wider: bool) -> Index:
    """The nodes whose operators may have changed: other parents or neighbours, or a new edge beside them.

    With `wider`, as turning needs it, also everything adjacent to those.
    """
    p = len(G.degree)
    hit = np.zeros(p, np.bool_)
    for k in range(len(change.i)):
        i, j = change.i[k], change.j[k]
        if change.before[k] != G.A[i, j] + 2 * G.A[j, i]:
            hit[i] = hit[j] = True
    x, y = change.i[0], change.j[0]
    own = hit.copy()
    for v in range(p):
        if own[v] and (wider or v in (x, y)):
            for k in range(G.degree[v]):
                w = G.near[v, k]
                if wider or (G.A[v, w] and G.A[w, v]):
                    hit[w] = True
    return np.flatnonzero(hit)
