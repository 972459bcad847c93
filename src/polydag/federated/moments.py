"""Section 4 of the paper: summed sufficient statistics, then any pooled learner.

The sum of the sites' statistics about a common centre is that of the pooled rows, so the answer is that of
pooling. One round of statistics, after one in which the centre is agreed on: sums of squares about it do not
lose digits where means are large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.federated.groups import centre_question, require_rows
from polydag.federated.messages import Arrays
from polydag.federated.programs import Answer, Ask, State, Total
from polydag.stats import GaussianStats, Regimes


@dataclass(frozen=True, eq=False)
class Moments:
    """The coordinator's side; its answer are the pooled statistics, which `statistics` reads."""

    names: tuple[str, ...]
    group: NDArray[np.int64]
    regimes: tuple[frozenset[str], ...] = (frozenset(),)

    @property
    def tolerates_absence(self) -> bool:
        """The two sums must be over the same sites."""
        return False

    def begin(self) -> tuple[State, Ask]:
        """Ask for numbers of rows and sums."""
        return {"phase": np.array("centre")}, centre_question(self.names, self.group)

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The centre, then the statistics."""
        if str(state["phase"]) == "centre":
            require_rows(self.names, self.group, total.arrays["rows"])
            centre = total.arrays["sums"] / np.maximum(total.arrays["rows"], 1.0)[:, None]
            regimes = [sorted(targets) for targets in self.regimes]
            state = {"phase": np.array("scatter"), "centre": centre}
            told = {"centre": centre, "log_scales": total.arrays["log_scales"]}
            return state, Ask("scatter", told, {"regimes": regimes}, returns=self._returned())
        stats = self._statistics(state["centre"][0], total.arrays)
        whole = list(stats.values())
        n = sum(part.n for part in whole)
        spread = np.sqrt(sum(part.scatter.diagonal() for part in whole) / n)
        arrays: dict[str, NDArray[np.float64]] = {"pooled_scale": spread}
        for targets, part in stats.items():
            label = ",".join(sorted(targets))
            arrays[f"rows[{label}]"] = np.array([part.n])
            arrays[f"mean[{label}]"] = part.mean
            arrays[f"scatter[{label}]"] = part.scatter
        return state, Answer(arrays)

    def _returned(self) -> dict[str, tuple[int, ...]]:
        d = len(self.names)
        shapes = {"rows": (1,), "offsets": (d,), "scatter": (d, d)}
        labels = [",".join(sorted(targets)) for targets in self.regimes]
        return {f"{name}[{label}]": shape for label in labels for name, shape in shapes.items()}

    def _statistics(self, centre: NDArray[np.float64], arrays: Arrays) -> dict[frozenset[str], GaussianStats]:
        parts = {}
        for targets in self.regimes:
            label = ",".join(sorted(targets))
            n = float(arrays[f"rows[{label}]"][0])
            if n > 0:
                off = arrays[f"offsets[{label}]"] / n
                scatter = arrays[f"scatter[{label}]"] - n * np.outer(off, off)
                parts[targets] = GaussianStats(n, centre + off, scatter, self.names, n)
        if not parts:
            raise DataError("No site has any rows.")
        return parts

    def statistics(self, result: Arrays) -> GaussianStats | Regimes[GaussianStats]:
        """The pooled statistics of an answer."""
        parts = {}
        for targets in self.regimes:
            label = ",".join(sorted(targets))
            if f"rows[{label}]" in result:
                n = float(result[f"rows[{label}]"][0])
                mean, scatter = result[f"mean[{label}]"], result[f"scatter[{label}]"]
                parts[targets] = GaussianStats(n, mean, scatter, self.names, n)
        if list(parts) == [frozenset()]:
            return parts[frozenset()]
        return Regimes(parts)
