"""How parties' numbers are protected: a group of settings that checks itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from polydag.errors import UsageError
from polydag.parameters import Either, Instance, Settings, number, one_of, optional, setting, whole
from polydag.privacy.dp.accounting import Budget

Bounds = tuple[float, float]


@dataclass(frozen=True)
class Privacy(Settings):
    """How the parties of a study protect what they contribute.

    Parameters
    ----------
    mode : {"masked", "none"}
        With "masked", nobody sees the numbers of a single party, only sums over at least three of them, so
        there must be three parties. With "none", sums are formed without masks. See
        `docs/explanations/privacy.md`.
    quorum : int, optional
        For masked sums: one more than the number of parties that may collude without learning anything.
        Where parties may drop out, this many can open a sum together. The default is one more than two
        thirds of the parties; where every party is needed it is at most four, since a larger quorum takes
        longer and all parties run in one process here.
    ledgers : path, optional
        A folder with one file for each party, to which everything that leaves the party is appended. Earlier
        studies in it count: no sum is formed that would single out a party in combination with theirs, and
        their noise is part of the privacy account.
    epsilon, delta : float, optional
        The differential privacy of single rows that this study may spend.
    budget : float, optional
        The largest epsilon that all studies in `ledgers` may spend together; by default that of this study.
    bounds : mapping of column to (lowest, highest), or one such pair, optional
        For differential privacy: the range of each column, to which rows are clipped. By default it is
        estimated under noise.

    Examples
    --------
    >>> Privacy(epsilon=1.0, bounds=(-10, 10)).delta
    1e-05
    >>> Privacy(mode="none", epsilon=1.0)
    Traceback (most recent call last):
        ...
    polydag.errors.UsageError: epsilon requires mode='masked': parties add noise that hides in the sum.
    """

    mode: str = setting("masked", one_of("masked", "none"), "masked sums, or sums without masks")
    quorum: int | None = setting(None, optional(whole(least=2)), "parties that can open a masked sum")
    ledgers: str | os.PathLike[str] | None = setting(
        None,
        optional(Either(Instance(str, "a path"), Instance(os.PathLike, "a path object"))),
        "folder with one ledger for each party",
    )
    epsilon: float | None = setting(None, optional(number(above=0)), "differential privacy of this study")
    delta: float = setting(1e-5, number(above=0), "probability with which epsilon may be exceeded")
    budget: float | None = setting(None, optional(number(above=0)), "epsilon of all studies in the ledgers")
    bounds: Mapping[str, Bounds] | Bounds | None = setting(
        None,
        optional(
            Either(
                Instance(Mapping, "a mapping of columns to pairs"),
                Instance(tuple, "a pair (lowest, highest)"),
                Instance(list, "a list of these two"),
            )
        ),
        "(lowest, highest) of each column, or of all",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is None:
            if self.budget is not None or self.bounds is not None:
                raise UsageError("budget and bounds belong to differential privacy: give epsilon as well.")
            return
        Budget(self.epsilon, self.delta).check()
        if self.mode != "masked":
            raise UsageError("epsilon requires mode='masked': parties add noise that hides in the sum.")
        pairs = self.bounds if isinstance(self.bounds, Mapping) else {"all columns": self.bounds}
        for column, pair in pairs.items():
            if self.bounds is not None:
                _require_pair(column, pair)

    @property
    def masked(self) -> bool:
        """Whether sums are formed under masks."""
        return self.mode == "masked"

    @property
    def allowance(self) -> Budget | None:
        """What each party allows all studies of its ledger to spend; None without differential privacy."""
        if self.epsilon is None:
            return None
        return Budget(self.epsilon if self.budget is None else self.budget, self.delta)

    def bounds_of(self, columns: tuple[str, ...]) -> tuple[Bounds, ...] | None:
        """The bounds of each column; None where they are to be estimated."""
        if self.bounds is None:
            return None
        pairs = []
        for column in columns:
            pair = self.bounds.get(column) if isinstance(self.bounds, Mapping) else self.bounds
            _require_pair(column, pair)
            assert pair is not None
            pairs.append((float(pair[0]), float(pair[1])))
        return tuple(pairs)


def _require_pair(column: str, pair: Bounds | None) -> None:
    if pair is None or len(pair) != 2 or not pair[0] < pair[1]:
        raise UsageError(
            "bounds must hold (lowest, highest) for every column, or be one such pair for all of them; "
            f"for {column} it is {pair!r}."
        )
