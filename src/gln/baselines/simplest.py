"""The two simplest baselines: the edges that most training graphs share, and training graphs returned unchanged.

The first shows what ordered nodes give away without a look at their features; the second, the easiest way to get close
to a family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gln.baselines.base import Predictor, Sampler, register, structures
from gln.errors import GLNError
from gln.graphs import pack, unpack
from gln.graphs.record import Graph
from gln.later import torch
from gln.seeds import GENERATE


@register("constant")
@dataclass(kw_only=True)
class Constant(Predictor):
    """The same edges for all points: those that at least half of the training graphs have.

    It makes sense only where all graphs have the same size and list their nodes in the same order. ``edge_prob`` is
    the share of training graphs that have the edge. Types are the most frequent ones, weights the median.
    """

    sees_kinds = True

    fitted = "pooled: the mean adjacency of all graphs, which must have the same size."
    learned = ("mean",)

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """Average the adjacency matrices; nothing else is used."""
        sizes = {graph.num_nodes for graph in graphs}
        if len(sizes) > 1:
            raise GLNError(
                f"constant needs graphs of the same size, but these have {min(sizes)} to {max(sizes)} nodes; "
                "choose another baseline."
            )
        size = sizes.pop()
        counts = torch.zeros(size * size, dtype=torch.float64)
        for graph in graphs:
            source, target = graph.edge_index.cpu()
            counts[source * size + target] += 1
        self.mean_ = (counts / len(graphs)).view(size, size)
        self._learn_kinds(graphs)

    def answer(self, points: Graph) -> Graph:
        self._need_fit()
        if points.num_nodes != len(self.mean_):
            raise GLNError(
                f"Got {points.num_nodes} nodes; this constant was fitted to graphs of {len(self.mean_)}."
            )
        edges = (self.mean_ >= 0.5).nonzero().T.contiguous()
        directed = self.usual_ is not None and bool(self.usual_[3] == 1)
        chances = self.mean_[edges[0], edges[1]].float()
        return self._with_kinds(points.with_edges(edges, edge_prob=chances, directed=directed))


@register("copy")
@dataclass(kw_only=True)
class Copy(Sampler):
    """A random training graph, unchanged: close to the floor of every MMD, and nothing new."""

    fitted = "pooled: all graphs are stored."
    learned = ("graphs",)

    def learn(
        self, graphs: list[Graph], val: Sequence[Graph], seed: int, progress: bool, folder: Path | None
    ) -> None:
        """Store the structure of ``graphs``; nothing else is used."""
        self.graphs_ = structures(graphs)

    def draw(self, count: int, seed: int = 0) -> list[Graph]:
        count, seed = self._checked(count, seed)
        chosen = np.random.default_rng([GENERATE, seed]).integers(len(self.graphs_), size=count)
        return [self.graphs_[number].clone() for number in chosen]

    def state(self) -> dict[str, torch.Tensor]:
        self._need_fit()
        return pack(self.graphs_)

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        self.graphs_ = unpack(state)
