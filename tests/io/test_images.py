"""Images are read as the family of figures describes them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.families import Figures
from gln.io import find_files, read_items
from tests.io.samples import COLOURS, little_memory, once, picture, put, read_all, read_one

LABELS = np.array([[7, 7, 9], [7, 9, 9]], dtype=np.uint8)
JOINED = [[0, 1], [0, 3], [2, 5], [4, 5]]  # pixels row by row


def test_a_figure_saved_as_an_image_is_read_back(tmp_path: Path) -> None:
    (figure,) = Figures(side=8, order="ordered", noise=0.0).sample(1, seed=0)
    rgb = (figure.x.reshape(8, 8, 3) * 255).round().to(torch.uint8).numpy()
    put(tmp_path, "a.labels.png", picture(figure.region.reshape(8, 8).to(torch.uint8).numpy()))
    item = read_one(put(tmp_path, "a.png", picture(rgb)))
    assert torch.equal(item.graph.pos, figure.pos)
    assert torch.allclose(item.graph.x, figure.x, atol=0.5 / 255 + 1e-6)
    assert torch.equal(item.graph.edge_index, figure.edge_index)
    assert torch.equal(item.graph.region, figure.region)


def test_pixels_are_listed_row_by_row(tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "a.png", picture(COLOURS)))
    assert item.graph.pos.tolist() == [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]
    assert torch.allclose(item.graph.x * 255, torch.from_numpy(COLOURS.reshape(6, 3)).float())
    assert not item.labelled


@pytest.mark.parametrize(
    "pixels",
    [
        COLOURS[:, :, 0],
        COLOURS[:, :, 0].astype(np.uint16) * 257,
        np.concatenate([COLOURS[:, :, :1].repeat(3, 2), COLOURS[:, :, 1:2]], 2),
    ],
)
def test_grey_of_8_and_16_bits_and_transparent_images_have_rgb_too(
    pixels: np.ndarray, tmp_path: Path
) -> None:
    item = read_one(put(tmp_path, "a.png", picture(pixels)))
    assert torch.allclose(
        item.graph.x * 255, torch.from_numpy(COLOURS[:, :, :1].reshape(6, 1)).float().expand(6, 3)
    )


@pytest.mark.parametrize(
    "labels", [LABELS, LABELS.astype(np.uint16) * 300, np.stack([LABELS, LABELS * 3, LABELS], axis=2)]
)
def test_equal_labels_are_joined_whatever_the_labels_are(labels: np.ndarray, tmp_path: Path) -> None:
    path = put(tmp_path, "a.png", picture(COLOURS))
    where = put(tmp_path, "truth.png", picture(labels))
    item = read_one(path, labels=where)
    assert once(item) == JOINED
    assert item.labelled
    assert item.graph.region.tolist() == [0, 0, 1, 0, 1, 1]


@pytest.mark.parametrize("labels", ["masks", "masks/*.png", "masks/*_mask.png"])
def test_labels_in_a_folder_or_under_a_pattern(labels: str, tmp_path: Path) -> None:
    for name in "ab":
        put(tmp_path, f"{name}.png", picture(COLOURS))
        put(tmp_path, f"masks/{name}{'_mask' if '_' in labels else ''}.png", picture(LABELS))
    items, bad = read_all(*find_files([tmp_path]), labels=tmp_path / labels)
    assert not bad
    assert [item.name for item in items] == ["a.png", "b.png"]  # the masks are not read as images
    assert [once(item) for item in items] == [JOINED, JOINED]


def test_a_large_image_is_refused_and_may_be_shrunk(tmp_path: Path) -> None:
    blocks = np.kron(COLOURS[:, :, 0], np.ones((180, 180), dtype=np.uint8))  # 360 × 540
    path = put(tmp_path, "a.png", picture(np.stack([blocks] * 3, axis=2)))
    put(tmp_path, "a.labels.png", picture(np.kron(LABELS, np.ones((180, 180), dtype=np.uint8))))
    with pytest.raises(GLNError, match=r"540 × 360 pixels.*shrink it with --image-size"):
        read_one(path)
    item = read_one(path, image_size=3)
    assert torch.allclose(item.graph.x[:, 0] * 255, torch.from_numpy(COLOURS[:, :, 0].reshape(-1)).float())
    assert once(item) == JOINED
    assert read_one(path, image_size=1000).graph.num_nodes == 360 * 540  # never enlarged


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header claims any size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(65535, 65535), (2**31 - 1, 1), (10_000, 10_000)])
def test_a_header_that_claims_gigabytes_is_refused(size: tuple[int, int], tmp_path: Path) -> None:
    path = put(tmp_path, "a.png", bomb(*size))
    with little_memory(), pytest.raises(GLNError, match=r"are decoded, so shrink it first|not a readable"):
        read_one(path, image_size=64)


@pytest.mark.parametrize("data", [picture(COLOURS)[:-30], b"GIF89a" + bytes(50), bomb(5, 5), b"not an image"])
def test_a_corrupt_image_is_named(data: bytes, tmp_path: Path) -> None:
    path = put(tmp_path, "a.png", data)
    with pytest.raises(GLNError, match="not a readable") as caught:
        list(read_items([path]))
    assert str(path) in str(caught.value)
    assert "object at 0x" not in str(caught.value)


def test_bad_labels_are_named(tmp_path: Path) -> None:
    path = put(tmp_path, "a.png", picture(COLOURS))
    cases = {
        "b.png": (picture(LABELS[:, :2]), "has 2 × 2 pixels, the image 3 × 2"),
        "c.png": (picture(COLOURS, "JPEG"), "not a readable PNG"),
        "d.png": (b"", "empty"),
    }
    for name, (data, message) in cases.items():
        with pytest.raises(GLNError, match=rf"label image .*{name}: .*{message}"):
            read_one(path, labels=put(tmp_path, name, data))
    with pytest.raises(GLNError, match=r"none\.png: cannot be read"):
        read_one(path, labels=tmp_path / "none.png")


def test_without_pillow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "a.png", picture(COLOURS))
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    with pytest.raises(GLNError, match=r"gln\[image\]"):
        read_one(path)
