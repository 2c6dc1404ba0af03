"""Files of rows that are read some at a time: Parquet and Arrow (``gln[arrow]``), and LAS and LAZ (``gln[las]``).

In a Parquet or Arrow file of nodes there are

==============  =====================================================================================
one set         a row per node, columns as in a table
several         the same with a column ``set`` (or ``graph``, ``frame``) that names the set of a node
lists           a row per set; what is of its nodes are lists: ``x``, ``y``, or ``pos`` as lists of rows
==============  =====================================================================================

One set, however large, is a stream.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedReader, FileIO
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gln.errors import GLNError, about, needed, quote
from gln.files import open_regular
from gln.graphs.columns import GRAPHS, first_of
from gln.io.arrays import NUMBERS, npy_header
from gln.io.items import Item, ReadOptions, Skipped, Source, decoding
from gln.io.tables import ColumnRoles, choose_ends, choose_roles

SETS = ("set", "set_id", *GRAPHS)  # names of the column that says to which set a node belongs
AT_ONCE = 2**20  # rows read at a time
LISTS_AT_ONCE = 2**12
WHOLE = ("pos", "positions", "points"), ("x", "features")  # list columns of whole rows


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow, or a sentence that says how to get it."""
    return needed(module, "Parquet and Arrow files", "arrow")


def is_list(kind: Any) -> bool:
    """Whether a column of this type holds lists."""
    types = arrow().types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


class Rows:
    """The columns of a file, read some rows at a time."""

    def __init__(self, path: Path) -> None:
        pa, pq = arrow(), arrow("pyarrow.parquet")
        open_regular(path).close()
        self.parquet = path.suffix.lower() == ".parquet"
        with decoding("Parquet file" if self.parquet else "Arrow file"):
            if self.parquet:
                self.file = pq.ParquetFile(path, memory_map=True)
                self.schema, self.count = self.file.schema_arrow, self.file.metadata.num_rows
            else:
                self.table = arrow("pyarrow.feather").read_table(path, memory_map=True)
                self.schema, self.count = self.table.schema, self.table.num_rows
            names = self.schema.names  # decoded here
        types = dict(zip(names, self.schema.types, strict=True))
        if len(types) < len(names):
            raise GLNError("two columns have the same name; rename one of them.")
        self.lists = [name for name, kind in types.items() if is_list(kind)]
        is_number = [pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal]
        self.numeric = [name for name, kind in types.items() if any(test(kind) for test in is_number)]
        self.names = list(types)

    def batches(self, columns: Sequence[str], size: int = AT_ONCE) -> Iterator[Any]:
        """Record batches of these columns."""
        with decoding("Parquet file" if self.parquet else "Arrow file"):
            if self.parquet:
                yield from self.file.iter_batches(size, columns=list(columns))
            else:
                yield from self.table.select(list(columns)).to_batches(size)

    def roles(self, source: Source) -> ColumnRoles:
        """The columns of positions, features, set and id; those that were not named are guessed, and said."""
        options = source.options
        options = replace(options, graph=options.graph or first_of(SETS, self.names))
        if options.pos is None and options.x is None and choose_ends(self.names, True):
            raise GLNError("this is a table of edges (source, target); give the table of the nodes.")
        roles = choose_roles(self.names, self.numeric, options)
        source.say(str(roles))
        return roles


def matrix(batch: Any, columns: Sequence[str], first: int = 0) -> np.ndarray:
    """The columns of a batch ``[m, c]`` in float64, or float32 if all are; refuses what is no finite number."""
    values = []
    for name in columns:
        with decoding("column of numbers"):
            column = batch.column(name)
        if column.null_count:
            row = int(np.flatnonzero(np.asarray(column.is_null()))[0]) + first
            raise GLNError(f"row {row} (counted from 0): {name} is empty; remove or repair such rows.")
        with decoding("column of numbers"):
            values.append(np.asarray(column.to_numpy(zero_copy_only=False)))
    single = all(value.dtype == np.float32 for value in values)
    rows = np.stack([value.astype(np.float32 if single else np.float64) for value in values], axis=1)
    return finite(rows, first, columns)


def finite(rows: np.ndarray, first: int, columns: Sequence[str] | None = None) -> np.ndarray:
    """``rows``, of which the first has the number ``first``, or an error that names what is not finite."""
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        name = f"column {column}" if columns is None else columns[column]
        raise GLNError(
            f"row {row + first} (counted from 0): {name} is {rows[row, column]}; remove or repair values that are not "
            "finite."
        )
    return rows


def read_parquet(source: Source) -> Iterator[Item | Skipped]:
    """Read one set or, with a column for it or lists, one after another; few are held at a time."""
    rows = Rows(source.path)
    if not rows.count:
        raise GLNError("the file has no rows.")
    if rows.lists:
        lists, number = ListRoles(rows.names, rows.lists, source.options), 0
        source.say(str(lists))
        for batch in rows.batches(lists.columns, LISTS_AT_ONCE):
            yield from lists.read(batch, source, number)
            number += batch.num_rows
        return
    roles = rows.roles(source)
    for part, batch, first in _sets(rows, roles, source):
        yield source.attempt(part, partial(_read_set, source, roles, batch, first, part))


def _read_set(source: Source, roles: ColumnRoles, batch: Any, first: int, part: str | None) -> Item:
    words = {name: _words(batch, name) for name in (roles.id, roles.group, roles.type) if name}
    ids = words.get(roles.id or "", [])
    if len(set(ids)) < len(ids):
        twice = Counter(ids).most_common(1)[0][0]
        raise GLNError(f"the node id {quote(twice)} is used twice.")
    return roles.item(source, matrix(batch, roles.numbers, first), words, part)


def _sets(rows: Rows, roles: ColumnRoles, source: Source) -> Iterator[tuple[str | None, Any, int]]:
    """Every set: its name, its rows as one batch, and the number of its first row."""
    named = (*roles.numbers, roles.id, roles.group, roles.type, roles.graph)
    batches = rows.batches(list(dict.fromkeys(name for name in named if name)))
    if roles.graph is None:
        source.check_count(rows.count)
        yield None, _joined(batches), 0
        return
    first, seen = 0, set()
    for name, runs in groupby(_runs(batches, roles.graph), itemgetter(0)):
        if name in seen:
            raise GLNError(
                f"row {first} (counted from 0): the set {quote(name)} begins again; sort the rows by {roles.graph}."
            )
        seen.add(name)
        batch = _joined(run for _, run in runs)
        yield name, batch, first
        first += batch.num_rows


def _runs(batches: Iterable[Any], column: str) -> Iterator[tuple[str, Any]]:
    """Rows that follow each other with one name in ``column``, and that name; those of a set may be in two batches."""
    for batch in batches:
        names = np.array(_words(batch, column))
        cuts = np.unique([0, *np.flatnonzero(names[1:] != names[:-1]) + 1, len(names)])
        for start, end in pairwise(cuts.tolist()):
            yield str(names[start]), batch.slice(start, end - start)


def _joined(batches: Iterable[Any]) -> Any:
    batches = list(batches)
    if not batches:
        raise GLNError("the file has no rows, although it says that it has.")
    return arrow().Table.from_batches(batches).combine_chunks().to_batches()[0]


def _words(batch: Any, name: str) -> list[str]:
    column = batch.column(name)
    if column.null_count:
        raise GLNError(f"the column {quote(name)} has rows without a value; fill them.")
    return list(map(str, column.to_pylist()))


class ListRoles:
    """What the list columns of a table with a set per row stand for: coordinates, or whole rows, and edges."""

    def __init__(self, names: Sequence[str], lists: Sequence[str], options: ReadOptions) -> None:
        self.ends = choose_ends(lists, True) or ()
        self.key = options.graph or first_of(SETS, [name for name in names if name not in lists])
        self.predicted = "probability" in lists
        free = [name for name in lists if name not in self.ends and name != "probability"]
        whole = None if options.pos is not None else first_of(WHOLE[0], free)
        if whole is not None:
            features = None if options.x is not None else first_of(WHOLE[1], free)
            options = replace(options, pos=(whole,), x=(features,) if features else ())
        roles = choose_roles(free, free, replace(options, graph=None, id=None, group=None))
        self.pos, self.x = roles.pos, roles.x
        self.columns = [*self.pos, *self.x, *self.ends, *([self.key] if self.key else [])]

    def __str__(self) -> str:
        said = {"pos": self.pos, "x": self.x, "set": (self.key,) if self.key else (), "edges": self.ends}
        words = (f"{what} = {', '.join(some)}" for what, some in said.items() if some)
        return f"a set per row: {'; '.join(words)}"

    def read(self, batch: Any, source: Source, number: int = 0) -> Iterator[Item | Skipped]:
        """The set of every row; they are called by their key, or counted from ``number``."""
        names: Sequence[Any] = _words(batch, self.key) if self.key else range(number, number + batch.num_rows)
        for row, name in enumerate(names):
            yield source.attempt(name, partial(self._read_row, batch, row, source, name))

    def _read_row(self, batch: Any, row: int, source: Source, name: Any) -> Item:
        pos, x, edges = (_stacked(batch, some, row) for some in (self.pos, self.x, self.ends))
        edges = None if edges is None else edges.astype(np.int64).reshape(-1, 2)
        return source.item(pos, x, edges, name, predicted=self.predicted)


def _stacked(batch: Any, columns: Sequence[str], row: int) -> np.ndarray | None:
    """The values ``[n, c]`` that lists hold in one row: a list per column, or one list of rows."""
    if not columns:
        return None
    values = [batch.column(name)[row].as_py() for name in columns]
    with decoding("list of numbers"):
        found = np.array(values, dtype=np.float64)
        found = found[0] if found.ndim == 3 else found.T
    if found.ndim != 2 or not np.isfinite(found).all():
        raise GLNError(f"{', '.join(columns)} must be lists of equally many finite numbers.")
    return found


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
    with about(path):
        return opener(Source(path, path.name, options, say))


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
