"""The loops of :mod:`gln.models.mixing_cpu` for the sparse form, compiled by numba.

A call processes the rows ``begin : end`` of the concatenated graphs and writes only to them. For each pair it visits
only the third nodes that both ends share. Exchanging the ends of a pair exchanges (query, first) with (key, second), so
one loop computes both halves of the gradient.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from gln.compiling import Kernel, compiled, exp, soften
from gln.vectors import add_scaled, add_scaled_sum, dot, dot_sum


class SparseLoops(NamedTuple):
    """The mixing and its gradient."""

    forward: Kernel
    backward: Kernel


@cache
def sparse_loops(heads: int, width: int) -> SparseLoops:
    """The loops, compiled for this number of heads and this head width."""
    channels = heads * width
    states = 4 * channels  # query, key, first and second of a pair

    def forward(begin, end, nodes, read, pair, target, out, total):  # type: ignore[no-untyped-def]
        """``read`` ``[B · N, K, 4, h · d]``; ``out`` ``[B · N, K, h · d]`` and ``total`` ``[B · N, K, h]``.

        ``pair``, ``target`` ``[B · N, K]``: whether a slot holds a pair, and with which node of the same graph.
        """
        slots = read.shape[1]
        number = read.dtype.type
        zero, one = number(0), number(1)
        place = np.full(nodes, -1, np.int64)  # the slot of node k in the row of i
        ours, theirs = np.empty(slots + 1, np.int64), np.empty(slots + 1, np.int64)  # where ik and jk begin
        weight = np.empty(slots * heads, read.dtype)  # [third node, head]
        most, norm = np.empty(heads, read.dtype), np.empty(heads, read.dtype)
        value = np.empty(channels, read.dtype)
        flat = read.reshape(-1)
        for i in range(begin, end):
            for a in range(slots):
                if pair[i, a]:
                    place[target[i, a]] = a
            for a in range(slots):
                if not pair[i, a]:
                    continue
                j, count = i // nodes * nodes + target[i, a], 0
                for t in range(slots):
                    s = place[target[j, t]]
                    ours[count], theirs[count] = (i * slots + s) * states, (j * slots + t) * states
                    count += pair[j, t] and s >= 0
                most[:] = zero  # an extra slot of score 0 and value 0 takes part
                for c in range(count):
                    query, key = ours[c], theirs[c] + channels
                    for h in range(heads):
                        score = dot(flat, query + h * width, flat, key + h * width, width)
                        weight[c * heads + h] = score
                        most[h] = max(most[h], score)
                soften(weight, most, norm, count)
                value[:] = zero
                for c in range(count):
                    first, second = ours[c] + 2 * channels, theirs[c] + 3 * channels
                    for h in range(heads):
                        share, here = weight[c * heads + h], h * width
                        norm[h] += share
                        add_scaled_sum(value, here, share, flat, first + here, flat, second + here, width)
                for h in range(heads):
                    total[i, a, h] = most[h] + math.log(norm[h])
                    share = one / norm[h]
                    for d in range(h * width, h * width + width):
                        out[i, a, d] = value[d] * share
            for a in range(slots):
                if pair[i, a]:
                    place[target[i, a]] = -1

    def backward(  # type: ignore[no-untyped-def]
        begin, end, nodes, mine, read, pair, target, back, total, delta, grad, result
    ):
        """As ``forward``, with ``delta`` like ``total``, ``grad`` like ``out`` and ``result`` like ``read``.

        ``mine``: 0 for the gradients of query and first, 1 for those of key and second. ``back`` ``[B · N, K]``: the
        slot of ``i`` in the row of ``j``.
        """
        slots = read.shape[1]
        zero = read.dtype.type(0)
        place = np.full(nodes, -1, np.int64)  # the slot of node k in the row of i
        ours, theirs = np.empty(slots + 1, np.int64), np.empty(slots + 1, np.int64)  # where ik and jk begin
        weight = np.empty(slots * heads, read.dtype)  # [third node, head]
        pull = np.empty(slots * heads, read.dtype)  # the gradient of its score
        flat, wanted, found = read.reshape(-1), grad.reshape(-1), result.reshape(-1)
        # Which of ours meets which of theirs; the order is query, key, first, second.
        score_ours, score_theirs = mine * channels, (1 - mine) * channels
        value_ours, value_theirs = (2 + mine) * channels, (3 - mine) * channels
        for i in range(begin, end):
            for a in range(slots):
                result[i, a, mine], result[i, a, 2 + mine] = zero, zero
                if pair[i, a]:
                    place[target[i, a]] = a
            for a in range(slots):
                if not pair[i, a]:
                    continue
                j, count = i // nodes * nodes + target[i, a], 0
                for t in range(slots):
                    s = place[target[j, t]]
                    ours[count], theirs[count] = (i * slots + s) * states, (j * slots + t) * states
                    count += pair[j, t] and s >= 0
                row, slot = (j, back[i, a]) if mine else (i, a)  # where the pair's result is
                answer = (row * slots + slot) * channels
                for c in range(count):
                    one, two = ours[c] + score_ours, theirs[c] + score_theirs
                    first, second = ours[c] + value_ours, theirs[c] + value_theirs
                    for h in range(heads):
                        here = h * width
                        score = dot(flat, one + here, flat, two + here, width)
                        value = dot_sum(wanted, answer + here, flat, first + here, flat, second + here, width)
                        weight[c * heads + h] = score - total[row, slot, h]
                        pull[c * heads + h] = value - delta[row, slot, h]
                for c in range(count * heads):
                    weight[c] = exp(weight[c])
                    pull[c] *= weight[c]
                for c in range(count):
                    one, two, first = ours[c] + score_ours, theirs[c] + score_theirs, ours[c] + value_ours
                    for h in range(heads):
                        share, part, here = weight[c * heads + h], pull[c * heads + h], h * width
                        add_scaled(found, one + here, part, flat, two + here, width)
                        add_scaled(found, first + here, share, wanted, answer + here, width)
            for a in range(slots):
                if pair[i, a]:
                    place[target[i, a]] = -1

    return SparseLoops(compiled(forward), compiled(backward))
