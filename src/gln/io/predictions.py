"""Read predicted edges from files written by ``gln predict``, for the graphs they were predicted for."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gln.errors import GLNError
from gln.io.items import MAX_BYTES, decoding, quote
from gln.viewing.views import Seen, View

COLUMNS = ("graph", "source", "target", "probability")
ARRAYS = ("edge_index", "edge_prob", "batch", "names")


@dataclass(frozen=True)
class Predicted:
    """The edges of one graph: the names of their ends and their probabilities; ``numbered``: names are numbers."""

    ends: Sequence[tuple[str, str]]
    chances: np.ndarray
    numbered: bool


def add_predictions(views: Sequence[View], path: Path) -> list[View]:
    """The views with their edges, found by name in ``path``, a .csv or .npz from ``gln predict``."""
    found = read_predictions(path)
    if len(views) == len(found) == 1:
        return [replace(views[0], seen=seen_in(views[0], next(iter(found.values())), path))]
    strange = next((view.name for view in views if view.name not in found), None)
    if strange is not None:
        raise GLNError(
            f"{path} holds no graph {quote(strange)}, but {', '.join(map(quote, list(found)[:3]))}; "
            "give the files as they were given to gln predict."
        )
    return [replace(view, seen=seen_in(view, found[view.name], path)) for view in views]


def read_predictions(path: Path) -> dict[str, Predicted]:
    """The predicted edges by the name of the graph."""
    try:
        if is_archive(path):
            return _read_archive(path)
        if path.suffix.lower() == ".csv":
            return _read_table(path)
    except GLNError as error:
        raise GLNError(f"{path}: {error}") from None
    raise GLNError(f"Got {path.name!r}; predictions are read from the .csv or .npz that gln predict wrote.")


def is_archive(path: Path) -> bool:
    """Whether this is an .npz with edge probabilities."""
    return path.suffix.lower() == ".npz" and zipfile.is_zipfile(path) and "edge_prob" in _members(path)


def is_table(path: Path) -> bool:
    """Whether this is a .csv of predicted edges."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline(1000).strip().split(",") == list(COLUMNS)


def _read_table(path: Path) -> dict[str, Predicted]:
    rows: dict[str, list[tuple[str, str, str]]] = {}
    with path.open(newline="", encoding="utf-8", errors="replace") as file, decoding("table of edges"):
        table = csv.reader(file)
        if tuple(next(table, ())) != COLUMNS:
            raise GLNError(f"expected the columns {', '.join(COLUMNS)}, as gln predict writes them.")
        for graph, source, target, chance in table:
            rows.setdefault(graph, []).append((source, target, chance))
        return {
            graph: Predicted(
                [row[:2] for row in edges], np.array([row[2] for row in edges], np.float32), False
            )
            for graph, edges in rows.items()
        }


def _read_archive(path: Path) -> dict[str, Predicted]:
    sizes = _members(path)
    wanted = [name for name in ARRAYS if name in sizes]
    if sum(sizes[name] for name in wanted) > max(MAX_BYTES, 20 * path.stat().st_size):
        raise GLNError("the archive would unpack to far more than its size.")
    with decoding("npz archive"), np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in wanted}
        edges, chances, batch = (arrays[name] for name in ARRAYS[:3])
        names = arrays["names"].tolist() if "names" in arrays else list(map(str, np.unique(batch)))
        found = {}
        for number, name in enumerate(names):
            first = int(np.searchsorted(batch, number))
            own = (batch[edges[0]] == number) & (edges[0] < edges[1])
            pairs = (edges[:, own] - first).T
            found[str(name)] = Predicted([(str(a), str(b)) for a, b in pairs.tolist()], chances[own], True)
        return found


def _members(path: Path) -> dict[str, int]:
    with path.open("rb") as file, decoding("npz archive"), zipfile.ZipFile(file) as archive:
        return {info.filename.removesuffix(".npy"): info.file_size for info in archive.infolist()}


def seen_in(view: View, predicted: Predicted, path: Path) -> Seen:
    """The edges of ``predicted`` over the nodes of ``view``."""
    labels = view.labels if view.labels is not None and not predicted.numbered else None
    number = {str(name): index for index, name in enumerate(labels or range(view.graph.num_nodes))}
    ends = [end for pair in predicted.ends for end in pair]
    strange = next((end for end in ends if end not in number), None)
    if strange is not None:
        raise GLNError(
            f"{path} has an edge to node {quote(strange)}, which {quote(view.name)} does not have; "
            "give the file that these edges were predicted for."
        )
    pairs = np.sort(np.array([number[end] for end in ends], dtype=np.int64).reshape(-1, 2), axis=1)
    chances = predicted.chances.astype(np.float32)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise GLNError(f"{path} holds probabilities outside 0 to 1; expected a file written by gln predict.")
    # The file does not store its threshold, but holds nothing below it.
    least = max(float(np.floor(chances.min(initial=1) * 100) / 100), 0.01)
    return Seen(pairs, chances[None], least, least)
