"""Communities: cliques joined in a ring and by a few random links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gln.errors import GLNError
from gln.families.base import Family, register
from gln.graphs.record import Graph
from gln.later import torch

# The rules of Fruchterman and Reingold's layout, as networkx applies them.
THRESHOLD = 1e-4  # stop when the mean move of a node is shorter
HEAT = 0.1  # the first step, as a share of the extent of the starting positions
SHORTEST = 0.01  # lower bound on distances and forces
CHUNK = 2**15  # pairs laid out at a time: arrays that stay in the processor's cache


@register("community")
@dataclass(frozen=True, kw_only=True)
class Community(Family):
    """A connected caveman graph with random links between its communities; ``pos`` is its spring layout.

    Every community is a clique with one edge rewired to the community before it, around a ring
    (``networkx.connected_caveman_graph``). Each of ``links`` further edges joins two communities: with
    ``order="ordered"`` always the first two, as in the released code; with ``"set"`` any two. The links are
    distinct and never repeat an edge, so a graph has ``communities·size·(size − 1)/2 + links`` edges.

    Nodes carry ``pos [n, 2]``, a layout from a random start, in [−1, 1]; and ``community [n]`` (int64).

    Args:
        communities: number of communities (paper: 2 and 4).
        size: nodes in each (paper: 20).
        links: random links between communities (released: 2).
        iterations: steps of the layout, at most (released: 100; the shipped model was trained with 50).
    """

    communities: int = 2
    size: int = 20
    links: int = 2
    iterations: int = 50

    orders = ("set", "ordered")
    least: ClassVar = {"communities": 2, "size": 3, "links": 0, "iterations": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        possible = self._count_free_pairs()
        if self.links > possible:
            raise GLNError(
                f"community got links={self.links}, but only {possible} pairs between its communities are "
                "free; lower links or raise size."
            )

    @property
    def paper_count(self) -> int | None:  # type: ignore[override]
        """300 for two communities and 500 for four, with the paper's size and links; otherwise ``None``."""
        return {2: 300, 4: 500}.get(self.communities) if (self.size, self.links) == (20, 2) else None

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        """Draw ``count`` graphs of ``n = communities·size`` nodes."""
        n = self.communities * self.size
        free = self._free_pairs()  # [F, 2]
        adjacency = np.tile(self._caves(), (count, 1, 1))  # [B, n, n]
        for matrix in adjacency:
            i, j = free[rng.choice(len(free), self.links, replace=False)].T
            matrix[i, j] = matrix[j, i] = True
        pos = spring_layout(adjacency, rng.random((count, n, 2)), self.iterations)  # [B, n, 2]
        pos = pos.astype(np.float32)

        order = self._node_orders(rng, count, n)  # [B, n]
        return [
            Graph(
                pos=torch.from_numpy(points[nodes]),
                edge_index=torch.from_numpy(np.stack(matrix[np.ix_(nodes, nodes)].nonzero())),
                community=torch.from_numpy(nodes // self.size),
                num_nodes=n,
            )
            for points, matrix, nodes in zip(pos, adjacency, order, strict=True)
        ]

    def _caves(self) -> np.ndarray:
        """Adjacency of the connected caveman graph: bool ``[n, n]``."""
        label = np.arange(self.communities * self.size) // self.size
        adjacency = label[:, None] == label
        np.fill_diagonal(adjacency, False)
        first = np.arange(self.communities) * self.size
        adjacency[first, first + 1] = adjacency[first + 1, first] = False
        # Before the first node, at −1, is the last one: the ring closes.
        adjacency[first, first - 1] = adjacency[first - 1, first] = True
        return adjacency

    def _count_free_pairs(self) -> int:
        """The length of :meth:`_free_pairs`: all pairs between communities except those that the ring joins."""
        if self.order == "ordered":
            return self.size**2 - (2 if self.communities == 2 else 1)  # a ring of two joins them twice
        return self.communities * (self.communities - 1) // 2 * self.size**2 - self.communities

    def _free_pairs(self) -> np.ndarray:
        """Pairs that a link may join: ``[F, 2]``."""
        label = np.arange(self.communities * self.size) // self.size
        free = (label[:, None] < label) & ~self._caves()
        if self.order == "ordered":
            free &= label < 2
        return np.argwhere(free)


def spring_layout(adjacency: np.ndarray, start: np.ndarray, iterations: int = 50) -> np.ndarray:
    """Fruchterman and Reingold's layout of ``B`` graphs at once, step for step as networkx computes it.

    The dynamics are chaotic: a difference of 1e-15 at the start can grow to 0.1 in 50 steps. So only operations that
    IEEE arithmetic defines to the last bit are used, in a fixed order, and every machine gets the same layout.

    From a symmetric ``adjacency`` (bool ``[B, n, n]``) and first positions ``start [B, n, 2]``, it takes at most
    ``iterations`` steps to positions ``[B, n, 2]``: centred, the largest coordinate of each graph ±1.
    """
    share = max(1, CHUNK // adjacency.shape[1] ** 2)
    chunks = [slice(i, i + share) for i in range(0, len(start), share)]
    pos = np.concatenate([_move(adjacency[chunk], start[chunk], iterations) for chunk in chunks])
    pos -= pos.mean(axis=1, keepdims=True)
    return pos / np.abs(pos).max(axis=(1, 2), keepdims=True)


def _move(adjacency: np.ndarray, start: np.ndarray, iterations: int) -> np.ndarray:
    """The steps of :func:`spring_layout`, before it rescales."""
    n = adjacency.shape[1]
    rest = np.sqrt(1 / n)  # the distance at which the forces between two joined nodes cancel
    joined = adjacency.swapaxes(0, 1).astype(np.float64)  # [n, B, n]
    pos = np.moveaxis(start, -1, 0).astype(np.float64, order="C")  # [2, B, n]
    step = HEAT * np.ptp(pos, axis=2).max(axis=0)  # [B]
    cooling = step / (iterations + 1)
    moving = np.ones(len(step), dtype=bool)  # [B]: a graph that has come to rest stays as it is
    for _ in range(iterations):
        # The other node is an outer axis: a sum over the inner one adds in an order that depends on the CPU.
        delta = pos[:, None] - pos.swapaxes(1, 2)[..., None]  # [2, n, B, n]
        distance = np.maximum(np.sqrt(delta[0] ** 2 + delta[1] ** 2), SHORTEST)  # [n, B, n]
        force = rest * rest / distance**2 - joined * distance / rest
        push = (delta * force).sum(axis=1)  # [2, B, n]
        strength = np.maximum(np.sqrt(push[0] ** 2 + push[1] ** 2), SHORTEST)  # [B, n]
        move = push * (step[:, None] / strength)
        pos += move * moving[:, None]
        step -= cooling
        moving &= np.sqrt((move**2).sum(axis=(0, 2))) / n >= THRESHOLD
        if not moving.any():
            break
    return np.moveaxis(pos, 0, -1)  # [B, n, 2]
