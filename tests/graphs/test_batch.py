"""Padding and packing have exact ways back."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs import GraphBatch, make_graph, pack, to_numpy, unpack
from tests.conftest import assert_same_graph, graphs


@pytest.mark.parametrize(("pos_width", "x_width"), [(2, None), (None, 3), (3, 1), (None, None)])
@given(data=st.data())
def test_padding_and_back(data: st.DataObject, pos_width: int | None, x_width: int | None) -> None:
    originals = data.draw(st.lists(graphs(pos_width, x_width), min_size=1, max_size=4))
    for actual, expected in zip(GraphBatch.from_graphs(originals).to_graphs(), originals, strict=True):
        assert_same_graph(actual, expected)


@pytest.mark.parametrize("directed", [False, True])
@given(data=st.data())
def test_kinds_are_padded_and_come_back(data: st.DataObject, directed: bool) -> None:
    originals = data.draw(st.lists(graphs(kinds=True, directed=directed), min_size=1, max_size=4))
    batch = GraphBatch.from_graphs(originals)
    assert batch.directed == directed
    assert torch.equal(batch.edge_type >= 0, batch.adj)
    assert torch.equal(batch.edge_weight > 0, batch.adj)
    assert torch.equal(batch.node_type >= 0, batch.mask)
    if not directed:
        assert torch.equal(batch.edge_type, batch.edge_type.mT)
    last = batch.to("cpu").some(torch.tensor([len(originals) - 1]), originals[-1].num_nodes)
    for actual, expected in zip(
        [*batch.to_graphs(), *last.to_graphs()], [*originals, originals[-1]], strict=True
    ):
        assert_same_graph(actual, expected)
    plain = batch.without_edges()
    assert plain.edge_type is plain.edge_weight is plain.node_type is None


def test_kinds_that_are_not_wanted_or_not_everywhere() -> None:
    typed = make_graph([[0.0], [1.0]], edges=[[0, 1]], edge_type=[1])
    plain = make_graph([[0.0], [1.0]], edges=[[0, 1]])
    empty = make_graph([[0.0]])
    assert GraphBatch.from_graphs([typed, empty]).edge_type.shape == (2, 2, 2)
    assert GraphBatch.from_graphs([typed, plain], kinds=()).edge_type is None
    with pytest.raises(GLNError, match="1 of 2 graphs have no edge_type"):
        GraphBatch.from_graphs([typed, plain])
    with pytest.raises(GLNError, match="Some of the graphs are directed"):
        GraphBatch.from_graphs([plain, make_graph([[0.0], [1.0]], edges=[[0, 1]], directed=True)])


@given(st.lists(graphs(x_width=1), min_size=1, max_size=4))
def test_padding_is_zero_and_real_nodes_come_first(originals: list[Data]) -> None:
    batch = GraphBatch.from_graphs(originals)
    assert len(batch) == len(originals)
    assert batch.sizes.tolist() == [graph.num_nodes for graph in originals]
    assert batch.features.shape[-1] == 3
    assert not batch.features[~batch.mask].any()
    assert not batch.adj[~batch.pair_mask].any()
    for index, graph in enumerate(originals):
        n = graph.num_nodes
        assert batch.mask[index, :n].all()
        assert (batch.adj[index, :n, :n].numpy() == to_numpy(graph)).all()
        assert int(batch.pair_mask[index].sum()) == n * (n - 1)


@given(st.lists(graphs(x_width=2), min_size=1, max_size=4))
def test_packing_and_back_with_any_further_attribute(originals: list[Data]) -> None:
    for number, graph in enumerate(originals):
        graph.kind = torch.tensor(number)
        graph.region = torch.arange(graph.num_nodes)
        graph.edge_prob = torch.rand(graph.num_edges)
    for actual, expected in zip(unpack(pack(originals)), originals, strict=True):
        assert_same_graph(actual, expected)


def test_graphs_of_one_batch_must_carry_the_same_features() -> None:
    with pytest.raises(GLNError, match="x differs"):
        GraphBatch.from_graphs([make_graph(x=[[1.0]]), make_graph(x=[[1.0, 2.0]])])
    with pytest.raises(GLNError, match="1 of 2 graphs have no pos"):
        GraphBatch.from_graphs([make_graph(pos=[[1.0]], x=[[1.0]]), make_graph(x=[[1.0]])])
    with pytest.raises(GLNError, match="at least one graph"):
        GraphBatch.from_graphs([])
    with pytest.raises(GLNError, match="neither pos nor x"):
        _ = GraphBatch.from_graphs([make_graph(num_nodes=2)]).features


def test_without_edges_the_nodes_are_the_same_and_the_adjacency_takes_no_memory() -> None:
    nodes = [make_graph([[0.0], [1.0], [2.0]], edges=[[0, 1]]), make_graph([[5.0]])]
    whole = GraphBatch.from_graphs(nodes)
    for batch in (GraphBatch.from_graphs(nodes, edges=False), whole.without_edges()):
        for moved in (batch, batch.to("cpu"), batch.to("meta")):
            assert moved.adj.shape == whole.adj.shape
            assert moved.adj.untyped_storage().nbytes() == 1
        assert not batch.adj.any()
        assert torch.equal(batch.mask, whole.mask)
        assert batch.pos is not None
        assert torch.equal(batch.pos, whole.pos)


def test_features_that_are_all_equal_keep_their_shape_when_moved() -> None:
    mask = torch.ones(2, 3, dtype=torch.bool)
    batch = GraphBatch(
        pos=torch.zeros(()).expand(2, 3, 2), x=None, adj=mask[:, None] & mask[:, :, None], mask=mask
    )
    assert batch.to("cpu").pos.shape == (2, 3, 2)
