"""Evaluation of a model on graphs it has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from gln.errors import GLNError
from gln.evaluation.edges import PER_GRAPH, edge_scores, named, score_intervals, score_table
from gln.evaluation.kinds import kind_scores
from gln.evaluation.metrics import Scores, number
from gln.evaluation.mmd import mmd
from gln.evaluation.padded import best_of, iou_at
from gln.graphs import as_graphs
from gln.graphs.record import Graph
from gln.graphs.split import judged_part, subgraph
from gln.inference.predict import (
    AS_TRAINED,
    CanPredict,
    Choice,
    Method,
    answers_one_by_one,
    as_method,
    predict_graphs,
)
from gln.models.contract import check_kinds


def evaluate(
    model: Method | Path | str,
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
        model: as in :func:`gln.predict`; it sees only the nodes.
        graphs: the true graphs.
        threshold: a scored pair is an edge if its probability reaches this; default: the threshold stored with the
            model.
        steps: how many steps of the recurrence; default: as trained.
        batch_size: graphs at a time.
        floor: graphs of the same distribution, usually the training graphs; their MMD² is noted for comparison.
        largest_component: take the MMD² over the largest component of every graph, as the paper did.
    """
    choice = Choice(threshold, steps=steps, batch_size=batch_size)
    return evaluated(as_method(model), as_graphs(graphs), floor, largest_component, choice)[2]


def evaluated(
    model: Method,
    graphs: list[Graph],
    floor: Any = None,
    largest_component: bool = False,
    choice: Choice = AS_TRAINED,
    rules: Mapping[str, CanPredict] | None = None,
) -> tuple[list[Graph], list[Graph], Scores]:
    """What was scored, what was predicted, and what :func:`evaluate` returns, for checked graphs.

    Of a graph that says which nodes are ``judged``, only these are scored; the model sees all its nodes. Beside the
    model, ``rules`` are scored, by the words for them.
    """
    true = [judged_part(graph, graph.get("judged")) for graph in graphs]
    note = f"{len(true)} graph{'' if len(true) == 1 else 's'}"
    if not isinstance(model, nn.Module):
        predicted, ranked = _judged(graphs, predict_graphs(model, graphs, choice)), None
    else:
        check_kinds(model, graphs, "graphs", learned=False)
        predicted, ranked, recall = predict_and_rank(model, graphs, true, choice)
        note += f", threshold {choice.cut(model):.2f}"
        if recall < 1:
            note += f"; candidate recall {recall:.4f}: the share of true edges that were scored at all"
    counts, values = score_table(true, predicted)
    each = dict(zip(PER_GRAPH, values.tolist(), strict=True))
    if ranked is not None:
        each["average_precision"] = ranked
    scores = named(torch.tensor([fmean(value) for value in each.values()]), counts.sum(1))
    inner = [[_inside(*pair) for pair in zip(some, graphs, strict=True)] for some in (true, predicted)]
    distance = mmd(inner[0], inner[1], floor=floor, largest_component=largest_component)
    notes = [note, distance.summary]
    if distance.floor:
        floors = ", ".join(f"{name} {number(value)}" for name, value in distance.floor.items())
        notes.append(f"MMD² floor: {floors}")
    kinds, beside = kind_scores(true, predicted), score_rules(rules or {}, graphs)
    ends = score_intervals(each, true, predicted)
    every: dict[str, Any] = {**scores, **kinds, **distance.named()}
    return true, predicted, Scores(every, notes, ends, beside, kinds.tables, distance.floor)


def best_threshold(model: nn.Module, graphs: list[Graph]) -> tuple[float, float]:
    """The threshold with the highest mean IoU in predictions of whole graphs, perhaps judged in part, and this IoU."""
    thresholds = torch.arange(1, 100) / 100
    iou = torch.zeros(len(thresholds), dtype=torch.float64)
    for index, every in answers_one_by_one(model, graphs, Choice(threshold=0.0)):
        judged, nodes = graphs[index].get("judged"), (graphs[index].num_nodes, 1)
        true = judged_part(graphs[index], judged).edges_once() @ nodes
        pairs, chances = judged_part(every, judged).scored_once()
        found = np.isin(pairs @ nodes, true)
        missed = np.zeros(len(true) - found.sum(), dtype=np.float32)  # true edges that were not scored
        score, truth = np.append(chances, missed), np.append(found, missed == 0)
        one = (torch.from_numpy(some)[None] for some in (score, truth, np.ones_like(truth)))
        iou += iou_at(thresholds, *one)[0]
    best = int(best_of(thresholds, iou))
    return float(thresholds[best]), float(iou[best]) / len(graphs)


def score_rules(rules: Mapping[str, CanPredict], graphs: Sequence[Graph]) -> dict[str, Scores]:
    """The edge scores of each rule on ``graphs``, as :func:`evaluated` scores a model; without one that fails."""
    true, found = [judged_part(graph, graph.get("judged")) for graph in graphs], {}
    for words, rule in rules.items():
        with suppress(GLNError):  # a radius in another unit of length
            found[words] = edge_scores(true, _judged(graphs, predict_graphs(rule, graphs)))
    return found


def _judged(graphs: Sequence[Graph], answers: Sequence[Graph]) -> list[Graph]:
    return [judged_part(answer, graph.get("judged")) for answer, graph in zip(answers, graphs, strict=True)]


def _inside(part: Graph, whole: Graph) -> Graph:
    """The judged nodes of a part that still has the others, as many isolated ones would hide a difference."""
    judged = whole.get("judged")
    if judged is None or part.num_nodes < len(judged):
        return part
    return subgraph(part, judged.nonzero().flatten().numpy())


def predict_and_rank(
    model: nn.Module, graphs: list[Graph], true: list[Graph], choice: Choice
) -> tuple[list[Graph], list[float], float]:
    """The predicted parts that are ``true``'s, the average precision of each, and the mean candidate recall.

    Pairs that were not scored take no memory.
    """
    predicted: list[Any] = [None] * len(graphs)
    precision, recall = [0.0] * len(graphs), 0.0
    everything = replace(choice, threshold=0.0, type_thresholds=None)
    for index, every in answers_one_by_one(model, graphs, everything):
        truth, every = true[index], judged_part(every, graphs[index].get("judged"))
        chosen = choice.keeps(model, every)
        predicted[index] = every.some_edges(chosen)
        if truth.num_edges:
            ranked = dict(zip(PER_GRAPH, score_table([truth], [every])[1][:, 0].tolist(), strict=True))
            precision[index], recall = ranked["average_precision"], recall + ranked["recall"]
        else:  # nothing to rank and nothing to find: right if nothing was predicted
            precision[index], recall = float(not chosen.any()), recall + 1
    return predicted, precision, recall / len(graphs)
