"""Cutting a large graph into small ones, to train on a single mesh."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch_geometric.data import Data

from gln.errors import GLNError


def cut_patches(graph: Data, size: int, count: int, seed: int | Sequence[int] = 0) -> list[Data]:
    """Cut out ``count`` patches: a random node, its ``size`` − 1 nearest nodes, and the edges among them.

    Args:
        graph: a checked graph; distances are in ``pos``, or in ``x`` if there is no ``pos``.
        size: nodes per patch; in a smaller graph, every patch is the whole graph.
        count: number of patches; no node is a centre twice before every node has been one.
        seed: one number or several; the same seed cuts the same patches.
    """
    if size < 2 or count < 1:
        raise GLNError(f"Got patches of size={size}, count={count}; expected at least 2 nodes and 1 patch.")
    where = _where(graph)
    rng = np.random.default_rng(seed)
    rounds = -(-count // len(where))
    centres = np.concatenate([rng.permutation(len(where)) for _ in range(rounds)])[:count]
    _, near = cKDTree(where).query(where[centres], k=min(size, len(where)))
    cutter = _Cutter(graph)
    return [cutter.part(nodes) for nodes in near.reshape(count, -1)]


def cut_regions(graph: Data, shares: Sequence[float]) -> list[Data]:
    """Cut the graph across its longest extent into regions with these ``shares`` of the nodes.

    No node is in two regions, and edges between regions are dropped, so nothing leaks from one to another.
    """
    where = _where(graph)
    centred = where - where.mean(axis=0)
    longest = np.linalg.svd(centred, full_matrices=False)[2][0]
    order = np.argsort(centred @ longest, kind="stable")
    cuts = np.round(np.cumsum(shares)[:-1] * len(order)).astype(int)
    regions = np.split(order, cuts)
    if min(map(len, regions)) < 2:
        raise GLNError(
            f"The graph has {len(order)} nodes, too few for {len(shares)} regions of at least 2; give a larger graph."
        )
    cutter = _Cutter(graph)
    return [cutter.part(nodes) for nodes in regions]


def _where(graph: Data) -> np.ndarray:
    """Positions ``[n, p]`` in float64, or features if there are none."""
    rows = graph.x if graph.get("pos") is None else graph.pos
    if rows is None:
        raise GLNError("The graph has neither pos nor x; cutting it needs distances, so give one of them.")
    return np.asarray(rows.double())


class _Cutter:
    """Cuts parts out of a checked graph, each in time that grows with the part, as edges are sorted by source."""

    def __init__(self, graph: Data) -> None:
        self.graph = graph
        source, self.target = graph.edge_index.numpy(force=True)
        self.start = np.searchsorted(source, np.arange(graph.num_nodes + 1))
        names = [name for name in graph.keys() if name not in ("edge_index", "num_nodes")]  # noqa: SIM118
        self.of_nodes = [name for name in names if graph.is_node_attr(name)]
        self.of_edges = [name for name in names if graph.is_edge_attr(name)]

    def part(self, nodes: np.ndarray) -> Data:
        """The subgraph on ``nodes``, which keep their order in the graph."""
        nodes = np.sort(nodes)
        degree = self.start[nodes + 1] - self.start[nodes]
        ends = np.cumsum(degree)
        edges = np.arange(degree.sum()) + np.repeat(self.start[nodes] - (ends - degree), degree)
        target = self.target[edges]
        place = np.searchsorted(nodes, target).clip(max=len(nodes) - 1)
        inside = nodes[place] == target
        source = np.repeat(np.arange(len(nodes)), degree)[inside]
        part = copy.copy(self.graph)
        part.edge_index = torch.from_numpy(np.stack([source, place[inside]]))
        chosen, kept = torch.from_numpy(nodes), torch.from_numpy(edges[inside])
        for names, rows in ((self.of_nodes, chosen), (self.of_edges, kept)):
            for name in names:
                part[name] = _pick(self.graph[name], rows)
        part.num_nodes = len(nodes)
        return part


def _pick(values: Any, rows: torch.Tensor) -> Any:
    """The ``rows`` of one value per node or edge, in a tensor, an array or a list."""
    return [values[row] for row in rows.tolist()] if isinstance(values, (list, tuple)) else values[rows]
