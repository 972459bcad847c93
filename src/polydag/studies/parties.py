"""A study of parties: each file (or database address) is a site, and rows stay with their site."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from polydag import data
from polydag.errors import DataError, UsageError
from polydag.federated.protocol.programs import majority_columns
from polydag.losses.settings import Network, Series
from polydag.parameters import check_all
from polydag.privacy.settings import Privacy
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

    from polydag.knowledge import Knowledge

# Set by the study itself.
_OWN = ("method", "knowledge", "random_state")
_GROUPS = ("network", "series")
_FLAT = ("schedule", "model", "lambda_", "acyclicity", "threshold", "participation")
_PRIVACY = ("quorum", "ledgers", "epsilon", "delta", "budget", "bounds")
SUMMED = "moments"  # not an exchange of parameters: summed statistics, then a learner of one table
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
    from polydag.federated.methods.registry import METHODS
    from polydag.learners.federated import FederatedNotears

    methods = [*METHODS, SUMMED]
    if config.method not in methods:
        raise UsageError(
            f"No method for parties is called {config.method!r}. Known are {', '.join(methods)}."
        )
    params = FederatedNotears().get_params(deep=False)
    known = {name: value for name, value in params.items() if name not in (*_OWN, *_GROUPS)}
    groups = [params["network"], params["series"], Privacy()]
    for group in groups:
        known |= group.get_params()
    known["privacy"] = known.pop("mode")
    known["min_rows"] = 1
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
    names = majority_columns(tuple(table.names) for table in tables.values())
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
    require_shape(config, CONFIG.shape)
    inputs = load(config) if inputs is None else inputs
    config = config.seeded()
    settings = settings_of(config)
    model, warned = fitted(_OverParties(config, settings, inputs.knowledge), inputs)
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


@dataclass(frozen=True)
class _OverParties:
    """The learner that a configuration asks for: its flat settings become groups."""

    config: PartiesConfig
    settings: Mapping[str, Any]
    knowledge: Knowledge | None

    def fit(self, tables: Mapping[str, Any]) -> Any:
        """The fitted learner, with what left the parties."""
        from polydag.learners.federated import FederatedNotears
        from polydag.sources import Parties

        settings = self.settings
        privacy = Privacy(settings["privacy"], **{name: settings[name] for name in _PRIVACY})
        own = {name: settings[name] for name in _FLAT}
        named = settings["learner"]  # on the command line
        learner = FederatedNotears(
            method="voting" if self.config.method == SUMMED else self.config.method,
            network=Network(settings["hidden"], settings["lambda2"]),
            series=Series(settings["lags"], settings["time"], settings["realisation"]),
            learner=learner_type(named)() if isinstance(named, str) else named,
            knowledge=self.knowledge,
            random_state=self.config.seed,
            **own,
        )
        if self.config.method == SUMMED:
            return self._from_moments(learner, tables, privacy)
        return learner.fit(Parties(tables, privacy=privacy, min_rows=settings["min_rows"]))

    def _from_moments(self, own: Any, tables: Mapping[str, Any], privacy: Privacy) -> Any:
        """A learner of one table, fitted to summed statistics."""
        from polydag.federated.each_party import for_each_party
        from polydag.federated.methods.moments import summed_moments
        from polydag.federated.methods.private.moments import summed_private_moments
        from polydag.federated.methods.voting import with_knowledge
        from polydag.federated.models.registry import MODELS

        check_all(own, own.constraints)
        model, wanted = MODELS[own.model], own.method_settings()
        if not model.has_mean or own.lambda_ == "stability":
            raise UsageError("Summed statistics are for model=linear or lagged, and lambda_ a number or bic.")
        min_rows = self.settings["min_rows"]
        if privacy.epsilon is None:
            statistics = for_each_party(tables, lambda table: model.party(table, wanted).data)
            pooled, outcome = summed_moments(statistics, privacy, min_rows=min_rows)
        elif model.supports_noise:
            pooled, outcome = summed_private_moments(tables, privacy, min_rows=min_rows)
        else:
            raise UsageError("epsilon requires model=linear.")
        learner = with_knowledge(wanted.learner, model.knowledge(wanted, pooled.names))
        if own.learner is None:
            paper = own.schedule == "paper" and own.lambda_ == "bic"
            learner.set_params(lambda_=model.single_party_lambda if paper else own.lambda_)
        learner.fit(pooled)
        learner.disclosure_, learner.protection_ = outcome.disclosure, outcome.protection
        learner.n_rounds_ = outcome.n_rounds
        return learner


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
