"""The version of a site's data, so that two studies do not show the rows in which their data differ.

Sums over the same sites before and after a row was added differ by that row. A site therefore remembers, for
every study, a summary of each column and one of how they go together, and refuses a study on data that has
changed by a few rows. The summaries are hashed under the site's own key, and the number of rows is encrypted:
whoever gets hold of the ledger learns nothing from them.
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
_DIGITS_TOGETHER = 1e6  # of correlations, of which there are many more


def data_version(local: Local, key: bytes, selection: str = "") -> str:
    """The version of a party's data under its key, as it stands in the ledger.

    `selection` says which of its rows take part, where a study does.
    """
    columns = {name: _mac(key, name, text)[:8].hex() for name, text in _summaries(local.data).items()}
    salt = _mac(key, "salt", json.dumps(columns))
    rows = int(local.n_rows) ^ _pad(key, salt)
    version: dict[str, Any] = {"salt": salt.hex(), "rows": f"{rows:016x}", "columns": columns}
    parts = _together(local.data)
    version["together"] = [_mac(key, "parts", *sorted(parts))[:8].hex()]
    version["together"] += [_mac(key, "together", repr(sorted(parts.items())))[:8].hex()]
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
        if now["columns"].keys() == before["columns"].keys():
            # Values that changed places, or rows that were said to be of another intervention, leave every
            # column as it was.
            (parts, own), (parts_before, own_before) = now["together"], before["together"]
            changed = changed or (parts == parts_before and own != own_before)
        selected = now.get("selection", "") != before.get("selection", "")
        # Values that are the same in few columns do not show that other rows were selected.
        changed = changed or (selected and now["columns"].keys() != before["columns"].keys())
        if (changed or not common) and abs(_rows(now, key) - _rows(before, key)) < min_change:
            if not (common or selected) and _rows(now, key) == _rows(before, key):
                continue  # other columns of the same rows
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
    if isinstance(data, Regimes):
        data = reduce(add, data.parts.values())
    if isinstance(data, DiscreteCounts):
        tables = data.tables([(j,) for j in range(len(data.names))])
        levels = zip(data.levels, tables, strict=True)
        return {
            name: repr(sorted((repr(level), float(n)) for level, n in zip(own, table, strict=True) if n))
            for name, (own, table) in zip(data.names, levels, strict=True)
        }
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


def _together(data: Any) -> dict[str, str]:
    """For each part of the data, the sets of intervened variables, a summary of how its columns go together.

    It does not depend on the order of the columns.
    """
    if isinstance(data, Regimes):
        return {
            " ".join(sorted(targets)): found
            for targets, part in data.parts.items()
            for found in _together(part).values()
        }
    if isinstance(data, DiscreteCounts):
        return {"": _counted(data)}
    if isinstance(data, GaussianStats):
        names, mean, scatter, mass = data.names, data.mean, data.scatter, data.mass
    else:
        names, rows = tuple(map(str, data.columns)), data.to_numpy(dtype=float)
        mean, mass = rows.mean(axis=0), float(len(rows))
        scatter = (rows - mean).T @ (rows - mean)
    order = sorted(range(len(names)), key=names.__getitem__)
    size = np.sqrt(np.maximum(scatter.diagonal(), 0.0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        correlation = np.nan_to_num(scatter / np.outer(size, size), posinf=0.0, neginf=0.0)
    pairs = np.rint(correlation[np.ix_(order, order)] * _DIGITS_TOGETHER).astype(np.int64)
    columns = _rounded(mean, size / np.sqrt(max(mass, 1e-300)))[order].astype(np.int64)
    return {"": repr([_row_count(data), columns.tobytes(), pairs.tobytes()])}


def _counted(data: DiscreteCounts) -> str:
    """The distinct rows and how often they occur, whatever other labels the study knows."""
    order = sorted(range(len(data.names)), key=data.names.__getitem__)
    labels, columns = [], []
    for j in order:
        occurring, codes = np.unique(data.rows[:, j], return_inverse=True)
        said = [repr(data.levels[j][code]) for code in occurring]
        ranks = np.argsort(np.argsort(said, kind="stable"), kind="stable")
        labels.append(sorted(said))
        columns.append(ranks[codes] if len(said) else codes)
    rows = np.array(columns, dtype=np.int64)
    by_row = np.lexsort(rows[::-1])
    return repr([labels, rows[:, by_row].tobytes(), data.counts[by_row].tobytes()])


def _row_count(data: Any) -> int:
    """The number of rows."""
    return int(data.n) if isinstance(data, GaussianStats) else len(data)


def _rounded(mean: Array, deviation: Array) -> Array:
    """Means and deviations in units of the column's size, and that size's power of two."""
    size = 2.0 ** np.ceil(np.log2(np.maximum(np.maximum(np.abs(mean), deviation), 1e-290)))
    return np.column_stack(
        [np.rint(mean / size * _DIGITS), np.rint(deviation / size * _DIGITS), np.log2(size)]
    )
