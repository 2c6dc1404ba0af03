"""Evaluation of a model on graphs it has not seen."""

from __future__ import annotations

from typing import Any

from torch import nn

from gln.evaluation.edges import edge_scores
from gln.evaluation.metrics import Scores, number
from gln.evaluation.mmd import MMDResult, mmd
from gln.graphs import as_graphs
from gln.graphs.record import Graph
from gln.inference.predict import AS_TRAINED, Choice, Method, edges_above, outputs, predict_graphs


def evaluate(
    model: Method,
    graphs: Any,
    *,
    threshold: float | None = None,
    steps: int | None = None,
    batch_size: int = 32,
    floor: Any = None,
    largest_component: bool = False,
) -> Scores:
    """Edge scores, and the MMD between true and predicted graphs, as a dict that prints as a table.

    Average precision ranks all pairs, also those below the threshold; a pair that was not scored has probability 0.

    Args:
        model: a model, or anything with a method ``predict(points)``, as baselines have; it sees only the nodes.
        graphs: the true graphs.
        threshold: a scored pair is an edge if its probability reaches this; default: the threshold stored with the
            model.
        steps: how many steps of the recurrence; default: as trained.
        batch_size: graphs at a time.
        floor: graphs of the same distribution, usually the training graphs; their MMD² is noted for comparison.
        largest_component: take the MMD² over the largest component of every graph, as the paper did.
    """
    choice = Choice(threshold, steps=steps, batch_size=batch_size)
    return evaluated(model, as_graphs(graphs), floor, largest_component, choice)[0]


def evaluated(
    model: Method,
    true: list[Graph],
    floor: Any = None,
    largest_component: bool = False,
    choice: Choice = AS_TRAINED,
) -> tuple[Scores, list[Graph], MMDResult]:
    """What :func:`evaluate` returns, for checked graphs, with the predicted graphs and their MMD²."""
    if not isinstance(model, nn.Module):
        predicted = predict_graphs(model, true, choice)
        scores: dict[str, float] = edge_scores(true, predicted)
        note = f"{len(true)} graphs"
    else:
        predicted, scores, recall = predict_and_score(model, true, choice)
        note = f"{len(true)} graphs, threshold {choice.cut(model):.2f}"
        if recall < 1:
            note += f"; candidate recall {recall:.4f}: the share of true edges that were scored at all"
    distance = mmd(true, predicted, floor=floor, largest_component=largest_component)
    notes = [note, distance.summary]
    if distance.floor:
        floors = ", ".join(f"{name} {number(value)}" for name, value in distance.floor.items())
        notes.append(f"MMD² floor: {floors}")
    return Scores(scores | distance.named(), notes), predicted, distance


def predict_and_score(
    model: nn.Module, true: list[Graph], choice: Choice
) -> tuple[list[Graph], dict[str, float], float]:
    """The predicted graphs, their edge scores, and the candidate recall: the share of true edges that were scored.

    Pairs that were not scored take no memory.
    """
    predicted: list[Any] = [None] * len(true)
    precision, recall = 0.0, 0.0  # sums over graphs
    threshold = choice.cut(model)
    for numbers, _, output in outputs(model, true, choice):
        for index, (edges, prob) in zip(numbers, edges_above(output, 0.0), strict=True):
            truth, chosen = true[index], prob >= threshold
            predicted[index] = truth.with_edges(edges[:, chosen], edge_prob=prob[chosen])
            if truth.num_edges:
                ranked = edge_scores([truth], [truth.with_edges(edges, edge_prob=prob)])
                precision, recall = precision + ranked["average_precision"], recall + ranked["recall"]
            else:  # nothing to rank and nothing to find: right if nothing was predicted
                precision, recall = precision + float(not chosen.any()), recall + 1
    scores = dict(edge_scores(true, predicted)) | {"average_precision": precision / len(true)}
    return predicted, scores, recall / len(true)
