"""A learner over sites that are elsewhere, as one program of the protocol.

The learner runs as it does over parties in one process, on specimens that only have the right columns.
Whenever it needs sums, it gets the stored ones; where there are none yet, it stops, and its question becomes
the program's next question. When the sums are there, it runs again from the beginning: it is deterministic,
so it asks the same questions up to there.

A site finds its own side of the study in the same way: it runs the learner on its own table up to the
question at hand, and keeps the side that would answer it. Where that depends on earlier sums, these travel
with the question; see `own_side`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from polydag import studies
from polydag.deployment.description import Description
from polydag.deployment.specimens import Rows, regimes_of, rows_of, tables_of
from polydag.errors import DataError, DataWarning
from polydag.federated.methods.statistics.counts import CountsParty, CountsProgram
from polydag.federated.protocol.disclosure import Disclosed
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, Local, Program, State, Total
from polydag.federated.protocol.site_protection import rows_of_parts
from polydag.federated.session import LARGEST_DEFAULT_QUORUM, Outcome, one_after_the_other, running_elsewhere
from polydag.privacy.masking.agreement import Agreement
from polydag.stats import DiscreteCounts, Regimes
from polydag.studies.data.inputs import Inputs
from polydag.studies.plan import plan_of

if TYPE_CHECKING:
    from polydag.data import Table
    from polydag.studies.result import Result

PROGRAM, SIDE, ANSWER = "program", "side", "answer"  # what a question says besides that of the learner
ROWS = "rows"  # a column with one label, whose counts are the number of rows
_CURRENT, _ROUNDS = "current:", "rounds of each"


class NeedsSumsError(BaseException):
    """The learner asks for sums that are not there yet; nothing on the way may take it for an error.

    `sides` are the parties' sides; `keys` tell those of all questions apart, up to this one.
    """

    def __init__(self, program: Program, sides: Mapping[str, Local], keys: Sequence[bytes]) -> None:
        super().__init__("sums are needed")
        self.program, self.sides, self.keys = program, sides, tuple(keys)

    @property
    def side(self) -> int:
        """The number of the first question to which the same sides answer."""
        return self.keys.index(self.keys[-1])

    @property
    def known(self) -> int:
        """The number of answers that earlier questions have brought to the sites."""
        return max((self.keys.index(key) for key in self.keys[:-1]), default=0)


@dataclass(frozen=True, eq=False)
class LearnerProgram:
    """The coordinator's side of a whole study: one question after another until the learner is finished."""

    description: Description
    _found: dict[int, NeedsSumsError | None] = field(default_factory=dict, repr=False)

    @property
    def tolerates_absence(self) -> bool:
        """As the method's first program says."""
        return self._needed(()).program.tolerates_absence

    def begin(self) -> tuple[State, Ask]:
        """The learner's first question."""
        state, ask = self._needed(()).program.begin()
        return self._packed((), [1], state), ask

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The current program's next question, or the next program's first one."""
        answers, rounds = answers_of(state)
        needed = self._needed(answers)
        own = {name[len(_CURRENT) :]: array for name, array in state.items() if name.startswith(_CURRENT)}
        current, more = needed.program.advance(own, total)
        if isinstance(more, Ask):
            asked = _addressed(more, needed, ())
            return self._packed(answers, [*rounds[:-1], rounds[-1] + 1], current), asked
        answers = (*answers, dict(more.arrays))
        following = self._following(answers)
        if following is None:
            return self._packed(answers, rounds, {}), more
        current, ask = following.program.begin()
        return self._packed(answers, [*rounds, 1], current), _addressed(ask, following, answers)

    @property
    def agreement(self) -> Agreement:
        """What the sites of a masked study agree on, but for its name: it follows from the description."""
        sites, privacy = self.description.sites, plan_of(self.description.config).privacy
        assert privacy is not None
        parts: dict[str, tuple[str, ...]] = {}
        for site, side in self._needed(()).sides.items():
            for part in rows_of_parts(side):
                parts[part] = (*parts.get(part, ()), site)
        found = Agreement.default(
            "", sites, recover=self.tolerates_absence, quorum=privacy.quorum, parts=parts
        )
        if privacy.quorum is None and not found.recover:
            return dataclasses.replace(found, quorum=min(found.quorum, LARGEST_DEFAULT_QUORUM))
        return found

    def _packed(self, answers: Sequence[Arrays], rounds: list[int], current: State) -> State:
        stored = {f"{k}:{name}": np.asarray(a) for k, own in enumerate(answers) for name, a in own.items()}
        running = {f"{_CURRENT}{name}": np.asarray(array) for name, array in current.items()}
        return {**stored, **running, _ROUNDS: np.array(rounds)}

    def _needed(self, answers: Sequence[Arrays]) -> NeedsSumsError:
        found = self._following(answers)
        assert found is not None
        return found

    def _following(self, answers: Sequence[Arrays]) -> NeedsSumsError | None:
        """The sums that are needed after these answers; None where the learner is finished."""
        if len(answers) not in self._found:
            found = learn(self.description, answers, [])
            self._found[len(answers)] = found if isinstance(found, NeedsSumsError) else None
        return self._found[len(answers)]


def _addressed(ask: Ask, needed: NeedsSumsError, answers: Sequence[Arrays]) -> Ask:
    """A question with its program's number, and with the answers that the sites need to find their sides."""
    words = {PROGRAM: len(needed.keys) - 1, SIDE: needed.side}
    if words[PROGRAM] == 0:
        return ask
    brought = {
        f"{ANSWER}:{k}:{name}": np.asarray(array)
        for k in range(needed.known, needed.side)
        for name, array in (answers[k].items() if answers else ())
    }
    return dataclasses.replace(ask, meta={**ask.meta, **words}, arrays={**ask.arrays, **brought})


def answers_of(state: State) -> tuple[tuple[dict[str, Any], ...], list[int]]:
    """The finished answers in a program's state, and the number of rounds of each and of the current one."""
    found: dict[int, dict[str, Any]] = {}
    for key, array in state.items():
        number, _, name = key.partition(":")
        if number.isdigit():
            found.setdefault(int(number), {})[name] = array
    return tuple(found[k] for k in sorted(found)), [int(n) for n in state[_ROUNDS]]


def learn(
    description: Description,
    answers: Sequence[Arrays],
    outcomes: Sequence[Outcome] = (),
    own: Mapping[str, Table] | None = None,
) -> Result | NeedsSumsError:
    """Run the learner with stored answers.

    Parameters
    ----------
    answers : sequence of mappings
        The sums of the questions so far; the learner stops where it asks for more.
    outcomes : sequence of Outcome
        What left the sites for each of them.
    own : mapping of site to Table, optional
        Tables that are here; specimens take the place of all others.
    """
    rows, first, keys = dict[frozenset[str], float](), 0, list[bytes]()
    if needs_rows(description):
        program = rows_program(description)
        keys.append(b"")
        if not answers:
            tables = tables_of(description, {}, own)
            sides = {site: _row_counts(program.names, rows_of(table)) for site, table in tables.items()}
            return NeedsSumsError(program, sides, keys)
        counted = program.tables(answers[0])
        rows, first = {targets: float(found[0]) for targets, found in counted.items()}, 1
        outcomes = _with_rows(outcomes)
    left = iter(range(first, len(answers)))

    def answer(program: Program, sides: Mapping[str, Local]) -> Outcome:
        keys.append(_key(sides))
        k = next(left, None)
        if k is None:
            raise NeedsSumsError(program, sides, keys)
        if outcomes:
            return dataclasses.replace(outcomes[k], result=answers[k])
        return Outcome(answers[k], pd.DataFrame(columns=list(Disclosed._fields)), "", {}, 1)

    return _run(description, tables_of(description, rows, own), answer)


def _run(description: Description, tables: Mapping[str, Any], answer: Any) -> Result | NeedsSumsError:
    inputs = Inputs(tables, "", description.known, {})
    with warnings.catch_warnings(), running_elsewhere(answer):
        warnings.simplefilter("ignore", DataWarning)
        try:
            return studies.run(description.config, inputs)
        except NeedsSumsError as stopped:
            return stopped


def _key(sides: Mapping[str, Local]) -> bytes:
    """What tells the sides that answer one question from those that answer another."""
    digest = hashlib.sha256()
    for site, side in sides.items():
        digest.update(repr((site, type(side).__qualname__)).encode() + side.fingerprint())
    return digest.digest()


def needs_rows(description: Description) -> bool:
    """Whether the learner has to know the number of rows before it begins, as learners of counts do."""
    plan = plan_of(description.config)
    criterion, test = plan.settings.get("criterion"), plan.settings.get("test")
    kinds = {column.kind for column in description.columns.values()}
    cut = description.config.discretize is not None
    labels = plan.method.labels and (cut or kinds == {"discrete"}) and "dg" not in (criterion, test)
    cells = "cg" in (criterion, test) and "discrete" in kinds
    if (labels or cells) and plan.privacy is not None and plan.privacy.epsilon is not None:
        raise DataError("Differential privacy works with moments of numbers; this study counts labels.")
    return labels or cells


def rows_program(description: Description) -> CountsProgram:
    """The question of how many rows there are, for each set of variables that were set."""
    names = tuple(description.columns)
    regimes = {targets for site in description.sites for targets in regimes_of(description, site)}
    return CountsProgram(names, ((0,),) * len(names), ((),), tuple(sorted(regimes, key=sorted)))


def _row_counts(names: tuple[str, ...], rows: Rows) -> CountsParty:
    """A party's side of that question: rows in which all columns are alike."""
    levels, alike = ((0,),) * len(names), np.zeros((1, len(names)), dtype=np.int32)
    counts = {targets: DiscreteCounts(names, levels, alike, np.array([n])) for targets, n in rows.items()}
    return CountsParty(counts[frozenset()] if set(counts) == {frozenset()} else Regimes(counts))


def _with_rows(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    """What left the sites, where the number of rows was asked for before the learner's first question."""
    if len(outcomes) < 2:
        return outcomes
    rows, first, *others = outcomes
    both, rounds = one_after_the_other([rows.disclosure, first.disclosure]), rows.n_rounds + first.n_rounds
    return [rows, dataclasses.replace(first, disclosure=both, n_rounds=rounds), *others]
