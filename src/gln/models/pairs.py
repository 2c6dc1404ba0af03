"""Pairs of nodes, all of them or K candidates per node, behind one set of operations.

A pair state is ``[B, N, S, c]``: row ``i`` holds the states of the directed pairs ``i → j``, one per slot. In the
dense form slot ``j`` *is* node ``j`` (``S = N``); in the sparse form it is the node ``index[i, slot]`` (``S = K``).
Both forms hold a symmetric set of pairs and compute the same function of it. A third form, without empty slots and
for inference only, is in :mod:`gln.models.flat`.

===============  =================================================================================
``of_rows``      node values of the rows at hand: all nodes, unless the pairs are a block of a larger set
``of_source``    node values at the first end of every pair, ``v_i``
``of_target``    node values at the second end, ``v_j``
``reverse``      the state of ``j → i`` at the place of ``i → j``
``total``        ``Σ_j w_ij``: the degree of every node
``aggregate``    ``Σ_j w_ij v_j``: pairs to nodes
``mix``          attention of the pair ``i → j`` over third nodes ``k`` that both ends are paired with
===============  =================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Protocol

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gln.compiling import gpu_kernels
from gln.models import mixing_cpu
from gln.models.mixing_operator import NEVER


class PairEnds(Protocol):
    """The operations on some rows of pairs; ``mask`` ``[B, N, S]`` is True on pairs, False on empty slots."""

    @property
    def mask(self) -> Tensor: ...

    def of_rows(self, values: Tensor) -> Tensor: ...

    def of_source(self, values: Tensor) -> Tensor: ...

    def of_target(self, values: Tensor) -> Tensor: ...

    def aggregate(self, weight: Tensor, values: Tensor) -> Tensor: ...


class Pairs(PairEnds, Protocol):
    """The operations on a whole set of pairs."""

    def reverse(self, state: Tensor) -> Tensor: ...

    def total(self, weight: Tensor) -> Tensor: ...

    def mix(self, read: Tensor) -> tuple[Tensor, Tensor]: ...


def _attend(scores: Tensor, allowed: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Softmax weights over an axis, and their log-normaliser.

    An extra slot of score 0 and value 0 takes part, so that a pair without third nodes is well defined.
    """
    scores = scores.masked_fill(~allowed, NEVER)
    total = torch.logaddexp(scores.logsumexp(axis), scores.new_zeros(()))
    return (scores - total.unsqueeze(axis)).exp(), total


# The same mixing in one kernel, by device.
KERNELS: dict[str, ModuleType] = {"cpu": mixing_cpu, **gpu_kernels("gln.models.fused")}


def _kernels(read: Tensor) -> ModuleType | None:
    """The kernels that take ``read``, if any."""
    kernels = KERNELS.get(read.device.type)
    return kernels if kernels is not None and kernels.takes(read) else None


class _AllRows:
    """What the two forms that hold all rows have in common."""

    def of_rows(self, values: Tensor) -> Tensor:
        """``[B, N, ...]``, unchanged: every node has a row."""
        return values

    def of_source(self, values: Tensor) -> Tensor:
        """``[B, N, c] → [B, N, 1, c]``, to be broadcast."""
        return values[:, :, None]

    def total(self, weight: Tensor) -> Tensor:
        """``[B, N, S] → [B, N]``."""
        return weight.sum(-1)


@dataclass(frozen=True)
class DensePairs(_AllRows):
    """An entry for every two nodes; the symmetric ``mask`` ``[B, N, N]`` is True on those that are pairs."""

    mask: Tensor

    def of_target(self, values: Tensor) -> Tensor:
        """``[B, N, c] → [B, 1, N, c]``, to be broadcast."""
        return values[:, None]

    def reverse(self, state: Tensor) -> Tensor:
        """``[B, N, N, ...] → [B, N, N, ...]``."""
        return state.transpose(1, 2)

    def aggregate(self, weight: Tensor, values: Tensor) -> Tensor:
        """Weights ``[B, N, N, h]``, node values ``[B, N, h, c]`` → ``[B, N, h, c]``."""
        return torch.einsum("bijh,bjhc->bihc", weight, values)

    def mix(self, read: Tensor) -> tuple[Tensor, Tensor]:
        """For every pair ``ij``: ``Σ_k a_ijk (first_ik + second_jk)`` with ``a = softmax_k(query_ik · key_jk)``.

        Args:
            read: query, key, first and second of every pair, ``[B, N, N, 4, h, d]``.

        Returns:
            The mixed values ``[B, N, N, h, d]`` and the log-normaliser, a soft maximum of the scores, ``[B, N, N, h]``.
        """
        if kernels := _kernels(read):
            return kernels.mix_dense(read, self)
        query, key, first, second = read.unbind(3)
        scores = torch.einsum("bikhd,bjkhd->bhijk", query, key)
        allowed = (
            self.mask[:, None, :, None, :] & self.mask[:, None, None, :, :]
        )  # k is paired with i and with j
        weight, total = _attend(scores, allowed, -1)
        mixed = torch.einsum("bhijk,bikhc->bijhc", weight, first) + torch.einsum(
            "bhijk,bjkhc->bijhc", weight, second
        )
        return mixed, total.permute(0, 2, 3, 1)


@dataclass(frozen=True)
class SparsePairs(_AllRows):
    """K candidates per node: state O(N·K), workspace O(chunk·K²).

    ===========  =============  ==================================================================
    ``index``    ``[B, N, K]``  the node in each slot, ascending; ``N`` in empty slots
    ``back``     ``[B, N, K]``  the slot of ``i`` in the row of ``index[i, slot]``; 0 where empty
    ``mask``     ``[B, N, K]``  True on pairs
    ===========  =============  ==================================================================
    """

    index: Tensor
    back: Tensor
    mask: Tensor
    workspace: int = 2**26  # the most numbers held at once while third nodes are looked up

    @classmethod
    def from_index(cls, index: Tensor) -> SparsePairs:
        """From symmetric candidates ``[B, N, K]``: ascending node numbers, then ``N`` in empty slots."""
        nodes = index.shape[1]
        mask = index < nodes
        graph, source, slot = mask.nonzero(as_tuple=True)
        target = index[mask]
        key = (graph * nodes + source) * nodes + target  # already ascending
        back = torch.zeros_like(index)
        back[mask] = slot[torch.searchsorted(key, (graph * nodes + target) * nodes + source)]
        return cls(index, back, mask)

    @property
    def target(self) -> Tensor:
        """The node in each slot, 0 where empty, so that it can always be gathered."""
        return self.index.where(self.mask, 0)

    def of_target(self, values: Tensor) -> Tensor:
        """``[B, N, c] → [B, N, K, c]``."""
        return _rows(values, self.target)

    def reverse(self, state: Tensor) -> Tensor:
        """``[B, N, K, ...] → [B, N, K, ...]``."""
        slots = state.shape[2]
        return _rows(state.flatten(1, 2), self.target * slots + self.back)

    def aggregate(self, weight: Tensor, values: Tensor) -> Tensor:
        """Weights ``[B, N, K, h]``, node values ``[B, N, h, c]`` → ``[B, N, h, c]``."""
        return torch.einsum("bijh,bijhc->bihc", weight, self.of_target(values))

    def mix(self, read: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`DensePairs.mix`, with as many rows at a time as the workspace holds."""
        if kernels := _kernels(read):
            return kernels.mix_sparse(read, self)
        count, nodes, slots, _, *state = read.shape
        chunk = max(1, self.workspace // (count * slots * slots * math.prod(state)))
        # With gradients, a chunk is recomputed in the backward pass instead of being stored.
        again = torch.is_grad_enabled() and nodes > chunk
        ours, theirs = read[:, :, :, 0::2], read[:, :, :, 1::2]  # query and first, key and second
        parts = []
        for start in range(0, nodes, chunk):
            rows = slice(start, start + chunk)
            if again:
                some = (self._mix_rows, ours[:, rows], theirs, rows)
                parts.append(checkpoint(*some, use_reentrant=False, preserve_rng_state=False))
            else:
                parts.append(self._mix_rows(ours[:, rows], theirs, rows))
        mixed, total = zip(*parts, strict=True)
        return torch.cat(mixed, dim=1), torch.cat(total, dim=1)

    def _mix_rows(self, ours: Tensor, theirs: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        """Query and first of some rows ``[B, R, K, 2, h, d]`` against key and second of all ``[B, N, K, 2, h, d]``."""
        place, shared = self._third_nodes(rows)
        place = self.target[:, rows, :, None] * self.mask.shape[2] + place  # row and slot in one number
        query, first = ours[:, :, None].unbind(4)  # [B, R, 1, K, h, d]
        key, second = _rows(theirs.flatten(1, 2), place).unbind(4)  # [B, R, J, K, h, d]
        # Elementwise products and sums: one matrix product per pair would mean many tiny ones.
        weight, total = _attend((query * key).sum(-1), shared[..., None], 3)  # [B, R, J, K, h], [B, R, J, h]
        return (weight[..., None] * (first + second)).sum(3), total

    def _third_nodes(self, rows: slice) -> tuple[Tensor, Tensor]:
        """The slot of ``k`` in the row of ``j``, and whether it has one, both ``[B, R, K, K]``.

        For the pairs ``ij`` of some rows and every ``k`` that ``i`` is paired with.
        """
        index, mask, target = self.index[:, rows], self.mask[:, rows], self.target[:, rows]
        theirs = _rows(self.index, target)  # candidates of j
        ours = index[:, :, None].expand(theirs.shape).contiguous()
        place = torch.searchsorted(theirs, ours).clamp_(max=index.shape[2] - 1)
        return place, (theirs.gather(-1, place) == ours) & mask[:, :, None] & mask[..., None]

    @cached_property
    def places(self) -> Tensor:
        """:meth:`_third_nodes` of all rows as one small number each, −1 where there is no slot: ``[B, N, K, K]``."""
        count, nodes, slots = self.mask.shape
        chunk = max(1, self.workspace // (count * slots * slots))
        parts = [self._third_nodes(slice(start, start + chunk)) for start in range(0, nodes, chunk)]
        return torch.cat([place.where(shared, -1).to(torch.int16) for place, shared in parts], dim=1)


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """The rows of ``values`` ``[B, M, ...]`` at ``index`` ``[B, ...]``, counted within each batch entry.

    ``index_select`` sums its gradient in a fixed order, so that training on a CPU is repeatable.
    """
    start = (
        torch.arange(len(values), device=values.device).view(-1, *[1] * (index.dim() - 1)) * values.shape[1]
    )
    picked = values.flatten(0, 1).index_select(0, (start + index).flatten())
    return picked.view(*index.shape, *values.shape[2:])
