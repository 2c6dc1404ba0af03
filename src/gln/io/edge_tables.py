"""CSV tables of edges."""

from __future__ import annotations

from array import array
from operator import itemgetter
from pathlib import Path

import numpy as np

from gln.errors import GLNError
from gln.io.columns import choose_ends, choose_graph, choose_weight
from gln.io.csvfile import CSVFile, is_number
from gln.io.items import quote


class EdgeTable:
    """A table of edges, read one graph at a time; it remembers only where each graph begins."""

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
        self.places = self.file.places(column)
        self.expected: set[str] = set()
        weights = choose_weight(self.file.columns)
        self.weight = None if weights is None else self.file.columns.index(weights)

    def pairs(self, names: tuple[str | None, str], number: dict[str, int]) -> np.ndarray:
        """The edges ``[m, 2]`` of the graph called one of ``names``; ``number`` maps ids to node numbers."""
        if not self.grouped and names[0] is not None:
            raise GLNError(f"{self.path.name} has no graph column, but the node table has one; add it.")
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
                    f"{len(number)} nodes, such as {quote(next(iter(number)))}."
                )
            if source == target:
                raise GLNError(
                    f"{self.path.name}, row {place.row}: node {quote(source)} has an edge to itself."
                )
            if self.weight is not None and not _is_one(weight := cells[self.weight]):
                raise GLNError(
                    f"{self.path.name}, row {place.row}: the edge has weight {quote(weight)}; keep the rows that are "
                    "edges and remove this column."
                )
            flat.extend((number[source], number[target]))
        return np.array(flat, dtype=np.int64).reshape(-1, 2)

    def expect(self, *names: str) -> None:
        """Note that the node table has a graph called one of ``names``."""
        self.expected.update(name for name in names if name in self.places)

    def check_expected(self, all_of_them: bool) -> None:
        """Refuse edges of graphs without nodes; a table for several files may also hold the graphs of the others."""
        rest = [part for part in self.places if part not in self.expected]
        if rest and (all_of_them or not self.expected):
            raise GLNError(
                f"{self.path.name}, row {self.places[rest[0]].row}: graph {quote(rest[0])} is not in the "
                "node table."
            )

    def _of(self, part: str) -> str:
        return f" of graph {quote(part)}" if self.grouped else ""


def _is_one(text: str) -> bool:
    return is_number(text) and float(text) == 1
