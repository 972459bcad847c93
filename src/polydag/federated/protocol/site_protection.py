"""What a site enforces whatever the coordinator asks: masks, enough sites in every sum, and its ledger."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polydag.errors import DataError, UsageError
from polydag.federated.protocol.coordinator_masking import tagged
from polydag.federated.protocol.disclosure import Noise, data_entries, protocol_entries
from polydag.federated.protocol.messages import (
    AGREE,
    ASK,
    COORDINATOR,
    DEAL,
    JOIN,
    OPEN,
    PARCELS,
    ROSTER,
    Arrays,
    Message,
)
from polydag.federated.protocol.sums import SecureSum, narrow_of
from polydag.privacy import differencing
from polydag.privacy.dp.accounting import Budget, require_within
from polydag.privacy.ledger import SUM, Entry, add
from polydag.privacy.masking import site as masking
from polydag.privacy.masking.agreement import MIN_SITES, Agreement
from polydag.privacy.masking.identities import Directory, Identity

Memory = Mapping[str, Any]
Done = tuple[Memory, Arrays]

_BRINGS = {  # the arrays and words of each phase's question
    JOIN: (("key",), ("agreement",)),
    ROSTER: (("keys", "signatures"), ("block",)),
    DEAL: ((), ("block",)),
    PARCELS: (("parcels",), ("senders",)),
    AGREE: ((), ("over", "list")),
    OPEN: ((), ("over", "list", "signed")),
}


@dataclass(frozen=True)
class SiteProtection:
    """A site's side of masked sums.

    Parameters
    ----------
    identity : Identity
        The site's own identity.
    directory : mapping of name to bytes
        The public keys of all sites' identities, as the owner knows them.
    min_sites : int
        The smallest number of sites in any sum, and in any difference of two sums.
    sets : tuple of tuples of str
        The sets that earlier studies have summed over, from the site's ledger.
    budget : Budget, optional
        The differential privacy that may be spent on its rows. With it, only numbers with noise leave, and no
        more than it allows.
    spent : mapping
        What earlier studies have spent: the number of releases with each noise multiplier.
    """

    identity: Identity
    directory: Directory = field(repr=False)
    min_sites: int = MIN_SITES
    sets: tuple[tuple[str, ...], ...] = ()
    budget: Budget | None = None
    spent: Mapping[float, int] = field(default_factory=dict)

    def prepare(self, memory: Memory, name: str, message: Message) -> Done:
        """Answer a question that is not about data; returns the new memory and what is sent."""
        if message.phase == JOIN:
            return self._join(name, message)
        if not memory:
            raise DataError("The coordinator has not sent the agreement of the study.")
        steps: dict[str, Callable[[Memory, Message], Done]] = {
            ROSTER: self._admit,
            DEAL: self._deal,
            PARCELS: self._accept,
            AGREE: self._agree,
            OPEN: self._open,
        }
        return steps[message.phase](memory, message)

    def objection(self, message: Message) -> str | None:
        """Why such a question cannot be answered as it arrived."""
        arrays, meta = _BRINGS.get(message.phase, ((), ()))
        lacking = [name for name in arrays if name not in message.arrays]
        lacking += [name for name in meta if name not in message.meta]
        return f"the question lacks {lacking[0]}" if lacking else None

    def _join(self, name: str, message: Message) -> Done:
        agreement = Agreement.from_json(message.meta.get("agreement", {}))
        try:
            agreement.check(self.min_sites)
        except UsageError as error:
            raise DataError(str(error)) from None
        if name not in agreement.all_sites or len(set(agreement.all_sites)) != len(agreement.all_sites):
            raise DataError("The list of sites must name different ones, with this one among them.")
        if strangers := [site for site in agreement.all_sites if site not in self.directory]:
            raise DataError(f"{strangers[0]} is not in this site's directory of identities.")
        if not agreement.recover:
            self._require_allowed({}, agreement.all_sites)
        coordinator_key = message.arrays["key"].tobytes() if message.meta.get("tags", True) else None
        memory, sent = masking.join(agreement, name, self.identity, coordinator_key)
        return {**memory, "sets": []}, sent

    def _admit(self, memory: Memory, message: Message) -> Done:
        keys, signatures = message.arrays["keys"], message.arrays["signatures"]
        memory = masking.admit(memory, keys, signatures, self.directory)
        return self._deal(memory, message) if memory["agreement"]["recover"] else (memory, {})

    def _deal(self, memory: Memory, message: Message) -> Done:
        number = int(message.meta["block"])
        if number <= int(memory.get("dealt", -1)):
            raise DataError(f"Secrets of block {number} have been distributed already.")
        memory, sent = masking.deal(memory, number)
        return {**memory, "dealt": number}, sent

    def _accept(self, memory: Memory, message: Message) -> Done:
        senders = [str(name) for name in message.meta["senders"]]
        return masking.accept(memory, senders, message.arrays["parcels"]), {}

    def _agree(self, memory: Memory, message: Message) -> Done:
        sites = tuple(map(str, message.meta["list"]))
        self._require_allowed(memory, sites)
        memory, signature = masking.sign_list(memory, self.identity, message.round, sites)
        return memory, {"signature": signature}

    def _open(self, memory: Memory, message: Message) -> Done:
        sites = tuple(map(str, message.meta["list"]))
        self._require_allowed(memory, sites)
        signed = {str(name): bytes.fromhex(value) for name, value in message.meta["signed"].items()}
        over = tuple(map(str, message.meta["over"]))
        memory, shares = masking.open_round(memory, message.round, over, sites, signed, self.directory)
        return _with_set(memory, sites), {"shares": shares}

    def _require_allowed(self, memory: Memory, sites: tuple[str, ...]) -> None:
        before = (*self.sets, *memory.get("sets", ()))
        if list(sites) not in list(map(list, before)) and (
            why := differencing.objection(before, sites, self.min_sites)
        ):
            raise DataError(f"It does not help to form the sum over {', '.join(sites)}: {why}.")

    def honest(self, memory: Memory) -> int:
        """How many sites are counted on to keep their noise secret: all but those that may collude."""
        agreement = Agreement.from_json(memory["agreement"])
        n = len(agreement.all_sites)
        return n - min(agreement.colluding, (n - 1) // 2)

    def spend(self, memory: Memory, message: Message, noise: Noise) -> Memory:
        """Charge a release to the budget; the plan of the whole study is checked before the first one."""
        if self.budget is None:
            return memory
        if noise.multiplier <= 0:
            raise DataError("Its owner has set a budget: numbers leave with noise only.")
        if "plan" not in memory:
            planned = {float(z): int(count) for z, count in message.meta.get("plan", ())}
            require_within(self.budget, self.spent, planned)
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
        if "roster" not in memory:
            raise DataError("It answers under masks only, and no keys have been exchanged.")
        all_sites = memory["agreement"]["all_sites"]
        over = message.meta.get("over", all_sites)
        parts, views = SecureSum(len(all_sites), narrow_of(message.meta)).encode(arrays, columns)
        memory = masking.mask(memory, message.round, parts, over)
        if not memory["agreement"]["recover"]:
            memory = _with_set(memory, all_sites)
        return memory, views


def _with_set(memory: Memory, sites: Sequence[str]) -> Memory:
    known = list(sites) in memory["sets"]
    return memory if known else {**memory, "sets": [*memory["sets"], list(sites)]}


def with_tag(memory: Memory, message: Message, phase: str) -> Message:
    """A reply with the tag that authenticates its sender."""
    if phase == JOIN or "tag" not in memory:
        return message
    meta = {**message.meta, "tag": tagged(message, memory["tag"].tobytes(), phase)}
    return dataclasses.replace(message, meta=meta)


def ledger_after(
    lines: tuple[str, ...],
    before: Memory,
    after: Memory,
    message: Message,
    phase: str,
    noise: Noise,
    over: int,
    last_hash: str,
) -> tuple[str, ...]:
    """The ledger after a message to the coordinator; newly allowed sums come first."""
    if message.recipient != COORDINATOR:
        return lines
    study = str(after["agreement"]["study"]) if after else ""
    entries = []
    for sites in after.get("sets", ())[len(before.get("sets", ())) :]:
        name = json.dumps(list(sites), ensure_ascii=False)
        entries.append(Entry(study, message.round, SUM, name, "", 0, True, len(sites), 0.0, 0.0, ""))
    if phase == ASK:
        entries += data_entries(study, message, masked=bool(after), over=over, noise=noise)
    else:
        entries += protocol_entries(study, message, phase)
    return add(lines, entries, last_hash)
