"""How the files of a study get to the other parties: through a folder that all see, or by NVIDIA FLARE."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from polydag.deployment.coordinator import PRIVATE, CoordinatorEndpoint
from polydag.deployment.exchange import Exchange
from polydag.deployment.site import SiteEndpoint
from polydag.errors import UsageError

KIT = "flare"  # the startup kit of NVIDIA FLARE, in a site's kit and in the private part of a study
BY_FLARE = "by NVIDIA FLARE"

Say = Callable[[str], None]


@contextmanager
def coordinator_channel(
    coordinator: CoordinatorEndpoint, exchange: Path | None, say: Say
) -> Iterator[Exchange]:
    """The coordinator's channel, `exchange` or what the study was made for."""
    name, kit = coordinator.signed.study, coordinator.folder / PRIVATE / KIT
    if exchange is not None or not kit.is_dir():
        yield Exchange(_given(exchange), name)
        return
    from polydag.deployment.flare.carrying import serving

    with serving(kit, name, coordinator.takes_part, say) as found:
        yield found


@contextmanager
def site_channel(site: SiteEndpoint, exchange: Path | None, say: Say) -> Iterator[Exchange]:
    """A site's channel, `exchange` or what its kit was made for."""
    name, kit = site.signed.study, site.kit / KIT
    if exchange is not None or not kit.is_dir():
        yield Exchange(_given(exchange), name)
        return
    from polydag.deployment.flare.carrying import connected

    with connected(kit, name, site.name, say) as found:
        yield found


def _given(exchange: Path | None) -> Path:
    if exchange is None:
        raise UsageError("Name the folder through which files are exchanged: --exchange DIR.")
    return exchange
