"""Meshes and point clouds: OBJ, STL, OFF, PCL's PCD, legacy VTK in text form, and GLB; PLY has a file of its own.

The sides of a mesh's faces, not triangulated, are its edges. We parse these files ourselves: mesh packages triangulate
polygons while loading, which adds edges. Written vertices are the points that were given, in their order.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np

from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.io.items import Item, Source, TextRow, floats, ints, load, rows_of, shown
from gln.io.ply import Corners, Mesh, normals_of, parse_ply, places

MESHES = (".stl", ".off", ".glb")  # files that hold nothing but faces
KINDS = {b"F": "f", b"I": "i", b"U": "u"}
FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("colour", "<u2")])  # of a binary STL


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
    for row, (kind, *words) in rows_of(data):
        if kind == b"v":
            points.extend(_point(words, row))
        elif kind in (b"f", b"l"):
            corners = ints([word.partition(b"/")[0] for word in words], row)
            if min(corners, default=1) < 0:  # counted back from the last vertex so far
                corners = [number + (number < 0) * (len(points) // 3 + 1) for number in corners]
            if min(corners, default=1) < 1:
                raise GLNError(f"row {row} names a vertex before the first.")
            if max(corners, default=0) > last:
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
    rows = rows_of(data)
    row, words = next(rows, (1, [b""]))
    if words[0] not in (b"OFF", b"COFF", b"NOFF", b"STOFF", b"CNOFF"):
        raise GLNError(f"row {row} is {shown(b' '.join(words))}; expected OFF in text form.")
    row, words = (row, words[1:]) if len(words) > 1 else next(rows, (row + 1, []))
    if len(words) not in (2, 3):
        raise GLNError(f"row {row}: expected the number of vertices, faces and edges.")
    vertices, faces = ints(words[:2], row)
    if min(vertices, faces) < 0 or 2 * (vertices + faces) > len(data):
        raise GLNError(
            f"row {row} claims {vertices} vertices and {faces} faces, more than the file can hold."
        )
    points, polygons = array("d"), Corners()
    for row, words in _exactly(vertices, "vertices", rows):
        points.extend(_point(words, row))
    for row, words in _exactly(faces, "faces", rows):
        (count,) = ints(words[:1], row)
        corners = ints(words[1 : 1 + max(count, 0)], row)
        if len(corners) != count:
            raise GLNError(f"row {row}: a face claims {count} corners and names {len(corners)}.")
        polygons.append(corners)
    return Mesh(np.array(points).reshape(-1, 3), polygons.groups())


def _point(words: list[bytes], row: int) -> list[float]:
    point = floats(words[:3], row)
    if len(point) < 3:
        raise GLNError(f"row {row}: a vertex has {len(point)} coordinates; expected three.")
    return point


def _exactly(count: int, what: str, rows: Iterator[TextRow]) -> Iterator[TextRow]:
    for _ in range(count):
        found = next(rows, None)
        if found is None:
            raise GLNError(f"the file ends before the {count} {what} that it claims.")
        yield found


def parse_stl(data: bytes) -> Mesh:
    """Read triangles in text or binary form; corners at the same place are one vertex."""
    count = int.from_bytes(data[80:84], "little")
    if len(data) == 84 + 50 * count:  # first: a binary header may begin with "solid" too
        flat = np.frombuffer(data, FACET, offset=84)["corners"].reshape(-1, 3)
    elif data.lstrip()[:5].lower() == b"solid":
        corners, ended = array("d"), False
        for row, (kind, *words) in rows_of(data):
            if kind.lower() == b"vertex":
                corners.extend(_point(words, row))
            ended |= kind.lower() == b"endsolid"
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
    start = re.search(rb"^[ \t]*DATA(?=[\s#]).*\n", data[: 2**16], re.MULTILINE | re.IGNORECASE)
    if start is None:
        raise GLNError("the header has no row DATA; this is not a PCD file.")
    head, body = data[: start.end()], data[start.end() :]
    header = {name.decode("latin-1").upper(): words for _, (name, *words) in rows_of(head)}
    if missing := [name for name in ("FIELDS", "SIZE", "TYPE", "POINTS") if not header.get(name)]:
        raise GLNError(f"the header has no row {missing[0]}; this is not a PCD file.")
    names, row = header["FIELDS"], head.count(b"\n")
    sizes, (count,) = ints(header["SIZE"], row), ints(header["POINTS"][:1], row)
    counts = ints(header.get("COUNT", [b"1"] * len(names)), row)
    kinds = [KINDS.get(word.upper(), "?") for word in header["TYPE"]]
    if not len(names) == len(sizes) == len(counts) == len(kinds) or not {b"x", b"y", b"z"} <= set(names):
        raise GLNError("the header must name the fields x, y and z, with a SIZE and a TYPE for every field.")
    if min(counts) < 1:
        raise GLNError(f"the header gives a field the COUNT {min(counts)}; expected at least 1.")
    axes, form = [names.index(axis) for axis in (b"x", b"y", b"z")], b"".join(header["DATA"][:1]).lower()
    if form == b"ascii":
        rows, width = list(rows_of(body, row + 1)), sum(counts)
        if len(rows) != count or any(len(words) != width for _, words in rows):
            raise GLNError(f"expected {count} points of {width} numbers, as the header says.")
        first = [sum(counts[:axis]) for axis in axes]
        points = [floats([words[place] for place in first], row) for row, words in rows]
        return Mesh(np.array(points).reshape(-1, 3))
    if form != b"binary":
        raise GLNError(f"its points are stored as {shown(form)}; save them as ascii or binary.")
    try:
        fields = zip(kinds, sizes, counts, strict=True)
        columns = [(str(at), f"<{kind}{size}", (times,)) for at, (kind, size, times) in enumerate(fields)]
        point = np.dtype(columns)
    except (TypeError, ValueError):
        raise GLNError("the header gives a field a TYPE, SIZE or COUNT that does not exist.") from None
    if count < 0 or len(body) < count * point.itemsize:
        raise GLNError(f"the header claims {count:,} points, more than the file holds.")
    table = np.frombuffer(body, point, count=count)
    return Mesh(np.concatenate([table[str(axis)][:, :1] for axis in axes], axis=1).astype(np.float64))


def parse_vtk(data: bytes) -> Mesh:
    """Read POINTS, LINES and POLYGONS of a legacy file in text form; data of points and cells are ignored."""
    lines = data.split(b"\n", 4)
    if not lines[0].startswith(b"# vtk DataFile") or len(lines) < 5:
        raise GLNError("expected a legacy VTK file, which begins with # vtk DataFile.")
    if lines[2].strip().upper() != b"ASCII":
        raise GLNError(f"its numbers are stored as {shown(lines[2])}; save the file as ASCII.")
    words = iter(b"\n".join(lines[3:]).split())
    points, faces, pairs = np.empty((0, 3)), Corners(), array("q")
    for word in words:
        name = word.decode("latin-1").upper()
        if name == "POINTS":
            (count,) = ints(_take(words, 1), 0)
            _take(words, 1)  # the type of number
            points = np.array(floats(_take(words, 3 * count), 0)).reshape(-1, 3)
        elif name in ("LINES", "POLYGONS"):
            cells, total = ints(_take(words, 2), 0)
            numbers = iter(ints(_take(words, total), 0))
            for _ in range(cells):
                size = next(numbers, -1)
                corners = list(islice(numbers, max(size, 0)))
                if len(corners) != size:
                    raise GLNError(f"expected {cells} cells, each with the number of its corners first.")
                if name == "POLYGONS":
                    faces.append(corners)
                else:
                    pairs.extend(number for pair in pairwise(corners) for number in pair)
        elif name in ("TRIANGLE_STRIPS", "CELLS", "OFFSETS"):
            raise GLNError(f"it holds {name}, which are not read; save it as POLYDATA of version 4 or lower.")
        elif name in ("POINT_DATA", "CELL_DATA"):
            break
    joined = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Mesh(points, faces.groups(), joined if len(joined) else None)


def _take(words: Iterator[bytes], count: int) -> list[bytes]:
    found = list(islice(words, max(count, 0)))
    if len(found) != max(count, 0):
        raise GLNError(f"the file ends after {len(found)} of {count} numbers that it claims.")
    return found


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


def to_obj(item: Item, answer: Graph) -> bytes:
    """A vertex per node, and a face or a line per edge; the format has no place for probabilities or kinds."""
    rows = [f"v {x!r} {y!r} {z!r}" for x, y, z in places(item).tolist()]  # with all digits
    if (faces := answer.get("face")) is not None:
        rows += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces.T.tolist()]
    else:
        rows += [f"l {a + 1} {b + 1}" for a, b in answer.edges_once().tolist()]
    return ("\n".join(rows) + "\n").encode()


def to_stl(item: Item, answer: Graph) -> bytes:
    """Three corners and a normal per face, binary."""
    where, faces = places(item), answer["face"].T.numpy(force=True)
    rows = np.zeros(len(faces), FACET)
    rows["normal"], rows["corners"] = normals_of(where, faces)[0], where[faces]
    return bytes(80) + len(faces).to_bytes(4, "little") + rows.tobytes()


def to_off(item: Item, answer: Graph) -> bytes:
    where, faces = places(item).tolist(), answer["face"].T.tolist()
    rows = ["OFF", f"{len(where)} {len(faces)} 0", *(f"{x!r} {y!r} {z!r}" for x, y, z in where)]
    return ("\n".join(rows + [f"3 {a} {b} {c}" for a, b, c in faces]) + "\n").encode()


def to_glb(item: Item, answer: Graph) -> bytes:
    try:
        import trimesh
    except ImportError:
        raise GLNError(
            "A .glb needs trimesh, which is not installed: pip install trimesh, or write a .ply."
        ) from None
    mesh = trimesh.Trimesh(places(item), answer["face"].T.numpy(force=True), process=False)
    return bytes(mesh.export(file_type="glb"))
