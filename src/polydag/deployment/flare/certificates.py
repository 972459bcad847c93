"""When the certificates in a startup kit expire."""

from __future__ import annotations

import datetime
from pathlib import Path

from polydag.errors import DataError

ANNOUNCED_DAYS = 30


def expiry(workspace: Path) -> tuple[datetime.datetime, str]:
    """When the first of the certificates in a startup kit expires, and its file."""
    from cryptography import x509

    found = []
    for path in sorted((workspace / "startup").iterdir()):
        if path.suffix in (".crt", ".pem"):
            try:
                found.append(
                    (x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc, path.name)
                )
            except (OSError, ValueError) as error:
                raise DataError(f"{path} cannot be read as a certificate ({error}).") from None
    if not found:
        raise DataError(f"{workspace / 'startup'} holds no certificate. Get a new kit.")
    return min(found)


def announcement(workspace: Path, now: datetime.datetime | None = None) -> str | None:
    """A sentence about a certificate that expires within 30 days; a `DataError` where it has expired."""
    end, name = expiry(workspace)
    left = end - (now or datetime.datetime.now(datetime.UTC))
    day = f"{end:%d %B %Y}"
    if left.total_seconds() <= 0:
        raise DataError(
            f"The certificate {name} in {workspace} expired on {day}. The coordinator makes new ones with "
            "polydag federation renew."
        )
    if left.days >= ANNOUNCED_DAYS:
        return None
    return (
        f"The certificate {name} in {workspace} expires on {day}, in {left.days} days. The coordinator makes "
        "new ones with polydag federation renew; the study goes on with them."
    )
