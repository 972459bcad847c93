"""What the owner of a site allows, whatever a coordinator asks for.

A site on its own reads its policy from a file that its owner has written. Where all parties run in one
process, there is nobody to be protected from, and the default allows every question that a method asks.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polydag.errors import DataError, UsageError
from polydag.privacy.differencing import MIN_SITES
from polydag.privacy.dp.accounting import Budget
from polydag.privacy.masking.identities import Directory

FILE = "policy.toml"


@dataclass(frozen=True)
class Policy:
    """What a site's owner allows.

    Attributes
    ----------
    directory : mapping of name to bytes
        The public keys by which the site knows the others, and the coordinator. If the coordinator is in it,
        its questions must be signed, and the site signs its answers.
    group : tuple of str
        The sites with which this one is always summed together; empty where the first study decides.
    min_sites : int
        The smallest number of sites in a sum, in a group, and with rows of each part of the data.
    quorum : int
        The smallest quorum that the site accepts.
    recover : bool
        Whether sums may be opened without sites that dropped out.
    tasks : tuple of str
        The questions that are answered; empty for all that a method asks.
    ranges : mapping of field to (lowest, highest)
        Narrower ranges than those that hold for every question (`polydag.federated.protocol.checks.RANGES`).
    solvable : bool
        Whether sums that are not statistics of the pooled rows (parameters, coefficients, votes) are answered
        without noise although those that have left, in all studies, are enough equations to be solved for
        every site's covariance.
    rounds, lanes, bytes : float
        The most rounds in a study, penalties side by side in a question, and bytes in a message.
    budget : Budget, optional
        The differential privacy that may be spent on the site's rows, by all studies together. With it, only
        numbers with noise leave.
    withheld : bool
        The owner keeps the data back: the site joins no study, and says so in the word that also stands for
        too few rows and for small changes of the data.
    min_rows : int
        With fewer rows, or fewer in which the same variables were set, the site does not take part. With
        noise the number of rows does not matter, since a refusal would say something about it.
    min_change : int
        After a change of its data, the site answers without noise only if it has at least this many rows more
        or fewer than before: sums before and after would show the rows in which they differ.
    columns : tuple of str
        The columns of the site's table that studies may use; empty for all.
    selections : int
        The largest number of different selections of rows (conditions and codes for missing values, as
        studies describe them) over which sums are answered without noise, in all studies together. Three are
        enough to single out a row: those of a, those of b and one more, and those of both.
    """

    directory: Directory = field(default_factory=dict, repr=False)
    group: tuple[str, ...] = ()
    min_sites: int = MIN_SITES
    quorum: int = 2
    recover: bool = True
    tasks: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    solvable: bool = True
    rounds: float = math.inf
    lanes: float = math.inf
    bytes: float = math.inf
    budget: Budget | None = None
    withheld: bool = False
    min_rows: int = 1
    min_change: int = 10
    columns: tuple[str, ...] = ()
    selections: int = 2

    def __post_init__(self) -> None:
        if self.min_sites < MIN_SITES:
            raise UsageError(
                f"min_sites must be at least {MIN_SITES}: in a sum over two sites, each can compute the "
                f"other's contribution; got {self.min_sites}."
            )
        names: dict[bytes, str] = {}
        for name, key in self.directory.items():
            if (other := names.setdefault(key, name)) != name:
                raise UsageError(
                    f"{other} and {name} have the same key: whoever holds it would count as two in a sum."
                )


_SECTIONS: Mapping[str, Mapping[str, type]] = {
    "sums": {"min_sites": int, "quorum": int, "recover": bool, "group": list},
    "questions": {"tasks": list, "rounds": int, "lanes": int, "bytes": int, "solvable": bool},
    "rows": {"withheld": bool, "min_rows": int, "min_change": int, "columns": list, "selections": int},
    "budget": {"epsilon": float, "delta": float},
}
_REQUIRED = (("sums", "group"), ("sums", "quorum"), ("questions", "tasks"), ("questions", "rounds"))
_CAUTIOUS: Mapping[str, Any] = {
    "recover": False,
    "solvable": False,
    "lanes": 1,
    "bytes": 100_000_000,
    "min_rows": 10,
}
_COORDINATOR = "coordinator"


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in a file that the owner of a site has written.

    What the file leaves out is not allowed: no recovery of drop-outs, no sums that can be solved for single
    sites, one penalty at a time, ten rows.
    """
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{file} cannot be read as a policy ({error}).") from None
    known = {"identities", "revoked", "ranges", *_SECTIONS}
    if unknown := sorted(set(content) - known):
        raise DataError(f"{file}: unknown section {unknown[0]}; a policy has {', '.join(sorted(known))}.")
    if single := next((name for name in content if not isinstance(content[name], dict)), None):
        raise DataError(f"{file}: {single} must be a section, [{single}].")
    settings: dict[str, Any] = dict(_CAUTIOUS)
    for section, fields in _SECTIONS.items():
        for name, value in content.get(section, {}).items():
            kind = fields.get(name)
            if kind is None:
                raise DataError(f"{file}: unknown setting {section}.{name}; there are {', '.join(fields)}.")
            number = kind in (int, float) and isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (number or type(value) is kind):
                raise DataError(f"{file}: {section}.{name} must be a {kind.__name__}; got {value!r}.")
            settings[name] = tuple(map(str, value)) if kind is list else value
    for section, name in _REQUIRED:
        if name not in content.get(section, {}):
            raise DataError(f"{file}: {section}.{name} is missing; the owner decides it.")
    epsilon, delta = settings.pop("epsilon", None), settings.pop("delta", 1e-5)
    budget = None if epsilon is None else Budget(float(epsilon), float(delta))
    try:
        return Policy(
            directory=_directory(content, file), ranges=_ranges(content, file), budget=budget, **settings
        )
    except UsageError as error:
        raise DataError(f"{file}: {error}") from None


def _directory(content: Mapping[str, Any], file: Path) -> dict[str, bytes]:
    keys, revoked = _keys(content, "identities", file), _keys(content, "revoked", file)
    if _COORDINATOR not in keys or len(keys) < 2:
        raise DataError(
            f"{file}: [identities] must list the public keys of the {_COORDINATOR} and of all sites: without "
            "them, questions could come from anybody."
        )
    for when, key in revoked.items():
        if owner := next((name for name, own in keys.items() if own == key), None):
            raise DataError(
                f"{file}: the key of {owner} under [identities] is revoked ({when}). Ask {owner} for the new "
                "one."
            )
    return keys


def _keys(content: Mapping[str, Any], section: str, file: Path) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for name, text in content.get(section, {}).items():
        try:
            keys[name] = bytes.fromhex(text)
        except (TypeError, ValueError):
            keys[name] = b""
        if len(keys[name]) != 32:
            raise DataError(f"{file}: {section}.{name} must be 64 hexadecimal digits; got {text!r}.")
    return keys


def _ranges(content: Mapping[str, Any], file: Path) -> dict[str, tuple[float, float]]:
    found = {}
    for name, pair in content.get("ranges", {}).items():
        numbers = isinstance(pair, list) and all(type(each) in (int, float) for each in pair)
        if not (numbers and len(pair) == 2 and pair[0] <= pair[1]):
            raise DataError(f"{file}: ranges.{name} must be [lowest, highest]; got {pair!r}.")
        found[name] = (float(pair[0]), float(pair[1]))
    return found
