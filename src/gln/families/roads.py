"""Triangulated points whose edges are as long as they take to travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gln.families.base import Family, register
from gln.families.delaunay import delaunay_edges
from gln.graphs.record import Graph
from gln.later import torch

SLOWNESS = (0.5, 2.0)  # uniform, along each axis at each point: time per length


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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep_whole("points", 3)

    def draw(self, rng: np.random.Generator, count: int) -> Sequence[Graph]:
        pos = torch.from_numpy(rng.random((count, self.points, 2), dtype=np.float32))
        x = torch.from_numpy(rng.uniform(*SLOWNESS, (count, self.points, 2)).astype(np.float32))
        graphs = [
            Graph(pos=one, x=two, edge_index=delaunay_edges(one)) for one, two in zip(pos, x, strict=True)
        ]
        for graph in graphs:
            source, target = graph.edge_index
            way = (graph.pos[source] - graph.pos[target]).double()
            slowness = (graph.x[source] + graph.x[target]).double() / 2
            graph.edge_weight = (way * slowness).norm(dim=1).float()
        return graphs
