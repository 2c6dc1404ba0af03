"""Which node sits at which position of its Kronecker graph: Metropolis sampling, many graphs at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from gln.graphs.record import Graph
from gln.ops.loops import compiled, spread

CROWD = 2  # upper limit on the average number of a node's neighbours in proposing pairs


class Placement:
    """The positions of the nodes of ``G`` graphs, each padded with isolated nodes to a power of two.

    All graphs form one disjoint union of ``M`` nodes: a graph's own nodes in order, its padding, the next graph.

    Attributes:
        levels: levels of every graph ``[G]``: the fewest that hold its nodes.
        starts: the first node of every graph ``[G]``.
        position: position of every node ``[M]``, from 0 to 2^levels − 1 within its graph.
    """

    def __init__(self, graphs: Sequence[Graph], rng: np.random.Generator) -> None:
        self.rng = rng
        sizes = np.array([graph.num_nodes for graph in graphs])
        self.levels = np.array([levels_for(size) for size in sizes.tolist()])
        room = 2**self.levels
        self.starts = np.cumsum(room) - room
        self.graph = np.repeat(np.arange(len(graphs)), room)  # of every node
        self.offset = self.starts[self.graph]
        edges = [
            graph.edge_index.cpu().numpy() + start for graph, start in zip(graphs, self.starts, strict=True)
        ]
        source, self.target = np.concatenate(edges, axis=1)  # sorted by source
        once = source < self.target
        self.edges = source[once], self.target[once]
        self.degree = np.bincount(source, minlength=len(self.graph))
        self.begins = np.concatenate([[0], np.cumsum(self.degree)])  # where the edges of every node begin
        # More pairs than this share would mostly block each other and only cost time.
        self.share = np.minimum(CROWD * room / np.maximum([graph.num_edges for graph in graphs], 1), 1)  # [G]
        self.ones = np.array([place.bit_count() for place in range(int(room.max()))])  # in every position
        self._place_by_degree()

    def _place_by_degree(self) -> None:
        """Place nodes of high degree at positions with few ones, where the first entry of the initiator dominates."""
        nodes = len(self.graph)
        slot = np.arange(nodes) - self.offset
        # Break ties at random: the position of a node must not reveal its number.
        by_degree = np.lexsort((self.rng.random(nodes), -self.degree, self.graph))
        by_ones = np.lexsort((self.rng.random(nodes), self.ones[slot], self.graph))
        self.position = np.empty(nodes, dtype=np.int64)
        self.position[by_degree] = slot[by_ones]

    def count_edges(self) -> np.ndarray:
        """How many edges join positions of each kind ``[G, K + 1, K + 1]``, by ``both`` and ``differ``."""
        source, target = self.edges
        i, j = self.position[source], self.position[target]
        width = int(self.levels.max()) + 1
        kind = (self.graph[source] * width + self.ones[i & j]) * width + self.ones[i ^ j]
        count = np.bincount(kind, minlength=len(self.levels) * width**2)
        return count.reshape(len(self.levels), width, width)

    def step(self, log_odds: np.ndarray) -> None:
        """One Metropolis step in all graphs, with the ``log_odds [G, K + 1, K + 1]`` of each kind of pair.

        In every graph a random level pairs off the positions that differ only there, and some pairs of nodes propose
        to swap: a random share, minus those joined by an edge to a pair of higher priority. So no two proposing pairs
        are joined, their gains are independent, and all decide at once. Who proposes depends on the graph, the pairs
        and chance, none of which a swap changes, so the posterior over placements stays invariant.
        """
        nodes = len(self.graph)
        bit = 1 << self.rng.integers(self.levels)  # [G]
        first, second = self.rng.random(nodes), self.rng.random(nodes)  # to propose, to accept
        graphs = (self.starts, self.levels, bit, self.share, log_odds)
        edges = (self.begins, self.target, self.ones)
        spread(_compiled(_swap), 0, len(self.starts), *graphs, *edges, first, second, self.position)


_compiled = cache(compiled)  # on first use


def _swap(  # type: ignore[no-untyped-def]
    begin, end, starts, levels, bit, share, log_odds, begins, target, ones, first, second, position
):
    """:meth:`Placement.step` of some graphs, pair after pair; ``bit [G]`` is the level, the numbers are drawn."""
    most = 1 << levels.max()
    at, priority = np.empty(most, np.int64), np.empty(most)
    for g in range(begin, end):
        start, room = starts[g], 1 << levels[g]
        for i in range(room):
            at[position[start + i]] = i
        for low in range(room):
            if low & bit[g] == 0:
                i, j = at[low], at[low ^ bit[g]]
                priority[i] = priority[j] = first[start + min(i, j)] - (1 - share[g])
        for low in range(room):
            if low & bit[g] or priority[at[low]] <= 0:
                continue
            i, j = at[low], at[low ^ bit[g]]
            rival = 0.0
            for own, mate in ((i, j), (j, i)):
                for e in range(begins[start + own], begins[start + own + 1]):
                    if target[e] - start != mate:
                        rival = max(rival, priority[target[e] - start])
            if rival >= priority[i]:
                continue
            gain = 0.0
            for own, mate in ((i, j), (j, i)):
                old = position[start + own]
                new = old ^ bit[g]
                for e in range(begins[start + own], begins[start + own + 1]):
                    if target[e] - start != mate:
                        there = position[target[e]]
                        gain += log_odds[g, ones[new & there], ones[new ^ there]]
                        gain -= log_odds[g, ones[old & there], ones[old ^ there]]
            if math.log(second[start + min(i, j)]) < gain:
                # In place: no neighbour of theirs proposes, so no other pair reads their positions.
                position[start + i] ^= bit[g]
                position[start + j] ^= bit[g]


def levels_for(nodes: int) -> int:
    """The fewest levels, at least 1, with enough positions for this many nodes."""
    return max((nodes - 1).bit_length(), 1)
