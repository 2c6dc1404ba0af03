"""What a model predicts for the pairs of a graph after every step of its recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.graphs.check import check_graph
from gln.graphs.record import Graph, is_per_edge
from gln.inference.predict import AS_TRAINED, Choice, Method, answers_of, outputs, predict_graphs
from gln.models.contract import kind_names, starting_structure


@dataclass(frozen=True)
class Seen:
    """A prediction: a graph of pairs, with what the last step predicts of them and of the nodes, such as ``edge_type``.

    Every pair is listed once, the smaller node first unless directed. ``chances [steps, m]`` are their probabilities;
    several steps are those of a recurrence, ``A⁰`` first. Pairs that are not listed have probability 0 or below
    ``floor``. ``threshold`` decides which pairs are edges until the reader moves the slider.
    """

    graph: Graph
    chances: np.ndarray
    threshold: float = 0.5
    floor: float = 0.0

    @classmethod
    def last(cls, answer: Graph, threshold: float, floor: float = 0.0) -> Seen:
        """A predicted graph with ``edge_prob [2m]`` as a prediction of one step."""
        once = answer.some_edges(answer.listed_once())
        return cls(once, once.edge_prob[None].float().numpy(force=True), threshold, floor)

    @classmethod
    def forming(cls, graph: Graph) -> Seen:
        """A graph that a flow has drawn and whose noisy graphs it has kept, as a prediction of as many steps."""
        steps = [Graph(graph.num_nodes, edge_index=edges, directed=graph.directed) for edges in graph.forming]
        keys = [step.edges_once() @ (graph.num_nodes, 1) for step in steps]
        every = np.unique(np.concatenate(keys))
        chances = np.stack([np.isin(every, key) for key in keys]).astype(np.float32)
        pairs = torch.from_numpy(np.stack(np.divmod(every, graph.num_nodes)))
        return cls(graph.with_edges(pairs, directed=graph.directed), chances)

    @property
    def pairs(self) -> np.ndarray:
        """The pairs ``[m, 2]``."""
        return self.graph.edge_index.T.numpy(force=True)

    def answer(self, nodes: Graph) -> Graph:
        """The predicted graph over ``nodes``, with ``edge_prob``: what reaches the threshold after the last step."""
        stays = torch.from_numpy(self.chances[-1] >= np.float32(self.threshold))
        found = self.graph.some_edges(stays)
        found.edge_prob = torch.from_numpy(self.chances[-1])[stays]
        if not found.directed:
            for name in filter(is_per_edge, found.keys()):
                found[name] = torch.cat([found[name]] * 2)
            found.edge_index = torch.cat([found.edge_index, found.edge_index.flip(0)], dim=1)
        return check_graph(Graph(**vars(found) | nodes.rows()))

    def decided(self) -> Seen:
        """Only the pairs that are an edge after some step, for a page without a slider."""
        stays = (self.chances >= np.float32(self.threshold)).any(axis=0)
        return replace(self.some(torch.from_numpy(stays)), floor=self.threshold)

    def some(self, stays: Tensor) -> Seen:
        """Only the pairs that stay."""
        return replace(self, graph=self.graph.some_edges(stays), chances=self.chances[:, stays.numpy()])


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
            some = [graphs[number] for number in numbers]
            plain = replace(output, types=None, weights=None, nodes=None)
            after = [answers_of(replace(plain, logits=(logits,)), some, 0.0) for logits in output.logits[:-1]]
            after.append(answers_of(output, some, 0.0, kind_names(model)))
            for place, number in enumerate(numbers):  # all scored pairs of the graph, from A⁰ on
                answer = after[-1][place]
                once = answer.listed_once()
                chances = torch.stack([step[place].edge_prob[once] for step in after])
                if len(after) > 1:
                    first = starting_structure(model, answer.edge_index[:, once])
                    chances = torch.cat([first[None], chances])
                seen[number] = replace(Seen.last(answer, cut), chances=chances.float().numpy())
            bar.update(len(numbers))
    return seen
