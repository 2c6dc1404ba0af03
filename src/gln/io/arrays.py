"""NumPy files. Headers are checked against the bytes that follow before an array is made; nothing is unpickled."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from gln.errors import GLNError, about, quote
from gln.files import open_regular
from gln.graphs.record import ROWS
from gln.io.file_edges import FileEdges, Numbered, Values, check_numbers
from gln.io.items import MAX_BYTES, Item, Skipped, Source, decoding

WANTED = ("pos", "x", "edge_index", "edges", "batch", "directed")
OF_EDGES, OF_NODES = ("edge_type", "edge_weight"), ("node_type",)  # the usual names
MOST_AXES = 8  # more than anybody has a use for; NumPy ends at 64
NUMBERS = "biuf"  # kinds of dtypes
UNPACKED = 20  # an archive may unpack to this many times its size, or to MAX_BYTES if that is more


def read_npy(source: Source) -> Iterator[Item | Skipped]:
    """Read positions: ``[n, p]`` of one graph, or ``[graphs, n, p]`` of several of the same size."""
    with open_regular(source.path) as file:
        dtype, shape, fortran = npy_header(file, os.fstat(file.fileno()).st_size, NUMBERS)
        offset = file.tell()
    if 0 in shape:
        raise GLNError(f"the array has shape {list(shape)} and holds no nodes.")
    # Mapped, not loaded: of many graphs, only the one being read is in memory.
    points = np.memmap(source.path, dtype, "r", offset, shape, "F" if fortran else "C")
    if len(shape) != 3:
        yield source.item(pos=points)
        return
    for number, rows in enumerate(points):
        yield source.attempt(number, partial(source.item, pos=rows, part=number))


def read_npz(source: Source) -> Iterator[Item | Skipped]:
    """Read ``pos`` and/or ``x`` and, if present, ``edge_index`` or ``edges``, their kinds, and ``batch``.

    Nodes of graphs in a batch need neither.
    """
    given, there = source.options, list(members_of(source.path))
    of_nodes, of_edges = [*OF_NODES, given.node_types], [*OF_EDGES, given.types, given.weights]
    predicted = "edge_prob" in there
    more = ["edge_prob", "names"] if source.chances and predicted else []
    kinds = [name for name in (*of_nodes, *of_edges) if name is not None]
    arrays = load_archive(source.path, [*WANTED, *kinds, *(f"{name}_names" for name in kinds), *more])
    if len(there) == 1 and not arrays:
        source.say(f"pos = {quote(there[0])}")
        arrays = {"pos": load_archive(source.path, there)[there[0]]}
    rows: dict[str, Any] = {name: arrays[name] for name in ROWS if name in arrays}
    for name, values in rows.items():
        if values.dtype.kind not in NUMBERS:
            raise GLNError(f"{name}: the array holds {quote(str(values.dtype))}; expected numbers.")
    edges, batch = _pairs(arrays), arrays.get("batch")
    if not rows and (edges is None or batch is None):  # a batch says how many nodes there are
        raise GLNError("the archive has neither pos nor x; save the nodes under one of these names.")
    nodes_said = _values(arrays, of_nodes, next(iter(rows.values())) if rows else arrays["batch"])
    edges_said = {} if edges is None else _values(arrays, [*of_edges, *more[:1]], edges)
    directed = bool(arrays["directed"].any()) if "directed" in arrays else None
    if batch is None:
        listed = None if edges is None else FileEdges(edges, edges_said, directed)
        yield source.item(**rows, edges=listed, predicted=predicted, of_nodes=nodes_said)
        return
    ends = _ends(batch, rows)
    own = None if edges is None else _edges_of_each(edges, ends)
    for number, (start, end) in enumerate(pairwise(ends.tolist())):
        nodes, listed = np.arange(start, end), None
        if edges is not None and own is not None:
            mine = own[number]
            listed = FileEdges(edges[mine] - start, _parts(edges_said, mine), directed)
        part = str(arrays["names"][number]) if "names" in arrays else int(batch[start])
        fields = {name: value[start:end] for name, value in rows.items()} | {"bare": len(nodes)}
        about: dict[str, Any] = {"part": part, "predicted": predicted, "of_nodes": _parts(nodes_said, nodes)}
        yield source.attempt(part, partial(source.item, edges=listed, **fields, **about))


def _ends(batch: np.ndarray, rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """Where the nodes of each graph begin, and where the last ends, by the number ``batch [n]`` of their graph."""
    if batch.ndim != 1:
        raise GLNError(f"batch has shape {list(batch.shape)}; expected one number per node.")
    for name, value in rows.items():
        if value.ndim != 2 or len(value) != len(batch):
            raise GLNError(
                f"batch has shape {list(batch.shape)} and {name} {list(value.shape)}; expected one number per node."
            )
    if batch.dtype.kind not in "iu":
        raise GLNError(
            f"batch holds {batch.dtype}; expected the number of each node's graph, a whole number."
        )
    if len(batch) == 0 or (batch[1:] < batch[:-1]).any():
        raise GLNError(
            "batch must hold the number of each node's graph, in ascending order; sort the nodes by graph."
        )
    return np.array([0, *np.flatnonzero(batch[1:] != batch[:-1]) + 1, len(batch)])


def _values(
    arrays: Mapping[str, np.ndarray], wanted: Iterable[str | None], of: np.ndarray
) -> dict[str, Values]:
    """Those of the ``wanted`` arrays that are there, one value for each of ``of``, with the words for numbers."""
    found: dict[str, Values] = {}
    for name in [name for name in arrays if name in wanted]:
        values, words = arrays[name], arrays.get(f"{name}_names")
        found[name] = values
        if values.shape != of.shape[:1]:
            raise GLNError(
                f"{name} has shape {list(values.shape)}; expected one value for each: {list(of.shape[:1])}."
            )
        if words is not None:
            names = tuple(map(str, words.ravel()))
            if values.dtype.kind not in "iu" or ((values < 0) | (values >= len(names))).any():
                raise GLNError(
                    f"{name} holds something else than the numbers of its {len(names)} {name}_names, from 0."
                )
            found[name] = Numbered(values.astype(np.int64), names)
    return found


def _parts(said: Mapping[str, Values], places: np.ndarray) -> dict[str, Values]:
    """What is said of those at ``places``."""
    return {
        name: Numbered(each.numbers[places], each.names)
        if isinstance(each, Numbered)
        else np.asarray(each)[places]
        for name, each in said.items()
    }


def _edges_of_each(edges: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """Which of ``edges [m, 2]`` each graph has; the ``g``-th has the nodes ``ends[g]`` to ``ends[g + 1] − 1``."""
    check_numbers(edges, int(ends[-1]), "edge")
    owner = np.searchsorted(ends, edges, side="right") - 1  # [m, 2]
    apart = np.flatnonzero(owner[:, 0] != owner[:, 1])
    if apart.size:
        raise GLNError(
            f"edge {apart[0]} joins nodes {edges[apart[0]].tolist()}, which are in different graphs."
        )
    order = np.argsort(owner[:, 0], kind="stable")
    return np.split(order, np.searchsorted(owner[order, 0], np.arange(1, len(ends) - 1)))


def members_of(path: Path) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by name."""
    with open_regular(path) as file, decoding("npz archive"):
        if not os.fstat(file.fileno()).st_size:
            raise GLNError("the file is empty.")
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    found = {info.filename.removesuffix(".npy"): info for info in members}
    if len(found) < len(members):
        raise GLNError("the archive holds two arrays of one name; save it with np.savez.")
    return found


def load_archive(path: Path, wanted: Iterable[str]) -> dict[str, np.ndarray]:
    """Those of the ``wanted`` arrays, of numbers or text, that an archive has; they are read-only."""
    members, size = members_of(path), path.stat().st_size
    there = [members[name] for name in dict.fromkeys(wanted) if name in members]
    unpacked = sum(member.file_size for member in there)
    if unpacked > max(MAX_BYTES, UNPACKED * size):
        raise GLNError(
            f"the archive would unpack from {size:,} to {unpacked:,} bytes; save it with np.savez."
        )
    found = {}
    with decoding("npz archive"), zipfile.ZipFile(path) as archive:
        for member in there:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise GLNError("the archive uses a compression that NumPy does not; save it with np.savez.")
            with archive.open(member) as packed:
                data = packed.read(member.file_size)  # no more than it claims, whatever it holds
            name, file = member.filename.removesuffix(".npy"), io.BytesIO(data)
            with about(name):
                dtype, shape, fortran = npy_header(file, len(data), f"{NUMBERS}U")
            flat = np.frombuffer(data, dtype, offset=file.tell())
            found[name] = flat.reshape(shape, order="F" if fortran else "C")
    return found


def npy_header(file: BinaryIO, size: int, kinds: str) -> tuple[np.dtype, tuple[int, ...], bool]:
    """Type, shape and order of an npy file of ``size`` bytes; leaves the file where the numbers begin."""
    with decoding("npy array"):
        version = npy.read_magic(file)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        if version not in readers:
            raise GLNError(f"this is version {version} of the npy format; expected 1.0 or 2.0.")
        shape, fortran, dtype = readers[version](file)
    if dtype.kind not in kinds:
        raise GLNError(f"the array holds {quote(str(dtype))}; expected numbers.")
    if len(shape) > MOST_AXES:
        raise GLNError(f"the array has {len(shape)} axes; expected positions [n, p], or [graphs, n, p].")
    follow = size - file.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != follow:
        raise GLNError(
            f"the header claims shape {list(shape)} of {dtype}, which does not match the {follow:,} bytes that follow."
        )
    return dtype, shape, fortran


def _pairs(arrays: dict[str, np.ndarray]) -> np.ndarray | None:
    """The edges ``[m, 2]``, from ``edge_index [2, m]`` or ``edges [m, 2]``."""
    for name, axis in (("edge_index", 0), ("edges", 1)):
        if name in arrays:
            pairs = arrays[name]
            if pairs.ndim != 2 or pairs.shape[axis] != 2 or pairs.dtype.kind not in "iu":
                expected = "[2, m]" if axis == 0 else "[m, 2]"
                raise GLNError(
                    f"{name} has shape {list(pairs.shape)} of {pairs.dtype}; expected whole numbers {expected}."
                )
            return (pairs.T if axis == 0 else pairs).astype(np.int64)
    return None
