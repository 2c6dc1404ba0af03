"""Read predicted edges from files written by ``gln predict``, for the graphs they were predicted for."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gln.errors import GLNError, quote
from gln.graphs.check import check_graph
from gln.graphs.record import Graph
from gln.io.arrays import members_of
from gln.io.csvfile import CSVFile
from gln.io.items import Item, ReadOptions, as_tensors
from gln.io.reading import read_items
from gln.io.tables import EdgeTable

COLUMNS = ("graph", "source", "target", "probability")


def is_archive(path: Path) -> bool:
    """Whether this is an .npz with edge probabilities."""
    return path.suffix.lower() == ".npz" and zipfile.is_zipfile(path) and "edge_prob" in members_of(path)


def is_table(path: Path) -> bool:
    """Whether this is a .csv of predicted edges."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    with suppress(GLNError):  # no table at all
        return CSVFile.open(path).columns[:4] == COLUMNS
    return False


def read_archive(path: Path) -> list[Item]:
    """The graphs of an .npz of ``gln predict``, whose edges have ``edge_prob``."""
    options = ReadOptions(
        types="edge_type", weights="edge_weight", node_types="node_type", kinds_if_there=True
    )
    options = replace(options, directed="directed" in members_of(path))
    return list(read_items([path], options, chances=True))


class Predictions:
    """The predicted edges in ``path``, a .csv or .npz of ``gln predict``, by the ``names`` of their graphs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if is_archive(path):
            self.graphs = {item.label: item.graph for item in read_archive(path)}
            self.names = list(self.graphs)
            return
        if path.suffix.lower() != ".csv":
            raise GLNError(f"{path}: predictions are read from the .csv or .npz that gln predict wrote.")
        if not is_table(path):
            raise GLNError(f"{path}: expected the columns {', '.join(COLUMNS)}, as gln predict writes them.")
        self.options = ReadOptions(types="type", weights="weight", kinds_if_there=True)
        if "direction" in CSVFile.open(path).columns:
            self.options = replace(self.options, directed=True)
        self.table = EdgeTable(path, self.options, chances=True)
        self.names = list(self.table.places)

    def of(self, name: str, nodes: Graph, ids: Sequence[str] | None) -> Graph:
        """The edges of the graph ``name``, with their probabilities and kinds; ``nodes`` are called ``ids``."""
        count = nodes.num_nodes
        if self.path.suffix.lower() == ".npz":
            if self.graphs[name].num_nodes != count:
                raise GLNError(
                    f"{self.path} has {self.graphs[name].num_nodes} nodes in {quote(name)}, which has {count}; give "
                    "the file that these edges were predicted for."
                )
            return self.graphs[name]
        number = {str(node): place for place, node in enumerate(ids or range(count))}
        found = self.table.edges((None, name), number).fields(count, self.options, lambda text: None)
        return check_graph(Graph(count, **as_tensors(found)))
