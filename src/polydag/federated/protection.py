"""What was protected from whom in a study, in words, by what its ledgers say and not by its settings."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from polydag.federated.protocol.equations import depends_on_question, equations, sum_of, unknown
from polydag.federated.protocol.messages import ORDER
from polydag.privacy.masking.agreement import Agreement
from polydag.privacy.settings import Privacy


def open_statement() -> str:
    """For sums without masks."""
    return (
        "NOT PRIVATE (privacy = none): the coordinator sees each party's numbers: no rows, but covariances "
        "can be derived from them exactly."
    )


def masked_statement(agreement: Agreement, sets: Collection[Collection[str]], *, linear: bool = True) -> str:
    """For sums under masks, over the sets of sites that were summed over in this run."""
    n, smallest = len(agreement.all_sites), min((len(sites) for sites in sets), default=0)
    over = f"the {n} parties" if smallest == n else f"{smallest} or more of the {n} parties"
    others = colluding(agreement, sets, linear=linear)
    told = (
        f"even together with up to {others} of them"
        if others
        else "as long as no other party reveals what it knows"
    )
    return (
        f"privacy = masked: the coordinator sees sums over {over}, and no party's own numbers, {told}. The "
        "sums themselves and the graph are not hidden."
    )


def colluding(agreement: Agreement, sets: Collection[Collection[str]], *, linear: bool = True) -> int:
    """How many sites may reveal all they know before the sums of a run show the numbers of another one.

    Combinations of sums show the sums over sites that were in exactly the same sets; all but one of them know
    the last one's part. Where sums are not all linear in the sites' moments, the parts of the last two follow
    as well: their sum and the sum of their logarithms give both.
    """
    unknown_parts = 2 if linear else 3
    patterns = [tuple(site in sites for sites in sets) for site in agreement.all_sites]
    classes = [patterns.count(pattern) for pattern in set(patterns) if any(pattern)]
    return max(min([agreement.colluding, *(size - unknown_parts for size in classes)]), 0)


def opened_equations(disclosure: pd.DataFrame) -> int:
    """How many summed numbers of a run are not statistics of the pooled rows."""
    own = disclosure[disclosure["site"] == disclosure["site"].iloc[0]] if len(disclosure) else disclosure
    found = [
        sum_of(name, shape)
        for name, shape in zip(own["name"], own["shape"], strict=True)
        if name.split(": ")[0] not in ORDER  # keys and shares
    ]
    once = dict.fromkeys(each for each in found if not depends_on_question(each.name))
    return sum(map(equations, [*once, *(each for each in found if depends_on_question(each.name))]))


def equations_statement(disclosure: pd.DataFrame, n_sites: int, d: int) -> str:
    """For sums that are not statistics of the pooled rows: whether they can be solved for single parties."""
    opened = opened_equations(disclosure)
    if not d or opened < (left := unknown(n_sites, d)):
        return ""
    return (
        f"However: {opened} of the summed numbers are not statistics of the pooled rows (parameters, "
        f"coefficients, votes), and the pooled moments leave {left} covariances of single parties unknown. "
        "With few parties and columns the sums can be solved for each party's covariance. A learner of "
        "moments over Parties (BOSS, GES, Notears) opens far fewer numbers."
    )


def noise_statement(privacy: Privacy, agreement: Agreement) -> str:
    """For differential privacy."""
    most = min(agreement.colluding, (len(agreement.all_sites) - 1) // 2)
    return (
        f"All that is seen is ({privacy.epsilon:g}, {privacy.delta:g})-differentially private for any one "
        f"row, as long as no more than {most} parties reveal to the coordinator the noise they added."
    )
