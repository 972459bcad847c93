"""A study's description: sites, columns, recipe, method and privacy, in one canonical, signed text.

The coordinator signs the first description (`federation init`), which may leave the columns open, and after
all sites have joined the final one, which has them. The hash of the first names the study.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from polydag.errors import DataError, UsageError
from polydag.knowledge import Knowledge
from polydag.privacy.masking.identities import Identity, is_signed
from polydag.privacy.masking.keystreams import canonical
from polydag.sources.gaps.moments import ALLOWED
from polydag.studies.config.file import from_table, to_table
from polydag.studies.config.shapes import PartiesConfig
from polydag.studies.pipeline import require_gaps_fit
from polydag.studies.plan import Plan, plan_of

FORMAT = 2
MISSING = ("error", "drop", *ALLOWED)  # what sites do about missing values
# What a study apart may set.
_DESCRIBED = (
    "data",
    "method",
    "settings",
    "seed",
    "site_effects",
    "missing",
    "imputations",
    "interventions",
    "transforms",
    "discretize",
)
OPERATORS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}  # of conditions for rows
_SITE = re.compile(r"[^\x00-\x1f/\\|.][^\x00-\x1f/\\|]*")  # names of sites become names of files
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
        if column.kind == "discrete" and not column.levels:
            raise UsageError(f"Column {name}: say which labels there are, as levels = ['no', 'yes'].")
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
    version : str
        Of polydag.
    knowledge : mapping
        Required and forbidden edges and tiers, as lists of names; empty where nothing is known.
    holdings : mapping of site to mapping
        What the sites' join files say of their rows, where the study depends on it: `gaps`, whether values
        are missing, and `regimes`, which variables were set by intervention, where a site says so.
    keeps_graph : bool
        Whether the graph stays with the coordinator; otherwise the last question brings it to all sites.
    """

    study: Mapping[str, Any]
    columns: Mapping[str, Column]
    filters: tuple[str, ...]
    version: str
    knowledge: Mapping[str, Any] = field(default_factory=dict)
    holdings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    keeps_graph: bool = False

    @cached_property
    def config(self) -> PartiesConfig:
        """The configuration."""
        found = from_table(self.study, "the study's description")
        assert isinstance(found, PartiesConfig)
        return found

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites, in their order."""
        return tuple(self.study["data"])

    @property
    def missing(self) -> str:
        """What is done about missing values."""
        return self.config.missing

    @property
    def known(self) -> Knowledge | None:
        """The background knowledge, if there is any."""
        return Knowledge(**self.knowledge) if self.knowledge else None

    @property
    def asks_for_holdings(self) -> bool:
        """Whether the study depends on what the sites say of their rows on joining."""
        return self.missing in ALLOWED or self.config.interventions is not None

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "format": FORMAT,
            "study": dict(self.study),
            "columns": {name: column.to_json() for name, column in self.columns.items()},
            "order": list(self.columns),
            "filters": list(self.filters),
            "version": self.version,
            "knowledge": dict(self.knowledge),
            "holdings": {site: dict(own) for site, own in self.holdings.items()},
            "keeps_graph": self.keeps_graph,
        }

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Self:
        """The description in JSON."""
        if words.get("format") != FORMAT:
            raise DataError(f"The study's description has format {words.get('format')!r}, not {FORMAT}.")
        try:
            columns = {name: Column.of(name, words["columns"][name]) for name in words["order"]}
            found = cls(
                words["study"],
                columns,
                tuple(words["filters"]),
                str(words["version"]),
                words["knowledge"],
                {site: holding_of(own) for site, own in words["holdings"].items()},
                bool(words["keeps_graph"]),
            )
            plan, _ = plan_of(found.config), found.known
            for text in found.filters:
                condition(text)
        except (KeyError, TypeError, AttributeError, UsageError, AssertionError) as error:
            raise DataError(f"The study's description cannot be read ({error}).") from None
        if found.to_json() != dict(words):
            raise DataError("The study's description holds more than it should.")
        if odd := _not_described(plan):
            raise DataError(f"The study's description sets {odd}, which is not part of a study apart.")
        if odd_sites := [site for site in found.sites if not _SITE.fullmatch(site)]:
            raise DataError(f"The study's description names a site {odd_sites[0]!r}, which is no name.")
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
        except DataError:
            raise
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


def require_same_version(description: Description) -> None:
    """Raise where a study was made with another version, whose learners may ask and answer other things."""
    from polydag import __version__

    if description.version != __version__:
        raise UsageError(
            f"The study was made with polydag {description.version}, and this is {__version__}. All parties "
            f"need the same version: pip install polydag=={description.version}."
        )


def condition(text: str) -> tuple[str, str, str]:
    """The column, the operator and the value of a condition for the rows."""
    words = text.split(maxsplit=2)
    if len(words) != 3 or words[1] not in OPERATORS:
        raise UsageError(f"The filter {text!r} is not COLUMN OPERATOR VALUE, such as 'age >= 18'.")
    return words[0], words[1], words[2]


def holding_of(own: Mapping[str, Any]) -> dict[str, Any]:
    """What one site says of its rows; raises a `TypeError` for anything else."""
    regimes = own["regimes"]
    sets = regimes is None or all(isinstance(name, str) for targets in regimes for name in targets)
    if set(own) != {"gaps", "regimes"} or not isinstance(own["gaps"], bool) or not sets:
        raise TypeError("what a site says of its rows")
    return {"gaps": own["gaps"], "regimes": None if regimes is None else [list(own) for own in regimes]}


def described(
    config: PartiesConfig, dictionary: str | None = None, *, keeps_graph: bool = False
) -> Description:
    """The description of a new study; `dictionary` is a TOML file with [columns] and filters, if any."""
    from polydag import __version__
    from polydag.studies.data.inputs import read_knowledge

    content: dict[str, Any] = {}
    if dictionary is not None:
        try:
            content = tomllib.loads(Path(dictionary).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"{dictionary} cannot be read as TOML ({error}).") from None
        if unknown := [name for name in content if name not in ("columns", "filters")]:
            raise UsageError(f"{dictionary}: {unknown[0]} is unknown; there are columns and filters.")
    columns = {name: Column.of(name, given) for name, given in content.get("columns", {}).items()}
    filters = tuple(map(str, content.get("filters", ())))
    for text in filters:
        condition(text)
    require_supported(config)
    known = read_knowledge(config, {})  # its contents travel, not the place where it lies
    return Description(
        to_table(dataclasses.replace(config, knowledge=None)),
        columns,
        filters,
        __version__,
        {} if known is None else _as_lists(known),
        keeps_graph=keeps_graph,
    )


def _as_lists(known: Knowledge) -> dict[str, Any]:
    return {
        "required": sorted(map(list, known.required)),
        "forbidden": sorted(map(list, known.forbidden)),
        "tiers": [list(tier) for tier in known.tiers],
    }


def _not_described(plan: Plan) -> str:
    """What a configuration sets that no study apart may set; empty where there is nothing.

    A site runs the learner as the description says. Other fields would let a coordinator name files and
    addresses that the site's program opens, or choose rows.
    """
    config = plan.config
    if plan.privacy is not None and plan.privacy.ledgers is not None:
        return "ledgers"
    if config.missing not in MISSING:
        return f"missing = {config.missing}"
    return next(
        (
            field.name
            for field in dataclasses.fields(config)
            if field.name not in _DESCRIBED and getattr(config, field.name) != _default(field)
        ),
        "",
    )


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def require_supported(config: PartiesConfig) -> None:
    """Raise, with the reason, for what parties in one process can do and sites that run apart cannot."""
    plan = plan_of(config)  # refuses what does not go together
    reasons = {
        "--bootstrap": (
            config.bootstrap,
            "it sums the same rows with many different weights, and enough such sums can be solved for "
            "single rows, so that sites refuse it",
        ),
        "linked rows": (
            config.is_linked,
            "how rows are correlated is estimated at each site before anything is summed, which the study's "
            "description cannot say",
        ),
        "--missing impute": (
            config.missing == "impute",
            "means of a site's own rows would stand for what is missing; em allows for it",
        ),
        "ledgers": (
            plan.privacy is not None and plan.privacy.ledgers is not None,
            "each site keeps a ledger of its own, in its home folder",
        ),
        "lambda_=stability": (
            plan.settings.get("lambda_") == "stability",
            "it needs sums over halves of the sites, and every sum is over all of them",
        ),
    }
    for what, (given, why) in reasons.items():
        if given:
            raise UsageError(f"Sites that run apart do not support {what}: {why}. Leave it out.")
    other = _not_described(plan_of(dataclasses.replace(config, knowledge=None)))
    if other:
        raise UsageError(
            f"Sites that run apart do not support the option {other}: describe the "
            f"columns, and how sites convert their own, in the file for --columns."
        )
    require_gaps_fit(plan)
