"""Computing on other machines: joblib's parallel work handed to a dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polydag.errors import UsageError

_SECONDS = 10


@contextmanager
def computing_on(address: str | None) -> Iterator[None]:
    """Within the block, joblib's parallel work runs on the cluster at `address`; here without one."""
    if address is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--cluster needs dask: pip install 'polydag[cluster]'.") from None
    import joblib

    try:
        client = Client(address, timeout=_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise UsageError(f"No dask scheduler answers at {address}: {error}.") from None
    with client, client.as_current(), joblib.parallel_config(backend="dask", n_jobs=-1):
        yield
