"""Read predicted edges from files written by ``gln predict``, for the graphs they were predicted for."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

import numpy as np

from gln.errors import GLNError, quote
from gln.files import open_regular
from gln.io.arrays import NUMBERS, load_archive, members_of
from gln.io.csvfile import plain
from gln.io.items import decoding

COLUMNS = ("graph", "source", "target", "probability")
ARRAYS = ("edge_index", "edge_prob", "batch", "names")


@dataclass(frozen=True)
class PredictedEdges:
    """The predicted edges of one graph: the names of their ends and their probabilities ``[m]``.

    ``numbered``: the names are the numbers of the nodes, whatever the nodes are called.
    """

    path: Path
    ends: Sequence[tuple[str, str]]
    prob: np.ndarray
    numbered: bool

    def pairs(self, graph: str, ids: Sequence[str] | None, nodes: int) -> np.ndarray:
        """The ends as numbers ``[m, 2]`` of the ``nodes`` of ``graph``, the smaller first; ``ids`` are their names."""
        names = range(nodes) if ids is None or self.numbered else ids
        number = {str(name): index for index, name in enumerate(names)}
        ends = [end for pair in self.ends for end in pair]
        strange = next((end for end in ends if end not in number), None)
        if strange is not None:
            raise GLNError(
                f"{self.path} has an edge to node {quote(strange)}, which {quote(graph)} does not have; "
                "give the file that these edges were predicted for."
            )
        return np.sort(np.array([number[end] for end in ends], dtype=np.int64).reshape(-1, 2), axis=1)


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
        return file.readline(1000).strip().split(",") == list(COLUMNS)


def _open_table(path: Path) -> TextIOWrapper:
    return TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace", newline="")


def _read_table(path: Path) -> dict[str, PredictedEdges]:
    rows: dict[str, list[tuple[str, str, str]]] = {}
    with _open_table(path) as file, decoding("table of edges"):
        table = csv.reader(file)
        if tuple(next(table, ())) != COLUMNS:
            raise GLNError(f"expected the columns {', '.join(COLUMNS)}, as gln predict writes them.")
        for graph, source, target, prob in table:
            rows.setdefault(plain(graph), []).append((plain(source), plain(target), prob))
        return {
            graph: PredictedEdges(
                path, [row[:2] for row in edges], np.array([row[2] for row in edges], np.float32), False
            )
            for graph, edges in rows.items()
        }


def _read_archive(path: Path) -> dict[str, PredictedEdges]:
    there = members_of(path)
    arrays = load_archive(path, {name: name for name in ARRAYS if name in there}, f"{NUMBERS}U")
    with decoding("npz archive"):
        edges, prob, batch = (arrays[name] for name in ARRAYS[:3])
        names = arrays["names"].tolist() if "names" in arrays else np.unique(batch).tolist()
        once = edges[0] < edges[1]
        edges, prob = edges[:, once], prob[once].astype(np.float32)
        graph = batch[edges[0]]  # of each edge
        order, numbers = graph.argsort(kind="stable"), np.arange(len(names) + 1)
        pairs = edges - np.searchsorted(batch, graph)  # counted from the first node of the graph
        cuts = np.searchsorted(graph[order], numbers).tolist()
        ends = [(str(a), str(b)) for a, b in pairs.T[order].tolist()]
        return {
            str(name): PredictedEdges(path, ends[start:end], prob[order[start:end]], True)
            for name, start, end in zip(names, cuts, cuts[1:], strict=False)
        }
