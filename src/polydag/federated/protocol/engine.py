"""The engine within one process: it carries messages between the coordinator and the sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from polydag.federated.protocol.coordinator import DONE, RUNNING, Coordinator, CoordinatorState
from polydag.federated.protocol.disclosure import Disclosed, table
from polydag.federated.protocol.messages import COORDINATOR, Message, timeout
from polydag.federated.protocol.site import Site, SiteState

Carrier = Callable[[Message], list[Message]]
Recorder = Callable[[str, SiteState, SiteState], None]


def unrecorded(site: str, before: SiteState, after: SiteState) -> None:
    """Keep nothing: where no ledgers are kept."""


@dataclass(frozen=True, eq=False)
class Federation:
    """A study in progress: the states of the coordinator and of all sites."""

    coordinator: CoordinatorState
    sites: Mapping[str, SiteState]

    @property
    def disclosed(self) -> tuple[Disclosed, ...]:
        """What has left the sites, according to their ledgers."""
        return table({name: state.ledger for name, state in self.sites.items()})

    @property
    def finished(self) -> bool:
        """Whether the coordinator has its result."""
        return self.coordinator.status == DONE


def begin(sites: Mapping[str, Site]) -> Federation:
    """The states before the first message."""
    return Federation(
        CoordinatorState(tuple(sites)), {name: site.start(name) for name, site in sites.items()}
    )


def run(
    coordinator: Coordinator,
    sites: Mapping[str, Site],
    federation: Federation | None = None,
    *,
    rounds: int | None = None,
    carry: Carrier = lambda message: [message],
    record: Recorder = unrecorded,
) -> Federation:
    """Carry messages until the coordinator has its result, stops, or has advanced by `rounds` rounds.

    Parameters
    ----------
    federation : Federation, optional
        Where to continue from.
    carry : function of a message
        The messages that arrive in its place: for tests of lost, damaged and repeated messages.
    record : function of a site and its states before and after a step
        Called before the site's messages are sent.
    """
    under_way = begin(sites) if federation is None else federation
    first = under_way.coordinator
    state, queue = coordinator.start(first.all_sites) if first.round == 0 else coordinator.resume(first)
    states = dict(under_way.sites)
    last = None if rounds is None else max(first.round, 1) + rounds - 1
    while state.status == RUNNING and (last is None or state.round <= last):
        if not queue:  # no message is in transit, so nobody will answer
            queue = [timeout(state.round)]
        arrived = [copy for message in queue for copy in carry(message)]
        queue = []
        for recipient, inbox in _by_recipient(arrived).items():
            if recipient == COORDINATOR:
                state, outbox = coordinator.step(state, inbox)
            elif recipient in sites:
                before = states[recipient]
                states[recipient], outbox = sites[recipient].step(before, inbox)
                record(recipient, before, states[recipient])
            else:
                continue
            queue += outbox
    for message in queue:  # the result, or a question that is asked again on resuming
        if state.status == DONE and message.recipient in sites:
            states[message.recipient], _ = sites[message.recipient].step(states[message.recipient], [message])
    return Federation(state, states)


def _by_recipient(messages: Iterable[Message]) -> dict[str, list[Message]]:
    inboxes: dict[str, list[Message]] = {}
    for message in messages:
        inboxes.setdefault(message.recipient, []).append(message)
    return inboxes
