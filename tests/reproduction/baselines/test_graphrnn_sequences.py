"""Breadth-first orders and rows of bits, against a queue and loops."""

from __future__ import annotations

from collections import deque

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

import gln
from reproduction.baselines.graphrnn_network import ConnectedGraphs, breadth_first, decode, encode

CPU = torch.device("cpu")


def connected(seed: int, nodes: int) -> nx.Graph:
    """A random tree with random further edges."""
    rng = np.random.default_rng(seed)
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    order = rng.permutation(nodes).tolist()
    graph.add_edges_from((order[i], order[rng.integers(i)]) for i in range(1, nodes))
    extra = rng.integers(0, nodes, (nodes, 2)) if nodes > 1 else []
    graph.add_edges_from((int(i), int(j)) for i, j in extra if i != j)
    return graph


def walk(graph: nx.Graph) -> list[int]:
    """Breadth-first from node 0 by a queue, neighbours by their number."""
    queue, seen, order = deque([0]), {0}, []
    while queue:
        order.append(queue.popleft())
        for node in sorted(graph[order[-1]]):
            if node not in seen:
                seen.add(node)
                queue.append(node)
    return order


GRAPHS = [connected(seed, nodes) for seed, nodes in enumerate([1, 2, 3, 5, 8, 9, 9, 12])]


@pytest.fixture
def known() -> ConnectedGraphs:
    return ConnectedGraphs.of([gln.as_graph(graph) for graph in GRAPHS], CPU)


def ordered(graph: nx.Graph, order: Tensor) -> np.ndarray:
    return nx.to_numpy_array(graph, nodelist=order[: len(graph)].tolist(), dtype=int)


def widest(matrix: np.ndarray) -> int:
    """How far back the first neighbour of a node is, at most."""
    return max((i - int(matrix[i].argmax()) for i in range(1, len(matrix))), default=0)


def test_orders_are_those_of_a_queue(known: ConnectedGraphs) -> None:
    orders, widths = breadth_first(known.adj)
    for graph, order, width in zip(GRAPHS, orders, widths.tolist(), strict=True):
        assert order[: len(graph)].tolist() == walk(graph)
        assert not order[len(graph) :].any()
        assert width == widest(ordered(graph, order))


def test_random_orders_begin_everywhere_and_stay_breadth_first(known: ConnectedGraphs) -> None:
    generator = torch.Generator().manual_seed(0)
    starts = set()
    for _ in range(60):
        orders, widths = known.shuffled_orders(torch.arange(len(GRAPHS)), generator)
        for graph, order, width in zip(GRAPHS, orders, widths.tolist(), strict=True):
            nodes = order[: len(graph)].tolist()
            assert sorted(nodes) == list(range(len(graph)))
            depth = nx.single_source_shortest_path_length(graph, nodes[0])
            assert [depth[node] for node in nodes] == sorted(depth.values())
            assert width == widest(ordered(graph, order))
        starts.add(int(orders[-1, 0]))
    assert starts == set(range(12))


def test_what_is_encoded_is_decoded_exactly(known: ConnectedGraphs) -> None:
    generator = torch.Generator().manual_seed(1)
    orders, widths = known.shuffled_orders(torch.arange(len(GRAPHS)), generator)
    bits = encode(known.adj, known.sizes, orders, int(widths.max()))
    for graph, order, back in zip(GRAPHS, orders, decode(bits), strict=True):
        np.testing.assert_array_equal(gln.to_numpy(back), ordered(graph, order))


def test_narrow_rows_lose_the_long_edges_alone(known: ConnectedGraphs) -> None:
    orders, _ = breadth_first(known.adj)
    bits = encode(known.adj, known.sizes, orders, 2)
    for graph, order, rows in zip(GRAPHS, orders, bits, strict=True):
        matrix = ordered(graph, order)
        for i in range(1, known.adj.shape[1]):
            expected = [i < len(graph) and i - 1 - j >= 0 and matrix[i, i - 1 - j] for j in range(2)]
            assert rows[i - 1].tolist() == expected


def test_the_first_row_of_zeros_ends_a_graph() -> None:
    bits = torch.tensor(
        [[[1, 0], [0, 1], [0, 0], [1, 1]], [[0, 0], [1, 0], [1, 0], [1, 0]]], dtype=torch.bool
    )
    path, alone = decode(bits)
    np.testing.assert_array_equal(gln.to_numpy(path), [[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    assert (alone.num_nodes, alone.num_edges) == (1, 0)


def test_the_width_is_that_of_the_widest_order() -> None:
    generator = torch.Generator().manual_seed(0)
    for graph, width in ((nx.path_graph(9), 2), (nx.star_graph(6), 6), (nx.path_graph(1), 1)):
        assert ConnectedGraphs.of([gln.as_graph(graph)], CPU).width(200, generator) == width


def test_of_a_disconnected_graph_the_largest_component_is_kept() -> None:
    graph = nx.disjoint_union_all([nx.path_graph(2), nx.cycle_graph(5), nx.path_graph(1)])
    kept = ConnectedGraphs.of([gln.as_graph(graph)], CPU)
    assert kept.sizes.tolist() == [5]
    assert nx.is_isomorphic(nx.from_numpy_array(kept.adj[0].numpy().astype(int)), nx.cycle_graph(5))
