"""NumPy files. Headers are checked against the bytes that follow before an array is made; nothing is unpickled."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from gln.errors import GLNError, quote
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
        yield _attempt(source, number, pos=rows)


def read_npz(source: Source) -> Iterator[Item | Skipped]:
    """Read ``pos`` and/or ``x`` and, if present, ``edge_index`` or ``edges``, their kinds, and ``batch``."""
    members = members_of(source.path)
    names = {name: name for name in WANTED if name in members}
    if not names and len(members) == 1:
        names = {"pos": next(iter(members))}
        source.say(f"pos = {quote(names['pos'])}")
    arrays, predicted = load_archive(source.path, names), "edge_prob" in members
    rows: dict[str, Any] = {name: arrays[name] for name in ROWS if name in arrays}
    if not rows:
        raise GLNError("the archive has neither pos nor x; save the nodes under one of these names.")
    edges = _pairs(arrays)
    given = source.options
    of_nodes = _values(source.path, members, (*OF_NODES, given.node_types), next(iter(rows.values())))
    of_edges = (
        {} if edges is None else _values(source.path, members, (*OF_EDGES, given.types, given.weights), edges)
    )
    directed = bool(arrays["directed"].any()) if "directed" in arrays else None
    if "batch" not in arrays:
        listed = None if edges is None else FileEdges(edges, of_edges, directed)
        yield source.item(**rows, edges=listed, predicted=predicted, of_nodes=of_nodes)
        return
    batch = arrays["batch"]
    for name, value in rows.items():
        if batch.ndim != 1 or value.ndim != 2 or len(value) != len(batch):
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
    inner = np.flatnonzero(batch[1:] != batch[:-1]) + 1
    ends = np.concatenate([[0], inner, [len(batch)]])
    own = None if edges is None else _edges_of_each(edges, ends)
    for number, (start, end) in enumerate(pairwise(ends.tolist())):
        nodes = {name: value[start:end] for name, value in rows.items()}
        listed = None
        if edges is not None and own is not None:
            mine = own[number]
            listed = FileEdges(
                edges[mine] - start, {name: _part(each, mine) for name, each in of_edges.items()}, directed
            )
        labels = {name: _part(each, np.arange(start, end)) for name, each in of_nodes.items()}
        yield _attempt(source, int(batch[start]), **nodes, edges=listed, predicted=predicted, of_nodes=labels)


def _values(
    path: Path, members: Collection[str], wanted: Sequence[str | None], of: np.ndarray
) -> dict[str, Values]:
    """Those of the ``wanted`` arrays that an archive has, one value for each of ``of``, with the words for numbers."""
    found: dict[str, Values] = {}
    for name in [name for name in dict.fromkeys(wanted) if name is not None and name in members]:
        words = f"{name}_names"
        arrays = load_archive(path, {each: each for each in (name, words) if each in members}, f"{NUMBERS}U")
        values = found[name] = arrays[name]
        if values.shape != of.shape[:1]:
            raise GLNError(
                f"{name} has shape {list(values.shape)}; expected one value for each: {list(of.shape[:1])}."
            )
        if words in arrays:
            names = tuple(str(word) for word in arrays[words].ravel())
            outside = values.dtype.kind not in "iu" or ((values < 0) | (values >= len(names))).any()
            if outside:
                raise GLNError(
                    f"{name} holds something else than the numbers of its {len(names)} {words}, from 0."
                )
            found[name] = Numbered(values.astype(np.int64), names)
    return found


def _part(values: Values, places: np.ndarray) -> Values:
    """What is at ``places``."""
    if isinstance(values, Numbered):
        return Numbered(values.numbers[places], values.names)
    return np.asarray(values)[places]


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


def _attempt(source: Source, number: int, **values: Any) -> Item | Skipped:
    try:
        return source.item(part=number, **values)
    except GLNError as error:
        return source.skip(error, number)


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


def load_archive(path: Path, names: Mapping[str, str], kinds: str = NUMBERS) -> dict[str, np.ndarray]:
    """The arrays ``names`` (in the archive by the names they are given) of these kinds of numbers or text."""
    members, size = members_of(path), path.stat().st_size
    unpacked = sum(members[name].file_size for name in names.values())
    if unpacked > max(MAX_BYTES, UNPACKED * size):
        raise GLNError(
            f"the archive would unpack from {size:,} to {unpacked:,} bytes; save it with np.savez."
        )
    with decoding("npz archive"), zipfile.ZipFile(path) as archive:
        return {name: _array(name, _unpack(archive, members[known]), kinds) for name, known in names.items()}


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise GLNError("the archive uses a compression that NumPy does not; save it with np.savez.")
    with archive.open(member) as file:
        return file.read(member.file_size)  # no more than it claims, whatever it holds


def _array(name: str, data: bytes, kinds: str) -> np.ndarray:
    """The array of an npy file in memory, read-only."""
    file = io.BytesIO(data)
    try:
        dtype, shape, fortran = npy_header(file, len(data), kinds)
    except GLNError as error:
        raise GLNError(f"{name}: {error}") from None
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order="F" if fortran else "C")


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
