"""CSV tables of nodes, one per row, and what their columns mean; a second table beside it may hold the true edges."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError, about, quote
from gln.graphs.check import check_graph
from gln.graphs.columns import GRAPHS, IDS, first_of, guess_positions
from gln.graphs.record import Graph
from gln.io.csvfile import BrokenTable, CSVFile, Row, plain, reads_as_number
from gln.io.file_edges import WEIGHTS, FileEdges
from gln.io.items import Item, ReadOptions, Skipped, Source, as_tensors, numbers_of

SHOWN = 20  # names in a message
ENDS = (("source", "target"), ("from", "to"), ("src", "dst"))


@dataclass(frozen=True)
class ColumnRoles:
    """The columns of the positions, the features, the graph and the node's id."""

    pos: tuple[str, ...]
    x: tuple[str, ...]
    graph: str | None
    id: str | None
    group: str | None
    type: str | None
    unused: tuple[str, ...]

    def __str__(self) -> str:
        lists = (("pos", self.pos), ("x", self.x))
        single = (("graph", self.graph), ("id", self.id), ("group", self.group), ("node type", self.type))
        parts = [f"{name} = {_first_few(columns)}" for name, columns in lists if columns]
        parts += [f"{name} = {column}" for name, column in single if column]
        parts += [f"not used: {_first_few(self.unused)}"] if self.unused else []
        return "; ".join(parts)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers: positions, then features."""
        return self.pos + self.x

    def item(
        self,
        source: Source,
        values: np.ndarray,
        words: Mapping[str, Sequence[str]],
        part: str | None,
        edges: FileEdges | None = None,
    ) -> Item:
        """The item of nodes with these ``numbers [n, c]``, and the words of the other columns by name."""
        pos, x = np.split(values, [len(self.pos)], axis=1)
        of_nodes = {self.type: words[self.type]} if self.type else None
        ids, groups = words.get(self.id or ""), words.get(self.group or "")
        return source.item(pos, x, edges, part, ids, groups=groups, of_nodes=of_nodes)


def choose_roles(
    names: Sequence[str], numeric: Iterable[str], options: ReadOptions, named: bool = True
) -> ColumnRoles:
    """The roles that the user gave, and guesses for the rest, by the ``names`` of all columns and of ``numeric`` ones.

    Unless the file itself has ``named`` its columns, all numbers are positions.
    """
    graph, node, group, label = options.graph, options.id, options.group, options.node_types
    if options.kinds_if_there and label not in names:
        label = None
    for name in (graph, node, group, label, *(options.pos or ()), *(options.x or ())):
        if name is not None and name not in names:
            there = _first_few(list(map(quote, names)))
            raise GLNError(f"there is no column or attribute {quote(name)}; there are {there}.")
    if not names:
        raise GLNError("its nodes have no attributes; give them positions or features.")
    if named:
        graph, node = graph or first_of(GRAPHS, names), node or first_of(IDS, names)
    numbers, taken = set(numeric), {graph, node, group, label, *(options.x or ())}
    free = [name for name in names if name in numbers and name not in taken]
    pos = options.pos
    if pos is None:
        pos = guess_positions([name for name in names if name not in taken]) if named else tuple(free)
        if numbers.isdisjoint(pos):  # otherwise text among positions is a mistake, reported when it is read
            pos = guess_positions(free)
    used: set[str | None] = {*pos}
    x = tuple(name for name in free if name not in used) if options.x is None else options.x
    if not pos and not x:
        raise GLNError(
            f"no numeric positions or features were found among {_first_few(list(map(quote, names)))}; name them with "
            "pos and x."
        )
    used |= {graph, node, group, label, *x}
    return ColumnRoles(pos, x, graph, node, group, label, tuple(name for name in names if name not in used))


def choose_ends(names: Sequence[str], named: bool) -> tuple[str, str] | None:
    """The columns of an edge's two nodes, or ``None``."""
    if not named:
        return (names[0], names[1]) if len(names) == 2 else None
    for ends in ENDS:
        source, target = (first_of((end,), names) for end in ends)
        if source and target:
            return source, target
    return None


def _first_few(words: Sequence[str]) -> str:
    """The first words, and how many follow."""
    more = len(words) - SHOWN
    return ", ".join(words[:SHOWN]) + (f" and {more} more" if more > 0 else "")


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
    parts = None
    with suppress(BrokenTable):  # which is reported once it is reached
        # Before a graph is yielded: half of one would pass for the whole.
        parts = [""] if roles.graph is None else list(table.places(roles.graph))
    if edges is not None and parts is not None:
        names = {name for part in parts for name in (part, source.named(part if roles.graph else None))}
        edges.expect(names, all_of_them=given.edges is None)
    for part, rows in groupby(table.rows(), table.key(roles.graph)):
        name = part if roles.graph else None
        yield source.attempt(name, partial(_read_graph, source, table, roles, rows, name, edges))


def edges_of(path: Path, options: ReadOptions) -> Path | None:
    """The edge table of a node table: the one given, or NAME.edges.csv, NAME.edgelist or edges.csv beside it."""
    if options.edges is not None:
        return options.edges
    lists = (f"{path.stem}.edges", f"{path.stem}.edgelist")
    for name in (f"{path.stem}.edges{path.suffix}", *lists, f"edges{path.suffix}"):
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
        source.memo[path] = EdgeTable(path, source.options)
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
    roles: ColumnRoles,
    rows: Iterator[Row],
    part: str | None,
    edges: EdgeTable | None,
) -> Item:
    """One graph: the numbers of its rows, and the ids, groups and types of its nodes if there are any."""
    used = [table.at[name] for name in roles.numbers]
    words: dict[str, list[str]] = {name: [] for name in (roles.id, roles.group, roles.type) if name}
    more = [(each, table.at[name]) for name, each in words.items()]
    values, numbers = array("d"), array("q")
    first: dict[str, int] = {}  # the row in which an id first appears
    for place, cells in rows:
        picked = [cells[at] for at in used]
        try:
            if "_" in "".join(picked):  # Python takes 1_0 for ten
                raise ValueError
            values.extend(map(float, picked))
        except ValueError:
            name, text = next(
                pair for pair in zip(roles.numbers, picked, strict=True) if not reads_as_number(pair[1])
            )
            raise GLNError(f"row {place.row}: {name} is {quote(text)}; expected a number.") from None
        numbers.append(place.row)
        if len(numbers) > source.options.max_nodes:
            source.check_count(len(numbers))
        for each, at in more:
            each.append(cells[at].strip())
        if roles.id:
            node = words[roles.id][-1]
            if first.setdefault(node, place.row) != place.row:
                raise GLNError(
                    f"row {place.row}: the node id {quote(node)} was already used in row {first[node]}."
                )
    data = np.array(values).reshape(len(numbers), len(used))
    if not np.isfinite(data).all():
        row, column = np.argwhere(~np.isfinite(data))[0]
        raise GLNError(
            f"row {numbers[row]}: {roles.numbers[column]} is {data[row, column]}; remove or repair values that are not "
            "finite."
        )
    listed = None
    if edges is not None:
        number = numbers_of(words.get(roles.id or ""), len(data))
        listed = edges.edges((part, source.named(part)), number)
    return roles.item(source, data, words, part, listed)


def _named(cell: str, known: dict[str, int]) -> str:
    """The id that a cell names: as it was before it was written for a spreadsheet, or as it stands."""
    return plain(cell) if plain(cell) in known else cell


class EdgeTable:
    """A table of edges, read one graph at a time; it remembers only where each graph begins."""

    def __init__(self, path: Path, options: ReadOptions = ReadOptions(), chances: bool = False) -> None:  # noqa: B008
        self.path, self.options = path, options
        self.expected: set[str] = set()
        with about(path.name):
            self.file = CSVFile.open(path)
            columns = self.file.columns
            ends = choose_ends(columns, self.file.named)
            if ends is None:
                raise GLNError(
                    f"expected the columns source and target; there are {', '.join(map(quote, columns))}."
                )
            self.ends = itemgetter(*(self.file.at[end] for end in ends))
            column = options.graph if options.graph in columns else first_of(GRAPHS, columns)
            self.grouped = column is not None
            self.key = self.file.key(column)
            # As they were before they were written for a spreadsheet, too.
            self.places = {plain(part): place for part, place in self.file.places(column).items()}
        others = [name for name in columns if name not in (*ends, column)] if self.file.named else []
        wanted = {options.types, options.weights, "direction" if options.directed else None}
        wanted |= set(WEIGHTS) if options.threshold_weights is not None else set()
        self.read = {name: self.file.at[name] for name in others if name in wanted}
        self.read |= {"edge_prob": self.file.at["probability"]} if chances else {}
        self.unread = dict.fromkeys(name for name in others if name not in wanted)

    def edges(self, names: tuple[str | None, str], number: dict[str, int]) -> FileEdges:
        """The edges of the graph called one of ``names``; ``number`` maps ids to node numbers."""
        if not self.grouped and names[0] is not None:
            raise GLNError(f"{self.path.name} has no graph column, but the node table has one; add it.")
        part = next((name for name in names if name in self.places), None) if self.grouped else ""
        flat, rows = array("q"), array("q")
        values: dict[str, Any] = {name: [] for name in self.read}
        here = part is not None and part in self.places
        for place, cells in self.file.rows(self.places[part or ""]) if here else ():
            if plain(self.key((place, cells))) != part:
                break
            source, target = (_named(cell.strip(), number) for cell in self.ends(cells))
            if source not in number or target not in number:
                unknown = target if source in number else source
                where = f" of graph {quote(part)}" if self.grouped else ""
                raise GLNError(
                    f"{self.path.name}, row {place.row}: {quote(unknown)} is not a node{where}; there are "
                    f"{len(number)} nodes, such as {quote(next(iter(number)))}."
                )
            pair = number[source], number[target]
            ways = self._ways(place.row, cells, pair) if "direction" in self.read else (pair,)
            for way in ways:
                flat.extend(way)
                if self.read:
                    rows.append(place.row)
                    for name, at in self.read.items():
                        values[name].append(plain(cells[at].strip()))
        pairs = np.array(flat, dtype=np.int64).reshape(-1, 2)
        directed = True if "direction" in self.read else None
        return FileEdges(
            pairs, values | self.unread, directed, lambda edge: f"{self.path.name}, row {rows[edge]}"
        )

    def graph(self, names: tuple[str | None, str], number: dict[str, int]) -> Graph:
        """The same as a graph without positions, with the kinds that the options of the table name."""
        found = self.edges(names, number).fields(len(number), self.options, lambda text: None)
        return check_graph(Graph(len(number), **as_tensors(found)))

    def _ways(self, row: int, cells: list[str], pair: tuple[int, int]) -> Sequence[tuple[int, int]]:
        """The directions of the edge in a row, as the column ``direction`` says."""
        word = cells[self.read["direction"]].strip()
        ways = {"forward": (pair,), "backward": (pair[::-1],), "both": (pair, pair[::-1])}
        if word not in ways:
            raise GLNError(
                f"{self.path.name}, row {row}: the direction is {quote(word)}; expected forward, backward or both."
            )
        return ways[word]

    def expect(self, names: set[str], all_of_them: bool) -> None:
        """Refuse edges of graphs that are not among those of the node table; one for several files may hold others."""
        self.expected |= names & self.places.keys()
        rest = [part for part in self.places if part not in self.expected]
        if self.grouped and rest and (all_of_them or not self.expected):
            raise GLNError(
                f"{self.path.name}, row {self.places[rest[0]].row}: graph {quote(rest[0])} is not in the "
                "node table."
            )
