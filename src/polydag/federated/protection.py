"""What was protected from whom in a study, in words, by what its ledgers say and not by its settings."""

from __future__ import annotations

import math
from collections.abc import Collection

import pandas as pd

from polydag.privacy.masking.agreement import Agreement
from polydag.privacy.settings import Privacy

PARAMETERS = "parameters"


def open_statement() -> str:
    """For sums in the open."""
    return (
        "NOT PRIVATE (privacy = none): whoever adds up sees each party's numbers: no rows, but covariances "
        "can be read off them exactly."
    )


def masked_statement(agreement: Agreement, sets: Collection[Collection[str]]) -> str:
    """For sums under masks, over the sets of sites that were summed over in this run."""
    n, smallest = len(agreement.all_sites), min((len(sites) for sites in sets), default=0)
    over = f"the {n} parties" if smallest == n else f"{smallest} or more of the {n} parties"
    told = f"even together with up to {colluding(agreement, sets)} of them"
    return (
        f"privacy = masked: whoever adds up sees sums over {over}, and no party's own numbers, {told}. The "
        "sums themselves and the graph are seen."
    )


def colluding(agreement: Agreement, sets: Collection[Collection[str]]) -> int:
    """How many sites may reveal all they know before the sums of a run show the numbers of another one.

    Combinations of sums show the sums over sites that were in exactly the same sets; all but one of them know
    the last one's part.
    """
    patterns = [tuple(site in sites for sites in sets) for site in agreement.all_sites]
    classes = [patterns.count(pattern) for pattern in set(patterns) if any(pattern)]
    return max(min([agreement.colluding, *(size - 2 for size in classes)]), 0)


def equations_statement(disclosure: pd.DataFrame, n_sites: int, d: int) -> str:
    """For sums of parameters over many rounds: whether there are enough to solve for the covariances."""
    one = disclosure["site"] == disclosure["site"].iloc[0]
    first = disclosure[one & (disclosure["name"] == PARAMETERS)]
    sizes = first["shape"].str.split("×").map(lambda axes: math.prod(map(int, axes[1:])))  # first: words
    opened, unknown = int(sizes.sum()), n_sites * d * (d + 1) // 2
    if opened <= unknown:
        return ""
    return (
        f"However: the {len(first)} sums of parameters hold {opened} numbers, and all parties' covariances "
        f"together {unknown}. With few parties and columns the sums can be solved for each party's "
        "covariance. A learner of moments over Parties (BOSS, GES, Notears) shows the pooled covariance only."
    )


def noise_statement(privacy: Privacy, agreement: Agreement) -> str:
    """For differential privacy."""
    most = min(agreement.colluding, (len(agreement.all_sites) - 1) // 2)
    return (
        f"All that is seen is ({privacy.epsilon:g}, {privacy.delta:g})-differentially private for any one "
        f"row, as long as no more than {most} parties reveal to the coordinator the noise they added."
    )
