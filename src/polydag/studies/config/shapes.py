"""What a study is to do, as a value: one class for each shape of data.

The fields are also the options of `polydag fit`: each says its help text, its flags and how it is written, so
that an option stands in one place.
"""

from __future__ import annotations

import dataclasses
import secrets
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

from polydag.errors import UsageError
from polydag.studies.data.addresses import public

AUTO = "auto"  # the method is chosen by the data
MISSING = ("error", "drop", "impute", "testwise", "em", "multiple")
LINKED = "Linked rows (for every shape of data)"
PARTIES = "Parties (--as parties)"
TASKS = "Tasks (--as tasks)"
POSTERIOR = "Posterior probabilities (--method posterior)"

# How an option is written on the command line: "names" as a,b,c; "kinds" and "settings" as NAME=VALUE,
# repeatable; a "file" is a path, which shells complete.
Form = Literal[
    "data",
    "text",
    "file",
    "names",
    "kinds",
    "codes",
    "transforms",
    "settings",
    "missing",
    "count",
    "positive",
]


class Option(NamedTuple):
    """How a field of a configuration is given on the command line."""

    help: str
    form: Form
    flags: tuple[str, ...]
    panel: str | None


def option(
    flag: str,
    form: Form,
    help: str,  # noqa: A002
    *,
    default: Any = None,
    short: str = "",
    panel: str | None = None,
) -> Any:
    """A field of a configuration that is an option of `polydag fit`."""
    flags = (flag, short) if short else (flag,)
    metadata = {"option": Option(help, form, flags, panel)}
    if default is dict:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Config(ABC):
    """All that decides the outcome of a study, whatever the shape of its data.

    Attributes
    ----------
    shape : str
        How the data is organised; a key of `SHAPES`. It belongs to the class, so that a configuration cannot
        run as a study of another shape.
    data : tuple of str
        Files or database addresses, as given; relative paths start from the current folder.
    method : str
        A key of `polydag.studies.methods.METHODS`, or the name of a registered learner; "auto" (default) is
        decided by the data.
    query : str, optional
        The SELECT, for a database.
    columns : tuple of str, optional
        The columns to use; all by default.
    exclude : tuple of str, optional
        Columns that are left out.
    kinds : mapping of column to "continuous" or "discrete"
        For columns whose kind should not be inferred.
    missing : str
        "error", "drop", "impute", "testwise", "em" or "multiple".
    imputations : int, optional
        How many tables with missing values drawn are learned from, for "multiple".
    na : tuple of str, optional
        Codes for missing values: `chol=0` for one column, `999` for all.
    transforms : mapping of column to "log", "rank" or "none"
        Transformations of columns of numbers.
    recode : tuple of str, optional
        Labels that are written in another way: `sex:female=F`.
    rescale : tuple of str, optional
        Numbers in other units: `hungary.csv:chol=38.67`, or `chol=38.67` in all files.
    settings : mapping
        The settings of the method and of its source, those of a group under the group's name (or flat, where
        only one group has the name); defaults for what is not given.
    knowledge : str, optional
        A file with background knowledge.
    interventions : str, optional
        The column that names what was set by intervention in each row: `none`, a variable, several joined
        by +; several such columns as a,b.
    bootstrap : int
        How many bootstrap resamples are learned from, to see how often each edge recurs; 0 for none.
    groups : str, optional
        The column with group labels; or a file with a line for each row, whose last column holds them.
    links : str, optional
        A file whose first two columns are pairs of linked rows; a column `kind` says of what kind each is.
    coords : str, optional
        Columns with coordinates and the number of nearest neighbours, as `lon,lat:5`.
    time : str, optional
        With `groups`, the column with the time of each row.
    covariance : str, optional
        A file of relationships between rows, see `polydag.data.read_relationships`.
    row_ids : str, optional
        The column with the row names that `links` or `covariance` uses; row numbers from 1 by default, for
        `links`.
    covariates : tuple of str, optional
        Columns on which the means of linked rows depend.
    order : tuple of str, optional
        All variables, causes before effects; for the method `bcd`.
    discretize : str, optional
        Cut continuous columns into levels: "quantile:4" or "interval:4".
    cluster : str, optional
        The address of a dask scheduler whose workers compute; the result does not depend on it.
    seed : int, optional
        Drawn, and recorded, where it is not given.
    jobs : int
        How many processes may run at once; the result does not depend on it.
    """

    shape: ClassVar[str]
    least_rows: ClassVar[int] = 2  # that each table must have

    data: tuple[str, ...] = option(
        "data", "data", "Files (CSV, Parquet, Arrow) or database addresses.", default=dataclasses.MISSING
    )
    method: str = option(
        "--method", "text", "How to learn; polydag fit --help lists the methods.", short="-m", default=AUTO
    )
    query: str | None = option("--query", "text", "The SELECT statement, if DATA is a database address.")
    columns: tuple[str, ...] | None = option(
        "--columns", "names", "The columns to use, as a,b,c; all by default."
    )
    exclude: tuple[str, ...] | None = option("--exclude", "names", "Columns to leave out, as a,b,c.")
    kinds: Mapping[str, str] = option(
        "--kind",
        "kinds",
        "Whether a column holds numbers or labels: NAME=continuous or NAME=discrete. Repeatable.",
        default=dict,
    )
    missing: str = option(
        "--missing",
        "missing",
        "What to do about missing values: stop (error, default), drop rows, impute means, em and testwise "
        "(moments that allow for them), or multiple (imputation).",
        default="error",
    )
    imputations: int | None = option(
        "--imputations", "positive", "The number of imputed tables for --missing multiple; 20 by default."
    )
    na: tuple[str, ...] | None = option(
        "--na", "codes", "A code for missing values: VALUE, or NAME=VALUE such as chol=0. Repeatable."
    )
    transforms: Mapping[str, str] = option(
        "--transform",
        "transforms",
        "Transform a column of numbers: NAME=log, NAME=rank (normal scores) or NAME=none. Repeatable.",
        default=dict,
    )
    recode: tuple[str, ...] | None = option(
        "--recode", "codes", "Replace a label: NAME:OLD=NEW, such as sex:female=F. Repeatable."
    )
    rescale: tuple[str, ...] | None = option(
        "--rescale", "codes", "Change units: FILE:NAME=FACTOR, or NAME=FACTOR in all files. Repeatable."
    )
    settings: Mapping[str, Any] = option(
        "--set",
        "settings",
        "A parameter of the Python class, NAME=VALUE such as penalty=2. Repeatable.",
        default=dict,
    )
    knowledge: str | None = option(
        "--knowledge",
        "file",
        "Background knowledge, a .toml or .csv file: required and forbidden edges, tiers.",
    )
    bootstrap: int = option(
        "--bootstrap",
        "count",
        "Also learn from this many bootstrap resamples, for the frequency of each edge.",
        default=0,
    )
    interventions: str | None = option(
        "--interventions",
        "text",
        "The column (or columns: a,b) that names the variables set by intervention in a row: none, a name, "
        "or several joined by +.",
    )
    groups: str | None = option(
        "--groups",
        "text",
        "The column (or a file) with group labels; rows of a group are linked.",
        panel=LINKED,
    )
    links: str | None = option("--links", "file", "A file of pairs of linked rows.", panel=LINKED)
    coords: str | None = option(
        "--coords", "text", "X,Y:K links each row with its K nearest neighbours.", panel=LINKED
    )
    time: str | None = option(
        "--time", "text", "With --groups, the column with the time of each row (panel data).", panel=LINKED
    )
    covariance: str | None = option(
        "--covariance",
        "file",
        "Relationships between rows: a .grm.gz or .rel file, or a table of pairs with values.",
        panel=LINKED,
    )
    row_ids: str | None = option(
        "--row-ids", "text", "The column with the row names that --links or --covariance uses.", panel=LINKED
    )
    covariates: tuple[str, ...] | None = option(
        "--covariates",
        "names",
        "Columns on which means depend, which are not variables themselves.",
        panel=LINKED,
    )
    order: tuple[str, ...] | None = option(
        "--order", "names", "All variables, causes first (for --method bcd).", panel=LINKED
    )
    discretize: str | None = option(
        "--discretize",
        "text",
        "Cut numbers into levels: quantile:4, or interval:4 of equal width.",
    )
    cluster: str | None = option(
        "--cluster", "text", "The address of a dask scheduler, to run chains on its workers.", panel=POSTERIOR
    )
    seed: int | None = option("--seed", "count", "The random seed; drawn and recorded by default.")
    jobs: int = option("--jobs", "positive", "The number of processes to use.", short="-j", default=1)

    def __post_init__(self) -> None:
        if not self.data:
            raise UsageError("A study needs data: name at least one file or database address.")
        if self.missing not in MISSING:
            raise UsageError(f"missing must be one of {', '.join(MISSING)}; got {self.missing!r}.")
        if self.imputations is not None and self.missing != "multiple":
            raise UsageError("--imputations needs --missing multiple.")
        if self.imputations is not None and self.imputations < 2:
            raise UsageError(f"imputations is a number of tables, at least 2; got {self.imputations}.")
        if self.bootstrap < 0:
            raise UsageError(f"bootstrap is a number of resamples, 0 for none; got {self.bootstrap}.")
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"A seed is a whole number from 0; got {self.seed}.")
        if self.jobs < 1:
            raise UsageError(f"jobs is the number of processes, at least 1; got {self.jobs}.")
        if self.columns is not None and self.exclude is not None:
            raise UsageError("Give --columns or --exclude: the columns to use, or those to leave out.")
        self._check_links()

    def _check_links(self) -> None:
        if sum(value is not None for value in self._ways) > 1:
            raise UsageError(
                "Give one of --groups, --links, --coords and --covariance: rows are linked in one of "
                "these ways."
            )
        if self.row_ids is not None and self.links is None and self.covariance is None:
            raise UsageError(
                "--row-ids names the rows for --links or --covariance; give one of these as well."
            )
        if self.covariance is not None and self.row_ids is None:
            raise UsageError(
                "--covariance needs --row-ids, the column that names the rows as that file does."
            )
        if self.time is not None and self.groups is None:
            raise UsageError("--time orders the rows within groups; give --groups as well.")
        if self.covariates is not None and not self.is_linked:
            raise UsageError(
                "--covariates is for linked rows: add --groups, --links, --coords or --covariance. For "
                "independent rows, "
                "keep the columns as variables."
            )
        if self.links is not None and self.row_ids is None and self.missing == "drop":
            raise UsageError(
                "With --missing drop row numbers would shift. Name the rows with --row-ids, or impute."
            )

    @property
    def intervention_columns(self) -> tuple[str, ...]:
        """The columns that name what was set in each row."""
        given = self.interventions
        return () if given is None else tuple(name.strip() for name in given.split(","))

    @property
    def is_linked(self) -> bool:
        """Whether rows are declared to depend on each other."""
        return any(value is not None for value in self._ways)

    @property
    def _ways(self) -> tuple[str | None, ...]:
        return self.groups, self.links, self.coords, self.covariance

    def seeded(self) -> Self:
        """With a seed, drawn by the system where none is given."""
        return self if self.seed is not None else dataclasses.replace(self, seed=secrets.randbelow(2**31))


@dataclass(frozen=True)
class TableConfig(Config):
    """A study of one table; several files with the same columns are put together."""

    shape: ClassVar[str] = "table"


@dataclass(frozen=True)
class PartiesConfig(Config):
    """A study of parties that keep their rows; `data` names one file or database for each.

    Attributes
    ----------
    site_effects : str
        How parties may differ without making edges, as for `polydag.Parties`.
    """

    shape: ClassVar[str] = "parties"
    least_rows: ClassVar[int] = 1  # a party of any size takes part

    site_effects: str = option(
        "--site-effects",
        "text",
        "Differences between parties to remove: means (default), none, 'means and scales', random.",
        default="means",
        panel=PARTIES,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        from polydag.federated.party_data.site_effects import SITE_EFFECTS

        if self.site_effects not in SITE_EFFECTS:
            raise UsageError(
                f"--site-effects must be one of {', '.join(map(repr, SITE_EFFECTS))}; "
                f"got {self.site_effects!r}."
            )
        require_different(self.data, "party")
        if len(self.data) < 2:
            raise UsageError("Parties are several: name one file for each, at least two.")


@dataclass(frozen=True)
class TasksConfig(Config):
    """A study of tasks, which are related populations: one file for each, or one file with a column.

    Attributes
    ----------
    task_column : str, optional
        The column of a single file that says to which task a row belongs.
    """

    shape: ClassVar[str] = "tasks"

    task_column: str | None = option(
        "--task-column", "text", "The column that names the task of each row of a single file.", panel=TASKS
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_different(self.data, "task")
        if self.task_column is not None and len(self.data) != 1:
            raise UsageError(
                f"--task-column divides one table into tasks; {len(self.data)} were named. "
                "Without it every file is a task."
            )
        links = {"--groups": self.groups, "--time": self.time, "--row-ids": self.row_ids}
        if self.task_column and (both := [name for name, own in links.items() if own == self.task_column]):
            raise UsageError(
                f"--task-column and {both[0]} both name {self.task_column}: within a task, all rows have the "
                "same label there. Name another column, or leave one of the two out."
            )


SHAPES: dict[str, type[Config]] = {kind.shape: kind for kind in (TableConfig, PartiesConfig, TasksConfig)}
SHAPE_SUMMARIES = {
    "table": "One table (default); several files are concatenated.",
    "parties": "Organisations that keep their rows, one file for each.",
    "tasks": "Related populations, one file for each, or one with --task-column.",
}


def config_class(shape: str) -> type[Config]:
    """The class of configurations of a shape of data."""
    if shape not in SHAPES:
        raise UsageError(
            f"No shape of data is called {shape!r}. Known are {', '.join(SHAPES)}. Linked rows go with each "
            "of them: declare them with --groups, --links or --coords. For posterior probabilities of edges "
            "use --method posterior."
        )
    return SHAPES[shape]


def options() -> dict[str, Option]:
    """The options of all shapes by the names of their fields; those that all shapes have come first."""
    found: dict[str, Option] = {}
    for kind in SHAPES.values():
        for field in dataclasses.fields(kind):
            found.setdefault(field.name, field.metadata["option"])
    return found


def require_different(data: tuple[str, ...], what: str) -> None:
    """Raise where a source is named twice though each is a party, or a task, of its own."""
    if len(set(data)) != len(data):
        twice = next(source for source in data if data.count(source) > 1)
        raise UsageError(f"{public(twice)} is named twice; every file is a {what} of its own.")
