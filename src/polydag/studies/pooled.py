"""A pooled study: all rows in one table, or in several with the same columns that are put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from polydag import data
from polydag.errors import DataError
from polydag.progress import report
from polydag.stats import GaussianStats
from polydag.studies import methods
from polydag.studies.config import Config, require_shape
from polydag.studies.fitting import cautions, fitted, measures_of, result_of
from polydag.studies.inputs import (
    Inputs,
    file_mark,
    is_large,
    public,
    read_knowledge,
    read_table,
    require_known,
)
from polydag.studies.result import Result
from polydag.studies.series import read_series

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray


CONFIG = Config


def load(config: Config) -> Inputs:
    """Read the data and the background knowledge of a study."""
    settings = methods.settings_of(config.method, config.settings)  # a wrong name is told before long reading
    if methods.learner_type(config.method).time_series:
        return read_series(config, settings)
    return read_all(config, large=is_large(config))


def read_all(config: Config, *, large: bool) -> Inputs:
    """All tables as one, and the background knowledge; of large data, statistics in place of rows."""
    sha256: dict[str, str] = {}
    knowledge = read_knowledge(config, sha256)
    rows, source, notes = _stream(config, sha256) if large else _read(config, sha256)
    require_known(knowledge, rows.names, config.knowledge)
    return Inputs(rows, float(rows.n), source, knowledge, sha256, notes)


def _stream(config: Config, sha256: dict[str, str]) -> tuple[GaussianStats, str, tuple[str, ...]]:
    total: GaussianStats | None = None
    for number, source in enumerate(config.data):
        report("reading", number, len(config.data), public(source))
        part = data.gaussian_stats(source, config.columns, query=config.query)
        _require_columns(part.names, total.names if total else part.names, config, source)
        total = part if total is None else total + part.select(total.names)
        sha256[public(source)] = file_mark(source)
    assert total is not None  # a configuration names data
    label = ", ".join(map(public, config.data))
    return total, label, ("The data is large: mean and covariance were computed as it was read.",)


def _read(config: Config, sha256: dict[str, str]) -> tuple[data.Table, str, tuple[str, ...]]:
    tables = []
    for number, source in enumerate(config.data):
        report("reading", number, len(config.data), public(source))
        several = len(config.data) > 1
        table = read_table(config, source, sha256)
        tables.append(table)
        _require_columns(table.names, tables[0].names, config, source)
    report("reading", len(config.data), len(config.data))
    notes = tuple(f"{table.source}: {note}" if several else note for table in tables for note in table.notes)
    if not several:
        return tables[0], tables[0].source, notes
    import pandas as pd

    label = ", ".join(table.source for table in tables)
    stacked = pd.concat([table.frame[list(tables[0].names)] for table in tables], ignore_index=True)
    kinds: Any = config.kinds
    whole = data.from_frame(stacked, kinds=kinds, source=label)
    return whole, label, (*notes, f"{len(tables)} tables were put together: {whole.n} rows.")


def _require_columns(found: Iterable[str], first: Iterable[str], config: Config, source: str) -> None:
    ours, theirs = set(first), set(found)
    if ours != theirs:
        sides = ((ours - theirs, config.data[0]), (theirs - ours, source))
        only = [f"{', '.join(sorted(names))} only in {public(where)}" for names, where in sides if names]
        raise DataError(
            f"Tables that are put together need the same columns: {'; '.join(only)}. "
            "Choose common ones with --columns."
        )


def run(config: Config, inputs: Inputs | None = None) -> Result:
    """Learn a graph as the configuration says; `inputs` are read where they are not given."""
    require_shape(config, CONFIG.shape)
    inputs = load(config) if inputs is None else inputs
    config = config.seeded()
    learner, settings, notes = methods.make(config, inputs.knowledge)
    model, warned = fitted(learner, inputs)
    probabilities, tables = _bootstrapped(config, learner, inputs)
    notes = (*inputs.notes, *notes, *warned, *cautions(measures_of(model)))
    return result_of(model, inputs, config, settings, notes, probabilities=probabilities, tables=tables)


def _bootstrapped(
    config: Config, learner: Any, inputs: Inputs
) -> tuple[NDArray[np.float64] | None, dict[str, pd.DataFrame]]:
    """How often each edge comes back when rows are drawn again, if that is asked for."""
    if not config.bootstrap:
        return None, {}
    from polydag.learners import Bootstrap

    again = Bootstrap(learner, n_resamples=config.bootstrap, n_jobs=config.jobs, random_state=config.seed)
    again.fit(inputs.rows)
    return again.frequencies_.to_numpy(), {"bootstrap": again.edges_}
