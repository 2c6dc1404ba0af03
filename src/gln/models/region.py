"""The scores of some nodes of a set from the nodes around them: what a score depends on, and nothing else.

A pair's score depends on nodes a few candidate pairs, *hops*, away, so that a part of a large set can be scored from
that part and a halo around it. Call ``E`` the depth below the edge of the halo, in hops, from which the states of pairs
are those of the whole set. At first it is 1: a pair's features need the unit of length of both ends, hence all their
pairs. In a step, a node hears its neighbours, each by way of its degree, the sum of ``A`` over the neighbour's own
pairs: two hops; in the first, when ``A`` is 0, it hears nothing. A pair then reads third nodes: one more. So ``E`` is 2
after the first step and grows by 3 in every other, and after a step all that is less deep can be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.models.candidates import spatial_order
from gln.models.contract import ScoredPairs
from gln.models.features import Structure
from gln.models.pairs import ListedBlock, ListedPairs

if TYPE_CHECKING:
    from gln.models.gln import GLN


def check_local(model: object) -> None:
    """Refuse a model whose scores depend on more than the nodes around a pair, or that reads series."""
    config = getattr(model, "config", {})
    far = [name for name in ("proposals", "index_channels") if config.get(name)]
    far += ["moments"] if config.get("moments", 1) > 1 else []
    if not hasattr(model, "score_set") or far:
        what = f"a model with {far[0]}" if hasattr(model, "score_set") else f"a {type(model).__name__}"
        raise GLNError(
            f"The set is too large to be predicted whole, and {what} cannot be predicted in tiles; cut it."
        )


def depths(model: GLN, steps: int) -> list[int]:
    """``E`` before every step and, last, after all of them."""
    found = [1]
    for step in range(steps):
        # Of a neighbour all pairs must be there and right; without feedback every A is 1, and right wherever it is.
        heard = found[-1] + 2 if step else found[-1] + (not model.feedback)
        found.append(heard + int(model.config["mixing"]))
    return found


def hops(model: GLN, steps: int) -> int:
    """How far from the nodes of a part its halo must reach, for the scores of all pairs of these nodes."""
    return depths(model, steps)[-1] + 1


@torch.no_grad()
def score_region(model: GLN, batch: GraphBatch, ends: Tensor, hop: Tensor, steps: int) -> ScoredPairs:
    """The candidate pairs of a part of a set, in both directions and perhaps more, and what the last step says of them.

    ``batch`` has the nodes of the part and its halo, ``ends [2, q]`` their candidate pairs, those of the outermost left
    out. Each node is ``hop [n]`` hops away from the part; the outermost have :func:`hops`.
    """
    inputs = model.inputs(batch)
    pairs = ListedPairs.from_ends(ends, (1, len(hop)), spatial_order(inputs[0]))
    region = Region(model, pairs, hop, steps)
    for after in model.unroll(pairs, inputs, None, steps, region=region):  # noqa: B007
        pass  # only the last step counts
    source, target = region.node[region.pairs.ends]
    return ScoredPairs(source, target, after.score, after.types, after.weights)


class Region:
    """The nodes and ``pairs`` that are left: before every step, those that lie too far out to matter are dropped.

    ``node`` is the number that each had in the beginning.
    """

    def __init__(self, model: GLN, pairs: ListedPairs, hop: Tensor, steps: int) -> None:
        assert pairs.order is not None
        self.pairs, self.node, self.depths = pairs, pairs.order, depths(model, steps)
        self.depth = hops(model, steps) - hop[pairs.order]

    def narrowed(
        self, step: int, h: Tensor, e: Tensor, structure: Structure
    ) -> tuple[ListedPairs, Sequence[ListedBlock], Tensor, Tensor, Structure]:
        """The pairs that ``step`` needs, their blocks, and the states of nodes and, where they were, of pairs."""
        kept = self.depth >= self.depths[step]  # [n]
        self.node, self.depth = self.node[kept], self.depth[kept]
        among = kept[self.pairs.ends].all(0)  # [m]
        ends = (kept.cumsum(0) - 1)[self.pairs.ends[:, among]]
        self.pairs = ListedPairs.sorted(ends, (1, len(self.node)))
        blocks = self.pairs.blocks()
        place = among.nonzero()[:, 0]
        for block in blocks:  # from where it is or further on, so that no later block has lost its states yet
            block.pairs(e).copy_(e[block.pairs(place)])
        left = {name: part[among] for name, part in structure._asdict().items() if part is not None}
        return self.pairs, blocks, h[kept], e[: len(place)], Structure(**left)
