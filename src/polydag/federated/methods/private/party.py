"""A party's side under differential privacy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.federated.models.linear_party import require_columns
from polydag.federated.party_data.tables import require_numbers, rows_of
from polydag.federated.protocol.checks import Task, question_problem
from polydag.federated.protocol.disclosure import Noise
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, State
from polydag.privacy.dp import clipping
from polydag.privacy.dp.noise import NoiseShare, add_noise_share
from polydag.privacy.dp.whitening import Whitening, moment_sensitivity

if TYPE_CHECKING:
    import pandas as pd

BOUNDS, WHITENING = "private bounds", "private whitening"
MOMENTS, GRADIENT = "private moments", "private gradient"


def private_party(table: Any) -> PrivateParty:
    """A party's side; it needs rows, since the effect of each row is bounded."""
    require_numbers(table)
    frame = rows_of(table, "Differential privacy bounds the effect of each row, so it needs the")
    return PrivateParty(frame.to_numpy(dtype=float), tuple(map(str, frame.columns)))


@dataclass(frozen=True, eq=False)
class PrivateParty:
    """Answers under noise only; `honest` in a question is set by its own protection, not the coordinator."""

    rows: Array
    names: tuple[str, ...]

    @property
    def n_rows(self) -> float:
        """The number of rows."""
        return float(len(self.rows))

    @property
    def data(self) -> pd.DataFrame:
        """The rows."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(self.names))

    def fingerprint(self) -> bytes:
        """A hash of the rows."""
        return hashlib.sha256(repr(self.names).encode() + self.rows.tobytes()).digest()

    def notes(self, state: State, arrays: Arrays) -> list[str]:
        """None: columns have bounds, so units are not compared."""
        return []

    def noise(self, ask: Ask) -> Noise:
        """The noise that will be added to the answer."""
        share, size = self._share(ask)
        return Noise(share.deviation(size), share.multiplier)

    def _share(self, ask: Ask) -> tuple[NoiseShare, int]:
        d = len(self.names)
        moments = moment_sensitivity(float(ask.meta.get("radius", 0.0)))
        sensitivity, size = {
            BOUNDS: (clipping.histogram_sensitivity(d), d * (len(clipping.EDGES) - 1)),
            WHITENING: (moments, 1 + d + d * (d + 1) // 2),
            MOMENTS: (moments, 1 + d + d * (d + 1) // 2),
            GRADIENT: (float(ask.meta.get("max_norm", 0.0)), d * d),
        }.get(ask.task, (0.0, 0))
        if not size:
            raise _not_answered(ask)
        return NoiseShare(float(ask.meta["multiplier"]), sensitivity, int(ask.meta["honest"])), size

    def objection(self, state: State, ask: Ask) -> str | None:
        """What is missing in a question or wrong with it; raises where it must not be answered at all."""
        whitening, meta = {"centre": "d", "transform": "dd"}, ("multiplier", "columns", "radius")
        tasks = {
            BOUNDS: Task(self.answer, {}, meta[:2]),
            WHITENING: Task(self.answer, whitening, meta),
            MOMENTS: Task(self.answer, whitening, meta),
            GRADIENT: Task(self.answer, {**whitening, "residual": "dd"}, (*meta, "max_norm")),
        }
        if ask.task not in tasks:
            raise _not_answered(ask)
        require_columns(ask, self.names)
        return question_problem(tasks[ask.task], state, ask, {"d": len(self.names)})

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """A clipped sum over rows, with this party's share of the noise."""
        share, _ = self._share(ask)
        if ask.task == BOUNDS:
            return state, {"counts": add_noise_share(clipping.histogram(self.rows), share)}
        whitening = Whitening(ask.arrays["centre"], ask.arrays["transform"], float(ask.meta["radius"]))
        if ask.task == GRADIENT:
            residual, rows = ask.arrays["residual"], whitening.apply(self.rows)
            found = clipping.clipped_gradient(rows, residual, share.sensitivity)
            return state, {"gradient": add_noise_share(found, share)}
        return state, {"moments": add_noise_share(whitening.moment_vector(self.rows), share)}


def _not_answered(ask: Ask) -> DataError:
    return DataError(f"Under differential privacy it does not answer {ask.task!r}.")
