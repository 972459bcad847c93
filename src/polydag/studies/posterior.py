"""A study of one table whose answer is the probability of every edge."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from polydag.errors import UsageError
from polydag.parameters import Settings
from polydag.studies.cluster import computing_on
from polydag.studies.config import Config, require_shape
from polydag.studies.fitting import fitted, result_of
from polydag.studies.inputs import Inputs, is_large
from polydag.studies.methods import chosen
from polydag.studies.pooled import read_all
from polydag.studies.result import Result

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from polydag.posterior.probabilities import Posterior

METHODS = ("auto", "exact", "weighted", "mcmc")
LIKELY = 0.5  # connections above this probability are told in words
TOLD = 5  # connections in a sentence
LIKELY_SETS = 0.001  # parent sets below this probability are not written down
# Set by the study itself.
_OWN = ("method", "discretize", "knowledge", "random_state", "n_jobs")


@dataclass(frozen=True)
class PosteriorConfig(Config):
    """All that decides the outcome of a study of edge probabilities.

    Attributes
    ----------
    discretize : str, optional
        Cut continuous columns into levels: "quantile:4" or "interval:4".
    cluster : str, optional
        The address of a dask scheduler whose workers run the chains; the result does not depend on it.
    """

    shape: ClassVar[str] = "posterior"

    method: str = "auto"
    discretize: str | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            raise UsageError(
                f"No method for posteriors is called {self.method!r}. Known are {', '.join(METHODS)}."
            )
        if self.bootstrap:
            raise UsageError("A posterior has its own uncertainty: --bootstrap is not for it.")


CONFIG = PosteriorConfig


def settings_of(config: PosteriorConfig) -> dict[str, Any]:
    """All settings of the learner: those given, and the defaults of the others."""
    from polydag.learners import BayesianDiscovery

    return settings_for(BayesianDiscovery(), config, _OWN, f"the posterior by {config.method}")


def settings_for(learner: Any, config: PosteriorConfig, own: tuple[str, ...], whose: str) -> dict[str, Any]:
    """The settings of a learner by name, but for those that the study sets itself.

    A setting of a group has its own name (`n_steps`); it may also be given as `chains__n_steps`.
    """
    parameters, values = parameter_names(learner), learner.get_params()
    known = {name: values[parameter] for name, parameter in parameters.items() if name not in own}
    short = {parameter: name for name, parameter in parameters.items()}
    given = {short.get(name, name): value for name, value in config.settings.items()}
    return chosen(known, given, whose)


def parameter_names(learner: Any) -> dict[str, str]:
    """The parameters of a learner by the names of settings: those of a group are `group__name`."""
    found: dict[str, str] = {}
    for name, value in learner.get_params(deep=False).items():
        if isinstance(value, Settings):
            found |= {inner: f"{name}__{inner}" for inner in value.get_params()}
        else:
            found[name] = name
    return found


def load(config: PosteriorConfig) -> Inputs:
    """Read the data and the background knowledge; numbers and labels decide the score that is not given."""
    from polydag.scores import kind_of

    gaussian = kind_of(settings_of(config)["score"]) == "numbers"
    return read_all(config, large=gaussian and is_large(config))


def run(config: PosteriorConfig, inputs: Inputs | None = None) -> Result:
    """Learn the probability of every edge; `inputs` are read where they are not given."""
    from polydag.learners import BayesianDiscovery

    require_shape(config, CONFIG.shape)
    inputs = load(config) if inputs is None else inputs
    found = discovered(BayesianDiscovery, config, settings_of(config), inputs, discrete=inputs.rows.discrete)
    posterior = found.model.posterior_
    return found.result(
        inputs,
        method=posterior.method,
        notes=(*found.warned, *undirected(posterior.names, posterior.probabilities, found.model.threshold)),
        probabilities=posterior.probabilities,
        tables={"posterior": edge_table(posterior), "parents": parent_table(posterior)},
    )


class Discovered(NamedTuple):
    """A fitted learner of posteriors, how it was set, and what there is to say."""

    model: Any
    config: PosteriorConfig
    settings: dict[str, Any]
    notes: tuple[str, ...]
    warned: tuple[str, ...]

    def result(self, inputs: Inputs, *, method: str, notes: tuple[str, ...], **more: Any) -> Result:
        """What the study found. What "auto" chooses depends on the machine, so the choice is recorded."""
        config = dataclasses.replace(self.config, method=method)
        return result_of(self.model, inputs, config, self.settings, (*self.notes, *notes), **more)


def discovered(
    learner: Any, config: PosteriorConfig, settings: dict[str, Any], inputs: Inputs, *, discrete: bool
) -> Discovered:
    """Fit a learner of posteriors; where the columns are numbers and nothing is said, the score is bge."""
    config, notes = config.seeded(), inputs.notes
    if "score" not in config.settings and config.discretize is None and not discrete:
        settings = {**settings, "score": "bge"}
        notes = (*notes, "All columns are numbers: the score is bge. Cut them into levels with --discretize.")
    made = learner(
        method=config.method,
        discretize=config.discretize,
        knowledge=inputs.knowledge,
        random_state=config.seed,
        n_jobs=config.jobs if config.cluster is None else -1,
    )
    parameters = parameter_names(made)
    made.set_params(**{parameters[name]: value for name, value in settings.items()})
    with computing_on(config.cluster):
        model, warned = fitted(made, inputs)
    return Discovered(model, config, settings, notes, warned)


def listed(connections: Iterable[tuple[str, str, float]]) -> str:
    """Connections in words, the most probable first; of many, how many more there are.

    Examples
    --------
    >>> listed([("x", "y", 0.6), ("a", "b", 1.0)])
    'a – b (1.00), x – y (0.60)'
    """
    ordered = sorted(connections, key=lambda connection: -connection[2])
    words = ", ".join(f"{first} – {second} ({p:.2f})" for first, second, p in ordered[:TOLD])
    return f"{words} and {len(ordered) - TOLD} more" if len(ordered) > TOLD else words


def undirected(
    names: Sequence[str], P: NDArray[np.float64], threshold: float, where: str = ""
) -> tuple[str, ...]:
    """What is sure enough to be connected but in no direction, and so not in the graph; `where` is a task."""
    import numpy as np

    from polydag.posterior.probabilities import either_way

    either = either_way(P)
    found = np.triu((either > max(LIKELY, threshold)) & (np.maximum(P, P.T) <= threshold), 1)
    if not found.any():
        return ()
    words = listed((names[i], names[j], float(either[i, j])) for i, j in np.argwhere(found))
    return (f"Connected{where}, but the rows do not tell in which direction: {words}.",)


def edge_table(posterior: Posterior) -> pd.DataFrame:
    """Every ordered pair with its probability, the most probable first, and how well it is known."""
    import numpy as np
    import pandas as pd

    names = np.array(posterior.names)
    source, target = np.nonzero(~np.eye(len(names), dtype=bool))
    table = pd.DataFrame(
        {
            "source": names[source],
            "target": names[target],
            "probability": posterior.probabilities[source, target],
        }
    )
    if posterior.diagnostics is not None:
        table = table.merge(posterior.diagnostics, on=["source", "target"], how="left")
    return table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)


def parent_table(posterior: Posterior) -> pd.DataFrame:
    """The parent sets of every variable that are not very improbable."""
    import pandas as pd

    found = []
    for name in posterior.names:
        sets = posterior.parents(name)
        sets = sets[sets["probability"] >= LIKELY_SETS]
        found.append(
            pd.DataFrame(
                {
                    "variable": name,
                    "parents": [" ".join(parents) for parents in sets["parents"]],
                    "probability": sets["probability"].to_numpy(),
                }
            )
        )
    return pd.concat(found, ignore_index=True)
