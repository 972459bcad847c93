"""Knowledge: contradictions raise errors that name the edges, and masks contain all consequences."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from oracles import Mask
from polydag.errors import DataError
from polydag.knowledge import Knowledge


def edges_of(mask: Mask, names: str) -> set[str]:
    return {names[i] + names[j] for i, j in np.argwhere(mask) if i != j}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"required": ["a"]}, "required edge is a pair .*'a'"),
        ({"forbidden": [("a", "b", "c")]}, "forbidden edge is a pair"),
        ({"required": [("a", "a")]}, "required edge a -> a is a self-loop"),
        ({"required": [("a", "b")], "forbidden": [("a", "b")]}, "Both required and forbidden: a -> b"),
        ({"required": [("a", "b"), ("b", "c"), ("c", "a")]}, "cycle: a -> b -> c -> a"),
        ({"required": [("z", "b"), ("b", "c"), ("c", "b")]}, "cycle: b -> c -> b"),
        ({"tiers": [["a"], ["b", "a"]]}, r"a is in two tiers \(1 and 2\)"),
        ({"tiers": ["age", "cancer"]}, r"got 'age'. Write \['age'\]"),
        (
            {"required": [("late", "early")], "tiers": [["early"], ["late"]]},
            "late -> early points back in time: late is in tier 2, early in tier 1",
        ),
        (
            {"required": [("late", "u"), ("u", "early")], "tiers": [["early"], ["late"]]},
            r"lead from late \(tier 2\) back to early \(tier 1\): late -> u, u -> early",
        ),
    ],
)
def test_contradictions_name_the_edges(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Knowledge(**arguments)  # type: ignore[arg-type]


def test_unknown_variables_are_named() -> None:
    knowledge = Knowledge(forbidden=[("a", "q")], tiers=[["r"], ["b"]])
    with pytest.raises(DataError, match=r"refers to q, r, which is not among the variables \(a, b\)"):
        knowledge.masks(["a", "b"])


def test_it_is_a_frozen_value() -> None:
    knowledge = Knowledge(required=[("a", 1)], tiers=[["a"], [1]])
    assert knowledge.required == {("a", "1")}
    assert knowledge == Knowledge(required=[["a", "1"]], tiers=(("a",), ("1",)))
    assert hash(knowledge) == hash(Knowledge(required=[["a", "1"]], tiers=(("a",), ("1",))))
    assert not knowledge.is_empty
    assert Knowledge().is_empty
    with pytest.raises(FrozenInstanceError):
        knowledge.tiers = ()  # type: ignore[misc]


def test_tiers_forbid_edges_back_and_leave_those_within() -> None:
    masks = Knowledge(tiers=[["a", "b"], ["c"], ["d"]]).masks("abcde")
    assert edges_of(masks.forbidden, "abcde") == {"ca", "cb", "da", "db", "dc"}
    assert not masks.required.any()


def test_required_paths_are_closed() -> None:
    masks = Knowledge(required=[("a", "b"), ("b", "c")], forbidden=[("d", "a")]).masks("abcd")
    assert edges_of(masks.required, "abcd") == {"ab", "bc"}
    assert edges_of(masks.forbidden, "abcd") == {"ba", "cb", "ca", "da"}


def test_required_edges_carry_tiers_to_variables_without_one() -> None:
    """u comes after the late l and v before the early e, so u cannot cause e or v, nor can l cause v."""
    knowledge = Knowledge(required=[("l", "u"), ("v", "e")], tiers=[["e"], ["l"]])
    assert edges_of(knowledge.masks("eluv").forbidden, "eluv") == {"le", "ul", "ev", "ue", "lv", "uv"}


@settings(max_examples=60, deadline=None)
@given(oracles.dags(max_nodes=6), st.data())
def test_an_edge_is_forbidden_exactly_where_adding_it_contradicts(A: Mask, data: st.DataObject) -> None:
    names = "abcdef"[: len(A)]
    level = {name: data.draw(st.sampled_from([None, 0, 1])) for name in names}
    tiers = [[name for name in names if level[name] == number] for number in (0, 1)]
    required = [(names[i], names[j]) for i, j in np.argwhere(A)]
    graph = nx.DiGraph(required)
    if any(
        level[t] == 0 for s in graph for t in nx.descendants(graph, s) if level[s] == 1
    ):  # the DAG itself contradicts the tiers
        with pytest.raises(DataError, match="back"):
            Knowledge(required, tiers=tiers)
        return
    masks = Knowledge(required, tiers=tiers).masks(names)
    assert masks.forbidden.diagonal().all()
    assert not (masks.required & masks.forbidden).any()
    for i, source in enumerate(names):
        for j, target in enumerate(names):
            if i != j:
                try:
                    Knowledge([*required, (source, target)], tiers=tiers)
                    contradicts = False
                except DataError:
                    contradicts = True
                assert masks.forbidden[i, j] == contradicts, (source, target)
