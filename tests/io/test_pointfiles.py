"""PCD and legacy VTK."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gln.errors import GLNError
from gln.io import read_items
from tests.io.samples import EDGES, PCD, POS, VTK, once, put, read_one

BINARY = PCD.partition(b"DATA")[0] + b"DATA binary\n" + b"".join(struct.pack("<4f", 9, *row) for row in POS)


@pytest.mark.parametrize("data", [PCD, BINARY, PCD.replace(b"COUNT 1 1 1 1\n", b"")])
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
        ("a.pcd", BINARY.replace(b"POINTS 4", b"POINTS 99999999999"), "more than the file holds"),
        ("a.pcd", BINARY.replace(b"SIZE 4", b"SIZE 3"), "does not exist"),
        ("a.pcd", b"hello\n", "no row DATA"),
        ("a.vtk", VTK.replace(b"ASCII", b"BINARY"), "save the file as ASCII"),
        ("a.vtk", VTK.replace(b"POINTS 4", b"POINTS 999999999"), "the file ends after"),
        ("a.vtk", VTK.replace(b"3 0 1 2", b"9 0 1 2"), "expected 1 cells"),
        ("a.vtk", VTK.replace(b"3 0 1 2", b"3 0 1 7"), "are numbered 0 to 3"),
        ("a.vtk", VTK.replace(b"POLYGONS", b"TRIANGLE_STRIPS"), "save it as POLYDATA"),
    ],
)
def test_a_bad_file_is_explained(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(GLNError, match=message):
        list(read_items([put(tmp_path, name, data)]))
