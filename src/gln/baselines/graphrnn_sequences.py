"""Graphs as GraphRNN reads them: breadth-first orders, and rows of bits for the edges to earlier nodes.

Row ``i − 1`` describes node ``i`` of a breadth-first order: bit ``j`` says whether it is joined to node ``i − 1 − j``,
the latest first. A breadth-first order keeps these edges short, so a row needs only ``M`` bits. All functions work on a
whole batch of padded graphs at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gln.evaluation.statistics import largest_components_of
from gln.graphs import GraphBatch
from gln.graphs.record import Graph

CELLS = 2**26  # entries of adjacency matrices processed at a time


@dataclass(frozen=True)
class Shelf:
    """Connected graphs, padded: ``adj [G, N, N]`` bool, ``sizes [G]``."""

    adj: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, graphs: Sequence[Graph], device: torch.device) -> Shelf:
        """The largest component of every graph, as a breadth-first order reaches no further."""
        batch = GraphBatch.from_graphs(largest_components_of(graphs)).to(device)
        return cls(batch.adj, batch.sizes)

    @property
    def at_a_time(self) -> int:
        """The number of graphs to order at a time."""
        return max(1, CELLS // self.adj[0].numel())

    def shuffled_orders(self, numbers: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A random breadth-first order ``[B, N]`` of each of the graphs ``numbers [B]``, and its width ``[B]``."""
        adj, sizes = self.adj[numbers], self.sizes[numbers]
        keys = torch.rand(adj.shape[:2], generator=generator).to(adj.device)
        beyond = torch.arange(adj.shape[1], device=adj.device) >= sizes[:, None]
        shuffle = keys.masked_fill(beyond, 2).argsort(dim=1)  # real nodes first
        rows = torch.arange(len(adj), device=adj.device)[:, None, None]
        order, width = breadth_first(adj[rows, shuffle[:, :, None], shuffle[:, None, :]])
        return shuffle.gather(1, order), width

    def width(self, count: int, generator: torch.Generator) -> int:
        """``M``: the largest width of ``count`` random orders of random graphs."""
        widest = 1
        for start in range(0, count, self.at_a_time):
            share = min(self.at_a_time, count - start)
            numbers = torch.randint(len(self.adj), (share,), generator=generator).to(self.adj.device)
            widest = max(widest, int(self.shuffled_orders(numbers, generator)[1].max()))
        return widest

    def bits(self, numbers: Tensor, width: int, generator: torch.Generator) -> Tensor:
        """The graphs ``numbers [B]`` in random orders, as bits ``[B, N − 1, M]``."""
        order, _ = self.shuffled_orders(numbers, generator)
        return encode(self.adj[numbers], self.sizes[numbers], order, width)


def breadth_first(adj: Tensor) -> tuple[Tensor, Tensor]:
    """Breadth-first orders of connected graphs ``adj [B, N, N]`` from node 0, visiting neighbours by number.

    Returns the nodes in order ``[B, N]``, padded with 0, and the width ``[B]``: the largest distance in the order from
    a node back to its first neighbour.
    """
    count, nodes, _ = adj.shape
    every = torch.arange(count, device=adj.device)
    names = torch.arange(nodes, device=adj.device).expand(count, nodes)
    queue = torch.zeros(count, nodes + 1, dtype=torch.int64, device=adj.device)  # the last place is a dump
    seen = names == 0
    ends, width = torch.ones_like(every), torch.zeros_like(every)
    for place in range(nodes):
        new = adj[every, queue[:, place]] & ~seen & (place < ends)[:, None]  # [B, N]
        places = (ends[:, None] + new.cumsum(1) - 1).masked_fill(~new, nodes)
        queue.scatter_(1, places, names)
        seen |= new
        found = new.sum(1)
        ends += found
        width = torch.where(found > 0, (ends - 1 - place).clamp(min=width), width)
    return queue[:, :nodes] * (names < ends[:, None]), width


def encode(adj: Tensor, sizes: Tensor, order: Tensor, width: int) -> Tensor:
    """Bits ``[B, N − 1, M]`` of graphs ``adj [B, N, N]`` in ``order [B, N]``; edges longer than ``M`` are lost."""
    nodes = adj.shape[1]
    later = torch.arange(1, nodes, device=adj.device)[:, None]  # [N − 1, 1]
    earlier = later - 1 - torch.arange(width, device=adj.device)  # [N − 1, M]
    graph = torch.arange(len(adj), device=adj.device)[:, None, None]
    bits = adj[graph, order[:, later], order[:, earlier.clamp(min=0)]]
    return bits & (earlier >= 0) & (later < sizes[:, None, None])


def decode(bits: Tensor) -> list[Graph]:
    """The graphs encoded in ``bits [B, N − 1, M]``; each ends before its first row of zeros."""
    graphs = []
    for rows in bits.cpu():
        size = 1 + int(rows.any(1).cumprod(0).sum())
        row, back = rows[: size - 1].nonzero().T
        one_way = torch.stack([row + 1, row - back])
        edges = torch.cat([one_way, one_way.flip(0)], dim=1)
        edges = edges[:, (edges[0] * size + edges[1]).argsort()]
        graphs.append(Graph(edge_index=edges, num_nodes=size))
    return graphs
