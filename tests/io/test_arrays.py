"""NumPy files: what they hold, and headers that lie."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

import gln
from gln.errors import GLNError
from gln.graphs.check import as_record
from gln.io import read_items
from gln.io.writing import write_graphs
from tests.io.samples import EDGES, POS, little_memory, npy, npz, once, put, read_all, read_one


def header(shape: tuple[int, ...], data: bytes = b"", descr: str = "<f4") -> bytes:
    """An npy file with any header."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "<i8", "|u1", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_is_positions_whatever_its_type_and_order(dtype: str, order: str, tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "a.npy", npy(POS.astype(dtype, order=order))))
    assert torch.equal(item.graph.pos, torch.from_numpy(POS))
    assert not item.labelled
    assert item.ids is None


def test_a_stack_of_arrays_is_several_graphs(tmp_path: Path) -> None:
    stack = np.stack([POS, POS + 1, POS + 2])
    stack[1, 2, 0] = np.nan
    items, bad = read_all(put(tmp_path, "a.npy", npy(stack)))
    assert [item.name for item in items] == ["a.npy#0", "a.npy#2"]
    assert torch.equal(items[1].graph.pos, torch.from_numpy(stack[2]))
    assert [skipped.reason for skipped in bad] == [
        "graph 1: pos of node 2 is [nan, 2.0, 1.0]; remove or repair values that are not finite."
    ]


@pytest.mark.parametrize(
    "edges", [{"edges": np.array(EDGES)}, {"edge_index": np.array(EDGES + [e[::-1] for e in EDGES]).T}]
)
def test_an_archive_has_positions_features_and_edges(edges: dict[str, np.ndarray], tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "a.npz", npz(pos=POS, x=POS[:, :1], **edges)))
    assert torch.equal(item.graph.x, torch.from_numpy(POS[:, :1]))
    assert once(item) == EDGES
    assert item.labelled


def test_a_batch_is_cut_into_its_graphs(tmp_path: Path) -> None:
    pos = np.arange(12, dtype=np.float32).reshape(6, 2)
    data = npz(pos=pos, batch=np.array([0, 0, 3, 3, 3, 7]), edges=np.array([[4, 3], [1, 0], [2, 3]]))
    items, _ = read_all(put(tmp_path, "a.npz", data))
    assert [item.name for item in items] == ["a.npz#0", "a.npz#3", "a.npz#7"]
    assert [item.graph.pos.tolist() for item in items] == [
        pos[:2].tolist(),
        pos[2:5].tolist(),
        pos[5:].tolist(),
    ]
    assert [once(item) for item in items] == [[[0, 1]], [[0, 1], [1, 2]], []]
    assert all(item.labelled for item in items)


def test_graphs_of_a_batch_may_have_nothing_but_edges(tmp_path: Path) -> None:
    data = npz(batch=np.array([0, 0, 0, 1, 1]), edges=np.array([[0, 2], [3, 4]]))
    items, _ = read_all(put(tmp_path, "a.npz", data))
    assert [(item.graph.num_nodes, once(item), item.labelled) for item in items] == [
        (3, [[0, 2]], True),
        (2, [[0, 1]], True),
    ]


def test_generated_graphs_are_read_back(tmp_path: Path) -> None:
    graphs = gln.family("planar", nodes=9).sample(3, seed=1)
    write_graphs([as_record(graph) for graph in graphs], tmp_path / "a.npz")
    items, _ = read_all(tmp_path / "a.npz")
    for item, graph in zip(items, graphs, strict=True):
        assert torch.equal(item.graph.edge_index, graph.edge_index)


def test_a_single_array_of_any_name_is_positions(tmp_path: Path) -> None:
    assert torch.equal(read_one(put(tmp_path, "a.npz", npz(arr_0=POS))).graph.pos, torch.from_numpy(POS))


LIES = {
    "4 GB": header((2**30, 1)),
    "overflow": header((2**62, 2**62)),
    "negative": header((-4, -3), bytes(48)),
    "short": npy()[:-1],
    "long": npy() + b"x",
    "objects": header((4,), bytes(32), "|O"),
    "text": npy(np.array(["a", "b"])),
    "complex": npy(POS + 1j),
    "flat": npy(POS[0]),
    "scalar": npy(np.float32(1)),
    "no nodes": npy(POS[:0]),
    "no columns": npy(POS[:, :0]),
    "pickle": b"\x80\x04\x95.",
    "version": npy().replace(b"NUMPY\x01", b"NUMPY\x09"),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_header_that_lies_is_refused_before_memory_is_taken(lie: str, kind: str, tmp_path: Path) -> None:
    data = LIES[lie]
    if kind == "npz":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("pos.npy", data)
        data = file.getvalue()
    path = put(tmp_path, f"a.{kind}", data)
    with little_memory(), pytest.raises(GLNError, match=rf"a\.{kind}: "):
        list(read_items([path]))


def bomb(method: int, claimed: int | None = None) -> bytes:
    """An archive with 8 MiB of zeros in it, or one that claims another size for them."""
    array = header((2**21, 1), bytes(2**23))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("pos.npy", array)
    claim = len(array) if claimed is None else claimed
    return file.getvalue().replace(struct.pack("<I", len(array)), struct.pack("<I", claim))


@pytest.mark.parametrize(
    ("method", "claimed", "message"),
    [
        (zipfile.ZIP_DEFLATED, None, "would unpack from"),
        (zipfile.ZIP_DEFLATED, 1000, "not a readable npz|does not match"),
        (zipfile.ZIP_LZMA, 1000, "uses a compression"),
    ],
)
def test_a_bomb_is_not_unpacked(
    method: int, claimed: int | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gln.io.arrays.MAX_BYTES", 2**20)
    path = put(tmp_path, "a.npz", bomb(method, claimed))
    assert path.stat().st_size < 2**16
    with little_memory(), pytest.raises(GLNError, match=message):
        list(read_items([path]))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"points": POS, "other": POS}, "neither pos nor x"),
        ({"pos": POS, "edges": np.array([[0, 9]])}, r"edge 0 .* joins nodes \[0, 9\], but the 4 nodes"),
        ({"pos": POS, "edges": np.array([[0.0, 1.0]])}, r"expected whole numbers \[m, 2\]"),
        ({"pos": POS, "edge_index": np.array([[0, 1, 2]])}, r"expected whole numbers \[2, m\]"),
        ({"pos": POS, "x": POS[:2]}, "x has 2 rows, but the graph has 4 nodes|pos has 4 rows"),
        ({"pos": POS, "batch": np.array([0, 1])}, r"batch has shape \[2\]"),
        ({"pos": POS, "batch": np.array([1, 1, 0, 0])}, "in ascending order"),
        ({"pos": POS, "batch": np.array([0, 0, 1, 1]), "edges": np.array([[1, 2]])}, "in different graphs"),
        ({"pos": POS, "batch": np.array([0, 0, 1, 1]), "edges": np.array([[1, -2]])}, "nodes are numbered"),
        ({"pos": np.array([[0, np.inf]])}, "pos of node 0"),
    ],
)
def test_a_bad_archive_says_which_array_is_wrong(
    arrays: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    with pytest.raises(GLNError, match=message):
        list(read_items([put(tmp_path, "a.npz", npz(**arrays))]))


@pytest.mark.parametrize("at", [0, 60, -30])
def test_a_damaged_archive_is_refused(at: int, tmp_path: Path) -> None:
    data = bytearray(npz(pos=POS))
    data[at] ^= 0xFF
    with pytest.raises(GLNError, match=r"a\.npz: this is not a readable npz archive"):
        list(read_items([put(tmp_path, "a.npz", bytes(data))]))
