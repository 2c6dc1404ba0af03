"""Pairs in one list without empty slots: for sets of any size, a block of nodes at a time, without gradients.

The padded forms of :mod:`gln.models.pairs` give every node as many slots as the node with the most pairs has. Here row
``i`` is the slice ``start[i] : start[i + 1]`` of one list, so that a state is ``[m, c]`` for ``m`` directed pairs, and
a block is a slice of rows with all their pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class FlatPairs:
    """A symmetric set of ``m`` directed pairs over ``n`` nodes, sorted by source, then by target.

    ===========  ===========  =====================================================
    ``start``    ``[n + 1]``  where the pairs of each node begin
    ``target``   ``[m]``      the second end of every pair
    ===========  ===========  =====================================================
    """

    start: Tensor
    target: Tensor

    @classmethod
    def from_ends(cls, source: np.ndarray, target: np.ndarray, nodes: int) -> FlatPairs:
        """From pairs in any order, in one direction or both, perhaps repeated; loops are dropped."""
        real = source != target
        ends = (source[real].astype(np.int32), target[real].astype(np.int32))
        one_way = csr_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(nodes, nodes))
        one_way.data[:] = 1  # repeated pairs were added up
        both = one_way + one_way.T.tocsr()
        both.sort_indices()
        return cls(torch.from_numpy(both.indptr).long(), torch.from_numpy(both.indices).long())

    @classmethod
    def from_slots(cls, index: Tensor, mask: Tensor) -> FlatPairs:
        """From padded candidates ``[B, N, K]`` where ``mask`` is True; the graphs are concatenated."""
        graph = torch.arange(len(index), device=index.device).view(-1, 1, 1)
        start = functional.pad(mask.flatten(0, 1).sum(1).cumsum(0), (1, 0))
        return cls(start, (graph * index.shape[1] + index)[mask])

    def to(self, device: torch.device) -> FlatPairs:
        return FlatPairs(self.start.to(device), self.target.to(device))

    @cached_property
    def source(self) -> Tensor:
        """The first end of every pair, ``[m]``."""
        nodes = torch.arange(len(self.start) - 1, device=self.start.device)
        return nodes.repeat_interleave(self.start.diff(), output_size=len(self.target))

    @cached_property
    def back(self) -> Tensor:
        """The position of ``j → i`` for every pair ``i → j``: ``[m]``.

        Sorted by target and then by source, the reversed pairs are in the order of the pairs.
        """
        return self.target.argsort(stable=True)

    def reverse(self, state: Tensor) -> Tensor:
        """``[m, ...] → [m, ...]``."""
        return state.index_select(0, self.back)

    def total(self, weight: Tensor) -> Tensor:
        """``[m] → [n]``."""
        return torch.segment_reduce(weight, "sum", lengths=self.start.diff(), unsafe=True)

    def places(self, ends: Tensor) -> Tensor:
        """The positions of the pairs with these two ends ``[2, q]``, all of which must exist: ``[q]``."""
        nodes = len(self.start) - 1
        return torch.searchsorted(self.source * nodes + self.target, ends[0] * nodes + ends[1])

    def renumbered(self, order: Tensor) -> tuple[FlatPairs, Tensor]:
        """The pairs with node ``order[i]`` as number ``i``, and the position of each in this list, ``[m]``."""
        rank = order.argsort()
        source, target = rank[self.source], rank[self.target]
        places = (source * len(order) + target).argsort()
        start = functional.pad(self.start.diff()[order].cumsum(0), (1, 0))
        return FlatPairs(start, target[places]), places

    def blocks(self, pairs: int) -> Iterator[FlatBlock]:
        """All rows, in blocks of at most ``pairs`` pairs, or of a single row with more."""
        bounds = np.asarray(self.start.cpu())
        first, nodes = 0, len(bounds) - 1
        while first < nodes:
            last = int(np.searchsorted(bounds, bounds[first] + pairs, side="right")) - 1
            last = min(max(last, first + 1), nodes)
            yield FlatBlock(self, slice(first, last), slice(int(bounds[first]), int(bounds[last])))
            first = last


class Neighbourhood(NamedTuple):
    """The rows of a block and of all nodes that they are paired with, with only the pairs among these nodes.

    ============  ===========  ============================================================
    ``start``     ``[l + 1]``  as in :class:`FlatPairs`, over these ``l`` rows
    ``target``    ``[p]``      the second end of every pair, counted among these rows
    ``position``  ``[p]``      the position of each pair in the whole list
    ``rows``      slice        the rows of the block itself
    ``own``       slice        the pairs of the block itself
    ============  ===========  ============================================================
    """

    start: Tensor
    target: Tensor
    position: Tensor
    rows: slice
    own: slice


@dataclass(frozen=True)
class FlatBlock:
    """Some ``rows`` of a list of pairs, whose pairs are its slice ``own``. Node values are those of all nodes."""

    pairs: FlatPairs
    rows: slice
    own: slice

    @property
    def mask(self) -> Tensor:
        return torch.ones(self.own.stop - self.own.start, dtype=torch.bool, device=self.pairs.start.device)

    def of_rows(self, values: Tensor) -> Tensor:
        """``[n, ...] → [r, ...]``."""
        return values[self.rows]

    def of_source(self, values: Tensor) -> Tensor:
        """``[n, c] → [m, c]``."""
        return values.index_select(0, self.pairs.source[self.own])

    def of_target(self, values: Tensor) -> Tensor:
        """``[n, c] → [m, c]``."""
        return values.index_select(0, self.pairs.target[self.own])

    def aggregate(self, weight: Tensor, values: Tensor) -> Tensor:
        """Weights ``[m, h]``, node values ``[n, h, c]`` → ``[r, h, c]``, without gathering the values."""
        pairs, heads = weight.shape
        head = torch.arange(heads, device=weight.device)
        places = head[:, None] + heads * self.pairs.target[self.own]  # [h, m], in a table of n · h rows
        begin = self.pairs.start[self.rows] - self.own.start  # [r]
        sums = functional.embedding_bag(
            places.flatten(),
            values.flatten(0, 1),
            (head[:, None] * pairs + begin).flatten(),
            mode="sum",
            per_sample_weights=weight.T.flatten().to(values.dtype),
        )
        return sums.unflatten(0, (heads, -1)).transpose(0, 1)

    def by_row(self, values: Tensor, fill: float) -> Tensor:
        """``[m] → [r, S]``: each row's values, padded with ``fill``."""
        row, slot, width = slots(self.pairs.start[self.rows.start : self.rows.stop + 1])
        padded = values.new_full((self.rows.stop - self.rows.start, width), fill)
        padded[row, slot] = values
        return padded

    def neighbourhood(self, scratch: Tensor) -> Neighbourhood:
        """What the mixing over third nodes reads; ``scratch`` ``[n]`` is −1 everywhere, before and after."""
        start, target = self.pairs.start, self.pairs.target
        own_nodes = torch.arange(self.rows.start, self.rows.stop, device=start.device)
        nodes = torch.cat([own_nodes, target[self.own]]).unique()  # ascending
        scratch[nodes] = torch.arange(len(nodes), device=start.device)
        degree = start[nodes + 1] - start[nodes]
        position = stretches(start[nodes], degree)
        local = scratch[target[position]]
        row = torch.arange(len(nodes), device=start.device).repeat_interleave(
            degree, output_size=len(position)
        )
        scratch[nodes] = -1
        inside = local >= 0
        counts = torch.bincount(row[inside], minlength=len(nodes))
        position = position[inside]
        first_row, first_pair = torch.stack(
            [
                torch.searchsorted(nodes, self.rows.start),
                torch.searchsorted(position, self.own.start),
            ]
        ).tolist()
        rows = slice(first_row, first_row + self.rows.stop - self.rows.start)
        own = slice(first_pair, first_pair + self.own.stop - self.own.start)
        return Neighbourhood(functional.pad(counts.cumsum(0), (1, 0)), local[inside], position, rows, own)


def stretches(first: Tensor, length: Tensor) -> Tensor:
    """``first[0], first[0] + 1, …`` (``length[0]`` of them), then the same from ``first[1]``, and so on."""
    before = length.cumsum(0) - length
    count = int(length.sum())
    return torch.arange(count, device=first.device) + (first - before).repeat_interleave(
        length, output_size=count
    )


def slots(start: Tensor) -> tuple[Tensor, Tensor, int]:
    """Row and slot of every pair between the bounds ``start`` ``[r + 1]``, and the longest row's slots, at least 1."""
    degree = start.diff()
    count = int(start[-1] - start[0])
    row = torch.arange(len(degree), device=start.device).repeat_interleave(degree, output_size=count)
    slot = torch.arange(count, device=start.device) - (start[:-1] - start[0])[row]
    return row, slot, max(int(degree.max()), 1)
