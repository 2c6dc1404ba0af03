"""What a model predicts for the pairs of a graph after every step of its recurrence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.graphs.check import check_graph
from gln.graphs.record import KINDS, NAMES, Graph, is_per_edge
from gln.inference.predict import AS_TRAINED, Choice, Method, answers_of, outputs, predict_graphs
from gln.models.contract import StructureOutput, kind_names, starting_structure


@dataclass(frozen=True)
class Seen:
    """A prediction: pairs ``[m, 2]``, the smaller node first unless directed, and their probabilities ``[steps, m]``.

    Several steps are those of a recurrence, ``A⁰`` first. Pairs that are not listed have probability 0 or below
    ``floor``. ``threshold`` decides which pairs are edges until the reader moves the slider. ``kinds`` are the
    attributes of pairs and nodes, such as ``edge_type [m]``, that the last step predicts, and ``names`` the words for
    their types.
    """

    pairs: np.ndarray
    chances: np.ndarray
    threshold: float = 0.5
    floor: float = 0.0
    directed: bool = False
    kinds: Mapping[str, np.ndarray] = field(default_factory=dict)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def last(cls, answer: Graph, threshold: float, floor: float = 0.0) -> Seen:
        """A predicted graph with ``edge_prob [2m]`` as a prediction of one step."""
        pairs, chances = answer.scored_once()
        kinds = _kinds_once(vars(answer), answer.listed_once())
        names = {name: answer[name] for name in NAMES if name in answer}
        return cls(pairs, chances[None].astype(np.float32), threshold, floor, answer.directed, kinds, names)

    @classmethod
    def forming(cls, graph: Graph) -> Seen:
        """A graph that a flow has drawn and whose noisy graphs it has kept, as a prediction of as many steps."""
        steps = [Graph(graph.num_nodes, edge_index=edges, directed=graph.directed) for edges in graph.forming]
        keys = [step.edges_once() @ (graph.num_nodes, 1) for step in steps]
        every = np.unique(np.concatenate(keys))
        chances = np.stack([np.isin(every, key) for key in keys]).astype(np.float32)
        pairs = np.stack([every // graph.num_nodes, every % graph.num_nodes], axis=1)
        return cls(pairs, chances, directed=graph.directed)

    def answer(self, nodes: Graph) -> Graph:
        """The predicted graph over ``nodes``, with ``edge_prob``: what reaches the threshold after the last step."""
        stays = self.chances[-1] >= np.float32(self.threshold)
        pairs, twice = torch.from_numpy(self.pairs[stays]).T, 1 if self.directed else 2
        found = {"edge_prob": self.chances[-1][stays], **self._some(stays)}
        of_nodes = {name: torch.from_numpy(value) for name, value in found.items() if not is_per_edge(name)}
        of_edges = {name: torch.from_numpy(value) for name, value in found.items() if is_per_edge(name)}
        of_edges = {name: torch.cat([value] * twice) for name, value in of_edges.items()}
        edges = torch.cat([pairs, pairs.flip(0)][:twice], dim=1)
        return check_graph(
            nodes.with_edges(edges, **of_edges, **of_nodes, **self.names, directed=self.directed)
        )

    def decided(self) -> Seen:
        """Only the pairs that are an edge after some step, for a page without a slider."""
        stays = (self.chances >= np.float32(self.threshold)).any(axis=0)
        return replace(self.some(stays), floor=self.threshold)

    def some(self, stays: Any) -> Seen:
        """Only the pairs that stay."""
        kinds = self._some(stays)
        return replace(self, pairs=self.pairs[stays], chances=self.chances[:, stays], kinds=kinds)

    def _some(self, stays: Any) -> dict[str, np.ndarray]:
        """The kinds of the pairs that stay, and of all nodes."""
        return {name: value[stays] if is_per_edge(name) else value for name, value in self.kinds.items()}


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
            some = _seen(model, output, [graphs[number] for number in numbers], cut)
            for number, found in zip(numbers, some, strict=True):
                seen[number] = found
            bar.update(len(numbers))
    return seen


def _seen(model: nn.Module, output: StructureOutput, graphs: Sequence[Graph], cut: float) -> list[Seen]:
    """All scored pairs of each graph, with their probabilities from ``A⁰`` on."""
    plain = replace(output, types=None, weights=None, nodes=None)
    after = [answers_of(replace(plain, logits=(logits,)), graphs, 0.0) for logits in output.logits[:-1]]
    after.append(answers_of(output, graphs, 0.0, kind_names(model)))
    found = []
    for place, answer in enumerate(after[-1]):
        once = answer.listed_once()
        chances = torch.stack([step[place].edge_prob[once] for step in after])
        if len(after) > 1:
            chances = torch.cat([starting_structure(model, answer.edge_index[:, once])[None], chances])
        found.append(replace(Seen.last(answer, cut), chances=chances.float().numpy()))
    return found


def _kinds_once(values: Mapping[str, Any], once: Tensor) -> dict[str, np.ndarray]:
    """The kinds among the attributes of a prediction, those of edges ``once`` for each."""
    names = [name for name in values if name.startswith((*KINDS,)) and name not in NAMES]
    return {name: (values[name][once] if is_per_edge(name) else values[name]).numpy() for name in names}
