"""Writing predicted edges, all or nothing: one table or archive for all graphs, or one file per graph."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError, quote
from gln.files import Staged, naming, refuse_existing, remove_unfinished
from gln.graphs.record import NAMES, ROWS, Graph, is_per_edge
from gln.graphs.regions import is_image
from gln.io.items import Item
from gln.io.meshes import MESHES, to_glb, to_obj, to_off, to_stl
from gln.io.molfiles import MOLECULES, SDFWriter, SmilesWriter
from gln.io.ply import to_ply
from gln.io.table_writers import ClusterTable, ParquetWriter, TableWriter, Writer, kind_columns, node_words
from gln.later import torch

OF_NODES = ("node_type", "node_type_prob")
EMPTY: dict[str, np.ndarray] = {
    "edge_index": np.empty((2, 0), dtype=np.int64),
    "edge_prob": np.empty(0, dtype=np.float32),
    "batch": np.empty(0, dtype=np.int64),
}
SCATTER = 10_368_889  # odd, so that numbers below 2²⁴ stay distinct; near the golden section, so that neighbours differ


@contextmanager
def open_writer(path: Path | str, *, force: bool = False, clustered: bool = False) -> Iterator[Writer]:
    """Open a writer for ``path``, whose suffix gives the format; the file appears if the block ends without an error.

    ``.csv`` and ``.parquet`` have the columns graph, source, target and probability, each undirected edge once, and
    name nodes by the user's ids, if any; where they are predicted, the columns type, weight and direction follow, and
    the types of nodes are in NAME.nodes.csv beside a ``.csv``. ``.npz`` holds all graphs as one PyG batch.
    ``.graphml``, ``.obj`` and ``.ply`` hold one graph; several become files NAME-ITEM.ext. ``.sdf`` and ``.smi`` hold
    molecules, ``.stl``, ``.off`` and ``.glb`` meshes. Existing files are replaced only with ``force``.

    With ``clustered``, answers have a ``cluster [n]``, and this is written instead of the edges: as ``.csv`` with the
    columns graph, node and cluster, or of images as ``.png``.
    """
    path = check_output(path, force, clustered)
    remove_unfinished(path.parent, f"{path.name}.")
    make = (CLUSTER_WRITERS if clustered else ALL_WRITERS)[path.suffix.lower()]
    writer = make(path, force)  # an unwritable folder is found before any work
    try:
        yield writer
        writer.finish()
    finally:
        writer.drop()


def check_output(path: Path | str, force: bool = False, clustered: bool = False) -> Path:
    """Refuse a path that :func:`open_writer` could not write to, as far as its name tells."""
    path = Path(path)
    if path.suffix.lower() not in (CLUSTER_WRITERS if clustered else ALL_WRITERS):
        expected = (
            "clusters are written to .csv or .png"
            if clustered
            else f"expected a name that ends in {', '.join(WRITABLE)}, of molecules in {', '.join(MOLECULES)}, or of "
            f"meshes in {', '.join(MESHES)}"
        )
        raise GLNError(f"Got {path.name!r}; {expected}.")
    if not path.parent.is_dir():
        raise GLNError(f"The folder {path.parent} does not exist; create it first.")
    if path.is_dir():
        raise GLNError(f"{path} is a folder; give a file name.")
    if os.path.islink(os.path.realpath(path)) or (path.exists() and not path.is_file()):
        raise GLNError(f"{path} is a pipe, a device or a link that leads in circles; give a file name.")
    refuse_existing(path, force)
    return path


class ArchiveWriter(Writer):
    """Writes the layout that is read (pos, x, edge_index, kinds, batch), with edge_prob and the items' names."""

    def __init__(self, path: Path, force: bool) -> None:
        super().__init__(path, force)
        self.names: list[str] = []
        self.graphs: list[dict[str, np.ndarray]] = []
        self.nodes = 0
        self.words: dict[str, Any] = {}  # the names of types, and whether edges are directed

    def put(self, item: Item, answer: Graph) -> None:
        tensors = {name: answer[name] for name in answer.keys() if is_per_edge(name) or name in OF_NODES}  # noqa: SIM118
        tensors["edge_index"] = answer.edge_index + self.nodes
        tensors["batch"] = torch.full((answer.num_nodes,), len(self.names))
        arrays = item.rows() | {name: value.numpy(force=True) for name, value in tensors.items()}
        words = {name: answer[name] for name in (*NAMES, "directed") if answer.get(name)}
        if self.graphs:
            before, widths = (
                {name: of[name].shape[1] for name in ROWS if name in of} for of in (self.graphs[0], arrays)
            )
            if widths != before:
                raise GLNError(
                    f"{item.label} has columns {widths}, {self.names[0]} has {before}, but an .npz needs equal ones; "
                    "use .csv."
                )
            if set(self.graphs[0]) != set(arrays) or words != self.words:
                raise GLNError(
                    f"{item.label} and {self.names[0]} have other kinds of edges or nodes, but an .npz needs the same; "
                    "write them to files of their own."
                )
        self.words = words
        self.graphs.append(arrays)
        self.names.append(item.label)
        self.nodes += answer.num_nodes

    def finish(self) -> None:
        graphs = self.graphs or [EMPTY]
        arrays = {
            name: np.concatenate([each[name] for each in graphs], axis=1 if name == "edge_index" else 0)
            for name in graphs[0]
        }
        arrays |= {name: np.array(value) for name, value in self.words.items()}
        arrays["names"] = np.array(self.names, dtype=np.str_)
        with naming(self.path):
            np.savez(self.file.file, allow_pickle=False, **arrays)
        super().finish()


Encode = Callable[[Item, Graph], bytes]


def write_graphs(graphs: Sequence[Graph], path: Path, force: bool = False) -> None:
    """Write graphs, such as generated ones, with all edges that they have; ``path`` as in :func:`open_writer`."""
    with open_writer(path, force=force) as writer:
        for number, graph in enumerate(graphs):
            nodes = Graph(graph.num_nodes, **graph.rows())
            writer.add(Item(str(number), path, nodes, labelled=True, ids=None), graph)


class FilesWriter(Writer):
    """Writes a file for each graph; a single one goes to the path itself, which is taken for as long as others are."""

    def __init__(self, path: Path, force: bool, encode: Encode) -> None:
        super().__init__(path, force)
        self.encode = encode

    def put(self, item: Item, answer: Graph) -> None:
        data = self.encode(item, answer)
        name = slug = re.sub(r"[^\w.-]+", "-", item.label)[:100]
        number = 1
        while name in self.others:
            number += 1
            name = f"{slug}-{number}"
        self.others[name] = staged = Staged(self.path)
        staged.write(data)
        staged.close()
        if len(self.others) > 1:
            refuse_existing(self.target(name), self.force)

    def target(self, name: str) -> Path:
        """Where a file goes, if there are several."""
        return self.path.with_name(f"{self.path.stem}-{name}{self.path.suffix}")

    def files(self) -> dict[Path, Staged]:
        single = len(self.others) == 1
        return {self.path if single else self.target(name): staged for name, staged in self.others.items()}


def to_regions(item: Item, answer: Graph) -> bytes:
    """An image with a colour for every cluster, which ``--labels`` reads back."""
    if not is_image(item.graph):
        raise GLNError(f"{item.name} is not an image, so its clusters make no picture; write a .csv.")
    from PIL import Image  # with which the image was read

    column, row = item.graph.pos.numpy(force=True).astype(int).T
    number = answer["cluster"].numpy(force=True) * SCATTER % 2**24  # another colour for each
    pixels = np.zeros((row.max() + 1, column.max() + 1, 3), dtype=np.uint8)
    pixels[row, column] = number[:, None] >> (16, 8, 0)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def to_graphml(item: Item, answer: Graph) -> bytes:
    """Nodes by the user's ids, with ``pos0 …``, ``x0 …`` and ``type``; edges with ``probability``, type and weight."""
    import networkx as nx  # slow, and only this format needs it

    ids = [str(node) for node in (range(item.graph.num_nodes) if item.ids is None else item.ids)]
    odd = next((node for node in ids if not node.isprintable()), None)
    if odd is not None:
        raise GLNError(
            f"{item.name}: the node id {quote(odd)} has characters that XML cannot hold; write a .csv."
        )
    graph = nx.DiGraph() if answer.directed else nx.Graph()
    graph.add_nodes_from(ids)
    for name, rows in item.rows().items():
        for number, column in enumerate(rows.T.tolist()):
            nx.set_node_attributes(graph, dict(zip(ids, column, strict=True)), f"{name}{number}")
    if answer.node_type is not None:
        nx.set_node_attributes(graph, dict(zip(ids, node_words(answer).tolist(), strict=True)), "type")
    pairs, chances = answer.scored_once()
    columns = {"probability": chances} | kind_columns(answer)
    columns.pop("direction", None)
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    graph.add_edges_from(
        (ids[a], ids[b], dict(zip(columns, row, strict=True)))
        for (a, b), row in zip(pairs.tolist(), values, strict=True)
    )
    file = io.BytesIO()
    nx.write_graphml_xml(graph, file)
    return file.getvalue()


WRITERS: dict[str, Callable[[Path, bool], Writer]] = {
    ".csv": TableWriter,
    ".npz": ArchiveWriter,
    ".graphml": partial(FilesWriter, encode=to_graphml),
    ".obj": partial(FilesWriter, encode=to_obj),
    ".ply": partial(FilesWriter, encode=to_ply),
    ".parquet": ParquetWriter,
}
WRITABLE = tuple(WRITERS)  # any graph
ALL_WRITERS: dict[str, Callable[[Path, bool], Writer]] = WRITERS | {
    ".sdf": SDFWriter,
    ".smi": SmilesWriter,
    ".stl": partial(FilesWriter, encode=to_stl),
    ".off": partial(FilesWriter, encode=to_off),
    ".glb": partial(FilesWriter, encode=to_glb),
}
CLUSTER_WRITERS: dict[str, Callable[[Path, bool], Writer]] = {
    ".csv": ClusterTable,
    ".png": partial(FilesWriter, encode=to_regions),
}
