"""The methods of all studies by name: what learns, what it needs, and a line of help.

A learner that is only registered in `polydag.learners.LEARNERS`, or a method of
`polydag.federated.methods.registry`, can be named as well; a line here gives it a place in `polydag fit
--help`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from polydag.errors import UsageError
from polydag.studies.config.shapes import AUTO, SHAPES, Config

_EVERYWHERE = tuple(SHAPES)
_ONE_GRAPH = ("table", "parties")


@dataclass(frozen=True)
class Method:
    """A way of learning, as it is named on the command line.

    Attributes
    ----------
    learner : str or class
        The learner, or its name in `polydag.learners`.
    over_tasks : str, optional
        The learner over tasks, where it is another one.
    fixed : mapping
        The learner's parameters that the method's name stands for.
    shapes : tuple of str
        The shapes of data from which it learns.
    elsewhere : mapping of shape to str
        What to do instead, for a shape from which it does not learn.
    labels : bool
        Whether it learns from labels as well as from numbers.
    interventions : bool
        Whether it uses known interventions.
    by_family : bool
        Whether it scores one variable and its parents at a time, and so uses interventions on linked rows.
    linked : bool
        Whether it learns from linked rows.
    needs_links : bool
        Whether it learns from nothing else.
    probabilities : bool
        Whether its result is the posterior probability of every edge.
    """

    name: str
    summary: str
    learner: Any
    over_tasks: str | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    shapes: tuple[str, ...] = _ONE_GRAPH
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    labels: bool = False
    interventions: bool = False
    by_family: bool = False
    linked: bool = True
    needs_links: bool = False
    probabilities: bool = False

    def learner_class(self, shape: str) -> Any:
        """The class of the learner for a shape of data."""
        from polydag import learners

        name = self.over_tasks if shape == "tasks" and self.over_tasks else self.learner
        return getattr(learners, name) if isinstance(name, str) else name


def _exchange(name: str, summary: str) -> Method:
    return Method(
        name,
        summary,
        "FederatedNotears",
        fixed={"method": name},
        shapes=("parties",),
        elsewhere={
            "table": "For one table use notears, or name one file for each party and add --as parties."
        },
        interventions=True,
    )


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            AUTO,
            "Chosen from the data (default).",
            "AutoDAG",
            shapes=_EVERYWHERE,
            labels=True,
            interventions=True,
        ),
        Method("notears", "Linear model, by continuous optimisation.", "Notears", interventions=True),
        Method(
            "notears-mlp",
            "A neural network for each variable (needs rows).",
            "NotearsMLP",
            shapes=("table",),
            elsewhere={"parties": "Over parties use --method admm, fedavg or voting with --set model=mlp."},
        ),
        Method(
            "notears-lagged",
            "Time series: effects within a time step and over several.",
            "NotearsLagged",
            linked=False,
        ),
        Method("equal-variance", "Linear model, ordered by equal error variances.", "EqualVariance"),
        Method(
            "ges",
            "Greedy search over equivalence classes.",
            "GES",
            labels=True,
            interventions=True,
            by_family=True,
        ),
        Method(
            "boss",
            "Search over orders of the variables (best order score).",
            "BOSS",
            labels=True,
            interventions=True,
            by_family=True,
        ),
        Method("pc", "Tests of conditional independence.", "PC", labels=True, interventions=True),
        Method(
            "posterior",
            "Posterior probability of every edge (in every task).",
            "BayesianDiscovery",
            over_tasks="MultitaskDiscovery",
            shapes=_EVERYWHERE,
            labels=True,
            interventions=True,
            by_family=True,
            probabilities=True,
        ),
        Method(
            "bcd",
            "Linked rows with a known --order, jointly with the graph.",
            "LinkedRowsDAG",
            fixed={"learner": None, "max_rounds": 1},
            shapes=("table",),
            needs_links=True,
        ),
        _exchange("admm", "Parties exchange parameters of NOTEARS, by ADMM."),
        _exchange("fedavg", "Parties exchange parameters of NOTEARS, by averaging."),
        _exchange("varying", "Parties share a graph but not its coefficients."),
        _exchange("voting", "Parties learn alone and vote for edges."),
    )
}


def names() -> list[str]:
    """All methods, those of registered learners and federated methods included."""
    from polydag.federated.methods.registry import METHODS as EXCHANGES
    from polydag.learners import LEARNERS, ROW_LEARNERS

    return list(dict.fromkeys([*METHODS, *LEARNERS, *ROW_LEARNERS, *EXCHANGES]))


def find(name: str) -> Method:
    """The method of a name."""
    if name in METHODS:
        return METHODS[name]
    from polydag.federated.methods.registry import METHODS as EXCHANGES
    from polydag.learners import LEARNERS, ROW_LEARNERS

    if name in EXCHANGES:
        return _exchange(name, "")
    if name in LEARNERS:
        return Method(name, "", LEARNERS[name])
    if name in ROW_LEARNERS:
        return Method(name, "", ROW_LEARNERS[name], shapes=("table",))
    raise UsageError(f"No method is called {name!r}. Known are {', '.join(names())}.")


def method_of(config: Config) -> Method:
    """The method of a configuration; what does not go together is refused before anything is read."""
    method = find(config.method)
    _require_shape(method, config)
    if config.is_linked:
        _require_links_fit(method, config)
    elif method.needs_links:
        raise UsageError(f"{method.name} learns from linked rows: add --groups, --links or --coords.")
    takes = method.learner_class(config.shape)().get_params(deep=False)
    if "order" in takes and config.order is None:
        raise UsageError(
            f"{method.name} needs a known order of the variables: --order CAUSE,…,EFFECT. Without one, use "
            "another method, such as ges."
        )
    if config.order is not None and "order" not in takes:
        raise UsageError(f"--order is for the method bcd; {method.name} finds its own.")
    if config.knowledge is not None and "knowledge" not in takes:
        raise UsageError(f"{method.name} does not take background knowledge.")
    if config.interventions is not None and not method.interventions:
        able = ", ".join(known.name for known in METHODS.values() if known.interventions)
        raise UsageError(f"{method.name} does not use interventions. Methods that do: {able}.")
    _require_discretize_fits(method, config)
    _require_bootstrap_fits(method, config)
    return method


def _require_shape(method: Method, config: Config) -> None:
    if config.shape in method.shapes:
        return
    shapes = " or ".join(f"--as {shape}" for shape in method.shapes)
    usual = {
        "tasks": "Over tasks use --method posterior; to learn one graph from all rows, leave out --as tasks.",
        "parties": "Over parties use a method that learns from sums (such as boss) or exchanges parameters.",
    }
    instead = method.elsewhere.get(config.shape, usual.get(config.shape, ""))
    raise UsageError(f"{method.name} works with {shapes}, not with --as {config.shape}. {instead}".rstrip())


def _require_links_fit(method: Method, config: Config) -> None:
    if not method.linked:
        raise UsageError(
            f"{method.name} learns from rows that follow each other in time; it cannot be combined with "
            f"--groups, "
            "--links or --coords."
        )
    if config.interventions is not None and not method.by_family:
        able = ", ".join(known.name for known in METHODS.values() if known.by_family)
        raise UsageError(
            f"{method.name} does not take --interventions with linked rows, which are decorrelated for each "
            f"variable by itself, in the rows in which it was not set. Methods that do: {able}."
        )
    if config.interventions is not None and config.shape != "table":
        raise UsageError(
            "--interventions with linked rows works with one table only. Leave out --as, or one of the "
            "two options."
        )
    if (
        len(config.data) > 1
        and config.shape != "table"
        and config.links is not None
        and config.row_ids is None
    ):
        raise UsageError(
            "--links over several files needs row names: add --row-ids, a column of names that differ in all "
            "files."
        )


def _require_discretize_fits(method: Method, config: Config) -> None:
    if config.discretize is None:
        return
    if not method.labels:
        able = ", ".join(known.name for known in METHODS.values() if known.labels)
        raise UsageError(f"--discretize makes labels, and {method.name} is for numbers. Use {able}.")
    if config.is_linked:
        raise UsageError(
            "--discretize cannot be combined with linked rows, which are decorrelated as numbers."
        )


def _require_bootstrap_fits(method: Method, config: Config) -> None:
    if not config.bootstrap:
        return
    if method.probabilities:
        raise UsageError(
            "--bootstrap measures the uncertainty of a single graph; a posterior has its own. Leave it out."
        )
    if getattr(method.learner_class(config.shape), "time_series", False):
        raise UsageError("--bootstrap draws rows one by one, and those of a time series follow each other.")
