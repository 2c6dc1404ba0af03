"""Writers of tables, CSV and Parquet: the edges of all graphs, or the cluster of every node, as rows of one file."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError
from gln.files import Staged, naming, refuse_existing
from gln.graphs.check import as_record
from gln.graphs.record import Graph
from gln.io.csvfile import harmless
from gln.io.items import Item, decoding
from gln.io.streams import arrow
from gln.storage.facts import parse_facts

AT_ONCE = 2**16  # rows of a table that are written at a time
BUFFERED = 2**18  # edges kept until they are written as one group of rows

Columns = dict[str, np.ndarray]


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


def edge_columns(answer: Graph, names: np.ndarray) -> Columns:
    """Every edge once: its ends by ``names [n]``, its probability and, where predicted, type, weight and direction."""
    pairs, chances = answer.scored_once()
    source, target = names[pairs.T]
    return {"source": source, "target": target, "probability": chances, **kind_columns(answer)}


def kind_columns(answer: Graph) -> Columns:
    """What a prediction says of each edge that is listed once, besides its probability: type, weight, direction."""
    once, columns = answer.listed_once(), {}
    if answer.edge_type is not None:
        columns["type"] = _words(answer.edge_type[once].numpy(force=True), answer.get("edge_type_names"))
    if answer.edge_weight is not None:
        columns["weight"] = answer.edge_weight[once].numpy(force=True)
    if answer.directed:
        columns["direction"] = np.full(int(once.sum()), "forward", dtype=object)
    return columns


def node_words(answer: Graph) -> np.ndarray:
    """The type of every node: its name, or else its number."""
    return _words(answer.node_type.numpy(force=True), answer.get("node_type_names"))


def _words(types: np.ndarray, names: Sequence[str] | None) -> np.ndarray:
    return types if names is None else np.array([*names, ""], dtype=object)[types]


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
