"""Questions worded by a dishonest coordinator so that answers say more than they should are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from attacked import NAMES, Attack, D, is_constant_refusal, party, remembered, rows, site, sites_of
from polydag import GaussianStats
from polydag.federated import Message
from polydag.federated.methods.statistics.counts import COUNTS, CountsParty
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.protocol import equations
from polydag.federated.protocol.checks import ADJUSTMENT
from polydag.federated.protocol.messages import CONTRIBUTION
from polydag.federated.protocol.programs import Ask
from polydag.stats import DiscreteCounts

pytestmark = pytest.mark.portable


def asked(attack: Attack, task: str, round_: int, arrays: dict[str, Any], **meta: Any) -> Message:
    """A question to the first site, chained to the one before."""
    before = attack.states["site 0"].masking.get("asked", {"question": ""})
    words = {
        "task": task,
        "narrow": {},
        "over": list(attack.sites),
        "study": attack.memory["agreement"]["study"],
        "before": before,
        **meta,
    }
    return attack.send("site 0", round_, "ask", arrays, **words)


def constants(d: int = D) -> dict[str, Any]:
    return {
        "group": np.zeros(d, dtype=np.int64), "centre": np.zeros((1, d)), "rows": np.array([120.0]),
        "scale": np.ones(d),
    }  # fmt: skip


def consensus(lanes: int = 1, rho: float = 1.0) -> dict[str, Any]:
    return {"W": np.zeros((lanes, D, D)), "rho": np.full(lanes, rho), **constants()}


def test_rows_adjusted_by_an_earlier_question_are_not_counted_as_pooled() -> None:
    """A site keeps the adjustment of a first question; sums in a later one are not linear either."""
    attack = Attack(sites_of(3))
    attack.join()
    partly = np.array([0.5, 0.0, *np.zeros(D)])
    first = asked(attack, "consensus", 1, {**consensus(), ADJUSTMENT: partly}, relax=1.5)
    assert first.phase == CONTRIBUTION
    pairs = np.ones((1, D, D), dtype=np.uint8)
    assert asked(attack, "families", 2, {"pairs": pairs}).phase == CONTRIBUTION
    names = [entry.name for entry in remembered(attack, "site 0") if entry.kind == "data"]
    assert set(names[-2:]) == {"partly centred rows", "partly centred families"}
    assert equations.opened(remembered(attack, "site 0"))[0] == 10 + 1 + D * D
    cautious = Attack({**sites_of(3), "site 0": site("site 0", party(0), solvable=False)})
    cautious.join()
    assert (
        asked(cautious, "consensus", 1, {**consensus(), ADJUSTMENT: partly}, relax=1.5).phase == CONTRIBUTION
    )
    assert is_constant_refusal(asked(cautious, "families", 2, {"pairs": pairs}))


def test_a_question_without_penalties_does_not_change_what_a_site_keeps() -> None:
    attack = Attack(sites_of(3))
    attack.join()
    assert is_constant_refusal(asked(attack, "consensus", 1, consensus(lanes=0), relax=1.5))
    assert "holds no penalty" in attack.reasons("site 0")


def test_a_site_with_no_more_rows_than_columns_is_not_isolated_by_a_small_penalty() -> None:
    """At a small ρ the parameters of a site of lower rank outweigh all others': the span of its rows."""
    few = rows(0, 2) - rows(0, 2).mean(axis=0)
    small = LinearParty(GaussianStats.from_data(few, names=NAMES))
    others = [party(k).stats for k in range(1, 6)]
    rng, rho = np.random.default_rng(0), 1e-12
    W = 1e6 * rng.normal(size=(1, D, D))
    question = Ask("consensus", {**consensus(rho=rho), "W": W}, {"relax": 1.0})
    parties = [small, *(LinearParty(each) for each in others)]
    total = sum(each.answer({}, question)[1]["parameters"][0] for each in parties)
    span = total @ np.linalg.inv(W[0])  # nearly the projection on what is orthogonal to the rows
    direction = few[0] / np.linalg.norm(few[0])
    assert (
        np.abs(np.eye(D) - np.outer(direction, direction) - span).max() < 1e-3
    )  # five others do not hide it
    attack = Attack({**sites_of(3), "site 0": site("site 0", small, solvable=False)})
    attack.sites["site 0"] = type(attack.sites["site 0"])(small, 1, attack.sites["site 0"].protection)
    attack.join()
    assert is_constant_refusal(asked(attack, "consensus", 1, consensus(rho=rho), relax=1.0))
    assert "no more rows than columns" in attack.reasons("site 0")


def test_the_chain_of_questions_holds_if_a_round_is_left_out() -> None:
    attack = Attack(sites_of(3))
    attack.join()
    assert attack.ask("site 0", 1).phase == CONTRIBUTION
    assert is_constant_refusal(attack.ask("site 0", 3))  # names no question as the one before
    assert "another question as the one before" in attack.reasons("site 0")


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        ([list(range(40))], "more than 20000000 cells"),
        ([list(range(20))] * 30, "more than 20000000 cells"),
        ([[0, 0]], "names a column twice"),
        ([[41]], "does not exist"),
        ([[0, 1], [2]], None),
    ],
)
def test_tables_that_fill_the_memory_are_not_counted(sets: list[list[int]], why: str | None) -> None:
    names = tuple(f"x{j}" for j in range(40))
    codes = np.random.default_rng(0).integers(0, 2, size=(50, 40))
    codes[:2] = [[0], [1]]  # both levels everywhere
    local = CountsParty(DiscreteCounts.from_data(pd.DataFrame(codes, columns=list(names))))
    known = [list(map(repr, own)) for own in local.counts.levels]
    ask = Ask(COUNTS, {}, {"columns": list(names), "levels": known, "sets": sets, "regimes": [[]]})
    found = local.objection({}, ask)
    assert found is None if why is None else why in str(found)


def test_a_thief_of_the_ledger_reads_no_numbers_of_the_data_in_reasons() -> None:
    few = Attack({**sites_of(3), "site 0": site("site 0", party(0, 7))})
    few.join()
    large = Attack(sites_of(3))
    large.join()
    large.ask("site 0", centre=np.full((1, D), 1e29))
    for attack, told in (
        (few, "It has 7 rows"),
        (large, "scatter[] of column x0 cannot be added under masks: sums over 3"),
    ):
        assert told in attack.reasons("site 0")  # for the owner
        (reason,) = [entry.name for entry in remembered(attack, "site 0") if entry.kind == "refused"]
        assert not any(letter.isdigit() for letter in reason)
        assert "#" in reason


def test_the_owner_is_not_flooded_with_notes() -> None:
    attack = Attack(sites_of(3))
    attack.join()
    for round_ in range(1, 60):
        scales = np.ones((3, D)) * [[120.0], [1.0], [round_ * 1e3]]
        scales[1] *= 120.0 * (5 + round_)
        message = Message("coordinator", "site 0", round_, "answer", {"log_scales": scales})
        (signed,) = attack.masking.signed([message])
        attack.states["site 0"], _ = attack.sites["site 0"].step(attack.states["site 0"], [signed])
    assert len(attack.states["site 0"].notes) <= 100
