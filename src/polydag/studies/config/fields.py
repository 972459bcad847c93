"""Settings of a study: of the learner and of its source, flat or in groups.

A setting of a group is written by its own name where no other setting has that name (`epsilon=1`), or with
that of the group (`privacy__epsilon=1`). In a configuration file a group is a table.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from polydag.errors import UsageError

# Of the command line, not settings.
_OPTIONS = (
    "method",
    "seed",
    "columns",
    "knowledge",
    "missing",
    "jobs",
    "order",
    "discretize",
    "interventions",
)
_WORD = re.compile(r"[A-Za-z_][\w.-]*")
# A group that is given as one word: which of its settings is meant.
_MAIN = {"privacy": "mode"}


@dataclass(frozen=True)
class KnownSettings:
    """The settings that a study has, with their defaults; `whose` names their owner in messages."""

    whose: str
    flat: Mapping[str, Any]
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def all_of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every setting: as given, else its default; groups nested."""
        return overlaid(
            {**self.flat, **{name: dict(own) for name, own in self.groups.items()}}, self.named(given)
        )

    def named(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The given settings under their own names, those of groups nested."""
        result: dict[str, Any] = {}
        for key, value in given.items():
            name = key.replace("-", "_")
            if name in self.groups and isinstance(value, Mapping):
                for inner, entry in value.items():
                    self._put(result, self._group_place(name, inner), entry)
            else:
                self._put(result, self._place(name, key), value)
        return result

    def _put(self, result: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
        *groups, name = place
        into = result.setdefault(groups[0], {}) if groups else result
        default = self.groups[groups[0]][name] if groups else self.flat[name]
        if name in into:
            raise UsageError(f"The setting {'__'.join(place)} is given twice.")
        if value is None and default is not None:
            raise UsageError(f"{self.whose}: None cannot be recorded for the setting {name}.")
        into[name] = value

    def _place(self, name: str, written: str) -> tuple[str, ...]:
        """Where a setting is, by its name: at the top, or in a group."""
        if name in self.groups and name in _MAIN:
            return name, _MAIN[name]
        group, nested, inner = name.partition("__")
        if nested and group in self.groups:
            return self._group_place(group, inner)
        if (own := _own_name(name, self.flat)) is not None:
            return (own,)
        found = [
            (group, own)
            for group, known in self.groups.items()
            if (own := _own_name(name, known)) is not None
        ]
        if len(found) == 1:
            return found[0]
        if found:
            ways = " or ".join("__".join(place) for place in found)
            raise UsageError(f"{self.whose}: the setting {written} is ambiguous. Write {ways}.")
        option = f" Use --{written}, which is an option." if written in _OPTIONS else ""
        raise UsageError(f"{self.whose} has no setting {written}.{option} Its settings are {self.listed}.")

    def _group_place(self, group: str, inner: str) -> tuple[str, str]:
        own = _own_name(inner.replace("-", "_"), self.groups[group])
        if own is None:
            known = ", ".join(self.groups[group])
            raise UsageError(f"{self.whose} has no setting {group}__{inner}. Those of {group} are {known}.")
        return group, own

    @property
    def listed(self) -> str:
        """All settings in words."""
        parts = [", ".join(sorted(self.flat)) or "none"]
        parts += [f"of {group}: {', '.join(own)}" for group, own in self.groups.items()]
        return "; ".join(parts)


def _own_name(name: str, known: Mapping[str, Any]) -> str | None:
    """The name as the learner has it: `lambda` is a word of Python, so that the parameter is `lambda_`."""
    return next((own for own in (name, f"{name}_") if own in known), None)


def overlaid(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings with some of them changed; both under their own names."""
    result = dict(settings)
    for name, value in changes.items():
        old = result.get(name)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[name] = {**old, **value} if nested else value  # type: ignore[dict-item]
    return result


def flattened(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names under which they can be given: those of groups as `group__name`."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            result |= {f"{name}__{inner}": entry for inner, entry in value.items()}
        else:
            result[name] = value
    return result


def recorded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are written down: without what is not set, which TOML has no word for."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        kept = recorded(value) if isinstance(value, Mapping) else value
        if kept is not None and kept != {}:
            result[name] = kept
    return result


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
