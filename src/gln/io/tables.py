"""CSV tables of nodes, one per row; a second table beside it may hold the true edges."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from gln.errors import GLNError
from gln.io.columns import Roles, choose_ends, choose_roles
from gln.io.csvfile import BrokenTable, CSVFile, Row, is_number
from gln.io.edge_tables import EdgeTable
from gln.io.items import Item, ReadOptions, Skipped, Source, quote


def read_table(source: Source) -> Iterator[Item | Skipped]:
    """Read one graph or, with a graph column, one after another; only one is held at a time."""
    table = CSVFile.open(source.path)
    given = source.options
    if given.pos is None and given.x is None and table.named and choose_ends(table.columns, table.named):
        raise GLNError(
            "this is a table of edges (source, target); give the node table, and this one with --edges (edges=)."
        )
    if next(table.rows(), None) is None:
        raise GLNError("there are no rows below the header.")
    roles = choose_roles(table.columns, table.numeric(), given, table.named)
    edges = _open_edges(source)
    header = "" if table.named else "no header, so row 1 is a node; "
    source.say(f"{header}{roles}{f'; edges from {source.beside(edges.path)}' if edges else ''}")
    if roles.graph is not None:  # before a graph is yielded: half of one would pass for the whole
        with suppress(BrokenTable):  # which is reported once it is reached
            table.places(roles.graph)
    for part, rows in groupby(table.rows(), table.key(roles.graph)):
        if edges is not None:
            edges.expect(part, source.named(part if roles.graph else None))
            if roles.graph is None:  # the whole table is this graph: check before it is yielded without edges
                edges.check_expected(all_of_them=given.edges is None)
        try:
            item = _read_graph(source, table, roles, rows, part if roles.graph else None, edges)
        except GLNError as error:
            if roles.graph is None or isinstance(error, BrokenTable):
                raise
            yield source.skip(error, part)
        else:
            yield item
    if edges is not None:
        edges.check_expected(all_of_them=given.edges is None)


def edges_of(path: Path, options: ReadOptions) -> Path | None:
    """The edge table of a node table: the one given, or NAME.edges.csv or edges.csv beside it."""
    if options.edges is not None:
        return options.edges
    for name in (f"{path.stem}.edges{path.suffix}", f"edges{path.suffix}"):
        beside = path.with_name(name)
        if beside != path and not path.stem.endswith(".edges") and beside.is_file():
            return beside
    return None


def _open_edges(source: Source) -> EdgeTable | None:
    path, given = edges_of(source.path, source.options), source.options.edges is not None
    if path is None:
        return None
    if path not in source.memo:
        source.memo.clear()
        try:
            source.memo[path] = EdgeTable(path, source.options.graph)
        except GLNError as error:
            raise GLNError(f"{path.name}: {error}") from None
    table: EdgeTable = source.memo[path]
    if not given and "probability" in table.file.columns:
        source.say(
            f"{source.beside(path)} holds predictions, not the truth, and is not used; "
            "name it with --edges (edges=) to use it"
        )
        return None
    return table


def _read_graph(
    source: Source,
    table: CSVFile,
    roles: Roles,
    rows: Iterator[Row],
    part: str | None,
    edges: EdgeTable | None,
) -> Item:
    data, ids = _read_rows(source, table, roles, rows)
    pairs = None
    if edges is not None:
        names = map(str, range(len(data))) if ids is None else ids
        pairs = edges.pairs((part, source.named(part)), {name: number for number, name in enumerate(names)})
    pos, x = np.split(data, [len(roles.pos)], axis=1)
    return source.item(pos if roles.pos else None, x if roles.x else None, pairs, part, ids)


def _read_rows(
    source: Source, table: CSVFile, roles: Roles, rows: Iterator[Row]
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """The positions and features ``[n, p + f]`` of the nodes, and their ids if the table has a column of them."""
    used = roles.pos + roles.x
    at = [table.columns.index(name) for name in used]
    pick = itemgetter(*at) if len(at) > 1 else lambda cells: (cells[at[0]],)
    id_at = table.columns.index(roles.id) if roles.id else None
    values, numbers = array("d"), array("q")
    first: dict[str, int] = {}  # the row in which an id first appears
    for place, cells in rows:
        try:
            values.extend(map(float, pick(cells)))
        except ValueError:
            name, text = next((n, t) for n, t in zip(used, pick(cells), strict=True) if not is_number(t))
            raise GLNError(f"row {place.row}: {name} is {quote(text)}; expected a number.") from None
        numbers.append(place.row)
        if len(numbers) > source.options.max_nodes:
            source.check_count(len(numbers))
        if id_at is not None:
            node = cells[id_at].strip()
            if node in first:
                raise GLNError(
                    f"row {place.row}: the node id {quote(node)} was already used in row {first[node]}."
                )
            first[node] = place.row
    data = np.array(values).reshape(len(numbers), len(used))
    if not np.isfinite(data).all():
        row, column = np.argwhere(~np.isfinite(data))[0]
        raise GLNError(
            f"row {numbers[row]}: {used[column]} is {data[row, column]}; remove or repair values that are not finite."
        )
    return data, tuple(first) if id_at is not None else None
