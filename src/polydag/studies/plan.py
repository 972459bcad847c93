"""What a configuration amounts to before anything is read: the method, its learner and all settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polydag.errors import UsageError
from polydag.parameters import Settings
from polydag.studies.automatic import by_options
from polydag.studies.config.fields import KnownSettings
from polydag.studies.config.shapes import Config
from polydag.studies.methods import Method, find, method_of

if TYPE_CHECKING:
    from polydag.knowledge import Knowledge
    from polydag.privacy.settings import Privacy

# Parameters of learners that come from elsewhere: the knowledge file, the seed, options of their own.
_NOT_SETTINGS = ("knowledge", "random_state", "n_jobs", "order", "discretize", "prior")
ROWS = ("labels", "structure", "correlation", "share")  # of LinkedRows
ROUNDS = "max_rounds"  # of structure and row correlation in turns


@dataclass(frozen=True, eq=False)
class Plan:
    """A method with all its settings, for one configuration.

    Attributes
    ----------
    learner : class
        What learns.
    parameters : mapping
        The learner's parameters and their defaults.
    known : KnownSettings
        The settings of the learner and of the source.
    settings : mapping
        All of them: as given, else by default.
    """

    config: Config
    method: Method
    learner: Any
    parameters: Mapping[str, Any]
    known: KnownSettings
    settings: Mapping[str, Any]

    @property
    def is_time_series(self) -> bool:
        """Whether rows follow each other in time."""
        return bool(self.learner.time_series) or self.settings.get("model") == "lagged"

    @property
    def series(self) -> Mapping[str, Any]:
        """Lags and order columns of time series."""
        found: Mapping[str, Any] = self.settings.get("series", self.settings)
        return found

    @property
    def rows(self) -> Mapping[str, Any]:
        """The settings of linked rows."""
        from polydag.rows.structures.settings import FreeStructure

        return {**self.settings["rows"], "free": FreeStructure(**self.settings["free"])}

    @property
    def privacy(self) -> Privacy | None:
        """How parties protect what they contribute; None without parties."""
        from polydag.privacy.settings import Privacy

        return Privacy(**self.settings["privacy"]) if "privacy" in self.settings else None

    def make(self, knowledge: Knowledge | None) -> Any:
        """The learner."""
        config = self.config
        own: dict[str, Any] = {**self.method.fixed}
        for name, default in self.parameters.items():
            if name in own:
                continue
            value = self.settings.get(name, default)
            own[name] = default.replaced(**value) if isinstance(default, Settings) else value
        own |= {"knowledge": knowledge} if knowledge is not None else {}
        given = {
            "random_state": config.seed,
            "n_jobs": config.jobs if config.cluster is None else -1,
            "order": config.order,
            "discretize": None if config.shape == "parties" else config.discretize,  # done by the source
        }
        own |= {name: value for name, value in given.items() if name in self.parameters}
        if isinstance(own.get("learner"), str):
            own["learner"] = find(own["learner"]).learner_class("table")()
        learner = self.learner(**own)
        if self.settings.get(ROUNDS, 1) == 1:
            return learner
        from polydag.learners import LinkedRowsDAG

        return LinkedRowsDAG(learner=learner, max_rounds=self.settings[ROUNDS])


def plan_of(config: Config) -> Plan:
    """The plan of a configuration; raises a `UsageError` for what is unknown or does not go together."""
    config = by_options(config)
    method = method_of(config)
    learner = method.learner_class(config.shape)
    parameters: dict[str, Any] = learner().get_params(deep=False)
    known = _known(config, method, parameters)
    plan = Plan(config, method, learner, parameters, known, known.all_of(config.settings))
    for name, value in plan.settings.items():
        if isinstance(default := parameters.get(name), Settings):
            default.replaced(**value)  # checks itself
    _require_privacy_fits(plan)
    return plan


def source_settings(plan: Plan) -> dict[str, Any]:
    """The settings of the source alone: they mean the same for every method."""
    return {name: value for name, value in plan.settings.items() if name not in plan.parameters}


def _known(config: Config, method: Method, parameters: Mapping[str, Any]) -> KnownSettings:
    own = {
        name: value
        for name, value in parameters.items()
        if name not in _NOT_SETTINGS and name not in method.fixed
    }
    flat = {name: value for name, value in own.items() if not isinstance(value, Settings)}
    groups = {name: _of_group(value) for name, value in own.items() if isinstance(value, Settings)}
    if config.shape == "parties":
        from polydag.privacy.settings import Privacy

        groups["privacy"] = Privacy().get_params()
        flat["min_rows"] = 1
    if config.is_linked:
        from polydag.sources import LinkedRows

        defaults = inspect.signature(LinkedRows.__init__).parameters
        groups["rows"] = {name: defaults[name].default for name in ROWS}
        groups["free"] = defaults["free"].default.get_params()
        if config.shape == "table" and not method.needs_links:
            flat[ROUNDS] = 1
    return KnownSettings(method.name, flat, groups)


def _of_group(group: Settings) -> dict[str, Any]:
    return {name: value for name, value in group.get_params().items() if name not in _NOT_SETTINGS}


def _require_privacy_fits(plan: Plan) -> None:
    privacy, config = plan.privacy, plan.config
    if privacy is None:
        return
    if privacy.masked and len(config.data) < 3:
        raise UsageError(
            f"Masked sums are over at least three parties; {len(config.data)} were named. With two, the sum "
            "shows each the other's numbers: if they agree to that, add --set privacy=none."
        )
    if privacy.epsilon is not None and config.bootstrap:
        raise UsageError(
            "--bootstrap would spend epsilon, the privacy budget, in every resample. Leave it out."
        )
    if privacy.epsilon is not None and config.is_linked:
        raise UsageError(
            "epsilon protects single rows that do not depend on each other: it cannot be combined with "
            "linked rows."
        )
