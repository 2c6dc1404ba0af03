"""Errors of the disk speak of the file that was asked for."""

from __future__ import annotations

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
