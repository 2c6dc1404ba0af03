"""What columns of numbers say about nodes: where they are, what they are, or neither."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gln.errors import GLNError
from gln.graphs.check import as_numbers
from gln.graphs.record import is_a

POSITIONS = (
    ("x", "y", "z"),
    ("pos_x", "pos_y", "pos_z"),
    ("lon", "lat"),
    ("longitude", "latitude"),
    ("easting", "northing"),
)
NUMBERED = re.compile(r"pos_?(\d{1,4})")
GRAPHS = ("graph", "graph_id", "frame")
IDS = ("id", "node", "node_id")
RAGGED = (
    "The rows are ragged or hold something that is not a number; give every node the same number of values."
)
WIDEST_PLACE = 3  # columns without names are positions up to this many, features beyond


def first_of(wanted: Sequence[str], names: Sequence[str]) -> str | None:
    """The first of the ``wanted`` names that is there, whatever its case."""
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in wanted if name in lower), None)


def guess_positions(names: Sequence[str]) -> tuple[str, ...]:
    """The columns that are positions by their names, in order."""
    for group in POSITIONS:
        found = [first_of((name,), names) for name in group]
        if found[0] is not None:
            return tuple(name for name in found if name is not None)
    numbered = [(int(match[1]), name) for name in names if (match := NUMBERED.fullmatch(name.lower()))]
    return tuple(name for _, name in sorted(numbered))


def node_rows(points: Any, widths: tuple[int, int] | None = None) -> dict[str, Any]:
    """``pos`` and ``x`` of nodes given as one table, a row each: an array, a tensor, lists, or a DataFrame.

    If a model reads ``widths`` positions and features, as many columns are taken, positions first. Without these, the
    columns of a DataFrame are positions by name; of other tables, up to three columns are positions and more are
    features.
    """
    names: list[str] | None = None
    if is_frame(points):
        names, points = _of_frame(points)
    elif isinstance(points, list | tuple):
        points = as_numbers(points, RAGGED)
    if np.ndim(points) != 2:
        return {"pos": points}  # refused where graphs are made, in words
    width = int(points.shape[1])
    if names is not None:
        places = [names.index(name) for name in guess_positions(names)]
    else:
        places = list(range(width)) if width <= WIDEST_PLACE else []
    if widths is not None and (0 in widths or width == sum(widths)):
        named = names is not None and widths == (len(places), width - len(places))
        places = places if named else list(range(width if not widths[1] else widths[0]))
    rest = [column for column in range(width) if column not in places]
    return {name: points[:, some] for name, some in (("pos", places), ("x", rest)) if some}


def _of_frame(frame: Any) -> tuple[list[str], np.ndarray]:
    """The names and values ``[n, w]`` of the columns that hold numbers, without the node's id and graph."""
    names = [str(name) for name in frame.columns]
    columns = dict(zip(names, (np.asarray(frame[name]) for name in frame.columns), strict=True))
    neither = {first_of(some, names) for some in (GRAPHS, IDS)}
    kept = [name for name, values in columns.items() if name not in neither and values.dtype.kind in "biuf"]
    if not kept:
        raise GLNError(
            f"The DataFrame has no columns of numbers among {', '.join(names[:20])}; expected some."
        )
    return kept, np.column_stack([columns[name] for name in kept])


def is_frame(points: Any) -> bool:
    """Whether this is a DataFrame of pandas or polars."""
    return is_a(points, "pandas.DataFrame") or is_a(points, "polars.DataFrame")


def is_table(points: Any) -> bool:
    """Whether a list is one table, a list of rows, and not a list of tables."""
    if not isinstance(points, list | tuple) or not points:
        return False
    return all(isinstance(row, list | tuple) and all(np.isscalar(value) for value in row) for row in points)
