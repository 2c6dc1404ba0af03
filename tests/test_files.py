"""Errors of the disk speak of the file that was asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gln.files import write_atomically


def test_an_error_names_the_path_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        write_atomically(tmp_path / "nowhere" / "a", b"")
    assert missing.value.filename == str(tmp_path / "nowhere" / "a")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as folder:
        write_atomically(tmp_path / "folder", b"")
    assert folder.value.filename == str(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_the_old_file_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"old")

    def full(*_: object) -> None:
        assert path.read_bytes() == b"old"
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
