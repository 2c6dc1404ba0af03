"""Crowded places: where more nodes coincide than anybody could be paired with.

Coinciding nodes are equally near, so all of them would be candidates of one another: a thousand would be half a million
pairs, each of which reads a thousand third nodes. At a place with more than :func:`most_at` nodes,

1. identical nodes, with the same features and no known edges, are one node: one of them is scored and stands for all,
   so that each has the same edges to others, and none to its likes;
2. if more than that remain, they stand in a row in the order of their features: each is paired with the K before and
   the K after it, and nodes elsewhere see only the first K and the last K.

Nothing here depends on the order of the nodes, and each node has O(K) candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

FEW = 128  # nodes that coincide are no crowd, whatever K is: all pairs of so many are cheap
MOST_COPIES = 2**20  # pairs between nodes that both stand for several; if there would be more, there are none


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


def expanded(ends: Tensor, stands: Tensor) -> Tensor:
    """The pairs ``[2, q]`` of all nodes that those of the pairs ``ends [2, m]`` stand for."""
    count = torch.bincount(stands, minlength=len(stands))
    both = (count[ends] > 1).all(0)
    if int(count[ends[:, both]].prod(0).sum()) > MOST_COPIES:
        ends = ends[:, ~both]
    source, target = ends
    times = count[source] * count[target]
    pair = torch.arange(ends.shape[1], device=ends.device).repeat_interleave(times)
    turn = torch.arange(len(pair), device=ends.device) - (times.cumsum(0) - times)[pair]
    alike, begin = stands.argsort(stable=True), count.cumsum(0) - count
    first, second = turn // count[target][pair], turn % count[target][pair]
    return torch.stack([alike[begin[source][pair] + first], alike[begin[target][pair] + second]])
