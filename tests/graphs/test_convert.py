"""Conversions lose nothing, isolated nodes included."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from torch.utils.data import Subset
from torch_geometric.data import Batch, Data

from gln.errors import GLNError
from gln.graphs import as_graph, as_graphs, make_graph, pack, to_networkx, to_numpy, to_scipy, unpack
from gln.graphs.convert import as_graph_pairs, rename_types
from tests.conftest import assert_same_graph, graphs

PAIR = torch.tensor([[0, 1], [1, 0]])


@given(graphs(x_width=3))
def test_networkx_and_back(graph: Data) -> None:
    assert_same_graph(as_graph(to_networkx(graph)), graph)


@pytest.mark.parametrize(
    "matrix",
    [
        to_numpy,
        to_scipy,
        lambda g: torch.from_numpy(to_numpy(g)),
        lambda g: sp.coo_matrix(to_scipy(g)),
        lambda g: to_numpy(g).astype(np.float16),
        lambda g: torch.from_numpy(to_numpy(g)).bfloat16(),
        lambda g: torch.from_numpy(to_numpy(g)).to_sparse(),
        lambda g: torch.from_numpy(to_numpy(g)).half().to_sparse_csr(),
    ],
)
@given(graph=graphs(x_width=1))
def test_matrices_and_back(matrix: Callable, graph: Data) -> None:
    assert_same_graph(as_graph(matrix(graph), pos=graph.pos, x=graph.x), graph)


@given(graphs())
def test_pyg_data_stays_itself(graph: Data) -> None:
    assert_same_graph(as_graph(graph), graph)


def test_networkx_nodes_that_are_numbers_keep_them_however_they_were_added() -> None:
    path = nx.path_graph(4)
    nx.set_node_attributes(path, {node: [float(node)] for node in path}, "x")
    backwards = nx.Graph()
    backwards.add_nodes_from((node, path.nodes[node]) for node in (3, 1, 0, 2))
    backwards.add_edges_from(path.edges)
    assert_same_graph(as_graph(backwards), as_graph(path))


def test_networkx_labels_are_numbered_in_their_order() -> None:
    source = nx.Graph([("b", "a")])
    source.add_node("alone")
    graph = as_graph(source)
    assert graph.num_nodes == 3
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]


def test_a_directed_graph_stays_one_even_with_every_edge_both_ways() -> None:
    graph = as_graph(nx.DiGraph([(0, 1), (1, 0)]))
    assert graph.directed
    assert graph.edges_once().tolist() == [[0, 1], [1, 0]]
    assert as_graph(np.array([[0, 1], [0, 0]]), directed=True).edges_once().tolist() == [[0, 1]]


@pytest.mark.parametrize("directed", [False, True])
@given(data=st.data())
def test_kinds_come_back_from_every_form(data: st.DataObject, directed: bool) -> None:
    graph = data.draw(graphs(kinds=True, directed=directed).filter(lambda graph: graph.num_edges))
    assert_same_graph(as_graph(to_networkx(graph)), graph)
    assert_same_graph(as_graph(graph.to_data()), graph)
    assert_same_graph(unpack(pack([graph, graph]))[1], graph)
    weights = graph.edge_weight
    for matrix in (to_scipy(graph), to_numpy(graph), torch.from_numpy(to_numpy(graph)).to_sparse()):
        again = as_graph(matrix, directed=directed)
        assert torch.equal(again.edge_index, graph.edge_index)
        assert torch.equal(weights if again.edge_weight is None else again.edge_weight, weights)
    graph.edge_type_names, graph.node_type_names = ("d", "c", "a", "b"), tuple("wxyz")
    assert_same_graph(as_graph(to_networkx(graph)), graph)
    assert_same_graph(as_graph(graph.to_data()), graph)
    assert_same_graph(unpack(pack([graph, graph]))[1], graph)


def test_words_have_one_number_in_all_graphs() -> None:
    first = nx.Graph([(0, 1, {"type": "pull"})])
    second = nx.Graph([(0, 1, {"type": "push"}), (1, 2, {"type": "hold"})])
    graphs = as_graphs([first, second, nx.empty_graph(2)])
    assert {graph.edge_type_names for graph in graphs[:2]} == {("hold", "pull", "push")}
    assert [graph.edge_type[graph.listed_once()].tolist() for graph in graphs] == [[1], [2, 0], []]
    true, predicted = as_graph_pairs(
        [second], [nx.Graph([(0, 1, {"type": "push"}), (1, 2, {"type": "push"})])]
    )
    assert torch.equal(true[0].edge_type == predicted[0].edge_type, torch.tensor([True, True, False, False]))
    with pytest.raises(GLNError, match="in words for some graphs and in numbers"):
        as_graphs([first, nx.Graph([(0, 1, {"type": 1})])])
    with pytest.raises(GLNError, match="There is no edge_type 'hold'; expected one of 'pull', 'push'"):
        rename_types(graphs[1], "edge_type", ["pull", "push"])


def test_weights_of_a_social_network_are_read_and_where_structure_counts_named_once() -> None:
    karate = nx.karate_club_graph()
    graph = as_graph(karate)
    assert graph.edge_weight.sum() == 2 * sum(weight for _, _, weight in karate.edges(data="weight"))
    for source in (karate, graph.to_data(), to_scipy(graph)):
        with pytest.warns(UserWarning, match="edge_weight is not looked at here"):
            bare = as_graph(source, kinds=False)
        assert bare.edge_weight is None
        assert torch.equal(bare.edge_index, graph.edge_index)
    karate.edges[0, 1]["type"] = {"of": "no kind"}
    assert as_graph(karate, kinds=False).num_edges == graph.num_edges
    with pytest.raises(GLNError, match="77 of the 78 edges have no type"):
        as_graph(karate)


@pytest.mark.parametrize(
    "source",
    [
        nx.Graph([(0, 0, {"weight": 3.0}), (0, 1, {"weight": 2.0})]),
        np.array([[1, 2], [2, 0]]),
        Data(
            num_nodes=2,
            edge_index=torch.tensor([[1, 0, 0], [0, 0, 1]]),
            edge_weight=torch.tensor([2.0, 3.0, 2.0]),
        ),
    ],
)
def test_self_loops_are_dropped_with_a_warning_and_what_belongs_to_them(source: object) -> None:
    with pytest.warns(UserWarning, match="from a node to itself"):
        graph = as_graph(source)
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
    assert graph.edge_weight.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (nx.MultiGraph([(0, 1), (0, 1)]), "listed twice"),
        (nx.Graph(), "no nodes"),
        (np.array([[0, 1], [0, 0]]), "symmetrise"),
        (np.array([[0, np.nan], [np.nan, 0]]), "matrix holds nan; expected 0, 1 or positive weights"),
        (np.array([[0, 1, 2], [3, 0, 2], [2, 2, 0]]), "edge_weight is 1 from 0 to 1 but 3 back"),
        (nx.Graph([(0, 1, {"weight": -0.5})]), "edge_weight holds -0.5"),
        (nx.Graph([(0, 1, {"weight": "much"})]), "edge_weight holds something that is not a number"),
        (nx.Graph([(0, 1, {"type": 0.5})]), "edge_type holds 0.5"),
        (nx.Graph([(0, 1, {"type": 1}), (1, 2, {"type": "a"})]), "neither all words nor all whole numbers"),
        (np.zeros((2, 3)), "square"),
        (np.zeros((0, 0)), "no nodes"),
        (sp.csr_array([[0, 1], [0, 0]]), "symmetrise"),
        ("graph.txt", "expected a graph"),
        (np.array([["0", "1"], ["1", "0"]]), "entries of type <U1"),
        (np.array([[0, None], [None, 0]]), "entries of type object"),
        (torch.sparse_coo_tensor([[0, 1], [1, 0]], [-2.0, -2.0], (2, 2)), "matrix holds -2"),
        (Data(num_nodes=2, edge_index=PAIR, edge_weight=torch.tensor([0.0, 0.0])), "edge_weight holds 0;"),
        (Batch.from_data_list([Data(num_nodes=2)]), "to_data_list"),
    ],
)
def test_what_is_not_a_simple_graph_is_refused(bad: object, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        as_graph(bad)


def test_a_list_names_the_graph_that_is_wrong() -> None:
    good = make_graph(num_nodes=2)
    with pytest.raises(GLNError, match=r"reference\[1\]: The adjacency matrix holds -3"):
        as_graphs([good, np.array([[0, -3], [-3, 0]])], "reference")
    with pytest.raises(GLNError, match="empty"):
        as_graphs([], "reference")
    with pytest.raises(GLNError, match="expected a list"):
        as_graphs(good, "reference")
    for one in (np.zeros((2, 2)), sp.csr_array((2, 2)), torch.zeros(2, 2), {"a": good}):
        with pytest.raises(GLNError, match="expected a list of graphs"):
            as_graphs(one, "reference")
    assert len(as_graphs(Subset([good, good], [0, 1]))) == 2  # a dataset


def test_a_huge_sparse_tensor_is_not_made_dense() -> None:
    assert as_graph(torch.sparse_coo_tensor(PAIR, [1.0, 1.0], (10**6, 10**6))).num_nodes == 10**6


def test_weights_of_one_are_no_weights() -> None:
    assert as_graph(Data(num_nodes=2, edge_index=PAIR, edge_weight=torch.ones(2))).num_edges == 2


def test_an_attribute_on_some_nodes_is_refused_with_the_counts() -> None:
    source = nx.path_graph(3)
    source.nodes[1]["pos"] = [0, 0]
    with pytest.raises(GLNError, match="1 of the 3 nodes have the attribute pos"):
        as_graph(source)
    with pytest.raises(GLNError, match="pos is ragged"):
        as_graph(nx.path_graph(2), pos=[[0, 1], [2]])
