"""Read predicted edges from files written by ``gln predict``, for the graphs they were predicted for."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path

import numpy as np

from gln.errors import GLNError, quote
from gln.files import open_regular
from gln.graphs.record import KINDS, NAMES
from gln.io.arrays import load_archive, members_of
from gln.io.csvfile import plain
from gln.io.file_edges import as_types, as_weights
from gln.io.items import decoding

COLUMNS = ("graph", "source", "target", "probability")
MORE = ("type", "weight", "direction")  # columns that may follow
ARRAYS = ("edge_index", "edge_prob", "batch", "names")


@dataclass(frozen=True)
class PredictedEdges:
    """The predicted edges of one graph: the names of their ends and their probabilities ``[m]``.

    ``numbered``: the names are the numbers of the nodes, whatever the nodes are called. ``kinds`` are the types and
    weights of the edges ``[m]`` and the types of the nodes ``[n]``, as attributes of a graph, with the words for types.
    """

    path: Path
    ends: Sequence[tuple[str, str]]
    prob: np.ndarray
    numbered: bool
    directed: bool = False
    kinds: Mapping[str, np.ndarray] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def pairs(self, graph: str, ids: Sequence[str] | None, nodes: int) -> np.ndarray:
        """The ends as numbers ``[m, 2]`` of the ``nodes`` of ``graph``; ``ids`` are their names.

        If undirected, the smaller comes first.
        """
        names = range(nodes) if ids is None or self.numbered else ids
        number = {str(name): index for index, name in enumerate(names)}
        ends = [end for pair in self.ends for end in pair]
        strange = next((end for end in ends if end not in number), None)
        if strange is not None:
            raise GLNError(
                f"{self.path} has an edge to node {quote(strange)}, which {quote(graph)} does not have; "
                "give the file that these edges were predicted for."
            )
        pairs = np.array([number[end] for end in ends], dtype=np.int64).reshape(-1, 2)
        return pairs if self.directed else np.sort(pairs, axis=1)


def read_predictions(path: Path) -> dict[str, PredictedEdges]:
    """The predicted edges by the name of the graph, from a .csv or .npz of ``gln predict``."""
    try:
        if is_archive(path):
            found = _read_archive(path)
        elif path.suffix.lower() == ".csv":
            found = _read_table(path)
        else:
            raise GLNError("predictions are read from the .csv or .npz that gln predict wrote.")
        if not all(((edges.prob >= 0) & (edges.prob <= 1)).all() for edges in found.values()):
            raise GLNError("there are probabilities outside 0 to 1; expected a file written by gln predict.")
    except GLNError as error:
        raise GLNError(f"{path}: {error}") from None
    return found


def is_archive(path: Path) -> bool:
    """Whether this is an .npz with edge probabilities."""
    return path.suffix.lower() == ".npz" and zipfile.is_zipfile(path) and "edge_prob" in members_of(path)


def is_table(path: Path) -> bool:
    """Whether this is a .csv of predicted edges."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    with _open_table(path) as file:
        return _is_header(file.readline(1000).strip().split(","))


def _is_header(names: Sequence[str]) -> bool:
    return tuple(names[: len(COLUMNS)]) == COLUMNS and set(names[len(COLUMNS) :]) <= set(MORE)


def _open_table(path: Path) -> TextIOWrapper:
    return TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace", newline="")


def _read_table(path: Path) -> dict[str, PredictedEdges]:
    rows: dict[str, list[list[str]]] = {}
    with _open_table(path) as file, decoding("table of edges"):
        table = csv.reader(file)
        header = next(table, [])
        if not _is_header(header):
            raise GLNError(f"expected the columns {', '.join(COLUMNS)}, as gln predict writes them.")
        for cells in table:
            if len(cells) != len(header):
                raise ValueError(f"a row has {len(cells)} cells, expected {len(header)}")
            rows.setdefault(plain(cells[0]), []).append(cells[1:])
        return {graph: _of_rows(path, header[1:], edges) for graph, edges in rows.items()}


def _of_rows(path: Path, header: list[str], rows: list[list[str]]) -> PredictedEdges:
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    ends = [
        (plain(source), plain(target))
        for source, target in zip(*(columns[end] for end in header[:2]), strict=True)
    ]
    kinds: dict[str, np.ndarray] = {}
    names: dict[str, tuple[str, ...]] = {}
    if "type" in columns:
        kinds["edge_type"], words = as_types(
            "type", [plain(cell) for cell in columns["type"]], "edge {}".format
        )
        names |= {} if words is None else {"edge_type_names": words}
    if "weight" in columns:
        kinds["edge_weight"] = as_weights(columns["weight"], "edge {}".format)
    prob = np.array(columns["probability"], np.float32)
    return PredictedEdges(path, ends, prob, False, "direction" in columns, kinds, names)


def _read_archive(path: Path) -> dict[str, PredictedEdges]:
    arrays = load_archive(path, (*ARRAYS, *KINDS, *NAMES, "directed"))
    with decoding("npz archive"):
        edges, prob, batch = (arrays[name] for name in ARRAYS[:3])
        names = arrays["names"].tolist() if "names" in arrays else np.unique(batch).tolist()
        words = {name: tuple(map(str, arrays[name])) for name in NAMES if name in arrays}
        directed = "directed" in arrays and bool(arrays["directed"].any())
        once = edges[0] != edges[1] if directed else edges[0] < edges[1]
        of_edges = {name: arrays[name][once] for name in KINDS[:2] if name in arrays}
        of_nodes = {name: arrays[name] for name in KINDS[2:] if name in arrays}
        edges, prob = edges[:, once], prob[once].astype(np.float32)
        graph = batch[edges[0]]  # of each edge
        order, numbers = graph.argsort(kind="stable"), np.arange(len(names) + 1)
        pairs = edges - np.searchsorted(batch, graph)  # counted from the first node of the graph
        cuts = np.searchsorted(graph[order], numbers).tolist()
        ends = [(str(a), str(b)) for a, b in pairs.T[order].tolist()]
        found = {}
        for number, (name, start, end) in enumerate(zip(names, cuts, cuts[1:], strict=False)):
            mine = order[start:end]
            kinds: dict[str, np.ndarray] = {kind: each[mine] for kind, each in of_edges.items()}
            kinds |= {kind: each[batch == number] for kind, each in of_nodes.items()}
            found[str(name)] = PredictedEdges(path, ends[start:end], prob[mine], True, directed, kinds, words)
        return found
