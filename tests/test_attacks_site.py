"""Attacks on a site's refusals, budget, memory and ledger; crashes at any moment; what its owner decides."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

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
from polydag.cli.main import app
from polydag.computing import checkpoint
from polydag.errors import DataError, UsageError
from polydag.federated import Message
from polydag.federated.methods.private.party import BOUNDS, GRADIENT, MOMENTS, PrivateParty
from polydag.federated.protocol import equations
from polydag.federated.protocol.messages import (
    ASK,
    CONTRIBUTION,
    COORDINATOR,
    REFUSED,
    ROSTER,
    same_arrays,
)
from polydag.federated.protocol.programs import Ask
from polydag.federated.protocol.site import Site
from polydag.federated.protocol.site_protection import SiteProtection
from polydag.federated.protocol.storage import resume as resuming
from polydag.federated.protocol.storage.site_folder import IDENTITY, JOURNAL, SiteFolder, renew_identity
from polydag.federated.protocol.sums import SecureSum
from polydag.privacy import ledger
from polydag.privacy.dp.accounting import Budget, multiplier, spent
from polydag.privacy.ledger import VERSION, Entry, Ledger
from polydag.privacy.masking.coordinator import add_masked
from polydag.privacy.masking.identities import Identity, kept_identity, new_identity
from polydag.privacy.policy import Policy, read_policy

pytestmark = pytest.mark.portable


def test_refusals_answer_no_more_than_one_question() -> None:
    """An overflow depends on the data: by halving an interval, refusals would give a site's means away."""
    told = []
    for centre in np.geomspace(1e20, 1e30, 6):
        attack = Attack(sites_of(3))
        attack.join()
        first = attack.ask("site 0", centre=np.full((1, D), centre))
        told.append(is_constant_refusal(first))
        if told[-1]:
            again = [attack.ask("site 0", round_=k, centre=np.full((1, D), 1.0)) for k in (1, 2, 3)]
            assert all(map(is_constant_refusal, again))  # the study has ended here
            refused = [
                entry for entry in ledger.parse(attack.states["site 0"].ledger) if entry.kind == "refused"
            ]
            assert len(refused) == 1
            assert "cannot be added under masks" in refused[0].name  # for the owner
            assert first.round == 1
            assert not first.arrays
    assert any(told)
    assert not all(told)


@pytest.mark.parametrize("few", [True, False])
def test_a_refusal_does_not_tell_what_is_wrong(few: bool) -> None:
    own = site("site 0", party(0, 7 if few else 40))
    attack = Attack({**sites_of(3), "site 0": own})
    attack.join()
    reply = attack.ask("site 0", columns=["x0", "x1", "age"] if not few else list(NAMES))
    assert is_constant_refusal(reply)
    assert ("It has 7 rows" in attack.reasons("site 0")) == few
    assert ("age" in attack.reasons("site 0")) != few


def private(n: int = 60, **allowed: Any) -> tuple[Attack, float]:
    budget = Budget(1.0, 1e-5)
    sites = {
        f"site {k}": site(f"site {k}", PrivateParty(rows(k, n), NAMES), budget=budget, **allowed)
        for k in range(3)
    }
    return Attack(sites), multiplier(budget, 1)


def moments(attack: Attack, name: str, round_: int, z: float, **changes: Any) -> Message:
    about = {"multiplier": z, "plan": [[z, 1]], "radius": 2.0, "task": MOMENTS, "regimes": []}
    whitening = {"centre": np.zeros(D), "transform": np.eye(D)}
    return attack.ask(name, round_, **{**about, **whitening, **changes})


def test_a_transform_that_overflows_does_not_single_out_a_row() -> None:
    attack, z = private()
    attack.join()
    assert is_constant_refusal(moments(attack, "site 0", 1, z, transform=np.eye(D) * 2e307))
    far = rows(0)
    far[0] = 1e10
    ask = Ask(
        MOMENTS,
        {"centre": np.zeros(D), "transform": np.eye(D) * 2e307},
        {"multiplier": 1.0, "honest": 1, "radius": 2.0},
    )
    sent = PrivateParty(far, NAMES).answer({}, ask)[1]["moments"]
    assert np.abs(sent).max() < 1e4
    gradient = dataclasses.replace(
        ask,
        task=GRADIENT,
        arrays={**ask.arrays, "residual": np.eye(D) * 1e300},
        meta={**ask.meta, "max_norm": 1.0},
    )
    assert np.isfinite(PrivateParty(far, NAMES).answer({}, gradient)[1]["gradient"]).all()


@pytest.mark.parametrize(
    "plan",
    [
        [[3.8, -5]],
        [[3.8, 1], [-1.0, 3]],
        [[3.8, 10**9]],
        [[1e-9, 1]],
        [[3.8, 1]] * 50,
        "x",
        None,
        [[3.8, 1.5]],
    ],
)
def test_plans_out_of_range_are_refused_at_once(plan: Any) -> None:
    attack, z = private()
    attack.join()
    assert is_constant_refusal(moments(attack, "site 0", 1, z, plan=plan))
    why = attack.reasons("site 0")  # before anything is accounted
    assert "The plan holds numbers that are out of range" in why or "no plan of all releases" in why
    assert not any(entry.kind == "data" for entry in ledger.parse(attack.states["site 0"].ledger))


def test_a_second_study_does_not_reset_the_budget() -> None:
    chain: tuple[Entry, ...] = ()
    released = 0
    for _ in range(4):  # each time a new study, as far as the coordinator says
        attack, z = private()
        own = attack.sites["site 0"]
        assert own.protection is not None
        attack.sites["site 0"] = dataclasses.replace(
            own, protection=dataclasses.replace(own.protection, earlier=chain)
        )
        attack.join()
        released += moments(attack, "site 0", 1, z).phase == CONTRIBUTION
        chain = remembered(attack, "site 0", chain)
    assert released == 1
    assert spent(ledger.multipliers(chain), 1e-5) < 1.01


def test_a_question_that_fails_after_its_noise_was_drawn_is_charged() -> None:
    attack, z = private()
    attack.join()
    odd = moments(
        attack, "site 0", 1, z, narrow={"moments": [-200]}
    )  # noise is drawn, then the sum overflows
    assert is_constant_refusal(odd)
    chain = ledger.parse(attack.states["site 0"].ledger)
    assert ledger.multipliers(chain) == {z: 1}
    assert is_constant_refusal(moments(attack, "site 0", 2, z))


def test_with_noise_nobody_may_drop_out() -> None:
    attack, z = private()
    attack.join(recover=True)
    assert is_constant_refusal(moments(attack, "site 0", 1, z))
    assert "take theirs along" in attack.reasons("site 0")
    attack, z = private(recover=False)
    assert all(map(is_refusal_to_join, attack.join(recover=True).values()))
    assert not is_constant_refusal(moments_after_join())


def moments_after_join() -> Message:
    attack, z = private()
    attack.join()
    return moments(attack, "site 0", 1, z, task=BOUNDS, plan=[[z, 1]])


def test_messages_are_signed_and_forged_ones_change_nothing() -> None:
    attack = Attack(sites_of(3))
    attack.join()
    before = attack.states["site 0"]
    stranger = Message(COORDINATOR, "site 0", 1, ASK, {}, {"task": "scatter", "signature": "00" * 64})
    for message in (
        stranger,
        dataclasses.replace(stranger, meta={}),
        dataclasses.replace(stranger, sender="site 1"),
    ):
        state, (reply,) = attack.sites["site 0"].step(before, [message])
        assert is_constant_refusal(reply)
        assert state.ledger == before.ledger
        assert (state.round, state.phase, state.closed) == (before.round, before.phase, False)
    reply = attack.ask("site 0")
    assert attack.masking.objection(reply, attack.memory) is None
    for change in ({"sender": "site 1"}, {"round": 2}, {"phase": "join"}, {"arrays": {}}):
        assert attack.masking.objection(dataclasses.replace(reply, **change), attack.memory) is not None
    refusal = attack.ask("site 1", columns=["a"])  # an answer and a refusal are authenticated with no nonce
    assert attack.masking.objection(refusal, attack.memory) is None


def test_tags_hold_for_one_site_one_direction_and_one_study() -> None:
    attack, other = Attack(sites_of(3)), Attack(sites_of(3))
    attack.join()
    other.join()
    before = attack.states["site 0"]

    def question(memory: Any, recipient: str = "site 0") -> Message:
        plain = Message(COORDINATOR, recipient, 1, ASK, {}, {"task": "unknown"})
        return attack.masking.signed([plain], memory)[0]

    def is_taken(message: Message) -> bool:
        state, _ = attack.sites["site 0"].step(before, [message])
        return state.closed  # it was taken for a question, and refused since it is none

    tagged = question(attack.memory)
    assert len(tagged.meta["signature"]) == 64  # of 32 bytes; a signature has 64
    assert is_taken(tagged)
    assert is_taken(question(None))  # signed
    assert not is_taken(question(other.memory))
    to_another = question(attack.memory, "site 1").meta["signature"]
    assert not is_taken(dataclasses.replace(tagged, meta={**tagged.meta, "signature": to_another}))
    swapped = {name: keys[::-1] for name, keys in attack.memory["channels"].items()}
    assert not is_taken(question({"channels": swapped}))  # an answer is not sent back as a question
    assert not is_taken(dataclasses.replace(tagged, meta={**tagged.meta, "task": "scatter"}))
    reply = attack.ask("site 0")
    assert len(reply.meta["signature"]) == 64
    assert attack.masking.objection(reply, other.memory) is not None


@pytest.mark.parametrize("method", ["moments", "admm"])
def test_a_ledger_is_the_same_whatever_the_data_are(method: str, tmp_path: Path) -> None:
    """But for keys and hashes, and for the version of the data, which is under a key."""
    chains = []
    for seed in range(2):
        parts = [
            pd.DataFrame(rows(5 * seed + k, 40 + 20 * seed) + seed, columns=list(NAMES)) for k in range(3)
        ]
        folder = tmp_path / str(seed)
        learned(parts, method=method, lambda_=0.1, threshold=0.3, ledgers=str(folder))
        chains.append(ledger.read_intact(folder / "site 1.jsonl"))
    secret = {ledger.IDENTITY: "name", ledger.HEAD: "name", VERSION: "name"}
    plain = [
        [
            entry._replace(study="", hash="", signature="", **{secret[entry.kind]: ""})
            if entry.kind in secret
            else entry._replace(study="", hash="", signature="")
            for entry in chain
        ]
        for chain in chains
    ]
    rounds = min(chain[-1].round for chain in chains)  # of ADMM, whose number may differ
    first, second = ([entry for entry in chain if entry.round <= rounds] for chain in plain)
    assert first == second
    assert len(first) > 10
    versions = [json.loads(next(e.name for e in chain if e.kind == VERSION)) for chain in chains]
    assert versions[0].keys() == versions[1].keys()
    assert versions[0]["rows"] != versions[1]["rows"]
    assert len(versions[0]["rows"]) == len(versions[1]["rows"])  # encrypted, of any number


def test_a_ledger_cannot_be_rewritten_shortened_or_used_twice(tmp_path: Path) -> None:
    identity = kept_identity(tmp_path / IDENTITY)
    file = tmp_path / ledger.FILE
    lines = [ledger.text_of(Entry("s", k, "data", f"a{k}")) for k in range(6)]
    with Ledger(file, identity) as own:
        own.append(lines[:3])
        own.append(lines[3:])
        head = len(own.entries).to_bytes(8, "big") + bytes.fromhex(own.entries[-1].hash)
        with pytest.raises(DataError, match="in use by another study"):
            Ledger(file, identity)
    assert file.stat().st_mode & 0o077 == 0
    # Somebody without the identity writes it anew, with hashes that fit.
    content = file.read_text().splitlines()
    entries = ledger.parse(content)
    rewritten = ledger.sealed([ledger.text_of(entry) for entry in entries if entry.name != "a1"])
    assert ledger.first_broken(ledger.parse(rewritten)) is not None
    forged = ledger.sealed(
        [ledger.text_of(entry) for entry in entries if entry.name != "a1"], identity=Identity()
    )
    assert ledger.first_broken(ledger.parse(forged)) is not None
    # The owner cuts the end off: its peers have seen more.
    file.write_text("\n".join(content[:4]) + "\n")
    with Ledger(file, identity) as own:
        short = len(own.entries).to_bytes(8, "big") + bytes.fromhex(own.entries[-1].hash)
    line = ledger.text_of(ledger.head_entry("study 1", 1, "site 1", head))
    seen = ledger.parse(ledger.sealed([line]))
    assert ledger.head_problem(seen, "site 1", head) is None
    assert "shortened or rewritten" in str(ledger.head_problem(seen, "site 1", short))
    attack = Attack({**sites_of(3), "site 0": site("site 0", party(0), seen)})
    attack.join()  # site 1 claims an empty ledger
    assert "The ledger of site 1 had 7 entries" in attack.reasons("site 0")


def test_identities_are_kept_rotated_and_never_readable_by_others(tmp_path: Path) -> None:
    file = tmp_path / IDENTITY
    first = kept_identity(file)
    assert kept_identity(file).secret == first.secret
    assert file.stat().st_mode & 0o077 == 0
    with Ledger(tmp_path, first) as own:
        own.append([ledger.text_of(Entry("s", 1, "data", "a"))])
        second = new_identity(file)
        own.rotate(second)
        own.append([ledger.text_of(Entry("s", 2, "data", "b"))])
    assert kept_identity(file).secret == second.secret != first.secret
    assert kept_identity(file.with_name(f"{IDENTITY}.1")).secret == first.secret
    with Ledger(tmp_path, second) as own:
        assert [entry.name for entry in own.entries if entry.kind == "data"] == ["a", "b"]
    with pytest.raises(DataError, match="not signed by this site"):
        Ledger(tmp_path, first)
    file.chmod(0o644)
    with pytest.raises(DataError, match="chmod 600"):
        kept_identity(file)


def folders(tmp_path: Path, n: int = 3) -> dict[str, SiteFolder]:
    made = {}
    for k in range(n):
        name = f"site {k}"
        path = tmp_path / name
        path.mkdir(exist_ok=True)
        if not (path / IDENTITY).exists():
            (path / IDENTITY).write_text(IDENTITIES[name].secret.hex())
            (path / IDENTITY).chmod(0o600)
        made[name] = SiteFolder(path, name, party(k), Policy(DIRECTORY))
    return made


class Stored(Attack):
    """Sites that run from their folders."""

    def __init__(self, made: dict[str, SiteFolder]) -> None:
        super().__init__({name: own.site for name, own in made.items()})
        self.folders = made
        self.sent: list[Message] = []

    def forward(self, message: Message) -> Message:
        (reply,) = self.folders[message.recipient].step([message])
        self.states[message.recipient] = self.folders[message.recipient].state
        self.sent.append(message)
        return reply

    def crash(self, name: str) -> None:
        """Kill the site without warning, and start it again from its folder."""
        own = self.folders[name]
        own.close()
        self.folders[name] = SiteFolder(own.path, name, own.site.local, Policy(DIRECTORY))


def test_a_site_that_crashes_at_any_step_sends_the_same_bytes_again(tmp_path: Path) -> None:
    attack = Stored(folders(tmp_path))
    attack.join()
    answers = {name: attack.ask(name) for name in attack.sites}
    question = attack.sent[-3]
    assert question.recipient == "site 0"
    attack.crash("site 0")
    again = attack.forward(question)
    assert same_arrays(again.arrays, answers["site 0"].arrays)
    other = attack.ask("site 0", centre=np.ones((1, D)))  # another question for the same round
    assert same_arrays(other.arrays, answers["site 0"].arrays)
    secure = SecureSum(3, FIRST.meta["narrow"])
    total = secure.decode(add_masked([answers[name].arrays for name in attack.sites]))
    assert total["rows[]"][0] == pytest.approx(120)
    entries = attack.folders["site 0"].ledger.entries
    assert sum(entry.kind == "data" and entry.name == "rows[]" for entry in entries) == 1


def test_an_older_state_that_is_put_back_masks_nothing(tmp_path: Path) -> None:
    attack = Stored(folders(tmp_path))
    attack.join()
    folder = attack.folders["site 0"].path
    shutil.copy(folder / JOURNAL, tmp_path / "old")
    attack.ask("site 0")
    attack.folders["site 0"].close()
    shutil.copy(tmp_path / "old", folder / JOURNAL)
    attack.folders["site 0"] = SiteFolder(folder, "site 0", party(0), Policy(DIRECTORY))
    reply = attack.ask("site 0", centre=np.ones((1, D)))
    assert is_constant_refusal(reply)
    assert "older state" in " ".join(attack.folders["site 0"].state.refusals)
    attack.folders["site 0"].begin_study()  # a new study, with fresh keys, may begin
    assert not attack.folders["site 0"].state.closed
    assert attack.folders["site 0"].site.protection.earlier  # type: ignore[union-attr]


def test_a_folder_that_is_put_back_whole_is_noticed_by_the_next_question(tmp_path: Path) -> None:
    """Journal and ledger agree with each other, so only the chain of questions tells."""
    attack = Stored(folders(tmp_path))
    attack.join()
    attack.folders["site 0"].close()
    shutil.copytree(attack.folders["site 0"].path, tmp_path / "copy")
    attack.crash("site 0")
    for round_ in (1, 2):
        assert _consensus(attack, round_).phase == CONTRIBUTION
    before = attack.states["site 0"].masking["asked"]
    own = attack.folders["site 0"]
    own.close()
    shutil.rmtree(own.path)
    shutil.copytree(tmp_path / "copy", own.path)
    attack.crash("site 0")
    assert attack.folders["site 0"].state.phase == ROSTER
    arrays = {"W": np.zeros((1, D, D)), "rho": np.ones(1)}
    meta = {"task": "consensus", "relax": 1.5, "narrow": {}, "over": list(attack.sites), "before": before}
    reply = attack.send("site 0", 3, ASK, arrays, study=attack.memory["agreement"]["study"], **meta)
    assert is_constant_refusal(reply)
    assert "older state of this site" in attack.reasons("site 0")


def test_a_ledger_that_is_lost_or_put_back_is_not_begun_anew(tmp_path: Path) -> None:
    attack = Stored(folders(tmp_path))
    own, file = attack.folders["site 0"], attack.folders["site 0"].path / ledger.FILE
    attack.join()
    for folder in attack.folders.values():
        folder.close()
    whole = file.read_bytes()
    file.unlink()
    with pytest.raises(DataError, match="is missing, although this site has kept one"):
        SiteFolder(own.path, "site 0", party(0), Policy(DIRECTORY))
    file.write_bytes(whole)
    with SiteFolder(own.path, "site 0", party(0), Policy(DIRECTORY)) as again:
        again.begin_study()
        entries = len(again.ledger.entries)
        Stored({**attack.folders, "site 0": again}).send("site 0", 1, "roster")  # refused, and stored
        assert len(again.ledger.entries) > entries
    file.write_bytes(whole.splitlines(keepends=True)[0])
    with pytest.raises(DataError, match="an older copy was restored"):
        SiteFolder(own.path, "site 0", party(0), Policy(DIRECTORY))


def test_two_programs_do_not_use_one_folder(tmp_path: Path) -> None:
    made = folders(tmp_path)
    with pytest.raises(DataError, match="in use by another study"):
        SiteFolder(made["site 0"].path, "site 0", party(0), Policy(DIRECTORY))


@pytest.mark.parametrize("torn", [1, 40, 200])
def test_a_torn_record_counts_as_not_written(tmp_path: Path, torn: int) -> None:
    attack = Stored(folders(tmp_path))
    attack.join()
    own = attack.folders["site 0"]
    before = (own.path / JOURNAL).read_bytes()
    attack.ask("site 0")
    after = (own.path / JOURNAL).read_bytes()
    own.close()
    (own.path / JOURNAL).write_bytes(after[: len(before) + torn])
    # The ledger of such a crash has nothing of the record either: it is written afterwards.
    text = (own.path / ledger.FILE).read_text().splitlines(keepends=True)
    kept = [line for line in text if '"kind": "data"' not in line and '"kind": "sum"' not in line]
    (own.path / ledger.FILE).write_text("".join(kept))
    with SiteFolder(own.path, "site 0", party(0), Policy(DIRECTORY)) as again:
        assert again.state.phase == "roster"
        assert not again.state.closed
        assert (own.path / JOURNAL).read_bytes() == before


def test_a_full_disk_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = Stored(folders(tmp_path))
    attack.join()
    own = attack.folders["site 0"]
    before = own.state

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdatasync", full)
    with pytest.raises(DataError, match="No space left on device"):
        attack.ask("site 0")
    assert own.state is before


def test_an_interrupted_study_in_one_process_goes_on_under_fresh_masks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is saved every 20 rounds; what left after that must not leave again under the same masks."""
    parts = [pd.DataFrame(rows(k, 60), columns=list(NAMES)) for k in range(3)]
    sent: list[dict[int, Message]] = [{}, {}]
    real, attempt = resuming.run, [0]

    class StoppedError(Exception):
        pass

    def watched(message: Message) -> list[Message]:
        if message.phase == CONTRIBUTION and message.sender == "site 1":
            if message.round == 27 and attempt[0] == 0:
                raise StoppedError
            sent[attempt[0]][message.round] = message
        return [message]

    monkeypatch.setattr(resuming, "run", lambda *args, **more: real(*args, **more, carry=watched))
    ledgers, setting = tmp_path / "ledgers", {"method": "admm", "lambda_": 0.1}

    def fit() -> Any:
        with checkpoint.saving(tmp_path / "pieces", {}):
            return learned(parts, ledgers=str(ledgers), **setting)

    with pytest.raises(StoppedError):
        fit()
    before = ledger.read_intact(ledgers / "site 1.jsonl")
    entered = {entry.round for entry in before if entry.kind == "data"}
    assert entered >= set(range(1, 27))  # before they were sent
    attempt[0] = 1
    model = fit()
    twice = set(sent[0]) & set(sent[1])
    assert twice == set(range(21, 27))
    for round_ in twice:
        first, second = (each[round_].arrays["parameters"] for each in sent)
        assert not (first == second).any()  # the same numbers, under masks that have nothing in common
    plain = learned(parts, privacy="none", **setting)
    assert np.abs(model.weights_ - plain.weights_).max() < 1e-6
    after = ledger.read_intact(ledgers / "site 1.jsonl")
    fit()  # a finished study sends nothing, and nothing is entered
    assert ledger.read_intact(ledgers / "site 1.jsonl") == after
    assert len({entry.study for entry in after if entry.study}) == 2


POLICY = """
[identities]
coordinator = "{coordinator}"
north = "{north}"
south = "{south}"

[ranges]
rho = [0.001, 1000]

[revoked]
"north until May" = "{old}"

[sums]
group = ["north", "south", "west"]
quorum = 3

[questions]
tasks = ["scatter"]
rounds = 2

[budget]
epsilon = 1
"""


def test_the_owner_writes_the_policy(tmp_path: Path) -> None:
    keys = {name: Identity().public.hex() for name in ("coordinator", "north", "south", "old")}
    file = tmp_path / "policy.toml"
    file.write_text(POLICY.format(**keys))
    found = read_policy(tmp_path)
    assert found.group == ("north", "south", "west")
    assert (found.quorum, found.recover, found.lanes, found.min_rows, found.rounds) == (3, False, 1, 10, 2)
    assert found.budget == Budget(1.0, 1e-5)
    assert found.ranges == {"rho": (1e-3, 1e3)}
    assert not found.solvable
    for wrong, why in (
        ("rounds = 2", "questions.rounds is missing"),
        ("quorum = 3", "sums.quorum is missing"),
        (keys["coordinator"], "64 hexadecimal digits"),
        ("[budget]", "unknown setting"),
        ("0.001, ", "lowest, highest"),
        (keys["old"], "revoked.north until May must be 64"),
        (f'coordinator = "{keys["coordinator"]}"', "public keys of the coordinator"),
    ):
        file.write_text(POLICY.format(**keys).replace(wrong, "abc" if len(wrong) == 64 else ""))
        with pytest.raises(DataError, match=why):
            read_policy(file)
    file.write_text(POLICY.format(**{**keys, "south": keys["north"]}))
    with pytest.raises(DataError, match="north and south have the same key"):
        read_policy(file)
    file.write_text(POLICY.format(**{**keys, "north": keys["old"]}))
    with pytest.raises(DataError, match=r"north under .identities. is revoked .north until May"):
        read_policy(file)
    file.write_text(POLICY.format(**keys).replace("quorum = 3", "quorum = 3\nmin_sites = 2"))
    with pytest.raises(DataError, match="at least 3"):
        read_policy(file)
    with pytest.raises(UsageError):
        Policy(min_sites=1)


def _consensus(attack: Attack, round_: int, rho: float = 1.0, W: Any = None) -> Message:
    """Ask the first site for its parameters at one penalty."""
    arrays = {"W": np.zeros((1, D, D)) if W is None else W, "rho": np.array([rho])}
    if round_ == 1:
        arrays |= {
            "group": np.zeros(D, dtype=np.int64), "centre": np.zeros((1, D)), "rows": np.array([120.0]),
            "scale": np.ones(D),
        }  # fmt: skip
    before = attack.states["site 0"].masking.get("asked", {"question": ""})
    meta = {"task": "consensus", "relax": 1.5, "narrow": {}, "over": list(attack.sites)}
    study = {"study": attack.memory["agreement"]["study"], "before": before}
    return attack.send("site 0", round_, "ask", arrays, **meta, **study)


def test_more_sums_of_parameters_than_unknown_covariances_do_not_leave() -> None:
    attack = Attack(sites_of(3, solvable=False))
    attack.join()
    replies = [_consensus(attack, round_) for round_ in (1, 2)]  # 10 numbers each; 12 are unknown
    assert [reply.phase for reply in replies] == ["contribution", REFUSED]
    assert is_constant_refusal(replies[1])
    assert "20 sums that are not statistics of the pooled rows" in attack.reasons("site 0")
    before = remembered(attack, "site 0")
    for earlier, phase in ((before, REFUSED), ((), "contribution")):  # earlier studies count
        own = site("site 0", party(0), earlier, solvable=False)
        later = Attack({**sites_of(3), "site 0": own})
        later.join()
        assert _consensus(later, 1).phase == phase


def test_summed_moments_are_answered_as_often_as_they_are_asked_for() -> None:
    """They are the same sums each time; those of other functions of the data are not."""
    before: tuple[Entry, ...] = ()
    for study in range(4):
        attack = Attack({**sites_of(3), "site 0": site("site 0", party(0), before, solvable=False)})
        attack.join()
        assert attack.ask("site 0").phase == "contribution", study
        before = remembered(attack, "site 0", before)
    assert equations.opened(before) == (D + 1, set(NAMES))  # logarithms of variances, and of all together
    for correlation, divisor, refused, more in ((0.5, 0, True, 0), (1.0, 2, False, 6), (1.0, 0, False, 0)):
        attack = Attack({**sites_of(3), "site 0": site("site 0", party(0), before, solvable=False)})
        attack.join()
        adjusted = np.array([correlation, divisor, *np.zeros(D)])
        assert is_constant_refusal(attack.ask("site 0", adjustment=adjusted)) == refused
        assert ("moved a part of the way" in attack.reasons("site 0")) == refused
        assert equations.opened(remembered(attack, "site 0", before))[0] == D + 1 + more


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("rows[]", (2,), 0), ("scatter[x0]", (D, D), 0), ("squares", (1, D), 0), ("families", (7,), 0),
        ("counts", (9,), 0), ("log_scales", (3, D), 0), ("weighted scatter", (D, D), 6),
        ("weighted scatter", (6,), 6), ("overall", (3,), 1),
        ("variances", (4, D), D), ("parameters", (2, D, D), 2 * D * D), ("spread", (2,), 2),
        ("squared weights", (1, D, D), D * D), ("residual squares", (5,), 5), ("edges", (D, D), D * D),
        ("scaled scatter[]", (D, D), 6),
    ],
)  # fmt: skip
def test_which_sums_are_equations_in_single_sites(name: str, shape: tuple[int, ...], expected: int) -> None:
    assert equations.equations(equations.Sum(name, shape)) == expected


def test_the_owner_narrows_the_range_of_a_field() -> None:
    for rho, phase in ((1.0, "contribution"), (1e-9, REFUSED)):
        attack = Attack(sites_of(3, ranges={"rho": (1e-3, 1e3)}))
        attack.join()
        assert _consensus(attack, 1, rho).phase == phase
    assert "rho lies outside 0.001 to 1000" in attack.reasons("site 0")
    attack = Attack(sites_of(3, ranges={"W": (-10.0, 10.0)}))
    attack.join()
    assert _consensus(attack, 1, W=np.full((1, D, D), 11.0)).phase == REFUSED
    assert "W lies outside -10 to 10" in attack.reasons("site 0")
    with pytest.raises(UsageError, match="No question has a field 'roh'"):
        sites_of(3, ranges={"roh": (1e-3, 1e3)})


def test_a_ledger_written_anew_contradicts_what_another_site_has_kept(tmp_path: Path) -> None:
    def written(folder: str, names: str) -> tuple[Entry, ...]:
        with Ledger(tmp_path / folder, IDENTITIES["site 1"]) as own:
            own.append([ledger.text_of(Entry("s", 1, "data", name)) for name in names])
            return own.entries

    true, anew = written("true", "abc"), written("anew", "xyzw")
    head = len(true).to_bytes(8, "big") + bytes.fromhex(true[-1].hash)
    with Ledger(tmp_path / "peer", IDENTITIES["site 0"]) as peer:
        peer.append([ledger.text_of(ledger.head_entry("s", 1, "site 1", head))])
    longer = len(anew).to_bytes(8, "big") + bytes.fromhex(anew[-1].hash)
    assert ledger.head_problem(peer.entries, "site 1", longer) is None  # a longer one is believed on joining
    assert ledger.testimony_problem(true, "site 1", peer.entries) is None
    assert "rewritten" in str(ledger.testimony_problem(anew, "site 1", peer.entries))
    assert "rewritten" in str(ledger.testimony_problem(true[:-1], "site 1", peer.entries))
    ask = ["ledger", str(tmp_path / "anew"), "--witness", str(tmp_path / "peer"), "--name", "site 1"]
    assert CliRunner().invoke(app, ask).exit_code != 0
    assert CliRunner().invoke(app, [ask[0], str(tmp_path / "true"), *ask[2:]]).exit_code == 0


@pytest.mark.parametrize(
    ("reason", "allowed", "announced", "change"),
    [
        ("members", {"directory": {}}, {}, {}),
        ("quorum", {"quorum": 3}, {}, {"quorum": 2}),
        ("recovery", {"recover": False}, {}, {"recover": True}),
        ("group", {"group": ("site 0", "site 1", "site 5")}, {}, {}),
        ("tasks", {"tasks": ("scatter",)}, {"tasks": ["scatter", "consensus"]}, {}),
        ("rounds", {"rounds": 2}, {"rounds": 3}, {}),
        ("columns", {}, {"columns": ["x0", "unknown"]}, {}),
        ("noise", {"budget": Budget(1.0, 1e-5)}, {}, {}),
        ("withheld", {"min_rows": 41}, {}, {}),
        ("withheld", {"withheld": True}, {}, {}),
        (
            "withheld",
            {},
            {},
            {"parts": {"": ["site 0", "site 1", "site 2"], "x0": ["site 0", "site 1", "site 2"]}},
        ),
        ("quorum", {"quorum": 3, "min_rows": 41}, {}, {"quorum": 2}),  # data are looked at last
    ],
)
def test_a_site_that_does_not_join_says_why_in_a_word_that_its_data_do_not_change(
    reason: str, allowed: dict[str, Any], announced: dict[str, Any], change: dict[str, Any]
) -> None:
    told = []
    for k in (0, 7):  # the same policy over other data
        attack = Attack({**sites_of(3), "site 0": _of(party(k), **allowed)}, announced=announced)
        told.append(attack.join(**change)["site 0"])
    assert all(map(is_refusal_to_join, told))
    assert [reply.meta["reason"] for reply in told] == [reason, reason]
    assert told[0].digest == told[1].digest
    assert is_constant_refusal(attack.ask("site 0"))  # later questions are refused without a reason


def _of(local: Any, **allowed: Any) -> Site:
    if allowed.get("directory") == {}:
        allowed["directory"] = {name: DIRECTORY[name] for name in ("coordinator", "site 0", "site 1")}
    policy = Policy(**{"directory": DIRECTORY, **allowed})
    return Site(local, protection=SiteProtection(IDENTITIES["site 0"], policy))


def test_under_noise_whether_a_site_joins_and_answers_does_not_depend_on_its_rows() -> None:
    own = _of(PrivateParty(rows(0, 40), NAMES), budget=Budget(1.0, 1e-5))
    attack = Attack({**sites_of(3), "site 0": own}, announced={"plan": [[0.5, 100]]})
    assert is_refusal_to_join(attack.join()["site 0"], "budget")
    joined, z = private(40)
    joined.join()
    before = remembered(joined, "site 0")
    for n in (40, 41, 7, 1):  # also after a small change of the data
        local = PrivateParty(rows(0, n), NAMES)
        attack, z = private(40)
        attack.sites["site 0"] = site("site 0", local, before, budget=Budget(1.0, 1e-5), min_rows=10)
        assert attack.join()["site 0"].phase == ROSTER
        assert moments(attack, "site 0", 1, z).phase == "contribution"


def test_rows_and_data_are_checked_again_after_a_restart() -> None:
    """Between joining and a question the data behind a site may be replaced; the state is what was saved."""
    for n, why in ((40, ""), (41, "data has changed since it joined"), (7, "It has 7 rows")):
        attack = Attack(sites_of(3))
        attack.join()
        attack.sites["site 0"] = site("site 0", party(0, n))
        reply = attack.ask("site 0")
        assert is_constant_refusal(reply) == bool(why)
        assert why in attack.reasons("site 0")


def test_a_new_identity_does_not_make_a_site_forget(tmp_path: Path) -> None:
    """Versions of the data are kept under a key of their own: after a renewal a row more is noticed still."""
    attack = Stored(folders(tmp_path))
    attack.join()
    assert attack.ask("site 0").phase == CONTRIBUTION
    for own in attack.folders.values():
        own.close()
    path = tmp_path / "site 0"
    new = renew_identity(path)
    assert kept_identity(path / IDENTITY).secret == new.secret
    directory = {**DIRECTORY, "site 0": new.public}
    for n, withheld in ((40, False), (41, True)):
        made = {
            f"site {k}": SiteFolder(tmp_path / f"site {k}", f"site {k}", local, Policy(directory))
            for k, local in enumerate((party(0, n), party(1), party(2)))
        }
        for own in made.values():
            own.begin_study()
        again = Stored(made)
        assert is_refusal_to_join(again.join()["site 0"], "withheld") == withheld
        assert ("data has changed" in again.reasons("site 0")) == withheld
        for own in made.values():
            own.close()


def test_a_site_on_its_own_has_a_minimum_of_rows() -> None:
    assert Site(party(0)).min_rows == 10
