"""The mixing on a GPU, as Triton kernels.

Sums are in float32 and in an order that does not change from run to run. Exchanging the ends of a pair exchanges
(query, first) with (key, second), so every kernel serves both ends: ``role`` 0 reads the pairs ``ij`` with one ``i`` in
front, ``role`` 1 with one ``j``.

*All pairs*: scores are matrix products for one third node ``k``, sums of values are matrix products for one ``i`` or
one ``j``. No order of the weights ``[k, i, j]`` in registers suits all three, and turning them around in shared memory
took most of the time; so the weights of some graphs at a time go through device memory, in both orders. They are kept
for the gradient if those of all graphs fit.

*Listed pairs*: the same products. A third node ``k`` meets the nodes it is paired with in the order of its own row, and
every row holds its weights ``[k, j]`` by its own slots; which slot of one row is which of another is looked up
beforehand, once for a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gln.ops.mix import padded, weights_of_a_head, workspace

TILE = 64  # nodes along each side of what a program computes at once
LISTED = 32  # the same for lists, whose rows have lengths of their own
HIGHEST = tl.constexpr(80.0)  # higher scores count as this, so that no sum of exponentials overflows


def mix_all(read: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The arguments of these five are those of the operators in :mod:`gln.ops.mix`, contiguous.

    The weights that are returned are those of the last heads; of all, if they fit into memory at once.
    """
    nodes = read.shape[1]
    out = torch.empty(*mask.shape, *read.shape[4:], dtype=read.dtype, device=read.device)
    total = torch.empty(*mask.shape, read.shape[4], dtype=torch.float32, device=read.device)
    weights = read.new_empty(0)
    for first, count, weights, tiles, sizes in _some_heads(read, nodes, nodes):
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
    for first, count, slopes, tiles, sizes in _some_heads(read, nodes, nodes):
        weights = kept if len(kept) else slopes
        if not len(kept):
            _weights[(tiles * tiles, nodes, count)](read, mask, weights, first, nodes, **sizes)
        given = (total, delta, grad, result, weights, slopes, first, nodes)
        _value_gradient[(tiles, nodes, 2 * count)](read, *given, **sizes)
        sizes |= {"T": min(max(triton.next_power_of_2(nodes), 16), 2 * TILE), "num_warps": 4}  # more at once
        tiles = triton.cdiv(nodes, sizes["T"])
        both = tiles == 1
        _score_gradient[(tiles, nodes, count if both else 2 * count)](
            read, result, slopes, first, nodes, BOTH=both, **sizes
        )
    return result


def look_up(start: Tensor, target: Tensor, back: Tensor, longest: int) -> Tensor:
    place = torch.empty(len(target), padded(longest), dtype=torch.int16, device=target.device)
    if len(target):
        slots = triton.next_power_of_2(place.shape[1])
        sizes = {"ROW": place.shape[1], "SLOTS": slots, "HALVINGS": slots.bit_length()}
        _look_up[(len(target),)](start, target, back, place, **sizes, num_warps=1)
    return place


def mix_listed(
    read: Tensor, start: Tensor, target: Tensor, back: Tensor, place: Tensor,
    rows: Sequence[int], own: Sequence[int], longest: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    pairs, near = own[1] - own[0], len(start) - 1
    out = torch.zeros(pairs, *read.shape[2:], dtype=read.dtype, device=read.device)
    total = torch.zeros(pairs, read.shape[2], dtype=torch.float32, device=read.device)
    weights = read.new_empty(0)
    for first, count, weights, tiles, sizes in _some_heads(read, near, place.shape[1], LISTED):
        weights.zero_()
        given = (weights, first, near)
        _listed_weights[(near * tiles * tiles, count)](
            read, start, target, back, place, *given, *rows, **sizes
        )
        for role in (0, 1):  # the second adds to what the first has written
            _listed_values[(near * tiles, count)](
                read, start, back, out, total, *given, own[0], pairs, role=role, **sizes
            )
    return out, total, weights


def mix_listed_backward(
    read: Tensor, start: Tensor, target: Tensor, back: Tensor, place: Tensor,
    rows: Sequence[int], own: Sequence[int], longest: int,
    kept: Tensor, total: Tensor, delta: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    near, result = len(start) - 1, torch.zeros_like(read)
    lists = (start, target, back, place)
    for first, count, slopes, tiles, sizes in _some_heads(read, near, place.shape[1], LISTED):
        weights = kept if len(kept) else slopes
        if not len(kept):
            weights.zero_()
            _listed_weights[(near * tiles * tiles, count)](read, *lists, weights, first, near, *rows, **sizes)
        given = (total, delta, grad, result, weights, slopes, first, near, own[0], len(total))
        _listed_value_gradient[(near * tiles, 2 * count)](read, start, back, *given, **sizes)
        both = tiles == 1
        _listed_score_gradient[(near * tiles, count if both else 2 * count)](
            read, *lists, result, slopes, first, near, BOTH=both, **sizes
        )
    return result


def _some_heads(
    read: Tensor, rows: int, side: int, most: int | None = None
) -> Iterator[tuple[int, int, Tensor, int, dict[str, Any]]]:
    """First and number of some heads of graphs, memory for their weights, tiles along a side, sizes of a program.

    A head has ``rows`` squares of weights with this ``side``, twice. A tile has at most ``most`` along a side.
    """
    heads, width = read.shape[-2:]
    every = heads * len(read) if read.dim() == 6 else heads  # lists have one graph
    tile = min(max(triton.next_power_of_2(side), 16), most or TILE)
    # Float32 products are as exact as torch is set to.
    exact = torch.get_float32_matmul_precision() == "highest"
    one = weights_of_a_head(rows, side)
    sizes: dict[str, Any] = {"H": heads, "D": width, "DEPTH": max(16, width), "T": tile}
    sizes |= {"ROW": padded(side), "PRECISION": "ieee" if exact else "tf32"}
    sizes |= {"num_warps": 2, "num_stages": 2}
    at_once = min(max(1, workspace(read) // max(one * read.element_size(), 1)), every)
    weights = torch.empty(at_once * one, dtype=read.dtype, device=read.device)
    for first in range(0, every if rows else 0, at_once):
        yield first, min(at_once, every - first), weights, triton.cdiv(side, tile), dict(sizes)


@triton.jit
def _look_up(  # type: ignore[no-untyped-def]
    start, target, back, place, ROW, SLOTS: tl.constexpr, HALVINGS: tl.constexpr
):
    pair = tl.program_id(0).to(tl.int64)
    row, other = tl.load(target + tl.load(back + pair)), tl.load(target + pair)
    begin, end = tl.load(start + row), tl.load(start + row + 1)
    their_first, their_last = tl.load(start + other), tl.load(start + other + 1)
    slot = tl.arange(0, SLOTS)
    ours = slot < end - begin
    third = tl.load(target + begin + slot, mask=ours, other=-1)
    low = tl.zeros([SLOTS], dtype=tl.int64) + their_first
    high = tl.zeros([SLOTS], dtype=tl.int64) + their_last
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        less = tl.load(target + middle, mask=low < high, other=0) < third
        low, high = tl.where(less & (low < high), middle + 1, low), tl.where(less, high, middle)
    found = tl.load(target + low, mask=ours & (low < their_last), other=-2) == third
    theirs = tl.where(found, low - their_first, -1)
    tl.store(place + pair * ROW + slot, theirs.to(tl.int16), mask=slot < ROW)


@triton.jit
def _row(start, target, back, row, slot):  # type: ignore[no-untyped-def]
    """Of slots of a row ``k``: the pairs ``ki``, which are real, ``i``, where ``ik`` is, and its slot in row ``i``."""
    begin = tl.load(start + row)
    real = slot < tl.load(start + row + 1) - begin
    node = tl.load(target + begin + slot, mask=real, other=0)
    reverse = tl.load(back + begin + slot, mask=real, other=0)
    return begin + slot, real, node, reverse, reverse - tl.load(start + node, mask=real, other=0)


@triton.jit
def _between(place, mine, real, slot, theirs, ROW):  # type: ignore[no-untyped-def]
    """Of pairs ``ki`` and slots of ``j`` in the row of ``k``: the slots of ``j`` in the rows of ``i``, or −1."""
    at = mine[:, None] * ROW + slot[None, :]
    return tl.load(place + at, mask=real[:, None] & theirs[None, :], other=-1)


@triton.jit(do_not_specialize=["first", "rows", "first_row", "last_row"])
def _listed_weights(  # type: ignore[no-untyped-def]
    read, start, target, back, place, weights, first, rows, first_row, last_row,
    H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, ROW,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """:func:`_weights` of the nodes that ``k`` is paired with: ``[i, k, j]``, and ``[j, k, i]``, in slots of a row."""
    tiles, head = (ROW + T - 1) // T, tl.program_id(1).to(tl.int64)
    k, tile = (tl.program_id(0) // (tiles * tiles)).to(tl.int64), tl.program_id(0) % (tiles * tiles)
    one = tile // tiles * T + tl.arange(0, T)
    other = tile % tiles * T + tl.arange(0, T)
    ki, ours, i, ik, slot_in_i = _row(start, target, back, k, one)
    kj, theirs, j, jk, slot_in_j = _row(start, target, back, k, other)
    if (tl.sum(ours.to(tl.int32)) == 0) | (tl.sum(theirs.to(tl.int32)) == 0):
        return
    read += (first + head) * D
    query = _rows(read, ik, ours, 0, H, D, DEPTH)
    key = _rows(read, jk, theirs, 1, H, D, DEPTH)
    score = tl.dot(query, tl.trans(key), input_precision=PRECISION)
    weight = tl.exp(tl.minimum(score, HIGHEST)).to(query.dtype)
    ours = ours & (i >= first_row) & (i < last_row)
    weights += 2 * head * rows * ROW * ROW
    at = _between(place, ki, ours, other, theirs, ROW)
    tl.store(weights + ((i * ROW + slot_in_i) * ROW)[:, None] + at, weight, mask=at >= 0)
    weights += rows * ROW * ROW
    at = _between(place, kj, theirs, one, ours, ROW)
    tl.store(weights + ((j * ROW + slot_in_j) * ROW)[:, None] + at, tl.trans(weight), mask=at >= 0)


@triton.jit
def _row_and_tile(ROW, T):  # type: ignore[no-untyped-def]
    """Of this program. The tiles of a row are computed one after another, while its weights are near."""
    tiles = (ROW + T - 1) // T
    return (tl.program_id(0) // tiles).to(tl.int64), tl.program_id(0) % tiles


@triton.jit
def _answer(back, pair, real, first_pair, pairs, role):  # type: ignore[no-untyped-def]
    """Where the results of pairs ``ij`` are, or of ``ji`` with the roles exchanged, and whether they are asked for."""
    answer = pair
    if role == 1:
        answer = tl.load(back + pair, mask=real, other=0)
    answer -= first_pair
    return answer, real & (answer >= 0) & (answer < pairs)


@triton.jit(do_not_specialize=["first", "rows", "first_pair", "pairs"])
def _listed_values(  # type: ignore[no-untyped-def]
    read, start, back, out, total, weights, first, rows, first_pair, pairs,
    role: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, ROW,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """:func:`_values` of one row."""
    one, tile = _row_and_tile(ROW, T)
    other, head = tile * T + tl.arange(0, T), tl.program_id(1).to(tl.int64)
    begin = tl.load(start + one)
    count = tl.load(start + one + 1) - begin
    if tile * T >= count:
        return
    answer, asked = _answer(back, begin + other, other < count, first_pair, pairs, role)
    weights += ((2 * head + role) * rows + one) * ROW * ROW
    read += (first + head) * D
    d = tl.arange(0, 2 * DEPTH)  # sums have a column more, of ones: that of the weights
    sums = tl.zeros([2 * DEPTH, T], dtype=tl.float32)
    for begin_k in range(0, count, T):
        k = begin_k + tl.arange(0, T)
        inside = (k < count)[:, None] & (other < ROW)[None, :]
        weight = tl.load(weights + k[:, None] * ROW + other[None, :], mask=inside, other=0.0)  # [k, other]
        at = ((begin + k) * (4 * H * D) + (2 + role) * (H * D))[None, :] + d[:, None]
        value = tl.load(read + at, mask=(k < count)[None, :] & (d < D)[:, None], other=0.0)  # [d, k]
        value = tl.where((d == D)[:, None], 1.0, value.to(tl.float32)).to(weight.dtype)
        sums = tl.dot(value, weight, sums, input_precision=PRECISION)
    norm = 1 + tl.sum(tl.where((d == D)[:, None], sums, 0.0), axis=0)
    mixed = sums / norm[None, :]
    at = answer * H + first + head
    inside = asked[None, :] & (d < D)[:, None]
    if role:
        mixed += tl.load(out + at[None, :] * D + d[:, None], mask=inside, other=0.0).to(tl.float32)
    else:
        tl.store(total + at, tl.log(norm), mask=asked)
    tl.store(out + at[None, :] * D + d[:, None], mixed, mask=inside)


@triton.jit(do_not_specialize=["first", "rows", "first_pair", "pairs"])
def _listed_value_gradient(  # type: ignore[no-untyped-def]
    read, start, back, total, delta, grad, result, weights, slopes, first, rows, first_pair, pairs,
    H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, ROW,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """:func:`_value_gradient` of one row."""
    one, tile = _row_and_tile(ROW, T)
    k, place = tile * T + tl.arange(0, T), tl.program_id(1).to(tl.int64)
    head, role = first + place // 2, place % 2
    begin = tl.load(start + one)
    count = tl.load(start + one + 1) - begin
    if tile * T >= count:
        return
    weights += (place * rows + one) * ROW * ROW
    slopes += (place * rows + one) * ROW * ROW
    d = tl.arange(0, DEPTH)[None, :]
    value = _rows(read + head * D, begin + k, k < count, 2 + role, H, D, DEPTH)
    sum_ = tl.zeros([T, DEPTH], dtype=tl.float32)
    for begin_other in range(0, count, T):
        other = begin_other + tl.arange(0, T)
        answer, asked = _answer(back, begin + other, other < count, first_pair, pairs, role)
        at = answer * H + head
        wanted = tl.load(grad + at[:, None] * D + d, mask=asked[:, None] & (d < D), other=0.0).to(value.dtype)
        inside = (k < count)[:, None] & (other < ROW)[None, :]
        place_ = k[:, None] * ROW + other[None, :]
        weight = tl.load(weights + place_, mask=inside, other=0.0).to(tl.float32)  # [k, other]
        weight *= tl.exp(-tl.load(total + at, mask=asked, other=0.0))[None, :]
        slope = tl.dot(value, tl.trans(wanted), input_precision=PRECISION)
        slope -= role * tl.load(delta + at, mask=asked, other=0.0)[None, :]  # only once
        tl.store(slopes + place_, weight * slope, mask=inside)
        sum_ = tl.dot(weight.to(value.dtype), wanted, sum_, input_precision=PRECISION)
    at = (begin + k) * (4 * H * D) + (2 + role) * (H * D) + head * D
    tl.store(result + at[:, None] + d, sum_, mask=(k < count)[:, None] & (d < D))


@triton.jit(do_not_specialize=["first", "rows"])
def _listed_score_gradient(  # type: ignore[no-untyped-def]
    read, start, target, back, place, result, slopes, first, rows,
    BOTH: tl.constexpr,  # one tile has the whole row, so that one program serves both roles
    H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, ROW,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """:func:`_score_gradient` of the nodes that ``k`` is paired with."""
    k, tile = _row_and_tile(ROW, T)
    one, number = tile * T + tl.arange(0, T), tl.program_id(1).to(tl.int64) * (2 if BOTH else 1)
    head, role = first + number // 2, number % 2
    ki, ours, i, ik, slot_in_i = _row(start, target, back, k, one)
    count = tl.load(start + k + 1) - tl.load(start + k)
    if tile * T >= count:
        return
    mine = slopes + number * rows * ROW * ROW
    theirs = slopes + (number + 1 - 2 * role) * rows * ROW * ROW
    d = tl.arange(0, DEPTH)[None, :]
    at_result = (ik * (4 * H * D) + role * (H * D) + head * D)[:, None] + d
    inside = ours[:, None] & (d < D)
    sum_ = tl.zeros([T, DEPTH], dtype=tl.float32)
    for begin_other in range(0, count, T):
        other = begin_other + tl.arange(0, T)
        kj, real, j, jk, slot_in_j = _row(start, target, back, k, other)
        at = _between(place, ki, ours, other, real, ROW)
        slope = tl.load(mine + ((i * ROW + slot_in_i) * ROW)[:, None] + at, mask=at >= 0, other=0.0)
        at = _between(place, kj, real, one, ours, ROW)
        turned = tl.load(theirs + ((j * ROW + slot_in_j) * ROW)[:, None] + at, mask=at >= 0, other=0.0)
        slope = (slope.to(tl.float32) + tl.trans(turned).to(tl.float32)).to(slope.dtype)
        key = _rows(read + head * D, jk, real, 1 - role, H, D, DEPTH)
        sum_ = tl.dot(slope, key, sum_, input_precision=PRECISION)
        if BOTH:
            query = _rows(read + head * D, ik, ours, 0, H, D, DEPTH)
            of_key = tl.dot(tl.trans(slope), query, input_precision=PRECISION)
            tl.store(result + H * D + at_result, of_key, mask=inside)
    tl.store(result + at_result, sum_, mask=inside)


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
