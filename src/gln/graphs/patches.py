"""Small graphs out of a large one: how to train on a single mesh."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch_geometric.data import Data

from gln.errors import GLNError


def cut_patches(graph: Data, size: int, count: int, seed: int | Sequence[int] = 0) -> list[Data]:
    """``count`` local patches: a random node, the ``size`` − 1 nodes nearest to it, and the edges among them.

    Args:
        graph: a checked graph; near is by ``pos``, or by ``x`` if there is none.
        size: nodes per patch; the whole graph, over and over, if it has no more.
        count: how many patches; their centres are distinct as long as there are nodes.
        seed: the same seed, or numbers, cut the same patches.
    """
    if size < 2 or count < 1:
        raise GLNError(f"Got patches of size={size}, count={count}; expected at least 2 nodes and 1 patch.")
    where = _where(graph)
    rng = np.random.default_rng(seed)
    rounds = -(-count // len(where))
    centres = np.concatenate([rng.permutation(len(where)) for _ in range(rounds)])[:count]
    _, near = cKDTree(where).query(where[centres], k=min(size, len(where)))
    return [_part(graph, nodes) for nodes in near.reshape(count, -1)]


def cut_regions(graph: Data, shares: Sequence[float]) -> list[Data]:
    """The graph cut across its longest extent into regions that hold these ``shares`` of the nodes.

    No node is in two regions, and edges between regions are dropped: what is learnt in one is not seen in another.
    """
    where = _where(graph)
    centred = where - where.mean(axis=0)
    longest = np.linalg.svd(centred, full_matrices=False)[2][0]
    order = np.argsort(centred @ longest, kind="stable")
    cuts = np.round(np.cumsum(shares)[:-1] * len(order)).astype(int)
    regions = np.split(order, cuts)
    if min(map(len, regions)) < 2:
        raise GLNError(
            f"The graph has {len(order)} nodes; it is too small to be cut into {len(shares)} regions."
        )
    return [_part(graph, nodes) for nodes in regions]


def _where(graph: Data) -> np.ndarray:
    """Float64 positions ``[n, p]``, features where there are none."""
    rows = graph.x if graph.get("pos") is None else graph.pos
    if rows is None:
        raise GLNError("The graph has neither pos nor x; patches need to know who is near.")
    return np.asarray(rows.double())


def _part(graph: Data, nodes: np.ndarray) -> Data:
    """The subgraph on ``nodes``, which keep their order in the graph."""
    part = graph.subgraph(torch.from_numpy(np.sort(nodes)))
    part.num_nodes = len(nodes)
    return part
