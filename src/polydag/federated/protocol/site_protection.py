"""What a site insists on, whatever the coordinator asks: masks, enough sites in every sum, and its ledger."""

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
from polydag.privacy import differencing as rules
from polydag.privacy.dp.accounting import Budget, require_within
from polydag.privacy.ledger import SUM, Entry, add
from polydag.privacy.masking import site as masking
from polydag.privacy.masking.agreement import LEAST, Terms
from polydag.privacy.masking.identities import Directory, Identity

Memory = Mapping[str, Any]
Done = tuple[Memory, Arrays]

_BRINGS = {  # the arrays and words of each phase's question
    JOIN: (("key",), ("terms",)),
    ROSTER: (("keys", "signatures"), ("block",)),
    DEAL: ((), ("block",)),
    PARCELS: (("parcels",), ("senders",)),
    AGREE: ((), ("over", "list")),
    OPEN: ((), ("over", "list", "signed")),
}


@dataclass(frozen=True)
class Guard:
    """A site's side of masked sums.

    Parameters
    ----------
    identity : Identity
        The site's own.
    directory : mapping of name to bytes
        The public parts of all sites' identities, as the owner knows them.
    least : int
        The smallest number of sites in any sum, and in any difference of two.
    sets : tuple of tuples of str
        The sets that earlier studies have summed over, from the site's ledger.
    budget : Budget, optional
        What may be spent on its rows: then only numbers with noise leave, and no more of them.
    spent : mapping
        What earlier studies have spent: how many releases with each noise multiplier.
    """

    identity: Identity
    directory: Directory = field(repr=False)
    least: int = LEAST
    sets: tuple[tuple[str, ...], ...] = ()
    budget: Budget | None = None
    spent: Mapping[float, int] = field(default_factory=dict)

    def prepare(self, memory: Memory, name: str, message: Message) -> Done:
        """Answer a question that is not about data; the new state and what is sent."""
        if message.phase == JOIN:
            return self._join(name, message)
        if not memory:
            raise DataError("The coordinator has not told the study's terms.")
        steps: dict[str, Callable[[Memory, Message], Done]] = {
            ROSTER: self._admit,
            DEAL: self._deal,
            PARCELS: self._accept,
            AGREE: self._agree,
            OPEN: self._open,
        }
        return steps[message.phase](memory, message)

    def objection(self, message: Message) -> str | None:
        """Why such a question cannot be answered as it came."""
        arrays, meta = _BRINGS.get(message.phase, ((), ()))
        lacking = [name for name in arrays if name not in message.arrays]
        lacking += [name for name in meta if name not in message.meta]
        return f"the question lacks {lacking[0]}" if lacking else None

    def _join(self, name: str, message: Message) -> Done:
        terms = Terms.from_words(message.meta.get("terms", {}))
        try:
            terms.require_sound(self.least)
        except UsageError as error:
            raise DataError(str(error)) from None
        if name not in terms.members or len(set(terms.members)) != len(terms.members):
            raise DataError("The list of members is not one of different sites with this one among them.")
        if strangers := [member for member in terms.members if member not in self.directory]:
            raise DataError(f"{strangers[0]} is not in this site's directory of identities.")
        if not terms.recover:
            self._require_allowed({}, terms.members)
        marked = message.arrays["key"].tobytes() if message.meta.get("tags", True) else None
        memory, sent = masking.join(terms, name, self.identity, marked)
        return {**memory, "sets": []}, sent

    def _admit(self, memory: Memory, message: Message) -> Done:
        keys, signatures = message.arrays["keys"], message.arrays["signatures"]
        memory = masking.admit(memory, keys, signatures, self.directory)
        return self._deal(memory, message) if memory["terms"]["recover"] else (memory, {})

    def _deal(self, memory: Memory, message: Message) -> Done:
        number = int(message.meta["block"])
        if number <= int(memory.get("dealt", -1)):
            raise DataError(f"Secrets of block {number} have been shared out already.")
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
        if list(sites) not in list(map(list, before)) and (why := rules.objection(before, sites, self.least)):
            raise DataError(f"It does not help to sum over {', '.join(sites)}: {why}.")

    def honest(self, memory: Memory) -> int:
        """How many sites' noise has to do, all others colluding: more than half, or more where more may."""
        terms = Terms.from_words(memory["terms"])
        n = len(terms.members)
        return n - min(terms.colluding, (n - 1) // 2)

    def afford(self, memory: Memory, message: Message, noise: Noise) -> Memory:
        """Take a release off the budget; the whole study's plan is checked before the first."""
        if self.budget is None:
            return memory
        if noise.multiplier <= 0:
            raise DataError("Its owner has set a budget: numbers leave under noise only.")
        if "plan" not in memory:
            planned = {float(z): int(count) for z, count in message.meta.get("plan", ())}
            require_within(self.budget, self.spent, planned)
            memory = {**memory, "plan": [[z, count] for z, count in planned.items()]}
        left = {float(z): int(count) for z, count in memory["plan"]}
        if left.get(noise.multiplier, 0) < 1:
            raise DataError(
                f"Round {message.round} is not in the study's plan, which the budget was checked against."
            )
        left[noise.multiplier] -= 1
        return {**memory, "plan": [[z, count] for z, count in left.items()]}

    def hide(self, memory: Memory, message: Message, arrays: Arrays, columns: Sequence[str] = ()) -> Done:
        """The numbers under masks."""
        if "roster" not in memory:
            raise DataError("It answers under masks only, and no keys have been agreed on.")
        members = memory["terms"]["members"]
        over = message.meta.get("over", members)
        parts, views = SecureSum(len(members), narrow_of(message.meta)).encode(arrays, columns)
        memory = masking.mask(memory, message.round, parts, over)
        if not memory["terms"]["recover"]:
            memory = _with_set(memory, members)
        return memory, views


def _with_set(memory: Memory, sites: Sequence[str]) -> Memory:
    known = list(sites) in memory["sets"]
    return memory if known else {**memory, "sets": [*memory["sets"], list(sites)]}


def with_tag(memory: Memory, message: Message, phase: str) -> Message:
    """A reply with the mark that shows whom it is from."""
    if phase == JOIN or "tag" not in memory:
        return message
    mark = tagged(message, memory["tag"].tobytes(), phase)
    return dataclasses.replace(message, meta={**message.meta, "tag": mark})


def noted(
    lines: tuple[str, ...],
    before: Memory,
    after: Memory,
    message: Message,
    phase: str,
    noise: Noise,
    over: int,
    last: str,
) -> tuple[str, ...]:
    """The ledger after a message to the coordinator, sums that were newly allowed first."""
    if message.recipient != COORDINATOR:
        return lines
    study = str(after["terms"]["study"]) if after else ""
    entries = []
    for sites in after.get("sets", ())[len(before.get("sets", ())) :]:
        name = json.dumps(list(sites), ensure_ascii=False)
        entries.append(Entry(study, message.round, SUM, name, "", 0, True, len(sites), 0.0, 0.0, ""))
    if phase == ASK:
        entries += data_entries(study, message, masked=bool(after), over=over, noise=noise)
    else:
        entries += protocol_entries(study, message, phase)
    return add(lines, entries, last)
