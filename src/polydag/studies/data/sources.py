"""From the tables of a study to the source that a learner is fitted to."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag.errors import DataError, DataWarning
from polydag.sources.gaps.moments import ALLOWED
from polydag.sources.interface import Source
from polydag.studies.config.shapes import PartiesConfig
from polydag.studies.data.inputs import Inputs
from polydag.studies.data.linking import linked_frame, variables
from polydag.studies.plan import Plan

if TYPE_CHECKING:
    from polydag.data import Kind, Table
    from polydag.sources import InMemory, LinkedRows


class StudySource(NamedTuple):
    """What a learner is fitted to, and what was noted while it was made."""

    data: Any
    notes: tuple[str, ...]


def source_of(plan: Plan, inputs: Inputs) -> StudySource:
    """The source of a study: a table, parties or tasks, whose rows may be linked."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        parts = {name: _part(plan, inputs, name, table) for name, table in inputs.tables.items()}
        found = _whole(plan, parts)
    return StudySource(found, tuple(str(warning.message) for warning in caught))


def _whole(plan: Plan, parts: dict[str, Any]) -> Any:
    if plan.config.shape == "table":
        (table,) = parts.values()
        return table
    from polydag.sources import Parties, Tasks

    if plan.config.shape == "tasks":
        return Tasks(parts)

    privacy, config = plan.privacy, plan.config
    assert privacy is not None  # parties have it
    assert isinstance(config, PartiesConfig)
    parties = Parties(
        parts, privacy=privacy, min_rows=plan.settings["min_rows"], site_effects=config.site_effects
    )
    ranks = [name for name, how in config.transforms.items() if how == "rank"]
    if ranks:
        parties = parties.with_normal_scores(ranks)
    return parties if config.discretize is None else parties.discretized(config.discretize)


def _part(plan: Plan, inputs: Inputs, name: str, table: Any) -> Any:
    try:
        if inputs.links is not None:
            return _linked(plan, inputs, name, table)
        if isinstance(table, Source):  # it is one already
            return table
        if plan.is_time_series:
            return _with_numbered_series(table, plan.series["realisation"])
        plain = plan.config.missing not in ALLOWED and not _intervention_columns(plan, table)
        return _cut(plan, table if plain else in_memory(plan, table))
    except DataError as error:
        raise DataError(str(error) if table.source in str(error) else f"{table.source}: {error}") from None


def in_memory(plan: Plan, table: Any, kind: type[InMemory] | None = None) -> InMemory:
    """A table as a source with the study's ways for missing values and interventions."""
    from polydag.sources.table import N_IMPUTATIONS, InMemory

    config = plan.config
    if plan.is_time_series:
        table = _with_numbered_series(table, plan.series["realisation"])
    given: dict[str, Any] = {}
    if config.missing in ALLOWED:
        number = config.imputations or N_IMPUTATIONS
        given = {"missing": config.missing, "n_imputations": number, "random_state": config.seed}
    elif columns := _intervention_columns(plan, table):
        given = {"interventions": columns}
    return (kind or InMemory)(table, **given)


def _intervention_columns(plan: Plan, table: Any) -> list[str]:
    return [name for name in plan.config.intervention_columns if name in table.names]


def _cut(plan: Plan, table: Any) -> Any:
    """The table with its numbers cut into levels, where the learner does not do that itself."""
    from polydag.sources.adapt import as_source
    from polydag.sources.columns.labels import labelled

    config = plan.config
    if config.discretize is None or config.shape != "table" or "discretize" in plan.parameters:
        return table
    source: Any = as_source(table)
    return labelled(source, config.discretize, "")


def _linked(plan: Plan, inputs: Inputs, name: str, table: Table) -> LinkedRows:
    from polydag.sources import InMemory, LinkedRows

    assert inputs.links is not None
    config, links = plan.config, inputs.links[name]
    kinds: Any = {name: kind for name, kind in config.kinds.items() if name in variables(config, table.names)}
    labels_allowed = plan.method.labels or plan.rows.get("labels") == "latent"
    frame: Any = linked_frame(config, table, labels_allowed=labels_allowed)
    if config.interventions is not None:
        frame = InMemory(frame, interventions=list(config.intervention_columns))
    return LinkedRows(
        frame,
        kinds=kinds,
        **links,
        covariates=None if config.covariates is None else list(config.covariates),
        random_state=config.seed,
        n_jobs=config.jobs,
        **plan.rows,
    )


def _with_numbered_series(table: Table, column: str) -> Table:
    """The table with numbers in place of the labels that tell its series apart, so that all are numbers."""
    import pandas as pd

    if column not in table.discrete:
        return table
    codes, _ = pd.factorize(table.frame[column])
    kinds: dict[str, Kind] = {**table.kinds, column: "continuous"}
    return dataclasses.replace(table, frame=table.frame.assign(**{column: codes.astype(float)}), kinds=kinds)


def linked_parts(source: Any) -> dict[str, LinkedRows]:
    """The linked rows of a source by the names of their parties or tasks; "" for a single table."""
    from polydag.sources import LinkedRows

    parts = getattr(source, "parties", source)
    if isinstance(parts, LinkedRows):
        return {"": parts}
    if not isinstance(parts, Mapping):
        return {}
    return {name: part for name, part in parts.items() if isinstance(part, LinkedRows)}
