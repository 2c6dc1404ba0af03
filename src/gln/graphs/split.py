"""Seeded split into training, validation and test graphs."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from gln.errors import GLNError
from gln.graphs.convert import each_of
from gln.graphs.record import Graph
from gln.later import spatial, torch
from gln.seeds import check_seed

T = TypeVar("T")


def split(
    graphs: Iterable[T], seed: int = 0, test: float = 0.2, val: float = 0.1
) -> tuple[list[T], list[T], list[T]]:
    """Shuffle by ``seed`` and cut into ``(train, val, test)``.

    Args:
        graphs: at least three, so that no part is empty.
        seed: the same seed gives the same parts.
        test: share of all graphs held out for testing (20 % in the paper).
        val: share of the remaining graphs held out for validation.
    """
    items = list(each_of(graphs))
    number = check_seed("split", seed)
    count = len(items)
    if count < 3:
        raise GLNError(f"Got {count} graphs; expected at least 3, one each for train, val and test.")
    if not (0 < test < 1 and 0 < val < 1):
        raise GLNError(f"Got test={test} and val={val}; expected shares between 0 and 1.")
    n_test = min(max(round(count * test), 1), count - 2)
    n_val = min(max(round((count - n_test) * val), 1), count - n_test - 1)
    order = np.random.default_rng(number).permutation(count)
    parts = np.split(order, [count - n_test - n_val, count - n_test])
    train, validation, held_out = ([items[i] for i in part] for part in parts)
    return train, validation, held_out


def cut_patches(graph: Graph, size: int, count: int, seed: int | Sequence[int] = 0) -> list[Graph]:
    """Cut out ``count`` patches: a random node, its ``size`` − 1 nearest nodes, and the edges among them.

    Args:
        graph: a checked graph; distances are in ``pos``, or in ``x`` if there is no ``pos``.
        size: nodes per patch; in a smaller graph, every patch is the whole graph.
        count: number of patches; no node is a centre twice before every node has been one.
        seed: one number or several; the same seed cuts the same patches.
    """
    if size < 2 or count < 1:
        raise GLNError(f"Got patches of size={size}, count={count}; expected at least 2 nodes and 1 patch.")
    where = graph.where()
    rng = np.random.default_rng(seed)
    rounds = -(-count // len(where))
    centres = np.concatenate([rng.permutation(len(where)) for _ in range(rounds)])[:count]
    _, near = spatial.cKDTree(where).query(where[centres], k=min(size, len(where)))
    cutter = _Cutter(graph)
    return [cutter.part(nodes) for nodes in near.reshape(count, -1)]


def cut_regions(graph: Graph, shares: Sequence[float]) -> list[Graph]:
    """Cut the graph across its longest extent into regions with these ``shares`` of the nodes.

    No node is in two regions, and edges between regions are dropped, so nothing leaks from one to another.
    """
    where = graph.where()
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


class _Cutter:
    """Cuts parts out of a checked graph, each in time that grows with the part, as edges are sorted by source."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        source, self.target = graph.edge_index.numpy(force=True)
        self.start = np.searchsorted(source, np.arange(graph.num_nodes + 1))
        names = [name for name in graph.keys() if name not in ("edge_index", "num_nodes")]  # noqa: SIM118
        self.of_edges = [name for name in names if name.startswith("edge_")]
        self.of_nodes = [name for name in names if name not in self.of_edges and _per_node(graph, name)]

    def part(self, nodes: np.ndarray) -> Graph:
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


def _per_node(graph: Graph, name: str) -> bool:
    values = graph[name]
    if isinstance(values, str):  # its name
        return False
    return bool(getattr(values, "ndim", 1)) and hasattr(values, "__len__") and len(values) == graph.num_nodes


def _pick(values: Any, rows: torch.Tensor) -> Any:
    """The ``rows`` of one value per node or edge, in a tensor, an array or a list."""
    return [values[row] for row in rows.tolist()] if isinstance(values, (list, tuple)) else values[rows]
