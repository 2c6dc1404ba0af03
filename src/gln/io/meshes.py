"""Meshes and point clouds: PLY, OBJ, STL, OFF. The sides of a mesh's faces, not triangulated, are its edges.

We parse these files ourselves: mesh packages triangulate polygons while loading, which adds edges.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from gln.errors import GLNError, quote
from gln.io.items import Item, Source, floats, ints, load
from gln.io.ply import Corners, Mesh, parse_ply
from gln.io.pointfiles import parse_pcd, parse_vtk


def read_mesh(source: Source) -> Iterator[Item]:
    """Read one mesh, its vertices in the order of the file; a file with neither faces nor lines is a point cloud."""
    parsers = {".ply": parse_ply, ".obj": parse_obj, ".stl": parse_stl, ".off": parse_off}
    parsers |= {".pcd": parse_pcd, ".vtk": parse_vtk}
    mesh = parsers[source.path.suffix.lower()](load(source.path))
    if not len(mesh.points):
        raise GLNError("the mesh has no vertices.")
    yield source.item(pos=mesh.points, edges=mesh.pairs(), predicted=mesh.predicted)


def parse_obj(data: bytes) -> Mesh:
    """Read the lines ``v``, ``f`` and ``l``; everything else, including material files, is ignored."""
    points, faces, lines = array("d"), Corners(), array("q")
    last, last_row = 0, 0  # the highest vertex named, counted from 1, and its row
    for row, line in enumerate(data.split(b"\n"), start=1):
        kind, *words = line.partition(b"#")[0].split() or [b""]
        if kind == b"v":
            points.extend(_point(words, row))
        elif kind in (b"f", b"l"):
            corners = ints([word.partition(b"/")[0] for word in words], row)
            if corners and min(corners) < 0:  # counted back from the last vertex so far
                corners = [number + (number < 0) * (len(points) // 3 + 1) for number in corners]
            if corners and min(corners) < 1:
                raise GLNError(f"row {row} names a vertex before the first.")
            if corners and max(corners) > last:
                last, last_row = max(corners), row
            if kind == b"f":
                faces.append([number - 1 for number in corners])
            else:
                lines.extend(number - 1 for pair in pairwise(corners) for number in pair)
    if last > len(points) // 3:
        raise GLNError(f"row {last_row} names vertex {last}, but the file has {len(points) // 3}.")
    pairs = np.array(lines, dtype=np.int64).reshape(-1, 2)
    return Mesh(np.array(points).reshape(-1, 3), faces.groups(), pairs if len(pairs) else None)


def parse_off(data: bytes) -> Mesh:
    """Read the counts, one row per vertex and one row per face; colours and normals are ignored."""
    rows = (
        (row, words)
        for row, line in enumerate(data.split(b"\n"), start=1)
        if (words := line.partition(b"#")[0].split())
    )
    row, words = next(rows, (1, [b""]))
    if words[0] not in (b"OFF", b"COFF", b"NOFF", b"STOFF", b"CNOFF"):
        raise GLNError(
            f"row {row} is {quote(b' '.join(words).decode('latin-1'))}; expected OFF in text form."
        )
    if len(words) == 1:
        row, words = next(rows, (row + 1, []))
    else:
        words = words[1:]
    if len(words) not in (2, 3):
        raise GLNError(f"row {row}: expected the number of vertices, faces and edges.")
    vertices, faces = ints(words[:2], row)
    if min(vertices, faces) < 0 or 2 * (vertices + faces) > len(data):
        raise GLNError(
            f"row {row} claims {vertices} vertices and {faces} faces, more than the file can hold."
        )
    points, polygons = array("d"), Corners()
    for _ in range(vertices):
        row, words = _expect(rows, "vertices", vertices)
        points.extend(_point(words, row))
    for _ in range(faces):
        row, words = _expect(rows, "faces", faces)
        (count,) = ints(words[:1], row)
        corners = ints(words[1 : 1 + count], row) if count > 0 else []
        if len(corners) != count:
            raise GLNError(f"row {row}: a face claims {count} corners and names {len(corners)}.")
        polygons.append(corners)
    return Mesh(np.array(points).reshape(-1, 3), polygons.groups())


def _point(words: list[bytes], row: int) -> list[float]:
    point = floats(words[:3], row)
    if len(point) < 3:
        raise GLNError(f"row {row}: a vertex has {len(point)} coordinates; expected three.")
    return point


def _expect(rows: Iterator[tuple[int, list[bytes]]], what: str, count: int) -> tuple[int, list[bytes]]:
    found = next(rows, None)
    if found is None:
        raise GLNError(f"the file ends before the {count} {what} that it claims.")
    return found


def parse_stl(data: bytes) -> Mesh:
    """Read triangles in text or binary form; corners at the same place are one vertex."""
    count = struct.unpack_from("<I", data, 80)[0] if len(data) >= 84 else 0
    if len(data) == 84 + 50 * count:  # first: a binary header may begin with "solid" too
        facet = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("colour", "<u2")])
        flat = np.frombuffer(data, facet, offset=84)["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid":
        corners, ended = array("d"), False
        for row, line in enumerate(data.split(b"\n"), start=1):
            kind, *words = line.split() or [b""]
            if kind.lower() == b"vertex":
                corners.extend(_point(words, row))
            ended = ended or kind.lower() == b"endsolid"
        if len(corners) % 9 or not ended:
            raise GLNError(
                f"the file is cut off: it ends after {len(corners) // 3} corners, without endsolid or within a facet."
            )
        flat = np.array(corners).reshape(-1, 3)
    else:
        claim = f"claims {count:,} triangles, which does not match" if len(data) >= 84 else "is not within"
        raise GLNError(f"the header {claim} the {len(data):,} bytes of the file.")
    if not np.isfinite(flat).all():
        number = int((~np.isfinite(flat)).any(axis=1).argmax()) // 3
        raise GLNError(
            f"triangle {number} (counted from 0) has a corner that is not finite; repair the mesh."
        )
    points, corner = merged(flat + 0.0)  # + 0.0 makes zeros of either sign equal
    return Mesh(points, [corner.reshape(-1, 3)] if len(flat) else [])


def merged(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of ``points [n, p]`` in the order in which they first appear, and the index of each row."""
    order = np.lexsort(points.T)  # stable, so that of equal rows the first comes first
    new = np.ones(len(points), dtype=bool)
    new[1:] = (points[order][1:] != points[order][:-1]).any(axis=1)
    first = order[new]  # by value
    rank = np.argsort(np.argsort(first))
    number = np.empty(len(points), dtype=np.int64)
    number[order] = rank[np.cumsum(new) - 1]
    return points[np.sort(first)], number
