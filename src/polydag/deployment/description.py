"""A study's description: sites, columns, recipe, method and privacy, in one canonical, signed text.

The coordinator signs the first description (`federation init`), which may leave the columns open, and after
all sites have joined the final one, which has them. The hash of the first names the study.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from polydag.errors import DataError, UsageError
from polydag.privacy.masking.identities import Identity, is_signed
from polydag.privacy.masking.keystreams import canonical
from polydag.studies.config.file import from_table, to_table
from polydag.studies.config.shapes import PartiesConfig
from polydag.studies.plan import plan_of

FORMAT = 1
_TEMPLATE_FIELDS = ("kind", "unit", "range", "levels", "from", "factor", "labels", "na")


@dataclass(frozen=True)
class Column:
    """A column of the study, and how a site makes it of its own table.

    Attributes
    ----------
    kind : {"continuous", "discrete"}
        Numbers or labels.
    unit : str
        Of the numbers, in words.
    range : tuple of two numbers, optional
        Where numbers lie, in that unit.
    levels : tuple of str
        The labels.
    from_ : str
        The name of the column in the sites' tables, where it is another one.
    factor : float
        By which the sites' numbers are multiplied.
    labels : mapping
        The study's labels for those in the sites' tables.
    na : tuple of str
        What stands for a missing value, besides the usual.
    """

    kind: str = "continuous"
    unit: str = ""
    range: tuple[float, float] | None = None
    levels: tuple[str, ...] = ()
    from_: str = ""
    factor: float = 1.0
    labels: Mapping[str, str] = field(default_factory=dict)
    na: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        found = dataclasses.asdict(self)
        found["from"] = found.pop("from_")
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    @classmethod
    def of(cls, name: str, given: Mapping[str, Any]) -> Self:
        """The column of a table of TOML or JSON."""
        if unknown := [key for key in given if key not in _TEMPLATE_FIELDS]:
            raise UsageError(
                f"Column {name}: {unknown[0]} is unknown; there are {', '.join(_TEMPLATE_FIELDS)}."
            )
        span = given.get("range")
        try:
            column = cls(
                str(given.get("kind", "discrete" if given.get("levels") else "continuous")),
                str(given.get("unit", "")),
                None if span is None else (float(span[0]), float(span[1])),
                tuple(map(str, given.get("levels", ()))),
                str(given.get("from", "")),
                float(given.get("factor", 1.0)),
                {str(key): str(value) for key, value in given.get("labels", {}).items()},
                tuple(map(str, given.get("na", ()))),
            )
        except (TypeError, ValueError, IndexError, AttributeError):
            raise UsageError(f"Column {name}: its description {dict(given)!r} cannot be read.") from None
        if column.kind not in ("continuous", "discrete"):
            raise UsageError(f"Column {name}: kind must be continuous or discrete; got {column.kind!r}.")
        if column.range is not None and not column.range[0] < column.range[1]:
            raise UsageError(f"Column {name}: range must be [lowest, highest]; got {list(column.range)}.")
        return column


@dataclass(frozen=True)
class Description:
    """What a study is, the same for all who take part.

    Attributes
    ----------
    study : mapping
        The configuration, as in `config.toml`: method, settings with privacy, seed; `data` are the sites.
    columns : mapping of name to Column
        Empty where the sites' join files decide.
    filters : tuple of str
        Conditions for the rows, such as "age >= 18".
    missing : {"error", "drop"}
        What a site does with rows that have missing values.
    version : str
        Of polydag.
    """

    study: Mapping[str, Any]
    columns: Mapping[str, Column]
    filters: tuple[str, ...]
    missing: str
    version: str

    @property
    def config(self) -> PartiesConfig:
        """The configuration."""
        found = from_table(self.study, "the study's description")
        assert isinstance(found, PartiesConfig)
        return found

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites, in their order."""
        return tuple(self.study["data"])

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "format": FORMAT,
            "study": dict(self.study),
            "columns": {name: column.to_json() for name, column in self.columns.items()},
            "order": list(self.columns),
            "filters": list(self.filters),
            "missing": self.missing,
            "version": self.version,
        }

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Self:
        """The description in JSON."""
        if words.get("format") != FORMAT:
            raise DataError(f"The study's description has format {words.get('format')!r}, not {FORMAT}.")
        try:
            columns = {name: Column.of(name, words["columns"][name]) for name in words["order"]}
            found = cls(
                words["study"], columns, tuple(words["filters"]), str(words["missing"]), str(words["version"])
            )
        except (KeyError, TypeError, AttributeError, UsageError) as error:
            raise DataError(f"The study's description cannot be read ({error}).") from None
        if found.to_json() != dict(words):
            raise DataError("The study's description holds more than it should.")
        return found

    @property
    def hash(self) -> str:
        """The SHA-256 of the canonical text."""
        return hashlib.sha256(canonical(self.to_json())).hexdigest()


@dataclass(frozen=True)
class Signed:
    """A description with the coordinator's keys and signature.

    Attributes
    ----------
    coordinator : bytes
        The coordinator's identity.
    encryption : bytes
        The X25519 key to which answers are encrypted.
    nonce : str
        What tells studies of the same description apart.
    """

    description: Description
    coordinator: bytes
    encryption: bytes
    nonce: str
    signature: bytes

    @classmethod
    def by(cls, description: Description, identity: Identity, encryption: bytes, nonce: str) -> Self:
        """A description signed by the coordinator."""
        unsigned = cls(description, identity.public, encryption, nonce, b"")
        return dataclasses.replace(unsigned, signature=identity.sign(unsigned._text()))

    def _text(self) -> bytes:
        return canonical("description", self.description.to_json(), self.encryption.hex(), self.nonce)

    @property
    def study(self) -> str:
        """The name of the study."""
        return hashlib.sha256(self._text()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "description": self.description.to_json(),
            "coordinator": self.coordinator.hex(),
            "encryption": self.encryption.hex(),
            "nonce": self.nonce,
            "signature": self.signature.hex(),
        }

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Self:
        """The signed description in JSON; a `DataError` where the signature is wrong."""
        try:
            found = cls(
                Description.of(words["description"]),
                bytes.fromhex(words["coordinator"]),
                bytes.fromhex(words["encryption"]),
                str(words["nonce"]),
                bytes.fromhex(words["signature"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError("The study's description cannot be read.") from None
        if not is_signed(found.coordinator, found.signature, found._text()):
            raise DataError("The study's description is not signed by its coordinator: it was altered.")
        return found

    @classmethod
    def read(cls, path: Path) -> Self:
        """The signed description in a file."""
        try:
            return cls.of(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read as a study's description ({error}).") from None
        except DataError as error:
            raise DataError(f"{path}: {error}") from None


def described(config: PartiesConfig, dictionary: str | None, missing: str) -> Description:
    """The description of a new study; `dictionary` is a TOML file with [columns] and filters, if any."""
    from polydag import __version__

    content: dict[str, Any] = {}
    if dictionary is not None:
        try:
            content = tomllib.loads(Path(dictionary).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"{dictionary} cannot be read as TOML ({error}).") from None
        if unknown := [name for name in content if name not in ("columns", "filters")]:
            raise UsageError(f"{dictionary}: {unknown[0]} is unknown; there are columns and filters.")
    columns = {name: Column.of(name, given) for name, given in content.get("columns", {}).items()}
    _require_supported(config)
    return Description(
        to_table(config), columns, tuple(map(str, content.get("filters", ()))), missing, __version__
    )


def _require_supported(config: PartiesConfig) -> None:
    plan = plan_of(config)  # refuses what does not go together
    for what, given in (
        ("--bootstrap", config.bootstrap),
        ("--interventions", config.interventions),
        ("--knowledge", config.knowledge),
        ("linked rows", config.is_linked),
        ("time series", plan.is_time_series),
        ("criterion=cg", "cg" in (plan.settings.get("criterion"), plan.settings.get("test"))),
        ("lambda_=stability", plan.settings.get("lambda_") == "stability"),
    ):
        if given:
            raise UsageError(f"Between sites that run apart there is no {what} yet. Leave it out.")
