"""Why a site does not join a study, as far as it may be told.

Before a site has been asked anything about its data, the coordinator may learn why it does not take part, in
a word of this list, where the reason follows from the owner's policy, the ledger and the names of columns,
which are not values of the data. Reasons that do depend on the data (too few rows, a small change since an
earlier study, rows under other interventions, numbers too small for the sums) share one word, `withheld`,
with an owner who keeps the data back, so the word does not say whether the data were looked at. They are
looked for last. Under differential privacy no reason depends on the data. Whatever is refused later is
refused without a reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from polydag.errors import DataError

REASON, WITHHELD = "reason", "withheld"
REASONS: Mapping[str, str] = {
    "agreement": "the study's agreement is not one that a site can accept",
    "members": "the study does not name it, or names a site that its owner does not know",
    "quorum": "its owner asks for a larger quorum",
    "recovery": "its owner allows no sums without sites that drop out",
    "group": "it is summed with other sites than the study says",
    "joined": "it has joined this study already",
    "rounds": "its owner allows fewer rounds",
    "tasks": "its owner does not allow a question that the study will ask",
    "noise": "its owner allows numbers with noise only",
    "budget": "the study would spend more than is left of its budget",
    "columns": "it lacks a column of the study",
    WITHHELD: "its data is kept back, by its owner or by the rules for rows and for changes of the data",
}


class JoinRefusedError(DataError):
    """A site does not join; `reason` is one of `REASONS`, the text is for its owner."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason


def told_reason(meta: Mapping[str, object]) -> str | None:
    """The reason that a refusal brings, in words; None where it brings none of the list."""
    reason = meta.get(REASON)
    return REASONS.get(reason) if isinstance(reason, str) else None
