"""The first questions of a study, whatever the model: how the parties compare, and their common centre."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Index
from polydag.federated.party_data.regimes import centre_question
from polydag.federated.party_data.site_comparison import adjustment_of, begin_comparison, end_comparison
from polydag.federated.protocol.programs import Ask, State, Total

CENTRE = np.array("centre")


def first_question(names: tuple[str, ...], group: Index, site_effects: str) -> tuple[State, Ask]:
    """Ask for what it takes to compare the parties, or for numbers of rows and sums."""
    if site_effects != "none":
        return begin_comparison(names)
    return {"question": CENTRE}, centre_question(names, group)


def after_comparison(
    names: tuple[str, ...], group: Index, site_effects: str, state: State, total: Total
) -> tuple[State, Ask]:
    """Ask for numbers of rows and sums of adjusted rows; or the comparison again, where digits were lost."""
    state, again = end_comparison(names, state, total, site_effects)
    if again is not None:
        return state, again
    return {**state, "question": CENTRE}, centre_question(names, group, adjustment_of(state))
