"""Mixing of the dense form on a GPU, in tiles of matrix products; :mod:`gln.models.fused` has the sparse form.

A program holds one tile of the scores ``[k, i, j]`` at a time, and sums over ``d``, ``k`` or ``j`` are batches of small
matrix products for the tensor cores. In the forward pass a program owns a tile of pairs ``ij`` and loops over ``k``; in
the backward pass it owns a tile of pairs ``ik`` and loops over ``j``. As in the sparse form, one kernel computes both
halves of the gradient, and the order of additions is fixed.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 16  # nodes along each side: the smallest that tensor cores take
WARPS, STAGES = 4, 2  # the fastest measured, of 2 to 8 and 1 to 3


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
def _forward(  # type: ignore[no-untyped-def]
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
def _backward(  # type: ignore[no-untyped-def]
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


def _sizes(read: Tensor) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """The grid and the sizes of a program; float32 products are as exact as torch is set to make them."""
    count, nodes, _, _, heads, width = read.shape
    tiles = triton.cdiv(nodes, TILE)
    exact = torch.get_float32_matmul_precision() == "highest"
    sizes: dict[str, Any] = {"H": heads, "D": width, "DEPTH": max(16, width), "T": TILE}
    sizes |= {"PRECISION": "ieee" if exact else "tf32", "num_warps": WARPS, "num_stages": STAGES}
    return (tiles, tiles, count * heads), sizes


def mix(read: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """As :meth:`gln.models.pairs.DensePairs.mix`; entries that are not pairs are 0."""
    count, nodes, _, _, heads, width = read.shape
    out = torch.zeros(count, nodes, nodes, heads, width, dtype=torch.float32, device=read.device)
    total = torch.zeros(count, nodes, nodes, heads, dtype=torch.float32, device=read.device)
    grid, sizes = _sizes(read)
    _forward[grid](read, mask, out, total, nodes, **sizes)
    return out, total


def mix_backward(read: Tensor, mask: Tensor, total: Tensor, delta: Tensor, grad: Tensor) -> Tensor:
    """The gradient of ``read``; the arguments are those of :mod:`gln.models.mixing_operator`."""
    result = torch.empty_like(read)
    grid, sizes = _sizes(read)
    for mine in (0, 1):
        _backward[grid](read, mask, total, delta, grad, result, read.shape[1], MINE=mine, **sizes)
    return result
