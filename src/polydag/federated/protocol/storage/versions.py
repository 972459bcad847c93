"""The version of a site's data, so that two studies do not show the rows in which their data differ.

Sums over the same sites before and after a row was added differ by that row. A site therefore remembers, for
every study, a summary of each column, and refuses a study on data that has changed by a few rows. The
summaries are hashed under the site's own key, and the number of rows is encrypted: whoever gets hold of the
ledger learns nothing from them.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from polydag.arrays import Array
from polydag.federated.protocol.programs import Local
from polydag.privacy.ledger import VERSION, Entry
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

_DIGITS = 1e9  # relative to a column's size: coarser than rounding errors, finer than one row in millions


def data_version(local: Local, key: bytes, selection: str = "") -> str:
    """The version of a party's data under its key, as it stands in the ledger.

    `selection` says which of its rows take part, where a study does.
    """
    columns = {name: _mac(key, name, text)[:8].hex() for name, text in _summaries(local.data).items()}
    salt = _mac(key, "salt", json.dumps(columns))
    rows = int(local.n_rows) ^ _pad(key, salt)
    version = {"salt": salt.hex(), "rows": f"{rows:016x}", "columns": columns}
    if selection:
        version["selection"] = _mac(key, "selection", selection).hex()
    return json.dumps(version, ensure_ascii=False)


def selection_problem(earlier: Iterable[Entry], version: str, most: int) -> str | None:
    """Why sums over one more selection of rows, beside those of earlier studies, could show single rows."""
    known = {json.loads(entry.name).get("selection", "") for entry in earlier if entry.kind == VERSION}
    if json.loads(version).get("selection", "") in known or len(known) < most:
        return None
    return (
        f"Sums over {len(known)} different selections of its rows have left it, and one more could single "
        "out rows together with them. Use the conditions and codes of an earlier study, or differential "
        "privacy (epsilon), or let the owner allow more (selections)"
    )


def change_problem(earlier: Iterable[Entry], version: str, key: bytes, min_change: int) -> str | None:
    """Why sums over data of this version, beside those of earlier studies, would show single rows."""
    now = json.loads(version)
    for entry in earlier:
        if entry.kind != VERSION:
            continue
        before = json.loads(entry.name)
        common = now["columns"].keys() & before["columns"].keys()
        changed = any(now["columns"][name] != before["columns"][name] for name in common)
        if (changed or not common) and abs(_rows(now, key) - _rows(before, key)) < min_change:
            if not common and _rows(now, key) == _rows(before, key):
                continue  # other columns of the same number of rows
            return (
                f"Its data has changed since study {entry.study[:8]}, by fewer than {min_change} rows or by "
                "other values in as many rows: sums before and after would show these rows. Use the data "
                "of the earlier study, wait until there are more new rows, or use differential privacy "
                "(epsilon)"
            )
    return None


def _rows(version: Mapping[str, Any], key: bytes) -> int:
    return int(version["rows"], 16) ^ _pad(key, bytes.fromhex(version["salt"]))


def _pad(key: bytes, salt: bytes) -> int:
    return int.from_bytes(_mac(key, "rows", salt.hex())[:8], "big")


def _mac(key: bytes, *words: str) -> bytes:
    return hmac.digest(key, json.dumps(words).encode(), "sha256")


def _summaries(data: Any) -> dict[str, str]:
    """A summary of each column that does not depend on how the data is held."""
    if isinstance(data, DiscreteCounts):
        tables = data.tables([(j,) for j in range(len(data.names))])
        levels = zip(data.levels, tables, strict=True)
        return {
            name: repr(sorted((repr(level), float(n)) for level, n in zip(own, table, strict=True) if n))
            for name, (own, table) in zip(data.names, levels, strict=True)
        }
    if isinstance(data, Regimes):
        data = reduce(add, data.parts.values())
    if isinstance(data, GaussianStats):
        names, mean = data.names, data.mean
        deviation = np.sqrt(np.maximum(data.scatter.diagonal(), 0.0) / max(data.mass, 1e-300))
    else:
        names, rows = tuple(map(str, data.columns)), data.to_numpy(dtype=float)
        mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    return {
        name: repr([_row_count(data), *map(int, pair)])
        for name, pair in zip(names, _rounded(mean, deviation), strict=True)
    }


def _row_count(data: Any) -> int:
    """The number of rows."""
    return int(data.n) if isinstance(data, GaussianStats) else len(data)


def _rounded(mean: Array, deviation: Array) -> Array:
    """Means and deviations in units of the column's size, and that size's power of two."""
    size = 2.0 ** np.ceil(np.log2(np.maximum(np.maximum(np.abs(mean), deviation), 1e-290)))
    return np.column_stack(
        [np.rint(mean / size * _DIGITS), np.rint(deviation / size * _DIGITS), np.log2(size)]
    )
