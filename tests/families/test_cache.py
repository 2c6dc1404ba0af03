"""A cache file is named by all that determines it, and a damaged one is made again."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from gln.errors import GLNError
from gln.families import Delaunay
from gln.families import base as cache
from gln.families.base import load_or_make
from gln.files import read_safetensors
from tests.conftest import assert_same_graph

KEY = {"family": {"name": "delaunay", "points": 3}, "seed": 0}
CONTENT = {"node.pos": torch.arange(600.0).reshape(-1, 2)}


def stored(folder: Path) -> Path:
    (file,) = folder.glob("*")
    return file


def test_made_once_then_read(tmp_path: Path) -> None:
    assert torch.equal(load_or_make(tmp_path, KEY, lambda: CONTENT)["node.pos"], CONTENT["node.pos"])
    again = load_or_make(tmp_path, KEY, lambda: pytest.fail("made twice"))
    assert torch.equal(again["node.pos"], CONTENT["node.pos"])


@pytest.mark.parametrize("change", [{"seed": 1}, {"count": 2}, {"family": {"name": "delaunay", "points": 4}}])
def test_every_part_of_the_key_counts(tmp_path: Path, change: dict) -> None:
    load_or_make(tmp_path, KEY, lambda: CONTENT)
    load_or_make(tmp_path, KEY | change, lambda: CONTENT)
    assert len(list(tmp_path.iterdir())) == 2


def test_another_seed_or_count_gives_other_graphs_from_the_same_folder(tmp_path: Path) -> None:
    for count, seed in ((2, 0), (2, 1), (3, 0)):
        for _ in range(2):  # made, then read
            cached = Delaunay(points=5).sample(count, seed, cache=tmp_path)
            for actual, expected in zip(cached, Delaunay(points=5).sample(count, seed), strict=True):
                assert_same_graph(actual, expected)
    assert len(list(tmp_path.iterdir())) == 3


def test_the_version_of_a_family_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Delaunay(points=5).sample(2, cache=tmp_path)
    monkeypatch.setattr(Delaunay, "version", Delaunay.version + 1)
    Delaunay(points=5).sample(2, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "foreign"])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: str) -> None:
    original = Delaunay(points=8).sample(4, cache=tmp_path)
    file = stored(tmp_path)
    data = bytearray(file.read_bytes())
    data[-5] ^= 1  # one bit of one number
    broken = {
        "flip": bytes(data),
        "truncate": bytes(data[: len(data) // 2]),
        "empty": b"",
        "foreign": b"PK\x03\x04 no",
    }
    file.write_bytes(broken[damage])
    for actual, expected in zip(Delaunay(points=8).sample(4, cache=tmp_path), original, strict=True):
        assert_same_graph(actual, expected)
    assert cache._load(file, read_safetensors(file)[1]["key"]) is not None


def test_many_writers_leave_one_whole_file(tmp_path: Path) -> None:
    barrier = threading.Barrier(6)

    def make() -> dict[str, torch.Tensor]:
        barrier.wait()  # all of them found no file
        return CONTENT

    threads = [threading.Thread(target=load_or_make, args=(tmp_path, KEY, make)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stored(tmp_path).suffix == ".safetensors"
    load_or_make(tmp_path, KEY, lambda: pytest.fail("the file is not whole"))


def test_a_folder_that_cannot_be_made_is_named_before_anything_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(GLNError, match=f"cache folder {tmp_path / 'file' / 'cache'}"):
        load_or_make(tmp_path / "file" / "cache", KEY, lambda: pytest.fail("drawn"))
