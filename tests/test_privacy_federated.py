"""Masked sums behind the state machines: same answers, drop-outs, forged messages, the ledger, the rule."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from over_parties import learned
from polydag import GaussianStats, Notears, Regimes, simulate
from polydag.errors import DataError, UsageError
from polydag.federated import Coordinator, Federation, Message, Program, Site, run
from polydag.federated.methods.statistics.moments import Moments, summed_moments
from polydag.federated.methods.voting import Voting
from polydag.federated.methods.voting_party import VotingParty
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.party_data.regimes import centre_question
from polydag.federated.protocol.coordinator import DONE, STOPPED
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.engine import begin
from polydag.federated.protocol.messages import (
    AGREE,
    ANSWER,
    CONTRIBUTION,
    COORDINATOR,
    JOIN,
    OPEN,
    PARCELS,
    ROSTER,
    same_arrays,
)
from polydag.federated.protocol.programs import Answer, Ask, State, Total
from polydag.federated.protocol.site import SiteState
from polydag.federated.protocol.site_protection import SiteProtection
from polydag.federated.protocol.storage.resume import pack, unpack
from polydag.privacy import differencing, ledger
from polydag.privacy.ledger import Entry
from polydag.privacy.masking.identities import Identity
from polydag.privacy.policy import Policy
from polydag.privacy.settings import Privacy

pytestmark = pytest.mark.portable

D = 4
NAMES = tuple(f"x{i}" for i in range(D))
GROUP = np.zeros(D, dtype=np.int64)


IDENTITIES = {name: Identity() for name in (COORDINATOR, *(f"site {k}" for k in range(12)))}
DIRECTORY = {name: identity.public for name, identity in IDENTITIES.items()}


def sites_of(n: int, **allowed: Any) -> dict[str, Site]:
    dag = simulate.dag(D, expected_edges=4, random_state=0)
    names = [f"site {k}" for k in range(n)]
    policy = Policy(DIRECTORY, **allowed)
    return {
        name: Site(
            VotingParty(
                LinearParty(GaussianStats.from_data(simulate.linear(dag, n=30 + 5 * k, random_state=k))),
                Notears(),
            ),
            protection=SiteProtection(IDENTITIES[name], policy),
        )
        for k, name in enumerate(names)
    }


def in_the_open(sites: dict[str, Site]) -> dict[str, Site]:
    return {name: Site(site.local) for name, site in sites.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class Repeated:
    """Asks for the same sums several times, of whom it likes; those who stay away do not stop it."""

    rounds: int
    over: tuple[tuple[str, ...] | None, ...] = (None,)
    tolerates_absence: bool = True

    def _ask(self, number: int) -> Ask:
        over = self.over[number % len(self.over)]
        return dataclasses.replace(centre_question(NAMES, GROUP), sites=over)

    def begin(self) -> tuple[State, Ask]:
        return {"found": np.zeros(0), "sites": np.zeros(0)}, self._ask(0)

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        state = {
            "found": np.append(state["found"], total.arrays["rows"][0]),
            "sites": np.append(state["sites"], total.n_sites),
        }
        number = len(state["found"])
        return (state, Answer(state)) if number == self.rounds else (state, self._ask(number))


def masked(program: Program, **settings: Any) -> Coordinator:
    masking = Masking(identity=IDENTITIES[COORDINATOR], directory=DIRECTORY, **settings)
    return Coordinator(program, masking=masking)


def as_coordinator(message: Message) -> Message:
    """A message that a dishonest coordinator has changed, with its signature."""
    return Masking(identity=IDENTITIES[COORDINATOR]).signed([message])[0]


def without(sender: str, when: Callable[[Message], bool]) -> Callable[[Message], list[Message]]:
    return lambda message: [] if message.sender == sender and when(message) else [message]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return simulate.linear(simulate.dag(6, expected_edges=7, random_state=4), n=240, random_state=2)


@pytest.mark.parametrize("method", ["admm", "moments", "fedavg", "voting"])
def test_masked_equals_unmasked(method: str, rows: pd.DataFrame) -> None:
    parts = [rows.iloc[k::6] for k in range(6)]
    hidden = learned(parts, method=method)
    plain = learned(parts, method=method, privacy="none")
    assert np.array_equal(hidden.graph_.adjacency, plain.graph_.adjacency)
    assert np.abs(hidden.weights_ - plain.weights_).max() < 1e-6
    assert hidden.disclosure_["masked"].all()
    assert not plain.disclosure_["masked"].any()
    assert hidden.protection_.startswith("privacy = masked")
    assert plain.protection_.startswith("NOT PRIVATE")
    seen = set(hidden.disclosure_["name"])
    assert {"join: key", "join: signature"} <= seen
    assert ("open: shares" in seen) == (method in ("fedavg", "voting"))  # the others need every site


def test_any_penalty_that_is_chosen_by_stability_takes_groups_of_parties(rows: pd.DataFrame) -> None:
    parts = [rows.iloc[k::12] for k in range(12)]
    model = learned(parts, method="voting", lambda_="stability", random_state=0)
    assert model.graph_.is_dag
    assert set(model.disclosure_.groupby("round")["site"].nunique()) == {6, 12}


def test_two_parties_are_told_what_to_do(rows: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match=r"at least 3 sites, and there are 2.*mode='none'"):
        learned([rows, rows])
    with pytest.raises(UsageError, match="more than half"):
        learned([rows] * 5, method="fedavg", quorum=2)


def test_a_number_too_large_for_the_ring_is_named_and_the_study_stops(rows: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"site 2 does not take part: means of column x3 cannot .* units"):
        learned([rows, rows.assign(x3=rows["x3"] * 1e28), rows], method="moments")


@pytest.mark.parametrize("method", ["admm", "moments", "fedavg"])
def test_numbers_too_small_for_the_ring_are_refused_and_not_rounded_away(
    rows: pd.DataFrame, method: str
) -> None:
    for factor in (1e-15, 1e-18, 1e-30, 1e-150):
        small = rows.assign(x3=rows["x3"] * factor)
        with pytest.raises(DataError, match=r"site 2 does not take part: Column x3 varies .* 33 digits"):
            learned([rows, small, rows], method=method)


def test_the_least_numbers_that_are_added_keep_their_digits(rows: pd.DataFrame) -> None:
    least = np.ones(6)
    least[3] = 2e-13 / rows["x3"].std()
    parts = {f"p{k}": GaussianStats.from_data(rows.iloc[k::3] * least) for k in range(3)}
    found, plain = (summed_moments(parts, Privacy(mode=mode))[0] for mode in ("masked", "none"))
    assert isinstance(found, GaussianStats)
    assert isinstance(plain, GaussianStats)
    size = np.sqrt(np.outer(plain.scatter.diagonal(), plain.scatter.diagonal()))
    assert np.abs((found.scatter - plain.scatter) / size).max() < 1e-10


@pytest.mark.parametrize("program", [Moments(NAMES), Voting(NAMES)], ids=["moments", "voting"])
def test_every_phase_can_be_saved_and_restored(program: Program) -> None:
    sites = sites_of(4)
    coordinator = masked(program)
    expected = run(Coordinator(program), in_the_open(sites)).coordinator.result
    state, queue = coordinator.start(list(sites))
    federation = Federation(state, begin(sites).sites)
    seen = set()
    for _ in range(40):
        arrived, queue = queue, []
        for message in arrived:
            seen.add(message.phase)
            federation = unpack(pack(federation), sites)
            if message.recipient == COORDINATOR:
                state, out = coordinator.step(federation.coordinator, [message])
                federation = Federation(state, federation.sites)
            else:
                own, out = sites[message.recipient].step(federation.sites[message.recipient], [message])
                federation = Federation(federation.coordinator, {**federation.sites, message.recipient: own})
            queue += out
        if federation.finished:
            break
    assert {JOIN, ROSTER, CONTRIBUTION} <= seen
    for name, array in expected.items():
        exact = 1e-4 if name == "log_scales" else 1e-12  # of units, where only factors count
        assert federation.coordinator.result[name] == pytest.approx(array, rel=1e-12, abs=exact)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31 - 1))
def test_lost_messages_of_any_phase_change_nothing(seed: int) -> None:
    sites = sites_of(5)
    rng = np.random.default_rng(seed)
    lost: set[tuple[str, str, int, str]] = set()

    def losing(message: Message) -> list[Message]:
        key = (message.sender, message.recipient, message.round, message.phase)
        if key in lost or rng.random() > 0.15:
            return [message, message] if rng.random() < 0.2 else [message]
        lost.add(key)
        return []

    program = Repeated(3, tolerates_absence=False)
    coordinator = dataclasses.replace(masked(program), patience=20)
    end = run(coordinator, sites, carry=losing).coordinator
    assert end.status == DONE, end.reason
    assert end.result["found"].tolist() == [sum(30 + 5 * k for k in range(5))] * 3


def test_a_site_that_drops_out_takes_its_group_along_and_the_rest_is_exact() -> None:
    sites = sites_of(7)
    rows = {name: site.local.n_rows for name, site in sites.items()}
    gone = without("site 5", lambda m: m.round == 2 and m.phase == CONTRIBUTION)
    end = run(masked(Repeated(3)), sites, carry=gone)
    assert end.coordinator.status == DONE, end.coordinator.reason
    group = next(group for group in differencing.groups(tuple(sites)) if "site 5" in group)
    left = sum(count for name, count in rows.items() if name not in group)
    assert end.coordinator.result["found"].tolist() == [sum(rows.values()), left, sum(rows.values())]
    assert end.coordinator.result["sites"].tolist() == [7, 7 - len(group), 7]
    sets = ledger.summed_sets(ledger.parse(end.sites["site 0"].ledger))
    assert sorted(map(len, sets)) == [7 - len(group), 7]


def test_sites_may_drop_out_between_their_numbers_and_the_opening() -> None:
    sites = sites_of(6)
    away = without("site 1", lambda m: m.round == 1 and m.phase == OPEN)
    end = run(masked(Repeated(2)), sites, carry=away).coordinator
    assert end.status == DONE, end.reason
    assert end.result["sites"].tolist() == [6, 6]
    both = lambda m: [] if m.phase == OPEN and m.sender in ("site 1", "site 2") else [m]  # noqa: E731
    end = run(masked(Repeated(1), quorum=5), sites, carry=both).coordinator
    assert end.status == STOPPED
    assert "site 1, site 2" in end.reason


def test_a_sum_without_part_of_a_group_is_not_formed_even_if_it_is_the_first() -> None:
    sites = sites_of(5)  # one group
    gone = lambda m: [] if m.sender in ("site 3", "site 4") and m.phase == CONTRIBUTION else [m]  # noqa: E731
    end = run(masked(Repeated(1), quorum=3), sites, carry=gone).coordinator
    assert end.status == STOPPED
    assert "reveal single ones in combination with earlier sums" in end.reason
    groups = (tuple(f"site {k}" for k in range(3)), tuple(f"site {k}" for k in range(3, 6)))
    gone = lambda m: [] if m.sender in ("site 3", "site 4") and m.phase == CONTRIBUTION else [m]  # noqa: E731
    end = run(masked(Repeated(1), groups=groups), sites_of(6), carry=gone).coordinator
    assert end.status == DONE, end.reason
    assert end.result["sites"].tolist() == [3]


def test_a_site_that_is_away_while_secrets_are_shared_out_is_left_out_of_the_block() -> None:
    sites = sites_of(6)
    away = without("site 0", lambda m: m.phase == PARCELS)
    end = run(masked(Repeated(2)), sites, carry=away).coordinator
    assert end.status == DONE, end.reason
    assert set(end.result["sites"].tolist()) <= {3.0, 5.0}


def test_forged_changed_replayed_and_reordered_messages_are_refused_with_the_sender_named() -> None:
    sites = sites_of(4)
    coordinator = masked(Repeated(2, tolerates_absence=False))
    sent: list[Message] = []

    def meddling(message: Message) -> list[Message]:
        if message.phase != CONTRIBUTION:
            return [message]
        old, sent[:] = list(sent), [*sent, message]
        changed = {name: array.copy() for name, array in message.arrays.items()}
        changed["rows"].reshape(-1)[0] ^= np.uint64(1)
        forged = [
            dataclasses.replace(message, arrays=changed),
            dataclasses.replace(message, sender="site 0" if message.sender != "site 0" else "site 1"),
            dataclasses.replace(message, sender="mallory"),
            *(dataclasses.replace(before, round=message.round) for before in old if before.round == 1),
        ]
        return [*forged, message]

    end = run(coordinator, sites, carry=meddling).coordinator
    assert end.status == DONE, end.reason
    assert end.result["found"].tolist() == [sum(site.local.n_rows for site in sites.values())] * 2
    told = "\n".join(end.refusals)
    for name in sites:
        assert f"refused a message from {name}: it is not signed by its sender" in told
    assert "from mallory: it is not a site of this study" in told


@pytest.mark.parametrize("program", [Repeated(2), Repeated(2, tolerates_absence=False)])
def test_a_question_of_any_phase_that_lacks_something_is_refused_and_asked_again(program: Program) -> None:
    damaged: set[tuple[int, str]] = set()

    def once(message: Message) -> list[Message]:
        at = (message.round, message.phase)
        if message.recipient != "site 1" or not message.arrays or at in damaged or message.phase == ANSWER:
            return [message]
        damaged.add(at)
        return [dataclasses.replace(message, arrays={})]

    found = run(masked(program), sites_of(4), carry=once)
    assert found.finished
    assert {"roster", "ask"} <= {phase for _, phase in damaged}
    assert len(found.coordinator.refusals) == len(damaged)
    assert all("site 1 refused the question" in text for text in found.coordinator.refusals)
    assert all("not signed by the coordinator" in text for text in found.sites["site 1"].refusals)
    assert not any(
        "refused" in line for line in found.sites["site 1"].ledger
    )  # no question of the coordinator


@pytest.mark.parametrize("phase", [CONTRIBUTION, JOIN, ROSTER, OPEN])
def test_a_malformed_message_of_any_phase_is_refused_though_it_comes_first(phase: str) -> None:
    def first(message: Message) -> list[Message]:
        if message.sender != "site 0" or message.phase != phase or message.round != 1:
            return [message]
        return [dataclasses.replace(message, arrays={})]

    unsigned = {name: key for name, key in DIRECTORY.items() if name != COORDINATOR}
    sites = {
        name: dataclasses.replace(site, protection=SiteProtection(IDENTITIES[name], Policy(unsigned)))
        for name, site in sites_of(6).items()
    }
    found = run(Coordinator(Repeated(1), masking=Masking()), sites, carry=first).coordinator
    assert found.refusals
    assert all("from site 0: it holds {}" in text for text in found.refusals)


def test_a_coordinator_with_two_lists_is_found_out() -> None:
    sites = sites_of(6)
    coordinator = masked(Repeated(1), quorum=4)

    def lying(message: Message) -> list[Message]:
        if message.phase in (OPEN, AGREE) and message.sender == COORDINATOR and message.recipient == "site 0":
            smaller = dataclasses.replace(
                message, phase=AGREE, meta={**message.meta, "list": [f"site {k}" for k in range(1, 6)]}
            )
            return [as_coordinator(smaller), message]
        return [message]

    end = run(coordinator, sites, carry=lying)
    assert end.coordinator.status == STOPPED or end.coordinator.result["sites"].tolist() == [6]
    assert "in the sum without its group" in end.sites["site 0"].refusals[0]


def test_sites_insist_on_masks_members_and_identities() -> None:
    def why(program: Coordinator, sites: dict[str, Site], site: str) -> str:
        end = run(program, sites)
        assert end.coordinator.status == STOPPED
        reason = end.coordinator.reason
        assert f"{site} refused the question" in reason or f"{site} does not join: " in reason
        return end.sites[site].refusals[0]

    sites = sites_of(4)
    assert "not signed by the coordinator" in why(Coordinator(Moments(NAMES)), sites, "site 0")
    assert "adds up without masks" in why(masked(Moments(NAMES)), in_the_open(sites), "site 0")
    stranger = {**sites, "site 3": changed(sites["site 3"], identity=Identity())}
    unsigned = Coordinator(Moments(NAMES), masking=Masking(identity=IDENTITIES[COORDINATOR], directory={
        **DIRECTORY, "site 3": stranger["site 3"].protection.identity.public}))  # type: ignore[union-attr]  # fmt: skip
    assert "in the name of site 3 is not signed by site 3" in why(unsigned, stranger, "site 0")
    few = {name: value for name, value in DIRECTORY.items() if name != "site 2"}
    narrow = {**sites, "site 1": changed(sites["site 1"], policy=Policy(few))}
    assert "site 2 is not in this site's directory" in why(masked(Moments(NAMES)), narrow, "site 1")
    assert "at least 5 sites" in why(masked(Moments(NAMES)), sites_of(4, min_sites=5), "site 0")
    assert "its owner asks for 4" in why(masked(Moments(NAMES), quorum=2), sites_of(4, quorum=4), "site 0")
    assert "does not allow sums without" in why(masked(Repeated(1)), sites_of(4, recover=False), "site 0")
    assert "does not allow the question" in why(
        masked(Moments(NAMES)), sites_of(4, tasks=("vote",)), "site 0"
    )
    assert "allows 1 rounds" in why(
        masked(Repeated(2, tolerates_absence=False)), sites_of(4, rounds=1), "site 0"
    )
    assert "allows 100" in why(masked(Moments(NAMES)), sites_of(4, bytes=100), "site 0")
    other = ("site 0", "site 1", "site 2")
    assert "was summed in a group with" in why(masked(Moments(NAMES)), sites_of(4, group=other), "site 0")


def changed(site: Site, **protection: Any) -> Site:
    assert site.protection is not None
    return dataclasses.replace(site, protection=dataclasses.replace(site.protection, **protection))


def test_a_repeated_question_gets_the_stored_bytes_and_a_changed_one_does_too() -> None:
    sites = sites_of(4)
    asked: list[Message] = []
    answers: list[Message] = []

    def twice(message: Message) -> list[Message]:
        if message.phase == "ask" and message.recipient == "site 2":
            asked.append(message)
            other = dataclasses.replace(message, arrays={"group": GROUP, "centre": np.ones((1, D))})
            return [message, as_coordinator(other)]
        if message.phase == CONTRIBUTION and message.sender == "site 2":
            answers.append(message)
        return [message]

    assert run(masked(Moments(NAMES)), sites, carry=twice).finished
    for first, second in (
        itertools.batched(answers, 2)
        if hasattr(itertools, "batched")
        else zip(answers[::2], answers[1::2], strict=True)
    ):
        assert same_arrays(first.arrays, second.arrays)
        assert first.meta == second.meta
    assert len(answers) == 2 * len(asked)


def test_a_sum_over_a_part_of_a_group_is_refused() -> None:
    everyone = [f"site {k}" for k in range(9)]
    over = (tuple(everyone[:6]), tuple(everyone[3:]), tuple(everyone[:7]))
    end = run(masked(Repeated(3, over)), sites_of(9))
    assert end.coordinator.status == STOPPED
    assert end.coordinator.round == 3
    assert "site 6 is in the sum without its group site 6, site 7, site 8" in end.sites["site 0"].refusals[0]


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 12), st.lists(st.lists(st.integers(0, 11), min_size=1, unique=True), max_size=8))
def test_no_combination_of_allowed_sums_shows_fewer_than_three_sites(n: int, sets: list[list[int]]) -> None:
    divided = differencing.groups([str(k) for k in range(n)])
    kept = [[str(k) for k in each] for each in sets]
    kept = [each for each in kept if differencing.sum_problem(each, divided) is None]
    kept += [[site for group in chosen for site in group] for chosen in (divided[:1], divided)]
    incidence = np.array([[str(k) in each for k in range(n)] for each in kept], dtype=float)
    # Any combination is constant on columns that are equal: so supports are unions of such classes.
    classes = {tuple(column) for column in incidence.T if column.any()}
    assert min(int((np.array(each) == incidence.T).all(axis=1).sum()) for each in classes) >= 3
    rng = np.random.default_rng(0)
    for _ in range(20):
        combined = rng.integers(-2, 3, size=len(kept)) @ incidence
        assert np.count_nonzero(combined) == 0 or np.count_nonzero(combined) >= 3


def test_groups_cover_all_sites_any_of_their_unions_is_allowed_and_known_ones_stay() -> None:
    for n in range(3, 14):
        all_sites = [str(k) for k in range(n)]
        divided = differencing.groups(all_sites)
        assert [site for group in divided for site in group] == all_sites
        assert min(map(len, divided)) >= 3
        for size in range(1, len(divided) + 1):
            for chosen in itertools.combinations(divided, size):
                union = [site for group in chosen for site in group]
                assert differencing.sum_problem(union, divided) is None
                assert differencing.groups(union) == chosen  # the halves of lambda_="stability" keep groups
        grown = differencing.groups([*all_sites, "x", "y", "z"], divided)
        assert grown == (*divided, ("x", "y", "z"))


def test_ledgers_are_kept_over_studies_and_rule_out_a_later_difference(
    rows: pd.DataFrame, tmp_path: Path
) -> None:
    parts = {f"site {k}": rows.iloc[k::5] for k in range(5)}
    setting = {"method": "moments", "ledgers": str(tmp_path / "ledgers")}
    learned(parts, **setting)
    file = tmp_path / "ledgers" / "site 0.jsonl"
    first = ledger.read_intact(file)
    kinds = {"identity", "data", "protocol", "sum", "group", "head", "version"}
    assert {entry.kind for entry in first} == kinds
    learned(parts, **setting)
    assert len(ledger.read_intact(file)) == 2 * len(first) - 1
    assert file.stat().st_mode & 0o077 == 0
    fewer = {name: part for name, part in parts.items() if name != "site 4"}
    with pytest.raises(DataError, match=r"site 0 does not take part: .* summed in a group with .* site 4"):
        learned(fewer, **setting)
    lines = file.read_text().splitlines()
    changed = json.loads(lines[3]) | {"bytes": 1}
    file.write_text("\n".join([*lines[:3], json.dumps(changed), *lines[4:]]) + "\n")
    with pytest.raises(DataError, match="entry 4 does not fit"):
        learned(parts, **setting)


def lines(count: int) -> list[str]:
    entries = [Entry("s", k, "data", f"a{k}", "2", 16, True, 3, 0.0, 0.0) for k in range(count)]
    return [ledger.text_of(entry) for entry in entries]


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.data())
def test_any_change_of_a_ledger_breaks_its_chain_there(n: int, data: st.DataObject) -> None:
    first = ledger.sealed(lines(n)[:1])
    chain = [*ledger.parse(first), *ledger.parse(ledger.sealed(lines(n)[1:], ledger.parse(first)[-1].hash))]
    assert ledger.first_broken(chain) is None
    place = data.draw(st.integers(0, n - 2))
    assert (
        ledger.first_broken([*chain[:place], chain[place]._replace(bytes=17), *chain[place + 1 :]]) == place
    )
    assert ledger.first_broken([*chain[:place], *chain[place + 1 :]]) == place
    assert ledger.first_broken([*chain[:place], chain[place + 1], chain[place], *chain[place + 2 :]]) == place
    assert ledger.first_broken([*chain[:place], chain[place], *chain[place:]]) == place + 1


def test_a_site_state_holds_no_open_numbers(rows: pd.DataFrame) -> None:
    sites = sites_of(4)
    end = run(masked(Moments(NAMES)), sites)
    own = sites["site 0"].local.data  # type: ignore[attr-defined]
    state: SiteState = end.sites["site 0"]
    held = np.concatenate(
        [np.ravel(a) for a in end.coordinator.summing.values() if isinstance(a, np.ndarray)]
    )
    assert not np.isin(own.scatter.view(np.uint64), held).any()
    assert all(array.dtype != float for array in state.sent.values())


def test_the_attack_is_exact_in_the_open_and_no_better_than_a_guess_under_masks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    import leakage

    found = pd.DataFrame(leakage.attacks(3))
    errors = found.set_index(["method", "protection"])[["covariance_error", "guess_error"]].astype(float)
    assert errors.loc[("admm", "none"), "covariance_error"].max() < 1e-10
    assert errors.loc[("moments", "none"), "covariance_error"].max() < 1e-10
    for protection in ("masked", "epsilon 1"):
        hidden = errors.xs(protection, level="protection")
        assert (hidden["covariance_error"] > hidden["guess_error"]).all()


@pytest.mark.filterwarnings("ignore::polydag.errors.ConvergenceWarning")  # with masks and without
@pytest.mark.parametrize("method", ["admm", "fedavg", "moments"])
@pytest.mark.parametrize("factor", [1e-9, 1e5])
def test_units_do_not_matter_under_masks(rows: pd.DataFrame, method: str, factor: float) -> None:
    """Also those of one column among others: platelets in thousands beside a share."""
    for scaled in (rows * factor, rows.assign(x3=rows["x3"] * factor)):
        parts = [scaled.iloc[k::4] for k in range(4)]
        hidden = learned(parts, method=method)
        plain = learned(parts, method=method, privacy="none")
        assert np.array_equal(hidden.graph_.adjacency, plain.graph_.adjacency)
        sizes = scaled.std().to_numpy()
        relative = np.abs(hidden.weights_ - plain.weights_) * sizes[:, None] / sizes
        assert relative.max() < (1e-9 if method == "moments" else 1e-5)
        assert hidden.n_rounds_ == plain.n_rounds_


def test_moments_of_large_numbers_under_masks(rows: pd.DataFrame) -> None:
    late = rows.assign(x2=1.7e12 + 1e9 * rows["x2"])  # milliseconds since 1970
    model = learned([late.iloc[k::3] for k in range(3)], method="moments")
    assert model.n_rounds_ == 2
    assert np.array_equal(model.graph_.adjacency, Notears().fit(late).graph_.adjacency)


def test_rows_that_few_sites_have_are_not_summed(rows: pd.DataFrame) -> None:
    watched = [GaussianStats.from_data(rows.iloc[k::4]) for k in range(3)]
    treated = Regimes({frozenset({"x3"}): watched[2]})
    tables = {"a": watched[0], "b": watched[1], "c": watched[2], "south": treated}
    with pytest.raises(UsageError, match=r"Only south has rows in which x3 was set: .* masked or not"):
        learned(tables, method="moments")
    learned(tables, method="moments", privacy="none")
