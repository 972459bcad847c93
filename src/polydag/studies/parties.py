"""A study of parties: each file (or database address) is a site, and rows stay with their site."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from polydag import data
from polydag.errors import DataError, UsageError
from polydag.federated.protocol.programs import columns_of_most
from polydag.progress import report
from polydag.stats import GaussianStats, Regimes
from polydag.studies.config import Config, require_shape
from polydag.studies.fitting import cautions, fitted, measures_of, result_of
from polydag.studies.inputs import (
    Inputs,
    file_mark,
    is_large,
    public,
    read_knowledge,
    read_table,
    read_with,
    require_known,
)
from polydag.studies.methods import chosen, learner_type
from polydag.studies.result import Result
from polydag.studies.series import order_columns, require_known_slices

if TYPE_CHECKING:
    import pandas as pd

# Set by the study itself.
_OWN = ("method", "knowledge", "random_state")
_NOTHING_SET = "none"


@dataclass(frozen=True)
class PartiesConfig(Config):
    """All that decides the outcome of a study of parties; `data` names one source a site.

    `interventions` is the column that says what was set in a row: `none`, a variable, several joined by +.
    """

    shape: ClassVar[str] = "parties"
    least_rows: ClassVar[int] = 1  # a party of any size takes part

    method: str = "admm"
    interventions: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.data)) != len(self.data):
            twice = next(source for source in self.data if self.data.count(source) > 1)
            raise UsageError(f"{public(twice)} is named twice; every file is a site of its own.")
        if len(self.data) < 2:
            raise UsageError("Parties are several sites: name one file for each, at least two.")
        if self.bootstrap:
            raise UsageError("--bootstrap draws rows again, and rows stay with their sites.")


CONFIG = PartiesConfig


def settings_of(config: PartiesConfig) -> dict[str, Any]:
    """All settings of the federated learner: those given, under its own names, and its defaults."""
    from polydag.learners.federated import FederatedNotears
    from polydag.learners.party_methods import METHODS

    if config.method not in METHODS:
        raise UsageError(
            f"No method for parties is called {config.method!r}. Known are {', '.join(METHODS)}."
        )
    params = FederatedNotears().get_params(deep=False)
    known = {name: value for name, value in params.items() if name not in _OWN}
    return chosen(known, config.settings, "The method for parties")


def load(config: PartiesConfig) -> Inputs:
    """Read every site's table and the background knowledge."""
    settings = settings_of(config)  # a wrong name is told before a long reading
    model, lagged = settings["model"], settings["model"] == "lagged"
    order = order_columns(config, settings) if lagged else ()
    besides = order if config.interventions is None else (config.interventions,)
    sha256: dict[str, str] = {}
    knowledge = read_knowledge(config, sha256)
    tables: dict[str, Any] = {}
    notes: list[str] = []
    for number, source in enumerate(config.data):
        name = public(source)
        report("reading", number, len(config.data), name)
        if model == "linear" and not besides and is_large(dataclasses.replace(config, data=(source, ""))):
            tables[name] = data.gaussian_stats(source, config.columns, query=config.query)
            sha256[name] = file_mark(source)
            notes.append(f"{name} is large: mean and covariance were computed as it was read.")
            continue
        table = read_with(config, source, sha256, besides) if besides else read_table(config, source, sha256)
        words = besides if config.interventions is not None else besides[1:]
        _require_numbers(table.frame.drop(columns=list(words), errors="ignore"), name, lagged=lagged)
        tables[name] = _regimes(table.frame, config.interventions, name) if config.interventions else table
        notes += [f"{name}: {note}" for note in table.notes]
    report("reading", len(config.data), len(config.data))
    _require_some(tables, config.interventions)
    names = columns_of_most(tuple(table.names) for table in tables.values())
    if lagged:
        require_known_slices(config, knowledge, settings, names)
    else:
        require_known(knowledge, names, config.knowledge)
    n = float(sum(table.n for table in tables.values()))
    # Sites name themselves in what they say, so no source is put before it.
    return Inputs(tables, n, "", knowledge, sha256, tuple(notes))


def _regimes(frame: pd.DataFrame, column: str, name: str) -> Regimes[GaussianStats]:
    """Statistics per set of variables that were set; a file without the column was only watched."""
    if column not in frame.columns:
        return Regimes({frozenset(): GaussianStats.from_data(frame)})
    words = [str(word).strip() for word in frame[column]]
    targets = [[] if word == _NOTHING_SET else [part.strip() for part in word.split("+")] for word in words]
    try:
        return Regimes.from_data(frame.drop(columns=column), targets, GaussianStats.from_data)
    except DataError as error:
        raise DataError(
            f"{name}: {error} Column {column} should say what was set in each row: {_NOTHING_SET}, a column, "
            "or several joined by +."
        ) from None


def _require_some(tables: Mapping[str, Any], column: str | None) -> None:
    if column is not None and all(set(table.parts) == {frozenset()} for table in tables.values()):
        raise UsageError(f"No file has a column {column} that names what was set in some row.")


def _require_numbers(frame: pd.DataFrame, name: str, *, lagged: bool) -> None:
    words = [str(column) for column in frame.columns if frame[column].dtype.kind not in "iuf"]
    if words:
        import pandas as pd

        numbers = pd.to_numeric(frame[words[0]].astype(str), errors="coerce")
        example = frame[words[0]][numbers.isna()].iloc[:1].tolist()
        such = f" ({example[0]!r})" if example else ""
        apart = f" If it tells series apart, say --set realisation={words[0]}." if lagged else ""
        raise DataError(
            f"{name}: column {words[0]} holds labels{such}, not numbers. Federated methods need numbers in "
            "every column: write them with a point and without units, or leave the column out with "
            f"--columns, at every site.{apart}"
        )


def run(config: PartiesConfig, inputs: Inputs | None = None) -> Result:
    """Learn one graph over all sites."""
    from polydag.learners.federated import FederatedNotears

    require_shape(config, CONFIG.shape)
    inputs = load(config) if inputs is None else inputs
    config = config.seeded()
    settings = settings_of(config)
    named = settings["learner"]  # on the command line
    learner = FederatedNotears(
        method=config.method,
        knowledge=inputs.knowledge,
        random_state=config.seed,
        **{**settings, "learner": learner_type(named)() if isinstance(named, str) else named},
    )
    model, warned = fitted(learner, inputs)
    measures = {name: value for name, value in measures_of(model).items() if value == value}
    return result_of(
        model,
        inputs,
        config,
        settings,
        (*inputs.notes, *warned, *cautions(measures), model.protection_, _WHERE),
        n_iter=model.n_rounds_,
        measures=measures,
        probabilities=getattr(model, "votes_", None),
        documents={
            "disclosure": disclosure(model.disclosure_, settings["privacy"]),
            **({"party_weights": party_weights(model)} if hasattr(model, "party_weights_") else {}),
        },
    )


_WHERE = (
    "disclosure.json lists all that left the sites. Here they all ran in one process, which read every "
    "table; between organisations, each runs its own site."
)


def party_weights(model: Any) -> dict[str, Any]:
    """Each site's own coefficients of the shared graph; between organisations they stay with the site."""
    names = model.graph_.names
    return {
        site: [
            {"source": names[i], "target": names[j], "weight": float(own[i, j])}
            for i, j in zip(*model.graph_.adjacency.nonzero(), strict=True)
        ]
        for site, own in model.party_weights_.items()
    }


def disclosure(ledger: pd.DataFrame, privacy: str) -> dict[str, Any]:
    """What left the sites, summed up by site and name, and in full."""
    grouped = ledger.groupby(["site", "name", "shape", "masked"], sort=False)
    summary = grouped.agg(times=("round", "size"), first_round=("round", "min"), last_round=("round", "max"),
                          bytes=("bytes", "sum")).reset_index()  # fmt: skip
    return {
        "privacy": privacy,
        "bytes": int(ledger["bytes"].sum()),
        "summary": _records(summary),
        "entries": _records(ledger),
    }


def _records(table: pd.DataFrame) -> list[Mapping[str, Any]]:
    columns = [table[name].tolist() for name in table.columns]
    return [dict(zip(table.columns, row, strict=True)) for row in zip(*columns, strict=True)]
