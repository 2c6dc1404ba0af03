"""What a page shows: a graph, and what a model or a file predicts for its pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.errors import GLNError
from gln.graphs import as_graphs
from gln.graphs.record import Graph
from gln.inference.predict import Choice, Predictor, as_points, edges_above, outputs, predict_graphs
from gln.models.contract import StructureOutput, starting_structure

LARGEST = 20_000  # the most nodes of a graph that a page shows


@dataclass(frozen=True)
class Seen:
    """A prediction: pairs ``[m, 2]``, the smaller node first, and their probabilities ``[steps, m]``.

    Several steps are those of a recurrence, ``A⁰`` first. Pairs that are not listed have probability 0 or below
    ``floor``. ``threshold`` decides which pairs are edges until the reader moves the slider.
    """

    pairs: np.ndarray
    chances: np.ndarray
    threshold: float = 0.5
    floor: float = 0.0


@dataclass(frozen=True)
class View:
    """One graph of a page.

    Attributes:
        graph: the nodes; its edges count only if ``labelled``.
        name: its name on the page.
        labelled: whether the edges of ``graph`` are the truth.
        labels: names of the nodes; ``None``: their numbers.
        seen: the prediction; ``None``: the graph is shown as it is.
    """

    graph: Graph
    name: str = ""
    labelled: bool = True
    labels: Sequence[str] | None = None
    seen: Seen | None = None


def views_of(graphs: Iterable[Any], names: Sequence[str] | None = None) -> list[View]:
    """Views of graphs of any kind, with their edges as the truth."""
    graphs = as_graphs(graphs)
    if names is not None and len(names) != len(graphs):
        raise GLNError(f"Got {len(graphs)} graphs and {len(names)} names; give one for each graph.")
    names = [f"graph {number}" for number in range(len(graphs))] if names is None else names
    return [View(graph, name) for graph, name in zip(graphs, names, strict=True)]


def within_reach(views: Sequence[View], say: Callable[[str], None], largest: int = LARGEST) -> list[View]:
    """The views that are small enough for a page; ``say`` receives a message about the others."""
    kept = [view for view in views if view.graph.num_nodes <= largest]
    if views and not kept:
        least = min(view.graph.num_nodes for view in views)
        raise GLNError(
            f"A page shows graphs of up to {largest:,} nodes, but the smallest here has {least:,}; cut out a part."
        )
    if len(kept) < len(views):
        what = "1 graph is" if len(views) - len(kept) == 1 else f"{len(views) - len(kept)} graphs are"
        say(f"{what} not on the page: more than {largest:,} nodes.")
    return kept


def watch(
    model: nn.Module | Predictor,
    views: Sequence[View],
    *,
    steps: int | None = None,
    threshold: float | None = None,
    candidates: int | None = None,
    progress: bool = False,
) -> list[View]:
    """The views with what ``model`` predicts for their nodes after every step of its recurrence.

    Args:
        model: a model, or anything with a method ``predict(points)``, as baselines have; it does not see the edges.
        steps: how many steps of the recurrence; default: as trained.
        threshold: the initial threshold; default: the one stored with the model.
        candidates: as in :func:`gln.predict`.
        progress: show a progress bar on a terminal.
    """
    cut = float(getattr(model, "threshold", 0.5) if threshold is None else threshold)
    points = [as_points(view.graph) for view in views]
    if not isinstance(model, nn.Module):
        answers = predict_graphs(model, points, Choice(steps=steps, candidates=candidates))
        return [
            replace(view, seen=of_answer(answer, cut)) for view, answer in zip(views, answers, strict=True)
        ]
    watched: list[Any] = [None] * len(views)
    with tqdm(total=len(views), unit="graph", disable=None if progress else True, leave=False) as bar:
        for numbers, _, output in outputs(model, points, steps, 32, candidates=candidates):
            for number, seen in zip(numbers, _every_step(model, output, cut), strict=True):
                watched[number] = replace(views[number], seen=seen)
            bar.update(len(numbers))
    return watched


def of_answer(answer: Graph, threshold: float, floor: float = 0.0) -> Seen:
    """A predicted graph with ``edge_prob [2m]`` as a prediction of one step."""
    once = answer.edge_index[0] < answer.edge_index[1]
    chances = answer.edge_prob[None, once].numpy(force=True).astype(np.float32)
    return Seen(answer.edge_index[:, once].T.numpy(force=True), chances, threshold, floor)


def _every_step(model: nn.Module, output: StructureOutput, threshold: float) -> list[Seen]:
    """For each graph, all scored pairs with their probabilities after every step; a recurrence begins with ``A⁰``."""
    after = [edges_above(replace(output, logits=(logits,)), 0.0) for logits in output.logits]
    seen = []
    for graph in zip(*after, strict=True):
        edges, _ = graph[0]
        once = edges[0] < edges[1]
        chances = torch.stack([prob[once] for _, prob in graph])  # [steps, m]
        if len(graph) > 1:
            chances = torch.cat([starting_structure(model, edges[:, once])[None], chances])
        seen.append(Seen(edges[:, once].T.numpy(), chances.float().numpy(), threshold))
    return seen
