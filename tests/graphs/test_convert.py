"""Conversions lose nothing, isolated nodes included."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs import as_graph, as_graphs, make_graph, to_networkx, to_numpy, to_scipy
from tests.conftest import assert_same_graph, graphs


@given(graphs(x_width=3))
def test_networkx_and_back(graph: Data) -> None:
    assert_same_graph(as_graph(to_networkx(graph)), graph)


@pytest.mark.parametrize(
    "matrix",
    [to_numpy, to_scipy, lambda g: torch.from_numpy(to_numpy(g)), lambda g: sp.coo_matrix(to_scipy(g))],
)
@given(graph=graphs(x_width=1))
def test_matrices_and_back(matrix: Callable, graph: Data) -> None:
    assert_same_graph(as_graph(matrix(graph), pos=graph.pos, x=graph.x), graph)


@given(graphs())
def test_pyg_data_stays_itself(graph: Data) -> None:
    assert_same_graph(as_graph(graph), graph)


def test_networkx_labels_are_numbered_in_their_order() -> None:
    source = nx.Graph([("b", "a")])
    source.add_node("alone")
    graph = as_graph(source)
    assert graph.num_nodes == 3
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]


def test_a_directed_graph_with_every_edge_both_ways_is_undirected() -> None:
    assert as_graph(nx.DiGraph([(0, 1), (1, 0)])).num_edges == 2


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (nx.DiGraph([(0, 1)]), "symmetrise"),
        (nx.Graph([(0, 0)]), "edge to itself"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "listed twice"),
        (nx.Graph([(0, 1, {"weight": 0.5})]), "weight 0.5"),
        (nx.Graph(), "no nodes"),
        (np.array([[0, 1], [0, 0]]), "symmetrise"),
        (np.array([[0, 2], [2, 0]]), "only 0 and 1"),
        (np.array([[0, np.nan], [np.nan, 0]]), "only 0 and 1"),
        (np.eye(2), "edge to itself"),
        (np.zeros((2, 3)), "square"),
        (np.zeros((0, 0)), "no nodes"),
        (sp.csr_array([[0, 1], [0, 0]]), "symmetrise"),
        ("graph.txt", "expected a graph"),
    ],
)
def test_what_is_not_an_undirected_graph_is_refused(bad: object, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        as_graph(bad)


def test_a_list_names_the_graph_that_is_wrong() -> None:
    good = make_graph(num_nodes=2)
    with pytest.raises(GLNError, match=r"reference\[1\]: The adjacency matrix holds 3"):
        as_graphs([good, np.array([[0, 3], [3, 0]])], "reference")
    with pytest.raises(GLNError, match="empty"):
        as_graphs([], "reference")
    with pytest.raises(GLNError, match="expected a list"):
        as_graphs(good, "reference")
