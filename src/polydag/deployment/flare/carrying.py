"""An exchange folder of one's own, whose files NVIDIA FLARE carries to and from the other parties."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from polydag.deployment import envelopes
from polydag.deployment.exchange import Exchange
from polydag.deployment.flare import certificates
from polydag.deployment.flare.processes import Party, running
from polydag.deployment.flare.provisioning import require_nvflare
from polydag.deployment.flare.relay import EXCHANGE, FINISHED, SENT, Relay
from polydag.deployment.site import File
from polydag.errors import UsageError

_TOLD, _HEARD = 60.0, 15.0  # seconds for which the end of a study is awaited at the other parties
_PAUSE = 0.1

Say = Callable[[str], None]


class Served(Exchange):
    """The coordinator's own exchange folder."""

    def __init__(self, folder: Path, study: str, workspace: Path, sites: Sequence[str]) -> None:
        super().__init__(folder, study)
        self._workspace, self._sites = workspace, tuple(sites)

    def put(self, file: File) -> None:
        """Place a question; a site that takes part again is made known to FLARE's process."""
        super().put(file)
        site = envelopes.header_of(file.content).recipient
        if site not in self._sites:
            self._sites = (*self._sites, site)
            Relay(self.folder, self._sites).write(self._workspace)


class Carried(Exchange):
    """An exchange folder of a site's own."""

    def deliver(self, file: File) -> None:
        """Place a file, and wait until it has reached the server."""
        self.put(file)
        relay = Relay(self.folder, ())
        _awaited(lambda: relay.read(SENT) == file.name.encode(), _TOLD)


@contextmanager
def serving(kit: Path, name: str, sites: Sequence[str], say: Say) -> Iterator[Exchange]:
    """The coordinator's exchange folder, while FLARE's server carries its files.

    Parameters
    ----------
    kit : path
        The server's startup kit.
    name : str
        The name of the study.
    sites : sequence of str
        The sites that take part.
    say : callable
        Takes what the coordinator should know.
    """
    party = Party(kit.resolve())
    folder = _begin(party, say)
    exchange = Served(folder, name, party.workspace, sites)
    relay = Relay(exchange.folder, tuple(sites))
    relay.write(party.workspace)
    if relay.is_done:
        yield exchange
        return
    with running(party, say):
        yield exchange
        if not _awaited(lambda: relay.is_done, _TOLD):
            say(
                "Not all sites know yet that the study is finished. Run the command again, "
                "with --force, when they are running."
            )


@contextmanager
def connected(kit: Path, name: str, site: str, say: Say) -> Iterator[Exchange]:
    """A site's exchange folder, while FLARE's client carries its files.

    Parameters
    ----------
    kit : path
        The site's startup kit.
    name : str
        The name of the study.
    site : str
        The site.
    say : callable
        Takes what the owner should know.
    """
    party = Party(kit.resolve(), site)
    exchange = Carried(_begin(party, say), name)
    relay = Relay(exchange.folder, (site,))
    relay.write(party.workspace)
    (relay.files / SENT).unlink(missing_ok=True)
    with running(party, say):
        yield exchange
        relay.set_done()
        _awaited(lambda: relay.read(SENT) == FINISHED.encode(), _HEARD)


def _begin(party: Party, say: Say) -> Path:
    """The party's exchange folder, when what it needs is there."""
    require_nvflare()
    if not (party.workspace / "startup").is_dir():
        raise UsageError(f"{party.workspace} holds no startup kit of NVIDIA FLARE.")
    if announced := certificates.announcement(party.workspace):
        say(announced)
    folder = party.workspace / EXCHANGE
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder


def _awaited(happened: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end:
        time.sleep(_PAUSE)
    return happened()
