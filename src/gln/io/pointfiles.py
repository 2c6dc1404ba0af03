"""Point clouds of PCL (.pcd) and legacy VTK files in text form (.vtk)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from gln.errors import GLNError, quote
from gln.io.items import floats, ints
from gln.io.ply import Corners, Mesh

KINDS = {"F": "f", "I": "i", "U": "u"}
CELLS = ("LINES", "POLYGONS")


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
