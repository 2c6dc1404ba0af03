"""Regions of an image: pixels as nodes, joined to the neighbouring pixels of the same region."""

from __future__ import annotations

import numpy as np

from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.later import torch

# Steps to a pixel's neighbours, (columns, rows): the four with a common side, then the four at its corners.
STEPS = np.array([(0, -1), (-1, 0), (1, 0), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1)])


def region_edges(pos: torch.Tensor, region: torch.Tensor, neighbours: int = 4) -> torch.Tensor:
    """The true edges of an image: neighbouring pixels of the same region, in canonical form ``[2, 2m]``.

    ``pos [n, 2]`` is column and row of each pixel, whole numbers, in any order; the image may have holes. A pixel has 4
    or 8 ``neighbours``.
    """
    steps = pixel_steps(neighbours)
    pixel, label = pos.numpy().astype(np.int64), region.numpy()
    whole = np.array_equal(pixel, pos.numpy())
    pixel += 1 - pixel.min(axis=0)  # a border of one, so that every neighbour can be looked up
    n = len(pixel)
    node = np.full(pixel.max(axis=0) + 2, n)  # [columns, rows] → node, n where there is none
    node[tuple(pixel.T)] = np.arange(n)
    if not whole or np.count_nonzero(node < n) < n:
        raise GLNError(
            "Two nodes share a pixel, or a position lies between pixels; give distinct whole columns and rows."
        )
    other = node[tuple(np.moveaxis(pixel[:, None] + steps, -1, 0))]  # [n, neighbours]
    same = np.append(label, -1)[other] == label[:, None]
    other = np.sort(np.where(same, other, n), axis=1)
    source, place = np.nonzero(other < n)
    return torch.from_numpy(np.stack([source, other[source, place]]))


def pixel_steps(neighbours: int) -> np.ndarray:
    """The steps ``[neighbours, 2]`` from a pixel to its neighbours, as columns and rows."""
    if not isinstance(neighbours, int) or neighbours not in (4, 8):
        raise GLNError(
            f"Got neighbours={neighbours!r}; choose 4 (neighbours share a side) or 8 (a side or a corner)."
        )
    return STEPS[:neighbours]


def is_image(graph: Graph) -> bool:
    """Whether the nodes are pixels: whole, non-negative 2-D positions that fill a grid, with three features each."""
    if graph.widths != (2, 3):
        return False
    pos = graph.pos
    near = pos.max() < 4 * len(pos) ** 0.5 + 64  # scattered points could need an image of any size
    return bool(near and (pos >= 0).all() and (pos == pos.round()).all())
