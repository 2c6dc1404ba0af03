"""Converting the sets of points and edges that an estimator is given to graphs, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.graphs import make_graph

Sets = Sequence[Any]


def as_sets(X: Sets, y: Sets | None = None) -> list[Data]:
    """Checked graphs from point sets and, if given, their edges; all sets must have the same widths."""
    if y is not None and len(X) != len(y):
        raise GLNError(
            f"Got {len(X)} point sets and {len(y)} sets of edges; expected one set of edges per point set."
        )
    graphs: list[Data] = []
    for number, points in enumerate(X):
        try:
            graphs.append(_as_set(points, None if y is None else y[number]))
        except GLNError as error:
            raise GLNError(f"X[{number}]: {error}") from None
        now, first = widths(graphs[-1]), widths(graphs[0])
        if now != first:
            raise GLNError(
                f"X[{number}] has {now[0]} positions and {now[1]} features per node, X[0] has {first[0]} and "
                f"{first[1]}; give all sets the same."
            )
    if not graphs:
        raise GLNError("Got no point sets; expected at least one.")
    return graphs


def _as_set(points: Any, edges: Any) -> Data:
    if isinstance(points, Data):
        rows = {name: points[name] for name in ("pos", "x") if points.get(name) is not None}
        return make_graph(**rows, edges=edges, num_nodes=points.num_nodes)
    if isinstance(points, tuple):
        if len(points) != 2:
            raise GLNError(f"got a tuple of length {len(points)}; expected (positions, features).")
        return make_graph(pos=points[0], x=points[1], edges=edges)
    return make_graph(pos=points, edges=edges)


def widths(graph: Data) -> tuple[int, int]:
    """How many positions and features a node has."""
    pos, x = (0 if graph.get(name) is None else int(graph[name].shape[1]) for name in ("pos", "x"))
    return pos, x


def edge_pairs(graph: Data) -> np.ndarray:
    """Every edge once ``[m, 2]``, ``i < j``, sorted."""
    edges = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    return np.ascontiguousarray(edges.T.numpy())


def feature_scale(graphs: Sequence[Data]) -> tuple[list[float], list[float]] | tuple[None, None]:
    """Mean and deviation of every column of ``x``, by which :class:`gln.GLN` standardises; ``None`` without ``x``.

    Columns of zeros and ones (classes, flags) are left alone: divided by its deviation, a rare one would drown out
    the others. A constant column is only shifted.
    """
    if not widths(graphs[0])[1]:
        return None, None
    rows = torch.cat([graph.x for graph in graphs]).double()  # [nodes of all graphs, f]
    mean, deviation = rows.mean(dim=0), rows.std(dim=0, correction=0)
    binary = ((rows == 0) | (rows == 1)).all(dim=0)
    mean = mean.where(~binary, 0.0)
    changes = (rows.amax(dim=0) > rows.amin(dim=0)) & (deviation > torch.finfo(torch.float32).tiny)
    deviation = deviation.where(~binary & changes, 1.0)
    return mean.tolist(), deviation.tolist()
