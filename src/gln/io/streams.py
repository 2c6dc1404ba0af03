"""Point clouds as streams: one set of nodes, however large, some rows at a time; and LAS/LAZ files (``gln[las]``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gln.errors import GLNError, needed
from gln.files import open_regular
from gln.io.arrays import NUMBERS, npy_header
from gln.io.items import Item, ReadOptions, Source, decoding
from gln.io.parquet import AT_ONCE, Rows, finite, matrix

PACKED = 4  # points for each byte of a LAZ file, at the very most

Chunks = Iterator[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Stream:
    """``count`` nodes with ``widths`` of positions and features; ``chunks()`` gives both for some rows at a time."""

    count: int
    widths: tuple[int, int]
    chunks: Callable[[], Chunks]


def open_stream(path: Path, options: ReadOptions, say: Callable[[str], None]) -> Stream | None:
    """The nodes of a file that holds one set in rows; ``None`` for all other files."""
    openers = {".npy": _npy, ".las": _las, ".laz": _las} | dict.fromkeys(
        (".parquet", ".arrow", ".feather"), _parquet
    )
    opener = openers.get(path.suffix.lower())
    if opener is None:
        return None
    try:
        return opener(Source(path, path.name, options, lambda text: say(f"{path.name}: {text}")))
    except GLNError as error:
        raise GLNError(f"{path}: {error}") from None


def _npy(source: Source) -> Stream | None:
    with open_regular(source.path) as file:
        dtype, shape, fortran = npy_header(file, os.fstat(file.fileno()).st_size, NUMBERS)
        offset = file.tell()
    if len(shape) != 2 or fortran or 0 in shape:
        return None

    def chunks() -> Chunks:
        for start in range(0, shape[0], AT_ONCE):  # mapped anew, so that pages that were read are given back
            rows = np.memmap(source.path, dtype, "r", offset, shape)[start : start + AT_ONCE]
            single = np.float32 if dtype == np.float32 else np.float64
            yield finite(np.asarray(rows, single), start), rows[:, :0]

    return Stream(shape[0], (shape[1], 0), chunks)


def _parquet(source: Source) -> Stream | None:
    rows = Rows(source.path)
    if rows.lists or not rows.count:
        return None
    roles = rows.roles(source)
    if roles.graph is not None:
        return None

    def chunks() -> Chunks:
        first = 0
        for batch in rows.batches(roles.numbers):
            values = matrix(batch, roles.numbers, first)
            yield values[:, : len(roles.pos)], values[:, len(roles.pos) :]
            first += len(values)

    return Stream(rows.count, (len(roles.pos), len(roles.x)), chunks)


def _las(source: Source) -> Stream | None:
    def chunks() -> Chunks:
        with _open_las(source.path) as file, decoding("LAS or LAZ file"):
            for points in file.chunk_iterator(AT_ONCE):
                rows = np.stack([points.x, points.y, points.z], axis=1).astype(np.float64)
                yield finite(rows, 0), rows[:, :0]

    with _open_las(source.path) as file:
        count = file.header.point_count
    if count > PACKED * source.path.stat().st_size:  # before anybody makes room for them
        raise GLNError(f"the header claims {count:,} points, more than the file can hold.")
    source.say("pos = x, y, z")
    return Stream(count, (3, 0), chunks) if count else None


def read_las(source: Source) -> Iterator[Item]:
    """Read x, y and z of a point cloud; what else it holds is not used."""
    stream = _las(source)
    if stream is None:
        raise GLNError("the file holds no points.")
    source.check_count(stream.count)
    found = [pos for pos, _ in stream.chunks()]
    if sum(map(len, found)) != stream.count:
        raise GLNError(f"the file ends before the {stream.count:,} points that its header claims.")
    yield source.item(pos=np.concatenate(found))


def _open_las(path: Path) -> Any:
    laspy = needed("laspy", "LAS and LAZ files", "las")
    with open_regular(path) as file:
        head, size = file.read(247), path.stat().st_size
        chunks = _chunks(file, head, size)
    # laspy reads as many records as the header claims, whether or not the file has them.
    places = (100, 243) if head[25:26] >= b"\x04" else (100,)  # LAS 1.4 has a second list
    records = sum(int.from_bytes(head[at : at + 4], "little") for at in places)
    with decoding("LAS or LAZ file"):
        if head[:4] != b"LASF" or 54 * records > size or chunks > size:
            raise GLNError("this is not a readable LAS or LAZ file (its header is broken).")
        return laspy.open(_AsLongAsItIs(FileIO(path)), laz_backend=laspy.LazBackend.Lazrs)


def _chunks(file: BinaryIO, head: bytes, size: int) -> int:
    """How many compressed chunks a table in the file claims: its decoder makes room for as many."""
    if not head[104:105] >= b"\x80":  # not compressed
        return 0
    file.seek(min(int.from_bytes(head[96:100], "little"), size))
    table = int.from_bytes(file.read(8), "little", signed=True)
    if table < 0:  # its place was not known when the file was begun, and stands at the end
        file.seek(max(size - 8, 0))
        table = int.from_bytes(file.read(8), "little", signed=True)
    file.seek(min(max(table, 0), size))
    return int.from_bytes(file.read(8)[4:], "little")


class _AsLongAsItIs(BufferedReader):
    """Python makes room for all that is asked for at once, and a broken header asks for more than the file has."""

    def read(self, size: int | None = -1) -> bytes:
        most = os.fstat(self.fileno()).st_size
        return super().read(size if size is None else min(size, most))
