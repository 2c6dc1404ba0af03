"""How good a model is on graphs it has not seen."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch_geometric.data import Data

from gln.evaluation.edge_lists import edge_scores
from gln.evaluation.edges import EdgeScores
from gln.evaluation.metrics import Scores, number
from gln.evaluation.mmd import mmd
from gln.graphs import as_graphs
from gln.training.prediction import Predictor, graph_above, predict, soft_batches


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
    """Edge scores, and the MMD between the true and the predicted graphs, as a dict that prints as a table.

    Args:
        model: a model, or anything with the baselines' ``predict(points)``; it sees the nodes only.
        graphs: the true graphs.
        threshold: a pair is an edge where its probability reaches this; default: the one stored with it.
        steps: how many steps of the recurrence; default: as trained.
        batch_size: graphs at a time.
        floor: graphs of the same distribution, usually those trained on; their MMD² is noted beside.
        largest_component: take the MMD² over the largest component of every graph, as the paper did.
    """
    true = as_graphs(graphs)
    if not isinstance(model, nn.Module):
        predicted = predict(model, true, threshold=threshold, steps=steps)
        scores = dict(edge_scores(true, predicted))
        note = f"{len(true)} graphs"
    else:
        cut = float(getattr(model, "threshold", 0.5) if threshold is None else threshold)
        predicted, scores, recall = _score(model, true, cut, steps, batch_size)
        note = f"{len(true)} graphs, threshold {cut:.2f}"
        if recall < 1:
            note += f"; candidate recall {recall:.4f}: no more of the true edges were among the pairs scored"
    distance = mmd(true, predicted, floor=floor, largest_component=largest_component)
    notes = [note, distance.summary]
    if distance.floor:
        floors = ", ".join(f"{name} {number(value)}" for name, value in distance.floor.items())
        notes.append(f"MMD² floor: {floors}")
    return Scores(scores | {f"mmd_{name}": value for name, value in distance.items()}, notes)


def _score(
    model: nn.Module, true: list[Data], threshold: float, steps: int | None, batch_size: int
) -> tuple[list[Data], dict[str, float], float]:
    metric = EdgeScores(threshold)
    predicted: list[Any] = [None] * len(true)
    recalls: list[float] = []
    for numbers, batch, soft, recall in soft_batches(model, true, steps, batch_size):
        metric.to(soft.device).update(soft, batch.adj, batch.mask)
        recalls += recall.tolist()
        for index, matrix in zip(numbers, soft.cpu(), strict=True):
            predicted[index] = graph_above(true[index], matrix, threshold)
    scores = {name: float(value) for name, value in metric.compute().items()}
    return predicted, scores, sum(recalls) / len(recalls)
