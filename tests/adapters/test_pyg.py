"""GLNGraph keeps the contract of a PyG transform."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Center, Compose

from gln.adapters.pyg import GLNGraph
from gln.models.gln import GLN


def transform() -> GLNGraph:
    torch.manual_seed(0)
    model = GLN(pos_channels=2, width=8, pair_width=8, steps=1)
    model.threshold = 0.0  # every pair
    return GLNGraph(model)


def points(nodes: int, edges: bool) -> Data:
    data = Data(pos=torch.rand(nodes, 2), y=torch.tensor([float(nodes), 0.0]))
    if edges:
        data.edge_index, data.edge_attr = torch.tensor([[0, 1], [1, 0]]), torch.ones(2, 3)
    return data


@pytest.mark.parametrize("edges", [False, True])
def test_a_batch_comes_apart_into_the_graphs_that_each_would_get_alone(edges: bool) -> None:
    sets = [points(nodes, edges) for nodes in (3, 5, 2)]
    batch, joins = Batch.from_data_list(sets), transform()
    before = batch.to_data_list()
    for got, single in zip(joins(batch).to_data_list(), sets, strict=True):
        alone = joins(single)
        assert got.edge_index.tolist() == alone.edge_index.tolist()
        torch.testing.assert_close(got.edge_prob, alone.edge_prob)
        assert got.y.tolist() == single.y.tolist()
    for one, two in zip(batch.to_data_list(), before, strict=True):  # the batch itself is as it was
        assert one.to_dict().keys() == two.to_dict().keys()
        assert all(torch.equal(one[key], two[key]) for key in one.to_dict())


def test_what_is_as_long_as_the_old_edges_by_chance_stays() -> None:
    single = transform()(points(5, edges=True))  # two edges, and a label of two numbers
    assert single.y.tolist() == [5.0, 0.0]
    assert "edge_attr" not in single
    batch = Batch.from_data_list([points(4, edges=True), points(3, edges=True)])
    batch.edge_index = batch.edge_index[:, :3]  # as long as ptr, and not those that the batch was made of
    assert transform()(batch).ptr.tolist() == [0, 4, 7]


def test_it_works_in_a_chain_and_in_a_loader() -> None:
    chain = Compose([Center(), transform()])
    (batch,) = DataLoader([chain(points(nodes, edges=True)) for nodes in (3, 4)], batch_size=2)
    assert batch.num_edges == 3 * 2 + 4 * 3
    assert batch.edge_prob.shape == (batch.num_edges,)


def test_it_says_what_it_is_and_leaves_out_probabilities_only_if_asked() -> None:
    assert repr(transform()) == "GLNGraph('GLN', threshold=0.0, edge_prob=True)"
    assert (
        repr(GLNGraph("delaunay-small", 0.7)) == "GLNGraph('delaunay-small', threshold=0.7, edge_prob=True)"
    )
    assert "edge_prob" not in GLNGraph(transform().model, edge_prob=False)(points(3, edges=False))
