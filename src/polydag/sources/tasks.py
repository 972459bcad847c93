"""Tasks: related populations, each a source of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from polydag.data.table import Kind
from polydag.sources.adapt import named_sources
from polydag.sources.columns.agreement import agreed_fixed_kinds, agreed_kinds
from polydag.sources.interface import Contents, Source, contents_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


class Tasks(Mapping[str, Source]):
    """Related populations: one source for each task, for learners that share information between tasks.

    Parameters
    ----------
    tasks : mapping of name to source or table, or iterable of them
        One source per task. Without names they are task 1, task 2, …

    Examples
    --------
    >>> import pandas as pd
    >>> from polydag import Tasks
    >>> controls, patients = pd.DataFrame({"x": [1.0, 2.0]}), pd.DataFrame({"x": [2.0, 4.0]})
    >>> groups = Tasks({"controls": controls, "patients": patients})
    >>> [(name, source.n) for name, source in groups.items()]
    [('controls', 2.0), ('patients', 2.0)]
    """

    def __init__(self, tasks: Mapping[str, Any] | Iterable[Any]) -> None:
        self._sources = named_sources(
            tasks, "task", "tasks", "Put it into a list, or use BayesianDiscovery for one table."
        )

    def __getitem__(self, name: str) -> Source:
        return self._sources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def resampled(self, rng: np.random.Generator) -> Self:
        """Every task resampled on its own."""
        return type(self)({name: source.resampled(rng) for name, source in self.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of all tasks, those of the first task first."""
        return tuple(dict.fromkeys(name for source in self.values() for name in source.names))

    @cached_property
    def unknown_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of variables that no task has both of."""
        own = [set(source.names) for source in self.values()]
        pairs = itertools.combinations(self.names, 2)
        return tuple(pair for pair in pairs if not any(names.issuperset(pair) for names in own))

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of the columns, the same in all tasks."""
        return agreed_kinds(self, self.names, by_all_rows=True)

    @cached_property
    def fixed_kinds(self) -> Mapping[str, Kind]:
        """The kinds that leave no choice in some task."""
        return agreed_fixed_kinds(self)

    @property
    def contents(self) -> Contents:
        """What the columns hold; test-wise, labels with gaps are scored by moments, as mixed columns are."""
        found = contents_of(self.kinds)
        by_moments = found == "labels" and any(source.contents == "mixed" for source in self.values())
        return "mixed" if by_moments else found

    @property
    def n(self) -> float:
        """The number of rows of all tasks."""
        return sum(source.n for source in self.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """The tasks' notes, each after its task's name."""
        return tuple(f"{name}: {note}" for name, source in self.items() for note in source.notes)

    @property
    def protection_(self) -> str:
        """What was protected from whom, where tasks have parties."""
        return " ".join(dict.fromkeys(s.protection_ for s in self.values() if s.protection_))

    @property
    def disclosure_(self) -> pd.DataFrame:
        """What left the parties of all tasks."""
        import pandas as pd

        parts = [source.disclosure_ for source in self.values()]
        filled = [part for part in parts if len(part)]
        return pd.concat(filled, ignore_index=True) if filled else parts[0]
