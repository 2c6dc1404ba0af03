"""The mixing on a GPU, as Triton kernels that never write a weight to memory.

Sums are in float32 and in an order that does not change from run to run. One kernel computes both halves of the
gradient: exchanging the ends of a pair exchanges (query, first) with (key, second), so the gradient at the second end
is that at the first with the roles exchanged.

*All pairs*: a program holds one tile of the scores ``[k, i, j]`` at a time, and sums over ``d``, ``k`` or ``j`` are
batches of small matrix products for the tensor cores. Forward, a program owns a tile of pairs ``ij`` and loops over
``k``; backward, it owns a tile of pairs ``ik`` and loops over ``j``.

*Listed pairs*: a program takes one row ``i`` and one head, keeps the pairs of the row in registers and loops over their
other ends ``j``. Where ``j`` holds each third node is looked up beforehand, once for all heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 16  # nodes along each side: the smallest that tensor cores take
WARPS, STAGES = 4, 2  # the fastest measured, of 2 to 8 and 1 to 3


def mix_all(read: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The arguments of these four are those of the operators in :mod:`gln.ops.mix`, contiguous."""
    heads, width = read.shape[4:]
    out = torch.zeros(*mask.shape, heads, width, dtype=torch.float32, device=read.device)
    total = torch.zeros(*mask.shape, heads, dtype=torch.float32, device=read.device)
    grid, sizes = _tiles(read)
    _all_forward[grid](read, mask, out, total, read.shape[1], **sizes)
    return out, total


def mix_all_backward(read: Tensor, mask: Tensor, total: Tensor, delta: Tensor, grad: Tensor) -> Tensor:
    result = torch.empty_like(read)
    grid, sizes = _tiles(read)
    for mine in (0, 1):
        _all_backward[grid](read, mask, total, delta, grad, result, read.shape[1], MINE=mine, **sizes)
    return result


def mix_listed(
    read: Tensor, start: Tensor, target: Tensor, rows: Sequence[int], own: Sequence[int], longest: int
) -> tuple[Tensor, Tensor]:
    heads, width = read.shape[2:]
    pairs, count = own[1] - own[0], rows[1] - rows[0]
    out = torch.empty(pairs, heads, width, dtype=torch.float32, device=read.device)
    total = torch.empty(pairs, heads, dtype=torch.float32, device=read.device)
    place = _places(start, target, rows, own, longest)
    if count:
        _listed_forward[(count, heads)](
            read, start, target, place, out, total, rows[0], own[0], **_slots(read, longest, 1024)
        )
    return out, total


def mix_listed_backward(
    read: Tensor, start: Tensor, target: Tensor, back: Tensor, own: Sequence[int], longest: int,
    total: Tensor, delta: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    nodes = len(start) - 1
    result = torch.zeros_like(read)
    place = _places(start, target, (0, nodes), (0, len(target)), longest)
    for mine in (0, 1):
        _listed_backward[(nodes, read.shape[2])](
            read, start, target, place, back, total, delta, grad, result, own[0], len(total), MINE=mine,
            **_slots(read, longest, 512),
        )  # fmt: skip
    return result


def _tiles(read: Tensor) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """The grid and the sizes of a program; float32 products are as exact as torch is set to make them."""
    count, nodes, _, _, heads, width = read.shape
    tiles = triton.cdiv(nodes, TILE)
    exact = torch.get_float32_matmul_precision() == "highest"
    sizes: dict[str, Any] = {"H": heads, "D": width, "DEPTH": max(16, width), "T": TILE}
    sizes |= {"PRECISION": "ieee" if exact else "tf32", "num_warps": WARPS, "num_stages": STAGES}
    return (tiles, tiles, count * heads), sizes


def _slots(read: Tensor, longest: int, numbers_per_warp: int) -> dict[str, Any]:
    """The sizes of a program. The numbers per warp were chosen by measuring: few warps have little to synchronise."""
    heads, width = read.shape[2:]
    slots = _slot_count(longest)
    warps = max(1, min(8, slots * width // numbers_per_warp))
    return {"H": heads, "D": width, "SLOTS": slots, "num_warps": warps}


def _slot_count(longest: int) -> int:
    return max(triton.next_power_of_2(longest), 16)


def _places(start: Tensor, target: Tensor, rows: Sequence[int], own: Sequence[int], longest: int) -> Tensor:
    """For every own pair ``ij`` and every pair ``ik`` of its row: the slot of ``k`` in the row of ``j``, or −1."""
    slots = _slot_count(longest)
    place = torch.empty(own[1] - own[0], slots, dtype=torch.int16, device=target.device)
    if rows[1] > rows[0]:
        _look_up[(rows[1] - rows[0],)](
            start, target, place, rows[0], own[0], SLOTS=slots, HALVINGS=slots.bit_length()
        )
    return place


@triton.jit
def _look_up(start, target, place, first_row, first_pair, SLOTS: tl.constexpr, HALVINGS: tl.constexpr):  # type: ignore[no-untyped-def]
    row = first_row + tl.program_id(0)
    begin, end = tl.load(start + row), tl.load(start + row + 1)
    slot = tl.arange(0, SLOTS)
    ours = slot < end - begin
    third = tl.load(target + begin + slot, mask=ours, other=-1)
    for pair in range(begin, end):
        other = tl.load(target + pair)
        their_first, their_last = tl.load(start + other), tl.load(start + other + 1)
        low = tl.zeros([SLOTS], dtype=tl.int64) + their_first
        high = tl.zeros([SLOTS], dtype=tl.int64) + their_last
        for _ in range(HALVINGS):
            middle = (low + high) // 2
            less = tl.load(target + middle, mask=low < high, other=0) < third
            low, high = tl.where(less & (low < high), middle + 1, low), tl.where(less, high, middle)
        found = tl.load(target + low, mask=ours & (low < their_last), other=-2) == third
        theirs = tl.where(found, low - their_first, -1)
        tl.store(place + (pair - first_pair) * SLOTS + slot, theirs.to(tl.int16))


@triton.jit
def _load(read, pair, present, part: tl.constexpr, head, H: tl.constexpr, D: tl.constexpr):  # type: ignore[no-untyped-def]
    """One part of some pairs for one head: ``[SLOTS, D]``, 0 where not present."""
    at = ((pair * 4 + part) * H + head)[:, None] * D + tl.arange(0, D)[None, :]
    return tl.load(read + at, mask=present[:, None], other=0.0).to(tl.float32)


@triton.jit
def _other_end(start, target, place, pair, first_pair, slot, SLOTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """For the pair ``ij``: where the row of ``j`` holds our third nodes, and whether it does."""
    theirs = tl.load(place + (pair - first_pair) * SLOTS + slot).to(tl.int64)
    return tl.load(start + tl.load(target + pair)) + theirs, theirs >= 0


@triton.jit
def _listed_forward(  # type: ignore[no-untyped-def]
    read, start, target, place, out, total, first_row, first_pair,
    H: tl.constexpr, D: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    row, head = first_row + tl.program_id(0), tl.program_id(1)
    begin, end = tl.load(start + row), tl.load(start + row + 1)
    slot = tl.arange(0, SLOTS)
    ours = slot < end - begin
    query = _load(read, begin + slot, ours, 0, head, H, D)
    first = _load(read, begin + slot, ours, 2, head, H, D)
    for pair in range(begin, end):
        theirs, shared = _other_end(start, target, place, pair, first_pair, slot, SLOTS)
        key = _load(read, theirs, shared, 1, head, H, D)
        second = _load(read, theirs, shared, 3, head, H, D)
        score = tl.where(shared, tl.sum(query * key, axis=1), -float("inf"))  # [SLOTS]
        most = tl.maximum(tl.max(score, axis=0), 0.0)  # an extra slot of score 0 and value 0 takes part
        weight = tl.exp(score - most)
        norm = tl.sum(weight, axis=0) + tl.exp(-most)
        mixed = tl.sum(weight[:, None] * (first + second), axis=0) / norm  # [D]
        at = (pair - first_pair) * H + head
        tl.store(out + at * D + tl.arange(0, D), mixed)
        tl.store(total + at, most + tl.log(norm))


@triton.jit
def _listed_backward(  # type: ignore[no-untyped-def]
    read, start, target, place, back, total, delta, grad, result, first_pair, pairs,
    MINE: tl.constexpr,  # 0: the gradients of query and first; 1: of key and second
    H: tl.constexpr, D: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0), tl.program_id(1)
    begin, end = tl.load(start + row), tl.load(start + row + 1)
    slot, d = tl.arange(0, SLOTS), tl.arange(0, D)
    ours = slot < end - begin
    query = _load(read, begin + slot, ours, MINE, head, H, D)
    first = _load(read, begin + slot, ours, 2 + MINE, head, H, D)
    grad_query = tl.zeros([SLOTS, D], dtype=tl.float32)
    grad_first = tl.zeros([SLOTS, D], dtype=tl.float32)
    for pair in range(begin, end):
        answer = pair  # with the roles exchanged, the pair's result is at ji
        if MINE == 1:
            answer = tl.load(back + pair)
        answer -= first_pair
        if (answer >= 0) & (answer < pairs):
            theirs, shared = _other_end(start, target, place, pair, 0, slot, SLOTS)
            key = _load(read, theirs, shared, 1 - MINE, head, H, D)
            second = _load(read, theirs, shared, 3 - MINE, head, H, D)
            at = answer * H + head
            wanted = tl.load(grad + at * D + d).to(tl.float32)  # [D]
            score = tl.where(shared, tl.sum(query * key, axis=1), -float("inf"))
            weight = tl.exp(score - tl.load(total + at))  # [SLOTS]
            value = tl.sum((first + second) * wanted[None, :], axis=1)
            grad_score = weight * (value - tl.load(delta + at))
            grad_query += grad_score[:, None] * key
            grad_first += weight[:, None] * wanted[None, :]
    at = (((begin + slot) * 4 + MINE) * H + head)[:, None] * D + d[None, :]
    tl.store(result + at, grad_query, mask=ours[:, None])
    tl.store(result + at + 2 * H * D, grad_first, mask=ours[:, None])


@triton.jit
def _pairs(  # type: ignore[no-untyped-def]
    read, first_row, one, other, part: tl.constexpr, head, N,
    H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """One part of the pairs ``one → other`` for one head, broadcast over both, with ``DEPTH`` numbers last."""
    d = tl.arange(0, DEPTH)[None, None, :]
    at = ((((first_row + one) * N + other) * 4 + part) * H + head) * D + d
    return tl.load(read + at, mask=(one < N) & (other < N) & (d < D), other=0.0)


@triton.jit
def _is_pair(mask, first_row, one, other, N):  # type: ignore[no-untyped-def]
    return tl.load(mask + (first_row + one) * N + other, mask=(one < N) & (other < N), other=0) != 0


@triton.jit
def _all_forward(  # type: ignore[no-untyped-def]
    read, mask, out, total, N,
    H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    head, first_row = tl.program_id(2) % H, (tl.program_id(2) // H).to(tl.int64) * N
    i, j = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1) * T + tl.arange(0, T)
    most = tl.zeros([T, T], dtype=tl.float32)  # [i, j]; an extra slot of score 0 and value 0 takes part
    norm = tl.full([T, T], 1.0, dtype=tl.float32)
    of_first = tl.zeros([T, T, DEPTH], dtype=tl.float32)  # [i, j, d]
    of_second = tl.zeros([T, T, DEPTH], dtype=tl.float32)  # [j, i, d]
    for start in range(0, N, T):
        k = start + tl.arange(0, T)
        query = _pairs(read, first_row, i[None, :, None], k[:, None, None], 0, head, N, H, D, DEPTH)
        key = _pairs(read, first_row, j[None, :, None], k[:, None, None], 1, head, N, H, D, DEPTH)
        first = _pairs(read, first_row, i[:, None, None], k[None, :, None], 2, head, N, H, D, DEPTH)
        second = _pairs(read, first_row, j[:, None, None], k[None, :, None], 3, head, N, H, D, DEPTH)
        ours = _is_pair(mask, first_row, i[None, :], k[:, None], N)
        theirs = _is_pair(mask, first_row, j[None, :], k[:, None], N)
        score = tl.dot(query, tl.permute(key, (0, 2, 1)), input_precision=PRECISION)  # [k, i, j]
        score = tl.where(ours[:, :, None] & theirs[:, None, :], score, -float("inf"))
        higher = tl.maximum(most, tl.max(score, axis=0))
        shrink = tl.exp(most - higher)
        weight = tl.exp(score - higher[None, :, :])
        norm = norm * shrink + tl.sum(weight, axis=0)
        weight = weight.to(first.dtype)
        of_first = of_first * shrink[:, :, None] + tl.dot(
            tl.permute(weight, (1, 2, 0)), first, input_precision=PRECISION
        )
        of_second = of_second * tl.trans(shrink)[:, :, None] + tl.dot(
            tl.permute(weight, (2, 1, 0)), second, input_precision=PRECISION
        )
        most = higher
    mixed = (of_first + tl.permute(of_second, (1, 0, 2))) / norm[:, :, None]
    real = _is_pair(mask, first_row, i[:, None], j[None, :], N)
    at = ((first_row + i[:, None]) * N + j[None, :]) * H + head
    d = tl.arange(0, DEPTH)[None, None, :]
    tl.store(out + at[:, :, None] * D + d, mixed, mask=real[:, :, None] & (d < D))
    tl.store(total + at, most + tl.log(norm), mask=real)


@triton.jit
def _all_backward(  # type: ignore[no-untyped-def]
    read, mask, total, delta, grad, result, N,
    MINE: tl.constexpr,  # 0: the gradients of query and first; 1: of key and second
    H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    head, first_row = tl.program_id(2) % H, (tl.program_id(2) // H).to(tl.int64) * N
    i, k = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1) * T + tl.arange(0, T)
    d = tl.arange(0, DEPTH)[None, None, :]
    query = _pairs(read, first_row, i[None, :, None], k[:, None, None], MINE, head, N, H, D, DEPTH)
    first = _pairs(read, first_row, i[:, None, None], k[None, :, None], 2 + MINE, head, N, H, D, DEPTH)
    ours = _is_pair(mask, first_row, i[None, :], k[:, None], N)
    grad_query = tl.zeros([T, T, DEPTH], dtype=tl.float32)  # [k, i, d]
    grad_first = tl.zeros([T, T, DEPTH], dtype=tl.float32)  # [i, k, d]
    for start in range(0, N, T):
        j = start + tl.arange(0, T)
        key = _pairs(read, first_row, j[None, :, None], k[:, None, None], 1 - MINE, head, N, H, D, DEPTH)
        second = _pairs(read, first_row, j[:, None, None], k[None, :, None], 3 - MINE, head, N, H, D, DEPTH)
        theirs = _is_pair(mask, first_row, j[None, :], k[:, None], N)
        real = _is_pair(mask, first_row, i[:, None], j[None, :], N)  # [i, j]
        if MINE == 0:
            at = ((first_row + i[:, None]) * N + j[None, :]) * H + head
        else:  # with the roles exchanged, the pair's result is at ji
            at = ((first_row + j[None, :]) * N + i[:, None]) * H + head
        wanted = tl.load(grad + at[:, :, None] * D + d, mask=real[:, :, None] & (d < D), other=0.0)
        wanted = wanted.to(first.dtype)  # [i, j, d]
        score = tl.dot(query, tl.permute(key, (0, 2, 1)), input_precision=PRECISION)  # [k, i, j]
        score -= tl.load(total + at, mask=real, other=0.0)[None, :, :]
        shared = ours[:, :, None] & theirs[:, None, :] & real[None, :, :]
        weight = tl.exp(tl.where(shared, score, -float("inf")))
        of_first = tl.dot(first, tl.permute(wanted, (0, 2, 1)), input_precision=PRECISION)  # [i, k, j]
        of_second = tl.dot(second, tl.permute(wanted, (1, 2, 0)), input_precision=PRECISION)  # [j, k, i]
        value = tl.permute(of_first, (1, 0, 2)) + tl.permute(of_second, (1, 2, 0))  # [k, i, j]
        grad_score = weight * (value - tl.load(delta + at, mask=real, other=0.0)[None, :, :])
        grad_query += tl.dot(grad_score.to(key.dtype), key, input_precision=PRECISION)
        weight = tl.permute(weight, (1, 0, 2)).to(first.dtype)  # [i, k, j]
        grad_first += tl.dot(weight, wanted, input_precision=PRECISION)
    at = (((first_row + i[None, :, None]) * N + k[:, None, None]) * 4 + MINE) * H + head
    inside = (i[None, :, None] < N) & (k[:, None, None] < N) & (d < D)
    tl.store(result + at * D + d, grad_query, mask=inside)
    at = (((first_row + i[:, None, None]) * N + k[None, :, None]) * 4 + MINE + 2) * H + head
    inside = (i[:, None, None] < N) & (k[None, :, None] < N) & (d < D)
    tl.store(result + at * D + d, grad_first, mask=inside)
