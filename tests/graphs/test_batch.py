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
    with pytest.raises(GLNError, match="pos differs"):
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
