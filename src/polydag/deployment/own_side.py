"""A site's side of a study that runs apart: what would answer in one process, made of the site's own table.

Most studies have one side. Where the side depends on sums of before (rows with missing values about common
means, ranks on a common grid), a question says by its number which side is to answer, and brings the answers
that the site does not have yet. They are kept in the site's state, and the learner is run again on the site's
own table up to that question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from polydag.deployment.description import Description
from polydag.deployment.learning import ANSWER, PROGRAM, SIDE, NeedsSumsError, learn
from polydag.deployment.packing import read_json, write_json
from polydag.deployment.specimens import tables_of
from polydag.errors import DataError
from polydag.federated.methods.statistics.counts import COUNTS
from polydag.federated.protocol.disclosure import Noise
from polydag.federated.protocol.messages import AnyArray, Arrays
from polydag.federated.protocol.programs import Ask, Local, State
from polydag.sources.interface import Mixed, Moments
from polydag.stats import GaussianStats, Regimes
from polydag.stats.mixed import indicators_of
from polydag.studies.plan import plan_of

if TYPE_CHECKING:
    from polydag.data import Table

_RUNNING = "running program"  # in the state, beside what the side itself keeps
_MOST = 100_000  # questions of one study
_GRIDS = "grids.json"


@dataclass(frozen=True)
class Grids:
    """The cells into which a site's numbers were divided, in all studies.

    Ranks and levels follow from counts in cells, which the coordinator says are those of all sites. A lying
    one could choose the cells: sums over the rows below 70.1 and over those below 70.2 show the row between
    them. A site therefore answers with few different grids.

    Parameters
    ----------
    home : Path
        The site's own folder.
    most : int
        How many different grids its owner allows.
    """

    home: Path
    most: int

    def require(self, counts: Iterable[Mapping[str, AnyArray]]) -> None:
        """Remember the grid that follows from these sums; a `DataError` where it is one too many.

        Cells are divided round after round: what continues a known grid is the same grid.
        """
        chain, file = [_digest([own]).hex() for own in counts], self.home / _GRIDS
        known: list[list[str]] = read_json(file) if file.is_file() else []
        same = next((own for own in known if all(a == b for a, b in zip(own, chain, strict=False))), None)
        if same is None and len(known) >= self.most:
            raise DataError(
                f"Its numbers were divided into cells in {len(known)} ways, and one more could single out "
                "rows together with them. Use the ranks or levels of an earlier study on the same data, or "
                "let the owner allow more (selections)."
            )
        if same is None or len(chain) > len(same):
            write_json(file, [*(own for own in known if own is not same), chain])


def own_side(description: Description, site: str, table: Table, grids: Grids | None = None) -> Local:
    """A site's side of a study; `grids` are remembered, where there are any."""
    config = description.config
    divides = config.discretize is not None or "rank" in config.transforms.values()
    side = OwnSide(description, site, table, grids if divides else None)
    return NoisyOwnSide(description, site, table) if hasattr(side.first, "noise") else side


@dataclass(frozen=True, eq=False)
class OwnSide:
    """Answers with the side that a question is for.

    Parameters
    ----------
    description : Description
        The final one.
    site : str
        This site.
    table : Table
        Its rows.
    grids : Grids, optional
        Those of earlier studies, where the study divides numbers into cells.
    """

    description: Description
    site: str
    table: Table
    grids: Grids | None = None
    _known: dict[tuple[int, bytes], Local] = field(default_factory=dict, repr=False)

    @cached_property
    def first(self) -> Local:
        """The side of the first question."""
        return self._side(0, ())

    @property
    def n_rows(self) -> float:
        """The number of rows."""
        return self.first.n_rows

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.first.names

    @cached_property
    def data(self) -> Any:
        """What tells one version of the data from another, whatever is asked first: moments or counts."""
        plan = plan_of(self.description.config)
        if plan.is_time_series:  # in which the order of rows matters
            return self.first.data
        source = tables_of(self.description, {}, {self.site: self.table})[self.site]
        labels = [name for name, kind in source.kinds.items() if kind == "discrete"]
        if source.lacks_values:
            return _of_gaps(source.gaps(source.levels(labels)))
        if set(labels) == set(source.names):
            return source.counts()
        return _moments(source.mixed(source.levels(labels))) if labels else source.moments()

    def fingerprint(self) -> bytes:
        """A hash of the data, as the first question finds them."""
        return self.first.fingerprint()

    def objection(self, state: State, ask: Ask) -> str | None:
        """Why a question cannot be answered as it arrived."""
        if why := self._misaddressed(state, ask):
            return why
        side, own, asked, _ = self._addressed(state, ask)
        return side.objection(own, asked)

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The contribution of the side that the question is for; answers that it brought are kept."""
        side, own, asked, answers = self._addressed(state, ask)
        before = [answers[k] for k in range(ask.meta.get(SIDE, 0))]
        if self.grids is not None and before:
            self.grids.require(takewhile(_is_of_counts, before))
        after, sent = side.answer(own, asked)
        kept = {f"{ANSWER}:{k}:{name}": array for k, held in answers.items() for name, array in held.items()}
        number = np.array(ask.meta.get(PROGRAM, 0), dtype=np.int64)
        return {**after, **kept, **({_RUNNING: number} if number else {})}, sent

    def notes(self, state: State, arrays: Arrays) -> list[str]:
        """What the first side notices in the sums that it learns of."""
        brought = _answers(arrays).get(0, {})
        plain = {name: array for name, array in arrays.items() if not name.startswith(f"{ANSWER}:")}
        return self.first.notes(state, brought or ({} if _RUNNING in state else plain))

    def _misaddressed(self, state: State, ask: Ask) -> str | None:
        program, side = (ask.meta.get(name, 0) for name in (PROGRAM, SIDE))
        if not all(type(number) is int and 0 <= number < _MOST for number in (program, side)):
            return "its number is no number"
        if side > program:
            return "it is for a later question's side"
        known = {**_answers(ask.arrays), **_answers(state)}
        return "an earlier sum is missing" if any(k not in known for k in range(side)) else None

    def _addressed(self, state: State, ask: Ask) -> tuple[Local, State, Ask, dict[int, dict[str, AnyArray]]]:
        """The side, its state, the question as the side knows it, and all answers that are known."""
        answers = {**_answers(ask.arrays), **_answers(state)}  # what was said before stays
        meta = {name: value for name, value in ask.meta.items() if name not in (PROGRAM, SIDE)}
        running = int(state.get(_RUNNING, np.array(0)))
        own = _plain(state) if running == ask.meta.get(PROGRAM, 0) else {}
        wanted = ask.meta.get(SIDE, 0)
        side = self._side(wanted, [answers[k] for k in range(wanted)])
        return side, own, replace(ask, meta=meta, arrays=_plain(ask.arrays)), answers

    def _side(self, number: int, answers: Iterable[Mapping[str, AnyArray]]) -> Local:
        held = list(answers)
        key = (number, _digest(held))
        if key not in self._known:
            found = learn(self.description, held, own={self.site: self.table})
            if not isinstance(found, NeedsSumsError):
                raise DataError("the study's learner asks no such question")
            while len(self._known) > 1:  # the first side stays
                del self._known[list(self._known)[-1]]
            self._known[key] = found.sides[self.site]
        return self._known[key]


class NoisyOwnSide(OwnSide):
    """A side that adds noise: studies with noise have one."""

    def noise(self, ask: Ask) -> Noise:
        """How much noise it will add."""
        first: Any = self.first
        found: Noise = first.noise(ask)
        return found


def _moments(found: Mixed) -> Moments:
    if not isinstance(found, Regimes):
        return found.moments
    return Regimes({indicators_of(targets, part.levels): part.moments for targets, part in found})


def _answers(arrays: Mapping[str, AnyArray]) -> dict[int, dict[str, AnyArray]]:
    """The answers in the arrays of a question or of a state, by their numbers."""
    found: dict[int, dict[str, AnyArray]] = {}
    for key, array in arrays.items():
        kind, _, rest = key.partition(":")
        number, _, name = rest.partition(":")
        if kind == ANSWER and number.isdigit():
            found.setdefault(int(number), {})[name] = array
    return found


def _is_of_counts(answer: Mapping[str, AnyArray]) -> bool:
    return all(name.startswith(COUNTS) for name in answer)


def _plain(arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The arrays of a question or of a state that the side knows."""
    return {
        name: array
        for name, array in arrays.items()
        if name != _RUNNING and not name.startswith(f"{ANSWER}:")
    }


def _digest(answers: Iterable[Mapping[str, AnyArray]]) -> bytes:
    digest = hashlib.sha256()
    for held in answers:
        for name in sorted(held):
            array = np.ascontiguousarray(held[name])
            digest.update(repr((name, array.shape)).encode() + array.tobytes())
    return digest.digest()


def _of_gaps(frame: pd.DataFrame) -> GaussianStats:
    """Moments of what is there, and of what is missing."""
    missing = frame.isna().astype(float).add_prefix("missing ")
    return GaussianStats.from_data(pd.concat([frame.fillna(0.0), missing], axis="columns"))
