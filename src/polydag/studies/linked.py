"""A study of linked rows: one table, and what says which of its rows may depend on each other."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polydag.data.readers.selection import find_reader
from polydag.errors import DataError, DataWarning, UsageError
from polydag.studies import methods
from polydag.studies.config import Config, require_shape
from polydag.studies.fitting import fitted, result_of
from polydag.studies.inputs import Inputs, file_mark, read_knowledge, read_table, require_known
from polydag.studies.result import Result

if TYPE_CHECKING:
    import pandas as pd

    from polydag.rows import Links
    from polydag.rows.decorrelation import Decorrelation

ORDERED = "bcd"  # the method for a known order
_ROWS = ("structure", "lambda2", "n_permutations")
_ROUNDS = "max_rounds"
_EDGES = ("lambda_", "threshold", "extended")


@dataclass(frozen=True)
class LinkedConfig(Config):
    """All that decides the outcome of a study of linked rows.

    Attributes
    ----------
    links : str, optional
        A file whose first two columns are pairs of linked rows.
    groups : str, optional
        The column with group labels; or a file with a line for each row, whose last column they are.
    coords : str, optional
        Columns with coordinates and the number of nearest neighbours, as `lon,lat:5`.
    row_ids : str, optional
        The column with the names that `links` uses; row numbers from 1 by default.
    covariates : tuple of str, optional
        Columns that the means depend on.
    order : tuple of str, optional
        All variables, causes before effects; for the method `bcd`, which it makes the default.
    """

    shape: ClassVar[str] = "linked"

    method: str = ""
    links: str | None = None
    groups: str | None = None
    coords: str | None = None
    row_ids: str | None = None
    covariates: tuple[str, ...] | None = None
    order: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.method:
            object.__setattr__(self, "method", "ges" if self.order is None else ORDERED)
        super().__post_init__()
        if sum(value is not None for value in (self.links, self.groups, self.coords)) != 1:
            raise UsageError(
                "Linked rows need one of --links edges.csv, --groups COLUMN and --coords X,Y:5, which say "
                "which rows may depend on each other."
            )
        if len(self.data) != 1:
            raise UsageError(f"Linked rows are in one table; {len(self.data)} were named.")
        if self.method == ORDERED and self.order is None:
            raise UsageError(
                f"The method {ORDERED} needs a known order of the variables: --order CAUSE,…,EFFECT. Without "
                "one, use another method, such as ges."
            )
        if self.order is not None and self.method != ORDERED:
            raise UsageError(f"--order is for the method {ORDERED}; {self.method} finds its own.")
        if self.bootstrap:
            raise UsageError("Linked rows cannot be drawn again one by one: --bootstrap is not for them.")
        if self.missing == "drop" and self.links is not None and self.row_ids is None:
            raise UsageError(
                "With --missing drop row numbers would shift. Name the rows with --row-ids, or impute."
            )


CONFIG = LinkedConfig


def load(config: LinkedConfig) -> Inputs:
    """Read the table, its links and the background knowledge."""
    settings_of(config)
    (source,) = config.data
    sha256: dict[str, str] = {}
    knowledge = read_knowledge(config, sha256)
    group = None if _in_a_file(config) else config.groups
    beside = [group, config.row_ids, *_coordinates(config)[0], *(config.covariates or ())]
    extra = [name for name in dict.fromkeys(beside) if name is not None]
    columns = None
    if config.columns is not None:
        columns = tuple(dict.fromkeys((*config.columns, *extra)))
    table = read_table(config, source, sha256, columns)
    if lost := [name for name in extra if name not in table.names]:
        raise DataError(f"{table.source} has no column {', '.join(lost)}.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        links = _links(config, table.frame, sha256)
    notes = (*table.notes, *(str(warning.message) for warning in caught))
    helpers = [config.row_ids, *_coordinates(config)[0]]
    frame = table.frame.drop(columns=[name for name in helpers if name is not None])
    variables = [name for name in frame.columns if name not in {group, *(config.covariates or ())}]
    _require_numbers(frame, [*variables, *(config.covariates or ())], table.source)
    require_known(knowledge, tuple(variables), config.knowledge)
    return Inputs((frame, links), float(table.n), table.source, knowledge, sha256, notes)


def _require_numbers(frame: pd.DataFrame, names: Sequence[str], source: str) -> None:
    """Name every column that is not numeric, and the option that leaves columns out."""
    if strange := [name for name in names if frame[name].dtype.kind not in "fiub"]:
        raise DataError(
            f"{source}: {', '.join(strange)} {'is' if len(strange) == 1 else 'are'} not numeric. Linked rows "
            "need numbers: choose columns with --columns, or recode."
        )


def _in_a_file(config: LinkedConfig) -> bool:
    """Whether the group labels are in a file of their own."""
    return config.groups is not None and Path(config.groups).is_file()


def _coordinates(config: LinkedConfig) -> tuple[list[str], int]:
    """The columns with coordinates, and the number of neighbours."""
    if config.coords is None:
        return [], 0
    names, colon, count = config.coords.rpartition(":")
    if not colon or not count.isdigit() or not names:
        raise UsageError(
            f"--coords is columns and the number of nearest neighbours, as lon,lat:5; got {config.coords!r}."
        )
    return [name.strip() for name in names.split(",")], int(count)


def _links(config: LinkedConfig, frame: pd.DataFrame, sha256: dict[str, str]) -> Links | str:
    from polydag.rows import Links

    if config.groups is not None and not _in_a_file(config):
        return config.groups
    if config.groups is not None:
        sha256[config.groups] = file_mark(config.groups)
        origin, form = find_reader(config.groups, None)
        labels = form.frame(origin, None)
        if len(labels) != len(frame):
            raise DataError(
                f"{config.groups} has {len(labels)} lines, the data {len(frame)} rows; each needs a label."
            )
        return Links.from_groups(labels.iloc[:, -1])
    if config.coords is not None:
        names, count = _coordinates(config)
        return Links.from_coordinates(frame[names].to_numpy(dtype=float), count)
    assert config.links is not None
    sha256[config.links] = file_mark(config.links)
    told = range(1, len(frame) + 1) if config.row_ids is None else frame[config.row_ids]
    names = [_name(row) for row in told]
    pairs = _pairs(config.links)
    if config.missing == "drop":
        left_out = _everyone(config) - set(names)
        pairs = [pair for pair in pairs if left_out.isdisjoint(pair)]
    try:
        return Links.from_edges(pairs, names)
    except DataError as error:
        known = "row numbers from 1" if config.row_ids is None else f"the column {config.row_ids}"
        hint = "" if config.row_ids else " Say with --row-ids which column names the rows."
        raise DataError(f"{config.links}, with rows named by {known}: {error}{hint}") from None


def _pairs(path: str) -> list[tuple[str, str]]:
    """The first two columns of a file, as names of rows."""
    origin, form = find_reader(path, None)
    frame = form.frame(origin, None)
    if frame.shape[1] < 2:
        raise DataError(f"{path} has one column; links are two columns of row names or numbers.")
    ends = frame.iloc[:, :2]
    if (lacking := ends.isna().any(axis=1)).any():
        raise DataError(f"{path}, {form.locate(origin, int(lacking.argmax()))}: a link needs two rows.")
    return [(_name(a), _name(b)) for a, b in ends.itertuples(index=False, name=None)]


def _everyone(config: LinkedConfig) -> set[str]:
    """The names of all rows, those with missing values as well."""
    assert config.row_ids is not None  # row numbers would have shifted, see LinkedConfig
    origin, form = find_reader(config.data[0], config.query)
    return {_name(row) for row in form.frame(origin, [config.row_ids])[config.row_ids]}


def _name(value: Any) -> str:
    """A row's name, the same whether a file held it as a text or as a number."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def settings_of(config: LinkedConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the rows (and of a known order), and those of the learner; all by the learners' "
    "names."""
    from polydag.learners import LinkedRowsDAG, RowDecorrelator

    own = (*_ROWS, *_EDGES) if config.method == ORDERED else (*_ROWS, _ROUNDS)
    defaults = {**LinkedRowsDAG().get_params(deep=False), **RowDecorrelator().get_params(deep=False)}
    defaults[_ROUNDS] = 1
    given = {name.replace("-", "_"): value for name, value in config.settings.items()}
    given = {f"{name}_" if f"{name}_" in own else name: value for name, value in given.items()}
    rows = {name: given.pop(name, defaults[name]) for name in own}
    if config.method == ORDERED:
        if given:
            raise UsageError(
                f"{ORDERED} has no setting {next(iter(given))}. Its settings are {', '.join(own)}."
            )
        return rows, {}
    try:
        methods.settings_of(config.method, given)
    except UsageError as error:
        raise UsageError(f"{error} Those of linked rows are {', '.join(own)}.") from None
    return rows, given


def run(config: LinkedConfig, inputs: Inputs | None = None) -> Result:
    """Learn a graph as the configuration says; `inputs` are read where they are not given."""
    from polydag.learners import LinkedRowsDAG
    from polydag.sources import LinkedRows

    require_shape(config, CONFIG.shape)
    inputs = load(config) if inputs is None else inputs
    config = config.seeded()
    settings, given = settings_of(config)
    used: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    learner: Any
    if config.method == ORDERED:
        if inputs.knowledge is not None:
            raise UsageError(f"{ORDERED} does not take background knowledge: the order is all it knows.")
        learner = LinkedRowsDAG(order=config.order, **{name: settings[name] for name in _EDGES})
    else:
        learner, used, notes = methods.make(dataclasses.replace(config, settings=given), inputs.knowledge)
        if settings[_ROUNDS] != 1:
            learner = LinkedRowsDAG(learner=learner, max_rounds=settings[_ROUNDS])
    frame, links = inputs.rows
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        rows = LinkedRows(
            frame,
            **({"groups": links} if isinstance(links, str) else {"links": links}),
            covariates=_list(config.covariates),
            random_state=config.seed,
            n_jobs=config.jobs,
            **{name: settings[name] for name in _ROWS},
        )
    said = tuple(str(warning.message) for warning in caught)
    model, warned = fitted(learner, dataclasses.replace(inputs, rows=rows))
    found = getattr(model, "decorrelation_", None) or rows.decorrelation_
    return result_of(
        model,
        inputs,
        config,
        {**used, **settings},
        (*inputs.notes, *notes, *said, *warned, *_sentences(found)),
        measures=_measures(model, found),
        tables={"row_correlations": _by_column(found)},
    )


def _list(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _measures(model: Any, found: Decorrelation) -> dict[str, float]:
    measures = {
        "effective_n": found.precision.effective_n,
        "row_correlation": found.before.correlation,
        "p_value_of_independent_rows": found.before.p_value,
        "p_value_after_decorrelation": found.after.p_value,
    }
    return measures | (
        {"lambda1": model.lambda_used_} if hasattr(model, "order") and model.order is not None else {}
    )


def _sentences(found: Decorrelation) -> tuple[str, ...]:
    columns = _by_column(found).sort_values("correlation", kind="stable")
    if not columns["correlation"].any():  # without links, which has been said already
        return ()
    least, most = columns.iloc[0], columns.iloc[-1]
    spread = (
        f"By column the correlation of linked rows ranges from {least['correlation']:.2f} "
        f"({least['column']}) "
        f"to {most['correlation']:.2f} ({most['column']}), see row_correlations.csv; the model has one for "
        "all."
    )
    said = [found.summary, spread]
    after = found.after
    if after.dependent:
        said.append(
            f"Some dependence is left after decorrelation (p = {after.p_value:.2g}): columns differ in "
            "theirs, or the links are not all there is. Read the graph with care."
        )
    elif found.before.dependent:
        said.append(f"No dependence is left after decorrelation (p = {after.p_value:.2g}).")
    return tuple(said)


def _by_column(found: Decorrelation) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({"column": found.table.names, "correlation": found.column_correlations})
