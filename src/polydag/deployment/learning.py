"""A learner over sites that are elsewhere, as one program of the protocol.

The learner runs as it does over parties in one process, on tables that only have the right columns. Whenever
it needs sums, it gets the stored ones; where there are none yet, it stops, and its question becomes the
program's next question. When the sums are there, it runs again from the beginning: it is deterministic, so it
asks the same questions up to there. A site finds its own side of the study in the same way: it runs the
learner on its own table up to the first question, and keeps the side that would answer it.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from polydag import data, studies
from polydag.deployment.description import Description
from polydag.errors import DataError, DataWarning
from polydag.federated.methods.statistics.counts import COUNTS, CountsProgram
from polydag.federated.protocol.disclosure import Disclosed
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, Local, Program, State, Total
from polydag.federated.session import Outcome, running_elsewhere
from polydag.sources import InMemory
from polydag.studies.data.inputs import Inputs
from polydag.studies.plan import plan_of

if TYPE_CHECKING:
    from polydag.data import Table
    from polydag.studies.result import Result

_CURRENT, _ROUNDS = "current:", "rounds of each"


class _NeedsSumsError(BaseException):
    """The learner asks for sums that are not there yet; nothing on the way may take it for an error."""

    def __init__(self, program: Program, sides: Mapping[str, Local]) -> None:
        super().__init__("sums are needed")
        self.program, self.sides = program, sides


class _Elsewhere(InMemory):
    """A table with the right columns and labels in place of a site's own; only the number of rows counts."""

    n_rows: float = 0.0

    @property
    def n(self) -> float:
        """The number of rows of all sites, at the first of them."""
        return self.n_rows

    def counts(self) -> Any:
        """Counts with the labels of the study, which add up to the number of rows."""
        own = super().counts()
        return dataclasses.replace(own, counts=own.counts * (self.n_rows / own.n))


def typed_levels(levels: Sequence[str]) -> tuple[Any, ...]:
    """Labels as tables hold them: whole numbers where all of them are."""
    whole = all(level.lstrip("-").isdigit() and str(int(level)) == level for level in levels)
    return tuple(sorted(map(int, levels))) if whole else tuple(sorted(levels))


def specimen(description: Description) -> Table:
    """A small table with the columns of the study, in which every label occurs."""
    most = max([4, *(len(column.levels) for column in description.columns.values())])
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for name, column in description.columns.items():
        if column.kind == "discrete":
            levels = typed_levels(column.levels)
            columns[name] = [levels[row % len(levels)] for row in range(most)]
        else:
            columns[name] = rng.standard_normal(most)
    return data.from_frame(pd.DataFrame(columns), kinds=kinds_of(description), source="the study")


def kinds_of(description: Description) -> Any:
    """The kind of each column."""
    return {name: column.kind for name, column in description.columns.items()}


def own_side(description: Description, site: str, table: Table) -> Local:
    """A site's side of a study: what would answer in one process, made of its own table."""
    tables: dict[str, Any] = dict.fromkeys(description.sites, specimen(description))
    tables[site] = table
    stopped = _run(description, tables, _stop)
    assert isinstance(stopped, _NeedsSumsError)
    return stopped.sides[site]


def _stop(program: Program, sides: Mapping[str, Local]) -> Outcome:
    raise _NeedsSumsError(program, sides)


def _run(description: Description, tables: Mapping[str, Any], answer: Any) -> Result | _NeedsSumsError:
    inputs = Inputs(tables, "", None, {})
    with warnings.catch_warnings(), running_elsewhere(answer):
        warnings.simplefilter("ignore", DataWarning)
        try:
            return studies.run(description.config, inputs)
        except _NeedsSumsError as stopped:
            return stopped


@dataclass(frozen=True, eq=False)
class LearnerProgram:
    """The coordinator's side of a whole study: one question after another until the learner is finished."""

    description: Description
    _found: dict[int, Program | None] = field(default_factory=dict, repr=False)

    @property
    def tolerates_absence(self) -> bool:
        """As the method's first program says."""
        first = self._program(())
        assert first is not None
        return first.tolerates_absence

    def begin(self) -> tuple[State, Ask]:
        """The learner's first question."""
        program = self._program(())
        assert program is not None
        state, ask = program.begin()
        return self._packed((), [1], state), ask

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The current program's next question, or the next program's first one."""
        answers, rounds = answers_of(state)
        program = self._program(answers)
        assert program is not None
        own = {name[len(_CURRENT) :]: array for name, array in state.items() if name.startswith(_CURRENT)}
        current, more = program.advance(own, total)
        if isinstance(more, Ask):
            return self._packed(answers, [*rounds[:-1], rounds[-1] + 1], current), more
        answers = (*answers, dict(more.arrays))
        following = self._program(answers)
        if following is None:
            return self._packed(answers, rounds, {}), more
        current, ask = following.begin()
        return self._packed(answers, [*rounds, 1], current), ask

    def _packed(self, answers: Sequence[Arrays], rounds: list[int], current: State) -> State:
        stored = {f"{k}:{name}": np.asarray(a) for k, own in enumerate(answers) for name, a in own.items()}
        running = {f"{_CURRENT}{name}": np.asarray(array) for name, array in current.items()}
        return {**stored, **running, _ROUNDS: np.array(rounds)}

    def _program(self, answers: Sequence[Arrays]) -> Program | None:
        """The program whose sums are needed after these answers; None where the learner is finished."""
        if len(answers) not in self._found:
            found = learn(self.description, answers, [])
            self._found[len(answers)] = found.program if isinstance(found, _NeedsSumsError) else None
        return self._found[len(answers)]


def answers_of(state: State) -> tuple[tuple[dict[str, Any], ...], list[int]]:
    """The finished answers in a program's state, and the number of rounds of each and of the current one."""
    found: dict[int, dict[str, Any]] = {}
    for key, array in state.items():
        number, _, name = key.partition(":")
        if number.isdigit():
            found.setdefault(int(number), {})[name] = array
    return tuple(found[k] for k in sorted(found)), [int(n) for n in state[_ROUNDS]]


def learn(
    description: Description, answers: Sequence[Arrays], outcomes: Sequence[Outcome]
) -> Result | _NeedsSumsError:
    """Run the learner with stored answers; `outcomes` say what left the sites for each of them."""
    table, n = specimen(description), 0.0
    first = 0
    if _of_labels(description):  # a learner of labels needs the number of rows before it begins
        levels = tuple(typed_levels(column.levels) for column in description.columns.values())
        program = CountsProgram(tuple(description.columns), levels, ((0,),))
        if not answers:
            side = own_side(description, description.sites[0], table)
            return _NeedsSumsError(program, {description.sites[0]: side})
        n, first = float(answers[0][COUNTS].sum()), 1
    left = iter(range(first, len(answers)))

    def answer(program: Program, sides: Mapping[str, Local]) -> Outcome:
        k = next(left, None)
        if k is None:
            raise _NeedsSumsError(program, sides)
        if outcomes:
            return dataclasses.replace(outcomes[k], result=answers[k])
        return Outcome(answers[k], pd.DataFrame(columns=list(Disclosed._fields)), "", {}, 1)

    tables = {site: _Elsewhere(table) for site in description.sites}
    tables[description.sites[0]].n_rows = n
    return _run(description, tables, answer)


def _of_labels(description: Description) -> bool:
    plan = plan_of(description.config)
    if not plan.method.labels or any(column.kind != "discrete" for column in description.columns.values()):
        return False
    if plan.settings.get("criterion", "") == "dg" or plan.settings.get("test", "") == "dg":
        return False
    if plan.privacy is not None and plan.privacy.epsilon is not None:
        raise DataError("Differential privacy goes with numbers; this study has labels.")
    return True
