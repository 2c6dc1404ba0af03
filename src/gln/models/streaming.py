"""GLN over one set of any size: every step goes through the nodes block by block.

States take O(n·K) memory: one per pair and a few per node. The working memory of a block is bounded, however large the
set. The result is that of the padded forms by construction: the same parts are applied to the same numbers, and a block
reads its surroundings as they were before any block was changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from gln.graphs import GraphBatch
from gln.models.candidates import nearest_nodes
from gln.models.features import local_unit, pair_features, pair_length
from gln.models.flat import FlatBlock, FlatPairs
from gln.models.gln_parts import Mix, inverse_root
from gln.models.mixing import mix_flat
from gln.models.pairs import SparsePairs

if TYPE_CHECKING:
    from gln.models.gln import GLN

# Pairs processed at once: what suits a cache, and what fills a GPU.
BLOCK = {"cpu": 2**14, "cuda": 2**21}

Tick = Callable[[int], object]


@torch.no_grad()
def stream(
    model: GLN,
    pairs: FlatPairs,
    where: Tensor,
    pos: Tensor,
    x: Tensor,
    a: Tensor,
    steps: int,
    block: int | None = None,
    tick: Tick | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Node states ``[n, d]`` and the score of every pair ``[m]`` after each step.

    Args:
        pairs: the pairs of the set. Nearby nodes should have nearby numbers, so that little is read twice and little is
            kept twice.
        where, pos, x: values of the nodes, ``[n, ·]``, as for :func:`gln.models.features.pair_features`.
        a: the structure to start from, ``[m]``.
        steps: how many to run.
        block: how many pairs to process at once; by default what suits the device.
        tick: called with the number of nodes of every block that has finished a step.
    """
    size = BLOCK.get(a.device.type, BLOCK["cpu"]) if block is None else block
    blocks = list(pairs.blocks(size))
    unit = torch.cat([unit_of_length(some, where) for some in blocks])[:, None]  # [n, 1]
    h = model.embed_node(x if x.shape[-1] else x.new_ones(len(x), 1))
    # The one large tensor; no second copy is made of it.
    e = h.new_empty(len(pairs.target), model.pair_width)
    for some in blocks:
        e[some.own] = model.embed_pair(pair_features(some, where, pos, x, unit))
    for number in range(steps):
        step = model.step(number)
        shown = a if step.feedback else torch.ones_like(a)
        values, root = step.listen.speak(h), inverse_root(pairs.total(shown))
        heard = (step.listen.hear(some, values, root, e[some.own], shown[some.own]) for some in blocks)
        h = torch.cat([step.rethink(h[some.rows], part) for some, part in zip(blocks, heard, strict=True)])
        sources, targets = step.ends.project(h)
        for some in blocks:
            e[some.own] += step.ends.join(some, sources, targets, shown[some.own])
        del values, sources, targets
        scores = []
        before = Before(e, blocks)
        for place, some in enumerate(blocks):
            mixed = None
            if step.mix is not None:
                mixed = _mix(step.mix, before, place)
                before.keep(place)
            e[some.own], score = step.reweigh(e[some.own], mixed)
            scores.append(score)
            if tick is not None:
                tick(some.rows.stop - some.rows.start)
        score = torch.cat(scores)
        score = (score + pairs.reverse(score)) / 2
        a = score.sigmoid()
        yield h, score


def stream_padded(
    model: GLN, pairs: SparsePairs, where: Tensor, pos: Tensor, x: Tensor, a: Tensor, steps: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The scores ``[B, N, K]`` and node states ``[B, N, d]`` after each step, for pairs in slots.

    The arguments are those of :func:`stream`, with the dimensions of a batch.
    """
    graph = torch.arange(len(x)).repeat_interleave(x.shape[1])
    shape, where, pos, x = x.shape[:2], where.flatten(0, 1), pos.flatten(0, 1), x.flatten(0, 1)
    order = spatial_order(where, graph)
    flat, places = FlatPairs.from_slots(pairs.index, pairs.mask).renumbered(order)
    a = a[pairs.mask][places]
    for h, score in stream(model, flat, where[order], pos[order], x[order], a, steps):
        scores = score.new_zeros(pairs.mask.shape)
        scores[pairs.mask] = torch.empty_like(score).index_copy_(0, places, score)
        yield scores, torch.empty_like(h).index_copy_(0, order, h).unflatten(0, shape)


def spatial_order(where: Tensor, graph: Tensor | None = None) -> Tensor:
    """An order ``[n]`` of the points ``[n, p]`` that keeps neighbours close together, one graph after another."""
    points = where.to(torch.promote_types(where.dtype, torch.float32)).numpy(force=True)
    if graph is not None:  # an axis along which graphs are far apart
        points = np.column_stack([graph.numpy() * (4.0 * np.ptp(points) + 1), points])
    return torch.from_numpy(cKDTree(points).indices).to(where.device)


class ScoredPairs(NamedTuple):
    """Directed pairs in no particular order: their two ends and their scores, all ``[m]``."""

    source: Tensor
    target: Tensor
    score: Tensor


@torch.no_grad()
def score_set(
    model: GLN,
    batch: GraphBatch,
    known: Tensor | None = None,
    steps: int | None = None,
    candidates: int | None = None,
    block: int | None = None,
    tick: Tick | None = None,
) -> ScoredPairs:
    """The last step's score of every candidate pair of one set, however large.

    Args:
        batch: the nodes of one graph; its edges are not read.
        known: edges ``[2, m]`` to start from, in both directions; they become candidates.
        candidates: how many nearest nodes each node is paired with; default: the model's own number.
        steps, block, tick: as for :func:`stream`.
    """
    x, pos = (values[0] for values in model.inputs(batch))
    where = pos if model.pos_channels else x
    order = spatial_order(where)
    where, pos, x = where[order], pos[order], x[order]
    known = order.new_empty(2, 0) if known is None else order.argsort()[known.to(order.device)]
    tree = cKDTree(where.to(torch.promote_types(where.dtype, torch.float32)).numpy(force=True))
    nearest = nearest_nodes(tree, candidates or model.candidates)
    extra = known if model.propose is None else torch.cat([known, model.propose.best_of_set(where, x)], dim=1)
    source, target = (np.concatenate(ends) for ends in zip(nearest, extra.numpy(force=True), strict=True))
    pairs = FlatPairs.from_ends(source, target, len(x)).to(x.device)
    a = x.new_zeros(len(pairs.target))
    a[pairs.places(known)] = 1
    score = a
    for _, score in stream(model, pairs, where, pos, x, a, model.checked_steps(steps), block, tick):  # noqa: B007
        pass  # only the last step counts
    return ScoredPairs(order[pairs.source], order[pairs.target], score)


class Before:
    """The old states of all pairs, while block after block is overwritten.

    The old states of a block are kept until the last block that is paired with it is done.
    """

    def __init__(self, e: Tensor, blocks: list[FlatBlock]) -> None:
        self.e, self.blocks = e, blocks
        self.scratch = torch.full((blocks[-1].rows.stop,), -1, device=e.device)
        self.kept: dict[int, Tensor] = {}
        self.starts = torch.tensor([some.own.start for some in blocks], device=e.device)
        first_rows = [some.rows.start for some in blocks]
        self.last = [bisect_right(first_rows, furthest) - 1 for furthest in _furthest(blocks)]

    def keep(self, place: int) -> None:
        """Call after block ``place`` was read and before it is overwritten."""
        self.kept = {number: old for number, old in self.kept.items() if self.last[number] > place}
        if self.last[place] > place:
            self.kept[place] = self.e[self.blocks[place].own].clone()

    def at(self, position: Tensor) -> Tensor:
        """The old states at ascending positions ``[p]`` of the list: ``[p, c]``."""
        cuts = np.append(torch.searchsorted(position, self.starts).numpy(force=True), len(position))
        parts = [self.e[:0]]
        for number in np.diff(cuts).nonzero()[0].tolist():
            old, own = self.kept.get(number), self.blocks[number].own
            state = self.e[own] if old is None else old
            parts.append(state.index_select(0, position[cuts[number] : cuts[number + 1]] - own.start))
        return torch.cat(parts)


def _furthest(blocks: list[FlatBlock]) -> list[int]:
    """The highest node number that each block is paired with, or −1."""
    targets = [some.pairs.target[some.own] for some in blocks]
    return torch.stack([t.max() if len(t) else t.new_tensor(-1) for t in targets]).tolist()


def _mix(mix: Mix, before: Before, place: int) -> Tensor:
    near = before.blocks[place].neighbourhood(before.scratch)
    normed = mix.norm(before.at(near.position))
    ours = mix.read_part(normed[near.own], slice(0, None, 2))  # query and first
    theirs = mix.read_part(normed, slice(1, None, 2))  # key and second
    return mix.answer(*mix_flat(near, ours, theirs))


def unit_of_length(block: FlatBlock, where: Tensor) -> Tensor:
    """The unit of length at the nodes of a block, ``[r]``."""
    distance = block.by_row(pair_length(block, where), torch.inf)
    return local_unit(distance, distance.isfinite())
