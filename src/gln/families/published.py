"""The graphs that generators are compared on in published tables: bare nodes, nothing but edges.

``planar`` and ``sbm`` are those of SPECTRE (Martinkus et al., 2022), ``tree`` those of Bergmeister et al. (2024). The
tables use 200 graphs of each, of which 128 are for training, 32 for validation and 40 for testing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gln.errors import GLNError
from gln.families.base import Family, register
from gln.families.delaunay import delaunay_edges
from gln.graphs.convert import components
from gln.graphs.record import Graph
from gln.later import torch

# A stochastic block model: how many blocks, how many nodes each, and the chances of an edge within one and between two.
BLOCKS, SIZES = (2, 5), (20, 40)
INSIDE, BETWEEN = 0.3, 0.005


@dataclass(frozen=True, kw_only=True)
class Published(Family):
    """What the families of published tables share."""

    paper_count: ClassVar[int | None] = 200
    val_share: ClassVar[float] = 0.2

    def _shuffled(self, rng: np.random.Generator, pairs: np.ndarray, nodes: int) -> Graph:
        """The graph with edges ``[m, 2]``, each listed once, and its nodes in random order."""
        name = rng.permutation(nodes)
        both = name[np.concatenate([pairs, pairs[:, ::-1]])]
        order = np.lexsort((both[:, 1], both[:, 0]))
        return Graph(nodes, edge_index=torch.from_numpy(np.ascontiguousarray(both[order].T)))


@register("planar")
@dataclass(frozen=True, kw_only=True)
class Planar(Published):
    """Delaunay triangulations of uniform points, without the points.

    Args:
        nodes: of every graph, at least 3 (published: 64).
    """

    nodes: int = 64

    least: ClassVar = {"nodes": 3}

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        # Uniform points are in random order as they are.
        sets = [torch.from_numpy(rng.random((self.nodes, 2))) for _ in range(count)]
        return [Graph(self.nodes, edge_index=delaunay_edges(pos)) for pos in sets]


@register("tree")
@dataclass(frozen=True, kw_only=True)
class Tree(Published):
    """Trees, uniform over all with labelled nodes.

    Args:
        nodes: of every tree, at least 2 (published: 64).
    """

    nodes: int = 64

    least: ClassVar = {"nodes": 2}

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        from networkx import from_prufer_sequence

        sequences = rng.integers(self.nodes, size=(count, self.nodes - 2))
        # Every sequence belongs to exactly one tree.
        edges = [np.array(from_prufer_sequence(one.tolist()).edges) for one in sequences]
        return [self._shuffled(rng, pairs, self.nodes) for pairs in edges]


@register("sbm")
@dataclass(frozen=True, kw_only=True)
class SBM(Published):
    """Stochastic block models of 2 to 5 blocks with 20 to 40 nodes each, connected.

    Args:
        inside: chance of an edge within a block (published: 0.3).
        between: chance of an edge between two blocks (published: 0.005).
    """

    inside: float = INSIDE
    between: float = BETWEEN

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0.2 <= self.inside <= 1 and 0.002 <= self.between <= 1):
            raise GLNError(
                f"sbm got inside={self.inside!r} and between={self.between!r}; expected chances of 0.2 to 1 and 0.002 "
                "to 1, with which graphs are connected often enough."
            )

    def draw(self, rng: np.random.Generator, count: int) -> list[Graph]:
        return [self._one(rng) for _ in range(count)]

    def _one(self, rng: np.random.Generator) -> Graph:
        while True:
            sizes = rng.integers(*SIZES, size=rng.integers(*BLOCKS, endpoint=True), endpoint=True)
            block = np.repeat(np.arange(len(sizes)), sizes)
            chance = np.where(block[:, None] == block, self.inside, self.between)
            pairs = np.argwhere(np.triu(rng.random(chance.shape) < chance, 1))
            if not components(pairs, len(block)).any():  # all are in the first
                return self._shuffled(rng, pairs, len(block))
