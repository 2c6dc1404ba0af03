"""How a graph is counted, and how many graphs are counted together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from gln.evaluation.counting import dense, sparse
from gln.evaluation.counting.blocks import Blocks, Counts
from gln.evaluation.counting.threads import one_thread, threads_for_matrices
from gln.graphs.record import Graph

Route = Literal["dense", "sparse"]

# Measured on G(n, p): algebra overtakes listing at p = .4 for 20 to 100 nodes and at .5 for 400. It is at most twice
# as slow where this rule errs, and five to ten times as fast on complete graphs.
DENSE_FROM = 0.4
DENSE_NODES = 1024
DENSE_ENTRIES = 2**21  # entries of a padded batch; a single graph may have more


def choose(nodes: int, edges: int) -> Route:
    """The rule: matrix algebra for dense graphs that fit, listing for all others."""
    return "dense" if nodes <= DENSE_NODES and edges >= DENSE_FROM * nodes * (nodes - 1) / 2 else "sparse"


def plan(graphs: Sequence[Graph], route: Route | None = None) -> list[tuple[Route, list[int]]]:
    """Which graphs to count together, and how: all sparse ones at once, dense ones by size in padded batches."""
    ways = [route or choose(graph.num_nodes, graph.num_edges // 2) for graph in graphs]
    groups: list[tuple[Route, list[int]]] = []
    if members := [i for i, way in enumerate(ways) if way == "sparse"]:
        groups.append(("sparse", members))
    batch: list[int] = []
    for i in sorted((i for i, way in enumerate(ways) if way == "dense"), key=lambda i: graphs[i].num_nodes):
        if not batch or (len(batch) + 1) * graphs[i].num_nodes ** 2 > DENSE_ENTRIES:
            groups.append(("dense", batch := []))
        batch.append(i)
    return groups


def measure(
    graphs: Sequence[Graph],
    compute: Callable[[Blocks, Route], Tensor],
    device: torch.device | str | None = None,
    route: Route | None = None,
) -> list[Tensor]:
    """The rows of ``compute(blocks, route) -> [n, ...]`` as one tensor per graph, in the order of ``graphs``."""
    found: dict[int, Tensor] = {}
    for way, members in plan(graphs, route):
        with one_thread() if way == "sparse" else threads_for_matrices(graphs[members[-1]].num_nodes):
            blocks = Blocks.of([graphs[i] for i in members], device)
            found.update(zip(members, compute(blocks, way).split(blocks.nodes), strict=True))
    return [found[i] for i in range(len(graphs))]


def count(blocks: Blocks, route: Route) -> Counts:
    """Count all patterns that have to be searched for."""
    return dense.count(blocks) if route == "dense" else sparse.count(blocks)


def count_triangles(blocks: Blocks, route: Route) -> Tensor:
    """Triangles on every edge: int64 ``[m]``."""
    return dense.count_triangles(blocks) if route == "dense" else sparse.count_triangles(blocks)
