"""Meshes, against trimesh where both mean the same, and headers that lie."""

from __future__ import annotations

import builtins
import io
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from gln.errors import GLNError
from gln.io import read_items
from gln.io.meshes import merged
from tests.conftest import assert_same_graph
from tests.io.samples import (
    EDGES,
    OBJ,
    OFF,
    PCD,
    PLY,
    POS,
    STL_TEXT,
    VTK,
    little_memory,
    once,
    put,
    read_one,
    stl,
)

PLY_HEAD = PLY.split(b"end_header\n")[0] + b"end_header\n"
BIG, LITTLE = (PLY_HEAD.replace(b"ascii", kind) for kind in (b"binary_big_endian", b"binary_little_endian"))
PCD_BINARY = PCD.partition(b"DATA")[0] + b"DATA binary\n"
PCD_BINARY += b"".join(struct.pack("<4f", 9, *row) for row in POS)
SQUARE = b"v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n"


def solid(seed: int, suffix: str) -> tuple[bytes, np.ndarray, np.ndarray]:
    """A file that trimesh wrote, with the vertices and edges it has."""
    trimesh = pytest.importorskip("trimesh")
    points = np.random.default_rng(seed).random((30, 3)).astype(np.float32)
    mesh = trimesh.convex.convex_hull(points)
    data = mesh.export(file_type=suffix)
    return (data if isinstance(data, bytes) else data.encode()), mesh.vertices, mesh.edges_unique


@pytest.mark.parametrize("suffix", ["ply", "obj", "off", "stl", "stl_ascii"])
@pytest.mark.parametrize("seed", [0, 1])
def test_what_trimesh_writes_is_read_with_its_vertices_and_edges(
    suffix: str, seed: int, tmp_path: Path
) -> None:
    data, vertices, edges = solid(seed, suffix)
    item = read_one(put(tmp_path, f"a.{suffix[:3]}", data))
    pos = item.graph.pos.numpy()
    # STL names no vertices, so theirs and ours may be in another order.
    match = (
        np.abs(pos[:, None] - vertices[None]).max(axis=2).argmin(axis=0)
        if "stl" in suffix
        else np.arange(len(pos))
    )
    assert sorted(match) == list(range(len(pos)))
    assert np.allclose(pos[match], vertices, atol=1e-6)
    assert {tuple(pair) for pair in once(item)} == {tuple(sorted(pair)) for pair in match[edges].tolist()}
    assert item.labelled


@pytest.mark.parametrize(("name", "data"), [("a.ply", PLY), ("a.obj", OBJ), ("a.off", OFF)])
def test_the_triangle_and_the_lone_vertex(name: str, data: bytes, tmp_path: Path) -> None:
    item = read_one(put(tmp_path, name, data))
    assert torch.equal(item.graph.pos, torch.from_numpy(POS))
    assert once(item) == EDGES


@pytest.mark.parametrize("data", [STL_TEXT, stl(POS[[[0, 1, 2], [0, 2, 3]]])])
def test_corners_of_an_stl_at_the_same_place_are_one_vertex(data: bytes, tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "a.stl", data))
    assert torch.equal(item.graph.pos, torch.from_numpy(POS))
    assert once(item) == [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3]]


def test_merged_rows_are_the_distinct_ones_in_order() -> None:
    points = np.random.default_rng(0).integers(0, 3, (40, 3)).astype(float)
    distinct, number = merged(points)
    assert list(map(tuple, distinct)) == list(dict.fromkeys(map(tuple, points)))
    assert np.array_equal(distinct[number], points)


def test_a_polygon_keeps_its_sides_and_gets_no_diagonal(tmp_path: Path) -> None:
    sides = [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert once(read_one(put(tmp_path, "a.obj", SQUARE))) == sides
    off = b"OFF 4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n2 0 2\n"
    assert once(read_one(put(tmp_path, "a.off", off))) == [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3]]


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_binary_ply_of_triangles_and_squares(order: str, tmp_path: Path) -> None:
    head = (LITTLE if order == "<" else BIG).replace(b"face 1", b"face 2")
    body = POS.astype(f"{order}f4").tobytes()
    body += (
        b"\x04"
        + np.array([0, 1, 2, 3], f"{order}i4").tobytes()
        + b"\x03"
        + np.array([0, 1, 3], f"{order}i4").tobytes()
    )
    item = read_one(put(tmp_path, "a.ply", head + body))
    assert torch.equal(item.graph.pos, torch.from_numpy(POS))
    assert once(item) == [[0, 1], [0, 3], [1, 2], [1, 3], [2, 3]]


def test_lines_are_edges(tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "a.obj", b"v 0 0 0\nv 1 0 0\nv 2 0 0\nl 1 2 3\n"))
    assert once(item) == [[0, 1], [1, 2]]
    ply = (
        b"ply\nformat ascii 1.0\nelement vertex 3\nproperty double x\nproperty double y\nelement edge 1\n"
        b"property int vertex1\nproperty int vertex2\nproperty float length\nend_header\n0 0\n1 0\n2 0\n0 2 2.0\n"
    )
    item = read_one(put(tmp_path, "a.ply", ply))
    assert once(item) == [[0, 2]]
    assert item.graph.pos.shape == (3, 2)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.obj", b"v 0 0 0 1 0 0\r\nv 1 0 0 0 0 1\r\n"),
        ("a.off", b"OFF\n2 0 0\n0 0 0\n1 0 0\n"),
        ("a.ply", PLY_HEAD.replace(b"vertex 4", b"vertex 2").replace(b"face 1", b"face 0") + b"0 0 0\n1 0 0"),
    ],
)
def test_a_cloud_of_points_has_no_truth(name: str, data: bytes, tmp_path: Path) -> None:
    item = read_one(put(tmp_path, name, data))
    assert item.graph.pos.tolist() == [[0, 0, 0], [1, 0, 0]]
    assert not item.labelled


def test_remarks_in_an_obj_and_capitals_in_an_stl_change_nothing(tmp_path: Path) -> None:
    plain = read_one(put(tmp_path, "a.obj", SQUARE))
    assert_same_graph(read_one(put(tmp_path, "b.obj", SQUARE.replace(b"\n", b" # 7\n"))).graph, plain.graph)
    plain = read_one(put(tmp_path, "a.stl", STL_TEXT))
    assert_same_graph(read_one(put(tmp_path, "b.stl", STL_TEXT.upper())).graph, plain.graph)


def test_a_collapsed_face_has_no_edge_to_itself(tmp_path: Path) -> None:
    assert once(read_one(put(tmp_path, "a.obj", SQUARE.replace(b"f 1 2 3 4", b"f 1 2 2")))) == [[0, 1]]


def test_files_named_inside_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "a.obj", OBJ)
    secret = put(tmp_path, "secret.mtl", b"newmtl skin\nmap_Kd texture.png\n")
    opened: list[str] = []
    real = io.open

    def watch(file: object, *args: object, **kwargs: object) -> object:
        opened.append(str(file))
        return real(file, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(io, "open", watch)
    monkeypatch.setattr(builtins, "open", watch)
    assert read_one(path).labelled
    assert str(path) in opened
    assert str(secret) not in opened


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.obj", b"# nothing\n", "no vertices"),
        ("a.obj", b"v 0 0 0\nv 0 zero 0\n", "row 2: got '0 zero 0'; expected numbers"),
        ("a.obj", b"v 0 0\n", "row 1: a vertex has 2 coordinates"),
        ("a.obj", b"v 0 0 0\nv 1 nan 0\n", "pos of node 1"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nf 1 2 3\n", "row 3 names vertex 3, but the file has 2"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nf 0 1 2\n", "row 3 names a vertex before the first"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nf 1 -3 2\n", "row 3 names a vertex before the first"),
        ("a.off", b"OFF\n0 0 0\n", "no vertices"),
        ("a.off", b"OFF BINARY\n", "expected the number of vertices"),
        ("a.off", b"PLY\n", "row 1 is 'PLY'; expected OFF"),
        ("a.off", OFF.replace(b"4 1 3", b"4 2 3"), "ends before the 2 faces"),
        ("a.off", OFF.replace(b"3 0 1 2 255", b"3 0 1 9 255"), r"joins nodes \[0, 1, 9\], but the 4 nodes"),
        ("a.off", OFF.replace(b"3 0 1 2 255 0 0", b"9 0 1 2"), "claims 9 corners and names 3"),
        ("a.off", OFF.replace(b"4 1 3", b"4 1000000000 3"), "more than the file can hold"),
        ("a.ply", PLY_HEAD.replace(b"vertex 4", b"vertex 0").replace(b"face 1", b"face 0"), "no vertices"),
        ("a.ply", PLY.replace(b"0 1 0\n", b"0 one 0\n"), "row 13: got 'one'; expected numbers"),
        ("a.ply", PLY.replace(b"3 0 1 2", b"3 0 1"), "row 15 is too short"),
        ("a.ply", PLY.replace(b"3 0 1 2", b"3 0 1 7"), r"joins nodes \[0, 1, 7\]"),
        ("a.ply", PLY.replace(b"vertex 4", b"vertex 4000000000"), "claims 4,000,000,000 of 'vertex'"),
        ("a.ply", LITTLE.replace(b"vertex 4", b"vertex 1000000000"), "claims 1,000,000,000 of 'vertex'"),
        ("a.ply", LITTLE + bytes(48), "ends in the middle"),
        ("a.ply", LITTLE + bytes(48) + b"\xff" + bytes(12), "claims 255 values"),
        ("a.ply", PLY.replace(b"float x", b"quad x"), "row 5 of the header is 'property quad x'"),
        ("a.ply", PLY.replace(b"format ascii 1.0\n", b""), "does not give the format"),
        ("a.ply", PLY.replace(b"end_header", b""), "expected ply in row 1, and end_header"),
        (
            "a.ply",
            PLY.replace(b"float x", b"float u").replace(b"float y", b"float v"),
            "no properties x and y",
        ),
        ("a.ply", PLY.replace(b"vertex_indices", b"corners"), "no list vertex_indices"),
        ("a.stl", b"solid a\nendsolid a\n", "no vertices"),
        ("a.stl", STL_TEXT.replace(b"vertex 0 0 1\n", b""), "cut off"),
        ("a.stl", STL_TEXT.partition(b"endsolid")[0], "cut off"),
        ("a.stl", b"solid".ljust(80) + b"\2\0\0\0" + bytes(50), "cut off"),
        ("a.ply", PLY.replace(b"element face", b"element tristrips"), "tristrips.* not supported"),
        ("a.stl", STL_TEXT.replace(b"vertex 0 0 1\n", b"vertex 0 0 high\n"), "row 13: got '0 0 high'"),
        ("a.stl", b"\0" * 34, "the header is not within the 34 bytes of the file"),
        ("a.stl", b"\0" * 80 + b"\xff\xff\xff\xff" + bytes(50), "claims 4,294,967,295 triangles"),
        ("a.stl", b"\0" * 84, "no vertices"),
        ("a.stl", stl(np.full((1, 3, 3), np.nan)), "triangle 0 .* not finite"),
    ],
)
def test_a_bad_mesh_gets_one_sentence(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, data)
    with little_memory(), pytest.raises(GLNError, match=message) as caught:
        list(read_items([path]))
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("data", [PCD, PCD_BINARY, PCD.replace(b"COUNT 1 1 1 1\n", b"")])
def test_a_pcd_gives_its_points(data: bytes, tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "scan.pcd", data))
    assert item.graph.pos.tolist() == POS.tolist()
    assert not item.labelled


def test_a_vtk_gives_the_sides_of_its_polygons_and_its_lines(tmp_path: Path) -> None:
    item = read_one(put(tmp_path, "a.vtk", VTK))
    assert item.graph.pos.tolist() == POS.tolist()
    assert once(item) == EDGES
    lines = VTK.replace(b"POLYGONS 1 4\n3 0 1 2\n", b"LINES 1 4\n3 0 1 3\n")
    assert once(read_one(put(tmp_path, "b.vtk", lines))) == [[0, 1], [1, 3]]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.pcd", PCD.replace(b"POINTS 4", b"POINTS 5"), "expected 5 points of 4 numbers"),
        ("a.pcd", PCD.replace(b"DATA ascii", b"DATA binary_compressed"), "save them as ascii or binary"),
        ("a.pcd", PCD.replace(b" z\n", b" q\n"), "must name the fields x, y and z"),
        ("a.pcd", PCD_BINARY.replace(b"POINTS 4", b"POINTS 99999999999"), "more than the file holds"),
        ("a.pcd", PCD_BINARY.replace(b"SIZE 4", b"SIZE 3"), "does not exist"),
        ("a.pcd", b"hello\n", "no row DATA"),
        ("a.vtk", VTK.replace(b"ASCII", b"BINARY"), "save the file as ASCII"),
        ("a.vtk", VTK.replace(b"POINTS 4", b"POINTS 999999999"), "the file ends after"),
        ("a.vtk", VTK.replace(b"3 0 1 2", b"9 0 1 2"), "expected 1 cells"),
        ("a.vtk", VTK.replace(b"3 0 1 2", b"3 0 1 7"), "are numbered 0 to 3"),
        ("a.vtk", VTK.replace(b"POLYGONS", b"TRIANGLE_STRIPS"), "save it as POLYDATA"),
    ],
)
def test_a_bad_pcd_or_vtk_is_explained(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(GLNError, match=message):
        list(read_items([put(tmp_path, name, data)]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"DATA ascii", b"DATA-1", "no row DATA"),
        (b"COUNT 1 1 1 1", b"COUNT 3 1 1 -1", "the COUNT -1"),
        (b"COUNT 1 1 1 1", b"COUNT 2 1 1 0", "the COUNT 0"),
    ],
)
def test_a_pcd_header_that_means_nothing_is_refused(
    old: bytes, new: bytes, message: str, tmp_path: Path
) -> None:
    with pytest.raises(GLNError, match=message):
        read_one(put(tmp_path, "a.pcd", PCD.replace(old, new)))
