"""Tasks as one table with a context variable."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from polydag import BOSS, PC, GaussianStats, Tasks
from polydag.embedded import asia
from polydag.errors import DataError, UsageError
from polydag.sources.context import in_context
from test_influence import chain


def test_rows_and_knowledge() -> None:
    tables = {"a": chain(30, 0.7, 0), "b": chain(20, 0.7, 1)[["w", "x", "y", "z"]]}
    table, knowledge = in_context(Tasks(tables), "group")
    frame = table.data
    assert list(frame.columns) == ["x", "y", "z", "w", "group"]
    assert frame["group"].value_counts().to_dict() == {"a": 30, "b": 20}
    np.testing.assert_array_equal(frame["x"], np.concatenate([tables["a"]["x"], tables["b"]["x"]]))
    masks = knowledge.masks(tuple(frame.columns))
    assert masks.forbidden[:4, 4].all()
    assert table.kinds["group"] == "discrete"


@pytest.mark.parametrize("learner", [BOSS(criterion="cg"), PC(test="cg")])
def test_children_of_the_context_are_what_differs(learner: BOSS | PC) -> None:
    def children(strength: float) -> set[str]:
        table, knowledge = in_context(Tasks({"a": chain(500, 1.5, 10), "b": chain(500, strength, 11)}))
        graph = learner.set_params(knowledge=knowledge).fit(table).graph_
        assert not any(edge.target == "task" and edge.directed for edge in graph.edges())
        return {edge.target for edge in graph.edges() if edge.source == "task"}

    assert children(1.5) == set()
    assert children(0.2) == {"y"}


def test_labels_that_differ() -> None:
    one, two = asia().sample(600, random_state=0), asia().sample(600, random_state=1)
    two["smoke"] = two["smoke"].where(np.random.default_rng(0).random(600) < 0.5, "yes")
    table, knowledge = in_context(Tasks({"a": one, "b": two}))
    edges = [str(e) for e in BOSS(knowledge=knowledge).fit(table).graph_.edges() if e.source == "task"]
    assert edges == ["task -> smoke"]


def test_what_cannot_be_is_said() -> None:
    rows = chain(20, 0.5, 0)
    with pytest.raises(UsageError, match="another name"):
        in_context(Tasks([rows, rows]), "x")
    with pytest.raises(UsageError, match="task 2 has none"):
        in_context(Tasks([rows, GaussianStats.from_data(rows)]))
    with pytest.raises(DataError, match="lacks the column"):
        in_context(Tasks([rows, pd.DataFrame({"x": [1.0]})]))
