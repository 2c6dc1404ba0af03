"""The mixing on a CPU: loops that numba compiles, for each number of heads and head width.

Only results are stored; for the gradient, weights are computed again. Every sum is added up by one thread in a fixed
order, so the number of threads changes nothing.

*All pairs*: a call processes the items ``begin : end``. An item is one head of one graph; the graphs vary fastest, so
that every thread gets graphs of all sizes. Within an item, the pairs ``jk`` of a node ``k`` are contiguous, and all
``j`` are processed at once with vector instructions. Nodes without pairs, such as padding, are left out.

*Listed pairs*: a call processes the rows ``begin : end`` and writes only to their pairs; for each pair it visits only
the third nodes that both ends share. Exchanging the ends of a pair exchanges (query, first) with (key, second), so one
loop computes both halves of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gln.ops.loops import Kernel, compiled, spread
from gln.ops.mix import NEVER, padded
from gln.ops.vectors import add_scaled, dot, exp

LANES = 8  # numbers in a vector register: rows are padded to a multiple of it
ROWS = 4  # of a graph at once, to go through memory less often


def mix_all(read: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The arguments of these five are those of the operators in :mod:`gln.ops.mix`, contiguous. No weight is kept."""
    count, _, _, _, heads, width = read.shape
    mixed, total = read.new_zeros(*mask.shape, heads, width), read.new_zeros(*mask.shape, heads)
    arrays = [values.numpy() for values in (*_real_nodes(mask), read, mask, mixed, total)]
    spread(all_loops(width).forward, 0, count * heads, *arrays)
    return mixed, total, read.new_empty(0)


def mix_all_backward(
    read: Tensor, mask: Tensor, kept: Tensor, total: Tensor, delta: Tensor, grad: Tensor
) -> Tensor:
    count, _, _, _, heads, width = read.shape
    result = torch.zeros_like(read)
    given = (*_real_nodes(mask), read, mask, total, delta, grad, result)
    spread(all_loops(width).backward, 0, count * heads, *(values.numpy() for values in given))
    return result


def _real_nodes(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The nodes of every graph, those with pairs first, ``[B, N]``, and how many have pairs, ``[B]``."""
    real = mask.any(-1)
    return real.sort(dim=1, descending=True, stable=True).indices, real.sum(1)


def look_up(start: Tensor, target: Tensor, back: Tensor, longest: int) -> Tensor:
    return target.new_empty(0, padded(longest), dtype=torch.int16)


def mix_listed(
    read: Tensor, start: Tensor, target: Tensor, back: Tensor, place: Tensor,
    rows: Sequence[int], own: Sequence[int], longest: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    heads, width = read.shape[2:]
    mixed = read.new_zeros(own[1] - own[0], heads, width)
    total = read.new_zeros(own[1] - own[0], heads)
    arrays = [values.numpy() for values in (start, target, read.view(-1), mixed.flatten(1), total)]
    spread(listed_loops(heads, width).forward, *rows, own[0], longest, *arrays)
    return mixed, total, read.new_empty(0)


def mix_listed_backward(
    read: Tensor, start: Tensor, target: Tensor, back: Tensor, place: Tensor,
    rows: Sequence[int], own: Sequence[int], longest: int,
    kept: Tensor, total: Tensor, delta: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    heads, width = read.shape[2:]
    result = torch.zeros_like(read)
    given = (start, target, back, read.view(-1), total, delta, grad.view(-1), result.view(-1))
    arrays = [values.numpy() for values in given]
    for mine in (0, 1):
        spread(listed_loops(heads, width).backward, 0, len(start) - 1, mine, own[0], longest, *arrays)
    return result


class Loops(NamedTuple):
    """The mixing and its gradient."""

    forward: Kernel
    backward: Kernel


@cache
def listed_loops(heads: int, width: int) -> Loops:
    channels = heads * width
    states = 4 * channels  # query, key, first and second of a pair

    def forward(begin, end, shift, longest, start, target, read, mixed, total):  # type: ignore[no-untyped-def]
        """``read`` ``[p · 4 · h · d]``; ``mixed`` ``[m, h · d]`` and ``total`` ``[m, h]`` begin with pair ``shift``."""
        zero, one = read.dtype.type(0), read.dtype.type(1)
        place = np.full(len(start) - 1, -1, np.int64)  # position of ik for every node k
        ik, jk = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)  # where they begin
        weight = np.empty(longest * heads, read.dtype)  # [third node, head]
        most, norm = np.empty(heads, read.dtype), np.empty(heads, read.dtype)
        value = np.empty(channels, read.dtype)
        for i in range(begin, end):
            for p in range(start[i], start[i + 1]):
                place[target[p]] = p
            for p in range(start[i], start[i + 1]):
                j, count = target[p], 0
                for q in range(start[j], start[j + 1]):
                    at = place[target[q]]
                    ik[count], jk[count] = states * at, states * q
                    count += at >= 0
                most[:] = zero  # an extra slot of score 0 and value 0 takes part
                for c in range(count):
                    query, key = ik[c], jk[c] + channels
                    for h in range(heads):
                        score = dot(read, query + h * width, read, key + h * width, width)
                        weight[c * heads + h] = score
                        most[h] = max(most[h], score)
                for c in range(count):
                    for h in range(heads):
                        weight[c * heads + h] -= most[h]
                for c in range(count * heads):
                    weight[c] = exp(weight[c])
                for h in range(heads):
                    norm[h] = exp(-most[h])
                value[:] = zero
                for c in range(count):
                    first, second = ik[c] + 2 * channels, jk[c] + 3 * channels
                    for h in range(heads):
                        share, here = weight[c * heads + h], h * width
                        norm[h] += share
                        add_scaled(value, here, share, read, first + here, width)
                        add_scaled(value, here, share, read, second + here, width)
                for h in range(heads):
                    total[p - shift, h] = most[h] + math.log(norm[h])
                    share = one / norm[h]
                    for d in range(h * width, h * width + width):
                        mixed[p - shift, d] = value[d] * share
            for p in range(start[i], start[i + 1]):
                place[target[p]] = -1

    def backward(  # type: ignore[no-untyped-def]
        begin, end, mine, shift, longest, start, target, back, read, total, delta, grad, result
    ):
        """``mine``: 0 for the gradients of query and first, 1 for those of key and second.

        ``back`` ``[p]``: the position of ``j → i`` for every pair ``i → j``. ``delta`` like ``total``; ``grad`` and
        ``result`` like ``mixed`` and ``read``, as one stretch; ``result`` starts at zero.
        """
        place = np.full(len(start) - 1, -1, np.int64)
        ik, jk = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
        weight = np.empty(longest * heads, read.dtype)  # [third node, head]
        pull = np.empty(longest * heads, read.dtype)  # the gradient of its score
        # Which of ours meets which of theirs; the order is query, key, first, second.
        score_ours, score_theirs = mine * channels, (1 - mine) * channels
        value_ours, value_theirs = (2 + mine) * channels, (3 - mine) * channels
        for i in range(begin, end):
            for p in range(start[i], start[i + 1]):
                place[target[p]] = p
            for p in range(start[i], start[i + 1]):
                answer = (back[p] if mine else p) - shift  # where the pair's result is
                if answer < 0 or answer >= len(total):
                    continue
                j, count = target[p], 0
                for q in range(start[j], start[j + 1]):
                    at = place[target[q]]
                    ik[count], jk[count] = states * at, states * q
                    count += at >= 0
                wanted = answer * channels
                for c in range(count):
                    one, two = ik[c] + score_ours, jk[c] + score_theirs
                    first, second = ik[c] + value_ours, jk[c] + value_theirs
                    for h in range(heads):
                        here = h * width
                        score = dot(read, one + here, read, two + here, width)
                        value = dot(grad, wanted + here, read, first + here, width)
                        value += dot(grad, wanted + here, read, second + here, width)
                        weight[c * heads + h] = score - total[answer, h]
                        pull[c * heads + h] = value - delta[answer, h]
                for c in range(count * heads):
                    weight[c] = exp(weight[c])
                    pull[c] *= weight[c]
                for c in range(count):
                    one, two, first = ik[c] + score_ours, jk[c] + score_theirs, ik[c] + value_ours
                    for h in range(heads):
                        share, part, here = weight[c * heads + h], pull[c * heads + h], h * width
                        add_scaled(result, one + here, part, read, two + here, width)
                        add_scaled(result, first + here, share, grad, wanted + here, width)
            for p in range(start[i], start[i + 1]):
                place[target[p]] = -1

    return Loops(compiled(forward), compiled(backward))


@cache
def all_loops(width: int) -> Loops:
    def forward(begin, end, nodes, counts, read, pair, out, total):  # type: ignore[no-untyped-def]
        """``read`` ``[B, N, N, 4, h, d]``; ``out`` ``[B, N, N, h, d]`` and ``total`` ``[B, N, N, h]``.

        ``pair`` ``[B, N, N]``: which entries are pairs. ``nodes`` ``[B, N]``: those with pairs first; ``counts``
        ``[B]``: how many those are.
        """
        graphs = len(counts)
        number = read.dtype.type
        zero, never = number(0), number(NEVER)
        for item in range(begin, end):
            b, h = item % graphs, item // graphs
            real, count = nodes[b], counts[b]
            lanes = (count + LANES - 1) // LANES * LANES
            even = count + count % 2
            # For jk, at [k, d, j].
            bar = np.full((count, lanes), never, read.dtype)  # 0 on pairs
            key = np.zeros((count, width, lanes), read.dtype)
            second = np.zeros((even, width, lanes), read.dtype)
            for some in range(0, lanes, LANES):  # few j at a time, so that all stays in the cache
                for k in range(count):
                    for j in range(some, min(some + LANES, count)):
                        if pair[b, real[j], real[k]]:
                            bar[k, j] = zero
                            its = read[b, real[j], real[k], :, h]
                            for d in range(width):
                                key[k, d, j], second[k, d, j] = its[1, d], its[3, d]
            # For a few i, which go through the k together.
            ours = np.zeros((ROWS, even), np.bool_)
            first = np.zeros((ROWS, even, width), read.dtype)
            score = np.zeros((ROWS, even, lanes), read.dtype)
            most, norm = np.empty((2, ROWS, lanes), read.dtype)
            value = np.empty((ROWS, width, lanes), read.dtype)
            for some in range(0, count, ROWS):
                rows = min(ROWS, count - some)
                most[:], value[:] = zero, zero  # an extra slot of score 0 and value 0 takes part
                for k in range(count):
                    for r in range(rows):
                        i = real[some + r]
                        ours[r, k] = pair[b, i, real[k]]
                        if ours[r, k]:
                            its = read[b, i, real[k], :, h]
                            first[r, k] = its[2]
                            for j in range(lanes):
                                dot = bar[k, j]
                                for d in range(width):
                                    dot += its[0, d] * key[k, d, j]
                                score[r, k, j] = dot
                            for j in range(lanes):
                                most[r, j] = max(most[r, j], score[r, k, j])
                        else:
                            first[r, k], score[r, k] = zero, zero
                for r in range(rows):
                    for j in range(lanes):
                        norm[r, j] = exp(-most[r, j])
                    for k in range(count):
                        if ours[r, k]:
                            for j in range(lanes):
                                score[r, k, j] = exp(score[r, k, j] - most[r, j])
                            for j in range(lanes):
                                norm[r, j] += score[r, k, j]
                for k in range(0, count, 2):  # two at once, to go through memory half as often
                    for r in range(rows):
                        if ours[r, k] or ours[r, k + 1]:
                            for d in range(width):
                                f, g = first[r, k, d], first[r, k + 1, d]
                                for j in range(lanes):
                                    one = score[r, k, j] * (f + second[k, d, j])
                                    other = score[r, k + 1, j] * (g + second[k + 1, d, j])
                                    value[r, d, j] += one + other
                for r in range(rows):
                    i = real[some + r]
                    for j in range(count):
                        if ours[r, j]:  # now as a pair ij
                            total[b, i, real[j], h] = most[r, j] + math.log(norm[r, j])
                            share, mixed = number(1) / norm[r, j], out[b, i, real[j], h]
                            for d in range(width):
                                mixed[d] = value[r, d, j] * share

    def backward(begin, end, nodes, counts, read, pair, total, delta, grad, result):  # type: ignore[no-untyped-def]
        """As ``forward``, with ``delta`` like ``total``, ``grad`` like ``out`` and ``result`` like ``read``."""
        graphs = len(counts)
        number = read.dtype.type
        zero, never = number(0), number(NEVER)
        near = np.empty(nodes.shape[1] + ROWS, np.int64)
        for item in range(begin, end):
            b, h = item % graphs, item // graphs
            real, count = nodes[b], counts[b]
            lanes = (count + LANES - 1) // LANES * LANES
            # For ij: −total and −delta at [i, j], the gradient of the mixed values at [i, d, j]. The last row
            # belongs to no node and contributes nothing.
            less = np.full((count + 1, lanes), never, read.dtype)
            back = np.zeros((count + 1, lanes), read.dtype)
            wanted = np.zeros((count + 1, width, lanes), read.dtype)
            # For ik and jk, one k at a time; again the last row belongs to no node.
            query, first = np.empty((2, count + 1, width), read.dtype)
            to_query, to_first = np.empty((2, count + 1, width), read.dtype)
            bar = np.empty(lanes, read.dtype)
            key, second = np.empty((2, width, lanes), read.dtype)
            to_key, to_second = np.empty((2, width, lanes), read.dtype)
            # For ijk, a few i at a time.
            weight = np.empty((ROWS, lanes), read.dtype)
            pull = np.empty((ROWS, lanes), read.dtype)  # the gradient of the score
            for i in range(count):
                for j in range(count):
                    if pair[b, real[i], real[j]]:
                        less[i, j] = -total[b, real[i], real[j], h]
                        back[i, j] = -delta[b, real[i], real[j], h]
                        its = grad[b, real[i], real[j]]
                        for d in range(width):
                            wanted[i, d, j] = its[h, d]
            for k in real[:count]:
                key[:], second[:], to_key[:], to_second[:], bar[:] = zero, zero, zero, zero, never
                query[count], first[count] = zero, zero
                third = 0
                for j in range(count):
                    near[third] = j
                    if pair[b, real[j], k]:
                        third += 1
                        bar[j] = zero
                        its = read[b, real[j], k, :, h]
                        for d in range(width):
                            query[j, d], first[j, d] = its[0, d], its[2, d]
                            key[d, j], second[d, j] = its[1, d], its[3, d]
                near[third : third + ROWS] = count
                for some in range(0, third, ROWS):  # several i at once, to go through memory less often
                    for r in range(ROWS):
                        i = near[some + r]
                        q, f, w = query[i], first[i], wanted[i]
                        for j in range(lanes):
                            dot = zero
                            for d in range(width):
                                dot += q[d] * key[d, j]
                            weight[r, j] = exp(dot + (bar[j] + less[i, j]))
                        for j in range(lanes):
                            value = back[i, j]
                            for d in range(width):
                                value += (f[d] + second[d, j]) * w[d, j]
                            pull[r, j] = weight[r, j] * value
                    i0, i1, i2, i3 = near[some], near[some + 1], near[some + 2], near[some + 3]
                    w0, w1, w2, w3 = wanted[i0], wanted[i1], wanted[i2], wanted[i3]
                    for d in range(width):
                        q0, q1, q2, q3 = query[i0, d], query[i1, d], query[i2, d], query[i3, d]
                        s0, s1, s2, s3 = zero, zero, zero, zero
                        for j in range(lanes):
                            s0 += pull[0, j] * key[d, j]
                            s1 += pull[1, j] * key[d, j]
                            s2 += pull[2, j] * key[d, j]
                            s3 += pull[3, j] * key[d, j]
                            p0, p1 = pull[0, j] * q0, pull[1, j] * q1
                            p2, p3 = pull[2, j] * q2, pull[3, j] * q3
                            to_key[d, j] += (p0 + p1) + (p2 + p3)
                        to_query[i0, d], to_query[i1, d], to_query[i2, d], to_query[i3, d] = s0, s1, s2, s3
                    for d in range(width):
                        s0, s1, s2, s3 = zero, zero, zero, zero
                        for j in range(lanes):
                            p0, p1 = weight[0, j] * w0[d, j], weight[1, j] * w1[d, j]
                            p2, p3 = weight[2, j] * w2[d, j], weight[3, j] * w3[d, j]
                            s0 += p0
                            s1 += p1
                            s2 += p2
                            s3 += p3
                            to_second[d, j] += (p0 + p1) + (p2 + p3)
                        to_first[i0, d], to_first[i1, d], to_first[i2, d], to_first[i3, d] = s0, s1, s2, s3
                for j in near[:third]:
                    its = result[b, real[j], k, :, h]
                    for d in range(width):
                        its[0, d], its[2, d] = to_query[j, d], to_first[j, d]
                        its[1, d], its[3, d] = to_key[d, j], to_second[d, j]

    return Loops(compiled(forward), compiled(backward))
