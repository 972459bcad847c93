"""Parties that keep their rows, as a source: only sums of their statistics are seen."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from operator import add
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polydag.data.table import Kind
from polydag.errors import DataError, DataWarning, UsageError
from polydag.federated.each_party import for_each_party
from polydag.federated.methods.counts import COUNTS, summed_counts
from polydag.federated.methods.moments import summed_moments
from polydag.federated.methods.private.moments import summed_private_moments
from polydag.federated.party_data.site_comparison import Comparison
from polydag.federated.party_data.site_effects import NOT_FOR_LABELS, NOT_UNDER_NOISE, SITE_EFFECTS
from polydag.federated.session import Outcome, one_after_the_other
from polydag.parameters import check, one_of, whole
from polydag.privacy.settings import Privacy
from polydag.sources.adapt import named_sources
from polydag.sources.columns.agreement import agreed_fixed_kinds, agreed_kinds, united_levels
from polydag.sources.gaps import INCOMPLETE, gaps_by_party, gaps_note, summed_gaps
from polydag.sources.interface import Contents, Mixed, Moments, Source
from polydag.sources.tasks import Tasks
from polydag.stats import DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.incomplete import How
from polydag.stats.mixed import Levels, indicator_names, with_indicators


class Parties(Source):
    """Organisations with the same columns that do not share their rows.

    A learner gets the sums of the parties' statistics, which give the answer of pooling rows that were
    centred within parties. By default sums are formed under masks: nobody sees the statistics of a single
    party. Moments take one round. Counts of labels are asked for as a learner needs them, a batch of column
    sets in each round.

    Parameters
    ----------
    parties : mapping of name to source or table, or sequence of them
        The rows of each party: a table, statistics, `LinkedRows`, or any other source. Without names they are
        party 1, party 2, … Columns are matched by name.
    privacy : Privacy
        How the sums are protected.
    min_rows : int
        A party with fewer rows does not take part, and the study stops.
    site_effects : {"means", "none", "means and scales", "random"}
        How parties may differ without making edges. By default in their means: rows are centred within each
        party, which costs one row for each party but the first. Where a test finds that overall spreads
        differ, each party's rows are also divided by its own, so that none outweighs the others. With "means
        and scales" every column is scaled within each party, too. "random" gives each party a random
        intercept for every column, with one ratio of variances for all columns; it takes a second round and
        costs fewer rows where parties are small. "none" pools rows as they are. For labels nothing is
        centred.

    Attributes
    ----------
    disclosure_ : DataFrame
        site, round, name, shape, bytes, masked, noise: every array that has left a party so far. The name of
        counts says which column sets were asked for.
    protection_ : str
        What was protected from whom.

    Notes
    -----
    The levels of labels are compared in the open before counts are summed, since every table needs the same
    axes; which labels occur at a party is seen, how often is not.

    References
    ----------
    Ng, I. and Zhang, K. (2022). Towards federated Bayesian network structure learning with continuous
    optimization. (Section 4.)

    Examples
    --------
    >>> from polydag import BOSS, Parties, metrics, simulate
    >>> dag = simulate.dag(6, n_edges=6, random_state=1)
    >>> X = simulate.linear(dag, n=300, random_state=1)
    >>> hospitals = Parties({"north": X[:100], "south": X[100:200], "west": X[200:]})
    >>> metrics.shd(true=BOSS().fit(X).graph_, estimate=BOSS().fit(hospitals).graph_)
    0
    """

    def __init__(
        self,
        parties: Mapping[str, Any] | Sequence[Any] | Iterator[Any],
        *,
        privacy: Privacy = Privacy(),  # frozen
        min_rows: int = 1,
        site_effects: str = "means",
    ) -> None:
        check("min_rows", min_rows, whole(least=0))
        check("site_effects", site_effects, one_of(*SITE_EFFECTS))
        if not isinstance(privacy, Privacy):
            raise UsageError(f"privacy must be a polydag.Privacy; got {privacy!r}.")
        self.parties = named_sources(
            parties, "party", "parties", "For one table use a learner itself, such as BOSS or Notears."
        )
        self.privacy = privacy
        self.min_rows = min_rows
        self.site_effects = site_effects
        self._outcomes: list[Outcome] = []
        self._site_notes: tuple[str, ...] = ()  # how the parties compare, and what was done about it
        self._mixed: MixedStats | None = None
        self._mixed_notes: tuple[str, ...] = ()
        self.gaps_notes: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """Parties."""
        return "a source of parties that keep their rows"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that most parties have, in their order; of all parties where gaps are allowed."""
        each = {party: source.names for party, source in self.parties.items()}
        if self._gaps_allowed:
            return tuple(dict.fromkeys(name for own in each.values() for name in own))
        names = Counter(each.values()).most_common(1)[0][0]
        for party, own in each.items():
            if set(own) != set(names):
                raise DataError(_column_difference(party, names, own))
        return names

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of the columns, which the parties agree on without their rows."""
        return agreed_kinds(self.parties, self.names)

    @cached_property
    def fixed_kinds(self) -> Mapping[str, Kind]:
        """The kinds that leave no choice at some party."""
        return agreed_fixed_kinds(self.parties)

    @property
    def n(self) -> float:
        """The number of rows of all parties."""
        return float(sum(source.n for source in self.parties.values()))

    @property
    def effective_n(self) -> float:
        """The sum of the parties' effective numbers of rows."""
        return float(sum(source.effective_n for source in self.parties.values()))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the parties noticed, each after its name."""
        own = [f"{party}: {note}" for party, source in self.parties.items() for note in source.notes]
        seen = [
            f"{party}: {note}"
            for outcome in self._outcomes
            for party, notes in outcome.notes.items()
            for note in notes
        ]
        found = [*own, *seen, *self._site_notes, *self._mixed_notes, *self.gaps_notes]
        return tuple(dict.fromkeys(found))

    @property
    def disclosure_(self) -> pd.DataFrame:
        """Every array that has left a party so far."""
        if not self._outcomes:
            return super().disclosure_
        return one_after_the_other([outcome.disclosure for outcome in self._outcomes])

    @property
    def protection_(self) -> str:
        """What was protected from whom."""
        return self._outcomes[-1].protection if self._outcomes else ""

    def moments(self) -> Moments:
        """The sum of the parties' moments, in one round; asked for once."""
        return self._moments

    @cached_property
    def _moments(self) -> Moments:
        if self.has_gaps:
            return self._incomplete({})
        found: Moments
        if self.privacy.epsilon is not None:
            rows = for_each_party(self.parties, lambda source: source.rows()[list(self.names)])
            found, outcome = summed_private_moments(rows, self.privacy, min_rows=self.min_rows)
        else:
            own = for_each_party(self.parties, lambda source: aligned(source.moments(), self.names))
            found, outcome = summed_moments(
                own, self.privacy, min_rows=self.min_rows, site_effects=self.site_effects
            )
        self._outcomes.append(outcome)
        if self.privacy.epsilon is None:
            self._site_notes += tuple(Comparison.of(self.names, outcome.result).notes(self.site_effects))
        elif self.site_effects != "none":
            self._site_notes += (NOT_UNDER_NOISE,)
        return found

    @cached_property
    def _gaps_allowed(self) -> str:
        """How all parties handle missing values, where that gives moments in spite of them; else empty."""
        ways = {getattr(source, "missing", "error") for source in self.parties.values()}
        return ways.pop() if len(ways) == 1 and ways <= set(INCOMPLETE) else ""

    @cached_property
    def has_gaps(self) -> bool:
        """Whether values or whole columns are missing, and moments are to be had in spite of that."""
        sources: Any = self.parties.values()
        return bool(self._gaps_allowed) and any(
            source.has_gaps or set(source.names) != set(self.names) for source in sources
        )

    @property
    def contents(self) -> Contents:
        """What the columns hold; labels with gaps are scored by moments, as mixed columns are."""
        found = super().contents
        return "mixed" if found == "labels" and self.has_gaps else found

    def _incomplete(self, levels: Levels) -> GaussianStats:
        """Moments of rows with gaps, by masked sums, one for each pass over the rows."""
        if self.privacy.epsilon is not None:
            raise UsageError("Differential privacy needs complete rows. Use missing='drop'.")
        sources: Mapping[str, Any] = self.parties
        frames = for_each_party(sources, lambda source: source.gaps(levels))

        def total(own: Mapping[str, GaussianStats]) -> GaussianStats:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # of units: these columns are not the parties'
                found, outcome = summed_moments(
                    own, self.privacy, min_rows=self.min_rows, site_effects="none"
                )
            self._outcomes.append(replace(outcome, notes={}))
            assert isinstance(found, GaussianStats)
            return found

        names = indicator_names(self.names, levels)
        centred = self.site_effects != "none"
        own = summed_gaps(frames, names, cast(How, self._gaps_allowed), total, centred=centred)
        self.gaps_notes = (*gaps_by_party(frames, names), gaps_note(own, self._gaps_allowed))
        return own.stats

    def levels(self, labels: Sequence[str]) -> Levels:
        """The labels that occur at some party, compared in the open."""
        return united_levels(self.parties, labels)

    def mixed(self, levels: Levels) -> Mixed:
        """The sum of the parties' moments of numbers and of indicators of labels; asked for once."""
        if self._mixed is None and self.has_gaps:
            self._mixed = MixedStats(self.names, levels, self._incomplete(levels))
        if self._mixed is None:
            # Parties with indicators in place of labels: what is done for numbers is done for them.
            expanded = self.transformed(partial(with_indicators, levels=levels))
            names = indicator_names(self.names, levels)
            moments = expanded.moments()
            assert isinstance(moments, GaussianStats)  # changed rows have no interventions
            self._mixed = MixedStats(self.names, levels, moments.select(names))
            self._outcomes.extend(expanded._outcomes)
            self._mixed_notes = expanded.notes
        return self._mixed

    def counts(self) -> PartyCounts:
        """Contingency tables of any column sets, summed over the parties when they are asked for."""
        return self._counts

    @cached_property
    def _counts(self) -> PartyCounts:
        if self.privacy.epsilon is not None:
            raise UsageError(
                "Differential privacy goes with moments of numbers; counts of labels have none yet."
            )
        own: dict[str, DiscreteCounts] = {}
        for party, counts in for_each_party(self.parties, lambda source: source.counts()).items():
            if isinstance(counts, Regimes):
                raise UsageError(
                    "Over parties, interventions go with numbers; counts of labels have none yet."
                )
            own[party] = _select(counts, self.names)
        if self.site_effects != "none":
            self._site_notes += (NOT_FOR_LABELS,)
        return PartyCounts(_common_levels(own), self)

    def asked(self, sets: Sequence[tuple[int, ...]], own: Mapping[str, DiscreteCounts]) -> list[Any]:
        """The summed contingency tables of some column sets: one question to all parties."""
        tables, outcome = summed_counts(own, sets, self.privacy, min_rows=self.min_rows)
        # What a search asks for depends on the answers before: the questions themselves are shown.
        asked = "; ".join(" × ".join(self.names[column] for column in columns) for columns in sets)
        names = outcome.disclosure["name"].replace(COUNTS, f"{COUNTS} of {asked}")
        self._outcomes.append(replace(outcome, disclosure=outcome.disclosure.assign(name=names)))
        return list(tables)

    def rows(self) -> pd.DataFrame:
        """Refused: rows stay with their parties."""
        raise UsageError(
            "This learner needs rows, and rows stay with their parties. FederatedNotears(model='mlp') and "
            "FederatedNotears(model='lagged') learn from parties without them."
        )

    def with_parties(self, parties: Mapping[str, Any]) -> Self:
        """Other parties with the same settings."""
        return type(self)(
            parties, privacy=self.privacy, min_rows=self.min_rows, site_effects=self.site_effects
        )

    def transformed(self, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Self:
        """Every party changes its own rows."""
        changed = for_each_party(self.parties, lambda source: source.transformed(change))
        return self.with_parties(changed)

    def resampled(self, rng: np.random.Generator) -> Self:
        """Every party draws its own rows again; what leaves it are sums, as before."""
        if self.privacy.epsilon is not None:
            raise UsageError("A bootstrap would spend the budget of differential privacy in every resample.")
        if self.privacy.masked and self.privacy.ledgers is not None:
            raise UsageError(
                "A bootstrap sums the same rows with many different weights, and enough such sums can be "
                "solved for single rows, so parties that keep ledgers refuse it. Leave out ledgers, or the "
                "bootstrap."
            )
        drawn = {party: source.resampled(rng) for party, source in self.parties.items()}
        return self.with_parties(drawn)

    def as_tasks(self) -> Tasks:
        """Each party as a task of its own, for networks that differ between parties.

        Nothing is summed then: the statistics of each party leave it in the open. A warning says so, and they
        are written to the party's ledger where ledgers are kept.
        """
        if self.privacy.epsilon is not None:
            raise UsageError("As tasks, parties show their own statistics; that has no differential privacy.")
        warnings.warn(
            f"As tasks, the statistics of each of the {len(self.parties)} parties leave it in the open: "
            "means and "
            "covariances, or the counts that the learner asks for.",
            DataWarning,
            stacklevel=2,
        )
        in_the_open = Privacy(mode="none", ledgers=self.privacy.ledgers)
        return Tasks(
            {
                party: type(self)({party: source}, privacy=in_the_open, min_rows=self.min_rows)
                for party, source in self.parties.items()
            }
        )


class PartyCounts:
    """Counts of labels over parties: a contingency table is known once it has been asked for and summed."""

    def __init__(self, own: Mapping[str, DiscreteCounts], parties: Parties) -> None:
        self._own = own
        self._parties = parties

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self._parties.names

    @property
    def levels(self) -> tuple[tuple[Hashable, ...], ...]:
        """Each variable's labels, over all parties."""
        return next(iter(self._own.values())).levels

    @property
    def arities(self) -> NDArray[np.int64]:
        """The number of levels of each variable."""
        return next(iter(self._own.values())).arities

    @property
    def n(self) -> float:
        """The number of rows of all parties."""
        return self._parties.n

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    def with_levels(self, levels: Mapping[str, Sequence[Hashable]]) -> PartyCounts:
        """The same counts with other (larger) sets of levels."""
        return PartyCounts({p: own.with_levels(levels) for p, own in self._own.items()}, self._parties)

    def tables(self, sets: Sequence[tuple[int, ...]]) -> list[NDArray[np.float64]]:
        """The contingency table of each set of columns, one axis per column; one question to all parties."""
        return self._parties.asked(sets, self._own)


def _column_difference(party: str, names: tuple[str, ...], own: tuple[str, ...]) -> str:
    parts = [
        f"{what} {', '.join(sorted(columns))}"
        for what, columns in (("lacks", set(names) - set(own)), ("has besides", set(own) - set(names)))
        if columns
    ]
    return (
        f"{party}: its columns are not those of the other parties: it {' and '.join(parts)}. "
        "Leave out what not all have (--columns on the command line), or add it."
    )


def aligned(stats: Moments, names: tuple[str, ...]) -> Moments:
    """Moments with the variables in a given order."""
    if isinstance(stats, GaussianStats):
        return stats.select(names)
    return Regimes({targets: part.select(names) for targets, part in stats.parts.items()})


def _select(counts: DiscreteCounts, names: tuple[str, ...]) -> DiscreteCounts:
    """Counts with the variables in a given order."""
    if counts.names == names:
        return counts
    where = [counts.names.index(name) for name in names]
    levels = tuple(counts.levels[i] for i in where)
    return replace(counts, names=names, levels=levels, rows=np.ascontiguousarray(counts.rows[:, where]))


def _common_levels(own: Mapping[str, DiscreteCounts]) -> dict[str, DiscreteCounts]:
    """Counts over the levels of all parties."""
    whole_ = reduce(add, (DiscreteCounts.without_rows(each.names, each.levels) for each in own.values()))
    levels = dict(zip(whole_.names, whole_.levels, strict=True))
    return {party: counts.with_levels(levels) for party, counts in own.items()}
