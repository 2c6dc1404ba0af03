"""What passes the door, what does not, and what it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch_geometric.data import Batch, Data

from gln.errors import GLNError
from gln.graphs import check_graph, make_graph
from gln.graphs.record import KINDS, Graph
from tests.conftest import assert_same_graph, graphs

TWO = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
PAIR = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Data(pos=torch.tensor([[0.0, float("nan")]])), "pos of node 0"),
        (Data(pos=TWO, x=torch.tensor([[1.0], [float("inf")]])), "x of node 1"),
        (Data(pos=TWO, edge_index=torch.tensor([[0, 2], [2, 0]])), "numbered 0 to 1"),
        (Data(pos=TWO, edge_index=torch.tensor([[0, -1], [-1, 0]])), "names node -1"),
        (Data(pos=TWO, edge_index=torch.tensor([[1], [1]])), "edge to itself"),
        (Data(pos=TWO, edge_index=torch.tensor([[0], [1]])), "symmetrise"),
        (Data(pos=TWO, edge_index=torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]])), "listed twice"),
        (Data(pos=TWO, x=torch.zeros(3, 1)), "3 nodes"),
        (Data(pos=TWO, num_nodes=5), "one row per node"),
        (Data(pos=torch.zeros(4)), "one row per node"),
        (Data(pos=TWO, edge_index=torch.tensor([[0.0, 1.0], [1.0, 0.0]])), "whole numbers"),
        (Data(pos=torch.zeros(0, 2)), "no nodes"),
        (Data(num_nodes=0), "no nodes"),
        (Data(num_nodes=-1), "whole number of at least 1"),
        (Data(num_nodes=True), "whole number of at least 1"),
        (Data(num_nodes=2.0), "whole number of at least 1"),
        (Data(edge_index=torch.tensor([[0, 1], [1, 0]])), "set num_nodes"),
        (Data(pos=TWO, edge_index=[[0, 1], [1, 0]]), "edge_index is a list"),
        (Data(pos=TWO, edge_prob=torch.ones(3)), "edge_prob has 3 rows, but there are 0 columns"),
        (Data(pos=TWO, edge_name=["a"]), "edge_name is a list"),
        (Data(pos=torch.tensor([[1e39]], dtype=torch.float64)), r"\[1e\+39\], too large for float32"),
        (Data(pos=1e-15 * TWO), "spreads over 1e-15; expected 1e-14 to 1e\\+18, so change the unit"),
        (Data(pos=1e19 * TWO), "spreads over 1e\\+19"),
        (Batch.from_data_list([Data(pos=TWO)]), "to_data_list"),
        ([[0, 1], [1, 0]], "Got a list; expected a PyG Data"),
    ],
)
def test_a_bad_graph_gets_one_sentence(bad: Data, message: str) -> None:
    with pytest.raises(GLNError, match=message) as caught:
        check_graph(bad)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"pos": [[0, 1], [2]]}, "ragged"),
        ({"pos": [["a", "b"]]}, "not a number"),
        ({"pos": TWO, "edges": [[0, 1, 1]]}, r"expected \[m, 2\]"),
        ({"pos": TWO, "edges": [[0, 0.5]]}, "whole numbers"),
        ({"pos": TWO, "edges": [[0, 1], [1, 0]]}, "listed twice"),
        ({"pos": TWO, "edges": [[0, 1], [1, 0]]}, r"nx.Graph\(G\)"),
        ({}, "give num_nodes"),
        ({"edges": [[0, 1]]}, "give num_nodes"),
        ({"pos": [[1j]]}, "not a number"),
    ],
)
def test_bad_arrays_get_one_sentence(bad: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        make_graph(**bad)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"edge_type": torch.tensor([0.5, 0.5])}, r"edge_type holds 0\.5; expected whole numbers"),
        ({"edge_type": torch.tensor([float("nan")] * 2)}, "edge_type holds nan"),
        ({"edge_type": torch.tensor([-1, -1])}, "edge_type holds -1"),
        ({"edge_type": torch.tensor([1])}, "edge_type has 1 rows"),
        ({"edge_type": torch.eye(2)}, r"edge_type has shape \[2, 2\]"),
        ({"edge_type": torch.tensor([0, 1])}, "edge_type is 0 from 0 to 1 but 1 back; .* directed=True"),
        ({"edge_type": torch.tensor([1, 1]), "edge_type_names": ["a"]}, "only 1 types have names"),
        ({"edge_weight": torch.tensor([0.0, 0.0])}, "edge_weight holds 0; .* above 0"),
        ({"edge_weight": torch.tensor([-1.0, -1.0])}, "edge_weight holds -1"),
        ({"edge_weight": torch.tensor([float("inf")] * 2)}, "edge_weight holds inf"),
        ({"edge_weight": torch.tensor([1e39] * 2, dtype=torch.float64)}, r"edge_weight holds 1e\+39"),
        ({"edge_weight": torch.tensor([1.0, 2.0])}, "edge_weight is 1 from 0 to 1 but 2 back"),
        ({"node_type": torch.tensor([0, 1, 2])}, "node_type has 3 values"),
        ({"node_type": ["a", "b"]}, "node_type has shape list"),
    ],
)
def test_bad_kinds_get_one_sentence(kinds: dict, message: str) -> None:
    with pytest.raises(GLNError, match=message):
        check_graph(Data(pos=TWO, edge_index=PAIR, **kinds))


def test_kinds_are_stored_in_one_type_and_sorted_with_their_edges() -> None:
    graph = check_graph(
        Data(
            num_nodes=3,
            edge_index=torch.tensor([[2, 0, 1], [0, 1, 0]]),
            edge_type=torch.tensor([2.0, 0.0, 1.0]),
            edge_weight=torch.tensor([1, 2, 3]),
            node_type=torch.tensor([3, 0, 0], dtype=torch.int8),
            node_type_names=["a", "b", "c", "d"],
            directed=True,
        )
    )
    assert graph.edge_index.tolist() == [[0, 1, 2], [1, 0, 0]]
    assert graph.edge_type.tolist() == [0, 1, 2]
    assert graph.edge_weight.tolist() == [2, 3, 1]
    assert [graph[name].dtype for name in KINDS] == [torch.int64, torch.float32, torch.int64]
    assert graph.edges_once().tolist() == [[0, 1], [1, 0], [2, 0]]
    assert graph.to_data().node_type_names == ["a", "b", "c", "d"]
    assert check_graph(Graph(2, directed=False)).keys() == check_graph(Graph(2)).keys()


@pytest.mark.parametrize("directed", [False, True])
@given(data=st.data())
def test_what_is_listed_once_makes_the_graph_again(data: st.DataObject, directed: bool) -> None:
    graph = data.draw(graphs(kinds=True, directed=directed))
    once = graph.listed_once()
    kinds = {name: graph[name][once] for name in ("edge_type", "edge_weight")}
    again = make_graph(
        graph.pos, None, graph.edges_once(), **kinds, node_type=graph.node_type, directed=directed
    )
    assert_same_graph(again, graph)
    assert_same_graph(graph.some_edges(torch.arange(graph.num_edges)), graph)


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_large_positions_are_centred_before_float32_rounds_them(make: Callable[..., Any]) -> None:
    small = np.random.default_rng(0).random((20, 2))
    large = make(small + np.array([691_607.25, 5_334_759.5]))
    found = make_graph(pos=large).pos
    assert found.dtype == torch.float32
    assert torch.allclose(found - found[0], torch.tensor(small - small[0]).float(), atol=1e-6)
    exact = make_graph(pos=make([[2.0**24, 1.0], [2.0**24 + 2, 2.0]])).pos  # no digits to lose
    assert exact[0, 0] == 2**24


@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_nodes_are_legal(n: int) -> None:
    graph = make_graph(pos=[[0.0, 0.0]] * n, edges=[[0, 1]] if n == 2 else None)
    assert graph.num_nodes == n
    assert graph.edge_index.shape == (2, 2 * (n - 1))


@given(graphs(x_width=1))
def test_the_canonical_form_is_a_fixed_point_for_any_order_of_edges(graph: Data) -> None:
    shuffled = graph.clone()
    shuffled.edge_index = graph.edge_index[:, torch.randperm(graph.num_edges)].flip(0)
    assert_same_graph(check_graph(shuffled), graph)


def test_the_graph_passed_in_is_not_changed() -> None:
    edges = torch.tensor([[1, 0], [0, 1]], dtype=torch.int32)
    graph = Data(pos=TWO.double(), edge_index=edges)
    checked = check_graph(graph)
    assert graph.edge_index is edges
    assert graph.pos.dtype == torch.float64
    assert checked.edge_index.tolist() == [[0, 1], [1, 0]]
    assert checked.pos.dtype == torch.float32


def test_what_belongs_to_an_edge_is_sorted_with_it() -> None:
    graph = Data(pos=TWO, edge_index=torch.tensor([[1, 0], [0, 1]]), edge_prob=torch.tensor([0.1, 0.9]))
    assert check_graph(graph).edge_prob.tolist() == pytest.approx([0.9, 0.1])


def test_positions_that_float32_holds_exactly_may_lie_anywhere() -> None:
    assert make_graph(pos=[[2.0**30], [2.0**30 + 128]]).pos.tolist() == [[2.0**30], [2.0**30 + 128]]
    assert make_graph(pos=torch.tensor([[True], [False]])).pos.tolist() == [[1.0], [0.0]]
    assert make_graph(x=[[1e9 + 0.1], [1e9 + 1.3]]).num_nodes == 2  # features may be large


def test_what_is_named_an_index_is_not_per_edge() -> None:
    graph = Data(pos=TWO, edge_label_index=torch.zeros(2, 5, dtype=torch.int64))
    assert check_graph(graph).edge_label_index.shape == (2, 5)


@pytest.mark.parametrize(("dtype", "nodes"), [(torch.int8, 200), (torch.uint8, 256), (torch.int32, 3)])
def test_edges_of_any_type_of_whole_number_are_the_same(dtype: torch.dtype, nodes: int) -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    graph = check_graph(Data(num_nodes=nodes, edge_index=edges.to(dtype)))
    assert graph.edge_index.dtype == torch.int64
    assert graph.edge_index.equal(edges)
