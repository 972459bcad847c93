"""The one way of every study: from a configuration to inputs, and from these to a result."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polydag.errors import DataWarning, UsageError
from polydag.studies.automatic import by_data
from polydag.studies.config.fields import overlaid, recorded
from polydag.studies.config.shapes import Config
from polydag.studies.data.addresses import public
from polydag.studies.plan import Plan, plan_of

if TYPE_CHECKING:
    from polydag.studies.data.inputs import Inputs
    from polydag.studies.result import Result


_NEED_ROWS = ("FederatedNotears", "NotearsMLP")


def load(config: Config) -> Inputs:
    """Read the data and the background knowledge of a study; what cannot be is refused before reading."""
    plan = plan_of(config)

    from polydag.studies.data.inputs import Inputs, read_knowledge
    from polydag.studies.data.linking import links_of, require_links_fit
    from polydag.studies.data.reading import read_tables

    require_links_fit(config)
    if plan.is_time_series and config.missing == "drop":
        raise UsageError("--missing drop would leave gaps in time series. Use impute, or fill them in first.")
    require_gaps_fit(plan)
    sha256: dict[str, str] = {}
    knowledge = read_knowledge(config, sha256)
    read = read_tables(plan, sha256)
    links, notes = None, (*read.notes, *_order_notes(plan, read.tables))
    if config.is_linked:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DataWarning)
            links = links_of(config, read.tables, sha256)
        notes = (*notes, *(str(warning.message) for warning in caught))
    inputs = Inputs(read.tables, read.source, knowledge, sha256, notes, links)
    _require_known_variables(plan, inputs)
    return inputs


def _order_notes(plan: Plan, tables: Mapping[str, Any]) -> tuple[str, ...]:
    """That rows may depend on each other, where the study takes them as independent."""
    from polydag.data import Table
    from polydag.data.checking.order import ORDER_ADVICE, alike_in_order

    if plan.is_time_series or plan.config.is_linked or plan.config.shape == "parties":
        return ()
    alike = {name: alike_in_order(table) for name, table in tables.items() if isinstance(table, Table)}
    named = [name for name, found in alike.items() if found]
    if not named:
        return ()
    where = f" in {', '.join(named[:6])}{', …' * (len(named) > 6)}" if len(tables) > 1 else ""
    columns = ", ".join(alike[named[0]][:6])
    return (
        f"Rows that follow each other{where} are alike: {columns}. Where rows depend on each other, results "
        f"are less certain than they look: {ORDER_ADVICE}.",
    )


def require_gaps_fit(plan: Plan) -> None:
    """Refuse, before reading, gaps where a study needs rows without them."""
    from polydag.sources.gaps.moments import ALLOWED, MULTIPLE

    config = plan.config
    if config.missing not in ALLOWED:
        return
    drawn = config.missing == MULTIPLE
    why = (
        "time series" if plan.is_time_series
        else "linked rows" if config.is_linked
        else "interventions" if config.interventions is not None
        else "--as tasks" if drawn and config.shape == "tasks"
        else "--discretize over tasks" if config.discretize is not None and config.shape == "tasks"
        else f"--method {config.method}, which needs complete rows"
        if plan.method.learner in _NEED_ROWS and not drawn
        else ""
    )  # fmt: skip
    if why:
        raise UsageError(f"--missing {config.missing} cannot be combined with {why}. Use drop or impute.")


def _require_known_variables(plan: Plan, inputs: Inputs) -> None:
    """Raise where the knowledge file names other variables than the graph will have."""
    from polydag.studies.data.inputs import require_known
    from polydag.studies.data.linking import variables

    if inputs.knowledge is None:
        return
    columns = Counter(tuple(table.names) for table in inputs.tables.values())
    names = variables(plan.config, columns.most_common(1)[0][0])
    if plan.is_time_series:
        from polydag.losses.lagged import check_lags, slice_names

        order = (plan.series["time"], plan.series["realisation"])
        names = slice_names([name for name in names if name not in order], check_lags(plan.series["lags"]))
    require_known(inputs.knowledge, names, plan.config.knowledge)


def _is_private(plan: Plan) -> bool:
    """Whether a run may keep nothing that shows a single row: neither hashes of data nor its exact size."""
    return plan.settings.get("privacy", {}).get("epsilon") is not None


def _fingerprints(plan: Plan, inputs: Inputs) -> dict[str, str]:
    private = _is_private(plan)
    return {name: own for name, own in inputs.sha256.items() if not (private and name in plan.config.data)}


def run(config: Config, inputs: Inputs | None = None) -> Result:
    """Learn as the configuration says; `inputs` are read where they are not given."""
    inputs = load(config) if inputs is None else inputs

    from polydag.studies.cluster import computing_on
    from polydag.studies.data.sources import source_of
    from polydag.studies.findings import bootstrap, findings_of
    from polydag.studies.fitting import fitted
    from polydag.studies.result import Result, versions

    config, reason = by_data(config.seeded(), inputs)
    plan = plan_of(config)
    learner = plan.make(inputs.knowledge)
    source = source_of(plan, inputs)
    with computing_on(config.cluster):
        model, warned = fitted(learner, source.data, inputs.source)
        found = findings_of(model, source.data)
        if config.bootstrap:
            found = found.with_more(bootstrap.findings(model, learner, source.data, plan.config))
    settings = overlaid(plan.settings, found.settings)
    return Result(
        config=dataclasses.replace(
            plan.config, data=tuple(map(public, config.data)), settings=recorded(settings)
        ),
        graph=model.graph_,
        n=None if _is_private(plan) else inputs.n,
        converged=bool(model.converged_),
        history=model.history_,
        notes=tuple(
            dict.fromkeys(
                (
                    *inputs.notes,
                    *reason,
                    *_idle_jobs(plan),
                    *source.notes,
                    *found.first_notes,
                    *warned,
                    *found.notes,
                )
            )
        ),
        sha256=_fingerprints(plan, inputs),
        versions=versions(),
        n_iter=found.n_iter,
        pruned=found.pruned,
        measures=found.measures,
        coefficients=found.coefficients,
        confidence=found.confidence,
        mean_of=found.mean_of,
        tables=found.tables,
        documents=found.documents,
        pictures=found.pictures,
        kinds=found.kinds,
    )


def _idle_jobs(plan: Plan) -> tuple[str, ...]:
    config = plan.config
    busy = "n_jobs" in plan.parameters or config.bootstrap or config.is_linked
    if busy or (config.jobs == 1 and config.cluster is None):
        return ()
    what = f"jobs = {config.jobs}" if config.cluster is None else "the cluster"
    return (f"{config.method} works in one process; {what} makes no difference.",)
