"""Which pairs a model scores: all of them, or every node with its K nearest, made symmetric.

Candidates are chosen by distance, ties included, so that the order of the nodes does not matter. A learned score can
propose further ones. The share of true edges among them, the *candidate recall*, limits what a model can find; it is
reported wherever candidates are used.

Coinciding nodes are equally near, so all of them would be candidates of one another: a thousand would be half a million
pairs, each of which reads a thousand third nodes. At a *crowded* place, with more than :func:`most_at` nodes,

1. identical nodes, with the same features and no known edges, are one node: one of them is scored and stands for all,
   so that each has the same edges to others, and none to its likes;
2. if more than that remain, they stand in a row in the order of their features: each is paired with the K before and
   the K after it, and nodes elsewhere see only the first K and the last K.

Nothing here depends on the order of the nodes, and each node has O(K) candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from gln.graphs.batch import pair_mask
from gln.later import spatial
from gln.models.contract import StructureOutput
from gln.models.features import mlp
from gln.models.pairs import AllPairs, ListedPairs, Pairs, block_size, never_compiled

if TYPE_CHECKING:
    from gln.models.gln import GLN

SMALL = 128  # sets of up to this many nodes are scored over all pairs
FEWEST = 8  # the smallest K drawn in training, or half the model's candidates if that is more
DENSE_NODES = 128  # up to this size, the matrix products of all pairs beat the gathers of a list
TREE_NODES = 4000  # above this size, a k-d tree beats the matrix of all distances
TREE_ROWS = 2**16  # nodes queried at once
TIE = 1 + 1e-6  # distances within this factor count as equal
KEY_BITS = (32, 31, 16, 15)  # of every coordinate in a key of up to 63 bits, for so many coordinates
WORKSPACE = 2**24  # scores held at once where the matrix of all pairs would be too large
FEW = 128  # nodes that coincide are no crowd, whatever K is: all pairs of so many are cheap


@never_compiled
def choose_pairs(
    model: GLN,
    where: Tensor,
    x: Tensor,
    mask: Tensor,
    initial: Tensor | None = None,
    proposal: Tensor | None = None,
    candidates: int | None = None,
) -> Pairs:
    """All pairs of a small set, candidates of a large one; in training, a random number of candidates.

    Each graph is judged by its own size: padding must not matter. The rest is as in :meth:`gln.GLN.forward`.
    """
    # The host knows the padded size without waiting for the GPU, so decide by it where possible.
    limit = 0 if model.sparse else SMALL
    all_small = mask.shape[1] <= limit and candidates is None
    share, everything = torch.rand(2).tolist() if model.training else (1.0, 0.0)
    if all_small and everything < 0.5:
        return all_pairs(mask)
    sizes = mask.sum(1)  # [B]
    small = (sizes <= limit) & (candidates is None)
    candidates = candidates or model.candidates
    nearest = torch.where(small, sizes, candidates)
    if model.training:
        least = min(max(FEWEST, candidates // 2), candidates)
        most = torch.where(small, sizes, 2 * candidates).clamp(min=least)
        drawn = (least * (most / least) ** share).round().long()
        nearest = torch.where(small & (everything < 0.5), sizes, drawn)
    if not all_small and bool((nearest >= sizes).all()):
        return all_pairs(mask)
    known, proposed = None, None
    if initial is not None:
        edges = initial if initial.dim() == 3 else initial.sum(-1)
        graph, *ends = (edges >= 0.5).nonzero(as_tuple=True)
        known = torch.stack(ends) + graph * mask.shape[1]
    if model.propose is not None and proposal is not None:
        proposed = partial(model.propose.best, proposal)
    return candidate_pairs(where, mask, nearest, known, model.sparse or None, x, proposed)


def all_pairs(mask: Tensor) -> AllPairs:
    """All pairs of different real nodes; ``mask`` ``[B, N]``."""
    return AllPairs(pair_mask(mask))


def candidate_pairs(
    where: Tensor,
    mask: Tensor,
    nearest: int | Tensor,
    extra: Tensor | None = None,
    listed: bool | None = None,
    x: Tensor | None = None,
    proposed: Callable[[Tensor], Tensor] | None = None,
) -> Pairs:
    """Pair every node with its ``nearest`` nodes and add the ``extra`` pairs, made symmetric.

    Args:
        where: positions ``[B, N, p]``.
        mask: real nodes ``[B, N]``.
        nearest: K, or one K per graph ``[B]``; as many as there are nodes, or more, give all pairs.
        extra: further pairs, such as known edges: their ends ``[2, q]`` among the ``B · N`` nodes.
        listed: force one form or the other; by default the number of nodes decides.
        x: features ``[B, N, f]``: few pairs where very many nodes coincide, which needs the listed form; ``None``: all.
        proposed: gives further pairs ``[2, p]``, of the nodes ``[B, N]`` that nodes elsewhere may be paired with.
    """
    count, nodes = mask.shape
    counts = torch.as_tensor(nearest, device=mask.device).expand(count)  # [B]
    listed = nodes > DENSE_NODES if listed is None else listed
    extra = torch.empty(2, 0, dtype=torch.long, device=mask.device) if extra is None else extra
    crowds = None if x is None else find_crowds(where, x, mask, counts, extra)
    seen = mask if crowds is None else crowds.seen
    extra = extra if proposed is None else torch.cat([extra, proposed(seen)], dim=1)
    if nodes > TREE_NODES:
        ends = _near_by_tree(where, seen, counts)
    else:
        near = _near_by_matrix(where, seen, counts)
        if not listed:
            near.view(-1, nodes)[extra[0], extra[1] % nodes] = True
            near &= pair_mask(mask)
            return AllPairs(near | near.transpose(1, 2))
        graph, source, target = near.nonzero(as_tuple=True)
        ends = torch.stack([source, target]) + graph * nodes
    ends = torch.cat([ends, extra] if crowds is None else [ends, extra, crowds.within], dim=1)
    ends = ends[:, mask.flatten()[ends].all(0)]
    order = None if ends.shape[1] <= block_size(where.device) else spatial_order(where)
    pairs = ListedPairs.from_ends(ends, (count, nodes), order)
    return pairs if crowds is None else replace(pairs, stands=crowds.stands)


def candidate_recall(pairs: Pairs, adj: Tensor) -> Tensor:
    """Share of the true edges ``adj`` ``[B, N, N]`` that are among ``pairs``, per graph ``[B]``; 1 without edges."""
    return StructureOutput((), (), pairs.mask, pairs.candidates).recall(adj)


def spatial_order(where: Tensor) -> Tensor:
    """An order ``[B · N]`` of the points ``[B, N, p]`` that keeps neighbours together, one graph after another.

    It is that of a Z-curve through the space of all numbers. Which of two points comes first depends on these two
    alone, so sums over the nodes around one add up the same numbers in the same order in a part of the set.
    """
    count, nodes, _ = where.shape
    bits = (where[..., : len(KEY_BITS)].float() + 0.0).view(torch.int32)  # zeros of either sign are equal
    level = (bits ^ (bits >> 31 & 2**31 - 1)).long() + 2**31  # ascends with the number, from 0 to 2³²
    axes = level.unbind(-1)
    each = KEY_BITS[len(axes) - 1]
    order = torch.arange(nodes, device=where.device).expand(count, nodes)
    for last in range(32 % each, 32, each):  # sorted by the last bits first
        key = torch.zeros_like(axes[0])
        for bit in reversed(range(last, last + each)):
            for axis in axes:
                key = 2 * key + (axis >> bit & 1)
        order = order.gather(1, key.gather(1, order).sort(dim=1, stable=True).indices)
    return (order + nodes * torch.arange(count, device=where.device)[:, None]).flatten()


def _near_by_matrix(where: Tensor, mask: Tensor, nearest: Tensor) -> Tensor:
    """True at ``[b, i, j]`` if ``j`` is among the ``nearest[b]`` of ``i``: ``[B, N, N]``."""
    everything = pair_mask(mask)
    most = mask.shape[1]
    if most > DENSE_NODES:  # below, ranking all is cheaper than waiting for the GPU to tell the largest K
        most = min(max(int(nearest.max()), 1), most)
    where = where.to(torch.promote_types(where.dtype, torch.float32))  # cdist has no half precision
    # The direct formula: the usual one, by matrix product, loses the digits that decide between neighbours.
    if where.is_cuda and where.shape[-1] <= 4:  # cdist takes as long for few coordinates as for many
        distance = torch.linalg.vector_norm(where[:, :, None] - where[:, None], dim=-1)
    else:
        distance = torch.cdist(where, where, compute_mode="donot_use_mm_for_euclid_dist")
    distance = distance.masked_fill(~everything, torch.inf)
    # [B, N, most]; infinite where there are fewer nodes.
    ranked = distance.topk(most, dim=2, largest=False).values
    place = (nearest.clamp(1, most) - 1).view(-1, 1, 1).expand(-1, mask.shape[1], 1)
    return (distance <= ranked.gather(2, place) * TIE) & everything


def _near_by_tree(where: Tensor, mask: Tensor, nearest: Tensor) -> Tensor:
    """The same as ends ``[2, q]``, for sets too large for a matrix."""
    parts = [torch.empty(2, 0, dtype=torch.long, device=where.device)]
    for number, points in enumerate(as_numpy(where)):
        own = mask[number].nonzero()[:, 0]
        if len(own):
            ends = own[_nearest_nodes(points[own.numpy(force=True)], int(nearest[number]), where.device)]
            parts.append(ends + number * mask.shape[1])
    return torch.cat(parts, dim=1)


def _nearest_nodes(points: np.ndarray, count: int, device: torch.device) -> Tensor:
    """Pair every node with its ``count`` nearest and with those as near as the last of them: ``[2, q]``."""
    # A tree that is not balanced is built in less time, and asked in no more.
    tree = spatial.cKDTree(points, balanced_tree=False)
    parts, take = [torch.empty(2, 0, dtype=torch.long, device=device)], count + 2
    # Nodes that follow one another are near, so the tree is walked half as long.
    todo = np.array(tree.indices)
    while len(todo):
        step = max(1, TREE_ROWS * (count + 2) // take)
        take, crowded = min(take, tree.n), []  # nodes whose ties do not all fit into so many
        for rows in np.split(todo, range(step, len(todo), step)):
            found = tree.query(tree.data[rows], k=take, workers=torch.get_num_threads())
            distance, target = (torch.from_numpy(part.reshape(len(rows), take)).to(device) for part in found)
            source = torch.from_numpy(rows).to(device)
            reach = distance[:, [min(count, take - 1)]] * TIE
            tied = (distance[:, -1:] <= reach)[:, 0] & (take < tree.n)
            near = (distance <= reach) & (target != source[:, None]) & ~tied[:, None]
            row, slot = near.nonzero(as_tuple=True)
            parts.append(torch.stack([source[row], target[row, slot]]))
            crowded.append(rows[tied.numpy(force=True)])
        todo, take = np.concatenate(crowded), 2 * take
    return torch.cat(parts, dim=1)


@dataclass(frozen=True)
class Crowds:
    """Which nodes and pairs are scored; nodes are numbered among the ``n = B · N`` of the batch.

    ==========  ============  ===============================================================
    ``seen``    ``[B, N]``    True for nodes that nodes elsewhere may be paired with
    ``within``  ``[2, q]``    pairs of nodes at one place
    ``stands``  ``[n]``       the node that is scored for each: itself, or one like it
    ==========  ============  ===============================================================
    """

    seen: Tensor
    within: Tensor
    stands: Tensor


def most_at(nearest: Tensor) -> Tensor:
    """How many nodes may be at one place, for each K, before it is crowded."""
    return (2 * nearest).clamp(min=FEW)


def find_crowds(where: Tensor, x: Tensor, mask: Tensor, nearest: Tensor, known: Tensor) -> Crowds | None:
    """What to do about the crowded places; ``None`` if there is none.

    Of the nodes (real: ``mask [B, N]``), the model reads ``where [B, N, p]`` and ``x [B, N, f]``; ``nearest [B]`` is
    the K of each graph, and ``known [2, m]`` are known edges among all ``B · N`` nodes.
    """
    count, nodes = mask.shape
    if nodes <= FEW or not _may_be_crowded(where, mask, most_at(nearest)):
        return None
    seen, stands = mask.numpy(force=True).copy(), np.arange(count * nodes)
    has_known, within = np.zeros(count * nodes, dtype=bool), [np.empty((2, 0), dtype=np.int64)]
    has_known[known.numpy(force=True)] = True
    for number, (k, most) in enumerate(zip(nearest.tolist(), most_at(nearest).tolist(), strict=True)):
        own = np.flatnonzero(seen[number])
        place = _numbered(as_numpy(where[number])[own])
        crowded = own[np.bincount(place)[place] > most]
        if len(crowded):
            place = place[np.searchsorted(own, crowded)]
            alone, first = _distinct(
                as_numpy(x[number])[crowded], place, has_known[number * nodes :][crowded]
            )
            stands[number * nodes + crowded] = number * nodes + crowded[first]
            shown, row = _in_a_row(place[alone], k, most)
            seen[number, crowded] = False
            seen[number, crowded[alone[shown]]] = True
            within.append(crowded[alone[row]] + number * nodes)
    if len(within) == 1:
        return None
    ends = np.concatenate(within, axis=1)
    return Crowds(*(torch.from_numpy(values).to(mask.device) for values in (seen, ends, stands)))


def _may_be_crowded(where: Tensor, mask: Tensor, most: Tensor) -> bool:
    """A quick look at the first coordinates alone: of nodes at one place, these are equal."""
    first = where[..., 0].masked_fill(~mask, torch.inf).sort(1).values
    later = torch.arange(mask.shape[1], device=mask.device) + most[:, None]
    equal = first == first.gather(1, later.clamp(max=mask.shape[1] - 1))
    return bool((equal & (later < mask.sum(1, keepdim=True))).any())


def as_numpy(values: Tensor) -> np.ndarray:
    """As NumPy, which has no bfloat16; zeros of either sign are equal."""
    return values.to(torch.promote_types(values.dtype, torch.float32)).numpy(force=True) + 0.0


def _numbered(rows: np.ndarray) -> np.ndarray:
    """A number for every row ``[n, c]``, equal for equal rows, in their lexicographic order: ``[n]``."""
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


def _distinct(x: np.ndarray, place: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of crowded nodes: those that stand in a row, by place and then by features, and who stands for each node.

    A node with known edges stands for itself: these tell it from its likes. Unless it has none, it is in no row.
    """
    group = _numbered(np.column_stack([place, x]))
    order = np.lexsort((known, group))
    group = group[order]
    begin = np.searchsorted(group, np.arange(group[-1] + 1))
    leader = order[begin][group]  # without known edges, if any of its group is
    first = np.empty(len(order), dtype=np.int64)
    first[order] = np.where(known[order], order, leader)
    size = np.bincount(group)[group]
    return order[(order == leader) & (~known[order] | (size == 1))], first


def _in_a_row(place: np.ndarray, k: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the distinct nodes, sorted by ``place``, others see, and the pairs ``[2, q]`` of neighbours in a row."""
    number = np.arange(len(place))
    begin, end = np.searchsorted(place, place, "left"), np.searchsorted(place, place, "right")
    long = end - begin > most
    shown = ~long | (number - begin < k) | (end - number <= k)
    later = number[:, None] + np.arange(1, k + 1)  # [n, K]
    near = long[:, None] & (later < end[:, None])
    return shown, np.stack([number.repeat(near.sum(1)), later[near]])


class Proposal(nn.Module):
    """The paper's bilinear score ``H Q tanh(H Z)ᵀ``, symmetrised, over all pairs: it proposes distant candidates.

    It sees each node on its own, by its features and its place in the whole set: position, or distance from the centre.
    """

    def __init__(
        self, in_channels: int, pos_channels: int, width: int, count: int, directions: bool = True
    ) -> None:
        super().__init__()
        self.count, self.directions = count, directions
        self.embed = mlp(in_channels + ((pos_channels or in_channels) if directions else 1), 2 * width, width)
        self.Z = nn.Linear(width, width, bias=False)
        self.Q = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, where: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """Scores ``[B, N, N]``."""
        first, second = self._ends(where, x, mask)
        score = first @ second.mT
        return self._both_ways(score, score.mT)

    def best(self, score: Tensor, mask: Tensor) -> Tensor:
        """Pair every node with those it scores highest, ties included: ends ``[2, q]`` among the ``B · N`` nodes."""
        pairs = pair_mask(mask)
        graph, *ends = (self._highest(score.masked_fill(~pairs, -torch.inf)) & pairs).nonzero(as_tuple=True)
        return torch.stack(ends) + graph * mask.shape[1]

    def best_of_set(self, where: Tensor, x: Tensor, seen: Tensor) -> Tensor:
        """The same ``[2, q]`` for the nodes ``seen [1, n]`` of one set, found some rows of the matrix at a time."""
        number = seen[0].nonzero()[:, 0]
        ends = self._ends(where, x, torch.ones_like(seen))
        first, second = (values[0][number] for values in ends)  # [n, d]
        rows = max(1, WORKSPACE // len(number))
        parts = []
        for start in range(0, len(number), rows):
            own = slice(start, start + rows)
            score = self._both_ways(first[own] @ second.mT, second[own] @ first.mT)  # [rows, n]
            score.diagonal(start).fill_(-torch.inf)  # no node is paired with itself
            row, target = (self._highest(score) & score.isfinite()).nonzero(as_tuple=True)
            parts.append(torch.stack([row + start, target]))
        return number[torch.cat(parts, dim=1)]

    def _ends(self, where: Tensor, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The two factors of the score, before both directions are averaged, both ``[B, N, d]``."""
        real = mask[..., None]
        count = real.sum(1, keepdim=True)
        centred = (where - (where * real).sum(1, keepdim=True) / count) * real
        square = (centred.square() / count).sum((1, 2), keepdim=True)  # a sum of squares alone may overflow
        spread = square.where(square > 0, 1).sqrt()
        place = centred / spread
        if not self.directions:
            place = torch.linalg.vector_norm(place, dim=-1, keepdim=True)
        h = self.embed(torch.cat([place, x], dim=-1))
        return self.Q(h), torch.tanh(self.Z(h))

    def _both_ways(self, forth: Tensor, back: Tensor) -> Tensor:
        root = self.Q.out_features**0.5
        return (forth / root + back / root) / 2 + self.bias

    def _highest(self, score: Tensor) -> Tensor:
        """True where a score is among the ``count`` highest of its row, ties included."""
        reach = score.topk(min(self.count, score.shape[-1]), dim=-1).values[..., -1:]
        return score >= reach
