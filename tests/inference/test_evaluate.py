"""Scores from lists of edges are those of the matrices of all pairs."""

from __future__ import annotations

import json
from statistics import fmean

import pytest
import torch

import gln
from gln.errors import GLNError
from gln.evaluation import EdgeScores
from gln.evaluation.edges import edge_scores
from gln.graphs import GraphBatch, make_graph
from gln.graphs.record import Graph
from gln.inference.evaluate import best_threshold, evaluate, evaluated, predict_and_rank
from gln.inference.predict import Choice, outputs, predict
from gln.models import GLN, StructureOutput
from tests.conftest import assert_same_graph, no_matrix


def predict_and_score(
    model: GLN, true: list[Graph], choice: Choice
) -> tuple[list[Graph], dict[str, float], float]:
    predicted, ranked, recall = predict_and_rank(model, true, true, choice)
    return predicted, dict(edge_scores(true, predicted)) | {"average_precision": fmean(ranked)}, recall


def graphs() -> list[Graph]:
    """Of several sizes, some without edges, one of a single node."""
    some = gln.family("delaunay", points=(5, 30)).graphs(6, seed=0)
    rng = torch.Generator().manual_seed(0)
    return [*some, make_graph(torch.rand(9, 2, generator=rng)), make_graph(torch.rand(1, 2, generator=rng))]


def model_of(candidates: int) -> GLN:
    torch.manual_seed(3)
    return GLN(0, 2, width=8, pair_width=8, steps=2, candidates=candidates).eval()


def dense_way(model: GLN, true: list[Graph], threshold: float) -> tuple[dict[str, float], float]:
    metric, recalls = EdgeScores(threshold), []
    for numbers, _, output in outputs(model, true, Choice(batch_size=3)):
        batch = GraphBatch.from_graphs([true[number] for number in numbers])
        metric.update(output.soft_adjacency(), batch.adj, batch.mask)
        recalls += output.recall(batch.adj).tolist()
    return {name: float(value) for name, value in metric.compute().items()}, sum(recalls) / len(recalls)


@pytest.mark.parametrize("candidates", [3, 32])
@pytest.mark.parametrize("quantile", [0.3, 0.9, 1.1])  # of the probabilities; above 1: no edge at all
def test_every_score_is_that_of_the_matrices(
    candidates: int, quantile: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gln.models.candidates.SMALL", 0)
    monkeypatch.setattr("gln.models.candidates.DENSE_NODES", 0)
    model, true = model_of(candidates), graphs()
    every = torch.cat([answer.edge_prob for answer in predict(model, true, threshold=0.0)])
    threshold = float(every.quantile(quantile)) if quantile < 1 else 1.0
    expected, recall = dense_way(model, true, threshold)
    predicted, scores, found = predict_and_score(model, true, Choice(threshold, batch_size=3))
    assert scores == pytest.approx(expected, abs=1e-7)
    assert found == pytest.approx(recall)
    assert (found < 1) == (candidates == 3)
    for one, other in zip(predicted, predict(model, true, threshold=threshold), strict=True):
        assert torch.equal(one.edge_index, other.edge_index)
    note = str(evaluate(model, true, threshold=threshold))
    assert (f"candidate recall {recall:.4f}" in note) == (candidates == 3)


@pytest.mark.parametrize("candidates", [3, 32])
@pytest.mark.parametrize("value", [1, 2])
def test_the_best_threshold_is_the_one_of_the_best_scores(
    candidates: int, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gln.models.candidates.SMALL", 0)
    model, true = model_of(candidates), [graph for graph in graphs() if graph.num_nodes > 9]
    distance = gln.mmd(true, true)  # this and the intervals are of no interest here
    monkeypatch.setattr("gln.inference.evaluate.mmd", lambda *_, **__: distance)
    monkeypatch.setattr("gln.inference.evaluate.score_intervals", lambda *_: {})
    for graph in true:
        graph.judged = value * (torch.arange(graph.num_nodes) % 2)
    threshold, iou = best_threshold(model, true)
    grid = [number / 100 for number in range(1, 100)]
    scores = [evaluated(model, true, choice=Choice(cut))[2]["iou"] for cut in grid]
    assert iou == pytest.approx(max(scores))
    assert scores[grid.index(round(threshold, 2))] == max(scores)


def test_candidates_never_become_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a matrix of all pairs was asked for")

    model, true = model_of(4), gln.family("delaunay", points=300).graphs(2)
    expected = predict_and_score(model, true, Choice(0.5))
    monkeypatch.setattr(StructureOutput, "probabilities", refuse)
    monkeypatch.setattr("gln.graphs.batch._filled", no_matrix)
    answers, scores, recall = predict_and_score(model, true, Choice(0.5))
    assert (scores, recall) == expected[1:]
    for one, other in zip(answers, expected[0], strict=True):
        assert_same_graph(one, other)


def test_scores_that_are_not_numbers_are_told() -> None:
    model = model_of(4)
    with torch.no_grad():
        model.embed_node[0].bias.fill_(torch.nan)
    for call in (evaluate, predict):
        with pytest.raises(GLNError, match="scores are NaN"):
            call(model, graphs())  # type: ignore[operator]


@pytest.mark.parametrize("options", [{"threshold": 1.5}, {"batch_size": 0}])
def test_a_choice_that_makes_no_sense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(GLNError, match=next(iter(options))):
        evaluate(model_of(4), graphs(), **options)  # type: ignore[arg-type]


def test_scores_are_plain_numbers() -> None:
    assert json.loads(json.dumps(evaluate(model_of(4), graphs()))).keys() >= {"iou", "average_precision"}
