"""Set2Graph: its formula, its symmetries, padding, files, and that it learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import gln
from gln.errors import GLNError
from gln.graphs import GraphBatch, make_graph
from gln.models.set2graph import Set2Graph
from gln.training.losses import Loss


def points(seed: int, count: int, width: int = 2) -> Data:
    return make_graph(pos=np.random.default_rng(seed).random((count, width), dtype=np.float32))


def model(seed: int = 0, **settings: object) -> Set2Graph:
    torch.manual_seed(seed)
    return Set2Graph(size="small", **settings).double()  # type: ignore[arg-type]


def scores(net: Set2Graph, graphs: list[Data]) -> list[Tensor]:
    """The scores of each graph without its padding."""
    output = net(GraphBatch.from_graphs(graphs))
    return [matrix[: g.num_nodes, : g.num_nodes] for matrix, g in zip(output.logits[-1], graphs, strict=True)]


@pytest.mark.parametrize("total", [False, True])
def test_the_scores_are_the_formula_pair_by_pair(total: bool) -> None:
    net, graph = model(total=total), points(0, 5)
    h = graph.pos.double()
    for number, layer in enumerate(net.set_layers):
        h = h.relu() if number else h
        h = (
            h @ layer.own.weight.T
            + layer.own.bias
            + (h - h.mean(0)) @ layer.apart.weight.T
            + layer.apart.bias
        )
        h = h / h.norm(dim=1, keepdim=True)
    both = torch.empty(5, 5, dtype=torch.float64)
    for i in range(5):
        for j in range(5):
            pair = torch.cat([h[i], h[j], h.mean(0)] if total else [h[i], h[j]])
            pair = net.first(pair)
            for layer in net.pair_layers:
                pair = layer(pair.relu())
            both[i, j] = pair
    torch.testing.assert_close(scores(net, [graph])[0], (both + both.T) / 2)


@pytest.mark.parametrize("total", [False, True])
def test_padding_changes_nothing(total: bool) -> None:
    net, graphs = model(total=total), [points(seed, count) for seed, count in enumerate([7, 1, 4, 12])]
    for together, graph in zip(scores(net, graphs), graphs, strict=True):
        torch.testing.assert_close(together, scores(net, [graph])[0])
    output = net(GraphBatch.from_graphs(graphs))
    assert output.mask.sum((1, 2)).tolist() == [42, 0, 12, 132]
    assert not output.states[0][1, 1:].any()


def test_permuting_the_nodes_permutes_the_scores_and_they_are_symmetric() -> None:
    net, graph = model(), points(0, 9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    plain, shuffled = scores(net, [graph])[0], scores(net, [make_graph(pos=graph.pos[order])])[0]
    torch.testing.assert_close(shuffled, plain[order][:, order])
    assert torch.equal(plain, plain.T)


def test_positions_and_features_are_read_together() -> None:
    net = model(in_channels=3, pos_channels=2)
    graph = make_graph(pos=points(0, 6).pos, x=points(1, 6, 3).pos)
    as_one = make_graph(pos=torch.cat([graph.pos, graph.x], dim=1))
    torch.testing.assert_close(scores(net, [graph])[0], scores(net, [as_one])[0])


def test_the_published_widths_have_the_published_number_of_weights() -> None:
    count = sum(weight.numel() for weight in Set2Graph().parameters())
    diagonal = (160 + 1) * 1000 + (1000 + 1) * 1000 + 1001  # a second pair network, which is never asked here
    assert round((count + diagonal) / 1e6, 1) == 5.9


def near(seed: int) -> Data:
    """Edges between points up to a half apart."""
    graph = points(seed, 20)
    apart = torch.cdist(graph.pos, graph.pos)
    return make_graph(pos=graph.pos, edges=(apart <= 0.5).triu(1).nonzero())


def test_a_threshold_on_the_distance_is_learned_and_kept(
    tmp_path: Path,
) -> None:
    graphs = [near(seed) for seed in range(500)]
    torch.manual_seed(0)
    net = Set2Graph(size="small")
    how = {"epochs": 15, "batch_size": 16, "lr": 5e-3, "accelerator": "cpu", "progress": False}
    loss = Loss(edge="plain", structure="none")
    gln.fit(net, graphs[:400], graphs[400:450], run=tmp_path, loss=loss, **how)
    assert gln.evaluate(net, graphs[450:])["dice"] > 0.98
    ours, theirs = gln.predict(net, graphs[-1]), gln.predict(gln.load(tmp_path), graphs[-1])
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert torch.equal(ours.edge_prob, theirs.edge_prob)


def test_mistakes_are_told_in_one_sentence() -> None:
    with pytest.raises(GLNError, match="size='large'; choose from published, small"):
        Set2Graph(size="large")  # type: ignore[arg-type]
    with pytest.raises(GLNError, match="a node needs a position or a feature"):
        Set2Graph(in_channels=0, pos_channels=0)
    with pytest.raises(GLNError, match="Got 3 values per node"):
        model()(GraphBatch.from_graphs([points(0, 4, 3)]))
    with pytest.raises(GLNError, match="in one step"):
        gln.predict(model(), points(0, 4), steps=3)
