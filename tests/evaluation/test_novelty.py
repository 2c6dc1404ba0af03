"""Two graphs are the same when, and only when, they are isomorphic."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.evaluation import isomorphic, novelty
from gln.evaluation.generation import graph_hashes, isomorphic_of
from gln.graphs import as_graph, make_graph, to_networkx
from tests.conftest import graphs

# The smallest pair of strongly regular graphs with equal parameters: colours never tell them apart.
ROOK = as_graph(nx.line_graph(nx.complete_bipartite_graph(4, 4)))
SHRIKHANDE = as_graph(
    nx.Graph(
        ((i, j), ((i + a) % 4, (j + b) % 4))
        for i in range(4)
        for j in range(4)
        for a, b in ((1, 0), (0, 1), (1, 1))
    )
)
SYMMETRIC = {
    "grid": nx.grid_2d_graph(6, 6),
    "torus": nx.grid_2d_graph(5, 5, periodic=True),
    "caveman": nx.connected_caveman_graph(4, 6),
    "regular": nx.random_regular_graph(3, 40, seed=0),
    "matching": nx.disjoint_union_all([nx.path_graph(2)] * 20),
    "complete": nx.complete_graph(30),
    "empty": nx.empty_graph(500),
}


def shuffled(graph, seed: int = 0):
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    return make_graph(edges=order[edges].T, num_nodes=graph.num_nodes)


@given(graphs(pos_width=None, max_nodes=6), graphs(pos_width=None, max_nodes=6))
def test_agrees_with_networkx(one, other) -> None:
    assert isomorphic(one, other) is nx.is_isomorphic(to_networkx(one), to_networkx(other))


@given(graphs(pos_width=None, max_nodes=6), st.integers(0, 99), st.data())
def test_moving_an_edge_is_noticed_and_renaming_is_not(graph, seed, data) -> None:
    renamed = shuffled(graph, seed)
    assert isomorphic(graph, renamed) is True
    assert graph_hashes([graph]) == graph_hashes([renamed])
    full = nx.complement(to_networkx(graph))
    assume(graph.num_edges and full.number_of_edges())
    moved = to_networkx(graph)
    moved.remove_edge(*data.draw(st.sampled_from(sorted(moved.edges))))
    moved.add_edge(*data.draw(st.sampled_from(sorted(full.edges))))
    assert isomorphic(graph, as_graph(moved)) is nx.is_isomorphic(to_networkx(graph), moved)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_graphs_are_settled(name) -> None:
    graph = as_graph(SYMMETRIC[name])
    assert isomorphic(graph, shuffled(graph)) is True


def test_hash_is_of_the_graph_alone() -> None:
    many = [as_graph(graph) for graph in SYMMETRIC.values()]
    assert graph_hashes(many) == [graph_hashes([graph])[0] for graph in many]
    assert len(set(graph_hashes(many))) == len(many)


def test_what_colours_cannot_tell_the_search_can() -> None:
    assert graph_hashes([ROOK]) == graph_hashes([SHRIKHANDE])
    assert isomorphic(ROOK, SHRIKHANDE) is False
    assert isomorphic(ROOK, SHRIKHANDE, budget=2) is None
    assert novelty([ROOK], [SHRIKHANDE, shuffled(ROOK)]) == {"novelty": 0.5, "uniqueness": 1.0}


def test_a_pair_too_hard_counts_as_the_same_and_is_reported(monkeypatch) -> None:
    monkeypatch.setattr(isomorphic_of, "__defaults__", (2,))
    scores = novelty([ROOK], [SHRIKHANDE])
    assert scores == {"novelty": 0, "uniqueness": 1}
    assert "1 pairs were too hard" in str(scores)


def test_copying_the_training_graphs_is_found_out() -> None:
    training = [as_graph(nx.gnp_random_graph(12, 0.3, seed=seed)) for seed in range(6)]
    fresh = [as_graph(nx.gnp_random_graph(12, 0.3, seed=seed)) for seed in range(6, 10)]
    assert novelty(training, [shuffled(graph) for graph in training]) == {"novelty": 0, "uniqueness": 1}
    assert novelty(training, [shuffled(training[0], seed) for seed in range(4)])["uniqueness"] == 0.25
    assert novelty(training, fresh) == {"novelty": 1, "uniqueness": 1}
    assert novelty(training, [training[0], fresh[0], shuffled(fresh[0]), fresh[1]]) == {
        "novelty": 0.75,
        "uniqueness": 0.75,
    }


def test_mistakes_are_named() -> None:
    with pytest.raises(GLNError, match="generated is empty"):
        novelty([ROOK], [])


def test_the_order_of_the_edges_and_the_kind_of_graph_do_not_matter() -> None:
    graph = as_graph(nx.gnp_random_graph(12, 0.4, seed=3))
    unsorted = Data(edge_index=graph.edge_index.flip(1), num_nodes=12)
    assert isomorphic(graph, unsorted) is True
    assert isomorphic(to_networkx(graph), unsorted) is True
    with pytest.raises(GLNError, match="directed"):
        isomorphic(graph, nx.DiGraph([(0, 1)]))
