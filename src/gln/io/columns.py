"""What each column of a table, or attribute of a node, means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gln.errors import GLNError
from gln.io.items import ReadOptions, quote

POSITIONS = (("x", "y", "z"), ("pos_x", "pos_y", "pos_z"), ("lon", "lat"), ("longitude", "latitude"))
NUMBERED = re.compile(r"pos_?(\d{1,4})")
GRAPHS = ("graph", "graph_id", "frame")
IDS = ("id", "node", "node_id")
ENDS = (("source", "target"), ("from", "to"), ("src", "dst"))


@dataclass(frozen=True)
class Roles:
    """The columns of the positions, the features, the graph and the node's id."""

    pos: tuple[str, ...]
    x: tuple[str, ...]
    graph: str | None
    id: str | None
    unused: tuple[str, ...]

    def __str__(self) -> str:
        parts = [
            f"{name} = {', '.join(columns)}"
            for name, columns in (("pos", self.pos), ("x", self.x))
            if columns
        ]
        parts += [f"{name} = {column}" for name, column in (("graph", self.graph), ("id", self.id)) if column]
        parts += [f"not used: {', '.join(self.unused)}"] if self.unused else []
        return "; ".join(parts)


def choose_roles(
    names: Sequence[str], numeric: Iterable[str], options: ReadOptions, named: bool = True
) -> Roles:
    """The roles that the user gave, and guesses for the rest.

    Args:
        names: names of all columns.
        numeric: names of those that hold numbers.
        named: whether the file itself names its columns; if not, all numbers are positions.
    """
    numbers = set(numeric)
    graph = _given(options.graph, names) or (_first(GRAPHS, names) if named else None)
    node = _given(options.id, names) or (_first(IDS, names) if named else None)
    taken = {graph, node, *(options.x or ())}
    free = [name for name in names if name in numbers and name not in taken]
    if options.pos is not None:
        pos = tuple(_given(name, names) or "" for name in options.pos)
    else:
        pos = _guess_positions([name for name in names if name not in taken]) if named else tuple(free)
        if numbers.isdisjoint(pos):  # otherwise text among positions is a mistake, reported when it is read
            pos = _guess_positions(free)
    if options.x is not None:
        x = tuple(_given(name, names) or "" for name in options.x)
    else:
        x = tuple(name for name in free if name not in pos)
    if not names:
        raise GLNError("its nodes have no attributes; give them positions or features.")
    if not pos and not x:
        raise GLNError(
            f"no numeric positions or features were found among {_listed(names)}; name them with pos and x."
        )
    used = {graph, node, *pos, *x}
    return Roles(pos, x, graph, node, tuple(name for name in names if name not in used))


def choose_ends(names: Sequence[str], named: bool) -> tuple[str, str] | None:
    """The columns of an edge's two nodes, or ``None``."""
    if not named:
        return (names[0], names[1]) if len(names) == 2 else None
    for ends in ENDS:
        source, target = (_first((end,), names) for end in ends)
        if source and target:
            return source, target
    return None


def choose_graph(names: Sequence[str], given: str | None) -> str | None:
    """The column of the graph in a table of edges, or ``None``."""
    return given if given in names else _first(GRAPHS, names)


def choose_weight(names: Sequence[str]) -> str | None:
    """The column of an edge's weight, or ``None``."""
    return _first(("weight",), names)


def _given(name: str | None, names: Sequence[str]) -> str | None:
    if name is not None and name not in names:
        raise GLNError(f"there is no column or attribute {quote(name)}; there are {_listed(names)}.")
    return name


def _first(wanted: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in wanted if name in lower), None)


def _guess_positions(free: Sequence[str]) -> tuple[str, ...]:
    for group in POSITIONS:
        found = [_first((name,), free) for name in group]
        if found[0] is not None:
            return tuple(name for name in found if name is not None)
    numbered = [(int(match[1]), name) for name in free if (match := NUMBERED.fullmatch(name.lower()))]
    return tuple(name for _, name in sorted(numbered))


def _listed(names: Sequence[str]) -> str:
    shown = [quote(name) for name in names[:20]]
    return ", ".join(shown) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
