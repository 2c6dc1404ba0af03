"""A mesh as its file describes it: points, polygons and lines."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gln.io.items import check_numbers


@dataclass
class Mesh:
    """Points, and the faces and lines that join them."""

    points: np.ndarray  # [n, p]
    faces: list[np.ndarray] = field(default_factory=list)  # [f, k] for every number of corners k
    lines: np.ndarray | None = None  # [m, 2]
    predicted: bool = False  # the lines carry probabilities

    def pairs(self) -> np.ndarray | None:
        """The edges ``[m, 2]``; ``None`` for a point cloud. A side that joins a vertex to itself is not an edge."""
        for rows in self.faces:
            check_numbers(rows, len(self.points), f"face of {rows.shape[1]} corners, number")
        if self.lines is not None:
            check_numbers(self.lines, len(self.points), "line")
        sides = [np.stack([rows, np.roll(rows, -1, axis=1)], axis=2).reshape(-1, 2) for rows in self.faces]
        sides = [pairs[pairs[:, 0] != pairs[:, 1]] for pairs in sides]
        if self.lines is not None:
            sides.append(self.lines)
        return np.concatenate(sides) if sides else None


class Corners:
    """The corners of polygons, gathered row by row into flat arrays: a million small lists would be slow."""

    def __init__(self) -> None:
        self.flat, self.lengths = array("q"), array("q")

    def append(self, corners: Sequence[int]) -> None:
        self.flat.extend(corners)
        self.lengths.append(len(corners))

    def groups(self) -> list[np.ndarray]:
        """Faces ``[f, k]`` grouped by their number of corners; those with fewer than two have no sides."""
        flat, lengths = np.array(self.flat, dtype=np.int64), np.array(self.lengths, dtype=np.int64)
        starts = np.cumsum(lengths) - lengths
        counts = [int(count) for count in np.unique(lengths) if count > 1]
        return [flat[starts[lengths == count][:, None] + np.arange(count)] for count in counts]


def merged(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of ``points [n, p]`` in the order in which they first appear, and the index of each row."""
    order = np.lexsort(points.T)  # stable, so that of equal rows the first comes first
    new = np.ones(len(points), dtype=bool)
    new[1:] = (points[order][1:] != points[order][:-1]).any(axis=1)
    first = order[new]  # by value
    rank = np.argsort(np.argsort(first))
    number = np.empty(len(points), dtype=np.int64)
    number[order] = rank[np.cumsum(new) - 1]
    return points[np.sort(first)], number
