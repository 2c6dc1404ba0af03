"""Graphs and trained models in PyG's terms: checked ``Data``, and a transform to use in place of ``KNNGraph``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import BaseTransform

from gln import graphs
from gln.inference.predict import predict
from gln.workflows.methods import load


def make_graph(
    pos: Any = None,
    x: Any = None,
    edges: Any = None,
    num_nodes: int | None = None,
    *,
    edge_type: Any = None,
    edge_weight: Any = None,
    node_type: Any = None,
    directed: bool = False,
) -> Data:
    """Create a checked graph from arrays, tensors or lists.

    Args:
        pos: positions ``[n, p]``, or ``None``.
        x: features ``[n, f]``, or ``None``.
        edges: pairs of node numbers ``[m, 2]``, each undirected edge once; ``None`` for no edges.
        num_nodes: required only if neither ``pos`` nor ``x`` is given.
        edge_type: a whole number from 0 for each of the ``edges``, or ``None``.
        edge_weight: a positive number for each of the ``edges``, or ``None``.
        node_type: a whole number from 0 for each node, or ``None``.
        directed: each of the ``edges`` leads from its first node to its second alone.
    """
    kinds = {"edge_type": edge_type, "edge_weight": edge_weight, "node_type": node_type}
    return graphs.make_graph(pos, x, edges, num_nodes, **kinds, directed=directed).to_data()


def as_graph(source: Any, pos: Any = None, x: Any = None, directed: bool = False) -> Data:
    """Convert any graph to a checked ``Data``; isolated nodes are kept, self-loops are dropped with a warning.

    Args:
        source: a PyG ``Data``, a networkx graph (nodes named 0 … n−1 keep their numbers, others are numbered in the
            order of ``G.nodes``), whose nodes may have the attributes ``pos``, ``x`` and ``type`` and whose edges
            ``type`` and ``weight``, or an adjacency matrix ``[n, n]`` of 0 and 1, or of weights (scipy sparse matrix,
            numpy array or tensor). Types are whole numbers from 0 or words.
        pos, x: positions and features of the nodes; they replace those of ``source``.
        directed: entry (i, j) of a matrix, or column (i, j) of ``edge_index``, leads from i to j alone; a ``DiGraph``,
            and a ``Data`` with ``directed=True``, say so themselves.
    """
    return graphs.as_graph(source, pos, x, directed).to_data()


def check_graph(graph: Data) -> Data:
    """Return ``graph`` in canonical form (float32 features, sorted int64 edges), or raise :class:`GLNError`.

    Rejects anything but a single ``Data``, no nodes, NaN or infinite values, numbers of rows that do not match the
    nodes or edges, edges to nodes that do not exist, self-loops, repeated edges, ``edge_type`` or ``node_type`` other
    than whole numbers from 0, ``edge_weight`` that is not positive, and, without ``directed=True`` in the ``Data``,
    edges given in one direction only or of two kinds. Positions in float64 that float32 cannot tell apart, such as
    metres on a map, are centred: no model sees the origin. Nothing else is repaired silently, and ``graph`` itself is
    never changed.
    """
    return graphs.check_graph(graph).to_data()


class GLNGraph(BaseTransform):
    """PyG transform that replaces the edges of a ``Data`` by those a trained model predicts from ``pos`` and/or ``x``.

    Args:
        model: a model, the folder of a saved one, or the name of a shipped one.
        threshold: a pair with at least this probability is an edge; by default the threshold stored with the model.
        edge_prob: set ``edge_prob [2m]`` too, the probability of each column of ``edge_index``.

    What else the model predicts, such as ``edge_type`` and ``node_type``, is set too.
    """

    def __init__(
        self, model: nn.Module | Path | str, threshold: float | None = None, edge_prob: bool = True
    ) -> None:
        self.model: Any = load(model) if isinstance(model, Path | str) else model
        self.threshold = threshold
        self.edge_prob = edge_prob
        self.name = str(model) if isinstance(model, Path | str) else type(model).__name__

    def __repr__(self) -> str:
        own = getattr(self.model, "threshold", None) if self.threshold is None else self.threshold
        return f"GLNGraph({self.name!r}, threshold={own}, edge_prob={self.edge_prob})"

    def forward(self, data: Data) -> Data:
        answers = predict(self.model, data if isinstance(data, Batch) else [data], threshold=self.threshold)
        device = (data.x if data.get("pos") is None else data.pos).device
        # Attributes of the old edges; by its size alone, a label or ``ptr`` may look like one.
        for key in [key for key in data.keys() if "edge" in key and data.is_edge_attr(key)]:  # noqa: SIM118
            del data[key]
        left_out = {"pos", "x", "num_nodes", "directed"} | (set() if self.edge_prob else {"edge_prob"})
        names = [name for name in answers[0].keys() if name not in left_out]  # noqa: SIM118
        if answers[0].get("directed"):
            data.directed = True
        parts = [Data(num_nodes=one.num_nodes, **{name: one[name] for name in names}) for one in answers]
        edges = Batch.from_data_list(parts)
        for name in names:
            data[name] = edges[name].to(device)
        if hasattr(data, "_slice_dict"):  # a batch of graphs: whose edges are whose, for ``to_data_list``
            data._slice_dict = data._slice_dict | edges._slice_dict
            data._inc_dict = data._inc_dict | edges._inc_dict
        return data
