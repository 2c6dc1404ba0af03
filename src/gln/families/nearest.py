"""Points of several colours, each with an arrow to the nearest of its own colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gln.families.base import Family, register
from gln.graphs.record import Graph
from gln.later import torch


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
