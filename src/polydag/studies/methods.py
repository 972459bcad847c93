"""From a method's name and settings to a learner."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from polydag.errors import UsageError
from polydag.studies.config import Config

# Set by the study itself, from the knowledge file, the seed and the number of processes.
_OWN = ("knowledge", "random_state", "n_jobs")
_OPTIONS = ("method", "seed", "columns", "knowledge", "missing", "jobs")  # of the command line, not settings
_WORD = re.compile(r"[A-Za-z_][\w.-]*")


def learner_type(method: str) -> Any:
    """The learner's class."""
    from polydag.learners import LEARNERS, ROW_LEARNERS

    known = LEARNERS | ROW_LEARNERS
    if method not in known:
        raise UsageError(f"No method is called {method!r}. Known are {', '.join(sorted(known))}.")
    return known[method]


def defaults(method: str) -> dict[str, Any]:
    """A method's settings with their default values."""
    params: dict[str, Any] = learner_type(method)().get_params(deep=False)
    return {name: value for name, value in params.items() if name not in _OWN}


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Settings written as NAME=VALUE, the value as in TOML; a single word needs no quotes.

    Examples
    --------
    >>> parse_settings(["lambda_=0.1", "acyclicity=expm", "grid=[0.1, 0.2]"])
    {'lambda_': 0.1, 'acyclicity': 'expm', 'grid': [0.1, 0.2]}
    """
    result: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise UsageError(f"A setting is written NAME=VALUE, for example lambda_=0.1; got {text!r}.")
        if name in result:
            raise UsageError(f"The setting {name} is given twice.")
        result[name] = _value(value, text)
    return result


def _value(value: str, text: str) -> Any:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        if _WORD.fullmatch(value):
            return value
    raise UsageError(
        f"The value in {text!r} cannot be understood. Write it as in TOML: 0.1, true, [1, 2], or a word."
    )


def settings_of(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a method: those given, under the learner's own names, and its defaults."""
    return chosen(defaults(method), given, method)


def chosen(known: Mapping[str, Any], given: Mapping[str, Any], whose: str) -> dict[str, Any]:
    """The known settings with their defaults, changed by those given; `whose` is for messages."""
    result = dict(known)
    for name, value in given.items():
        # `lambda` is a word of Python, so that the parameter is called lambda_; nobody should need to know.
        own = name.replace("-", "_")
        own = own if own in known else f"{own}_"
        if own not in known:
            names = ", ".join(sorted(known)) or "none"
            option = f" Use --{name}, which is an option." if name in _OPTIONS else ""
            raise UsageError(f"{whose} has no setting {name}.{option} Its settings are {names}.")
        if value is None and known[own] is not None:
            raise UsageError(f"{whose}: None cannot be recorded for the setting {own}.")
        result[own] = value
    return result


def make(config: Config, knowledge: Any) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """The learner, its settings as used (without empty ones), and notes."""
    kind = learner_type(config.method)
    settings = settings_of(config.method, config.settings)
    takes = kind().get_params(deep=False)
    own: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    if "random_state" in takes:
        own["random_state"] = config.seed
    if "n_jobs" in takes:
        own["n_jobs"] = config.jobs
    elif config.jobs > 1:
        notes = (f"{config.method} works in one process; jobs = {config.jobs} makes no difference.",)
    if knowledge is not None:
        if "knowledge" not in takes:
            raise UsageError(f"{config.method} does not take background knowledge.")
        own["knowledge"] = knowledge
    used = {name: value for name, value in settings.items() if value is not None}
    return kind(**settings, **own), used, notes
