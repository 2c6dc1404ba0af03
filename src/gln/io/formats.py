"""Encoding one graph with its predicted edges as GraphML, OBJ or PLY."""

from __future__ import annotations

import io

import numpy as np

from gln.errors import GLNError
from gln.io.items import Item, quote


def to_graphml(item: Item, pairs: np.ndarray, chances: np.ndarray) -> bytes:
    """Nodes by the user's ids, with ``pos0, pos1, …`` and ``x0, x1, …``; edges with ``probability``."""
    ids = [str(node) for node in (range(item.graph.num_nodes) if item.ids is None else item.ids)]
    odd = next((node for node in ids if not node.isprintable()), None)
    if odd is not None:
        raise GLNError(
            f"{item.name}: the node id {quote(odd)} has characters that XML cannot hold; write a .csv."
        )
    import networkx as nx  # here, as most files need none

    graph = nx.Graph()
    graph.add_nodes_from(ids)
    for name, rows in item.graph.rows().items():
        for number, column in enumerate(rows.T.tolist()):
            nx.set_node_attributes(graph, dict(zip(ids, column, strict=True)), f"{name}{number}")
    graph.add_edges_from(
        (ids[a], ids[b], {"probability": chance})
        for (a, b), chance in zip(pairs.tolist(), chances.tolist(), strict=True)
    )
    file = io.BytesIO()
    nx.write_graphml_xml(graph, file)
    return file.getvalue()


def to_obj(item: Item, pairs: np.ndarray, chances: np.ndarray) -> bytes:
    """A vertex per node, a line per edge; the format has no place for probabilities."""
    rows = [f"v {x!r} {y!r} {z!r}" for x, y, z in _places(item).tolist()]  # with all digits
    rows += [f"l {a + 1} {b + 1}" for a, b in pairs.tolist()]
    return ("\n".join(rows) + "\n").encode()


def to_ply(item: Item, pairs: np.ndarray, chances: np.ndarray) -> bytes:
    """A vertex per node, the element ``edge`` with vertex1 and vertex2, and their probabilities; binary.

    The probabilities are a separate element, because some readers fail if edges have a third property.
    """
    vertices = _places(item).astype("<f4")
    header = (
        "ply\nformat binary_little_endian 1.0\n"
        f"element vertex {len(vertices)}\nproperty float x\nproperty float y\nproperty float z\n"
        f"element edge {len(pairs)}\nproperty int vertex1\nproperty int vertex2\n"
        f"element edge_probability {len(pairs)}\nproperty float probability\nend_header\n"
    )
    return (
        header.encode() + vertices.tobytes() + pairs.astype("<i4").tobytes() + chances.astype("<f4").tobytes()
    )


def _places(item: Item) -> np.ndarray:
    """Positions ``[n, 3]``, with zeros for the axes that are missing."""
    pos = item.graph.get("pos")
    width = 0 if pos is None else pos.shape[1]
    if not 1 <= width <= 3:
        raise GLNError(
            f"{item.name}: positions have {width} axes, but .obj and .ply hold 1 to 3; use .csv, .npz or .graphml."
        )
    places = pos.numpy(force=True)
    return np.pad(places, [(0, 0), (0, 3 - width)])
