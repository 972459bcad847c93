"""Masked sums: fixed point, shares, masks, drop-outs; what the coordinator and colluding sites can see."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from polydag.errors import DataError, UsageError
from polydag.federated.protocol.sums import SecureSum
from polydag.privacy.masking import coordinator as coordinator_masks
from polydag.privacy.masking import keystreams, masks, shamir
from polydag.privacy.masking import site as masking
from polydag.privacy.masking.agreement import BLOCK, Agreement
from polydag.privacy.masking.identities import Identity, is_signed
from polydag.privacy.masking.ring import NARROW, WIDE, Ring, add_into

quick = settings(max_examples=40, deadline=None)
few = settings(max_examples=12, deadline=None)
seeds = st.integers(0, 2**31 - 1)
numbers = st.floats(-1e6, 1e6, allow_subnormal=True) | st.sampled_from([5e-324, -5e-324, -0.0, 1e-30])
rings = st.sampled_from([WIDE, NARROW, Ring(2, 64)])


@quick
@given(rings, st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=9))
def test_sums_in_the_ring_are_exact_sums_of_rounded_terms(ring: Ring, terms: list[list[float]]) -> None:
    total = ring.encode(np.array(terms[0]), len(terms)).copy()
    for term in terms[1:]:
        add_into(total, ring.encode(np.array(term), len(terms)))
    exact = [sum(round(term[i] * 2**ring.fraction) if abs(term[i]) < 2**20 else 0 for term in terms)
             for i in range(3)]  # fmt: skip
    assert ring.decode(total) == pytest.approx(
        [value / 2**ring.fraction for value in exact], rel=1e-15, abs=0
    )


@quick
@given(rings, st.lists(numbers, min_size=1, max_size=5), st.lists(numbers, min_size=1, max_size=5))
def test_adding_and_subtracting_give_back_the_words(ring: Ring, a: list[float], b: list[float]) -> None:
    size = min(len(a), len(b))
    first, second = (ring.encode(np.array(x[:size]), 3) for x in (a, b))
    moved = first.copy()
    add_into(moved, second)
    add_into(moved, second, subtract=True)
    assert np.array_equal(moved, first)
    assert np.abs(ring.decode(first) - a[:size]).max() <= ring.resolution / 2 + 1e-16 * np.abs(a).max()


@quick
@given(rings, st.integers(1, 256))
def test_the_largest_terms_do_not_overflow_and_larger_ones_are_refused(ring: Ring, parties: int) -> None:
    largest = ring.bound(parties) * (1 - 1e-9)
    for sign in (1, -1):
        total = ring.encode(np.array([sign * largest]), parties).copy()
        for _ in range(parties - 1):
            add_into(total, ring.encode(np.array([sign * largest]), parties))
        assert ring.decode(total)[0] == pytest.approx(sign * parties * largest)
        values = np.zeros((2, 3))
        for bad in (sign * ring.bound(parties), sign * np.inf, np.nan, sign * 1e300):
            values[1, 2] = bad
            with pytest.raises(DataError, match=r"weights\[1, 2\] cannot be added"):
                ring.encode(values, parties, "weights")
            with pytest.raises(DataError, match="weights of column c cannot be added"):
                ring.encode(values, parties, "weights", ["a", "b", "c"])
            triangle = np.array([0.0, 0.0, 0.0, bad, bad, 0.0])  # aa ab ac bb bc cc
            with pytest.raises(DataError, match="scatter of column b cannot be added"):
                ring.encode(triangle, parties, "scatter", ["a", "b", "c"])
            triangle[3] = 0.0
            with pytest.raises(DataError, match="scatter of column b and c cannot be added"):
                ring.encode(triangle, parties, "scatter", ["a", "b", "c"])


@quick
@given(seeds, st.integers(1, 9), st.integers(0, 8), st.integers(1, 4))
def test_any_threshold_of_shares_give_the_secret(seed: int, quorum: int, more: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    points = quorum + more
    secrets = rng.integers(0, 2**16, size=(size, 8)).astype(np.uint16)
    shares = shamir.split(secrets, quorum, points)
    chosen = (rng.permutation(points)[:quorum] + 1).tolist()
    assert np.array_equal(shamir.combine(chosen, shares[np.array(chosen) - 1]), secrets)
    with pytest.raises(UsageError):
        shamir.split(secrets, points + 1, points)


def test_fewer_shares_than_the_threshold_are_uniform_whatever_the_secret() -> None:
    for word in (0, 65535):
        shares = shamir.split(np.full(40_000, word, dtype=np.uint16), 3, 5)[:2]
        assert shares.max() == shamir.PRIME - 1 or shares.max() > 65_000
        for row in shares:
            assert stats.kstest(row / shamir.PRIME, "uniform").pvalue > 1e-6
        # Two shares of a straight guess: the line through them and the secret is as likely as any other.
        together = (shares[0].astype(np.int64) * 2 - shares[1]) % shamir.PRIME
        assert stats.kstest(together / shamir.PRIME, "uniform").pvalue > 1e-6


def test_shares_agree_with_plain_arithmetic() -> None:
    found = shamir.combine([2, 5], np.array([[10 + 2 * 7], [10 + 5 * 7]], dtype=np.uint32))
    assert found.tolist() == [10]
    with pytest.raises(UsageError, match="different sites"):
        shamir.combine([2, 2], np.zeros((2, 1), dtype=np.uint32))


def question(round_: int) -> bytes:
    return f"the question of round {round_}".encode()


class Study:
    """All machines of a masked sum, without messages."""

    def __init__(self, n: int, *, recover: bool, quorum: int | None = None) -> None:
        self.all_sites = tuple(f"site {k}" for k in range(n))
        self.agreement = Agreement.default("study", self.all_sites, recover=recover, quorum=quorum)
        self.agreement.check()
        self.identities = {name: Identity() for name in self.all_sites}
        self.directory = {name: identity.public for name, identity in self.identities.items()}
        joined = {name: masking.join(self.agreement, name, self.identities[name]) for name in self.all_sites}
        self.keys = np.array([joined[name][1]["key"] for name in self.all_sites])
        self.signatures = np.array([joined[name][1]["signature"] for name in self.all_sites])
        self.heads = np.array([joined[name][1]["head"] for name in self.all_sites])
        self.joined = {name: joined[name][0] for name in self.all_sites}
        self.memory: dict[str, Mapping[str, Any]] = {
            name: masking.admit(self.joined[name], self.keys, self.signatures, self.heads, self.directory)
            for name in self.all_sites
        }
        self.locked: dict[str, Any] = {}
        self.checks: dict[str, Any] = {}
        self.pads: dict[str, Any] = {}
        if recover:
            self.deal(0)

    def deal(self, block: int) -> None:
        sent = {}
        for name in self.all_sites:
            self.memory[name], sent[name] = masking.deal(self.memory[name], block)
        self.locked = {name: arrays["locked"] for name, arrays in sent.items()}
        self.checks = {name: arrays["checks"] for name, arrays in sent.items()}
        for name in self.all_sites:
            others = [other for other in self.all_sites if other != name]
            parcels = np.array(
                [
                    sent[other]["parcels"][[m for m in self.all_sites if m != other].index(name)]
                    for other in others
                ]
            )
            self.memory[name] = masking.accept(self.memory[name], others, parcels)

    def mask(self, name: str, round_: int, arrays: Mapping[str, Any], over: Sequence[str]) -> dict[str, Any]:
        parts, views = SecureSum(len(self.all_sites)).encode(arrays)
        self.memory[name], self.pads[name] = masking.mask(
            self.memory[name], round_, parts, over, question(round_)
        )
        return views

    def open(
        self, name: str, round_: int, over: Sequence[str], sites: Sequence[str], signed: Mapping[str, bytes]
    ) -> Any:
        self.memory[name], shares = masking.open_round(
            self.memory[name], round_, over, sites, question(round_), signed, self.directory
        )
        return shares

    def signed(self, round_: int, sites: Sequence[str], signers: Sequence[str]) -> dict[str, bytes]:
        result = {}
        for name in signers:
            self.memory[name], mark = masking.sign_list(
                self.memory[name], self.identities[name], round_, self.all_sites, sites, question(round_)
            )
            result[name] = mark.tobytes()
        return result

    def total(
        self, numbers: Mapping[str, Any], round_: int, over: Sequence[str], sites: Sequence[str],
        shares: Mapping[str, Any],
    ) -> dict[str, Any]:  # fmt: skip
        secure = SecureSum(len(self.all_sites))
        parts, views = secure.joined(coordinator_masks.add_masked([numbers[name] for name in sites]))
        masked = coordinator_masks.MaskedRound(
            self.agreement, round_, question(round_), over, sites, shares, self.pads, self.locked, self.checks
        )
        self.wrong = masked.unmask(parts)
        return secure.decode(views)


@few
@given(seeds, st.integers(3, 20), st.data())
def test_without_drop_outs_masks_cancel_in_the_sum_over_all(seed: int, n: int, data: st.DataObject) -> None:
    study = Study(n, recover=False, quorum=data.draw(st.integers(2, n)))
    rng = np.random.default_rng(seed)
    for round_ in (1, 2, BLOCK + 1):
        terms = {
            name: {"a": rng.normal(size=(2, 3)), "b": 1e9 * rng.normal(size=1)} for name in study.all_sites
        }
        sent = {name: study.mask(name, round_, terms[name], study.all_sites) for name in study.all_sites}
        found = SecureSum(n).decode(coordinator_masks.add_masked(list(sent.values())))
        for array in ("a", "b"):
            assert found[array] == pytest.approx(sum(term[array] for term in terms.values()), rel=1e-12)


@few
@given(seeds, st.integers(3, 8))
def test_counts_of_labels_add_up_to_those_of_the_pooled_rows(seed: int, n: int) -> None:
    study = Study(n, recover=False)
    rng = np.random.default_rng(seed)
    rows = {name: rng.integers(0, 3, size=(int(rng.integers(0, 40)), 2)) for name in study.all_sites}

    def counts(table: Any) -> dict[str, Any]:
        return {
            "first": np.bincount(table[:, 0], minlength=3),
            "both": np.bincount(3 * table[:, 0] + table[:, 1], minlength=9).reshape(3, 3),
        }

    sent = [study.mask(name, 1, counts(rows[name]), study.all_sites) for name in study.all_sites]
    found = SecureSum(n).decode(coordinator_masks.add_masked(sent))
    pooled = counts(np.concatenate(list(rows.values())))
    for name, array in pooled.items():
        assert np.array_equal(found[name], array)


@few
@given(seeds, st.integers(3, 9), st.data())
def test_any_survivors_from_the_threshold_on_recover_exactly_their_sum(
    seed: int, n: int, data: st.DataObject
) -> None:
    quorum = data.draw(st.integers(n // 2 + 1, n))
    study = Study(n, recover=True, quorum=quorum)
    rng = np.random.default_rng(seed)
    for round_ in (1, 2):
        stay = [name for name in study.all_sites if rng.random() < 0.8]
        stay += [name for name in study.all_sites if name not in stay][: max(quorum - len(stay), 0)]
        stay = [name for name in study.all_sites if name in stay]
        helpers = list(rng.permutation(stay))[: int(rng.integers(quorum, len(stay) + 1))]
        terms = {name: {"a": rng.normal(size=4) * 10.0 ** rng.integers(-9, 9)} for name in study.all_sites}
        sent = {name: study.mask(name, round_, terms[name], study.all_sites) for name in study.all_sites}
        dropped = len(stay) < n
        signed = study.signed(round_, stay, helpers) if dropped else {}
        shares = {name: study.open(name, round_, study.all_sites, stay, signed) for name in helpers}
        numbers = {name: sent[name] for name in stay}
        found = study.total(numbers, round_, study.all_sites, stay, shares)
        exact = coordinator_masks.add_masked([SecureSum(n).encode(terms[name])[1] for name in stay])
        assert np.array_equal(found["a"], SecureSum(n).decode(exact)["a"])


def test_too_few_helpers_do_not_open_the_sum() -> None:
    study = Study(5, recover=True, quorum=4)
    sent = {name: study.mask(name, 1, {"a": np.ones(3)}, study.all_sites) for name in study.all_sites}
    shares = {name: study.open(name, 1, study.all_sites, study.all_sites, {}) for name in study.all_sites[:3]}
    with pytest.raises(DataError, match="do not fit together"):
        study.total(sent, 1, study.all_sites, study.all_sites, shares)


def uniform(words: Any) -> float:
    """The p-value of words being uniform: of their bytes, all 256 values alike."""
    counts = np.bincount(words.reshape(-1).view(np.uint8), minlength=256)
    return float(stats.chisquare(counts).pvalue)


def left_over(study: Study, victim: str, colluding: Sequence[str], message: Any, round_: int) -> Any:
    """A message less all that the coordinator and colluding sites know of its masks."""
    parts, _ = SecureSum(len(study.all_sites)).joined(message)
    step = (round_ - 1) % BLOCK
    all_sites = study.all_sites
    places = {name: all_sites.index(name) for name in all_sites}
    for name in colluding:
        partners = list(study.memory[name]["partners"])
        if victim in partners:  # they have this mask in common
            mask = masking.pair_stream(
                study.memory[name], partners.index(victim), round_, parts, question(round_)
            )
            masks.add_stream(parts, mask, subtract=places[victim] < places[name])
    if study.agreement.recover:
        held = np.array([study.memory[name]["held"][places[victim], :, step] for name in colluding])
        points = [places[name] + 1 for name in colluding]
        secrets = shamir.combine(points, held)  # right only with as many as the quorum
        masks.apply_mask(parts, secrets[0].astype("<u2").tobytes(), subtract=True)
        seeds = keystreams.xor_keystream(secrets[1].astype("<u2").tobytes(), study.locked[victim][step])
        others = [name for name in all_sites if name != victim]
        for name, seed in zip(others, seeds.reshape(len(others), -1), strict=True):
            if name not in colluding:
                bound = keystreams.bound_key(seed.tobytes(), question(round_))
                masks.apply_mask(parts, bound, subtract=places[victim] < places[name])
    return parts


def test_what_the_coordinator_and_fewer_than_the_threshold_know_leaves_a_message_uniform() -> None:
    study = Study(7, recover=True, quorum=5)
    value = {"a": np.full(20_000, 3.25)}
    encoded, _ = SecureSum(7).encode(value)
    sent = {name: study.mask(name, 1, value, study.all_sites) for name in study.all_sites}
    victim, others = study.all_sites[2], [name for name in study.all_sites if name != study.all_sites[2]]
    left = left_over(study, victim, others[:4], sent[victim], 1)
    assert uniform(left[0]) > 1e-6
    # The test's own control: one more colluding site, and the number lies open.
    assert np.array_equal(left_over(study, victim, others[:5], sent[victim], 1)[0], encoded[0])


@pytest.mark.parametrize(("n", "quorum"), [(9, 4), (9, 7), (30, 21)])
def test_where_all_must_answer_fewer_than_the_threshold_leave_a_message_uniform(n: int, quorum: int) -> None:
    study = Study(n, recover=False, quorum=quorum)
    value = {"a": np.full(20_000, -1.5)}
    encoded, _ = SecureSum(n).encode(value)
    victim = study.all_sites[4]
    message = study.mask(victim, 1, value, study.all_sites)
    partners = list(study.memory[victim]["partners"])
    assert study.agreement.colluding == quorum - 1
    assert uniform(left_over(study, victim, partners[: quorum - 1], message, 1)[0]) > 1e-6
    # The test's own control: all with whom it has a mask in common, and the number lies open.
    assert len(partners) in (quorum, quorum + 1)
    assert np.array_equal(left_over(study, victim, partners, message, 1)[0], encoded[0])


@few
@given(st.integers(3, 40), seeds, st.data())
def test_the_graph_of_masks_holds_together_without_the_colluding(
    n: int, seed: int, data: st.DataObject
) -> None:
    import networkx as nx

    all_sites = tuple(map(str, range(n)))
    agreement = Agreement.default(
        "s", all_sites, recover=False, quorum=data.draw(st.none() | st.integers(2, n))
    )
    graph = nx.Graph([(a, b) for a in all_sites for b in agreement.partners(a, str(seed))])
    assert all(a in agreement.partners(b, str(seed)) for a, b in graph.edges)
    assert nx.node_connectivity(graph) >= min(agreement.quorum, n - 1) > agreement.colluding


def test_two_rounds_share_no_mask_and_no_two_parts_do() -> None:
    study = Study(4, recover=True)
    zero = {"a": np.zeros(2000)}
    masks = [study.mask(study.all_sites[0], round_, zero, study.all_sites)["a"] for round_ in (1, 2, BLOCK)]
    study.deal(1)
    masks.append(study.mask(study.all_sites[0], BLOCK + 1, zero, study.all_sites)["a"])
    flat = np.concatenate([mask.reshape(-1) for mask in masks])
    assert len(np.unique(flat)) == flat.size
    for mask in masks:
        assert uniform(mask) > 1e-6
    assert uniform(masks[0] - masks[1]) > 1e-6


def test_secrets_come_from_the_operating_system_and_not_from_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    np.random.default_rng(0)
    assert Identity().secret != Identity().secret
    assert Study(3, recover=False).memory["site 0"]["roots"].tobytes() != Study(3, recover=False).memory[
        "site 0"
    ]["roots"].tobytes()  # fmt: skip
    asked: list[int] = []
    real = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or real(size))
    shamir.split(np.zeros(8, np.uint16), 2, 3)
    Identity()
    assert len(asked) == 2


def test_a_round_is_masked_once_and_opened_for_one_list_only() -> None:
    study = Study(6, recover=True, quorum=4)
    name, all_sites = study.all_sites[0], study.all_sites
    for each in all_sites:
        study.mask(each, 1, {"a": np.ones(1)}, all_sites)
    with pytest.raises(DataError, match="masked already"):
        study.mask(name, 1, {"a": np.zeros(1)}, all_sites)
    with pytest.raises(DataError, match="No secrets have been distributed for round 33"):
        study.mask(name, BLOCK + 1, {"a": np.zeros(1)}, all_sites)
    full = study.open(name, 1, all_sites, all_sites, {})
    assert np.array_equal(full, study.open(name, 1, all_sites, all_sites, {}))  # the same again is harmless
    smaller = all_sites[:5]
    signed = study.signed(1, smaller, all_sites[1:5])
    with pytest.raises(DataError, match="two different lists"):
        study.open(name, 1, all_sites, smaller, signed)
    with pytest.raises(DataError, match="two different lists"):
        study.signed(1, smaller, [name])


def test_lists_need_signatures_of_the_threshold_and_forged_ones_name_the_site() -> None:
    study = Study(6, recover=True, quorum=4)
    all_sites = study.all_sites
    for each in all_sites:
        study.mask(each, 1, {"a": np.ones(1)}, all_sites)
    smaller = all_sites[:5]
    signed = study.signed(1, smaller, all_sites[:3])
    with pytest.raises(DataError, match="Only 3 sites have signed"):
        study.open("site 4", 1, all_sites, smaller, signed)
    forged = {**signed, "site 3": study.identities["site 2"].sign(b"no")}
    with pytest.raises(DataError, match="site 3 has not signed this list"):
        study.open("site 4", 1, all_sites, smaller, forged)
    other = study.signed(2, smaller, ["site 3"])  # a signature of another round
    with pytest.raises(DataError, match="site 3 has not signed this list"):
        study.open("site 4", 1, all_sites, smaller, {**signed, **other})
    with pytest.raises(DataError, match="not a subset"):
        study.open("site 4", 1, smaller, all_sites, signed)


def test_forged_keys_and_parcels_that_were_changed_moved_or_repeated_are_refused_by_name() -> None:
    study = Study(4, recover=True)
    _, public = masking.study_key()
    keys = study.keys.copy()
    keys[2] = np.frombuffer(public, np.uint8)
    with pytest.raises(DataError, match="in the name of site 2 is not signed"):
        masking.admit(study.joined["site 0"], keys, study.signatures, study.heads, study.directory)
    with pytest.raises(DataError, match="does not fit the list of sites"):
        masking.admit(study.joined["site 0"], keys[:3], study.signatures, study.heads, study.directory)
    sent = {}
    for name in study.all_sites:
        study.memory[name], sent[name] = masking.deal(study.memory[name], 1)
    for_zero = [sent[f"site {k}"]["parcels"][0] for k in (1, 2, 3)]
    changed = for_zero[1].copy()
    changed[5] ^= 1
    for senders, parcels, who in (
        (["site 2"], [changed], "site 2"),
        (["site 2"], [for_zero[0]], "site 2"),  # another one's
        (["site 1"], [sent["site 1"]["parcels"][1]], "site 1"),  # meant for another one
        (["mallory"], [for_zero[0]], "mallory"),
    ):
        with pytest.raises(DataError, match=f"in the name of {who}"):
            masking.accept(study.memory["site 0"], senders, np.array(parcels))
    old = for_zero[0]
    study.memory["site 0"], _ = masking.deal(study.memory["site 0"], 2)
    with pytest.raises(DataError, match="another block"):
        masking.accept(study.memory["site 0"], ["site 1"], np.array([old]))


def test_signatures() -> None:
    identity = Identity()
    assert is_signed(identity.public, identity.sign(b"a"), b"a")
    assert not is_signed(identity.public, identity.sign(b"a"), b"b")
    assert not is_signed(Identity().public, identity.sign(b"a"), b"a")
    assert not is_signed(b"short", identity.sign(b"a"), b"a")
    assert "secret" not in repr(identity)


@pytest.mark.parametrize(
    ("n", "change", "why"),
    [
        (2, {}, "at least 3 sites"),
        (6, {"quorum": 3, "recover": True}, "more than half"),
        (6, {"quorum": 7, "recover": True}, "at most 6"),
        (6, {"quorum": 7}, "from 2 to the 6"),
        (6, {"quorum": 1}, "from 2 to the 6"),
    ],
)
def test_terms_that_do_not_protect_are_refused(n: int, change: dict[str, Any], why: str) -> None:
    setting = {"recover": False, **change}
    with pytest.raises(UsageError, match=why):
        Agreement.default("s", tuple(map(str, range(n))), **setting).check()
