"""What a site enforces whatever the coordinator asks: masks, enough sites in a sum, budget, and ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polydag.errors import DataError, UsageError
from polydag.federated.protocol import equations
from polydag.federated.protocol.checks import RANGES, out_of_range
from polydag.federated.protocol.disclosure import Noise
from polydag.federated.protocol.equations import PARTLY_CENTRED, entry_name
from polydag.federated.protocol.messages import (
    AGREE,
    ASK,
    COORDINATOR,
    DEAL,
    EXCHANGE,
    JOIN,
    OPEN,
    PARCELS,
    ROSTER,
    SIGNATURE,
    Arrays,
    Message,
)
from polydag.federated.protocol.programs import Ask, Local
from polydag.federated.protocol.reasons import WITHHELD, JoinRefusedError
from polydag.federated.protocol.storage.versions import change_problem, data_version, selection_problem
from polydag.federated.protocol.sums import PADS, SecureSum, narrow_of, resolution_problem
from polydag.privacy import differencing, ledger
from polydag.privacy.dp.accounting import require_within
from polydag.privacy.ledger import DATA, GROUP, SUM, VERSION, Entry
from polydag.privacy.masking import site as masking
from polydag.privacy.masking.agreement import Agreement
from polydag.privacy.masking.identities import Channel, Identity, is_signed, is_tagged, tag
from polydag.privacy.masking.keystreams import derive_key
from polydag.privacy.policy import Policy
from polydag.stats import Regimes

Memory = Mapping[str, Any]
Done = tuple[Memory, Arrays]

_BRINGS = {  # the arrays and words of each phase's question
    JOIN: ((), ("agreement",)),
    ROSTER: (("keys", "signatures", "heads"), ("study", "block")),
    DEAL: ((), ("study", "block")),
    PARCELS: (("parcels",), ("study", "senders")),
    ASK: ((), ("study", "over", "before")),
    AGREE: ((), ("study", "over", "list", "question")),
    OPEN: ((), ("study", "over", "list", "question", "signed")),
}
CHANNEL = "channel"  # in the memory: the keys of questions and answers
_MOST_RELEASES, _MOST_KINDS = 10_000, 8  # in a plan: more would take long to account for


@dataclass(frozen=True)
class SiteProtection:
    """A site's side of masked sums.

    Parameters
    ----------
    identity : Identity
        The site's own identity.
    policy : Policy
        What its owner allows.
    earlier : tuple of Entry
        Its ledger at the beginning of the study.
    version_key : bytes, optional
        The key under which versions of its data stand in the ledger; it outlives the identity, from which it
        is derived by default.
    selection : str
        Which of its rows take part, as the study says.
    """

    identity: Identity
    policy: Policy
    earlier: tuple[Entry, ...] = ()
    version_key: bytes = field(default=b"", repr=False)
    selection: str = ""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.policy.ranges) - set(RANGES)):
            raise UsageError(f"No question has a field {unknown[0]!r}; ranges are of {', '.join(RANGES)}.")

    @property
    def signs(self) -> bool:
        """Whether questions and answers are signed."""
        return COORDINATOR in self.policy.directory

    def is_genuine(self, message: Message, memory: Memory) -> bool:
        """Whether a question comes from the coordinator as the owner knows it."""
        if not self.signs:
            return True
        signature = _bytes(message.meta.get(SIGNATURE, ""))
        if CHANNEL in memory and is_tagged(memory[CHANNEL][0].tobytes(), signature, message.digest):
            return True
        return is_signed(self.policy.directory[COORDINATOR], signature, message.digest)

    def signature(self, memory: Memory, digest: bytes) -> str:
        """What shows the coordinator that an answer is this site's: a tag once it has joined."""
        if CHANNEL in memory:
            return tag(memory[CHANNEL][1].tobytes(), digest).hex()
        return self.identity.sign(digest).hex()

    def prepare(self, memory: Memory, name: str, message: Message, local: Local) -> Done:
        """Answer a question that is not about data; returns the new memory and what is sent."""
        self._require_words(memory, message)
        if message.phase == JOIN:
            return self._join(memory, name, message, local)
        steps: dict[str, Callable[[Memory, Message], Done]] = {
            ROSTER: self._admit,
            DEAL: self._deal,
            PARCELS: self._accept,
            AGREE: self._agree,
            OPEN: self._open,
        }
        return steps[message.phase](memory, message)

    def _require_words(self, memory: Memory, message: Message) -> None:
        arrays, meta = _BRINGS.get(message.phase, ((), ()))
        lacking = [name for name in arrays if name not in message.arrays]
        lacking += [name for name in meta if name not in message.meta]
        if lacking:
            raise DataError(f"The question lacks {lacking[0]}.")
        if message.round > self.policy.rounds:
            why = f"Its owner allows {self.policy.rounds:g} rounds in a study."
            raise JoinRefusedError("rounds", why) if message.phase == JOIN else DataError(why)
        if message.phase == JOIN:
            return
        if "agreement" not in memory:
            raise DataError("The coordinator has not sent the agreement of the study.")
        if message.meta["study"] != memory["agreement"]["study"]:
            raise DataError("The question belongs to another study.")

    def _join(self, memory: Memory, name: str, message: Message, local: Local) -> Done:
        agreement, policy = Agreement.from_json(message.meta["agreement"]), self.policy
        # Entries of the ledger are told apart by study and round: a name that was used before would let new
        # releases of noise pass for old ones.
        if "agreement" in memory or any(entry.study == agreement.study for entry in self.earlier):
            raise JoinRefusedError("joined", "It has joined this study already, and a study is joined once.")
        if not agreement.study:
            raise JoinRefusedError("agreement", "The study has no name.")
        try:
            agreement.check(policy.min_sites)
        except UsageError as error:
            raise JoinRefusedError("agreement", str(error)) from None
        if name not in agreement.all_sites or len(set(agreement.all_sites)) != len(agreement.all_sites):
            raise JoinRefusedError(
                "members", "The list of sites must name different ones, with this one among them."
            )
        if strangers := [site for site in agreement.all_sites if site not in policy.directory]:
            raise JoinRefusedError(
                "members", f"{strangers[0]} is not in this site's directory of identities."
            )
        if agreement.quorum < policy.quorum:
            raise JoinRefusedError(
                "quorum", f"The quorum is {agreement.quorum}, and its owner asks for {policy.quorum}."
            )
        if agreement.recover and not policy.recover:
            raise JoinRefusedError("recovery", "Its owner does not allow sums without sites that drop out.")
        group = differencing.group_of(name, agreement.groups)
        before = [*ledger.own_groups(self.earlier), *([policy.group] if policy.group else [])]
        if why := differencing.regroup_problem(name, before, agreement.groups):
            raise JoinRefusedError("group", f"{why}.")
        self._require_announced(message, local)
        if policy.withheld:
            raise JoinRefusedError(WITHHELD, "Its owner keeps the data back (withheld).")
        joined, sent = masking.join(agreement, name, self.identity, self._head())
        if self.signs and EXCHANGE in message.meta:
            public = _bytes(message.meta[EXCHANGE])
            keys = Channel.of(joined["private"].tobytes(), public, agreement.study, name)
            joined = {**joined, CHANNEL: np.array([np.frombuffer(key, dtype=np.uint8) for key in keys])}
        kept = {key: memory[key] for key in ("plan",) if key in memory}
        return {**joined, **kept, "sets": [], "group": list(group), "units": {}}, sent

    def version_of(self, local: Local) -> str:
        """The version of the site's data, as it stands in the ledger."""
        return data_version(local, self._version_key, self.selection)

    @property
    def _version_key(self) -> bytes:
        return self.version_key or derived_version_key(self.identity)

    def require_data(self, memory: Memory, local: Local, version: str) -> None:
        """Raise where the data of a site that joins must be kept back, for a reason that depends on them."""
        agreement = Agreement.from_json(memory["agreement"])
        holds = {part for part, holders in agreement.parts.items() if memory["name"] in holders}
        if holds != set(rows_of_parts(local)):
            raise JoinRefusedError(
                WITHHELD, "The study's list of who has rows under which interventions is wrong about it."
            )
        deviations = getattr(local, "deviations", None)  # of a party that sums squares of its numbers
        if deviations and (why := resolution_problem(local.names, local.n_rows, deviations())):
            raise JoinRefusedError(WITHHELD, why)
        if why := change_problem(self.earlier, version, self._version_key, self.policy.min_change):
            raise JoinRefusedError(WITHHELD, f"{why}.")
        if why := selection_problem(self.earlier, version, self.policy.selections):
            raise JoinRefusedError(WITHHELD, f"{why}.")

    def _require_announced(self, message: Message, local: Local) -> None:
        """Raise where the owner does not allow what the study announces; it need not announce anything."""
        announced, policy = message.meta.get("announced", {}), self.policy
        if not isinstance(announced, Mapping):
            raise DataError("What the study announces is not a mapping.")
        tasks, columns = _names(announced.get("tasks", [])), _names(announced.get("columns", []))
        if policy.tasks and (other := [task for task in tasks if task not in policy.tasks]):
            raise JoinRefusedError("tasks", f"Its owner does not allow the question {other[0]!r}.")
        if lacking := [column for column in columns if column not in local.names]:
            raise JoinRefusedError("columns", f"It has no column {lacking[0]!r}, which the study needs.")
        if _whole(announced.get("rounds", 0)) > policy.rounds:
            raise JoinRefusedError("rounds", f"Its owner allows {policy.rounds:g} rounds in a study.")
        if policy.budget is None:
            return
        if not hasattr(local, "noise"):
            raise JoinRefusedError("noise", "Its owner has set a budget: numbers leave with noise only.")
        if "plan" in announced:
            planned = _plan(announced["plan"])
            try:
                require_within(policy.budget, ledger.multipliers(self.earlier), planned)
            except DataError as error:
                raise JoinRefusedError("budget", str(error)) from None

    def _head(self) -> bytes:
        last = self.earlier[-1].hash if self.earlier else ledger.START
        return len(self.earlier).to_bytes(8, "big") + bytes.fromhex(last)

    def _admit(self, memory: Memory, message: Message) -> Done:
        heads, all_sites = message.arrays["heads"], memory["agreement"]["all_sites"]
        keys, signatures = message.arrays["keys"], message.arrays["signatures"]
        memory = masking.admit(memory, keys, signatures, heads, self.policy.directory)
        told = {site: head.tobytes() for site, head in zip(all_sites, heads, strict=True)}
        for site, head in told.items():
            if why := ledger.head_problem(self.earlier, site, head):
                raise DataError(f"{why}.")
        if told[memory["name"]] != self._head():
            raise DataError("The coordinator has distributed another head of this site's own ledger.")
        memory = {**memory, "heads": {site: head.hex() for site, head in told.items()}}
        return self._deal(memory, message) if memory["agreement"]["recover"] else (memory, {})

    def _deal(self, memory: Memory, message: Message) -> Done:
        return masking.deal(memory, _whole(message.meta["block"]))

    def _accept(self, memory: Memory, message: Message) -> Done:
        return masking.accept(memory, _names(message.meta["senders"]), message.arrays["parcels"]), {}

    def _agree(self, memory: Memory, message: Message) -> Done:
        over, sites = self._sets(memory, message)
        question = _bytes(message.meta["question"])
        memory, signature = masking.sign_list(memory, self.identity, message.round, over, sites, question)
        return memory, {"signature": signature}

    def _open(self, memory: Memory, message: Message) -> Done:
        over, sites = self._sets(memory, message)
        signed = {str(name): _bytes(value) for name, value in message.meta["signed"].items()}
        memory, shares = masking.open_round(
            memory,
            message.round,
            over,
            sites,
            _bytes(message.meta["question"]),
            signed,
            self.policy.directory,
        )
        return with_set(memory, sites), {"shares": shares}

    def _sets(self, memory: Memory, message: Message) -> tuple[list[str], list[str]]:
        """The sites that were asked and those in the sum; both must be unions of groups."""
        over, sites = _names(message.meta["over"]), _names(message.meta["list"])
        for each in (over, sites):
            self._require_sum(memory, each)
        return over, sites

    def _require_sum(self, memory: Memory, sites: Sequence[str]) -> None:
        if sites == memory["agreement"]["all_sites"]:
            return  # a union of groups, as was checked on joining
        groups = memory["agreement"]["groups"]
        if why := differencing.sum_problem(sites, groups, self.policy.min_sites):
            raise DataError(f"It does not help to form the sum over {', '.join(sites)}: {why}.")

    def require_unsolvable(
        self, memory: Memory, known: Arrays, sent: Arrays, local: Local, so_far: Sequence[str]
    ) -> None:
        """Raise a `DataError` where sums would be enough to solve for single sites.

        `known` are the arrays with which a question was answered, of this one and of earlier ones.
        """
        if self.policy.solvable:
            return
        names = {entry_name(name, known): name for name in sent}
        if "parameters" in sent and local.n_rows <= len(local.names):
            raise DataError(
                "It has no more rows than columns: at a small penalty its parameters outweigh those of all "
                "other sites and show the span of its rows. Use summed moments or noise (epsilon), or let "
                "the owner allow it (solvable)."
            )
        if any(name.startswith(PARTLY_CENTRED) for name in names):
            raise DataError(
                "Moments of rows that are moved a part of the way to each site's own mean, at two different "
                "parts, can be solved for these means. Use site_effects='means' or 'none', or let the owner "
                "allow it (solvable)."
            )
        study, version = study_of(memory), str(memory["version"])
        asked = [Entry(study, 0, VERSION, version)]
        asked += [
            Entry(study, 0, DATA, name, "×".join(map(str, (1, *sent[own].shape))), masked=True)
            for name, own in names.items()
        ]
        earlier = [*self.earlier, *ledger.parse(so_far)]
        before, (opened, columns) = equations.opened(earlier)[0], equations.opened([*earlier, *asked])
        unknown = equations.unknown(len(memory["agreement"]["all_sites"]), len(columns))
        if opened > before and opened >= unknown:
            raise DataError(
                f"With this question, {opened} sums that are not statistics of the pooled rows would have "
                f"left, and these leave {unknown} covariances of single sites unknown: the sums could be "
                "solved for them. Use summed moments or noise (epsilon), or let the owner allow it "
                "(solvable)."
            )

    def require_question(self, memory: Memory, message: Message) -> None:
        """Raise a `DataError` for a question about data that must not be answered."""
        if "roster" not in memory:
            raise DataError("It answers under masks only, and no keys have been exchanged.")
        self._require_words(memory, message)
        task, policy = message.meta.get("task", ""), self.policy
        if policy.tasks and task not in policy.tasks:
            raise DataError(f"Its owner does not allow the question {task!r}.")
        for name in ("W", "weights", "ridge", "lambdas"):
            if name in message.arrays and len(message.arrays[name]) > policy.lanes:
                raise DataError(f"Its owner allows {policy.lanes:g} penalties in a question.")
        own = {name: message.arrays[name] for name in policy.ranges if name in message.arrays}
        if why := out_of_range(Ask(task, own, message.meta), policy.ranges):
            raise DataError(f"{why}, which is what its owner allows.")
        self._require_sum(memory, _names(message.meta["over"]))
        self._require_chain(memory, message)

    def _require_chain(self, memory: Memory, message: Message) -> None:
        """Raise where the coordinator names another question as the one before.

        Where some sites only are asked in a round, the one before may not have come here.
        """
        before, told = memory.get("asked", {"round": 0, "question": ""}), message.meta["before"]
        asked_all = not memory["agreement"]["recover"]
        if not (asked_all or before["round"] == message.round - 1):
            return
        if not isinstance(told, Mapping) or told.get("question") != before["question"]:
            raise DataError(
                "The coordinator names another question as the one before. Either it says different things "
                "to different sites, or an older state of this site was put back."
            )

    def honest(self, memory: Memory) -> int:
        """How many sites are counted on to keep their noise secret: all but those that may collude."""
        agreement = Agreement.from_json(memory["agreement"])
        n = len(agreement.all_sites)
        return n - min(agreement.colluding, (n - 1) // 2)

    def spend(self, memory: Memory, message: Message, noise: Noise, so_far: Sequence[str]) -> Memory:
        """Charge a release to the budget; the plan of the whole study is checked before the first one."""
        if noise.multiplier > 0 and memory["agreement"]["recover"]:
            raise DataError("With noise every site is needed: those that drop out would take theirs along.")
        budget = self.policy.budget
        if budget is None:
            return memory
        if noise.multiplier <= 0:
            raise DataError("Its owner has set a budget: numbers leave with noise only.")
        if "plan" not in memory:
            planned = _plan(message.meta.get("plan"))
            require_within(budget, ledger.multipliers([*self.earlier, *ledger.parse(so_far)]), planned)
            memory = {**memory, "plan": [[z, count] for z, count in planned.items()]}
        left = {float(z): int(count) for z, count in memory["plan"]}
        if left.get(noise.multiplier, 0) < 1:
            raise DataError(
                f"Round {message.round} is not part of the plan that was checked against the budget."
            )
        left[noise.multiplier] -= 1
        return {**memory, "plan": [[z, count] for z, count in left.items()]}

    def mask(self, memory: Memory, message: Message, arrays: Arrays, columns: Sequence[str] = ()) -> Done:
        """The numbers under masks."""
        all_sites = memory["agreement"]["all_sites"]
        over, narrow = _names(message.meta["over"]), narrow_of(message.meta)
        for name, powers in narrow.items():
            if memory["units"].get(name, list(powers)) != list(powers):
                raise DataError(f"The units of {name} have changed since it was first asked for.")
        parts, views = SecureSum(len(all_sites), narrow).encode(arrays, columns)
        memory, pads = masking.mask(memory, message.round, parts, over, message.digest)
        units = {**memory["units"], **{name: list(powers) for name, powers in narrow.items()}}
        asked = {"round": message.round, "question": message.digest.hex()}
        memory = {**memory, "units": units, "asked": asked}
        if pads is not None:
            return memory, {**views, PADS: pads}
        return with_set(memory, all_sites), views

    def memories(self, before: Memory, after: Memory, round_: int) -> list[Entry]:
        """What the ledger remembers for later studies, of what a question has changed."""
        if not after:
            return []
        study, entries = str(after["agreement"]["study"]), []
        if "agreement" not in before:
            group = json.dumps(list(after["group"]), ensure_ascii=False)
            entries += [
                Entry(study, round_, GROUP, group),
                Entry(study, round_, VERSION, str(after["version"])),
            ]
        if "heads" in after and "heads" not in before:
            entries += [
                ledger.head_entry(study, round_, site, bytes.fromhex(head))
                for site, head in after["heads"].items()
                if site != after["name"]
            ]
        for sites in after.get("sets", ())[len(before.get("sets", ())) :]:
            name = json.dumps(list(sites), ensure_ascii=False)
            entries.append(Entry(study, round_, SUM, name, over=len(sites)))
        return entries


def derived_version_key(identity: Identity) -> bytes:
    """The first key of the versions of a site's data."""
    return derive_key(identity.secret, "versions")


def rows_of_parts(local: Local) -> dict[str, float]:
    """The rows of each part of a site's data, by its label: the set of intervened variables."""
    if isinstance(local.data, Regimes):
        return {" and ".join(sorted(targets)): part.n for targets, part in local.data}
    return {"": local.n_rows}


def with_set(memory: Memory, sites: Sequence[str]) -> Memory:
    """The memory with a set of sites over which a sum can be read."""
    known = list(sites) in memory["sets"]
    return memory if known else {**memory, "sets": [*memory["sets"], list(sites)]}


def study_of(memory: Memory) -> str:
    """The study that a site has joined; empty before that and in the open."""
    return str(memory["agreement"]["study"]) if "agreement" in memory else ""


def _plan(told: Any) -> dict[float, int]:
    """The releases of a plan, by noise multiplier."""
    try:
        pairs = [(float(z), _whole(count)) for z, count in told]
    except (TypeError, ValueError):
        raise DataError("The question brings no plan of all releases.") from None
    if len(pairs) > _MOST_KINDS or not all(0.01 <= z <= 1e6 and 0 < n <= _MOST_RELEASES for z, n in pairs):
        raise DataError("The plan holds numbers that are out of range.")
    planned: dict[float, int] = {}
    for z, count in pairs:
        planned[z] = planned.get(z, 0) + count
    return planned


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise DataError(f"{value!r} is not a whole number.")
    return value


def _names(value: Any) -> list[str]:
    if not isinstance(value, (list, tuple)) or not {str}.issuperset(map(type, value)):
        raise DataError("A list of sites does not hold names.")
    return list(value)


def _bytes(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        return b""
