"""Which pairs a model scores: all of them, or every node with its K nearest, made symmetric.

Candidates are chosen by distance, ties included, so that the order of the nodes does not matter. The share of true
edges among them, the *candidate recall*, limits what a model can find; it is reported wherever candidates are used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from gln.graphs.batch import pair_mask
from gln.models.output import StructureOutput
from gln.models.pairs import DensePairs, SparsePairs

DENSE_NODES = 128  # up to this size, the dense form's matrix products beat the sparse form's gathers
TREE_NODES = 4000  # above this size, a k-d tree beats the matrix of all distances
TREE_ROWS = 2**16  # nodes queried at once
TIE = 1 + 1e-6  # distances within this factor count as equal


class PairList(NamedTuple):
    """Pairs as flat lists of equal length: index of the graph in the batch, source node, target node."""

    graph: Tensor
    source: Tensor
    target: Tensor


def join_pairs(lists: list[PairList]) -> PairList | None:
    """Join several lists into one; ``None`` if there are none."""
    return PairList(*(torch.cat(parts) for parts in zip(*lists, strict=True))) if lists else None


def all_pairs(mask: Tensor) -> DensePairs:
    """All pairs of different real nodes; ``mask`` ``[B, N]``."""
    return DensePairs(pair_mask(mask))


def candidate_pairs(
    where: Tensor,
    mask: Tensor,
    nearest: int | Tensor,
    extra: PairList | None = None,
    sparse: bool | None = None,
) -> DensePairs | SparsePairs:
    """Pair every node with its ``nearest`` nodes and add the ``extra`` pairs, made symmetric.

    Args:
        where: positions ``[B, N, p]``.
        mask: real nodes ``[B, N]``.
        nearest: K, or one K per graph ``[B]``; as many as there are nodes, or more, give all pairs.
        extra: further pairs, such as known or proposed edges.
        sparse: force the sparse or the dense form; by default the number of nodes decides.
    """
    nodes = mask.shape[1]
    counts = torch.as_tensor(nearest, device=mask.device).expand(len(mask))  # [B]
    sparse = nodes > DENSE_NODES if sparse is None else sparse
    if nodes <= TREE_NODES:
        near = _near_by_matrix(where, mask, counts)
        if not sparse:
            return _dense(near, mask, extra)
        pairs = PairList(*near.nonzero(as_tuple=True))
    else:
        pairs = _near_by_tree(where, mask, counts)
    joined = join_pairs([pairs] if extra is None else [pairs, extra])
    assert joined is not None
    return _sparse(joined, mask)


def candidate_recall(pairs: DensePairs | SparsePairs, adj: Tensor) -> Tensor:
    """Share of the true edges ``adj`` ``[B, N, N]`` that are among ``pairs``, per graph ``[B]``; 1 without edges."""
    index = pairs.target if isinstance(pairs, SparsePairs) else None
    return StructureOutput((), (), pairs.mask, index).recall(adj)


def _near_by_matrix(where: Tensor, mask: Tensor, nearest: Tensor) -> Tensor:
    """True at ``[b, i, j]`` if ``j`` is among the ``nearest[b]`` of ``i``: ``[B, N, N]``."""
    everything = pair_mask(mask)
    most = mask.shape[1]
    if most > DENSE_NODES:  # below, ranking all is cheaper than waiting for the GPU to tell the largest K
        most = min(max(int(nearest.max()), 1), most)
    where = where.to(torch.promote_types(where.dtype, torch.float32))  # cdist has no half precision
    # The direct formula: the usual one, by matrix product, loses the digits that decide between neighbours.
    distance = torch.cdist(where, where, compute_mode="donot_use_mm_for_euclid_dist")
    distance = distance.masked_fill(~everything, torch.inf)
    ranked = distance.topk(
        most, dim=2, largest=False
    ).values  # [B, N, most]; infinite where there are fewer nodes
    place = (nearest.clamp(1, most) - 1).view(-1, 1, 1).expand(-1, mask.shape[1], 1)
    return (distance <= ranked.gather(2, place) * TIE) & everything


def _near_by_tree(where: Tensor, mask: Tensor, nearest: Tensor) -> PairList:
    """The same as a list, for sets too large for a matrix; ties add at most ``nearest`` nodes."""
    parts = []
    sizes, counts = mask.sum(1).tolist(), nearest.tolist()
    where = where.to(torch.promote_types(where.dtype, torch.float32))  # NumPy has no bfloat16
    for number, (points, size, count) in enumerate(zip(where.numpy(force=True), sizes, counts, strict=True)):
        source, target = nearest_nodes(cKDTree(points[:size]), count)
        parts.append((np.full(len(source), number), source, target))
    return PairList(
        *(torch.from_numpy(np.concatenate(part)).to(where.device) for part in zip(*parts, strict=True))
    )


def nearest_nodes(tree: cKDTree, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Pair every node of ``tree`` with its ``count`` nearest and with those as near as the last of them: two lists.

    Ties add at most ``count`` nodes.
    """
    parts = []
    for start in range(0, tree.n, TREE_ROWS):
        rows = np.arange(start, min(start + TREE_ROWS, tree.n))
        source, target, crowded = _query(tree, rows, count, count + 2)
        parts.append((source, target))
        if len(crowded):
            parts.append(_query(tree, crowded, count, 2 * count + 1)[:2])
    source, target = (np.concatenate(part) for part in zip(*parts, strict=True))
    return source, target


def _query(
    tree: cKDTree, rows: np.ndarray, count: int, take: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pairs of the ``rows`` whose ties all fit into ``take`` nodes, and the other rows, which need more."""
    take, full = min(take, tree.n), 2 * count + 1
    distance, target = tree.query(tree.data[rows], k=take, workers=torch.get_num_threads())
    distance, target = distance.reshape(len(rows), take), target.reshape(len(rows), take)
    reach = distance[:, [min(count, take - 1)]] * TIE
    crowded = (distance[:, -1:] <= reach)[:, 0] & (take < min(full, tree.n))
    near = (distance <= reach) & (target != rows[:, None]) & ~crowded[:, None]
    row, slot = near.nonzero()
    return rows[row], target[row, slot], rows[crowded]


def _dense(near: Tensor, mask: Tensor, extra: PairList | None) -> DensePairs:
    if extra is not None:
        near[extra.graph, extra.source, extra.target] = True
        near &= pair_mask(mask)
    return DensePairs(near | near.transpose(1, 2))


def _sparse(pairs: PairList, mask: Tensor) -> SparsePairs:
    """The pairs in slots, as many per node as the node with the most pairs needs."""
    count, nodes = mask.shape
    graph, source, target = pairs
    real = (source != target) & mask[graph, source] & mask[graph, target]
    graph, source, target = graph[real], source[real], target[real]
    forth, back = (graph * nodes + source) * nodes + target, (graph * nodes + target) * nodes + source
    key = torch.cat([forth, back]).unique()  # sorted by graph, source, target
    row, target = key // nodes, key % nodes
    degree = torch.bincount(row, minlength=count * nodes)
    slot = torch.arange(len(key), device=mask.device) - (degree.cumsum(0) - degree)[row]
    index = torch.full((count * nodes, max(int(degree.max()), 1)), nodes, device=mask.device)
    index[row, slot] = target
    return SparsePairs.from_index(index.view(count, nodes, -1))
