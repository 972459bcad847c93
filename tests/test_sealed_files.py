"""Sealed files: whatever happens to one, it reads back exactly or is refused by name."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from polydag import sealed_files
from polydag.errors import DataError


def test_every_single_flipped_bit_and_every_missing_end_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "state"
    sealed_files.write_arrays(path, "state", {"a": np.arange(3), "b": np.array(["x"])})
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in range(0, 8, 3):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(DataError, match="state"):
                sealed_files.read_arrays(path, "state")
        path.write_bytes(whole[:at])
        with pytest.raises(DataError, match="state"):
            sealed_files.read_arrays(path, "state")
    path.write_bytes(whole)
    assert sealed_files.read_arrays(path, "state")["a"].tolist() == [0, 1, 2]


def test_kind_version_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "x"
    sealed_files.write(path, "piece", b"")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sealed_files.read(path, "piece") == b""
    with pytest.raises(DataError, match="holds a piece, where a state was expected"):
        sealed_files.read(path, "state")
    with pytest.raises(DataError, match="does not hold arrays"):
        sealed_files.read_arrays(path, "piece")
    path.write_bytes(path.read_bytes().replace(b" 1 sha", b" 7 sha"))
    with pytest.raises(DataError, match=r"x has version 7 .* reads version 1"):
        sealed_files.read(path, "piece")
    with pytest.raises(DataError, match=r"absent cannot be read: No such file"):
        sealed_files.read(tmp_path / "absent", "piece")
