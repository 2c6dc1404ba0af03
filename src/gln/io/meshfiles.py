"""Writing meshes: the vertices are the points that were given, in their order."""

from __future__ import annotations

import numpy as np

from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.io.items import Item

MESHES = (".stl", ".off", ".glb")  # files that hold nothing but faces


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


def to_obj(item: Item, answer: Graph) -> bytes:
    """A vertex per node, and a face or a line per edge; the format has no place for probabilities or kinds."""
    rows = [f"v {x!r} {y!r} {z!r}" for x, y, z in places(item).tolist()]  # with all digits
    if (faces := answer.get("face")) is not None:
        rows += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces.T.tolist()]
    else:
        rows += [f"l {a + 1} {b + 1}" for a, b in answer.edges_once().tolist()]
    return ("\n".join(rows) + "\n").encode()


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


def to_stl(item: Item, answer: Graph) -> bytes:
    """Three corners and a normal per face, binary."""
    where, faces = places(item), answer["face"].T.numpy(force=True)
    rows = np.zeros(len(faces), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("colour", "<u2")])
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
