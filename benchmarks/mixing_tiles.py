"""A kernel that might replace the mixing's forward pass: weights stay in registers.

Exponentials: one per score and role. Per score and role it reads 96 bytes / (nodes along a side of a tile) from the L2
cache, instead of writing and reading a weight of 2 bytes in device memory.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)
HIGHEST = tl.constexpr(115.0)  # as a power of 2
NEVER = tl.constexpr(-30000.0)
# exp2 of two scores in bfloat16, and their sum
ASM = tl.constexpr(
    "{ .reg .f32 a, b; .reg .b32 p; fma.rn.f32 a, $3, 0f3FB8AA3B, $5; fma.rn.f32 b, $4, 0f3FB8AA3B, $6;"
    "min.f32 a, a, $7; min.f32 b, b, $8; ex2.approx.ftz.f32 a, a; ex2.approx.ftz.f32 b, b; add.f32 $2, a, b;"
    "cvt.rn.bf16x2.f32 p, b, a; mov.b32 {$0, $1}, p; }"
)


class Tiles(NamedTuple):
    """Warps and nodes of a program: each warp has 8 × 16 pairs; ``one`` × ``other`` warps share what they read."""

    one: int
    other: int
    stages: int = 2
    registers: int | None = None


def mix(read: Tensor, mask: Tensor, tiles: Tiles) -> tuple[Tensor, Tensor]:
    count, nodes, _, _, heads, width = read.shape
    out = torch.empty(count, nodes, nodes, heads, width, dtype=read.dtype, device=read.device)
    total = torch.empty(count, nodes, nodes, heads, dtype=torch.float32, device=read.device)
    side = triton.cdiv(nodes, 64) * 64  # of tiles of any shape
    shift = torch.full((count, side, side), NEVER.value, device=read.device)  # of scores, as powers of 2
    shift[:, :nodes, :nodes].masked_fill_(mask, 0)
    programs = triton.cdiv(nodes, 8 * tiles.one) * triton.cdiv(nodes, 16 * tiles.other)
    more = {} if tiles.registers is None else {"maxnreg": tiles.registers}
    warps = {
        "V": tiles.one,
        "W": tiles.other,
        "num_warps": tiles.one * tiles.other,
        "num_stages": tiles.stages,
    }
    sizes = {"H": heads, "D": width, "I": 8, "J": 16, "K": 16, "FAST": read.dtype == torch.bfloat16}
    for role in (0, 1):  # the second adds to what the first has written
        _mix[(programs, heads * count)](
            read, shift, out, total, nodes, side, role=role, **sizes, **warps, **more
        )
    return out, total


@triton.jit
def _mix(  # type: ignore[no-untyped-def]
    read, shift_of, out, total, nodes, SIDE,
    role: tl.constexpr, H: tl.constexpr, D: tl.constexpr, I: tl.constexpr, V: tl.constexpr, W: tl.constexpr,
    J: tl.constexpr, K: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """The weighted means of what the pairs with ``one`` in front hold, for V × W tiles of I × J pairs, one per warp.

    A product of matrices is computed for every third node and warp, so that the scores of a pair are in registers of
    the warp that needs them: the warp is the last part of its batch.
    """
    tiles = tl.cdiv(nodes, W * J)
    one = (tl.program_id(0) // tiles) * (V * I) + tl.arange(0, V * I)
    other = (tl.program_id(0) % tiles) * (W * J) + tl.arange(0, W * J)
    graph, head = (tl.program_id(1) // H).to(tl.int64), tl.program_id(1) % H
    read += graph * nodes * nodes * (4 * H * D) + head * D
    shift_of += graph * SIDE * SIDE
    d = tl.arange(0, D)[None, None, :]
    sums = tl.zeros([I * V * W, J, D], dtype=tl.float32)
    norm = tl.zeros([V, W, J, I], dtype=tl.float32)
    for start in range(0, nodes, K):
        k = start + tl.arange(0, K)
        at = one[:, None] * nodes + k[None, :]
        inside = (one < nodes)[:, None] & (k < nodes)[None, :]
        mine = read + at[:, :, None] * (4 * H * D) + d
        query = tl.load(mine + role * (H * D), mask=inside[:, :, None], other=0.0)  # [one, k, d]
        value = tl.load(mine + (2 + role) * (H * D), mask=inside[:, :, None], other=0.0)
        highest = tl.load(shift_of + k[:, None] * SIDE + one) + HIGHEST  # [k, one]
        shift = tl.load(shift_of + k[:, None] * SIDE + other)  # [k, other]; what is read is symmetric
        inside = (k < nodes)[:, None] & (other < nodes)[None, :]
        at = other[None, :] * nodes + k[:, None]
        key = tl.load(
            read + (1 - role) * (H * D) + at[:, :, None] * (4 * H * D) + d, mask=inside[:, :, None], other=0.0
        )

        query = tl.permute(tl.reshape(query, [V, I, K, D]), (2, 0, 3, 1))[:, :, None]  # [k, v, 1, d, i]
        query = tl.reshape(tl.broadcast_to(query, [K, V, W, D, I]), [K * V * W, D, I])
        key = tl.reshape(key, [K, W, J, D])[:, None]
        key = tl.reshape(tl.broadcast_to(key, [K, V, W, J, D]), [K * V * W, J, D])
        value = tl.permute(tl.reshape(value, [V, I, K, D]), (1, 0, 2, 3))[:, :, None]  # [i, v, 1, k, d]
        value = tl.reshape(tl.broadcast_to(value, [I, V, W, K, D]), [I * V * W, K, D])
        score = tl.dot(key, query, input_precision="ieee")
        even, odd = _halves(tl.reshape(score, [K, V, W, J, I]), K)
        highest = tl.reshape(highest, [K, V, 1, 1, I])
        low_even, low_odd = _halves(tl.broadcast_to(highest, [K, V, W, J, I]), K)
        shift = tl.reshape(shift, [K, 1, W, J, 1])
        up_even, up_odd = _halves(tl.broadcast_to(shift, [K, V, W, J, I]), K)
        if FAST:
            even, odd, both = tl.inline_asm_elementwise(
                ASM, "=h,=h,=f,f,f,f,f,f,f", [even, odd, up_even, up_odd, low_even, low_odd],
                dtype=(tl.bfloat16, tl.bfloat16, tl.float32), is_pure=True, pack=1,
            )  # fmt: skip
        else:
            even = tl.exp2(tl.minimum(even * LOG2E + up_even, low_even))
            odd = tl.exp2(tl.minimum(odd * LOG2E + up_odd, low_odd))
            both = even + odd
        norm += tl.sum(both, axis=0)
        weight = tl.permute(tl.join(even, odd), (4, 1, 2, 3, 0, 5))  # [i, v, w, j, k, 2]
        sums = tl.dot(tl.reshape(weight, [I * V * W, J, K]), value, sums, input_precision="ieee")
    norm = 1 + tl.reshape(tl.permute(norm, (3, 0, 1, 2)), [I * V * W, J])
    mixed = sums / norm[:, :, None]
    number = tl.arange(0, I * V * W)
    one = (tl.program_id(0) // tiles) * (V * I) + number // W % V * I + number // (V * W)
    other = (tl.program_id(0) % tiles) * (W * J) + (number % W * J)[:, None] + tl.arange(0, J)[None, :]
    inside = (one < nodes)[:, None] & (other < nodes)
    at = other * nodes + one[:, None] if role else one[:, None] * nodes + other
    at = (graph * nodes * nodes + at) * H + head
    place = out + at[:, :, None] * D + d
    if role:
        mixed += tl.load(place, mask=inside[:, :, None], other=0.0).to(tl.float32)
    else:
        tl.store(total + at, tl.log(norm), mask=inside)
    tl.store(place, mixed, mask=inside[:, :, None])


@triton.jit
def _halves(values, K: tl.constexpr):  # type: ignore[no-untyped-def]
    """Values ``[k, v, w, j, i]`` of even and of odd third nodes."""
    pairs = tl.reshape(
        values, [K // 2, 2, values.shape[1], values.shape[2], values.shape[3], values.shape[4]]
    )
    return tl.split(tl.permute(pairs, (0, 2, 3, 4, 5, 1)))
