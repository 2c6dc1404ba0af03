"""Edges by distance alone: the usual way to get a graph from points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.baselines.base import Predictor, register
from gln.baselines.proximity import gabriel, lengths, pairs_by_distance, pairs_by_rank, relative_neighbours
from gln.errors import GLNError
from gln.graphs import as_graphs, make_graph

Rule = Literal["knn", "mutual", "radius", "gabriel", "rng"]


@register("neighbours")
@dataclass(kw_only=True)
class Neighbours(Predictor):
    """Joins nodes that lie near each other, by one of five rules.

    ``k`` or the radius is the one with the highest mean F1 over the validation graphs, or over the training graphs
    if there are none. Without ``pos``, distances are between rows of ``x``. Nodes at equal distance are treated
    alike, so a node may get more than ``k`` neighbours.

    Args:
        rule: ``"knn"`` joins a node to its ``k`` nearest, ``"mutual"`` only if that holds both ways, ``"radius"`` to
            all nodes up to a distance; ``"gabriel"`` and ``"rng"`` (relative neighbours) have no parameter.
        most: the largest ``k`` to try.
    """

    rule: Rule = "knn"
    most: int = 32

    fitted: ClassVar[str] = "pooled: one k or radius for all graphs."

    def __post_init__(self) -> None:
        self._check_choice("rule", get_args(Rule))
        self._keep_whole("most")

    def fit(
        self,
        graphs: Sequence[Data],
        val: Sequence[Data] = (),
        *,
        seed: int = 0,
        progress: bool = False,
        folder: Path | None = None,
    ) -> Self:
        """Choose ``k`` or the radius; this is quick, so nothing is kept in ``folder``."""
        judges = as_graphs(val, "val") if len(val) else as_graphs(graphs)
        _where(judges[0])  # fail now, not at the first prediction
        choices = self._choices(judges)
        scores = np.zeros(len(choices))
        if len(choices) > 1:
            for graph in tqdm(judges, desc="neighbours", disable=None if progress else True):
                scores += self._scores(graph, choices)
        self.parameter_ = float(choices[scores.argmax()])
        return self

    def predict(self, points: Data) -> Data:
        """The graph over ``points`` by the rule, with the chosen ``k`` or radius."""
        self._need_fit("parameter_")
        rows = {name: points[name] for name in ("pos", "x") if points.get(name) is not None}
        pairs, _ = self._pairs(_where(points), self.parameter_)
        return make_graph(**rows, edges=torch.from_numpy(pairs), num_nodes=points.num_nodes)

    def state(self) -> dict[str, Tensor]:
        self._need_fit("parameter_")
        return {"parameter": torch.tensor(self.parameter_, dtype=torch.float64)}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.parameter_ = state["parameter"].item()

    def _pairs(self, where: np.ndarray, limit: float) -> tuple[np.ndarray, np.ndarray]:
        """The pairs ``[m, 2]`` for a ``k`` or radius of ``limit``, and the least value ``[m]`` that includes each."""
        if self.rule in ("knn", "mutual"):
            return pairs_by_rank(where, int(limit), mutual=self.rule == "mutual")
        if self.rule == "radius":
            return pairs_by_distance(where, limit)
        pairs = gabriel(where) if self.rule == "gabriel" else relative_neighbours(where)
        return pairs, np.zeros(len(pairs))

    def _choices(self, graphs: Sequence[Data]) -> np.ndarray:
        """The values to choose from, in ascending order."""
        if self.rule in ("knn", "mutual"):
            largest = max(graph.num_nodes for graph in graphs)
            return np.arange(1, max(2, min(self.most + 1, largest)))
        if self.rule != "radius":
            return np.zeros(1)
        # The best radius is the length of an edge: shrinking it to the next shorter one loses only wrong pairs.
        edges = [lengths(_where(graph), *graph.edge_index.numpy(force=True)) for graph in graphs]
        return np.unique(np.concatenate([[0.0], *edges]))

    def _scores(self, graph: Data, choices: np.ndarray) -> np.ndarray:
        """The F1 of every choice ``[C]`` on one graph."""
        count = graph.num_nodes
        source, target = graph.edge_index.numpy(force=True)
        true = source[source < target] * count + target[source < target]
        pairs, entry = self._pairs(_where(graph), choices[-1])
        hit = np.isin(pairs[:, 0] * count + pairs[:, 1], true)
        found, drawn = (np.searchsorted(np.sort(part), choices, side="right") for part in (entry[hit], entry))
        total = drawn + len(true)
        return np.where(total > 0, 2 * found / np.maximum(total, 1), 1.0)


def _where(graph: Data) -> np.ndarray:
    """The node positions ``[n, p]`` in float64, which represents float32 exactly."""
    rows = graph.get("pos") if graph.get("pos") is not None else graph.get("x")
    if rows is None:
        raise GLNError("The nodes have neither pos nor x; neighbours needs one of them to measure distances.")
    return rows.numpy(force=True).astype(np.float64)
