"""Pairs of nodes, all of them or listed candidates, behind one set of operations.

========================  ===========================  =====================================
                          :class:`AllPairs`            :class:`ListedPairs`
========================  ===========================  =====================================
values of nodes           ``[B, N, ...]``              ``[n, ...]``, all graphs concatenated
values of pairs           ``[B, N, N, ...]``           ``[m, ...]``, sorted by both ends
========================  ===========================  =====================================

Both hold a symmetric set of directed pairs ``i → j`` and compute the same function of it. A large set is processed some
rows of pairs at a time, in *blocks*; one block with all rows is the ordinary case. Of values of nodes and pairs

================================  ===========================================================================
``only``                          keeps those of pairs, and makes 0 what belongs to no pair
``total``                         is ``Σ_j w_ij``: the degree of every node
``reverse``                       puts the value of ``j → i`` at the place of ``i → j``
a block's ``rows``, ``pairs``     are those of the block
a block's ``source``, ``target``  are the nodes' values at the two ends of its pairs, ``v_i`` and ``v_j``
a block's ``by_row``              are the values of its pairs with one row per node
a block's ``row_total``           is ``Σ_j v_ij`` of its pairs, and ``of_row`` puts such values at its pairs again
a block's ``aggregate``           is ``Σ_j w_ij v_j``: from pairs to nodes
a block's ``around``              are the values of all pairs that its mixing reads
a block's ``mix``                 lets its pairs read pairs over third nodes (:mod:`gln.ops`)
a block's ``fused``               is what ``source`` and ``target`` tell, for kernels that read both ends themselves
================================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import pairwise
from typing import NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from gln.ops.layers import PairEnds
from gln.ops.mix import MOST_SLOTS, look_up, mix_all, mix_listed

MATRIX = 2**22  # entries; with fewer, a GPU sums over a list as a product of matrices
# Pairs processed at once where no gradient is kept: what suits a cache, and what fills a GPU.
BLOCK = {"cpu": 2**14, "cuda": 2**21}
MOST_COPIES = 2**20  # pairs between nodes that both stand for several; if there would be more, there are none

P = ParamSpec("P")
R = TypeVar("R")


def never_compiled(method: Callable[P, R]) -> Callable[P, R]:
    """``torch.compiler.disable``, which imports the compiler, once there is one: that takes as long as torch itself."""

    @wraps(method)
    def call(*given: P.args, **named: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(method)(*given, **named)
        return method(*given, **named)

    return call


def block_size(device: torch.device) -> int:
    """How many pairs to process at once; with gradients all of them, because everything is kept anyway."""
    return 2**62 if torch.is_grad_enabled() else BLOCK.get(device.type, BLOCK["cpu"])


def joined(parts: list[Tensor]) -> Tensor:
    """The values of all blocks."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def in_one_piece(parts: Iterable[Tensor], blocks: Sequence[Block]) -> Tensor:
    """The values of all blocks, which come one by one, in one stretch of memory; of a single block as they are.

    Kept until the last has come, parts would leave holes between other values that nothing fits into.
    """
    whole = None
    for block, part in zip(blocks, parts, strict=True):
        if len(blocks) == 1:
            return part
        if whole is None:
            whole = part.new_empty(sum(block.shape[0] for block in blocks), *part.shape[1:])
        block.pairs(whole).copy_(part)
    assert whole is not None
    return whole


def replaced(values: Tensor, blocks: Sequence[Block], block: Block, part: Tensor) -> Tensor:
    """``values`` with ``part`` for one of the ``blocks``; of several in its memory: large sets need no second copy."""
    if len(blocks) == 1:
        return part
    block.pairs(values).copy_(part)
    return values


@dataclass(frozen=True)
class AllPairs:
    """An entry for every two nodes; a block has some of the graphs.

    ==========  ===============  =======================================================
    ``mask``    ``[B, N, N]``    symmetric: True on entries that are pairs
    ``graphs``  slice            the graphs of a block among all
    ==========  ===============  =======================================================
    """

    mask: Tensor
    graphs: slice = field(default_factory=lambda: slice(None))

    candidates = None  # slot j is node j

    def blocks(self, size: int | None = None) -> list[AllPairs]:
        """All graphs, in blocks of at most ``size`` entries, or of a single graph with more."""
        count = max(1, (size or block_size(self.mask.device)) // self.mask[0].numel())
        if count >= len(self.mask):
            return [self]
        cuts = [slice(first, first + count) for first in range(0, len(self.mask), count)]
        return [AllPairs(self.mask[some], some) for some in cuts]

    def from_batch(self, values: Tensor) -> Tensor:
        """``[B, N, ...]``, unchanged."""
        return values

    to_batch = in_slots = from_batch

    def of_all_nodes(self) -> tuple[AllPairs, None]:
        """Nobody stands for another."""
        return self, None

    def on_pairs(self, structure: Tensor) -> Tensor:
        """The entries of ``A`` ``[B, N, N, ...]`` at the pairs."""
        return self.only(structure)

    def only(self, values: Tensor) -> Tensor:
        return values * self.mask.view(*self.mask.shape, *[1] * (values.dim() - 3))

    def total(self, weight: Tensor) -> Tensor:
        return weight.sum(-1)

    def reverse(self, values: Tensor) -> Tensor:
        return values.transpose(1, 2)

    @property
    def shape(self) -> torch.Size:
        return self.mask.shape

    def rows(self, values: Tensor) -> Tensor:
        return values[self.graphs]

    pairs = rows

    def source(self, values: Tensor) -> Tensor:
        """``[B, N, c] → [b, N, 1, c]``, to be broadcast."""
        return values[self.graphs][:, :, None]

    def target(self, values: Tensor) -> Tensor:
        """``[B, N, c] → [b, 1, N, c]``, to be broadcast."""
        return values[self.graphs][:, None]

    def row_total(self, values: Tensor) -> Tensor:
        """``[b, N, N, c] → [b, N, c]``; values are 0 where there is no pair."""
        return values.sum(2)

    def of_row(self, values: Tensor) -> Tensor:
        """``[b, N, c] → [b, N, 1, c]``, to be broadcast."""
        return values[:, :, None]

    def by_row(self, values: Tensor, fill: float) -> Tensor:
        """``[b, N, N]``, with ``fill`` where there is no pair."""
        return values.masked_fill(~self.mask, fill)

    def aggregate(self, weight: Tensor, values: Tensor) -> Tensor:
        """Weights ``[b, N, N, h]``, node values ``[B, N, h, c]`` → ``[b, N, h, c]``."""
        return torch.einsum("bijh,bjhc->bihc", weight, values[self.graphs])

    def around(self, states: list[Tensor | None], number: int) -> Tensor:
        """The values of block ``number``: graphs read no other graphs. They are not needed again."""
        state, states[number] = states[number], None
        assert state is not None
        return state

    def mix(self, read: Tensor) -> tuple[Tensor, Tensor]:
        """``[b, N, N, 4, h, d] → [b, N, N, h, d], [b, N, N, h]``."""
        return mix_all(read, self.mask)

    def fused(self, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, PairEnds]:
        """Values of nodes ``[B, N, c]`` as ``[b · N, c]``, and which of them are the ends of each pair."""
        nothing = torch.empty(0, dtype=torch.long, device=sources.device)
        where = PairEnds(nothing, nothing, nothing, self.mask.shape[1])
        return self.rows(sources).flatten(0, 1), self.rows(targets).flatten(0, 1), where


@dataclass(frozen=True)
class ListedPairs:
    """The ``m`` directed pairs of ``n = B · N`` nodes as one list, sorted by source, then by target.

    The list may be padded: places after the last row hold no pair.

    ===========  =============  ===================================================================
    ``start``    ``[n + 1]``    where the pairs of each node begin
    ``ends``     ``[2, m]``     source and target of every pair
    ``back``     ``[m]``        the position of ``j → i`` for every pair ``i → j``
    ``longest``  number         no node has more pairs; at least 1
    ``size``     ``(B, N)``     of the batch
    ``order``    ``[n]``        the node of the batch that has each number; ``None``: in its order
    ``stands``   ``[n]``        the node of the batch that is scored for each; ``None``: itself
    ``place``    ``[m, K]``     what :func:`gln.ops.mix.look_up` found; ``None``: not looked up yet
    ===========  =============  ===================================================================
    """

    start: Tensor
    ends: Tensor
    back: Tensor
    longest: int
    size: tuple[int, int]
    order: Tensor | None = None
    stands: Tensor | None = None
    place: Tensor | None = None

    @classmethod
    def from_ends(cls, ends: Tensor, size: tuple[int, int], order: Tensor | None = None) -> ListedPairs:
        """From pairs ``[2, q]`` in any order, in one direction or both, perhaps repeated; loops are dropped.

        With ``order``, nodes are renumbered by it: those that are near should have near numbers, so that blocks read
        little of one another.
        """
        nodes = size[0] * size[1]
        ends = ends if order is None else order.argsort()[ends]
        ends = ends[:, ends[0] != ends[1]]
        key = torch.cat([ends[0] * nodes + ends[1], ends[1] * nodes + ends[0]]).unique()  # ascending
        return cls.sorted(torch.stack([key // nodes, key % nodes]), size, order)

    @classmethod
    def sorted(cls, ends: Tensor, size: tuple[int, int], order: Tensor | None = None) -> ListedPairs:
        """From pairs ``[2, m]`` in both directions, in order."""
        degree = torch.bincount(ends[0], minlength=size[0] * size[1])
        # Sorted by target and then by source, the reversed pairs are in the order of the pairs.
        back = ends[1].argsort(stable=True)
        return cls(_bounds(degree), ends, back, max(int(degree.max()), 1), size, order)

    def padded(self) -> ListedPairs:
        """The same with some more places, so that few lengths occur: eight per octave, and slots in steps of 32."""
        count, longest = self.ends.shape[1], -(-self.longest // 32) * 32
        step = max(2 ** (count.bit_length() - 4), 1)
        more = -count % step
        ends = functional.pad(self.ends, (0, more))
        back = torch.cat([self.back, torch.arange(count, count + more, device=ends.device)])
        _, place = look_up(self.start, ends[1], back, longest)
        return replace(self, ends=ends, back=back, longest=longest, place=place)

    @property
    def is_plain(self) -> bool:
        """Whether :meth:`as_tensors` says it all: nobody stands for another, and no row is too long for a table."""
        return self.stands is None and self.longest <= MOST_SLOTS

    def as_tensors(self) -> dict[str, Tensor]:
        """A padded list by names, for :meth:`from_tensors`."""
        assert self.place is not None
        return {"start": self.start, "ends": self.ends, "back": self.back, "place": self.place}

    @classmethod
    def from_tensors(cls, size: Sequence[int], place: Tensor, **tensors: Tensor) -> ListedPairs:
        count, nodes = size
        return cls(**tensors, longest=place.shape[1], size=(count, nodes), place=place)

    def blocks(self, size: int | None = None) -> list[ListedBlock]:
        """All rows, in blocks of at most ``size`` pairs, or of a single row with more."""
        size = size or block_size(self.start.device)
        if self.ends.shape[1] <= size:
            rows, own = (0, len(self.start) - 1), (0, self.ends.shape[1])
            everything = Near(self.start, self.ends[1], rows, own, [])
            place = self.place
            if place is None:
                _, place = look_up(self.start, self.ends[1], self.back, self.longest)
            return [ListedBlock(self, slice(*rows), slice(*own), everything, found=(self.back, place))]
        return self._split(size)

    @never_compiled
    def _split(self, size: int) -> list[ListedBlock]:
        bounds, cuts = self.start.cpu(), [0]
        while cuts[-1] < len(bounds) - 1:
            last = int(torch.searchsorted(bounds, bounds[cuts[-1]] + size, right=True)) - 1
            cuts.append(max(last, cuts[-1] + 1))
        first_pairs = self.start[cuts]
        scratch = torch.full_like(self.start[:-1], -1)
        blocks = []
        for rows, own in zip(_slices(cuts), _slices(first_pairs.tolist()), strict=True):
            blocks.append(ListedBlock(self, rows, own, self._near(rows, own, first_pairs, scratch)))
        last_reader = {part: reader for reader, block in enumerate(blocks) for part, _ in block.near.parts}
        done = [
            [part for part, reader in last_reader.items() if reader == number]
            for number in range(len(blocks))
        ]
        return [replace(block, done=some) for block, some in zip(blocks, done, strict=True)]

    def _near(self, rows: slice, own: slice, first_pairs: Tensor, scratch: Tensor) -> Near:
        """What the mixing of some rows reads; ``scratch`` ``[n]`` is −1 everywhere, before and after."""
        start, target = self.start, self.ends[1]
        own_nodes = torch.arange(rows.start, rows.stop, device=start.device)
        nodes = torch.cat([own_nodes, target[own]]).unique()  # ascending
        scratch[nodes] = torch.arange(len(nodes), device=start.device)
        degree = start[nodes + 1] - start[nodes]
        before = degree.cumsum(0) - degree
        total = int(degree.sum())
        row = torch.arange(len(nodes), device=start.device).repeat_interleave(degree, output_size=total)
        position = torch.arange(total, device=start.device) + (start[nodes] - before)[row]
        local = scratch[target[position]]
        scratch[nodes] = -1
        inside = local >= 0
        position = position[inside]
        found = torch.cat(
            [torch.searchsorted(position, first_pairs), torch.searchsorted(nodes, own_nodes[:1])]
        )
        *cuts, first_row = found.tolist()
        first_pair = int(torch.searchsorted(position, own.start))
        each = enumerate(pairwise(cuts))
        parts = [(number, position[a:b] - first_pairs[number]) for number, (a, b) in each if a < b]
        return Near(
            _bounds(torch.bincount(row[inside], minlength=len(nodes))),
            local[inside],
            (first_row, first_row + rows.stop - rows.start),
            (first_pair, first_pair + own.stop - own.start),
            parts,
        )

    def from_batch(self, values: Tensor) -> Tensor:
        """``[B, N, ...] → [n, ...]``."""
        values = values.flatten(0, 1)
        return values if self.order is None else values[self.order]

    def to_batch(self, values: Tensor) -> Tensor:
        """``[n, ...] → [B, N, ...]``."""
        values = values if self.order is None else torch.empty_like(values).index_copy(0, self.order, values)
        values = values if self.stands is None else values[self.stands]
        return values.unflatten(0, self.size)

    def of_all_nodes(self) -> tuple[ListedPairs, Tensor | None]:
        """The pairs of all nodes, and which of these pairs is scored for each; ``None``: they are the same."""
        if self.stands is None:
            return self, None
        whole = ListedPairs.from_ends(expanded(self.batch_ends, self.stands), self.size)
        return whole, self.places(self.stands[whole.ends])

    def in_slots(self, values: Tensor) -> Tensor:
        """``[m, ...] → [B, N, K, ...]``, 0 in empty slots."""
        places = self.size[0] * self.size[1] * self.longest
        slots = values.new_zeros(places + 1, *values.shape[1:])  # the last for padding
        return slots.index_put((self.slot,), values)[:-1].view(*self.size, self.longest, *values.shape[1:])

    @cached_property
    def batch_ends(self) -> Tensor:
        """Source and target of every pair as nodes of the concatenated graphs of the batch: ``[2, m]``."""
        return self.ends if self.order is None else self.order[self.ends]

    @cached_property
    def slot(self) -> Tensor:
        """The place of every pair in ``[B, N, K]``: ``[m]``; in the row of a node, targets ascend."""
        source, target = self.batch_ends
        rank = torch.arange(len(source), device=source.device)
        start = self.start[:-1]
        if self.order is not None:
            by_ends = (source * len(start) + target).argsort()
            rank = torch.empty_like(by_ends).index_copy(0, by_ends, rank)
            degree = torch.bincount(source, minlength=len(start))
            start = degree.cumsum(0) - degree
        slot = source * self.longest + rank - start[source]
        return slot if self.place is None else slot.where(self._real, self.longest * (len(self.start) - 1))

    @property
    def _real(self) -> Tensor:
        """False on padding: ``[m]``."""
        return torch.arange(self.ends.shape[1], device=self.start.device) < self.start[-1]

    @property
    def mask(self) -> Tensor:
        """True on the slots ``[B, N, K]`` that hold pairs."""
        return self.in_slots(torch.ones_like(self.slot, dtype=torch.bool))

    @property
    def candidates(self) -> Tensor:
        """The node in each slot ``[B, N, K]``, 0 where empty, so that it can always be gathered."""
        return self.in_slots(self.batch_ends[1] % self.size[1])

    def on_pairs(self, structure: Tensor) -> Tensor:
        """The entries of ``A`` ``[B, N, N, ...]`` at the pairs: ``[m, ...]``."""
        source, target = self.batch_ends
        return structure.flatten(0, 2)[source * self.size[1] + target % self.size[1]]

    def places(self, ends: Tensor) -> Tensor:
        """The positions of the pairs with these ends ``[2, q]``, nodes of the batch; all must exist: ``[q]``."""
        ends, nodes = ends if self.order is None else self.order.argsort()[ends], len(self.start) - 1
        return torch.searchsorted(self.ends[0] * nodes + self.ends[1], ends[0] * nodes + ends[1])

    def only(self, values: Tensor) -> Tensor:
        """Unchanged, unless there is padding."""
        return values if self.place is None else values * self._real.view(-1, *[1] * (values.dim() - 1))

    def total(self, weight: Tensor) -> Tensor:
        return torch.segment_reduce(weight, "sum", lengths=self.start.diff(), unsafe=True)

    def reverse(self, values: Tensor) -> Tensor:
        return values.index_select(0, self.back)


class Near(NamedTuple):
    """The rows of a block and of all nodes that they are paired with, with only the pairs among these nodes.

    ==========  ===========  =====================================================================
    ``start``   ``[l + 1]``  where the pairs of each of these ``l`` rows begin
    ``target``  ``[p]``      the second end of every pair, counted among these rows
    ``rows``    two numbers  first and last of the rows of the block itself
    ``own``     two numbers  first and last of the pairs of the block itself
    ``parts``   list         in which block the pairs are, and where in it; empty: all in this one
    ==========  ===========  =====================================================================
    """

    start: Tensor
    target: Tensor
    rows: tuple[int, int]
    own: tuple[int, int]
    parts: list[tuple[int, Tensor]]


@dataclass(frozen=True)
class ListedBlock:
    """Some rows of a list of pairs, whose pairs are its slice ``own``.

    ``done`` are the numbers of the blocks that no later block reads, ``found`` is what the mixing would look up.
    """

    whole: ListedPairs
    at: slice
    own: slice
    near: Near
    done: list[int] | None = None
    found: tuple[Tensor, Tensor] | None = None

    @property
    def shape(self) -> tuple[int]:
        return (self.own.stop - self.own.start,)

    def only(self, values: Tensor) -> Tensor:
        return values

    def rows(self, values: Tensor) -> Tensor:
        return values[self.at]

    def pairs(self, values: Tensor) -> Tensor:
        return values[self.own]

    def source(self, values: Tensor) -> Tensor:
        """``[n, c] → [m, c]``."""
        return values.index_select(0, self.whole.ends[0, self.own])

    def target(self, values: Tensor) -> Tensor:
        """``[n, c] → [m, c]``. ``index_select`` sums its gradient in a fixed order on a CPU."""
        return values.index_select(0, self.whole.ends[1, self.own])

    def row_total(self, values: Tensor) -> Tensor:
        """``[m, c] → [r, c]``."""
        lengths = self.whole.start.diff()[self.at]
        return torch.segment_reduce(values, "sum", lengths=lengths, unsafe=True)

    def of_row(self, values: Tensor) -> Tensor:
        """``[r, c] → [m, c]``."""
        return values.index_select(0, self.whole.ends[0, self.own] - self.at.start)

    def by_row(self, values: Tensor, fill: float) -> Tensor:
        """``[m] → [r, K]``: each row's values, then ``fill``."""
        row = self.whole.ends[0, self.own]
        slot = torch.arange(self.own.start, self.own.stop, device=row.device) - self.whole.start[row]
        longest = self.whole.longest  # one more slot takes what is padding
        padded = values.new_full((self.at.stop - self.at.start, longest + 1), fill)
        return padded.index_put((row - self.at.start, slot.clamp(max=longest)), values)[:, :longest]

    def aggregate(self, weight: Tensor, values: Tensor) -> Tensor:
        """Weights ``[m, h]``, node values ``[n, h, c]`` → ``[r, h, c]``, without gathering the values."""
        pairs, heads = weight.shape
        (count, nodes), everything = self.whole.size, self.shape[0] == self.whole.ends.shape[1]
        if weight.is_cuda and everything and count * nodes**2 <= MATRIX:
            source, target = self.whole.ends  # on the diagonal, where padding is, there is no pair
            matrix = weight.new_zeros(count * nodes**2, heads)
            matrix = matrix.index_put((source * nodes + target % nodes,), weight)
            matrix = matrix.view(count, nodes, nodes, heads)
            found = torch.einsum("bijh,bjhc->bihc", matrix, values.unflatten(0, (count, nodes)))
            return found.flatten(0, 1)
        head = torch.arange(heads, device=weight.device)
        places = head[:, None] + heads * self.whole.ends[1, self.own]  # [h, m], in a table of n · h rows
        begin = self.whole.start[self.at] - self.own.start  # [r]
        exact = torch.promote_types(values.dtype, torch.float32)  # on a GPU, half precision has no gradient
        sums = functional.embedding_bag(
            places.flatten(),
            values.flatten(0, 1).to(exact),
            (head[:, None] * pairs + begin).flatten(),
            mode="sum",
            per_sample_weights=weight.T.flatten().to(exact),
        ).to(values.dtype)
        return sums.unflatten(0, (heads, -1)).transpose(0, 1)

    def around(self, states: list[Tensor | None], number: int) -> Tensor:
        """The values ``[p, c]`` of the pairs in ``near``; forgets those that no later block reads."""
        if not self.near.parts:
            (state,) = states
            assert state is not None
            return state
        found = []
        for block, places in self.near.parts:
            state = states[block]
            assert state is not None
            found.append(state.index_select(0, places))
        for block in self.done or []:
            states[block] = None
        return torch.cat(found)

    def mix(self, read: Tensor) -> tuple[Tensor, Tensor]:
        """``[p, 4, h, d] → [m, h, d], [m, h]``."""
        start, target, rows, own, _ = self.near
        return mix_listed(read, start, target, rows, own, self.whole.longest, self.found)

    def fused(self, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, PairEnds]:
        """Values of nodes ``[n, c]``, and which of them are the ends of each pair."""
        return sources, targets, PairEnds(self.whole.ends[:, self.own], self.whole.start, self.whole.back)


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


def _slices(cuts: list[int]) -> list[slice]:
    return [slice(*ends) for ends in pairwise(cuts)]


def _bounds(lengths: Tensor) -> Tensor:
    """Where consecutive stretches begin, and where the last ends."""
    return functional.pad(lengths.cumsum(0), (1, 0))


Pairs = AllPairs | ListedPairs
Block = AllPairs | ListedBlock
