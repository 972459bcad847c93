"""Attacks on masked sums: sets of sites, inconsistent questions, differencing, ranges, malformed messages."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacked import (
    DIRECTORY,
    FIRST,
    IDENTITIES,
    NAMES,
    Attack,
    D,
    is_constant_refusal,
    is_refusal_to_join,
    party,
    remembered,
    rows,
    site,
    sites_of,
)
from over_parties import learned
from polydag import GaussianStats, Regimes
from polydag.errors import DataError, UsageError
from polydag.federated import Message, Site, run
from polydag.federated.methods.statistics.counts import CountsParty
from polydag.federated.methods.statistics.moments import Moments
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.party_data.regimes import centre_question
from polydag.federated.protocol.coordinator import DONE, Coordinator
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.messages import (
    AGREE,
    ASK,
    CONTRIBUTION,
    COORDINATOR,
    DEAL,
    JOIN,
    OPEN,
    PARCELS,
    ROSTER,
)
from polydag.federated.protocol.programs import Ask
from polydag.federated.protocol.site_protection import SiteProtection
from polydag.federated.protocol.storage.versions import change_problem, data_version
from polydag.federated.protocol.sums import PADS, SecureSum
from polydag.privacy.ledger import Entry
from polydag.privacy.masking.agreement import Agreement
from polydag.privacy.masking.coordinator import MaskedRound, add_masked
from polydag.privacy.policy import Policy
from polydag.privacy.settings import Privacy
from polydag.sources import Parties
from polydag.stats import DiscreteCounts
from test_privacy_federated import Repeated

pytestmark = pytest.mark.portable
GROUPS = (("site 0", "site 1", "site 2"), ("site 3", "site 4", "site 5"))


def recovering(**allowed: Any) -> Attack:
    attack = Attack(sites_of(6, **allowed), groups=GROUPS, quorum=4)
    attack.join(recover=True)
    return attack


@pytest.mark.parametrize(
    "over", [["site 0"], ["site 0", "site 1"], ["site 1", "site 2", "site 3"], [], ["site 9"] * 3]
)
def test_a_site_masks_for_no_sum_that_would_show_it(over: list[str]) -> None:
    attack = recovering()
    assert is_constant_refusal(attack.ask("site 0", over=over))
    assert "sum" in attack.reasons("site 0")


def contributions(attack: Attack, overs: dict[str, list[str]]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What the sites send when each is told of its own set of sites, and the hashes of their questions."""
    sent, hashes = {}, {}
    for name, over in overs.items():
        sent[name] = attack.ask(name, over=over).arrays
        hashes[name] = bytes.fromhex(attack.states[name].masking["asked"]["question"])
    return sent, hashes


def opened(
    attack: Attack, over: list[str], sites: list[str], question: bytes, signed: Any = None
) -> dict[str, Any]:
    found = {}
    for name in attack.sites:
        study = attack.memory["agreement"]["study"]
        meta = {
            "study": study,
            "over": over,
            "list": sites,
            "question": question.hex(),
            "signed": signed or {},
        }
        reply = attack.send(name, 1, OPEN, **meta)
        if not is_constant_refusal(reply):
            found[name] = reply.arrays["shares"]
    return found


def read(attack: Attack, sent: Any, over: list[str], sites: list[str], question: bytes, shares: Any) -> Any:
    secure = SecureSum(6, FIRST.meta["narrow"])
    terms = [{name: array for name, array in sent[each].items() if name != PADS} for each in sites]
    parts, views = secure.joined(add_masked(terms))
    agreement = Agreement.from_json(attack.memory["agreement"])
    pads = {name: sent[name][PADS] for name in sites}
    masked = MaskedRound(
        agreement, 1, question, over, sites, shares, pads, attack.memory["locked"], attack.memory["checks"]
    )
    masked.unmask(parts)
    return secure.decode(views)


def test_a_question_to_one_set_cannot_be_opened_for_another() -> None:
    attack = recovering()
    all_sites = list(attack.sites)
    sent, hashes = contributions(attack, dict.fromkeys(all_sites, all_sites))
    shares = opened(attack, all_sites, all_sites, hashes["site 0"])  # as it should be
    total = read(attack, sent, all_sites, all_sites, hashes["site 0"], shares)
    assert total["rows[]"][0] == pytest.approx(6 * 40)
    # Site 0 is told of its group only, the others of all sites; then the sum is opened for all.
    attack = recovering()
    overs = dict.fromkeys(all_sites, all_sites) | {"site 0": list(GROUPS[0])}
    sent, hashes = contributions(attack, overs)
    shares = opened(attack, all_sites, all_sites, hashes["site 1"])
    assert "site 0" not in shares  # it opens nothing but what it masked for
    assert len(shares) >= 4
    with pytest.raises(
        DataError, match="do not fit together"
    ):  # the others' shares of its secret stay locked
        read(attack, sent, all_sites, all_sites, hashes["site 1"], shares)


@pytest.mark.parametrize("recover", [False, True])
def test_sites_that_are_asked_different_questions_give_a_sum_that_cannot_be_read(recover: bool) -> None:
    """Pasquini et al. (2022): with parameters of its own for one site, the sum would be about that site."""
    attack = recovering() if recover else Attack(sites_of(6), quorum=4)
    if not recover:
        attack.join()
    sent = {}
    for k, name in enumerate(attack.sites):
        centre = np.full((1, D), 0.0 if k else 1e6)
        sent[name] = attack.ask(name, centre=centre).arrays
    if recover:
        all_sites, question = (
            list(attack.sites),
            bytes.fromhex(attack.states["site 1"].masking["asked"]["question"]),
        )
        shares = opened(attack, all_sites, all_sites, question)
        with pytest.raises(DataError, match="do not fit together"):
            read(attack, sent, all_sites, all_sites, question, shares)
        return
    total = SecureSum(6, FIRST.meta["narrow"]).decode(add_masked(list(sent.values())))
    assert np.abs(total["sums[]"]).min() > 1e20  # noise
    assert abs(total["rows[]"][0] - 240) > 1e20


def test_no_site_can_be_isolated_by_three_studies_of_which_nobody_knows_all() -> None:
    sets = (range(7), (0, 1, 2), (3, 4, 5))  # the first minus the others is site 6
    ledgers: dict[str, list[Any]] = {f"site {k}": [] for k in range(7)}
    answered = []
    for members in sets:
        names = [f"site {k}" for k in members]
        attack = Attack({name: site(name, party(int(name[-1])), ledgers[name]) for name in names})
        replies = attack.join()
        if not any(map(is_refusal_to_join, replies.values())):
            answered.append(names)
            for name in names:
                attack.ask(name)
        for name in names:
            ledgers[name] = list(remembered(attack, name, ledgers[name]))
    assert answered == [[f"site {k}" for k in range(7)]] or len(answered) == 2
    incidence = np.array([[f"site {k}" in names for k in range(7)] for names in answered], dtype=float)
    for k in range(7):
        alone = np.eye(7)[k]
        combination, *_ = np.linalg.lstsq(incidence.T, alone, rcond=None)
        assert np.abs(incidence.T @ combination - alone).max() > 0.1


def test_the_groups_of_earlier_studies_hold_whatever_the_coordinator_says_later() -> None:
    attack = Attack(sites_of(6), groups=GROUPS)
    attack.join()
    before = {name: remembered(attack, name) for name in attack.sites}
    other = (("site 0", "site 1", "site 3"), ("site 2", "site 4", "site 5"))
    again = Attack(
        {name: site(name, party(int(name[-1])), before[name]) for name in attack.sites}, groups=other
    )
    assert all(is_refusal_to_join(reply) for reply in again.join().values())
    assert "was summed in a group with" in again.reasons("site 0")


def test_a_study_is_joined_once() -> None:
    attack = Attack(sites_of(3))
    attack.join()
    for name in attack.sites:
        attack.ask(name)
    assert all(is_refusal_to_join(reply) for reply in attack.join(round_=2).values())
    assert "joined once" in attack.reasons("site 0")


def test_a_row_more_is_not_shown_by_a_second_study() -> None:
    attack = Attack(sites_of(3))
    attack.join()
    before = remembered(attack, "site 0")
    for n, refused in ((40, False), (41, True), (39, True), (60, False)):
        own = {"site 0": site("site 0", party(0, n), before), "site 1": site("site 1", party(1)),
               "site 2": site("site 2", party(2))}  # fmt: skip
        again = Attack(own)
        assert is_refusal_to_join(again.join()["site 0"], "withheld") == refused
        assert ("data has changed" in again.reasons("site 0")) == refused
    corrected = rows(0)
    corrected[3, 1] += 1e-3
    local = LinearParty(GaussianStats.from_data(corrected, names=NAMES))
    again = Attack({**sites_of(3), "site 0": site("site 0", local, before)})
    assert is_refusal_to_join(again.join()["site 0"], "withheld")
    text = json.dumps([entry._asdict() for entry in before])
    assert str(rows(0)[:, 0].mean())[:6] not in text
    version = json.loads(next(entry.name for entry in before if entry.kind == "version"))
    assert int(version["rows"], 16) != 40  # encrypted


def test_parties_that_keep_ledgers_refuse_a_bootstrap(tmp_path: Path) -> None:
    """Sums of the same rows under more weights than there are rows would be solved for each row."""
    tables = {f"site {k}": pd.DataFrame(rows(k), columns=list(NAMES)) for k in range(3)}
    rng = np.random.default_rng(0)
    assert Parties(tables).resampled(rng).moments().n > 0
    with pytest.raises(UsageError, match="solved for single rows"):
        Parties(tables, privacy=Privacy(ledgers=tmp_path)).resampled(rng)


def test_a_regime_that_one_site_has_is_not_answered() -> None:
    treated = Regimes({frozenset(): party(0).stats, frozenset({"x1"}): party(5).stats})
    attack = Attack({**sites_of(3), "site 0": site("site 0", LinearParty(treated))})
    alone = {"": ["site 0", "site 1", "site 2"], "x1": ["site 0"]}
    assert is_refusal_to_join(attack.join(parts=alone)["site 0"])  # of what the agreement says
    assert "Only site 0 has rows in which x1 was set" in attack.reasons("site 0")
    for wrong in ({"": ["site 0", "site 1", "site 2"]}, {"": alone[""], "x1": alone[""]}):
        attack = Attack({**sites_of(3), "site 0": site("site 0", LinearParty(treated))})
        attack.join(parts=wrong)
        assert attack.states["site 1"].closed or attack.states["site 0"].closed


@pytest.mark.parametrize(
    ("task", "arrays"),
    [
        ("consensus", {"W": np.zeros((1, D, D)), "rho": np.array([-0.7])}),
        ("consensus", {"W": np.zeros((1, D, D)), "rho": np.array([0.0])}),
        ("average", {"W": np.zeros((1, D, D)), "tau": np.array([-0.3])}),
        ("average", {"W": np.full((1, D, D), 1e300), "tau": np.array([1.0])}),
        ("scale", {"group": np.array([-1, 0, 0]), "centre": np.zeros((1, D))}),
        ("scale", {"group": np.array([0, 0, 5]), "centre": np.zeros((1, D))}),
        ("scale", {"group": np.zeros(D), "centre": np.zeros((1, D))}),
        ("scatter", {"centre": np.full((1, D), 1e200)}),
        ("families", {"pairs": np.full((1, D, D), 7)}),
        ("scatter", {"adjustment": np.array([-1 / 39, 0, 0, 0, 0])}),  # a pole at 40 rows
        ("scatter", {"adjustment": np.array([0.5, 3, 0, 0, 0])}),
        ("scatter", {"adjustment": np.array([0.5, 2, 0, 1e3, 0])}),
    ],
)
def test_parameters_out_of_range_are_refused(task: str, arrays: dict[str, Any]) -> None:
    constants = {
        "group": np.zeros(D, dtype=np.int64), "centre": np.zeros((1, D)), "rows": np.array([100.0]),
        "scale": np.ones(D), "W": np.zeros((1, D, D)),
    }  # fmt: skip
    attack = Attack(sites_of(3))
    attack.join()
    meta = {"task": task, "relax": 1.5, "columns": list(NAMES), "regimes": [[]], "weighted": False}
    assert is_constant_refusal(attack.ask("site 0", **meta, **{**constants, **arrays}))


def test_negative_penalties_would_have_isolated_a_site() -> None:
    """The attack that ranges close: near a pole of its own resolvent, one site outweighs all the others."""
    locals_ = [party(k) for k in range(3)]
    known = {"group": np.zeros(D, dtype=np.int64), "centre": np.zeros((1, D)), "rows": np.array([120.0]),
             "scale": np.ones(D)}  # fmt: skip
    eigenvalues = np.linalg.eigvalsh(locals_[2]._gram(known, 0) / 120.0)
    near = {"W": np.zeros((1, D, D)), "rho": np.array([-eigenvalues[-1] * (1 + 1e-9)])}
    sent = [local.proximal(known, near["W"], near["rho"])[0] for local in locals_]
    assert np.abs(sent[2]).max() > 1e6 * max(np.abs(sent[0]).max(), np.abs(sent[1]).max())
    ask = Ask("consensus", {**known, **near}, {"relax": 1.5})
    assert "rho lies outside" in str(locals_[2].objection({}, ask))


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5),
    st.binary(max_size=5), st.lists(st.integers(-3, 3), max_size=3), st.dictionaries(st.text(max_size=3),
    st.integers(), max_size=2),
)  # fmt: skip
ARRAYS = st.sampled_from(
    [np.zeros(0), np.zeros((3, 32), np.uint8), np.zeros((3, 40)), np.full((3, 32), np.nan), np.array("text"),
     np.zeros((2, 2), complex), np.zeros(3, np.uint64), np.array([object()], dtype=object), np.array(2.0)]
)  # fmt: skip


PHASES = st.sampled_from([JOIN, ROSTER, DEAL, PARCELS, ASK, AGREE, OPEN, "answer", "nothing", ""])
ROUNDS = st.one_of(st.integers(1, 40), st.sampled_from([0, -1, 2**70, 1.5, None]))
WORDS = st.sampled_from(
    [
        "agreement",
        "study",
        "block",
        "senders",
        "over",
        "list",
        "signed",
        "question",
        "before",
        "task",
        "narrow",
        "columns",
        "regimes",
        "plan",
    ]
)
NAMED = st.sampled_from(["keys", "signatures", "heads", "parcels", "centre", "group", "W"])


@settings(max_examples=150, deadline=None)
@given(
    PHASES,
    ROUNDS,
    st.dictionaries(WORDS, JUNK, max_size=6),
    st.dictionaries(NAMED, ARRAYS, max_size=4),
    st.booleans(),
)
def test_malformed_messages_get_the_one_refusal(
    phase: str, round_: Any, meta: dict[str, Any], arrays: dict[str, Any], joined: bool
) -> None:
    attack = Attack(sites_of(3))
    if joined:
        attack.join()
        meta = {"study": attack.memory["agreement"]["study"], **meta}
    message = Message(COORDINATOR, "site 0", round_, phase, arrays, meta)
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # without a canonical form, no signature
        message = attack.masking.signed([message])[0]
    before = attack.states["site 0"]
    _, outbox = attack.sites["site 0"].step(before, [message])
    repeated = [reply for reply in outbox if reply.arrays is before.sent]
    allowed = (is_constant_refusal, is_refusal_to_join) if phase == JOIN else (is_constant_refusal,)
    assert all(any(one(reply) for one in allowed) for reply in outbox if reply not in repeated)


def test_keys_of_low_order_and_odd_units_are_refused() -> None:
    attack = Attack(sites_of(3))
    attack.memory = {}
    replies = attack.join()
    assert not any(map(is_constant_refusal, replies.values()))
    low = Attack(sites_of(3))
    real = low.sites["site 1"].step

    def weak(state: Any, inbox: Any) -> Any:
        state, (reply,) = real(state, inbox)
        if reply.phase == JOIN:
            from polydag.privacy.masking.site import (
                _agreement_hash,
                _signed_key,
            )  # its owner signs the weak key

            agreement = Agreement.from_json(state.masking["agreement"])
            text = _signed_key(
                _agreement_hash(agreement), "site 1", bytes(32), reply.arrays["head"].tobytes()
            )
            signature = np.frombuffer(IDENTITIES["site 1"].sign(text), np.uint8)
            arrays = {**reply.arrays, "key": np.zeros(32, np.uint8), "signature": signature}
            reply = dataclasses.replace(reply, arrays=arrays)
        return state, [reply]

    low.sites["site 1"] = type("Weak", (), {"step": staticmethod(weak)})()  # type: ignore[assignment]
    low.join()
    assert "public key is not valid" in low.reasons("site 0")
    for narrow in ({"rows[]": [10**9]}, {"rows[]": [1.5]}, {"rows[]": "x"}, [1], {"rows[]": [0, 0, 0, 0]}):
        odd = Attack(sites_of(3))
        odd.join()
        assert is_constant_refusal(odd.ask("site 0", narrow=narrow))


class Rows(Repeated):
    """Asks these sites for the number of rows, several times."""

    def _ask(self, number: int) -> Ask:
        return centre_question(NAMES, np.zeros(D, dtype=np.int64))


def test_one_wrong_share_is_left_out_and_its_sender_named() -> None:
    def wrong(message: Message) -> list[Message]:
        if message.sender == "site 2" and message.phase == OPEN:
            shares = message.arrays["shares"].copy()
            shares[3] ^= np.uint32(5)
            return [dataclasses.replace(message, arrays={"shares": shares})]
        return [message]

    unsigned = {name: key for name, key in DIRECTORY.items() if name != COORDINATOR}
    sites = {
        name: Site(own.local, protection=SiteProtection(IDENTITIES[name], Policy(unsigned)))
        for name, own in sites_of(6).items()
    }
    end = run(Coordinator(Rows(2), masking=Masking(quorum=4)), sites, carry=wrong).coordinator
    assert end.status == DONE, end.reason
    assert end.result["found"].tolist() == [240.0, 240.0]
    assert [text for text in end.refusals if "site 2 sent a wrong share" in text]
    assert not [text for text in end.refusals if "site 1" in text or "site 3" in text]


def test_what_is_said_to_be_protected_is_what_the_run_did() -> None:
    parts = [pd.DataFrame(rows(k, 60), columns=list(NAMES)) for k in range(12)]
    some = learned(parts, method="fedavg", participation=0.5, random_state=0)
    assert "sums over 6 or more of the 12 parties" in some.protection_
    # Sums over unions of threes: two of three know the third, and with sums of parameters one knows both.
    assert "as long as no other party reveals what it knows" in some.protection_
    everyone = learned(parts, method="fedavg")
    assert "sums over the 12 parties" in everyone.protection_
    assert "can be solved for each party's covariance" in everyone.protection_
    moments = learned(parts, method="moments").protection_
    assert "covariance" not in moments
    assert "up to 3 of them" in moments  # the quorum in one process


def test_moments_with_a_regime_of_one_party_stop_in_one_process_too() -> None:
    tables = {
        **{f"p{k}": party(k).stats for k in range(3)},
        "odd": Regimes({frozenset({"x0"}): party(4).stats}),
    }
    with pytest.raises(UsageError, match="Only odd has rows in which x0 was set"):
        learned(tables, method="moments")


def test_questions_of_two_rounds_are_chained() -> None:
    attack = Attack(sites_of(3))
    attack.join()
    assert attack.ask("site 0").phase == CONTRIBUTION
    assert is_constant_refusal(attack.ask("site 0", round_=2))  # it does not name the one before
    assert "another question as the one before" in attack.reasons("site 0")
    sound = run(
        Coordinator(Moments(NAMES), masking=Masking(identity=IDENTITIES[COORDINATOR], directory=DIRECTORY)),
        sites_of(3),
    )
    assert sound.finished


def refused_again(before: Any, local: Any) -> bool:
    attack = Attack({**sites_of(3), "site 0": site("site 0", local, before)})
    parts: dict[str, Any] = {}
    if isinstance(local.data, Regimes):
        parts = {"parts": {"": list(attack.sites), "x1": list(attack.sites)}}
        attack.sites.update({f"site {k}": site(f"site {k}", regimes(k)) for k in (1, 2)})
    return is_refusal_to_join(attack.join(**parts)["site 0"], "withheld")


def regimes(k: int, moved: int = 0) -> LinearParty:
    data, treated = rows(k), 20 + moved
    own = {frozenset(): data[treated:], frozenset({"x1"}): data[:treated]}
    return LinearParty(Regimes({key: GaussianStats.from_data(X, names=NAMES) for key, X in own.items()}))


def test_values_that_change_places_are_a_change_of_the_data() -> None:
    """Means and spreads stay the same, but the sum of products shows the two rows."""
    attack = Attack(sites_of(3))
    attack.join()
    before = remembered(attack, "site 0")
    swapped = rows(0)
    swapped[[3, 7], 1] = swapped[[7, 3], 1]
    shuffled = rows(0)[np.random.default_rng(1).permutation(40)]  # the same rows
    for data, refused in ((swapped, True), (shuffled, False)):
        local = LinearParty(GaussianStats.from_data(data, names=NAMES))
        assert refused_again(before, local) == refused
    order = [2, 0, 1]
    turned = GaussianStats.from_data(rows(0)[:, order], names=tuple(NAMES[j] for j in order))
    assert not refused_again(before, LinearParty(turned))


def test_a_row_that_moves_to_another_intervention_is_a_change_of_the_data() -> None:
    attack = Attack({f"site {k}": site(f"site {k}", regimes(k)) for k in range(3)})
    attack.join(parts={"": list(attack.sites), "x1": list(attack.sites)})
    before = remembered(attack, "site 0")
    assert not refused_again(before, regimes(0))
    assert refused_again(before, regimes(0, moved=1))
    assert not refused_again(before, party(0))  # the same rows, not divided


def test_labels_that_change_places_are_a_change_of_the_data() -> None:
    codes = np.random.default_rng(0).integers(0, 2, size=(40, 2))
    codes[:4] = [[0, 0], [1, 1], [0, 1], [1, 0]]
    key = bytes(32)

    def version(array: np.ndarray, levels: tuple[str, ...] = ("no", "yes"), names: Any = ("a", "b")) -> str:
        labels = pd.DataFrame(np.array(["no", "yes"])[array], columns=list("ab"))[list(names)]
        counts = DiscreteCounts.from_data(labels, levels=dict.fromkeys("ab", levels))
        return data_version(CountsParty(counts), key)

    first = Entry("s", 1, "version", version(codes))
    swapped = codes.copy()
    swapped[[0, 1], 1] = swapped[[1, 0], 1]
    assert change_problem([first], version(swapped), key, 10) is not None
    same = (version(codes[::-1]), version(codes, ("a third", "no", "yes")), version(codes, names=("b", "a")))
    assert all(change_problem([first], each, key, 10) is None for each in same)


def test_a_study_whose_name_was_used_before_is_not_joined() -> None:
    """Releases of noise are counted by study and round: under a name used before, new ones would be free."""
    attack = Attack(sites_of(3))
    attack.join(study="again")
    assert attack.ask("site 0").phase == CONTRIBUTION
    before = remembered(attack, "site 0")
    later = Attack({**sites_of(3), "site 0": site("site 0", party(0), before)})
    assert is_refusal_to_join(later.join(study="again")["site 0"], "joined")
    nameless = Attack(sites_of(3))
    assert all(is_refusal_to_join(reply, "agreement") for reply in nameless.join(study="").values())


def test_a_key_does_not_count_as_two_sites() -> None:
    with pytest.raises(UsageError, match="site 1 and site 2 have the same key"):
        Policy({**DIRECTORY, "site 2": DIRECTORY["site 1"]})
