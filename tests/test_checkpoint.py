"""Checkpoints: pieces are stored once, loaded afterwards, and refused if they belong to another run."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from polydag.computing import checkpoint
from polydag.errors import DataError, UsageError


def counted(log: list[str], name: str) -> dict[str, np.ndarray]:
    log.append(name)
    return {"value": np.array([len(log), 0.1 + 0.2]), "names": np.array(["é", "b"])}


def test_without_a_folder_it_only_computes() -> None:
    log: list[str] = []
    for _ in range(2):
        checkpoint.piece("a", lambda: counted(log, "a"))
    assert log == ["a", "a"]


def test_a_second_run_loads_the_same_bits(tmp_path: Path) -> None:
    log: list[str] = []
    seen = []
    for _ in range(2):
        with checkpoint.saving(tmp_path / "p", {"seed": "1"}):
            seen.append(
                {key: checkpoint.piece(key, lambda key=key: counted(log, key)) for key in ("a", "b/c:1")}
            )
    assert log == ["a", "b/c:1"]
    for key in seen[0]:
        for name, array in seen[0][key].items():
            np.testing.assert_array_equal(array, seen[1][key][name])
            assert array.dtype == seen[1][key][name].dtype


def test_nothing_is_stored_after_the_block(tmp_path: Path) -> None:
    with checkpoint.saving(tmp_path, {}):
        assert not checkpoint.has_pieces(tmp_path)
    checkpoint.piece("a", lambda: counted([], "a"))
    assert not checkpoint.has_pieces(tmp_path)


def test_another_fingerprint_is_refused_with_what_changed(tmp_path: Path) -> None:
    with checkpoint.saving(tmp_path, {"seed": "1", "method": "x"}):
        pass
    with (
        pytest.raises(UsageError, match="seed was 1, now 2") as told,
        checkpoint.saving(tmp_path, {"seed": "2", "method": "x"}),
    ):
        pass
    assert "method" not in str(told.value)


def test_an_interruption_leaves_no_half_piece(tmp_path: Path) -> None:
    def interrupted() -> dict[str, np.ndarray]:
        raise KeyboardInterrupt

    with checkpoint.saving(tmp_path, {}):
        with pytest.raises(KeyboardInterrupt):
            checkpoint.piece("a", interrupted)
        assert sorted(path.name for path in tmp_path.iterdir()) == [checkpoint.FINGERPRINT]
        checkpoint.piece("a", lambda: counted([], "a"))
        assert checkpoint.has_pieces(tmp_path)


def test_a_damaged_piece_is_computed_again(tmp_path: Path) -> None:
    log: list[str] = []
    with checkpoint.saving(tmp_path, {}):
        checkpoint.piece("a", lambda: counted(log, "a"))
        (file,) = tmp_path.glob(f"*{checkpoint.SUFFIX}")
        file.write_bytes(file.read_bytes()[:30])
        checkpoint.piece("a", lambda: counted(log, "a"))
        again = checkpoint.piece("a", lambda: counted(log, "a"))
    assert log == ["a", "a"]
    assert again["value"][0] == 2


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with checkpoint.saving(tmp_path, {}):
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="No space left"):
            checkpoint.piece("a", lambda: counted([], "a"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [checkpoint.FINGERPRINT]


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to resume"):
        checkpoint.read_fingerprint(tmp_path)
    (tmp_path / checkpoint.FINGERPRINT).write_text("{half")
    with pytest.raises(DataError, match=r"fingerprint is damaged.*--force"):
        checkpoint.read_fingerprint(tmp_path)
