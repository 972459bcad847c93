"""Parties that keep their rows, as a source: only sums of their statistics are seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Self, cast

import numpy as np
import pandas as pd

from polydag.arrays import Array
from polydag.data.table import Kind
from polydag.errors import DataError, DataWarning, UsageError
from polydag.federated.each_party import for_each_party
from polydag.federated.methods.private.moments import summed_private_moments
from polydag.federated.methods.statistics.counts import COUNTS, summed_counts, summed_counts_by_regime
from polydag.federated.methods.statistics.moments import CORRELATION, summed_moments
from polydag.federated.party_data.site_comparison import Comparison
from polydag.federated.party_data.site_effects import NOT_FOR_LABELS, NOT_UNDER_NOISE, SITE_EFFECTS
from polydag.federated.session import Outcome, one_after_the_other
from polydag.parameters import check, one_of, whole
from polydag.privacy.settings import Privacy
from polydag.sources.adapt import named_sources
from polydag.sources.columns.agreement import (
    agreed_fixed_kinds,
    agreed_kinds,
    common_names,
    levels_of_each,
    require_different_labels,
    united_levels,
)
from polydag.sources.columns.indicators import in_names, indicator_moments
from polydag.sources.columns.party_cells import summed_over_parties
from polydag.sources.columns.party_counts import (
    PartyCounts,
    counts_by_regime,
    levels_of_counts,
    with_common_levels,
)
from polydag.sources.columns.spellings import spelling_notes
from polydag.sources.gaps.moments import (
    ALLOWED,
    MULTIPLE,
    constant_columns,
    gaps_by_party,
    gaps_note,
    separate_moments,
    summed_gaps,
    unknown_pairs,
)
from polydag.sources.gaps.structural_em import DRAWS, NOT_TESTWISE, ScaledTables, expected_counts, turns_note
from polydag.sources.interface import Contents, Mixed, Moments, Source
from polydag.sources.linked_rows import LinkedRows
from polydag.sources.tasks import Tasks
from polydag.stats import DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.cells import CellStats
from polydag.stats.gaps.available import AvailableTables
from polydag.stats.gaps.draws import drawn_parameters
from polydag.stats.gaps.incomplete import How
from polydag.stats.gaps.label_draws import Network
from polydag.stats.mixed import Levels, indicator_names, mixed_of, with_indicators

_TURNS = 3  # of structural EM, each of which is a search


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
        A party with fewer rows does not take part, and the study stops. Under interventions it is the least
        number of rows for each set of variables that were set.
    site_effects : {"means", "none", "means and scales", "random"}
        How parties may differ without making edges. By default in their means: rows are centred within each
        party, which costs one row for each party but the first. Where a test finds that overall spreads
        differ, each party's rows are also divided by its own, so that none outweighs the others. With "means
        and scales" every column is scaled within each party, too. "random" gives each party a random
        intercept for every column, with one ratio of variances for all columns; it takes two rounds
        more and costs fewer rows where parties are small. "none" pools rows as they are. For labels nothing
        is centred.

    Attributes
    ----------
    disclosure_ : DataFrame
        site, round, name, shape, bytes, masked, noise: every array that has left a party so far. The name of
        counts says which column sets were asked for.
    protection_ : str
        What was protected from whom.

    Notes
    -----
    The levels of labels are compared without masks before counts are summed, since every table needs the same
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
        drawn = [name for name, own in self.parties.items() if isinstance(own, LinkedRows) and own.latent]
        if drawn:
            raise UsageError(
                f"What lies behind the labels of {', '.join(drawn)} has mean zero and variance one at each "
                "party, and does not add up. Use labels='indicators' for parties."
            )
        self.privacy = privacy
        self.min_rows = min_rows
        self.site_effects = site_effects
        self._outcomes: list[Outcome] = []
        self._site_notes: tuple[str, ...] = ()  # how the parties compare, and what was done about it
        self._mixed: Mixed | None = None
        self._spellings: tuple[str, ...] = ()
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
        return common_names(each)

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
        found = [*own, *self._spellings, *seen, *self._site_notes, *self._mixed_notes, *self.gaps_notes]
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
            compared, used = Comparison.of(self.names, outcome.result), outcome.result.get(CORRELATION)
            correlation = None if used is None else float(used)
            self._site_notes += tuple(compared.notes(self.site_effects, correlation))
        elif self.site_effects != "none":
            self._site_notes += (NOT_UNDER_NOISE,)
        return found

    @cached_property
    def _gaps_allowed(self) -> str:
        """How all parties handle missing values, where that gives moments in spite of them; else empty."""
        ways = {getattr(source, "missing", "error") for source in self.parties.values()}
        return ways.pop() if len(ways) == 1 and ways <= set(ALLOWED) else ""

    @cached_property
    def has_gaps(self) -> bool:
        """Whether values or whole columns are missing, and moments are to be had in spite of that."""
        return self._gaps_allowed not in ("", MULTIPLE) and self._lacks_values

    @property
    def _lacks_values(self) -> bool:
        sources: Any = self.parties.values()
        return any(source.lacks_values or set(source.names) != set(self.names) for source in sources) or any(
            constant_columns(source.rows()).any() for source in sources
        )

    def completions(self) -> tuple[Self, ...]:
        """For `missing="multiple"` at all parties: each draws what its own rows lack, from a common Gaussian.

        The Gaussian is fitted by EM, one masked sum for each pass over the rows. Its parameters, which all
        parties see, are drawn once for each completion.
        """
        if self._gaps_allowed != MULTIPLE or not self._lacks_values:
            return ()
        sources: Mapping[str, Any] = self.parties
        levels = self.levels([name for name, kind in self.kinds.items() if kind == "discrete"])
        stats = self._incomplete(levels)
        first = next(iter(sources.values()))
        rng, centred = np.random.default_rng(first.random_state), self.site_effects != "none"
        found = []
        for _ in range(first.n_imputations):
            parameters = drawn_parameters(stats, rng)
            streams = zip(sources, rng.spawn(len(sources)), strict=True)  # a party's draws are its own
            own = {
                party: sources[party].completed(levels, parameters, stream, names=self.names, centred=centred)
                for party, stream in streams
            }
            found.append(self.with_parties(own))
        return tuple(found)

    @property
    def contents(self) -> Contents:
        """What the columns hold; test-wise, labels with gaps are scored by moments, as mixed columns are."""
        found = super().contents
        return "mixed" if found == "labels" and self.has_gaps and self._gaps_allowed == "testwise" else found

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

        self._compare_units(frames, [name for name in self.names if name not in levels])
        names = indicator_names(self.names, levels)
        centred = self.site_effects != "none"
        how: How = "testwise" if self._gaps_allowed == "testwise" else "em"
        own = summed_gaps(frames, names, how, total, centred=centred)
        self.gaps_notes = (*gaps_by_party(frames, names), gaps_note(own, self._gaps_allowed))
        self.unknown_pairs = unknown_pairs(own)
        return own.stats

    def _compare_units(self, frames: Mapping[str, pd.DataFrame], numbers: list[str]) -> None:
        """One masked sum of means and variances of what is there, by which other units are noticed."""
        if numbers:
            own = {party: separate_moments(frame, numbers) for party, frame in frames.items()}
            self._outcomes.append(summed_moments(own, self.privacy, min_rows=self.min_rows)[1])

    def levels(self, labels: Sequence[str]) -> Levels:
        """The labels that occur at some party, compared without masks."""
        each = levels_of_each(self.parties, labels)
        self._compare_spellings(each)
        if self.site_effects != "none" and self.contents == "mixed":
            require_different_labels(each, labels)
        return united_levels(each, labels)

    def _compare_spellings(self, each: Mapping[str, Levels]) -> None:
        """Notes on labels that may be the same, written in another way."""
        for column in dict.fromkeys(name for own in each.values() for name in own):
            own = {party: levels[column] for party, levels in each.items() if column in levels}
            self._spellings += spelling_notes(column, own)

    def mixed(self, levels: Levels) -> Mixed:
        """The sum of the parties' moments of numbers and of indicators of labels; asked for once."""
        if self._mixed is None and self.has_gaps:
            self._mixed = MixedStats(self.names, levels, self._incomplete(levels))
        if self._mixed is None:
            # Parties with indicators in place of labels: what is done for numbers is done for them.
            targets: set[frozenset[str]] = set()
            if self.privacy.epsilon is None:
                own = for_each_party(self.parties, lambda source: source.mixed(levels))
                targets = {set_ for part in own.values() if isinstance(part, Regimes) for set_ in part.parts}
                expanded = self.with_parties({party: indicator_moments(part) for party, part in own.items()})
            else:
                expanded = self.transformed(partial(with_indicators, levels=levels))  # noise is added to rows
            try:
                moments = expanded.moments()
            except (DataError, UsageError) as error:
                raise type(error)(in_names(str(error), targets, levels)) from None
            self._mixed = mixed_of(moments, targets, self.names, levels)
            self._outcomes.extend(expanded._outcomes)
            self._mixed_notes = expanded.notes
        return self._mixed

    def require_cells(self) -> None:
        """Raise where parties have gaps, noise, other site effects, or no rows."""
        if self.privacy.epsilon is not None:
            raise UsageError(
                "Differential privacy is for moments of all rows, not of cells. Use the score dg."
            )
        if self.has_gaps:
            raise UsageError(
                "Moments per cell need complete rows. Use the degenerate Gaussian (criterion='dg', "
                "test='dg'), or missing='drop'."
            )
        if self.site_effects not in ("means", "none"):
            raise UsageError(
                f"The conditional Gaussian works with site_effects 'means' or 'none', not with "
                f"{self.site_effects!r}."
            )
        for_each_party(self.parties, lambda source: source.require_cells())

    def cells(self, mixed: MixedStats) -> CellStats:
        """Counts and moments per cell of labels, summed over the parties when they are asked for."""
        self.require_cells()
        return summed_over_parties(self, mixed, self._outcomes.append)

    def counts(self) -> Any:
        """Contingency tables of any column sets, summed over the parties when they are asked for."""
        return self._counts

    @cached_property
    def _counts(self) -> Any:
        if self.privacy.epsilon is not None:
            raise UsageError(
                "Differential privacy works with moments of numbers, not yet with counts of labels."
            )
        if self.has_gaps:
            return self._counts_of_gaps()
        found = for_each_party(self.parties, lambda source: source.counts())
        own = with_common_levels(found, self.names)
        self._compare_spellings({party: levels_of_counts(part) for party, part in found.items()})
        if self.site_effects != "none":
            self._site_notes += (NOT_FOR_LABELS,)
        if any(isinstance(part, Regimes) for part in own.values()):
            return counts_by_regime(own, self.asked_by_regime)
        return PartyCounts.of(cast("dict[str, DiscreteCounts]", own), self.asked)

    def _counts_of_gaps(self) -> Any:
        """Counts of labels with missing values; each turn of structural EM is several masked sums."""
        if self._gaps_allowed != "em":
            raise UsageError(NOT_TESTWISE)
        levels = self.levels(self.names)
        sources: Mapping[str, Any] = self.parties
        rows = for_each_party(sources, lambda source: source.label_rows(levels, self.names))
        seen = PartyCounts.of({party: own.with_missing() for party, own in rows.items()}, self.asked, self.n)
        available = AvailableTables(seen, self.n)

        def drawn(model: Network) -> ScaledTables:
            completed = {party: own.completed(model) for party, own in rows.items()}
            return ScaledTables(PartyCounts.of(completed, self.asked, DRAWS * self.n), 1 / DRAWS)

        found = expected_counts(available, drawn, max_turns=_TURNS)
        self.gaps_notes = (turns_note(found),)
        return found.counts

    def asked(
        self,
        sets: Sequence[tuple[int, ...]],
        own: Mapping[str, DiscreteCounts],
        columns_of: Sequence[str] | None = None,
    ) -> list[Any]:
        """The summed contingency tables of some column sets: one question to all parties."""
        tables, outcome = summed_counts(own, sets, self.privacy, min_rows=self.min_rows)
        self._record_question(outcome, sets, self.names if columns_of is None else columns_of)
        return list(tables)

    def asked_by_regime(
        self, sets: Sequence[tuple[int, ...]], own: Mapping[str, Any]
    ) -> dict[frozenset[str], list[Array]]:
        """The same for each set of variables that were set by intervention, in one question."""
        tables, outcome = summed_counts_by_regime(own, sets, self.privacy, min_rows=self.min_rows)
        self._record_question(outcome, sets, self.names)
        return tables

    def _record_question(
        self, outcome: Outcome, sets: Sequence[tuple[int, ...]], called: Sequence[str]
    ) -> None:
        """What a search asks for depends on the answers before: the questions themselves are shown."""
        asked = "; ".join(" × ".join(called[column] for column in columns) for columns in sets)
        names = outcome.disclosure["name"].map(
            lambda name: f"{COUNTS} of {asked}{name[len(COUNTS) :]}" if name.startswith(COUNTS) else name
        )
        self._outcomes.append(replace(outcome, disclosure=outcome.disclosure.assign(name=names)))

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

    def with_normal_scores(self, columns: Sequence[str]) -> Parties:
        """Normal scores of ranks over all parties in place of some columns of numbers.

        How values are distributed is counted on a common grid, by two to five masked sums.
        """
        from polydag.sources.columns.party_columns import with_normal_scores

        return with_normal_scores(self, columns)

    def discretized(self, how: str) -> Parties:
        """Numbers cut into levels at common points: "quantile:4" or "interval:4".

        The points are those of all rows, to within a cell of the grid of `with_normal_scores`.
        """
        from polydag.sources.columns.party_columns import discretized

        return discretized(self, how)

    def with_columns_of(self, parties: Mapping[str, Source]) -> Self:
        """The same parties with other columns; what has been summed for these stays known."""
        again = self.with_parties(parties)
        again._outcomes = list(self._outcomes)
        return again

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

        Nothing is summed then: the statistics of each party leave it unmasked. A warning says so, and they
        are written to the party's ledger where ledgers are kept.
        """
        if self.privacy.epsilon is not None:
            raise UsageError("As tasks, parties show their own statistics; that has no differential privacy.")
        warnings.warn(
            "As tasks, the statistics of every party leave it unmasked: means and covariances, or the "
            "counts that the learner asks for.",
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


def aligned(stats: Moments, names: tuple[str, ...]) -> Moments:
    """Moments with the variables in a given order."""
    if isinstance(stats, GaussianStats):
        return stats.select(names)
    return Regimes({targets: part.select(names) for targets, part in stats.parts.items()})
