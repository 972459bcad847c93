"""Text that identifies a computation: the same for the same settings and data, in every process."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np


def fingerprint(value: Any) -> str:
    """Settings, programs and arrays as text; sets have no order, and arrays enter by a hash of their bytes.

    Examples
    --------
    >>> fingerprint({"b": {2, 1}, "a": (1.5, None)})
    '{a=[1.5, None], b=[1, 2]}'
    """
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        return f"{value.dtype.str}{value.shape}:{digest}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.repr}
        return f"{type(value).__name__}({fingerprint(fields)})"
    if hasattr(value, "get_params"):
        return f"{type(value).__name__}({fingerprint(value.get_params(deep=False))})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}={fingerprint(value[name])}" for name in sorted(value, key=str)) + "}"
    if isinstance(value, (set, frozenset)):
        return fingerprint(sorted(value, key=str))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(fingerprint, value))}]"
    return repr(value)
