"""Many graphs as one: the block-diagonal graph that the statistics are computed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gln.graphs.record import Graph


class Counts(NamedTuple):
    """Patterns that have to be searched for in ``n`` nodes and ``m`` edges, as subgraphs, induced or not: int64."""

    triangles: Tensor  # [m] on every edge
    diamonds: Tensor  # [n] with the node off the chord
    cycles: Tensor  # [n] of four nodes
    cliques: Tensor  # [n] of four nodes


@dataclass(frozen=True)
class Blocks:
    """The disjoint union of ``G`` graphs, with ``n`` nodes and ``m`` undirected edges in all.

    =========  ==========  ==============================================================================
    ``edges``  ``[2, m]``  int64: every undirected edge once, smaller node first, sorted
    ``nodes``  ``[G]``     nodes of each graph, numbered after those of the graphs before
    ``links``  ``[G]``     undirected edges of each graph, in the same order
    =========  ==========  ==============================================================================
    """

    edges: Tensor
    nodes: list[int]
    links: list[int]

    @classmethod
    def of(cls, graphs: Sequence[Graph], device: torch.device | str | None = None) -> Blocks:
        """Join checked graphs (see :func:`gln.graphs.check_graph`) on ``device``, by default where they are."""
        lists = [graph.edge_index for graph in graphs]
        both = torch.cat(lists, dim=1).to(device)  # [2, 2m]
        once = (both[0] < both[1]).nonzero().flatten()  # [m]
        blocks = cls(
            edges=both.index_select(1, once),
            nodes=[int(graph.num_nodes) for graph in graphs],
            links=[edge_index.shape[1] // 2 for edge_index in lists],
        )
        blocks.edges.add_(blocks.offsets.index_select(0, blocks.graph_of(blocks.links)))
        return blocks

    @property
    def device(self) -> torch.device:
        """Where the edges are."""
        return self.edges.device

    @property
    def num_nodes(self) -> int:
        """``n``."""
        return sum(self.nodes)

    @property
    def offsets(self) -> Tensor:
        """The first node of each graph: ``[G]``."""
        sizes = torch.tensor(self.nodes, device=self.device)
        return sizes.cumsum(0) - sizes

    def graph_of(self, counts: list[int]) -> Tensor:
        """The graph of every node (``counts = nodes``) or edge (``counts = links``)."""
        return torch.repeat_interleave(torch.tensor(counts, device=self.device), output_size=sum(counts))

    def degrees(self) -> Tensor:
        """Degree of every node: int64 ``[n]``."""
        return self.edges.flatten().bincount(minlength=self.num_nodes)

    def sum_edges(self, per_edge: Tensor) -> Tensor:
        """Sum of ``per_edge [m]`` over the edges of every node: ``[n]``."""
        low, high = self.edges
        return per_edge.new_zeros(self.num_nodes).index_add_(0, low, per_edge).index_add_(0, high, per_edge)

    def sum_neighbours(self, per_node: Tensor, weight: Tensor | None = None) -> Tensor:
        """Sum of ``per_node [n]``, times ``weight [m]`` of the edge, over the neighbours of every node: ``[n]``."""
        low, high = self.edges
        to_low, to_high = per_node.index_select(0, high), per_node.index_select(0, low)  # [m]
        if weight is not None:
            to_low, to_high = to_low * weight, to_high * weight
        return torch.zeros_like(per_node).index_add_(0, low, to_low).index_add_(0, high, to_high)
