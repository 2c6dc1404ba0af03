"""The scores of some nodes of a set from the nodes around them: what a score depends on, and nothing else.

A pair's score depends on nodes a few candidate pairs, *hops*, away, so that a part of a large set can be scored from
that part and a halo around it. Call ``E`` the depth below the edge of the halo, in hops, from which the states of pairs
are those of the whole set. At first it is 1: a pair's features need the unit of length of both ends, hence all their
pairs. In a step, a node hears its neighbours, each by way of its degree, the sum of ``A`` over the neighbour's own
pairs: two hops. A pair then reads third nodes: one more. So ``E`` is 3 after the first step and grows by 3 in every
other, and after a step all that is less deep can be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.models.candidates import spatial_order
from gln.models.contract import Kinds, kinds_of
from gln.models.pairs import ListedBlock, ListedPairs, block_size
from gln.models.structure import Structure

if TYPE_CHECKING:
    from gln.models.gln import GLN


def check_local(model: object) -> None:
    """Refuse a model whose scores depend on more than the nodes around a pair."""
    config = getattr(model, "config", {})
    far = [name for name in ("proposals", "index_channels") if config.get(name)]
    far += ["kinds of edges"] if kinds_of(model) != Kinds() or config.get("moments", 1) > 1 else []
    if not hasattr(model, "score_set") or far:
        what = f"a model with {far[0]}" if hasattr(model, "score_set") else f"a {type(model).__name__}"
        raise GLNError(
            f"The set is too large to be predicted whole, and {what} cannot be predicted in tiles; cut it."
        )


def depths(model: GLN, steps: int) -> list[int]:
    """``E`` before every step and, last, after all of them."""
    found, node = [1], 0
    for step in range(steps):
        pair = found[-1]
        # Of a neighbour all pairs must be there and right; at first A is 0 everywhere, and nothing was dropped.
        node = max(node + 1, pair + (2 if step else 1))
        found.append(node + int(model.config["mixing"]))
    return found


def hops(model: GLN, steps: int) -> int:
    """How far from the nodes of a part its halo must reach, for the scores of all pairs of these nodes."""
    return depths(model, steps)[-1] + 1


@torch.no_grad()
def score_region(
    model: GLN, batch: GraphBatch, ends: Tensor, hop: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """The candidate pairs ``[2, m]`` of the part, in both directions and perhaps more, and their scores ``[m]``.

    Args:
        batch: the nodes of the part and its halo.
        ends: candidate pairs ``[2, q]``, all of every node but the outermost.
        hop: how many hops each node is away from the part ``[n]``; the outermost have :func:`hops`.
    """
    inputs = model.inputs(batch)
    order = spatial_order(inputs[0])
    pairs = ListedPairs.from_ends(ends, (1, len(hop)), order)
    blocks, h, e = model.embed(pairs, inputs)
    node, depth = order, hops(model, steps) - hop[order]
    a = h.new_zeros(pairs.ends.shape[1])
    for number, needed in enumerate(depths(model, steps)[:-1]):
        if number:
            kept = depth >= needed
            node, depth, h = node[kept], depth[kept], h[kept]
            pairs, blocks, a = _inner(pairs, kept, a, e)
        seen = Structure(a) if model.feedback else Structure(a).hidden(pairs)
        h, score, _ = model.step(number)(pairs, blocks, h, e, seen)
        a = score.sigmoid()
    return node[pairs.ends], score


def _inner(
    pairs: ListedPairs, kept: Tensor, a: Tensor, e: list[Tensor]
) -> tuple[ListedPairs, Sequence[ListedBlock], Tensor]:
    """The pairs among the nodes that are ``kept [n]``, and their ``a``; the states ``e`` are replaced."""
    among = kept[pairs.ends].all(0)  # [m]
    ends = (kept.cumsum(0) - 1)[pairs.ends[:, among]]
    start = 0
    for number, state in enumerate(e):  # one by one, so that there is never a second copy of all
        e[number] = state[among[start : start + len(state)]]
        start += len(state)
    smaller = ListedPairs.sorted(ends, (1, int(kept.sum())))
    blocks = smaller.blocks(block_size(a.device))
    e[:] = torch.cat(e).split([block.shape[0] for block in blocks])
    return smaller, blocks, a[among]
