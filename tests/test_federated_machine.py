"""The state machines: faults, saving and restoring, and that only sums matter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import GaussianStats, Notears, simulate
from polydag.errors import DataError, UsageError
from polydag.federated import Coordinator, Message, Site, run
from polydag.federated.methods.admm import Admm
from polydag.federated.methods.fedavg import FedAvg
from polydag.federated.methods.schedules import Default
from polydag.federated.methods.statistics.moments import Moments
from polydag.federated.methods.varying import Varying
from polydag.federated.methods.varying_party import VaryingParty
from polydag.federated.methods.voting import VotingPath
from polydag.federated.methods.voting_party import VotingParty
from polydag.federated.models.linear_coordinator import LinearCoordinator
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.models.network_coordinator import NetworkCoordinator
from polydag.federated.models.network_party import NetworkParty
from polydag.federated.protocol.coordinator import DONE, RUNNING, STOPPED, CoordinatorState
from polydag.federated.protocol.engine import Federation, begin
from polydag.federated.protocol.messages import CONTRIBUTION, COORDINATOR, same_arrays, timeout
from polydag.federated.protocol.programs import Program
from polydag.federated.protocol.site import SiteState
from polydag.federated.protocol.storage.resume import pack, unpack
from polydag.federated.protocol.storage.states import from_arrays, load, save, to_arrays
from polydag.federated.protocol.sums import total
from polydag.knowledge import Knowledge

D, K = 5, 4
NAMES = tuple(f"x{i}" for i in range(D))
GROUP = np.zeros(D, dtype=np.int64)
MASKS = Knowledge().masks(NAMES)
WEIGHTS = LinearCoordinator(NAMES, MASKS, GROUP, 0.05, 0.3, "logdet")
SHORT = Default(pace=8, patience=6)


@pytest.fixture(scope="module")
def sites() -> dict[str, Site]:
    dag = simulate.dag(D, expected_edges=6, random_state=0)
    tables = [simulate.linear(dag, n=30 + 10 * k, random_state=k) for k in range(K)]
    return {f"site {k}": Site(LinearParty(GaussianStats.from_data(t))) for k, t in enumerate(tables)}


def admm() -> Coordinator:
    return Coordinator(Admm(LinearCoordinator(NAMES, MASKS, GROUP, "bic", "ebic", "logdet"), SHORT))


def moments() -> Coordinator:
    return Coordinator(Moments(NAMES))


def fedavg(sites: dict[str, Site]) -> Coordinator:
    return Coordinator(FedAvg(WEIGHTS, tuple((name,) for name in sites), 0.5, 7, max_rounds=12))


def voting(data: GaussianStats) -> VotingParty:
    return VotingParty(LinearParty(data), Notears())


def losing(sender: str, when: Callable[[Message], bool]) -> Callable[[Message], list[Message]]:
    return lambda message: [] if message.sender == sender and when(message) else [message]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_a_total_is_the_sum_of_its_parts_in_any_order(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    received = {f"s{k}": {"a": rng.normal(size=3), "b": rng.normal(size=(2, 2))} for k in range(len(sizes))}
    all_sites = list(received)
    shuffled = {name: received[name] for name in rng.permutation(all_sites)}
    first, second = total(received, all_sites), total(shuffled, all_sites)
    assert same_arrays(first, second)
    assert first["a"] == pytest.approx(sum(part["a"] for part in received.values()))


def test_every_round_can_be_saved_and_restored_bit_for_bit(sites: dict[str, Site]) -> None:
    whole = run(admm(), sites)
    assert whole.finished
    federation = begin(sites)
    rounds = 0
    while not federation.finished:
        step = run(admm(), sites, federation, rounds=1)
        federation = unpack(pack(step), sites)
        rounds += 1
    assert rounds == whole.coordinator.round - 1
    assert same_arrays(federation.coordinator.result, whole.coordinator.result)
    assert federation.disclosed == whole.disclosed


@pytest.mark.parametrize("method", ["moments", "varying", "voting"])
def test_other_methods_can_be_saved_at_every_round_too(sites: dict[str, Site], method: str) -> None:
    programs: dict[str, Program] = {
        "moments": Moments(NAMES),
        "varying": Varying(NAMES, MASKS, GROUP, "bic", "ebic", "logdet", rounds=6),
        "voting": VotingPath(LinearCoordinator(NAMES, MASKS, GROUP, "bic", 0.0, "logdet")),
    }
    coordinator = Coordinator(programs[method])
    kind = VaryingParty if method == "varying" else LinearParty
    own = {name: Site(kind(site.local.data)) for name, site in sites.items()}
    if method == "voting":
        own = {
            name: Site(VotingParty(LinearParty(site.local.data), Notears())) for name, site in sites.items()
        }
    whole = run(coordinator, own)
    assert whole.finished
    for stop in range(1, whole.coordinator.round):
        part = unpack(pack(run(coordinator, own, rounds=stop)), own)
        assert same_arrays(run(coordinator, own, part).coordinator.result, whole.coordinator.result)


def test_restoring_at_any_round_gives_the_same_end(sites: dict[str, Site], tmp_path: Path) -> None:
    coordinator = fedavg(sites)
    whole = run(coordinator, sites)
    assert whole.finished
    for stop in range(1, whole.coordinator.round, 3):
        part = run(coordinator, sites, rounds=stop)
        assert part.coordinator.status == RUNNING
        save(part.coordinator, tmp_path / "coordinator.npz")
        states = {}
        for name, state in part.sites.items():
            save(state, tmp_path / "site.npz")
            states[name] = load(SiteState, tmp_path / "site.npz")
        again = Federation(load(CoordinatorState, tmp_path / "coordinator.npz"), states)
        end = run(fedavg(sites), sites, again)
        assert same_arrays(end.coordinator.result, whole.coordinator.result)


def test_a_saved_state_in_the_middle_of_a_round_keeps_what_came_in(sites: dict[str, Site]) -> None:
    coordinator = moments()
    state, asks = coordinator.start(list(sites))
    replies = [sites[m.recipient].step(SiteState(m.recipient), [m])[1][0] for m in asks]
    state, out = coordinator.step(state, replies[:2])
    assert out == []
    assert state.missing == ("site 2", "site 3")
    restored = from_arrays(CoordinatorState, to_arrays(state))
    assert restored.missing == state.missing
    after, again = coordinator.step(state, replies[2:]), coordinator.step(restored, replies[2:])
    assert same_arrays(after[0].question, again[0].question)
    assert [m.recipient for m in coordinator.resume(restored)[1]] == ["site 2", "site 3"]


def test_step_leaves_the_old_state_alone(sites: dict[str, Site]) -> None:
    coordinator = moments()
    state, asks = coordinator.start(list(sites))
    reply = sites["site 0"].step(SiteState("site 0"), [asks[0]])[1]
    new, _ = coordinator.step(state, reply)
    assert dict(state.received) == {}
    assert set(new.received) == {"site 0"}


def test_messages_that_do_not_fit_are_refused_with_their_sender(sites: dict[str, Site]) -> None:
    coordinator = moments()
    state, asks = coordinator.start(list(sites))
    good = sites["site 0"].step(SiteState("site 0"), [asks[0]])[1][0]
    nan = {name: array.copy() for name, array in good.arrays.items()}
    nan["sums[]"][3] = np.nan
    short = {**good.arrays, "rows[]": np.ones(3)}
    state, _ = coordinator.step(state, [dataclasses.replace(good, sender="site 3")])
    cases = [
        (dataclasses.replace(good, sender="mallory"), "not a site"),
        (dataclasses.replace(good, round=7), "round 7, not for 1"),
        (dataclasses.replace(good, arrays=nan), "sums[][3] is nan"),
        (dataclasses.replace(good, arrays=short), "instead of"),
        (dataclasses.replace(good, arrays={"rows[]": np.array(["a"])}), "which is not sent"),
        (dataclasses.replace(good, phase="ask"), "does not send"),
    ]
    for message, why in cases:
        after, (reply,) = coordinator.step(state, [message])
        assert (reply.recipient, reply.phase) == (message.sender, "refused")
        assert why in reply.meta["why"]
        assert message.sender in after.refusals[-1]
        assert why in after.refusals[-1]
        assert after.missing == state.missing
    state, _ = coordinator.step(state, [good])
    after, (reply,) = coordinator.step(state, [good])
    assert "answered already" in reply.meta["why"]


def test_a_repeated_question_gets_the_stored_answer_and_an_old_one_none(sites: dict[str, Site]) -> None:
    site = sites["site 1"]
    _, asks = moments().start(list(sites))
    ask = next(m for m in asks if m.recipient == "site 1")
    state, (first,) = site.step(SiteState("site 1"), [ask])
    same, (second,) = site.step(state, [ask])
    assert same is state
    assert second.arrays is state.sent
    assert same_arrays(first.arrays, second.arrays)
    later = dataclasses.replace(state, round=5)
    assert site.step(later, [ask]) == (later, [])
    _, (refused,) = site.step(state, [dataclasses.replace(ask, sender="mallory")])
    assert refused.phase == "refused"


def test_a_lost_message_is_asked_for_again(sites: dict[str, Site]) -> None:
    lost: list[Message] = []

    def once(message: Message) -> list[Message]:
        if message.sender == "site 2" and message.round == 1 and not lost:
            lost.append(message)
            return []
        return [message]

    assert same_arrays(
        run(moments(), sites, carry=once).coordinator.result, run(moments(), sites).coordinator.result
    )
    assert len(lost) == 1


def test_repeated_and_strange_messages_change_nothing(sites: dict[str, Site]) -> None:
    def twice(message: Message) -> list[Message]:
        forged = dataclasses.replace(message, sender="mallory")
        return [message, message, forged] if message.recipient == COORDINATOR else [message, message]

    noisy = run(moments(), sites, carry=twice)
    assert same_arrays(noisy.coordinator.result, run(moments(), sites).coordinator.result)
    assert any("mallory" in text for text in noisy.coordinator.refusals)
    assert any("answered already" in text for text in noisy.coordinator.refusals)


@pytest.mark.parametrize("damage", ["missing", "nan"])
def test_a_site_that_stays_away_stops_admm_with_a_state_that_resumes(
    sites: dict[str, Site], damage: str
) -> None:
    def faulty(message: Message) -> list[Message]:
        if message.sender != "site 1" or message.round < 6:
            return [message]
        if damage == "missing":
            return []
        broken = {name: np.full_like(array, np.nan) for name, array in message.arrays.items()}
        return [dataclasses.replace(message, arrays=broken)]

    stopped = run(admm(), sites, carry=faulty)
    assert stopped.coordinator.status == STOPPED
    assert "round 6" in stopped.coordinator.reason
    assert "site 1" in stopped.coordinator.reason
    assert ("nan" in stopped.coordinator.reason) == (damage == "nan")
    end = run(admm(), sites, unpack(pack(stopped), sites))
    assert end.coordinator.status == DONE
    assert same_arrays(end.coordinator.result, run(admm(), sites).coordinator.result)


def test_fedavg_goes_on_without_a_site(sites: dict[str, Site]) -> None:
    coordinator = Coordinator(FedAvg(WEIGHTS, max_rounds=12))
    away = run(coordinator, sites, carry=losing("site 1", lambda m: 5 <= m.round <= 8))
    assert away.finished
    assert not same_arrays(away.coordinator.result, run(coordinator, sites).coordinator.result)


def spoil(arrays: Any, how: str) -> dict[str, Any]:
    """The arrays of a message, damaged on the way."""
    name = next(iter(arrays))
    if how == "nan":
        return {**arrays, name: np.full_like(arrays[name], np.nan, dtype=float)}
    if how == "shape":
        return {**arrays, name: arrays[name][..., :-1]}
    return {} if how == "empty" else {other: array for other, array in arrays.items() if other != name}


@pytest.mark.parametrize("method", ["admm", "fedavg", "varying", "networks"])
@pytest.mark.parametrize(("how", "why"), [("nan", "is nan"), ("lacks", "lacks"), ("shape", "does not fit")])
def test_a_damaged_question_is_refused_and_asked_again(
    sites: dict[str, Site], method: str, how: str, why: str
) -> None:
    coordinator, own = admm(), sites
    if method == "networks":
        coordinator, own = networks(sites)
    elif method == "varying":
        coordinator = Coordinator(Varying(NAMES, MASKS, GROUP, "bic", "ebic", "logdet", rounds=6))
        own = {name: Site(VaryingParty(site.local.data)) for name, site in sites.items()}
    elif method == "fedavg":
        coordinator = Coordinator(FedAvg(WEIGHTS, max_rounds=4))
    damaged: set[int] = set()

    def once(message: Message) -> list[Message]:
        if message.recipient != "site 1" or message.phase != "ask" or message.round in damaged:
            return [message]
        damaged.add(message.round)
        return [dataclasses.replace(message, arrays=spoil(message.arrays, how))]

    found = run(coordinator, own, carry=once)
    assert same_arrays(found.coordinator.result, run(coordinator, own).coordinator.result)
    assert len(found.coordinator.refusals) == len(damaged)
    assert all("site 1 refused the question" in text for text in found.coordinator.refusals)
    told = found.sites["site 1"].refusals  # the reason stays at the site
    assert len(told) == len(damaged)
    assert all(why in text for text in told)


def test_a_question_that_stays_damaged_stops_the_study_with_the_reason(sites: dict[str, Site]) -> None:
    def always(message: Message) -> list[Message]:
        if message.recipient != "site 1" or message.round != 5:
            return [message]
        return [dataclasses.replace(message, arrays=spoil(message.arrays, "nan"))]

    stopped = run(admm(), sites, carry=always)
    assert stopped.coordinator.status == STOPPED
    assert "site 1 refused the question" in stopped.coordinator.reason
    assert stopped.sites["site 1"].refusals[-1] == "W[0, 0, 0] is nan"
    end = run(admm(), sites, unpack(pack(stopped), sites))
    assert same_arrays(end.coordinator.result, run(admm(), sites).coordinator.result)


@pytest.mark.parametrize("how", ["nan", "lacks", "shape", "empty"])
def test_a_malformed_answer_that_comes_first_is_the_one_that_is_refused(
    sites: dict[str, Site], how: str
) -> None:
    def first(message: Message) -> list[Message]:
        if message.sender != "site 0" or message.phase != CONTRIBUTION or message.round != 4:
            return [message]
        return [dataclasses.replace(message, arrays=spoil(message.arrays, how))]

    stopped = run(admm(), sites, carry=first).coordinator
    assert stopped.status == STOPPED
    assert stopped.missing == ("site 0",)
    assert all("from site 0" in text for text in stopped.refusals)
    away = run(Coordinator(FedAvg(WEIGHTS, max_rounds=4)), sites, carry=first)
    assert away.finished
    assert all("from site 0" in text for text in away.coordinator.refusals)


def networks(sites: dict[str, Site]) -> tuple[Coordinator, dict[str, Site]]:
    rng = np.random.default_rng(0)
    tables = {name: pd.DataFrame(rng.normal(size=(20, 3)), columns=list("abc")) for name in sites}
    masks = Knowledge().masks(tuple("abc"))
    model = NetworkCoordinator(tuple("abc"), masks, "mlp", 2, 0.02, 0.003, 0.2, "logdet")
    own = {name: Site(NetworkParty(table, "mlp", 2)) for name, table in tables.items()}
    return Coordinator(FedAvg(model, max_rounds=3)), own


def forgetful(coordinator: Coordinator, sites: dict[str, Site], **more: Any) -> Federation:
    """Every site begins anew with every question."""
    federation = begin(sites)
    while federation.coordinator.status == RUNNING:
        later = run(coordinator, sites, federation, rounds=1, **more)
        federation = Federation(later.coordinator, begin(sites).sites)
    return federation


@pytest.mark.parametrize("kind", ["linear", "networks", "votes"])
def test_sites_of_fedavg_and_votes_keep_nothing_and_may_come_late(sites: dict[str, Site], kind: str) -> None:
    path = LinearCoordinator(NAMES, MASKS, GROUP, "bic", "ebic", "logdet")
    coordinator, own = Coordinator(FedAvg(path, max_rounds=6)), sites
    if kind == "networks":
        coordinator, own = networks(sites)
    elif kind == "votes":
        coordinator = Coordinator(VotingPath(dataclasses.replace(path, threshold=0.0)))
        own = {
            name: Site(VotingParty(LinearParty(site.local.data), Notears())) for name, site in sites.items()
        }
    whole = run(coordinator, own)
    assert same_arrays(forgetful(coordinator, own).coordinator.result, whole.coordinator.result)
    for missed in range(1, whole.coordinator.round):
        late = run(coordinator, own, carry=losing("site 1", lambda m, at=missed: m.round == at))
        assert late.finished


def test_every_sum_of_fedavg_is_divided_by_the_rows_of_those_who_answered(sites: dict[str, Site]) -> None:
    path = LinearCoordinator(NAMES, MASKS, GROUP, "bic", "ebic", "logdet")
    coordinator = Coordinator(FedAvg(path, max_rounds=40))
    asked: dict[str, int] = {}

    def note(message: Message) -> list[Message]:
        asked.setdefault(str(message.meta.get("task", "")), message.round)
        return [message]

    whole = run(coordinator, sites, carry=note).coordinator.result
    for task in ("centre", "scale", "losses", "families"):
        away = losing("site 1", lambda m, at=asked[task]: m.round == at)
        found = run(coordinator, sites, carry=away).coordinator.result
        assert found["pooled_scale"] == pytest.approx(whole["pooled_scale"], rel=0.15)
        rows = 180 - 40 if task == "families" else 180
        assert float(found["criterion"]) / rows == pytest.approx(float(whole["criterion"]) / 180, abs=0.2)
    three = {name: site for name, site in sites.items() if name != "site 1"}
    away = losing("site 1", lambda m: m.round in (asked["centre"], asked["scale"]))
    found = run(coordinator, sites, carry=away).coordinator.result
    assert np.array_equal(found["pooled_scale"], run(coordinator, three).coordinator.result["pooled_scale"])


def test_a_time_out_of_another_round_means_nothing(sites: dict[str, Site]) -> None:
    coordinator = moments()
    state, _ = coordinator.start(list(sites))
    late, out = coordinator.step(state, [timeout(state.round + 3)])
    assert (late.waited, out) == (0, [])
    late, out = coordinator.step(state, [timeout(state.round)])
    assert (late.waited, len(out)) == (1, K)


def test_a_site_declines_other_columns_and_too_few_rows(sites: dict[str, Site]) -> None:
    for columns, why in (
        ([*NAMES[:4], "y"], "lacks x4 and has in addition y"),
        (["x1", "x0", *NAMES[2:]], "another order: number 1 is x1"),
    ):
        odd = GaussianStats.from_data(np.random.default_rng(0).normal(size=(20, D)), names=columns)
        found = run(moments(), {**sites, "odd": Site(LinearParty(odd))})
        assert found.coordinator.status == STOPPED
        assert "odd refused the question" in found.coordinator.reason
        assert why in found.sites["odd"].refusals[0]
    few = GaussianStats.from_data(np.random.default_rng(0).normal(size=(9, D)), names=NAMES)
    found = run(moments(), {**sites, "few": Site(LinearParty(few))})
    assert "It has 9 rows; its owner asks for at least 10" in found.sites["few"].refusals[0]
    assert "rows" not in found.coordinator.reason
    strict = {**sites, "site 0": Site(sites["site 0"].local, min_rows=50)}
    assert "It has 30 rows" in run(moments(), strict).sites["site 0"].refusals[0]


def test_names_of_sites_are_checked() -> None:
    for names in ([], ["a", "a"], [COORDINATOR], ["a|b"]):
        with pytest.raises(UsageError):
            moments().start(names)


def test_a_file_that_is_not_a_state_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"no")
    with pytest.raises(DataError, match=r"x\.npz"):
        load(SiteState, tmp_path / "x.npz")


def test_the_ledger_holds_all_that_left_and_only_sums_are_used(sites: dict[str, Site]) -> None:
    sent: list[Message] = []

    def watch(message: Message) -> list[Message]:
        if message.phase == CONTRIBUTION:
            sent.append(message)
        return [message]

    federation = run(admm(), sites, carry=watch)
    assert len(federation.disclosed) == sum(len(message.arrays) for message in sent)
    assert sum(entry.bytes for entry in federation.disclosed) == sum(
        array.nbytes for message in sent for array in message.arrays.values()
    )

    # Two sites whose contributions are exchanged for others with the same sum: nothing else may change.
    def mixed(message: Message) -> list[Message]:
        if message.phase == CONTRIBUTION and message.sender in ("site 0", "site 1"):
            sign = 1.0 if message.sender == "site 0" else -1.0
            moved = {name: array + sign * 1024.0 for name, array in message.arrays.items()}
            return [dataclasses.replace(message, arrays=moved)]
        return [message]

    shifted = run(moments(), sites, carry=mixed).coordinator.result
    for name, array in run(moments(), sites).coordinator.result.items():
        assert shifted[name] == pytest.approx(array, rel=1e-7, abs=1e-7)
