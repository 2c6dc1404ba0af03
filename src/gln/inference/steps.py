"""What a model predicts for the pairs of a graph after every step of its recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.graphs.check import check_graph
from gln.graphs.record import Graph
from gln.inference.predict import AS_TRAINED, Choice, Method, edges_above, outputs, predict_graphs
from gln.models.contract import StructureOutput, starting_structure


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

    @classmethod
    def last(cls, answer: Graph, threshold: float, floor: float = 0.0) -> Seen:
        """A predicted graph with ``edge_prob [2m]`` as a prediction of one step."""
        pairs, chances = answer.scored_once()
        return cls(pairs, chances[None].astype(np.float32), threshold, floor)

    def answer(self, nodes: Graph) -> Graph:
        """The predicted graph over ``nodes``, with ``edge_prob``: what reaches the threshold after the last step."""
        stays = self.chances[-1] >= np.float32(self.threshold)
        pairs, prob = torch.from_numpy(self.pairs[stays]).T, torch.from_numpy(self.chances[-1][stays])
        edges = torch.cat([pairs, pairs.flip(0)], dim=1)
        return check_graph(nodes.with_edges(edges, edge_prob=torch.cat([prob, prob])))

    def decided(self) -> Seen:
        """Only the pairs that are an edge after some step, for a page without a slider."""
        stays = (self.chances >= np.float32(self.threshold)).any(axis=0)
        return Seen(self.pairs[stays], self.chances[:, stays], self.threshold, self.threshold)


def every_step(
    model: Method,
    graphs: Sequence[Graph],
    choice: Choice = AS_TRAINED,
    progress: bool = False,
) -> list[Seen]:
    """What ``model`` predicts for the nodes of each graph after every step; what has no steps answers once."""
    cut = choice.cut(model)
    if not isinstance(model, nn.Module):
        answers = predict_graphs(model, graphs, replace(choice, threshold=None))
        return [Seen.last(answer, cut) for answer in answers]
    seen: list[Any] = [None] * len(graphs)
    with tqdm(total=len(graphs), unit="graph", disable=None if progress else True, leave=False) as bar:
        for numbers, _, output in outputs(model, graphs, choice):
            for number, scores in zip(numbers, _scores(model, output), strict=True):
                seen[number] = Seen(*scores, cut)
            bar.update(len(numbers))
    return seen


def _scores(model: nn.Module, output: StructureOutput) -> list[tuple[np.ndarray, np.ndarray]]:
    """All scored pairs ``[m, 2]`` of each graph, and their probabilities ``[steps, m]``, from ``A⁰`` on."""
    after = [edges_above(replace(output, logits=(logits,)), 0.0) for logits in output.logits]
    found = []
    for graph in zip(*after, strict=True):
        edges, _ = graph[0]
        once = edges[0] < edges[1]
        chances = torch.stack([prob[once] for _, prob in graph])
        if len(graph) > 1:
            chances = torch.cat([starting_structure(model, edges[:, once])[None], chances])
        found.append((edges[:, once].T.numpy(), chances.float().numpy()))
    return found
