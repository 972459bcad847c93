"""Tasks as one table with a column that tells them apart: joint causal inference with a context variable."""

from __future__ import annotations

import pandas as pd

from polydag.data.table import Kind
from polydag.errors import UsageError
from polydag.knowledge import Knowledge
from polydag.sources.table import InMemory, as_frame
from polydag.sources.task_statistics import common_columns
from polydag.sources.tasks import Tasks


def in_context(tasks: Tasks, name: str = "task") -> tuple[InMemory, Knowledge]:
    """All rows with the task as an exogenous label, and the knowledge that nothing causes it.

    A search over this table finds one network; the children of the context are the variables whose mechanism
    differs between tasks (Mooij, Magliacane and Claassen 2020). It does not say whether parents or strengths
    differ.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from polydag import BOSS, Tasks
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 400))
    >>> before = pd.DataFrame({"x": x, "y": x + noise})
    >>> after = before.assign(y=before["y"] + 2.0)
    >>> table, knowledge = in_context(Tasks({"before": before, "after": after}), "period")
    >>> [str(e) for e in BOSS(knowledge=knowledge).fit(table).graph_.edges() if e.source == "period"]
    ['period -> y']
    """
    names = common_columns({task: list(source.names) for task, source in tasks.items()})
    if name in names:
        raise UsageError(f"There is a column {name!r} already: give the context another name.")
    frames = []
    for task, source in tasks.items():
        if not isinstance(source, InMemory) or source.has_interventions or source.has_blocks:
            raise UsageError(
                f"A context variable needs independent rows without interventions; {task} has none."
            )
        frames.append(as_frame(source.data)[names].assign(**{name: task}))
    kinds: dict[str, Kind] = {**tasks.kinds, name: "discrete"}
    whole = InMemory(pd.concat(frames, ignore_index=True), kinds=kinds)
    return whole, Knowledge(tiers=[[name], names])
