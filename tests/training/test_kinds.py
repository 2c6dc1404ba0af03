"""Kinds are learned: their losses equal their formulas, what is missing is named, and validation scores them."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import gln
from gln.errors import GLNError
from gln.graphs import GraphBatch, make_graph
from gln.graphs.record import Graph
from gln.models.contract import StructureOutput
from gln.models.gln import GLN
from gln.training.data import describe
from gln.training.loop import Loop, fit
from gln.training.losses import Loss

SMALL = {"width": 16, "pair_width": 16, "kernels": 2, "steps": 2}
QUICK: dict[str, Any] = {"batch_size": 8, "lr": 5e-3, "accelerator": "cpu", "progress": False}


def graphs(count: int, seed: int = 0, directed: bool = False) -> list[Graph]:
    """Near points are joined; long edges are of type 1, weights are lengths, and the type of a node its side."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(count):
        points = rng.random((int(rng.integers(4, 9)), 2)).astype(np.float32)
        apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
        above = points[:, None, 0] < points[None, :, 0]  # if directed, edges lead to the right
        pairs = np.argwhere((apart < 0.5) & (above if directed else np.tri(len(points), k=-1, dtype=bool)))
        length = apart[tuple(pairs.T)]
        kinds = {"edge_type": length > 0.3, "edge_weight": length, "node_type": points[:, 0] > 0.5}
        made.append(make_graph(points, x=points[:, :1], edges=pairs, **kinds, directed=directed))
    return made


def case(directed: bool = False, steps: int = 2) -> tuple[StructureOutput, GraphBatch]:
    """Random scores of all kinds."""
    batch, rng = GraphBatch.from_graphs(graphs(3, 1, directed)), torch.Generator().manual_seed(0)
    pairs, nodes = batch.adj.shape, batch.mask.shape

    def draw(*shape: int) -> tuple[Tensor, ...]:
        return tuple(torch.randn(shape, generator=rng, dtype=torch.float64) for _ in range(steps))

    kinds = {
        "types": draw(*pairs, 2),
        "weights": draw(*pairs),
        "nodes": draw(*nodes, 2),
        "directed": directed,
    }
    return StructureOutput(draw(*pairs), draw(*nodes, 1), batch.pair_mask, **kinds), batch


def by_hand(output: StructureOutput, batch: GraphBatch, step: int, row: int, loss: Loss) -> float:
    """The three terms of one step of one graph, pair by pair."""
    of_types: dict[int, list[float]] = {}
    of_weights, of_nodes = [], []

    def surprise(scores: Tensor, truth: int) -> float:
        values = [exp(value) for value in scores.tolist()]
        return -log(values[truth] / sum(values))

    for i, j in batch.adj[row].nonzero().tolist():
        kind = int(batch.edge_type[row, i, j])
        of_types.setdefault(kind, []).append(surprise(output.types[step][row, i, j], kind))
        off = float(output.weights[step][row, i, j]) - log(float(batch.edge_weight[row, i, j]))
        of_weights.append(off**2 if loss.weights == "squared" else abs(off))
    for i in range(int(batch.sizes[row])):
        of_nodes.append(surprise(output.nodes[step][row, i], int(batch.node_type[row, i])))
    every = [value for values in of_types.values() for value in values]
    if loss.types == "balanced":
        every = [sum(values) / len(values) for values in of_types.values()]
    return sum(
        psi * sum(values) / max(len(values), 1)
        for psi, values in ((loss.psi3, every), (loss.psi4, of_weights), (loss.psi5, of_nodes))
    )


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("types", ["plain", "balanced"])
@pytest.mark.parametrize("weights", ["squared", "absolute"])
@pytest.mark.parametrize("every_step", [False, True])
def test_the_losses_of_kinds_equal_their_formulas(
    types: Any, weights: Any, every_step: bool, directed: bool
) -> None:
    output, batch = case(directed)
    loss = Loss(types=types, weights=weights, every_step=every_step, psi3=2, psi4=0.5, psi5=3)
    plain = loss(replace(output, types=None, weights=None, nodes=None), batch)
    for row, value in enumerate((loss(output, batch) - plain).tolist()):
        steps = [by_hand(output, batch, step, row, loss) for step in (range(2) if every_step else [1])]
        assert value == pytest.approx(sum(steps) / len(steps), rel=1e-6)


def test_padding_and_pairs_that_are_no_edges_do_not_reach_the_losses_of_kinds() -> None:
    output, batch = case()
    spoiled = replace(
        output,
        types=tuple(torch.where(batch.adj[..., None], step, torch.nan) for step in output.types),
        weights=tuple(torch.where(batch.adj, step, torch.inf) for step in output.weights),
        nodes=tuple(torch.where(batch.mask[..., None], step, torch.nan) for step in output.nodes),
    )
    assert torch.equal(Loss()(spoiled, batch), Loss()(output, batch))


def test_graphs_without_edges_have_no_loss_of_their_kinds() -> None:
    points = make_graph(torch.rand(3, 2), node_type=[0, 1, 0])
    batch = GraphBatch.from_graphs([points])
    output = GLN(**SMALL, edge_types=2, edge_weights=True, node_types=2)(batch)
    losses = Loss()(output.full_precision(), batch)
    losses.sum().backward()
    assert losses.isfinite().all()
    with pytest.raises(GLNError, match="predicts edge_type, but the graphs have none"):
        Loss()(output, GraphBatch.from_graphs([make_graph(torch.rand(3, 2), edges=[[0, 1]])]))


def test_kinds_are_learned_scored_and_kept(tmp_path: Path) -> None:
    torch.manual_seed(0)
    kinds = {"edge_types": 2, "edge_weights": True, "node_types": 2}
    model = GLN(1, 2, **SMALL, **kinds, lengths="absolute")
    loss = Loss(edge="plain", every_step=True, types="balanced")
    train = [replace_names(graph) for graph in graphs(160)]
    result = fit(model, train, graphs_named(40, 1), run=tmp_path, loss=loss, epochs=9, **QUICK)
    best = result.history[result.best_epoch - 1]
    assert best["val_score"] == max(row["val_score"] for row in result.history)
    for name in ("val_types", "val_nodes", "val_weights"):
        assert best[name] > 0.9, name
    again, test = gln.load(tmp_path), graphs_named(20, 2)
    found = gln.predict(again, [graph.to_data() for graph in test])
    assert found[0].edge_type_names == ["short", "long"]
    assert (found[0].edge_type_prob.argmax(1) == found[0].edge_type).all()
    scores = gln.evaluate(again, test)
    assert scores["type_accuracy"] > 0.9
    assert scores["weight_r2"] > 0.8


def replace_names(graph: Graph) -> Graph:
    graph.edge_type_names = ("short", "long")
    return graph


def graphs_named(count: int, seed: int) -> list[Graph]:
    return [replace_names(graph) for graph in graphs(count, seed)]


def test_directions_are_learned() -> None:
    torch.manual_seed(0)
    model = GLN(1, 2, **SMALL, directed=True)
    fit(model, graphs(160, directed=True), graphs(40, 1, True), epochs=7, **QUICK)
    assert gln.evaluate(model, graphs(20, 2, True))["dice"] > 0.9


@pytest.mark.parametrize(
    ("kinds", "graph", "message"),
    [
        ({"edge_types": 2}, {"edges": [[0, 1]]}, r"val\[0\] has no edge_type, which the model predicts"),
        ({"edge_weights": True}, {"edges": [[0, 1]]}, "has no edge_weight"),
        ({"node_types": 2}, {"edges": [[0, 1]]}, "has no node_type"),
        (
            {"edge_types": 2},
            {"edges": [[0, 1]], "edge_type": [2]},
            "edges of type 2, but the model knows 2 types",
        ),
        ({"node_types": 2}, {"node_type": [0, 5, 1]}, "nodes of type 5"),
        ({}, {"edges": [[0, 1]], "directed": True}, r"val\[0\] is directed, but the model is not"),
    ],
)
def test_graphs_that_lack_what_is_to_be_learned_are_refused(kinds: dict, graph: dict, message: str) -> None:
    made = [make_graph(torch.rand(3, 2), **graph)]
    with pytest.raises(GLNError, match=message):
        fit(GLN(**SMALL, **kinds), made, made, **QUICK)
    with pytest.raises(GLNError, match=message.replace(r"val\[0\]", r"train\(0\)\[0\]")):
        fit(GLN(**SMALL, **kinds), lambda epoch: made, [fitting(kinds)], **QUICK)


def fitting(kinds: dict) -> Graph:
    known = {"edge_type": [0], "edge_weight": [1.0], "node_type": [0, 0, 0]}
    learned = {"edge_types": "edge_type", "edge_weights": "edge_weight", "node_types": "node_type"}
    wanted = {name: known[name] for setting, name in learned.items() if setting in kinds}
    return make_graph(torch.rand(3, 2), edges=[[0, 1]], **wanted)


def test_a_plain_model_learns_from_graphs_with_kinds_what_it_learns_without_them() -> None:
    def learned(some: list[Graph]) -> dict[str, Tensor]:
        torch.manual_seed(0)
        model = GLN(1, 2, **SMALL)
        fit(model, some, some[:5], epochs=1, **QUICK)
        return model.state_dict()

    typed = graphs(16)
    plain = [make_graph(graph.pos, graph.x, graph.edges_once()) for graph in typed]
    for one, other in zip(learned(typed).values(), learned(plain).values(), strict=True):
        assert torch.equal(one, other)
    assert describe(typed) != describe(plain)


def test_a_step_from_tensors_alone_is_the_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a GPU records sees the kinds as its inputs."""
    model = GLN(1, 2, **SMALL, edge_types=2, edge_weights=True, node_types=2, directed=True).eval()
    loss, seen = Loss(every_step=True), []

    def step(self: Loop, batch: GraphBatch, weight: float, **drawn: Tensor) -> Tensor:
        seen.append(loss(model(batch, **drawn), batch).sum() * weight)
        return seen[-1]

    monkeypatch.setattr(Loop, "_step", step)
    loop = Loop.__new__(Loop)
    batch = GraphBatch.from_graphs(graphs(4, directed=True))
    tensors = {name: value for name, value in vars(batch).items() if isinstance(value, Tensor)}
    loop._replayed(tensors, model.draw(batch))
    loop._step(batch, 1 / 4)
    assert torch.equal(*seen)
