"""Counting small patterns in many graphs at once, and the 15 node orbits of graphlets with two to four nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gln.errors import GLNError
from gln.graphs import as_graphs
from gln.graphs.record import Graph
from gln.later import sparse
from gln.ops.loops import compiled

Device = torch.device | str | None


def check_device(device: Device) -> torch.device | None:
    """The device, if this machine can compute on it in float64; ``None`` stays ``None``."""
    if device is None:
        return None
    try:
        place = torch.device(device)
        torch.zeros(1, dtype=torch.float64, device=place).item()
    except (RuntimeError, AssertionError, TypeError, NotImplementedError):
        raise GLNError(
            f"Got device={device!r}, which this machine does not have or which cannot compute in float64; "
            'choose another, for example "cpu".'
        ) from None
    return place


@dataclass(frozen=True)
class Blocks:
    """The disjoint union of ``G`` graphs, with ``n`` nodes and ``m`` undirected edges in all.

    =========  ===========  =============================================================
    ``edges``  ``[2, 2m]``  int64: both directions of every edge, sorted
    ``nodes``  ``[G]``      nodes of each graph, numbered after those of the graphs before
    =========  ===========  =============================================================
    """

    edges: Tensor
    nodes: list[int]

    @classmethod
    def of(cls, graphs: Sequence[Graph], device: Device = None) -> Blocks:
        """Join checked graphs (see :func:`gln.graphs.check_graph`) on ``device``, by default where they are.

        Directed edges are taken without their direction.
        """
        graphs = [graph.undirected() for graph in graphs]
        nodes = [int(graph.num_nodes) for graph in graphs]
        edges = torch.cat([graph.edge_index.to(device) for graph in graphs], dim=1)
        first = torch.tensor([0, *nodes[:-1]]).cumsum(0)  # [G]
        shift = torch.repeat_interleave(first, torch.tensor([graph.num_edges for graph in graphs]))
        return cls(edges + shift.to(edges.device), nodes)

    def degrees(self) -> Tensor:
        """Degree of every node: int64 ``[n]``."""
        return self.edges[0].bincount(minlength=sum(self.nodes))

    def sum_edges(self, per_edge: Tensor) -> Tensor:
        """Sum of ``per_edge [2m]`` over the edges of every node: ``[n]``."""
        return per_edge.new_zeros(sum(self.nodes)).index_add_(0, self.edges[0], per_edge)

    def sum_neighbours(self, per_node: Tensor, weight: Tensor | int = 1) -> Tensor:
        """Sum of ``per_node [n]``, times ``weight [2m]`` of the edge, over the neighbours of every node: ``[n]``."""
        return self.sum_edges(per_node.index_select(0, self.edges[1]) * weight)


def measure(graphs: Iterable[Any], compute: Callable[[Blocks], Tensor], device: Device) -> list[Tensor]:
    """The rows of ``compute(blocks) -> [n, ...]`` for graphs of any kind, as one tensor per graph."""
    blocks = Blocks.of(as_graphs(graphs, kinds=False), check_device(device))
    return list(compute(blocks).split(blocks.nodes))


class ByDegree:
    """The nodes renumbered by (graph, degree), so that patterns are found from nodes of small degree, hubs last.

    The neighbours of node v are ``near[start[v] : start[v + 1]]``, ascending; from ``middle[v]`` on they are above v.
    An edge uv lists at most min(deg u, deg v) paths, so a star of any size costs nothing. Patterns are subgraphs,
    induced or not; their counts are int64.
    """

    def __init__(self, blocks: Blocks) -> None:
        self.device = blocks.edges.device
        source, target = blocks.edges.numpy(force=True)
        degree = np.bincount(source, minlength=sum(blocks.nodes))
        graph = np.repeat(np.arange(len(blocks.nodes)), blocks.nodes)
        order = np.argsort(graph * max(blocks.nodes) + degree)
        self.rank = np.empty_like(order)
        self.rank[order] = np.arange(len(order))
        ends = self.rank[source], self.rank[target]
        # Ascending in every row.
        lists = sparse.csr_array((np.arange(len(source)), ends), shape=2 * order.shape)
        self.start, self.near = lists.indptr.astype(np.int64), lists.indices.astype(np.int64)
        self.edge = lists.data  # which of the given edges lies where
        below = np.bincount(ends[0][ends[1] < ends[0]], minlength=len(order))
        self.middle = self.start[:-1] + below
        self.on_edge = np.zeros_like(self.near)  # triangles, as in ``near``
        compiled(_triangles)(self.start, self.middle, self.near, self.on_edge)

    def triangles(self) -> Tensor:
        """Triangles on every edge of the blocks: ``[2m]``."""
        out = np.empty_like(self.on_edge)
        out[self.edge] = self.on_edge
        return torch.from_numpy(out).to(self.device)

    def patterns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Diamonds with the node off the chord, 4-cycles and K4 at every node of the blocks: ``[n]`` each."""
        found = np.zeros((4, len(self.middle)), dtype=np.int64)
        compiled(_patterns)(self.start, self.middle, self.near, self.on_edge, *found)
        diamonds, cliques, between, opposite = torch.from_numpy(found[:, self.rank]).to(self.device)
        return diamonds, between + opposite // 2, cliques


def _triangles(start, middle, near, triangles):  # type: ignore[no-untyped-def]
    """Find every triangle x < y < z: an edge yz whose other end is marked as a neighbour of x."""
    place = np.full(len(middle), -1)  # of a node among the neighbours of x
    below = start[:-1].copy()  # of x among the neighbours of a higher node
    for x in range(len(middle)):
        for xy in range(middle[x], start[x + 1]):
            place[near[xy]] = xy
        for xy in range(middle[x], start[x + 1]):
            y = near[xy]
            for yz in range(middle[y], start[y + 1]):
                xz = place[near[yz]]
                if xz >= 0:
                    triangles[xy] += 1
                    triangles[xz] += 1
                    triangles[yz] += 1
        for xy in range(middle[x], start[x + 1]):  # no later node is in a triangle with x and y
            y = near[xy]
            triangles[below[y]] = triangles[xy]
            below[y] += 1
            place[y] = -1


def _patterns(start, middle, near, triangles, diamonds, cliques, between, opposite):  # type: ignore[no-untyped-def]
    """Add up, at every node, the diamonds, the K4 x < y < z < w and the 4-cycles.

    A 4-cycle is two paths v–u–w from its last node v to the opposite one: it is counted once at each u ``between``, and
    twice at v and w, which are ``opposite``.
    """
    place, common = np.full(len(middle), -1), np.full(len(middle), -1)
    paths = np.zeros(len(middle), np.int64)
    for x in range(len(middle)):
        for xy in range(middle[x], start[x + 1]):
            place[near[xy]] = xy
        for xy in range(middle[x], start[x + 1]):
            y = near[xy]
            for yz in range(middle[y], start[y + 1]):
                z = near[yz]
                xz = place[z]
                if xz >= 0:
                    common[z] = xy  # joined to both x and y
                    diamonds[x] += triangles[yz] - 1
                    diamonds[y] += triangles[xz] - 1
                    diamonds[z] += triangles[xy] - 1
            for yz in range(middle[y], start[y + 1]):
                z = near[yz]
                if common[z] == xy:
                    found = 0
                    for zw in range(middle[z], start[z + 1]):
                        last = common[near[zw]] == xy
                        found += last
                        cliques[near[zw]] += last
                    cliques[x] += found
                    cliques[y] += found
                    cliques[z] += found
        for xy in range(middle[x], start[x + 1]):
            place[near[xy]] = -1
    for v in range(len(middle)):
        for step in range(3):  # count the paths to every w, then use the counts, then clear them
            for vu in range(start[v], middle[v]):
                u = near[vu]
                for uw in range(start[u], start[u + 1]):
                    w = near[uw]
                    if w >= v:
                        break
                    if step == 0:
                        paths[w] += 1
                    elif step == 1:
                        between[u] += paths[w] - 1
                        opposite[v] += paths[w] - 1
                        opposite[w] += paths[w] - 1
                    else:
                        paths[w] = 0


MAX_DEGREE = 2**21 - 1  # every sum below is at most (largest degree)³, which then fits into int64

# SPANS[a][b]: in how many spanning subgraphs of a graphlet its node of orbit b has orbit a. A K4, for example, holds
# three diamonds that have a given node off their chord: SPANS[12] = {14: 3}.
SPANS = {
    13: {14: 3},
    12: {14: 3},
    11: {13: 2, 14: 3},
    10: {12: 2, 13: 2, 14: 6},
    9: {12: 2, 14: 3},
    8: {12: 1, 13: 1, 14: 3},
    7: {11: 1, 13: 1, 14: 1},
    6: {9: 1, 10: 1, 12: 2, 13: 1, 14: 3},
    5: {8: 2, 10: 1, 11: 2, 12: 2, 13: 4, 14: 6},
    4: {8: 2, 9: 2, 10: 1, 12: 4, 13: 2, 14: 6},
    2: {3: 1},
    1: {3: 2},
}


def orbits(graphs: Iterable[Any], device: Device = None) -> list[Tensor]:
    """How often each node takes each orbit in an induced subgraph: int64 ``[n, 15]`` per graph, exact.

    Orbits are numbered as in ORCA:

    ======  =======================  ======  ======================  ======  ================================
    0       edge                     4, 5    path of 4: end, inner   9       paw: end of the tail
    1, 2    path of 3: end, middle   6, 7    claw: leaf, centre      10, 11  paw: triangle, away from / at tail
    3       triangle                 8       4-cycle                 12, 13  diamond: off, on the chord
    ..      ..                       ..      ..                      14      K4
    ======  =======================  ======  ======================  ======  ================================

    Args:
        graphs: graphs of any kind and size (see :func:`gln.graphs.as_graphs`), with no degree above 2 million.
        device: where the result is, by default where the graphs are.
    """
    return measure(graphs, _orbits, device)


def _orbits(blocks: Blocks) -> Tensor:
    """Orbits ``[n, 15]`` of the joined graphs.

    First, count subgraphs whether induced or not. With d the degree of the node v, t the triangles at v or on its
    edge vu, and Σ over its neighbours u:

    ===  ==========================  ===  ====================  ===  ========================
    0    d                           5    (1) (d − 1) − 2t      10   Σ t(vu) (d(u) − 2)
    1    Σ d(u) − 1                  6    Σ C(d(u) − 1, 2)      11   t (d − 2)
    2    C(d, 2)                     7    C(d, 3)               12   diamonds, searched for
    3    t = ½ Σ t(vu)               8    4-cycles, searched    13   Σ C(t(vu), 2)
    4    Σ (1)(u) − d (d − 1) − 2t   9    Σ t(u) − 2t           14   K4, searched for
    ===  ==========================  ===  ====================  ===  ========================

    Then subtract those that lie in a graphlet with more edges, from the densest graphlet down.
    """
    degree = blocks.degrees()
    if (largest := int(degree.max())) > MAX_DEGREE:
        raise GLNError(
            f"A node has {largest} neighbours; orbits are counted up to {MAX_DEGREE}, so remove such hubs."
        )
    ordered = ByDegree(blocks)
    on_edge, (diamonds, cycles, cliques) = ordered.triangles(), ordered.patterns()
    triangles = blocks.sum_edges(on_edge) // 2
    ends = blocks.sum_neighbours(degree - 1)
    pairs = degree * (degree - 1)
    rows = torch.stack(
        [
            degree,
            ends,
            pairs // 2,
            triangles,
            blocks.sum_neighbours(ends) - pairs - 2 * triangles,
            ends * (degree - 1) - 2 * triangles,
            blocks.sum_neighbours((degree - 1) * (degree - 2) // 2),
            pairs * (degree - 2) // 6,
            cycles,
            blocks.sum_neighbours(triangles) - 2 * triangles,
            blocks.sum_neighbours(degree - 2, on_edge),
            triangles * (degree - 2),
            diamonds,
            blocks.sum_edges(on_edge * (on_edge - 1) // 2),
            cliques,
        ]
    )  # [15, n]
    for orbit, denser in SPANS.items():
        for other, times in denser.items():
            rows[orbit].sub_(rows[other], alpha=times)
    return rows.T
