"""Random points in the unit square.

Joined by their Delaunay triangulation, they are the benchmark of Set2Graph, or roads that take time to travel; with
colours, each has an arrow to the nearest of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gln.errors import GLNError
from gln.families.base import Family, register
from gln.graphs.record import Graph
from gln.later import spatial, torch

SLOWNESS = (0.5, 2.0)  # of roads, uniform, along each axis at each point: time per length


@register("delaunay")
@dataclass(frozen=True, kw_only=True)
class Delaunay(Family):
    """Uniform points in the unit square (Set2Graph), joined by their Delaunay triangulation.

    Args:
        points: number of points, at least 3 (Set2Graph: 50), or a range ``(low, high)`` from which each
            graph's size is drawn uniformly, both ends included (Set2Graph: 20 to 80).
    """

    points: int | tuple[int, int] = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep_range("points", 3, (20, 80))

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        low, high = self.points if isinstance(self.points, tuple) else (self.points, self.points)
        sizes = rng.integers(low, high, size=count, endpoint=True)  # [count]
        flat = rng.random((int(sizes.sum()), 2), dtype=np.float32)
        sets = np.split(flat, np.cumsum(sizes)[:-1])
        return [
            Graph(pos=torch.from_numpy(pos), edge_index=edge_index, num_nodes=len(pos))
            for pos, edge_index in zip(sets, _edge_indices(sets), strict=True)
        ]


@register("roads")
@dataclass(frozen=True, kw_only=True)
class Roads(Family):
    """Uniform points in the unit square, joined by their Delaunay triangulation, with travel times as weights.

    ``x [n, 2]`` says how slow the ground is at a point, along either axis, U(.5, 2). An edge takes the mean slowness s
    of its two ends: its ``edge_weight`` is √((s₀ Δ₀)² + (s₁ Δ₁)²), its length under a metric that depends on features.

    Args:
        points: number of points, at least 3.
    """

    points: int = 30

    least: ClassVar = {"points": 3}

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        pos = torch.from_numpy(rng.random((count, self.points, 2), dtype=np.float32))
        x = torch.from_numpy(rng.uniform(*SLOWNESS, (count, self.points, 2)).astype(np.float32))
        graphs = []
        for where, slow in zip(pos, x, strict=True):
            source, target = edge_index = delaunay_edges(where)
            way = (where[source] - where[target]).double()
            slowness = (slow[source] + slow[target]).double() / 2
            weight = (way * slowness).norm(dim=1).float()
            graphs.append(Graph(pos=where, x=slow, edge_index=edge_index, edge_weight=weight))
        return graphs


@register("nearest")
@dataclass(frozen=True, kw_only=True)
class Nearest(Family):
    """Uniform points in the unit square, a directed edge from each to the nearest point of its colour.

    The colour of a point, equally likely, is ``x [n, colours]``, one-hot. A point alone in its colour has no edge.

    Args:
        points: number of points, at least 2.
        colours: number of colours.
    """

    points: int = 30
    colours: int = 3

    least: ClassVar = {"points": 2, "colours": 1}

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        pos = rng.random((count, self.points, 2), dtype=np.float32)
        colour = rng.integers(self.colours, size=(count, self.points))
        wide = pos.astype(np.float64)  # the rule is applied to the stored points
        square = ((wide[:, :, None] - wide[:, None]) ** 2).sum(-1)  # [count, n, n]
        other = (colour[:, :, None] != colour[:, None]) | np.eye(self.points, dtype=bool)
        square[other] = np.inf
        target, alone = square.argmin(-1), np.isinf(square.min(-1))  # [count, n]
        graphs = []
        for index in range(count):
            source = np.flatnonzero(~alone[index])
            edge_index = torch.from_numpy(np.stack([source, target[index, source]]))
            x = torch.from_numpy(np.eye(self.colours, dtype=np.float32)[colour[index]])
            graphs.append(Graph(pos=torch.from_numpy(pos[index]), x=x, edge_index=edge_index, directed=True))
        return graphs


def delaunay_edges(pos: torch.Tensor) -> torch.Tensor:
    """The true ``edge_index [2, 2m]`` over the points ``pos [n, 2]``, n ≥ 3.

    Two cases practically never occur with random points: if points lie on one circle, Qhull chooses the
    diagonals, always the same ones; and a point that Qhull drops, because it equals another up to rounding,
    has no edges.
    """
    return _edge_indices([pos.numpy()])[0]


def _edge_indices(sets: Sequence[np.ndarray]) -> list[torch.Tensor]:
    """The edges ``[2, 2m]`` over each set ``[n, 2]``, sorted once for all sets."""
    width = max(map(len, sets))
    triangles = [_triangles(pos) for pos in sets]
    owner = np.repeat(np.arange(len(sets)), list(map(len, triangles)))[:, None]  # [t, 1]
    one = np.concatenate(triangles).astype(np.int64)  # [t, 3]
    two = np.roll(one, 1, axis=1)
    key = (owner * width + np.hstack([one, two])) * width + np.hstack([two, one])  # [t, 6]
    key = np.sort(key, axis=None)
    key = key[np.append(True, key[1:] != key[:-1])]  # a side of two triangles is listed twice
    cuts = np.searchsorted(key, np.arange(1, len(sets)) * width**2)
    return [
        torch.from_numpy(np.stack([pairs // width % width, pairs % width])) for pairs in np.split(key, cuts)
    ]


def _triangles(pos: np.ndarray) -> np.ndarray:
    """The corners ``[t, 3]`` of the triangles over ``pos [n, 2]``, computed in float64."""
    try:
        triangles = spatial.Delaunay(pos).simplices
    except (spatial.QhullError, ValueError):
        triangles = None
    if triangles is None or triangles.shape[1] != 3:
        raise GLNError(
            f"Cannot triangulate points of shape {list(pos.shape)}; expected [n, 2], not all on one line."
        )
    return triangles
