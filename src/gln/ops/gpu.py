"""The mixing on a GPU, as Triton kernels.

Sums are in float32 and in an order that does not change from run to run. Exchanging the ends of a pair exchanges
(query, first) with (key, second), so every kernel serves both ends: ``role`` 0 reads the pairs ``ij`` with one ``i`` in
front, ``role`` 1 with one ``j``.

*All pairs*: scores are matrix products for one third node ``k``, sums of values are matrix products for one ``i`` or
one ``j``. No order of the weights ``[k, i, j]`` in registers suits all three, and turning them around in shared memory
took most of the time; so the weights of some graphs at a time go through device memory, in both orders. They are kept
for the gradient if those of all graphs fit.

*Listed pairs*: a program takes one row ``i`` and one head, keeps the pairs of the row in registers and loops over their
other ends ``j``. Where ``j`` holds each third node is looked up beforehand, once for all heads. No weight is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gln.ops.mix import WORKSPACE, weights_of_a_head

TILE = 64  # nodes along each side of what a program computes at once
HIGHEST = tl.constexpr(80.0)  # higher scores count as this, so that no sum of exponentials overflows


def mix_all(read: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The arguments of these four are those of the operators in :mod:`gln.ops.mix`, contiguous.

    The weights that are returned are those of the last heads; of all, if they fit into memory at once.
    """
    nodes = read.shape[1]
    out = torch.empty(*mask.shape, *read.shape[4:], dtype=read.dtype, device=read.device)
    total = torch.empty(*mask.shape, read.shape[4], dtype=torch.float32, device=read.device)
    weights = read.new_empty(0)
    for first, count, weights, tiles, sizes in _some_heads(read):
        given = (weights, first, nodes)
        _weights[(tiles * tiles, nodes, count)](read, mask, *given, **sizes)
        for role in (0, 1):  # the second adds to what the first has written
            _values[(tiles, nodes, count)](read, out, total, *given, role=role, **sizes)
    return out, total, weights


def mix_all_backward(
    read: Tensor, mask: Tensor, kept: Tensor, total: Tensor, delta: Tensor, grad: Tensor
) -> Tensor:
    """``kept`` are the weights of all heads, or empty if they did not fit into memory at once."""
    nodes, result = read.shape[1], torch.empty_like(read)
    for first, count, slopes, tiles, sizes in _some_heads(read):
        weights = kept if len(kept) else slopes
        if not len(kept):
            _weights[(tiles * tiles, nodes, count)](read, mask, weights, first, nodes, **sizes)
        given = (total, delta, grad, result, weights, slopes, first, nodes)
        _value_gradient[(tiles, nodes, 2 * count)](read, *given, **sizes)
        both = tiles == 1
        _score_gradient[(tiles, nodes, count if both else 2 * count)](
            read, result, slopes, first, nodes, BOTH=both, **sizes
        )
    return result


def _some_heads(read: Tensor) -> Iterator[tuple[int, int, Tensor, int, dict[str, Any]]]:
    """First and number of some heads of graphs, memory for their weights, tiles along a side, sizes of a program."""
    graphs, nodes, _, _, heads, width = read.shape
    tile = min(max(triton.next_power_of_2(nodes), 16), TILE)
    # Float32 products are as exact as torch is set to.
    exact = torch.get_float32_matmul_precision() == "highest"
    one = weights_of_a_head(nodes)
    sizes: dict[str, Any] = {"H": heads, "D": width, "DEPTH": max(16, width), "T": tile}
    sizes |= {"ROW": one // (2 * nodes * nodes), "PRECISION": "ieee" if exact else "tf32"}
    sizes |= {"num_warps": 2, "num_stages": 2}
    most = min(max(1, WORKSPACE // (one * read.element_size())), graphs * heads)
    weights = torch.empty(most * one, dtype=read.dtype, device=read.device)
    for first in range(0, graphs * heads, most):
        yield first, min(most, graphs * heads - first), weights, triton.cdiv(nodes, tile), sizes


def mix_listed(
    read: Tensor, start: Tensor, target: Tensor, rows: Sequence[int], own: Sequence[int], longest: int
) -> tuple[Tensor, Tensor]:
    heads, width = read.shape[2:]
    pairs, count = own[1] - own[0], rows[1] - rows[0]
    out = torch.empty(pairs, heads, width, dtype=read.dtype, device=read.device)
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
def _rows(read, pair, inside, part, H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """One part of a row of pairs: ``[T, DEPTH]``, 0 where not inside."""
    d = tl.arange(0, DEPTH)[None, :]
    real = inside[:, None] & (d < D) if D < DEPTH else inside[:, None]
    return tl.load(read + (pair * (4 * H * D) + part * (H * D))[:, None] + d, mask=real, other=0.0)


@triton.jit
def _weights(  # type: ignore[no-untyped-def]
    read, mask, weights, first, nodes,
    H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, ROW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """``exp`` of the scores of one third node ``k``, 0 where it is not shared: ``[k, i, j]``, and ``[k, j, i]``."""
    tiles = tl.cdiv(nodes, T)
    one = tl.program_id(0) // tiles * T + tl.arange(0, T)
    other = tl.program_id(0) % tiles * T + tl.arange(0, T)
    k, place = tl.program_id(1), tl.program_id(2).to(tl.int64)
    graph, head = (first + place) // H, (first + place) % H
    read += graph * nodes * nodes * (4 * H * D) + head * D
    mask += graph * nodes * nodes + k * nodes  # symmetric
    mine = _rows(read, one * nodes + k, one < nodes, 0, H, D, DEPTH)
    theirs = _rows(read, other * nodes + k, other < nodes, 1, H, D, DEPTH)
    score = tl.dot(mine, tl.trans(theirs), input_precision=PRECISION)
    ours = tl.load(mask + one, mask=one < nodes, other=0) != 0
    shared = ours[:, None] & (tl.load(mask + other, mask=other < nodes, other=0) != 0)[None, :]
    weight = tl.where(shared, tl.exp(tl.minimum(score, HIGHEST)), 0.0).to(mine.dtype)
    weights += (2 * place * nodes + k) * nodes * ROW
    inside = (one < nodes)[:, None] & (other < ROW)[None, :]  # rows are padded with weights of 0
    tl.store(weights + one[:, None] * ROW + other[None, :], weight, mask=inside)
    inside = (other < nodes)[:, None] & (one < ROW)[None, :]
    weights += nodes * nodes * ROW
    tl.store(weights + other[:, None] * ROW + one[None, :], tl.trans(weight), mask=inside)


@triton.jit
def _values(  # type: ignore[no-untyped-def]
    read, out, total, weights, first, nodes,
    role: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, ROW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The weighted mean over third nodes of what the pairs with one node in front hold."""
    other = tl.program_id(0) * T + tl.arange(0, T)
    one, place = tl.program_id(1), tl.program_id(2).to(tl.int64)
    graph, head = (first + place) // H, (first + place) % H
    read += graph * nodes * nodes * (4 * H * D) + head * D
    weights += (2 * place + role) * nodes * nodes * ROW
    # Sums have a column more, of ones: that of the weights. An extra slot of score 0 and value 0 takes part.
    d = tl.arange(0, 2 * DEPTH)
    sums = tl.zeros([2 * DEPTH, T], dtype=tl.float32)
    for start in range(0, nodes, T):
        k = start + tl.arange(0, T)
        inside = (k < nodes)[:, None] & (other < ROW)[None, :]
        at = (k * nodes + one)[:, None] * ROW + other[None, :]
        weight = tl.load(weights + at, mask=inside, other=0.0)  # [k, other]
        at = ((one * nodes + k) * (4 * H * D) + (2 + role) * (H * D))[None, :] + d[:, None]
        value = tl.load(read + at, mask=(k < nodes)[None, :] & (d < D)[:, None], other=0.0)  # [d, k]
        value = tl.where((d == D)[:, None], 1.0, value.to(tl.float32)).to(weight.dtype)
        sums = tl.dot(value, weight, sums, input_precision=PRECISION)
    norm = 1 + tl.sum(tl.where((d == D)[:, None], sums, 0.0), axis=0)
    mixed = sums / norm[None, :]
    at = (other * nodes + one if role else one * nodes + other) * H
    out += graph * nodes * nodes * (H * D) + head * D
    inside = (other < nodes)[None, :] & (d < D)[:, None]
    if role:
        mixed += tl.load(out + at[None, :] * D + d[:, None], mask=inside, other=0.0).to(tl.float32)
    else:
        tl.store(total + graph * nodes * nodes * H + head + at, tl.log(norm), mask=other < nodes)
    tl.store(out + at[None, :] * D + d[:, None], mixed, mask=inside)


@triton.jit
def _value_gradient(  # type: ignore[no-untyped-def]
    read, total, delta, grad, result, weights, slopes, first, nodes,
    H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, ROW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of first or second, and for each weight its part of the gradient of the score."""
    k, one = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1)
    role, place = tl.program_id(2) % 2, tl.program_id(2).to(tl.int64)
    graph, head = (first + place // 2) // H, (first + place // 2) % H
    total += graph * nodes * nodes * H + head
    delta += graph * nodes * nodes * H + head
    grad += graph * nodes * nodes * (H * D) + head * D
    weights += place * nodes * nodes * ROW
    slopes += place * nodes * nodes * ROW
    part = graph * nodes * nodes * (4 * H * D) + head * D
    d = tl.arange(0, DEPTH)[None, :]
    value = _rows(read + part, one * nodes + k, k < nodes, 2 + role, H, D, DEPTH)
    sum_ = tl.zeros([T, DEPTH], dtype=tl.float32)
    for start in range(0, nodes, T):
        other = start + tl.arange(0, T)
        pair = (one * nodes + other if role == 0 else other * nodes + one) * H
        real = other < nodes
        wanted = tl.load(grad + pair[:, None] * D + d, mask=real[:, None] & (d < D), other=0.0).to(
            value.dtype
        )
        inside = (k < nodes)[:, None] & (other < ROW)[None, :]
        at = (k * nodes + one)[:, None] * ROW + other[None, :]
        weight = tl.load(weights + at, mask=inside, other=0.0).to(tl.float32)  # [k, other]
        weight *= tl.exp(-tl.load(total + pair, mask=real, other=0.0))[None, :]
        slope = tl.dot(value, tl.trans(wanted), input_precision=PRECISION)
        slope -= role * tl.load(delta + pair, mask=real, other=0.0)[None, :]  # only once
        tl.store(slopes + at, weight * slope, mask=inside)
        sum_ = tl.dot(weight.to(value.dtype), wanted, sum_, input_precision=PRECISION)
    at = (one * nodes + k) * (4 * H * D) + (2 + role) * (H * D)
    tl.store(result + part + at[:, None] + d, sum_, mask=(k < nodes)[:, None] & (d < D))


@triton.jit
def _score_gradient(  # type: ignore[no-untyped-def]
    read, result, slopes, first, nodes,
    BOTH: tl.constexpr,  # one tile has all nodes, so that one program serves both roles
    H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, ROW: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of query or key, for one third node ``k``."""
    one, k = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1)
    place = tl.program_id(2).to(tl.int64) * (2 if BOTH else 1)
    role = place % 2
    graph, head = (first + place // 2) // H, (first + place // 2) % H
    mine = slopes + (place * nodes + k) * nodes * ROW
    theirs = slopes + ((place + 1 - 2 * role) * nodes + k) * nodes * ROW
    part = graph * nodes * nodes * (4 * H * D) + head * D
    result += part
    d = tl.arange(0, DEPTH)[None, :]
    at = ((one * nodes + k) * (4 * H * D) + role * (H * D))[:, None] + d
    inside = (one < nodes)[:, None] & (d < D)
    sum_ = tl.zeros([T, DEPTH], dtype=tl.float32)
    for start in range(0, nodes, T):
        other = start + tl.arange(0, T)
        real = (one < nodes)[:, None] & (other < ROW)[None, :]
        slope = tl.load(mine + one[:, None] * ROW + other[None, :], mask=real, other=0.0)
        real = (other < nodes)[:, None] & (one < ROW)[None, :]
        turned = tl.load(theirs + other[:, None] * ROW + one[None, :], mask=real, other=0.0)
        slope = (slope.to(tl.float32) + tl.trans(turned).to(tl.float32)).to(slope.dtype)
        key = _rows(read + part, other * nodes + k, other < nodes, 1 - role, H, D, DEPTH)
        sum_ = tl.dot(slope, key, sum_, input_precision=PRECISION)
        if BOTH:
            query = _rows(read + part, one * nodes + k, one < nodes, 0, H, D, DEPTH)
            of_key = tl.dot(tl.trans(slope), query, input_precision=PRECISION)
            tl.store(result + H * D + at, of_key, mask=inside)
    tl.store(result + at, sum_, mask=inside)
