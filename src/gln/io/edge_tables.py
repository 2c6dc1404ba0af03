"""Tables of edges."""

from __future__ import annotations

from array import array
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from gln.errors import GLNError
from gln.io.columns import choose_ends, choose_graph
from gln.io.csvfile import CSVFile, Place
from gln.io.items import quote


class EdgeTable:
    """A table of edges that gives out the edges of one graph at a time; it remembers only where each begins."""

    def __init__(self, path: Path, graph: str | None) -> None:
        self.path = path
        self.file = CSVFile.open(path)
        ends = choose_ends(self.file.columns, self.file.named)
        if ends is None:
            raise GLNError(
                f"expected the columns source and target; there are {', '.join(map(quote, self.file.columns))}."
            )
        self.ends = itemgetter(*(self.file.columns.index(end) for end in ends))
        column = choose_graph(self.file.columns, graph)
        self.grouped = column is not None
        self.key = self.file.key(column)
        self.places: dict[str, Place] = {}
        self.expected: set[str] = set()
        for part, rows in groupby(self.file.rows(), self.key):
            place, _ = next(rows)
            if part in self.places:
                raise GLNError(
                    f"row {place.row}: graph {quote(part)} began further up; sort the table by graph."
                )
            self.places[part] = place

    def pairs(self, names: tuple[str | None, str], number: dict[str, int]) -> np.ndarray:
        """The edges ``[m, 2]`` of the graph that goes by one of ``names``; ``number`` maps ids to node numbers."""
        if not self.grouped and names[0] is not None:
            raise GLNError(f"{self.path.name} has no graph column, but the table of the nodes has; add it.")
        part = next((name for name in names if name in self.places), None) if self.grouped else ""
        flat = array("q")
        if part is None or part not in self.places:
            return np.empty((0, 2), dtype=np.int64)
        for place, cells in self.file.rows(self.places[part]):
            if self.key((place, cells)) != part:
                break
            source, target = map(str.strip, self.ends(cells))
            if source not in number or target not in number:
                unknown = target if source in number else source
                raise GLNError(
                    f"{self.path.name}, row {place.row}: {quote(unknown)} is not a node{self._of(part)}; there are "
                    f"{len(number)}, such as {quote(next(iter(number)))}."
                )
            if source == target:
                raise GLNError(
                    f"{self.path.name}, row {place.row}: node {quote(source)} has an edge to itself."
                )
            flat.extend((number[source], number[target]))
        return np.array(flat, dtype=np.int64).reshape(-1, 2)

    def expect(self, *names: str) -> None:
        """A graph of the table of the nodes goes by one of ``names``."""
        self.expected.update(name for name in names if name in self.places)

    def check_expected(self, all_of_them: bool) -> None:
        """Refuse edges of graphs that no node belongs to; a table for several files may hold others' graphs too."""
        rest = [part for part in self.places if part not in self.expected]
        if rest and (all_of_them or not self.expected):
            raise GLNError(
                f"{self.path.name}, row {self.places[rest[0]].row}: graph {quote(rest[0])} is not in the "
                "table of the nodes."
            )

    def _of(self, part: str) -> str:
        return f" of graph {quote(part)}" if self.grouped else ""
