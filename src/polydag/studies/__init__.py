"""Studies: from a description (data, method, settings) to a graph, one file per shape of data.

A shape is a module with `CONFIG` (a frozen dataclass, `polydag.studies.config.Config` or a subclass),
`load(config) -> Inputs` and `run(config, inputs) -> Result`, and one line in `SHAPES`.
"""

from __future__ import annotations

import importlib
from typing import Any

from polydag.errors import UsageError

SHAPES = {
    "linked": "polydag.studies.linked",
    "parties": "polydag.studies.parties",
    "pooled": "polydag.studies.pooled",
    "posterior": "polydag.studies.posterior",
    "tasks": "polydag.studies.tasks",
}


def shape(name: str) -> Any:
    """The module of a shape of data."""
    if name not in SHAPES:
        raise UsageError(f"No study has the shape {name!r}. Known are {', '.join(SHAPES)}.")
    return importlib.import_module(SHAPES[name])
