"""PLY in text and both binary forms: vertices, faces and edges; whatever else a file declares is ignored.

What comes first is for all meshes: :class:`Mesh` and :class:`Corners`, as they are read, places and normals to write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gln.errors import GLNError, quote
from gln.graphs.record import Graph
from gln.io.file_edges import check_numbers
from gln.io.items import Item, floats, ints, rows_of

TYPES = {"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"}
TYPES |= {"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"}
COUNTS = tuple(TYPES)  # types of the length of a list
TYPES |= {"float": "f4", "double": "f8", "float32": "f4", "float64": "f8"}
ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": ""}


@dataclass
class Mesh:
    """Points, and the faces and lines that join them."""

    points: np.ndarray  # [n, p]
    faces: list[np.ndarray] = field(default_factory=list)  # [f, k] for every number of corners k
    lines: np.ndarray | None = None  # [m, 2]
    predicted: bool = False  # the lines carry probabilities

    def pairs(self) -> np.ndarray | None:
        """The edges ``[m, 2]``; ``None`` for a point cloud. A side that joins a vertex to itself is not an edge."""
        for rows in self.faces:
            check_numbers(rows, len(self.points), f"face of {rows.shape[1]} corners, number")
        if self.lines is not None:
            check_numbers(self.lines, len(self.points), "line")
        sides = [np.stack([rows, np.roll(rows, -1, axis=1)], axis=2).reshape(-1, 2) for rows in self.faces]
        sides = [pairs[pairs[:, 0] != pairs[:, 1]] for pairs in sides]
        if self.lines is not None:
            sides.append(self.lines)
        return np.concatenate(sides) if sides else None


class Corners:
    """The corners of polygons, gathered row by row into flat arrays: a million small lists would be slow."""

    def __init__(self) -> None:
        self.flat, self.lengths = array("q"), array("q")

    def append(self, corners: Sequence[int]) -> None:
        self.flat.extend(corners)
        self.lengths.append(len(corners))

    def groups(self) -> list[np.ndarray]:
        """Faces ``[f, k]`` grouped by their number of corners; those with fewer than two have no sides."""
        flat, lengths = np.array(self.flat, dtype=np.int64), np.array(self.lengths, dtype=np.int64)
        starts = np.cumsum(lengths) - lengths
        counts = [int(count) for count in np.unique(lengths) if count > 1]
        return [flat[starts[lengths == count][:, None] + np.arange(count)] for count in counts]


def places(item: Item) -> np.ndarray:
    """Positions ``[n, 3]``, with zeros for the axes that are missing."""
    width = item.graph.widths[0]
    if not 1 <= width <= 3:
        raise GLNError(
            f"{item.name}: positions have {width} axes, but .obj and .ply hold 1 to 3; use .csv, .npz or .graphml."
        )
    return np.pad(item.rows()["pos"], [(0, 0), (0, 3 - width)])


def normals_of(where: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit normals of the faces ``[f, 3]``, and of the vertices ``[n, 3]`` by the area of the faces around each."""
    a, b, c = where[faces.T]
    across = np.cross(b - a, c - a)
    around = np.stack([np.bincount(faces.ravel(), axis.repeat(3), len(where)) for axis in across.T], axis=1)
    return unit(across), unit(around)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)


@dataclass
class Property:
    name: str
    type: str
    count: str | None  # the type of a list's length; None for a single value

    @property
    def whole(self) -> bool:
        return self.type[0] in "iu"

    @property
    def smallest(self) -> int:
        """The fewest bytes it takes in binary form."""
        return int((self.count or self.type)[1])


@dataclass
class Element:
    name: str
    count: int
    properties: list[Property] = field(default_factory=list)


def parse_ply(data: bytes) -> Mesh:
    """Positions are the properties x, y, z of the vertices; edges are the sides of faces and the declared edges."""
    order, elements, start, row = _header(data)
    body = _Text(data[start:], row) if order == "" else _Binary(data, start, order)
    found: dict[str, dict[str, Any]] = {}
    for element in elements:
        if element.count:
            _check_size(element, len(data) - start, order)
            found[element.name] = body.read(element)
    if "tristrips" in found:
        raise GLNError(
            "its faces are strips of triangles (tristrips), which are not supported; save single faces."
        )
    vertex, face, edge = (found.get(name, {}) for name in ("vertex", "face", "edge"))
    axes = [vertex[name] for name in ("x", "y", "z") if isinstance(vertex.get(name), np.ndarray)]
    if vertex and len(axes) < 2:
        raise GLNError("the vertices have no properties x and y.")
    corners = next((face[name] for name in ("vertex_indices", "vertex_index") if name in face), None)
    ends = [edge[name] for name in ("vertex1", "vertex2") if isinstance(edge.get(name), np.ndarray)]
    ends = [numbers for numbers in ends if numbers.dtype.kind in "iu"]
    if face and not isinstance(corners, list):
        raise GLNError("the faces have no list vertex_indices.")
    if edge and len(ends) != 2:
        raise GLNError("the edges have no properties vertex1 and vertex2 of whole numbers.")
    lines = np.stack(ends, axis=1).astype(np.int64) if ends else None
    points = np.stack(axes, axis=1).astype(np.float64) if axes else np.empty((0, 3))
    # Declaring the element means that the file gives its edges, even if there are none.
    if lines is None and any(element.name == "edge" for element in elements):
        lines = np.empty((0, 2), dtype=np.int64)
    predicted = any(element.name == "edge_probability" for element in elements)
    return Mesh(points, corners or [], lines, predicted)


def _header(data: bytes) -> tuple[str, list[Element], int, int]:
    """The byte order (empty for text), the elements, and the byte and the row at which they begin."""
    head, end, _ = data[: 2**16].partition(b"end_header")
    rows = head.decode("latin-1").split("\n")
    if rows[0].strip() != "ply" or not end:
        raise GLNError("this is not a PLY file: expected ply in row 1, and end_header.")
    order: str | None = None
    elements: list[Element] = []
    for row, words in enumerate((line.split() for line in rows), start=1):
        match words:
            case ["format", name, _] if name in ORDERS:
                order = ORDERS[name]
            case ["element", name, count]:
                (number,) = ints([count.encode()], row)
                elements.append(Element(name, number))
            case ["property", "list", count, type, name] if elements and type in TYPES and count in COUNTS:
                elements[-1].properties.append(Property(name, TYPES[type], TYPES[count]))
            case ["property", type, name] if elements and type in TYPES:
                elements[-1].properties.append(Property(name, TYPES[type], None))
            case ["ply"] | ["comment" | "obj_info", *_] | []:
                pass
            case _:
                raise GLNError(
                    f"row {row} of the header is {quote(' '.join(words))}, which is not understood."
                )
    if order is None:
        raise GLNError(
            "the header does not give the format: ascii, binary_little_endian or binary_big_endian."
        )
    names = [element.name for element in elements]
    if len(set(names)) < len(names):
        raise GLNError("the header declares an element twice.")
    newline = data.find(b"\n", len(head))
    return order, elements, len(data) if newline < 0 else newline + 1, len(rows) + 1


def _check_size(element: Element, follow: int, order: str) -> None:
    """Compare what the header claims with the bytes that follow, before anything of that size is allocated."""
    least = 2 * len(element.properties) if order == "" else sum(each.smallest for each in element.properties)
    names = [each.name for each in element.properties]
    if element.count < 0 or not least or len(set(names)) < len(names) or element.count * least > follow + 1:
        raise GLNError(
            f"the header claims {element.count:,} of {quote(element.name)} with {len(names)} properties, which do not "
            f"fit the {follow:,} bytes that follow."
        )


class _Body(ABC):
    """The numbers after a header, element by element and row by row."""

    @abstractmethod
    def take(self, of: Property, type: str, count: int) -> Sequence:
        """The next ``count`` numbers of a row."""

    def row(self, element: Element) -> Iterator[Sequence]:
        """The numbers of every property in the next row."""
        for each in element.properties:
            count = 1 if each.count is None else int(self.take(each, each.count, 1)[0])
            yield self.take(each, each.type, count)

    def read(self, element: Element) -> dict[str, Any]:
        """Every property of the element: an array ``[count]``, or faces by their number of corners."""
        values: dict[str, Any] = {
            each.name: [] if each.count is None else Corners() for each in element.properties
        }
        for _ in range(element.count):
            for each, numbers in zip(element.properties, self.row(element), strict=True):
                if each.count is None:
                    values[each.name].append(numbers[0])
                elif each.whole:
                    values[each.name].append(numbers)
        return {
            name: each.groups() if isinstance(each, Corners) else np.array(each)
            for name, each in values.items()
        }


class _Text(_Body):
    def __init__(self, data: bytes, first: int) -> None:
        self.rows, self.number, self.place = rows_of(data, first), 0, 0
        self.words: list[bytes] = []

    def row(self, element: Element) -> Iterator[Sequence]:
        (self.number, self.words), self.place = next(self.rows, (0, [])), 0
        if not self.words:
            raise GLNError(
                f"the file ends before the {element.count} of {quote(element.name)} that it claims."
            )
        return super().row(element)

    def take(self, of: Property, type: str, count: int) -> Sequence:
        words = self.words[self.place : self.place + count]
        self.place += count
        if len(words) != count:
            raise GLNError(f"row {self.number} is too short for its {of.name}.")
        return ints(words, self.number) if type[0] in "iu" else floats(words, self.number)


class _Binary(_Body):
    def __init__(self, data: bytes, offset: int, order: str) -> None:
        self.data, self.offset, self.order = data, offset, order

    def read(self, element: Element) -> dict[str, Any]:
        """As in text. Rows nearly always have the same size; only if they do not are they read one by one."""
        start = self.offset
        lengths = [len(numbers) for numbers in self.row(element)]
        self.offset = start
        fields: list[tuple] = []
        for each, length in zip(element.properties, lengths, strict=True):
            if each.count is not None:
                fields.append((f"{each.name} count", self.order + each.count))
            fields.append((each.name, self.order + each.type, () if each.count is None else (length,)))
        dtype = np.dtype(fields)
        if element.count * dtype.itemsize > len(self.data) - self.offset:
            return super().read(element)
        table = np.frombuffer(self.data, dtype, element.count, self.offset)
        found: dict[str, Any] = {}
        for each, length in zip(element.properties, lengths, strict=True):
            values = found[each.name] = table[each.name]
            if each.count is not None:
                if (table[f"{each.name} count"] != length).any():
                    return super().read(element)
                found[each.name] = [values.astype(np.int64)] if each.whole and length > 1 else []
        self.offset += table.nbytes
        return found

    def take(self, of: Property, type: str, count: int) -> Sequence:
        start, self.offset = self.offset, self.offset + count * int(type[1])
        if not start <= self.offset <= len(self.data):
            raise GLNError(
                "the file ends in the middle of an element."
                if count == 1
                else f"a list {of.name} claims {count} values, which do not fit into the rest of the file."
            )
        return np.frombuffer(self.data, self.order + type, count, start).tolist()


def to_ply(item: Item, answer: Graph) -> bytes:
    """A vertex per node; its normal and the faces, or the element ``edge`` and probabilities; binary.

    The probabilities are a separate element, because some readers fail if edges have a third property.
    """
    kind, code = ("float", "<f4") if item.origin is None else ("double", "<f8")
    where = places(item)
    columns, head, rest = [where.astype(code)], "", b""
    if (face := answer.get("face")) is not None:
        faces = face.T.numpy(force=True)
        columns.append(normals_of(where, faces)[1].astype("<f4"))
        head = f"element face {len(faces)}\nproperty list uchar int vertex_indices\n"
        rows = np.empty(len(faces), np.dtype([("count", "u1"), ("corners", "<i4", 3)]))
        rows["count"], rows["corners"] = 3, faces
        rest = rows.tobytes()
    else:
        pairs, chances = answer.scored_once()
        head = (
            f"element edge {len(pairs)}\nproperty int vertex1\nproperty int vertex2\n"
            f"element edge_probability {len(pairs)}\nproperty float probability\n"
        )
        rest = pairs.astype("<i4").tobytes() + chances.astype("<f4").tobytes()
    names = "".join(f"property {kind} {axis}\n" for axis in "xyz")
    names += "".join(f"property float n{axis}\n" for axis in "xyz") * (len(columns) - 1)
    table = np.empty(len(where), [("pos", code, 3), ("normal", "<f4", 3)][: len(columns)])
    for name, column in zip(table.dtype.names or (), columns, strict=True):
        table[name] = column
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(where)}\n{names}{head}end_header\n"
    return header.encode() + table.tobytes() + rest
