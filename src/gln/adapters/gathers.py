"""Listed pairs by gathers and products of matrices alone: what any runtime can do, for any number of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gln.ops.mix import NEVER, soften


@dataclass(frozen=True)
class GivenPairs:
    """The ``m`` pairs of ``n`` nodes in the lists of :func:`gln.storage.onnx.lists_of`, as one block.

    The operations are those of :mod:`gln.models.pairs`.
    """

    ends: Tensor
    back: Tensor
    slots: Tensor
    third: Tensor

    candidates = None

    @property
    def shape(self) -> tuple[int]:
        return (self.ends.shape[1],)

    @property
    def mask(self) -> Tensor:
        return torch.ones_like(self.back, dtype=torch.bool)

    def blocks(self, size: int | None = None) -> list[GivenPairs]:
        return [self]

    def of_all_nodes(self) -> tuple[GivenPairs, None]:
        return self, None

    def from_batch(self, values: Tensor) -> Tensor:
        """``[1, n, ...] → [n, ...]``."""
        return values.flatten(0, 1)

    def rows(self, values: Tensor) -> Tensor:
        return values

    to_batch = in_slots = only = pairs = rows

    def source(self, values: Tensor) -> Tensor:
        return values.index_select(0, self.ends[0])

    def target(self, values: Tensor) -> Tensor:
        return values.index_select(0, self.ends[1])

    of_row = source

    def reverse(self, values: Tensor) -> Tensor:
        return values.index_select(0, self.back)

    def by_row(self, values: Tensor, fill: float) -> Tensor:
        """``[m, ...] → [n, K, ...]``; the number ``m`` finds ``fill``."""
        every = torch.cat([values, values.new_full((1, *values.shape[1:]), fill)])
        return every.index_select(0, self.slots.flatten()).unflatten(0, self.slots.shape)

    def row_total(self, values: Tensor) -> Tensor:
        return self.by_row(values, 0).sum(1)

    total = row_total

    def aggregate(self, weight: Tensor, values: Tensor) -> Tensor:
        """Weights ``[m, h]``, node values ``[n, h, c]`` → ``[n, h, c]``."""
        return self.row_total(weight[..., None] * self.target(values))

    def around(self, states: list[Tensor | None], number: int) -> Tensor | None:
        return states[number]

    def mix(self, read: Tensor) -> tuple[Tensor, Tensor]:
        """``[m, 4, h, d] → [m, h, d], [m, h]``, as :mod:`gln.ops.mix` says."""
        query, key, first, second = read.unbind(1)
        place, real, there, swap = self.places
        # Of every node k, one product of matrices has the scores of all ik with all jk: [h, n, K, K].
        among = self.heads(self.reverse(query)) @ self.heads(self.reverse(key)).mT
        weight, total = soften(self.gathered(among, there) + (1 - real) * NEVER)  # [h, m, K], [h, m]
        swapped = self.gathered(weight, swap) * real
        mixed = self.sums(weight, first, place) + self.sums(swapped, second, place[self.back])
        return mixed.transpose(0, 1), total.mT

    @cached_property
    def places(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What every step looks up: the place of every pair among all slots of all rows ``[m]``; for ``ij`` and every
        ``ik`` 1 if ``jk`` is a pair, where their score is among those of ``k``, and where the weight of ``ji`` and
        ``jk`` is, all ``[m, K]``.
        """
        count, slots = self.ends.shape[1], self.slots.shape[1]
        row = self.slots.index_select(0, self.ends[0])  # of every pair ij, the pairs ik
        slot = (torch.arange(count) - row[:, 0]).clamp(min=0)  # of every pair in its row
        place, real = self.ends[0] * slots + slot, self.third < count
        jk, ik = self.third.where(real, 0), row.where(real, 0)
        there = place[self.back][ik] * slots + slot[self.back][jk]
        return place, real.to(torch.float32), there, self.back[:, None] * slots + slot[jk]

    def gathered(self, values: Tensor, there: Tensor) -> Tensor:
        """``[h, ...]``, found at ``there [m, K]`` of all others: ``[h, m, K]``, all heads of an entry at once."""
        rows = values.flatten(1).T.index_select(0, there.flatten())
        return rows.unflatten(0, there.shape).permute(2, 0, 1)

    def heads(self, values: Tensor) -> Tensor:
        """``[m, h, d] → [h, n, K, d]``."""
        return self.by_row(values, 0).permute(2, 0, 1, 3)

    def sums(self, weight: Tensor, values: Tensor, place: Tensor) -> Tensor:
        """Of every pair the weighted sum ``[h, m, K]`` over the pairs of its row, read at ``place``: ``[h, m, d]``."""
        rows = self.heads(weight.transpose(0, 1))  # [h, n, K, K]
        return (rows @ self.heads(values)).flatten(1, 2).index_select(1, place)
