"""Evaluation of a model on graphs it has not seen."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch_geometric.data import Data

from gln.evaluation.edge_lists import edge_scores
from gln.evaluation.metrics import Scores, number
from gln.evaluation.mmd import mmd
from gln.evaluation.mmd_result import MMDResult
from gln.graphs import as_graphs
from gln.training.prediction import Predictor, check_choice, edges_above, joined, outputs, predict


def evaluate(
    model: nn.Module | Predictor,
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
    check_choice(threshold, None, batch_size)
    true = as_graphs(graphs)
    return evaluated(model, true, floor, largest_component, threshold, steps, batch_size)[0]


def evaluated(
    model: nn.Module | Predictor,
    true: list[Data],
    floor: Any = None,
    largest_component: bool = False,
    threshold: float | None = None,
    steps: int | None = None,
    batch_size: int = 32,
) -> tuple[Scores, list[Data], MMDResult]:
    """What :func:`evaluate` returns, for checked graphs, with the predicted graphs and their MMD²."""
    if not isinstance(model, nn.Module):
        predicted = predict(model, true, threshold=threshold, steps=steps)
        scores: dict[str, float] = edge_scores(true, predicted)
        note = f"{len(true)} graphs"
    else:
        cut = float(getattr(model, "threshold", 0.5) if threshold is None else threshold)
        predicted, scores, recall = predict_and_score(model, true, cut, steps, batch_size)
        note = f"{len(true)} graphs, threshold {cut:.2f}"
        if recall < 1:
            note += f"; candidate recall {recall:.4f}: the share of true edges that were scored at all"
    distance = mmd(true, predicted, floor=floor, largest_component=largest_component)
    notes = [note, distance.summary]
    if distance.floor:
        floors = ", ".join(f"{name} {number(value)}" for name, value in distance.floor.items())
        notes.append(f"MMD² floor: {floors}")
    return Scores(scores | distance.named(), notes), predicted, distance


def predict_and_score(
    model: nn.Module,
    true: list[Data],
    threshold: float,
    steps: int | None = None,
    batch_size: int = 32,
    candidates: int | None = None,
) -> tuple[list[Data], dict[str, float], float]:
    """The predicted graphs, their edge scores, and the candidate recall: the share of true edges that were scored.

    Pairs that were not scored take no memory.
    """
    predicted: list[Any] = [None] * len(true)
    precision, recall = 0.0, 0.0  # sums over graphs
    for numbers, _, output in outputs(model, true, steps, batch_size, candidates=candidates):
        for index, (edges, prob) in zip(numbers, edges_above(output, 0.0), strict=True):
            truth, chosen = true[index], prob >= threshold
            predicted[index] = joined(truth, edges[:, chosen], prob[chosen])
            if truth.num_edges:
                ranked = edge_scores([truth], [joined(truth, edges, prob)])
                precision, recall = precision + ranked["average_precision"], recall + ranked["recall"]
            else:  # nothing to rank and nothing to find: right if nothing was predicted
                precision, recall = precision + float(not chosen.any()), recall + 1
    scores = dict(edge_scores(true, predicted)) | {"average_precision": precision / len(true)}
    return predicted, scores, recall / len(true)
