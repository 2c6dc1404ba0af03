"""Mixing over third nodes on a GPU, without ever writing its n·K² (or n³) weights to memory.

This module has the sparse form and makes both forms a torch operator; :mod:`gln.models.fused_dense` has the dense form.
One kernel computes both halves of the gradient: exchanging the ends of a pair exchanges (query, first) with (key,
second), so the gradient at the second end is that at the first with the roles exchanged.

``read`` ``[B, N, S, 4, h, d]`` holds query, key, first and second of every pair. A program takes one node ``i`` and
one head, keeps the node's own slots in registers and loops over the other ends ``j`` of its pairs. Sums are in float32
and in an order that does not change from run to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gln.models import fused_dense
from gln.models.mixing_operator import mix_operator

if TYPE_CHECKING:
    from gln.models.pairs import DensePairs, SparsePairs

MOST_SLOTS = 256  # more do not fit into the registers of a program


@triton.jit
def _load(read, row, slot, present, part: tl.constexpr, head, S, H: tl.constexpr, D: tl.constexpr):  # type: ignore[no-untyped-def]
    """One part of the pairs ``row → slot`` for one head: ``[SLOTS, D]``, 0 where not present."""
    at = (((row * S + slot) * 4 + part) * H + head)[:, None] * D + tl.arange(0, D)[None, :]
    return tl.load(read + at, mask=present[:, None], other=0.0).to(tl.float32)


@triton.jit
def _other_end(index, place, pair, first_row, slot, ours, S):  # type: ignore[no-untyped-def]
    """For the pair ``ij``: the row of ``j``, the slots in which it holds our third nodes, and whether it does."""
    other = first_row + tl.load(index + pair)
    theirs = tl.load(place + pair * S + slot, mask=ours, other=-1).to(tl.int64)
    return other, theirs, theirs >= 0


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    read, mask, index, place, out, total, N, S,
    H: tl.constexpr, D: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    head, first_row = tl.program_id(1) % H, (tl.program_id(1) // H).to(tl.int64) * N
    row = first_row + tl.program_id(0)
    slot = tl.arange(0, SLOTS)
    ours = tl.load(mask + row * S + slot, mask=slot < S, other=0) != 0
    query = _load(read, row, slot, ours, 0, head, S, H, D)
    first = _load(read, row, slot, ours, 2, head, S, H, D)
    for a in range(S):
        pair = row * S + a
        if tl.load(mask + pair) != 0:
            other, theirs, shared = _other_end(index, place, pair, first_row, slot, ours, S)
            key = _load(read, other, theirs, shared, 1, head, S, H, D)
            second = _load(read, other, theirs, shared, 3, head, S, H, D)
            score = tl.where(shared, tl.sum(query * key, axis=1), -float("inf"))  # [SLOTS]
            most = tl.maximum(tl.max(score, axis=0), 0.0)
            weight = tl.exp(score - most)
            norm = tl.sum(weight, axis=0) + tl.exp(-most)
            mixed = tl.sum(weight[:, None] * (first + second), axis=0) / norm  # [D]
            at = pair * H + head
            tl.store(out + at * D + tl.arange(0, D), mixed)
            tl.store(total + at, most + tl.log(norm))


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    read, mask, index, place, back, total, delta, grad, result, N, S,
    MINE: tl.constexpr,  # 0: the gradients of query and first; 1: of key and second
    H: tl.constexpr, D: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    head, first_row = tl.program_id(1) % H, (tl.program_id(1) // H).to(tl.int64) * N
    row = first_row + tl.program_id(0)
    slot = tl.arange(0, SLOTS)
    d = tl.arange(0, D)
    ours = tl.load(mask + row * S + slot, mask=slot < S, other=0) != 0
    query = _load(read, row, slot, ours, MINE, head, S, H, D)
    first = _load(read, row, slot, ours, 2 + MINE, head, S, H, D)
    grad_query = tl.zeros([SLOTS, D], dtype=tl.float32)
    grad_first = tl.zeros([SLOTS, D], dtype=tl.float32)
    for a in range(S):
        pair = row * S + a
        if tl.load(mask + pair) != 0:
            other, theirs, shared = _other_end(index, place, pair, first_row, slot, ours, S)
            key = _load(read, other, theirs, shared, 1 - MINE, head, S, H, D)
            second = _load(read, other, theirs, shared, 3 - MINE, head, S, H, D)
            if MINE == 1:  # with the roles exchanged, the pair's result is at ji
                pair = other * S + tl.load(back + pair)
            at = pair * H + head
            wanted = tl.load(grad + at * D + d).to(tl.float32)  # [D]
            score = tl.where(shared, tl.sum(query * key, axis=1), -float("inf"))
            weight = tl.exp(score - tl.load(total + at))  # [SLOTS]
            value = tl.sum((first + second) * wanted[None, :], axis=1)
            grad_score = weight * (value - tl.load(delta + at))
            grad_query += grad_score[:, None] * key
            grad_first += weight[:, None] * wanted[None, :]
    at = (((row * S + slot) * 4 + MINE) * H + head)[:, None] * D + d[None, :]
    inside = (slot < S)[:, None]
    tl.store(result + at, grad_query, mask=inside)
    tl.store(result + at + 2 * H * D, grad_first, mask=inside)


def _launch(read: Tensor, numbers_per_warp: int) -> dict[str, Any]:
    """The sizes of a program. The numbers per warp were chosen by measuring: few warps have little to synchronise."""
    slots, heads, width = read.shape[2], *read.shape[4:]
    padded = max(triton.next_power_of_2(slots), 16)
    warps = max(1, min(8, padded * width // numbers_per_warp))
    return {"H": heads, "D": width, "SLOTS": padded, "num_warps": warps}


def _mix_any(
    read: Tensor, mask: Tensor, index: Tensor, place: Tensor, back: Tensor, dense: bool
) -> tuple[Tensor, Tensor]:
    if dense:
        return fused_dense.mix(read, mask)
    count, nodes, slots, _, heads, width = read.shape
    out = torch.zeros(count, nodes, slots, heads, width, dtype=torch.float32, device=read.device)
    total = torch.zeros(count, nodes, slots, heads, dtype=torch.float32, device=read.device)
    _forward[(nodes, count * heads)](
        read, mask, index, place, out, total, nodes, slots, **_launch(read, 1024)
    )
    return out, total


def _mix_any_backward(
    read: Tensor, mask: Tensor, index: Tensor, place: Tensor, back: Tensor, dense: bool,
    total: Tensor, delta: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    if dense:
        return fused_dense.mix_backward(read, mask, total, delta, grad)
    count, nodes, slots, _, heads, _ = read.shape
    result = torch.empty_like(read)
    for mine in (0, 1):
        _backward[(nodes, count * heads)](
            read, mask, index, place, back, total, delta, grad, result, nodes, slots, MINE=mine,
            **_launch(read, 512),
        )  # fmt: skip
    return result


_mix = mix_operator("mix", _mix_any, _mix_any_backward)


def takes(read: Tensor) -> bool:
    """Whether the kernels support ``read``: head width a power of two, few enough slots, not float64."""
    width = read.shape[-1]
    return read.dtype != torch.float64 and read.shape[2] <= MOST_SLOTS and width & (width - 1) == 0


def mix_dense(read: Tensor, pairs: DensePairs) -> tuple[Tensor, Tensor]:
    """As :meth:`gln.models.pairs.DensePairs.mix`; entries that are not pairs are 0."""
    mask = pairs.mask.contiguous()
    return _mix(read, mask, mask, mask, mask, True)


def mix_sparse(read: Tensor, pairs: SparsePairs) -> tuple[Tensor, Tensor]:
    """As :meth:`gln.models.pairs.SparsePairs.mix`; slots that are not pairs are 0."""
    ends = (pairs.mask.contiguous(), pairs.target.contiguous(), pairs.places, pairs.back.contiguous())
    return _mix(read, *ends, False)
