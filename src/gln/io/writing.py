"""Writing predicted edges: a table or archive for all graphs, or one file per graph. Whole, or not at all."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.files import Staged, naming
from gln.io.formats import to_graphml, to_obj, to_ply
from gln.io.items import Item

ROWS = 2**16  # of a table, that are written at once


class Writer(Protocol):
    """Takes answers one after another."""

    def add(self, item: Item, answer: Data) -> None:
        """Write the edges of ``answer`` (``edge_index [2, 2m]``, ``edge_prob [2m]``) over the nodes of ``item``."""


@contextmanager
def open_writer(path: Path | str, *, force: bool = False) -> Iterator[Writer]:
    """A writer for ``path``, whose suffix says the format; the file appears when the block ends without an error.

    ``.csv`` has the columns graph, source, target, probability, each undirected edge once, nodes by the user's own ids
    where there are any. ``.npz`` holds all graphs as one PyG batch. ``.graphml``, ``.obj`` and ``.ply`` hold one graph:
    several become NAME-ITEM.ext each. Without ``force`` nothing that exists is replaced.
    """
    path = Path(path)
    if path.suffix.lower() not in WRITERS:
        raise GLNError(f"Got {path.name!r}; edges are written as {', '.join(WRITABLE)}.")
    if not path.parent.is_dir():
        raise GLNError(f"The folder {path.parent} does not exist; make it first.")
    if path.is_dir():
        raise GLNError(f"{path} is a folder; give the name of a file.")
    refuse_existing(path, force)
    with WRITERS[path.suffix.lower()](path, force) as writer:
        yield writer


def refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise GLNError(f"{path} exists; choose another name, or replace it with --force (force=True).")


class TableWriter:
    """Rows go to the disk as they come."""

    def __init__(self, staged: Staged) -> None:
        self.staged = staged
        staged.write(b"graph,source,target,probability\n")

    def add(self, item: Item, answer: Data) -> None:
        pairs, chances = edges_once(answer)
        graph = _cell(item.name)
        names = None if item.ids is None else np.array([_cell(node) for node in item.ids], dtype=object)
        ends = pairs.T if names is None else names[pairs.T]
        for start in range(0, len(pairs), ROWS):
            columns = (column[start : start + ROWS].tolist() for column in (*ends, chances))
            rows = [f"{graph},{a},{b},{chance:.6g}\n" for a, b, chance in zip(*columns, strict=True)]
            self.staged.write("".join(rows).encode())


def _cell(value: str) -> str:
    """``value`` as a cell of a table, in quotes where it needs them."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="").writerow([value, ""])
    return text.getvalue()[:-1]


@contextmanager
def _table(path: Path, force: bool) -> Iterator[TableWriter]:
    with Staged(path) as staged:
        yield TableWriter(staged)
        refuse_existing(path, force)  # what another run has written meanwhile
        staged.keep(path)


class ArchiveWriter:
    """The layout that is read, too: pos, x, edge_index, batch; and edge_prob, and the items' names."""

    def __init__(self) -> None:
        self.rows: dict[str, list[np.ndarray]] = {}
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.nodes = 0
        self.edges: list[np.ndarray] = []
        self.chances: list[np.ndarray] = []

    def add(self, item: Item, answer: Data) -> None:
        rows = {
            name: item.graph[name].numpy(force=True)
            for name in ("pos", "x")
            if item.graph.get(name) is not None
        }
        widths = {name: value.shape[1] for name, value in rows.items()}
        before = {name: values[0].shape[1] for name, values in self.rows.items()}
        if self.names and widths != before:
            raise GLNError(
                f"{item.name} has columns {widths}, {self.names[0]} has {before}; an .npz needs equal ones, use .csv."
            )
        for name, value in rows.items():
            self.rows.setdefault(name, []).append(value)
        self.edges.append(answer.edge_index.numpy(force=True) + self.nodes)
        self.chances.append(answer.edge_prob.numpy(force=True))
        self.names.append(item.name)
        self.sizes.append(answer.num_nodes)
        self.nodes += answer.num_nodes

    def arrays(self) -> dict[str, np.ndarray]:
        sizes = np.array(self.sizes, dtype=np.int64)
        return {
            **{name: np.concatenate(values) for name, values in self.rows.items()},
            "edge_index": np.concatenate([np.empty((2, 0), dtype=np.int64), *self.edges], axis=1),
            "edge_prob": np.concatenate([np.empty(0, dtype=np.float32), *self.chances]),
            "batch": np.repeat(np.arange(len(sizes)), sizes),
            "names": np.array(self.names, dtype=np.str_),
        }


@contextmanager
def _archive(path: Path, force: bool) -> Iterator[ArchiveWriter]:
    with Staged(path) as staged:  # at once, so that a folder that cannot be written is found before any work
        writer = ArchiveWriter()
        yield writer
        with naming(path):
            np.savez(staged.file, allow_pickle=False, **writer.arrays())
        refuse_existing(path, force)
        staged.keep(path)


Encode = Callable[[Item, np.ndarray, np.ndarray], bytes]


class FilesWriter:
    """A file for each graph, all of them moved into place at the end."""

    def __init__(self, path: Path, force: bool, encode: Encode) -> None:
        self.path, self.force, self.encode = path, force, encode
        self.staged: dict[str, Staged] = {}  # by the item's name, made fit for a file

    def add(self, item: Item, answer: Data) -> None:
        data = self.encode(item, *edges_once(answer))
        name = slug = re.sub(r"[^\w.-]+", "-", item.name)[:100]
        number = 1
        while name in self.staged:
            number += 1
            name = f"{slug}-{number}"
        self.staged[name] = staged = Staged(self.path)
        staged.write(data)
        staged.close()
        if len(self.staged) > 1:
            refuse_existing(self.target(name), self.force)

    def target(self, name: str) -> Path:
        """Where a file goes: a single one to the path itself."""
        if len(self.staged) == 1:
            return self.path
        return self.path.with_name(f"{self.path.stem}-{name}{self.path.suffix}")

    def finish(self) -> None:
        for name in self.staged:
            refuse_existing(self.target(name), self.force)
        for name, staged in self.staged.items():
            staged.keep(self.target(name))


@contextmanager
def _files(path: Path, force: bool, encode: Encode) -> Iterator[FilesWriter]:
    Staged(path).drop()  # a folder that cannot be written is found before any work
    writer = FilesWriter(path, force, encode)
    try:
        yield writer
        writer.finish()
    finally:
        for staged in writer.staged.values():
            staged.drop()


def edges_once(answer: Data) -> tuple[np.ndarray, np.ndarray]:
    """Every undirected edge ``[m, 2]`` once, smaller number first, and its probability ``[m]``."""
    edge_index = answer.edge_index.numpy(force=True)
    once = edge_index[0] < edge_index[1]
    return edge_index[:, once].T, answer.edge_prob.numpy(force=True)[once]


WRITERS: dict[str, Callable[[Path, bool], AbstractContextManager[Writer]]] = {
    ".csv": _table,
    ".npz": _archive,
    ".graphml": partial(_files, encode=to_graphml),
    ".obj": partial(_files, encode=to_obj),
    ".ply": partial(_files, encode=to_ply),
}
WRITABLE = tuple(WRITERS)
