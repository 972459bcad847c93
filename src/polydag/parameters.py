"""Parameters that check themselves: constraints on values, and small frozen groups of settings.

A constraint says in words which values it accepts. Estimators declare one for each parameter, settings groups
one for each field; `check` raises the same kind of error for both.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from polydag.errors import UsageError


class Constraint(Protocol):
    """What a parameter may be."""

    def accepts(self, value: Any) -> bool:
        """Whether a value is allowed."""
        ...

    @property
    def expected(self) -> str:
        """The allowed values in words, to follow "must be"."""
        ...


@dataclass(frozen=True)
class OneOf:
    """One of several words."""

    words: tuple[str, ...]

    def accepts(self, value: Any) -> bool:
        """Whether the value is one of the words."""
        return isinstance(value, str) and value in self.words

    @property
    def expected(self) -> str:
        """The words."""
        return (f"one of {', '.join(self.words)}") if len(self.words) > 1 else repr(self.words[0])


@dataclass(frozen=True)
class KeyOf:
    """A key of a registry, to which users may add entries."""

    registry: Mapping[str, Any]

    def accepts(self, value: Any) -> bool:
        """Whether the value is a registered name."""
        return isinstance(value, str) and value in self.registry

    @property
    def expected(self) -> str:
        """The registered names."""
        return f"one of {', '.join(self.registry)}"


@dataclass(frozen=True)
class Number:
    """A finite number within bounds; `above` excludes its bound, `least` and `most` include theirs."""

    least: float | None = None
    above: float | None = None
    most: float | None = None
    whole: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether the value is a number of this sort within the bounds."""
        sort = numbers.Integral if self.whole else numbers.Real
        if not isinstance(value, sort) or isinstance(value, bool) or not math.isfinite(value):
            return False
        size = float(value)
        return (
            (self.least is None or size >= self.least)
            and (self.above is None or size > self.above)
            and (self.most is None or size <= self.most)
        )

    @property
    def expected(self) -> str:
        """The bounds in words."""
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("at least", self.least), ("above", self.above), ("at most", self.most))
            if bound is not None
        ]
        return " ".join(["a whole number" if self.whole else "a number", " and ".join(bounds)]).strip()


@dataclass(frozen=True)
class Instance:
    """An object of a class; `words` name it in messages."""

    kind: type
    words: str

    def accepts(self, value: Any) -> bool:
        """Whether the value is an instance of the class."""
        return isinstance(value, self.kind)

    @property
    def expected(self) -> str:
        """The class in words."""
        return self.words


class Either:
    """What any of several constraints accepts."""

    def __init__(self, *constraints: Constraint) -> None:
        self.constraints = constraints

    def accepts(self, value: Any) -> bool:
        """Whether one of the constraints accepts the value."""
        return any(constraint.accepts(value) for constraint in self.constraints)

    @property
    def expected(self) -> str:
        """All of them in words."""
        return " or ".join(constraint.expected for constraint in self.constraints)


class _Nothing:
    """None, which stands for "not given"."""

    expected = "None"

    def accepts(self, value: Any) -> bool:
        return value is None


def one_of(*words: str) -> OneOf:
    """One of the given words."""
    return OneOf(words)


def key_of(registry: Mapping[str, Any]) -> KeyOf:
    """A name that is registered when the parameter is checked."""
    return KeyOf(registry)


def number(*, least: float | None = None, above: float | None = None, most: float | None = None) -> Number:
    """A finite number within bounds."""
    return Number(least, above, most)


def whole(*, least: float | None = None, most: float | None = None) -> Number:
    """A whole number within bounds."""
    return Number(least, None, most, whole=True)


def optional(constraint: Constraint) -> Either:
    """A value that the constraint accepts, or None."""
    return Either(constraint, _Nothing())


TRUTH = Instance(bool, "True or False")


def check(name: str, value: Any, constraint: Constraint) -> None:
    """Raise a `UsageError` that names the parameter, what it must be and what it is."""
    if not constraint.accepts(value):
        raise UsageError(f"{name} must be {constraint.expected}; got {value!r}.")


def check_all(owner: object, constraints: Mapping[str, Constraint]) -> None:
    """Check each named attribute of an object."""
    for name, constraint in constraints.items():
        check(name, getattr(owner, name), constraint)


def setting(default: Any, constraint: Constraint, help: str = "") -> Any:  # noqa: A002
    """A field of a settings group: its default, what it may be, and a line of help for the command line."""
    return dataclasses.field(default=default, metadata={"constraint": constraint, "help": help})


@dataclass(frozen=True)
class Settings:
    """A group of settings that belong together: frozen, and checked when it is made.

    Subclasses are frozen dataclasses with fields made by `setting`. They have scikit-learn's `get_params`, so
    that estimators that hold them can be cloned and searched over, nested with `__`.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if (constraint := field.metadata.get("constraint")) is not None:
                check(field.name, getattr(self, field.name), constraint)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name; `deep` is scikit-learn's and makes no difference."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def replaced(self, **changes: Any) -> Settings:
        """The same settings with some of them changed; raises `ValueError` for a name that is none."""
        known = self.get_params()
        if unknown := [name for name in changes if name not in known]:
            raise ValueError(
                f"{type(self).__name__} has no setting {unknown[0]!r}; its settings are {', '.join(known)}."
            )
        return dataclasses.replace(self, **changes)
