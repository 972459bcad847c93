"""Posterior probabilities of edges and parent sets, as tables and in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from polydag.studies.findings.interface import Findings

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from polydag.posterior.probabilities import Posterior

LIKELY = 0.5  # connections above this probability are listed in words
_LISTED = 5  # connections in a sentence
_LIKELY_SETS = 0.001  # parent sets below this probability are not written down


def findings(model: Any, source: Any) -> Findings:
    """Of a learner with one posterior; what "auto" chose is recorded, since it depends on the machine."""
    if not hasattr(model, "posterior_"):
        return Findings()
    found: Posterior = model.posterior_
    return Findings(
        notes=undirected(found.names, found.probabilities, model.threshold),
        settings={"method": found.method},
        confidence=found.confidence,
        tables={"posterior": edge_table(found), "parents": parent_table(found)},
    )


def listed(connections: Iterable[tuple[str, str, float]]) -> str:
    """Connections in words, the most probable first; of many, how many more there are.

    Examples
    --------
    >>> listed([("x", "y", 0.6), ("a", "b", 1.0)])
    'a – b (1.00), x – y (0.60)'
    """
    ordered = sorted(connections, key=lambda connection: -connection[2])
    words = ", ".join(f"{first} – {second} ({p:.2f})" for first, second, p in ordered[:_LISTED])
    return f"{words} and {len(ordered) - _LISTED} more" if len(ordered) > _LISTED else words


def undirected(
    names: Sequence[str], P: NDArray[np.float64], threshold: float, where: str = ""
) -> tuple[str, ...]:
    """Probable connections that have no probable direction and so are not in the graph; `where` is a task."""
    import numpy as np

    from polydag.posterior.probabilities import either_way

    either = either_way(P)
    found = np.triu((either > max(LIKELY, threshold)) & (np.maximum(P, P.T) <= threshold), 1)
    if not found.any():
        return ()
    words = listed((names[i], names[j], float(either[i, j])) for i, j in np.argwhere(found))
    return (f"Connected{where}, but the rows do not determine the direction: {words}.",)


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
        sets = sets[sets["probability"] >= _LIKELY_SETS]
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
