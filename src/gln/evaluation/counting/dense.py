"""Counting by matrix algebra, for graphs with many edges.

Every product is float64, which is exact up to 2⁵³ (``n³`` for ``n`` = 200 000) and which autocast and
``torch.set_float32_matmul_precision`` leave alone. Padding is zero and stays zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gln.evaluation.counting.blocks import Blocks, Counts


def count(blocks: Blocks) -> Counts:
    """Count the patterns of all graphs, padded to the ``N`` nodes of the largest."""
    adj = _adjacency(blocks)  # [B, N, N]
    paths = adj @ adj  # of two edges; the degrees are on the diagonal
    on_edge = paths * adj
    paths.diagonal(dim1=1, dim2=2).zero_()
    return Counts(
        triangles=_at_edges(blocks, on_edge),
        # Σ over the triangles vab of (triangles on ab) − 1; the product counts each of them twice.
        diamonds=_at_nodes(blocks, (((adj @ on_edge) * adj).sum(2) - on_edge.sum(2)) / 2),
        cycles=_at_nodes(blocks, (paths * (paths - 1)).sum(2) / 2),
        cliques=_at_nodes(blocks, _cliques(adj)),
    )


def count_triangles(blocks: Blocks) -> Tensor:
    """Triangles on every edge: int64 ``[m]``."""
    adj = _adjacency(blocks)
    return _at_edges(blocks, adj @ adj)


def _cliques(adj: Tensor) -> Tensor:
    """K4 at every node ``[B, N]``: each K4 is found as a triangle among the later neighbours of its lowest node."""
    out = torch.zeros(adj.shape[:2], dtype=torch.int64, device=adj.device)
    for node in range(adj.shape[1] - 3):
        among = adj[:, node, node + 1 :]  # [B, N'] the neighbours that come later
        inner = adj[:, node + 1 :, node + 1 :] * among[:, :, None] * among[:, None, :]  # [B, N', N']
        triangles = ((inner @ inner) * inner).sum(2).long() // 2  # [B, N']
        out[:, node] += triangles.sum(1) // 3
        out[:, node + 1 :] += triangles
    return out


def _adjacency(blocks: Blocks) -> Tensor:
    """Padded adjacency matrices ``[B, N, N]``, float64."""
    width = max(blocks.nodes)
    adj = torch.zeros(len(blocks.nodes), width, width, dtype=torch.float64, device=blocks.device)
    graph, low, high = _places(blocks)
    adj[graph, low, high] = 1
    adj[graph, high, low] = 1
    return adj


def _places(blocks: Blocks) -> tuple[Tensor, Tensor, Tensor]:
    """The graph and the two nodes within the graph of every edge: ``[m]`` each."""
    graph = blocks.graph_of(blocks.links)
    low, high = blocks.edges - blocks.offsets[graph]
    return graph, low, high


def _at_edges(blocks: Blocks, values: Tensor) -> Tensor:
    """Whole numbers ``[B, N, N]`` at the edges: int64 ``[m]``."""
    return values[_places(blocks)].long()


def _at_nodes(blocks: Blocks, values: Tensor) -> Tensor:
    """Whole numbers ``[B, N]`` at the real nodes: int64 ``[n]``."""
    graph = blocks.graph_of(blocks.nodes)
    node = torch.arange(len(graph), device=graph.device) - blocks.offsets[graph]
    return values[graph, node].long()
