"""Predictions with kinds: what they hold, and that batches, blocks and candidates give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

import gln
from gln.errors import GLNError
from gln.graphs import check_graph, make_graph
from gln.graphs.record import Graph
from gln.inference.predict import keep_strongest, predict, predict_graphs
from gln.inference.steps import every_step
from gln.models.gln import GLN
from tests.conftest import assert_same_graph

ALL: dict[str, Any] = {"edge_types": 3, "edge_weights": True, "node_types": 4}
SETS = [np.random.default_rng(n).random((n, 2)) for n in (150, 7, 1, 12)]


def model_of(**changes: Any) -> GLN:
    torch.manual_seed(0)
    return GLN(
        **{"width": 8, "pair_width": 8, "kernels": 2, "steps": 2, "candidates": 4} | ALL | changes
    ).eval()


@pytest.mark.parametrize("directed", [False, True])
def test_a_prediction_holds_all_kinds_in_order(directed: bool) -> None:
    for graph in predict(model_of(directed=directed), SETS, threshold=0.4):
        assert_same_graph(
            check_graph(graph).to_data(), graph
        )  # sorted, and undirected kinds are symmetric to the bit
        edges, nodes = graph.num_edges, graph.num_nodes
        assert graph.get("directed", False) is directed
        assert graph.edge_type_prob.shape == (edges, 3)
        assert torch.equal(graph.edge_type, graph.edge_type_prob.argmax(1))
        assert (graph.edge_weight > 0).all()
        assert graph.node_type_prob.shape == (nodes, 4)
        assert torch.equal(graph.node_type, graph.node_type_prob.argmax(1))
        torch.testing.assert_close(graph.node_type_prob.sum(1), torch.ones(nodes))


@pytest.mark.parametrize("directed", [False, True])
def test_a_batch_is_its_graphs_and_blocks_are_the_whole(
    directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(directed=directed)
    together = predict(model, SETS, threshold=0.0)
    alone = [predict(model, points, threshold=0.0) for points in SETS]
    monkeypatch.setattr("gln.inference.predict.LARGE", 100)
    by_blocks = predict(model, SETS[:1], threshold=0.0)
    for one, other in [*zip(together, alone, strict=True), (by_blocks[0], together[0])]:
        assert set(one.keys()) == set(other.keys())
        for name in set(one.keys()) - {"num_nodes", "directed", "edge_type", "node_type"}:
            torch.testing.assert_close(one[name], other[name], rtol=0, atol=1e-5)


def test_directed_probabilities_are_not_averaged_and_top_k_keeps_what_leaves() -> None:
    model = model_of(directed=True)
    (answer,) = predict_graphs(model, [make_graph(SETS[3])], gln.inference.choice.Choice(0.0))
    matrix = torch.zeros(12, 12)
    matrix[answer.edge_index[0], answer.edge_index[1]] = answer.edge_prob
    output = model(gln.GraphBatch.from_graphs([make_graph(SETS[3])]))
    torch.testing.assert_close(matrix, output.probabilities()[0].detach())
    few = keep_strongest(answer, 2)
    assert torch.bincount(few.edge_index[0], minlength=12).tolist() == [2] * 12
    assert few.directed
    assert len(few.edge_type_prob) == few.num_edges == 24


def test_every_type_may_have_a_threshold_of_its_own() -> None:
    model, cuts = model_of(), (0.2, 0.9, 0.45)
    for every, few in zip(
        predict(model, SETS, threshold=0.0), predict(model, SETS, type_thresholds=cuts), strict=True
    ):
        stays = every.edge_prob >= torch.tensor(cuts)[every.edge_type]
        assert torch.equal(few.edge_index, every.edge_index[:, stays])
        check_graph(few)
    for wrong, message in (
        ((0.5, 0.5), "2 type_thresholds for a model of 3 types"),
        ((0, 0, 2), "type_thresholds=2; expected a number"),
    ):
        with pytest.raises(GLNError, match=message):
            predict(model, SETS[0], type_thresholds=wrong)


def test_known_edges_may_have_types_and_words_for_them() -> None:
    model = model_of(directed=False)
    model.training_facts = {"names": {"edge_type_names": ["a", "b", "c"]}}
    points = torch.from_numpy(SETS[3]).float()

    def with_known(**kinds: Any) -> Data:
        graph = make_graph(points, edges=[[0, 1]], **{k: v for k, v in kinds.items() if k != "names"})
        if "names" in kinds:
            graph.edge_type_names = kinds["names"]
        return predict(model, graph, known=True, threshold=0.0)

    first, second = with_known(edge_type=[0]), with_known(edge_type=[2])
    assert not torch.equal(first.edge_prob, second.edge_prob)
    assert not torch.equal(first.edge_prob, with_known().edge_prob)
    assert_same_graph(with_known(edge_type=[0], names=("c", "a")), second)  # by its name
    assert first.edge_type_names == ["a", "b", "c"]
    assert_same_graph(with_known(edge_weight=[2.0]), with_known())  # weights are not read
    with pytest.raises(GLNError, match="There is no edge_type 'd'"):
        with_known(edge_type=[0], names=("d",))
    with pytest.raises(GLNError, match=r"known\[0\] has edges of type 3, but the model knows 3 types"):
        with_known(edge_type=[3])
    with pytest.raises(GLNError, match=r"known\[0\] is directed, but the model is not"):
        with_known(directed=True)


def test_known_pairs_of_a_directed_model_have_a_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(directed=True)
    along, against = (predict(model, SETS[0], known=[pair], threshold=0.0) for pair in ([0, 1], [1, 0]))
    assert not torch.equal(along.edge_prob, against.edge_prob)
    monkeypatch.setattr("gln.inference.predict.LARGE", 100)
    torch.testing.assert_close(
        predict(model, SETS[0], known=[[0, 1]], threshold=0.0).edge_prob, along.edge_prob
    )


def test_plain_models_ignore_kinds_and_an_undirected_one_refuses_directed_truth() -> None:
    points = torch.from_numpy(SETS[3]).float()
    typed = make_graph(points, edges=[[0, 1]], edge_type=[5], edge_weight=[2.0], node_type=[7] * 12)
    plain = GLN(width=8, pair_width=8, kernels=2, steps=1)
    assert_same_graph(predict(plain, typed), predict(plain, points))
    assert "type_accuracy" not in gln.evaluate(plain, [typed], threshold=0.0)
    with pytest.raises(GLNError, match="is directed, but the model is not"):
        gln.evaluate(plain, [make_graph(points, edges=[[0, 1]], directed=True)])


@pytest.mark.parametrize("directed", [False, True])
def test_every_step_ends_with_the_prediction(directed: bool) -> None:
    model, graph = model_of(directed=directed), make_graph(SETS[3])
    (seen,) = every_step(model, [graph])
    assert seen.chances.shape == (3, 132 if directed else 66)
    assert seen.graph.directed is directed
    answer, expected = seen.answer(graph), predict(model, graph)
    assert_same_graph(answer.to_data(), expected)
    assert_same_graph(seen.decided().answer(graph).to_data(), expected)


def test_the_transform_sets_all_kinds_of_single_graphs_and_batches() -> None:
    model = model_of(directed=True)
    sets = [make_graph(points).to_data() for points in SETS[1:]]
    transform = gln.GLNGraph(model, threshold=0.4)
    batch = transform(Batch.from_data_list(sets))
    for one, other in zip(batch.to_data_list(), [transform(graph) for graph in sets], strict=True):
        for name in ("edge_index", "edge_type", "edge_weight", "edge_type_prob", "node_type"):
            torch.testing.assert_close(one[name], other[name])
    assert batch.directed


def test_a_learner_learns_the_kinds_of_its_graphs() -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    sets = [rng.random((6, 2)) for _ in range(8)]
    graphs: list[Graph] = [
        make_graph(points, edges=[[0, 1], [2, 3]], edge_type=[0, 1], directed=True) for points in sets
    ]
    settings = {"width": 8, "pair_width": 8, "steps": 1, "epochs": 1, "device": "cpu", "random_state": 0}
    learner = gln.GraphLearner(kinds=True, **settings).fit(sets, graphs)
    assert learner.model_.config["edge_types"] == 2
    (answer,) = learner.predict_graphs(sets[:1])
    assert answer.directed
    assert answer.edge_type_prob.shape[1] == 2
    weights = [np.triu(rng.random((6, 6)), 1) for _ in sets]
    learner = gln.GraphLearner(kinds=True, **settings).fit(sets, [matrix + matrix.T for matrix in weights])
    assert learner.model_.config["edge_weights"]
    assert learner.predict_graphs(sets[:1])[0].edge_weight is not None
    plain = gln.GraphLearner(**settings).fit(sets, graphs)
    assert plain.model_.config["edge_types"] == 1
    assert not plain.model_.config["directed"]
