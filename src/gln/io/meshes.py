"""Meshes and point clouds: PLY, OBJ, STL, OFF, PCL's PCD, and legacy VTK in text form.

The sides of a mesh's faces, not triangulated, are its edges. We parse these files ourselves: mesh packages triangulate
polygons while loading, which adds edges.
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

KINDS = {"F": "f", "I": "i", "U": "u"}
CELLS = ("LINES", "POLYGONS")


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


def parse_pcd(data: bytes) -> Mesh:
    """Read the fields x, y and z, in text or binary form; all others are ignored."""
    header: dict[str, list[bytes]] = {}
    end = row = 0
    while "DATA" not in header:
        stop = data.find(b"\n", end)
        if stop < 0 or row > 100:
            raise GLNError("the header has no row DATA; this is not a PCD file.")
        words = data[end:stop].partition(b"#")[0].split()
        end, row = stop + 1, row + 1
        if words:
            header[words[0].decode("latin-1").upper()] = words[1:]
    if missing := [name for name in ("FIELDS", "SIZE", "TYPE", "POINTS") if not header.get(name)]:
        raise GLNError(f"the header has no row {missing[0]}; this is not a PCD file.")
    names = [name.decode("latin-1") for name in header["FIELDS"]]
    sizes, (count,) = ints(header["SIZE"], row), ints(header["POINTS"][:1], row)
    counts = ints(header.get("COUNT", [b"1"] * len(names)), row)
    kinds = [KINDS.get(word.decode("latin-1").upper(), "?") for word in header["TYPE"]]
    if not len(names) == len(sizes) == len(counts) == len(kinds) or not {"x", "y", "z"} <= set(names):
        raise GLNError("the header must name the fields x, y and z, with a SIZE and a TYPE for every field.")
    form, body = header["DATA"][0].lower() if header["DATA"] else b"", data[end:]
    if form == b"ascii":
        rows = [line.split() for line in body.split(b"\n") if line.strip()]
        first = {name: sum(counts[:place]) for place, name in enumerate(names)}
        width = sum(counts)
        if len(rows) != count or any(len(words) != width for words in rows):
            raise GLNError(f"expected {count} points of {width} numbers, as the header says.")
        points = [
            floats([words[first[axis]] for axis in "xyz"], row) for row, words in enumerate(rows, row + 1)
        ]
        return Mesh(np.array(points).reshape(-1, 3))
    if form != b"binary":
        raise GLNError(
            f"its points are stored as {quote(form.decode('latin-1'))}; save them as ascii or binary."
        )
    try:
        places = zip(names, kinds, sizes, counts, strict=True)
        point = np.dtype(
            [
                (f"{at}{name}", f"<{kind}{size}", (times,))
                for at, (name, kind, size, times) in enumerate(places)
            ]
        )
    except (TypeError, ValueError):
        raise GLNError("the header gives a field a TYPE, SIZE or COUNT that does not exist.") from None
    if count < 0 or len(body) < count * point.itemsize:
        raise GLNError(f"the header claims {count:,} points, more than the file holds.")
    table = np.frombuffer(body, point, count=count)
    return Mesh(
        np.concatenate([table[f"{names.index(axis)}{axis}"][:, :1] for axis in "xyz"], axis=1).astype(
            np.float64
        )
    )


def parse_vtk(data: bytes) -> Mesh:
    """Read POINTS, LINES and POLYGONS of a legacy file in text form; data of points and cells are ignored."""
    lines = data.split(b"\n", 4)
    if not lines[0].startswith(b"# vtk DataFile") or len(lines) < 5:
        raise GLNError("expected a legacy VTK file, which begins with # vtk DataFile.")
    if lines[2].strip().upper() != b"ASCII":
        raise GLNError(
            f"its numbers are stored as {quote(lines[2].decode('latin-1'))}; save the file as ASCII."
        )
    words = iter(b"\n".join(lines[3:]).split())
    points, faces, pairs = np.empty((0, 3)), Corners(), []
    for word in words:
        name = word.decode("latin-1").upper()
        if name == "POINTS":
            (count,) = ints(_take(words, 1), 0)
            _take(words, 1)  # the type of number
            points = np.array(floats(_take(words, 3 * count), 0)).reshape(-1, 3)
        elif name in CELLS:
            cells, total = ints(_take(words, 2), 0)
            numbers = ints(_take(words, total), 0)
            for corners in _cells(numbers, cells):
                if name == "POLYGONS":
                    faces.append(corners)
                else:
                    pairs += list(pairwise(corners))
        elif name in ("TRIANGLE_STRIPS", "CELLS", "OFFSETS"):
            raise GLNError(f"it holds {name}, which are not read; save it as POLYDATA of version 4 or lower.")
        elif name in ("POINT_DATA", "CELL_DATA"):
            break
    return Mesh(points, faces.groups(), np.array(pairs, dtype=np.int64) if pairs else None)


def _take(words: Iterator[bytes], count: int) -> list[bytes]:
    found = [word for _, word in zip(range(count), words, strict=False)]
    if len(found) != max(count, 0):
        raise GLNError(f"the file ends after {len(found)} of {count} numbers that it claims.")
    return found


def _cells(numbers: list[int], count: int) -> Iterator[list[int]]:
    """Cells, each the number of its corners and then these."""
    place = 0
    for _ in range(count):
        size = numbers[place] if place < len(numbers) else -1
        corners = numbers[place + 1 : place + 1 + max(size, 0)]
        if size < 0 or len(corners) != size:
            raise GLNError(f"expected {count} cells, each with the number of its corners first.")
        yield corners
        place += 1 + size


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
