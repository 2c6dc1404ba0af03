"""Where nodes without positions are drawn."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from gln.families import parse_family
from gln.graphs.check import make_graph
from gln.graphs.record import Graph
from gln.viewing.pictures import laid_out


@pytest.mark.parametrize("seed", range(3))
def test_a_planar_graph_is_drawn_without_crossings(seed: int) -> None:
    (graph,) = parse_family("planar:nodes=30").graphs(1, seed=seed)
    where, edges = laid_out(graph), graph.edges_once().tolist()
    assert not [pair for pair in combinations(edges, 2) if crossed(where, *pair)]


@pytest.mark.parametrize(
    "edges", [[], [[0, 1], [2, 3]], [[0, 1], [1, 2], [1, 3]], [*combinations(range(5), 2)]]
)
def test_any_other_graph_has_places_too(edges: list) -> None:
    graph = make_graph(edges=np.array(edges, dtype=int).reshape(-1, 2), num_nodes=5)
    where = laid_out(Graph(5, edge_index=graph.edge_index))
    assert where.shape == (5, 2)
    assert np.isfinite(where).all()
    assert len(np.unique(where.round(6), axis=0)) == 5


def crossed(where: np.ndarray, one: list[int], other: list[int]) -> bool:
    """Whether two edges without a common end cross."""
    if set(one) & set(other):
        return False
    (a, b), (c, d) = where[one], where[other]
    return turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0


def turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    return float((b - a)[0] * (c - a)[1] - (b - a)[1] * (c - a)[0])
