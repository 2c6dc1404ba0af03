"""Connected components of many graphs at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.data import Data

from gln.graphs import as_graphs


def component_labels(graphs: Iterable[Any]) -> list[Tensor]:
    """The component number of every node: int64 ``[n]`` per graph of any kind; no two graphs share a number.

    Components are numbered in the order of their first nodes.
    """
    return component_labels_of(as_graphs(graphs))


def component_labels_of(graphs: Sequence[Data]) -> list[Tensor]:
    """:func:`component_labels` for checked graphs."""
    nodes = [graph.num_nodes for graph in graphs]
    offsets = np.cumsum([0, *nodes])
    source, target = np.concatenate(
        [graph.edge_index.numpy(force=True) + offset for graph, offset in zip(graphs, offsets, strict=False)],
        axis=1,
    )
    ones = np.ones(len(source), dtype=np.int8)
    union = sp.csr_array((ones, (source, target)), shape=(offsets[-1], offsets[-1]))
    labels = connected_components(union, directed=False)[1]
    return list(torch.from_numpy(labels.astype(np.int64)).split(nodes))


def largest_components(graphs: Iterable[Any]) -> list[Data]:
    """The largest component of each graph, structure only; ties go to the one with the first node."""
    return largest_components_of(as_graphs(graphs))


def largest_components_of(graphs: Sequence[Data]) -> list[Data]:
    """:func:`largest_components` for checked graphs."""
    out = []
    for graph, label in zip(graphs, component_labels_of(graphs), strict=True):
        label = (label - label.min()).to(graph.edge_index.device)
        keep = label == label.bincount().argmax()
        number = keep.cumsum(0) - 1  # the new number of every kept node
        inside = keep[graph.edge_index[0]]  # an edge has both ends in one component
        out.append(Data(edge_index=number[graph.edge_index[:, inside]], num_nodes=int(keep.sum())))
    return out
