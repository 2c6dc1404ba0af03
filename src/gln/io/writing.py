"""Writing predicted edges, all or nothing: one table or archive for all graphs, or one file per graph."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError, needed
from gln.files import Staged, naming, refuse_existing, remove_unfinished
from gln.graphs.check import as_record
from gln.graphs.record import NAMES, ROWS, Graph, is_per_edge
from gln.io.csvfile import harmless
from gln.io.file_edges import Columns, edge_columns, node_words
from gln.io.images import to_regions
from gln.io.items import Item, decoding
from gln.io.meshes import MESHES, to_glb, to_obj, to_off, to_stl
from gln.io.molfiles import MOLECULES, RDKIT, to_sdf, to_smiles
from gln.io.networks import to_graphml
from gln.io.ply import to_ply
from gln.io.streams import arrow
from gln.later import torch
from gln.storage.facts import parse_facts

AT_ONCE = 2**16  # rows of a table that are written at a time
BUFFERED = 2**18  # edges kept until they are written as one group of rows
OF_NODES = ("node_type", "node_type_prob")
EMPTY: dict[str, np.ndarray] = {
    "edge_index": np.empty((2, 0), dtype=np.int64),
    "edge_prob": np.empty(0, dtype=np.float32),
    "batch": np.empty(0, dtype=np.int64),
}


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
    if path.suffix.lower() == ".smi":
        needed(*RDKIT)  # before any work
    refuse_existing(path, force)
    return path


def write_graphs(graphs: Sequence[Graph], path: Path, force: bool = False) -> None:
    """Write graphs, such as generated ones, with all edges that they have; ``path`` as in :func:`open_writer`."""
    with open_writer(path, force=force) as writer:
        for number, graph in enumerate(graphs):
            nodes = Graph(graph.num_nodes, **graph.rows())
            writer.add(Item(str(number), path, nodes, labelled=True, ids=None), graph)


class Writer(ABC):
    """Receives predictions one after another; what it writes is moved into place at the end."""

    def __init__(self, path: Path, force: bool) -> None:
        self.path, self.force = path, force
        self.file = Staged(path)
        self.others: dict[str, Staged] = {}  # by what makes their names different from that of the file

    def add(self, item: Item, answer: Graph) -> None:
        """Write the edges of ``answer`` (``edge_index``, ``edge_prob`` and any kinds) over the nodes of ``item``."""
        self.put(item, as_record(answer))  # a user's prediction is a Data

    @abstractmethod
    def put(self, item: Item, answer: Graph) -> None:
        """As :meth:`add`."""

    def files(self) -> dict[Path, Staged]:
        """What was written, by where it goes."""
        stem, suffix = self.path.stem, self.path.suffix
        beside = {
            self.path.with_name(f"{stem}.{name}{suffix}"): staged for name, staged in self.others.items()
        }
        return {self.path: self.file, **beside}

    def finish(self) -> None:
        """Move what was written into place."""
        for target in self.files():
            refuse_existing(target, self.force)  # another run may have written it meanwhile
        for target, staged in self.files().items():
            staged.keep(target)

    def drop(self) -> None:
        """Remove what was not."""
        for staged in (self.file, *self.others.values()):
            staged.drop()


class TableWriter(Writer):
    """Writes rows to disk as they come, of all graphs into one file."""

    columns: tuple[str, ...] = ("source", "target", "probability")  # of a table without rows

    def __init__(self, path: Path, force: bool) -> None:
        super().__init__(path, force)
        self.headers: dict[str, tuple[str, ...]] = {}  # of the files that have one

    def put(self, item: Item, answer: Graph) -> None:
        nodes = self.nodes(item)
        columns = edge_columns(answer, nodes)
        digits = [f"{value:.6g}" for value in columns["probability"].tolist()]
        cells = {name: _cells(each) for name, each in columns.items() if name not in TableWriter.columns}
        self.add_rows(item, columns | {"probability": np.array(digits, dtype=object)} | cells)
        if answer.node_type is not None:
            self.add_rows(item, {"node": nodes, "type": _cells(node_words(answer))}, "nodes")

    def nodes(self, item: Item) -> np.ndarray:
        """The names of the nodes as CSV cells: the user's ids, or their numbers."""
        if item.ids is None:
            return np.arange(item.graph.num_nodes)
        return np.array(list(map(_cell, item.ids)), dtype=object)

    def add_rows(self, item: Item, columns: Columns, beside: str = "") -> None:
        """Write rows of these columns, after the name of the graph, to the table or to another one beside it."""
        if beside and beside not in self.others:
            self.others[beside] = Staged(self.path)
        file = self.others[beside] if beside else self.file
        if beside not in self.headers:
            self._begin(file, beside, tuple(columns))
        if self.headers[beside] != tuple(columns):
            raise GLNError(
                f"{item.label} has the columns {', '.join(columns)}, those before had "
                f"{', '.join(self.headers[beside])}; write them to a file of their own."
            )
        graph, first = _cell(item.label), next(iter(columns.values()))
        for start in range(0, len(first), AT_ONCE):
            part = [column[start : start + AT_ONCE].tolist() for column in columns.values()]
            lines = "".join(f"{graph},{','.join(map(str, row))}\n" for row in zip(*part, strict=True))
            file.write(lines.encode("utf-8", "backslashreplace"))

    def _begin(self, file: Staged, beside: str, columns: tuple[str, ...]) -> None:
        self.headers[beside] = columns
        file.write(f"graph,{','.join(columns)}\n".encode())

    def finish(self) -> None:
        if not self.headers:
            self._begin(self.file, "", self.columns)
        super().finish()


class ClusterTable(TableWriter):
    """Writes the cluster of every node."""

    columns = ("node", "cluster")

    def put(self, item: Item, answer: Graph) -> None:
        self.add_rows(item, {"node": self.nodes(item), "cluster": answer["cluster"].numpy(force=True)})


def _cells(values: np.ndarray) -> np.ndarray:
    """Values as CSV cells; numbers with the fewest digits that say which they are."""
    if values.dtype.kind == "f":
        return values.astype(str)
    if values.dtype != object:
        return values
    cells = {word: _cell(word) for word in set(values.tolist())}
    return np.array([cells[word] for word in values.tolist()], dtype=object)


def _cell(value: str) -> str:
    """``value`` as a CSV cell, quoted where necessary."""
    text = io.StringIO(newline="")
    # Python 3.11 quotes only the line breaks that it would end a line with.
    csv.writer(text, lineterminator="\r\n").writerow([harmless(value), ""])
    return text.getvalue().removesuffix(",\r\n")


class ParquetWriter(Writer):
    """Writes all graphs into one table, some at a time."""

    def __init__(self, path: Path, force: bool) -> None:
        arrow()
        super().__init__(path, force)
        self.writer: Any = None
        self.waiting: list[tuple[str, Columns]] = []
        self.edges = 0

    def put(self, item: Item, answer: Graph) -> None:
        self.waiting.append(labelled_edges(item, answer))
        self.edges += len(self.waiting[-1][1]["source"])
        if self.edges > BUFFERED:
            self._flush()

    def _flush(self) -> None:
        table = edge_table(self.waiting)
        table = table.set_column(0, "graph", table.column("graph").cast("string"))
        self.waiting, self.edges = [], 0
        with naming(self.path):
            if self.writer is None:
                self.writer = arrow("pyarrow.parquet").ParquetWriter(self.file.file, table.schema)
            if table.schema != self.writer.schema:
                raise GLNError("The graphs have different kinds of node ids or of edges; write a .csv.")
            self.writer.write_table(table)

    def finish(self) -> None:
        self._flush()
        self.writer.close()
        super().finish()


def labelled_edges(item: Item, answer: Graph) -> tuple[str, Columns]:
    """The name of a graph and the columns of its edges, with the user's ids as whole numbers if they are."""
    if item.ids is None:
        return item.label, edge_columns(answer, np.arange(answer.num_nodes))
    names = np.array(item.ids, dtype=object)
    with suppress(ValueError, OverflowError):
        numbers = names.astype(np.int64)
        names = numbers if list(map(str, numbers)) == list(item.ids) else names
    return item.label, edge_columns(answer, names)


def edge_table(graphs: Sequence[tuple[str, Columns]]) -> Any:
    """One table of the edges of all graphs, of which the first column is the name."""
    pa = arrow()
    labels = pa.array([label for label, _ in graphs], pa.string())
    counts = [len(columns["source"]) for _, columns in graphs]
    numbers = np.repeat(np.arange(len(graphs), dtype=np.int32), counts)
    empty = {name: np.empty(0, np.int64) for name in ("source", "target")}
    parts = [columns for _, columns in graphs] or [empty | {"probability": np.empty(0, np.float32)}]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return pa.table({"graph": pa.DictionaryArray.from_arrays(numbers, labels), **joined})


def pack_edges(graphs: Sequence[tuple[str, Columns]], facts: dict[str, Any]) -> bytes:
    """A Parquet file with the edges of some graphs, and facts to be read by :func:`facts_in`."""
    file = io.BytesIO()
    table = edge_table(graphs).replace_schema_metadata({"gln": json.dumps(facts)})
    arrow("pyarrow.parquet").write_table(table, file)
    return file.getvalue()


def facts_in(path: Path) -> dict[str, Any]:
    """What :func:`pack_edges` was told."""
    with decoding("Parquet file"):
        metadata = arrow("pyarrow.parquet").read_schema(path).metadata or {}
        return parse_facts(metadata[b"gln"].decode(), path)


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


class JoinedWriter(Writer):
    """Writes what a graph is encoded as, one after another into one file."""

    def __init__(self, path: Path, force: bool, encode: Callable[[Item, Graph], bytes]) -> None:
        super().__init__(path, force)
        self.encode = encode

    def put(self, item: Item, answer: Graph) -> None:
        self.file.write(self.encode(item, answer))


class FilesWriter(JoinedWriter):
    """Writes a file for each graph; a single one goes to the path itself, which is taken for as long as others are."""

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
    ".sdf": partial(JoinedWriter, encode=to_sdf),
    ".smi": partial(JoinedWriter, encode=to_smiles),
    ".stl": partial(FilesWriter, encode=to_stl),
    ".off": partial(FilesWriter, encode=to_off),
    ".glb": partial(FilesWriter, encode=to_glb),
}
CLUSTER_WRITERS: dict[str, Callable[[Path, bool], Writer]] = {
    ".csv": ClusterTable,
    ".png": partial(FilesWriter, encode=to_regions),
}
