"""The mixing on a GPU, as Triton kernels.

Sums are in float32 and in an order that does not change from run to run. Exchanging the ends of a pair exchanges
(query, first) with (key, second), so every kernel serves both ends: ``role`` 0 reads the pairs ``ij`` with one ``i`` in
front, ``role`` 1 with one ``j``.

*All pairs*: scores are matrix products for one third node ``k``, sums of values are matrix products for one ``i`` or
one ``j``. No order of the weights ``[k, i, j]`` in registers suits all three, and turning them around in shared memory
took most of the time; so the weights of some graphs at a time go through device memory, in both orders. They are kept
for the gradient if those of all graphs fit.

*Listed pairs*: the same products in the same kernels. A third node ``k`` meets the nodes it is paired with in the order
of its own row, and every row holds its weights ``[k, j]`` by its own slots; which slot of one row is which of another
is looked up beforehand, once for a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from gln.ops.mix import padded, weights_of_a_head, workspace

TILE = 64  # nodes along each side of what a program computes at once
LIST_TILE = 32  # the same for lists, whose rows have lengths of their own
HIGHEST = tl.constexpr(80.0)  # higher scores count as this, so that no sum of exponentials overflows


def mix_all(read: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The arguments of these five are those of the operators in :mod:`gln.ops.mix`, contiguous.

    The weights that are returned are those of the last heads; of all, if they fit into memory at once.
    """
    nodes = read.shape[1]
    out = torch.empty(*mask.shape, *read.shape[4:], dtype=read.dtype, device=read.device)
    total = torch.empty(*mask.shape, read.shape[4], dtype=torch.float32, device=read.device)
    return out, total, _mix(read, mask, EVERYTHING, nodes, nodes, out, total)


def mix_all_backward(
    read: Tensor, mask: Tensor, kept: Tensor, total: Tensor, delta: Tensor, grad: Tensor
) -> Tensor:
    """``kept`` are the weights of all heads, or empty if they did not fit into memory at once."""
    nodes = read.shape[1]
    return _mix_backward(read, mask, EVERYTHING, nodes, nodes, kept, total, delta, grad)


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
    pairs = own[1] - own[0]
    out = torch.zeros(pairs, *read.shape[2:], dtype=read.dtype, device=read.device)
    total = torch.zeros(pairs, read.shape[2], dtype=torch.float32, device=read.device)
    listed = Listed(start, target, back, place, (rows[0], rows[1]), (own[0], pairs))
    return out, total, _mix(read, None, listed, len(start) - 1, place.shape[1], out, total)


def mix_listed_backward(
    read: Tensor, start: Tensor, target: Tensor, back: Tensor, place: Tensor,
    rows: Sequence[int], own: Sequence[int], longest: int,
    kept: Tensor, total: Tensor, delta: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    listed = Listed(start, target, back, place, (rows[0], rows[1]), (own[0], len(total)))
    return _mix_backward(read, None, listed, len(start) - 1, place.shape[1], kept, total, delta, grad)


class Listed(NamedTuple):
    """What kernels know of pairs in a list; of all pairs, nothing."""

    start: Tensor | None = None
    target: Tensor | None = None
    back: Tensor | None = None
    place: Tensor | None = None
    rows: tuple[int, int] = (0, 0)  # that are mixed: first and last
    own: tuple[int, int] = (0, 0)  # their pairs: the first, and how many


EVERYTHING = Listed()


def _mix(
    read: Tensor, mask: Tensor | None, listed: Listed, rows: int, side: int, out: Tensor, total: Tensor
) -> Tensor:
    """Write the results, and return the weights of the last heads."""
    weights = read.new_empty(0)
    for first, count, weights, tiles, sizes in _some_heads(read, rows, side):
        _write_weights(read, mask, listed, weights, first, rows, (rows * tiles * tiles, count), sizes)
        given = (listed.start, listed.back, out, total, weights, first, rows, *listed.own)
        for role in (0, 1):  # the second adds to what the first has written
            _values[(rows * tiles, count)](read, *given, role=role, **sizes)
    return weights


def _mix_backward(
    read: Tensor, mask: Tensor | None, listed: Listed, rows: int, side: int,
    kept: Tensor, total: Tensor, delta: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    result = torch.empty_like(read) if listed is EVERYTHING else torch.zeros_like(read)
    for first, count, slopes, tiles, sizes in _some_heads(read, rows, side):
        weights = kept if len(kept) else slopes
        if not len(kept):
            _write_weights(read, mask, listed, weights, first, rows, (rows * tiles * tiles, count), sizes)
        given = (total, delta, grad, result, weights, slopes, first, rows, *listed.own)
        _value_gradient[(rows * tiles, 2 * count)](read, listed.start, listed.back, *given, **sizes)
        if listed is EVERYTHING:  # more at once
            sizes |= {"T": min(max(triton.next_power_of_2(side), 16), 2 * TILE), "num_warps": 4}
        tiles = triton.cdiv(side, sizes["T"])
        both = tiles == 1
        _score_gradient[(rows * tiles, count if both else 2 * count)](
            read, *listed[:4], result, slopes, first, rows, BOTH=both, **sizes
        )
    return result


def _write_weights(
    read: Tensor, mask: Tensor | None, listed: Listed, weights: Tensor, first: int, rows: int,
    grid: tuple[int, int], sizes: dict[str, Any],
) -> None:  # fmt: skip
    if listed is not EVERYTHING:  # where there are no third nodes, none is written
        weights.zero_()
    _weights[grid](read, mask, *listed[:4], weights, first, rows, *listed.rows, **sizes)


def _some_heads(read: Tensor, rows: int, side: int) -> Iterator[tuple[int, int, Tensor, int, dict[str, Any]]]:
    """First and number of some heads of graphs, memory for their weights, tiles along a side, sizes of a program.

    A head has ``rows`` squares of weights with this ``side``, twice.
    """
    heads, width = read.shape[-2:]
    listed = read.dim() == 4
    every = heads if listed else heads * len(read)  # lists have one graph
    tile = min(max(triton.next_power_of_2(side), 16), LIST_TILE if listed else TILE)
    # Float32 products are as exact as torch is set to.
    exact = torch.get_float32_matmul_precision() == "highest"
    one = weights_of_a_head(rows, side)
    sizes: dict[str, Any] = {"H": heads, "D": width, "DEPTH": max(16, width), "T": tile}
    sizes |= {
        "LISTED": listed,
        "EIGHTS": padded(side) // 8,
        "PRECISION": "ieee" if exact else "tf32",
    }
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
def _begin(row, start, nodes, LISTED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where the pairs of a row begin, and how many they are."""
    if LISTED:
        begin = tl.load(start + row)
        count = tl.load(start + row + 1) - begin
    else:
        begin, count = row * nodes, nodes
    return begin, count


@triton.jit
def _third(start, target, back, k, slot, nodes, LISTED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of slots of a row ``k``: the pairs ``ki``, which are real, ``i``, where ``ik`` is, and its slot in row ``i``."""
    begin, count = _begin(k, start, nodes, LISTED)
    real = slot < count
    if LISTED:
        node = tl.load(target + begin + slot, mask=real, other=0)
        reverse = tl.load(back + begin + slot, mask=real, other=0)
        its_slot = reverse - tl.load(start + node, mask=real, other=0)
    else:
        node, reverse, its_slot = slot, slot * nodes + k, k.to(tl.int64)
    return begin + slot, real, node, reverse, its_slot


@triton.jit
def _between(place, mine, real, slot, theirs, ROW, LISTED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of pairs ``ki`` and slots of ``j`` in the row of ``k``: the slots of ``j`` in the rows of ``i``, if any."""
    if LISTED:
        both = real[:, None] & theirs[None, :]
        at = tl.load(place + mine[:, None] * ROW + slot[None, :], mask=both, other=-1)
        found = at >= 0
    else:
        at, found = slot[None, :], real[:, None] & (slot < ROW)[None, :]  # the padding of a row too
    return at, found


@triton.jit
def _answer(  # type: ignore[no-untyped-def]
    back, begin, other, count, one, nodes, first_pair, pairs, role, LISTED: tl.constexpr
):
    """Where the results of pairs ``ij`` are, or of ``ji`` with the roles exchanged, and whether they are asked for."""
    answer, asked = begin + other, other < count
    if LISTED:
        if role == 1:
            answer = tl.load(back + answer, mask=asked, other=0)
        answer -= first_pair
        asked = asked & (answer >= 0) & (answer < pairs)
    elif role == 1:
        answer = other * nodes + one
    return answer, asked


@triton.jit
def _row_and_tile(ROW, T):  # type: ignore[no-untyped-def]
    """Of this program. The tiles of a row are computed one after another, while its weights are near."""
    tiles = (ROW + T - 1) // T
    return tl.program_id(0) // tiles, tl.program_id(0) % tiles


@triton.jit
def _head(first, number, nodes, H: tl.constexpr, LISTED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Which head, and how many pairs are in the graphs before its own."""
    head = first + number
    if LISTED:
        before = head * 0
    else:
        head, before = head % H, head // H * nodes * nodes
    return head, before


@triton.jit
def _steps(rows, ROW, LISTED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of weights: from a row to the next, from a third node to the next, and from a head to the next."""
    all_rows = rows * ROW
    head = all_rows.to(tl.int64) * (ROW if LISTED else rows)
    return (ROW * ROW, ROW, head) if LISTED else (ROW, all_rows, head)


@triton.jit
def _rows(read, pair, inside, part, H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr):  # type: ignore[no-untyped-def]
    """One part of a row of pairs: ``[T, DEPTH]``, 0 where not inside."""
    d = tl.arange(0, DEPTH)[None, :]
    real = inside[:, None] & (d < D) if D < DEPTH else inside[:, None]
    return tl.load(read + (pair * (4 * H * D) + part * (H * D))[:, None] + d, mask=real, other=0.0)


@triton.jit(do_not_specialize=["first", "rows", "first_row", "last_row"])
def _weights(  # type: ignore[no-untyped-def]
    read, mask, start, target, back, place, weights, first, rows, first_row, last_row,
    LISTED: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, EIGHTS,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """``exp`` of the scores of one third node ``k``, 0 where it is not shared: ``[i, k, j]``, and ``[j, k, i]``."""
    ROW = 8 * EIGHTS  # so that eight weights are loaded at once
    tiles, number = (ROW + T - 1) // T, tl.program_id(1).to(tl.int64)
    k, tile = tl.program_id(0) // (tiles * tiles), tl.program_id(0) % (tiles * tiles)
    one = tile // tiles * T + tl.arange(0, T)
    other = tile % tiles * T + tl.arange(0, T)
    head, before = _head(first, number, rows, H, LISTED)
    ki, ours, i, ik, slot_in_i = _third(start, target, back, k, one, rows, LISTED)
    kj, theirs, j, jk, slot_in_j = _third(start, target, back, k, other, rows, LISTED)
    if LISTED and (tl.sum(ours.to(tl.int32)) == 0) | (tl.sum(theirs.to(tl.int32)) == 0):
        return
    read += before * (4 * H * D) + head * D
    query = _rows(read, ik, ours, 0, H, D, DEPTH)
    key = _rows(read, jk, theirs, 1, H, D, DEPTH)
    score = tl.dot(query, tl.trans(key), input_precision=PRECISION)
    weight = tl.exp(tl.minimum(score, HIGHEST))
    if LISTED:
        ours = ours & (i >= first_row) & (i < last_row)
    else:
        mask += before
        of_one = tl.load(mask + ki, mask=ours, other=0) != 0  # symmetric
        of_other = tl.load(mask + kj, mask=theirs, other=0) != 0
        weight = tl.where(of_one[:, None] & of_other[None, :], weight, 0.0)
    weight = weight.to(query.dtype)
    of_row, of_third, of_head = _steps(rows, ROW, LISTED)
    weights += 2 * number * of_head
    at, found = _between(place, ki, ours, other, theirs, ROW, LISTED)
    tl.store(weights + (i * of_row + slot_in_i * of_third)[:, None] + at, weight, mask=found)
    weights += of_head
    at, found = _between(place, kj, theirs, one, ours, ROW, LISTED)
    tl.store(weights + (j * of_row + slot_in_j * of_third)[:, None] + at, tl.trans(weight), mask=found)


@triton.jit(do_not_specialize=["first", "rows", "first_pair", "pairs"])
def _values(  # type: ignore[no-untyped-def]
    read, start, back, out, total, weights, first, rows, first_pair, pairs,
    role: tl.constexpr, LISTED: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr,
    T: tl.constexpr, EIGHTS, PRECISION: tl.constexpr,
):  # fmt: skip
    """The weighted mean over third nodes of what the pairs with one node in front hold."""
    ROW = 8 * EIGHTS  # so that eight weights are loaded at once
    one, tile = _row_and_tile(ROW, T)
    other, number = tile * T + tl.arange(0, T), tl.program_id(1).to(tl.int64)
    begin, count = _begin(one, start, rows, LISTED)
    if tile * T >= count:
        return
    head, before = _head(first, number, rows, H, LISTED)
    of_row, of_third, of_head = _steps(rows, ROW, LISTED)
    weights += (2 * number + role) * of_head + one.to(tl.int64) * of_row
    read += (before + begin) * (4 * H * D) + (2 + role) * (H * D) + head * D
    # Sums have a column more, of ones: that of the weights. An extra slot of score 0 and value 0 takes part.
    d = tl.arange(0, 2 * DEPTH)
    sums = tl.zeros([2 * DEPTH, T], dtype=tl.float32)
    for begin_k in range(0, count, T):
        k = begin_k + tl.arange(0, T)
        inside = (k < count)[:, None] & (other < ROW)[None, :]
        at = tl.arange(0, T)[:, None] * of_third + other[None, :]
        here = weights + tl.cast(begin_k, tl.int64) * of_third
        weight = tl.load(here + at, mask=inside, other=0.0)  # [k, other]
        at = (k * (4 * H * D))[None, :] + d[:, None]
        value = tl.load(read + at, mask=(k < count)[None, :] & (d < D)[:, None], other=0.0)  # [d, k]
        value = tl.where((d == D)[:, None], 1.0, value.to(tl.float32)).to(weight.dtype)
        sums = tl.dot(value, weight, sums, input_precision=PRECISION)
    norm = 1 + tl.sum(tl.where((d == D)[:, None], sums, 0.0), axis=0)
    mixed = sums / norm[None, :]
    answer, asked = _answer(back, begin, other, count, one, rows, first_pair, pairs, role, LISTED)
    at = (before + answer) * H + head
    inside = asked[None, :] & (d < D)[:, None]
    if role:
        mixed += tl.load(out + at[None, :] * D + d[:, None], mask=inside, other=0.0).to(tl.float32)
    else:
        tl.store(total + at, tl.log(norm), mask=asked)
    tl.store(out + at[None, :] * D + d[:, None], mixed, mask=inside)


@triton.jit(do_not_specialize=["first", "rows", "first_pair", "pairs"])
def _value_gradient(  # type: ignore[no-untyped-def]
    read, start, back, total, delta, grad, result, weights, slopes, first, rows, first_pair, pairs,
    LISTED: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, EIGHTS,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of first or second, and for each weight its part of the gradient of the score."""
    ROW = 8 * EIGHTS  # so that eight weights are loaded at once
    one, tile = _row_and_tile(ROW, T)
    k, number = tile * T + tl.arange(0, T), tl.program_id(1).to(tl.int64)
    begin, count = _begin(one, start, rows, LISTED)
    if tile * T >= count:
        return
    role = number % 2
    head, before = _head(first, number // 2, rows, H, LISTED)
    of_row, of_third, of_head = _steps(rows, ROW, LISTED)
    skipped = number * of_head + one.to(tl.int64) * of_row + tl.cast(tile * T, tl.int64) * of_third
    read += before * (4 * H * D) + head * D
    result += before * (4 * H * D) + head * D
    grad += before * (H * D) + head * D
    total += before * H + head
    delta += before * H + head
    d = tl.arange(0, DEPTH)[None, :]
    value = _rows(read, begin + k, k < count, 2 + role, H, D, DEPTH)
    sum_ = tl.zeros([T, DEPTH], dtype=tl.float32)
    for begin_other in range(0, count, T):
        other = begin_other + tl.arange(0, T)
        answer, asked = _answer(back, begin, other, count, one, rows, first_pair, pairs, role, LISTED)
        at = answer * H
        wanted = tl.load(grad + at[:, None] * D + d, mask=asked[:, None] & (d < D), other=0.0).to(value.dtype)
        inside = (k < count)[:, None] & (other < ROW)[None, :]
        at_weights = tl.arange(0, T)[:, None] * of_third + other[None, :]
        weight = tl.load(weights + skipped + at_weights, mask=inside, other=0.0).to(tl.float32)  # [k, other]
        weight *= tl.exp(-tl.load(total + at, mask=asked, other=0.0))[None, :]
        slope = tl.dot(value, tl.trans(wanted), input_precision=PRECISION)
        slope -= role * tl.load(delta + at, mask=asked, other=0.0)[None, :]  # only once
        tl.store(slopes + skipped + at_weights, weight * slope, mask=inside)
        sum_ = tl.dot(weight.to(value.dtype), wanted, sum_, input_precision=PRECISION)
    at = (begin + k) * (4 * H * D) + (2 + role) * (H * D)
    tl.store(result + at[:, None] + d, sum_, mask=(k < count)[:, None] & (d < D))


@triton.jit(do_not_specialize=["first", "rows"])
def _score_gradient(  # type: ignore[no-untyped-def]
    read, start, target, back, place, result, slopes, first, rows,
    BOTH: tl.constexpr,  # one tile has the whole row, so that one program serves both roles
    LISTED: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DEPTH: tl.constexpr, T: tl.constexpr, EIGHTS,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of query or key, for one third node ``k``."""
    ROW = 8 * EIGHTS  # so that eight weights are loaded at once
    k, tile = _row_and_tile(ROW, T)
    one, number = tile * T + tl.arange(0, T), tl.program_id(1).to(tl.int64) * (2 if BOTH else 1)
    _, count = _begin(k, start, rows, LISTED)
    if tile * T >= count:
        return
    role = number % 2
    head, before = _head(first, number // 2, rows, H, LISTED)
    of_row, of_third, of_head = _steps(rows, ROW, LISTED)
    ki, ours, i, ik, slot_in_i = _third(start, target, back, k, one, rows, LISTED)
    mine = slopes + number * of_head
    theirs = slopes + (number + 1 - 2 * role) * of_head
    read += before * (4 * H * D) + head * D
    result += before * (4 * H * D) + head * D
    d = tl.arange(0, DEPTH)[None, :]
    at_result = (ik * (4 * H * D) + role * (H * D))[:, None] + d
    inside = ours[:, None] & (d < D)
    sum_ = tl.zeros([T, DEPTH], dtype=tl.float32)
    for begin_other in range(0, count, T):
        other = begin_other + tl.arange(0, T)
        kj, real, j, jk, slot_in_j = _third(start, target, back, k, other, rows, LISTED)
        at, found = _between(place, ki, ours, other, real, ROW, LISTED)
        slope = tl.load(mine + (i * of_row + slot_in_i * of_third)[:, None] + at, mask=found, other=0.0)
        at, found = _between(place, kj, real, one, ours, ROW, LISTED)
        turned = tl.load(theirs + (j * of_row + slot_in_j * of_third)[:, None] + at, mask=found, other=0.0)
        slope = (slope.to(tl.float32) + tl.trans(turned).to(tl.float32)).to(slope.dtype)
        key = _rows(read, jk, real, 1 - role, H, D, DEPTH)
        sum_ = tl.dot(slope, key, sum_, input_precision=PRECISION)
        if BOTH:
            query = _rows(read, ik, ours, 0, H, D, DEPTH)
            of_key = tl.dot(tl.trans(slope), query, input_precision=PRECISION)
            tl.store(result + H * D + at_result, of_key, mask=inside)
    tl.store(result + at_result, sum_, mask=inside)
