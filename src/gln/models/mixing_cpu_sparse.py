"""The loops of :mod:`gln.models.mixing_cpu` for the sparse form, compiled by numba.

A call takes the rows ``begin : end`` of all graphs, one after another, and writes only to them. Of the slots of a row
it looks at those whose nodes both ends of a pair share. Exchanging the ends of a pair exchanges (query, first) with
(key, second), so one loop serves both halves of the gradient.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from gln.compiling import Kernel, compiled, exp


class SparseLoops(NamedTuple):
    """The mixing and its gradient."""

    forward: Kernel
    backward: Kernel


@cache
def sparse_loops(heads: int, width: int) -> SparseLoops:
    """The loops for so many heads of such a width, which are known to the compiler."""
    channels = heads * width

    def forward(begin, end, nodes, read, pair, target, out, total):  # type: ignore[no-untyped-def]
        """``read`` ``[B · N, K, 4, h · d]``; ``out`` ``[B · N, K, h · d]`` and ``total`` ``[B · N, K, h]``.

        ``pair``, ``target`` ``[B · N, K]``: is there a pair, and with which node of the same graph.
        """
        slots = read.shape[1]
        number = read.dtype.type
        zero, one = number(0), number(1)
        place = np.full(nodes, -1, np.int64)  # the slot of node k in the row of i
        ours, theirs = np.empty(slots + 1, np.int64), np.empty(slots + 1, np.int64)  # where ik and jk stand
        weight = np.empty(slots * heads, read.dtype)  # [third node, head]
        most, norm = np.empty(heads, read.dtype), np.empty(heads, read.dtype)
        value = np.empty(channels, read.dtype)
        for i in range(begin, end):
            for a in range(slots):
                if pair[i, a]:
                    place[target[i, a]] = a
            for a in range(slots):
                if not pair[i, a]:
                    continue
                j, count = i // nodes * nodes + target[i, a], 0
                for t in range(slots):
                    ours[count], theirs[count] = place[target[j, t]], t
                    count += pair[j, t] and place[target[j, t]] >= 0
                most[:] = zero  # one slot of score 0 and value 0 stands beside the others
                for c in range(count):
                    s, t = ours[c], theirs[c]
                    for h in range(heads):
                        dot = zero
                        for d in range(width):
                            dot += read[i, s, 0, h * width + d] * read[j, t, 1, h * width + d]
                        weight[c * heads + h] = dot
                        most[h] = max(most[h], dot)
                for c in range(count):
                    for h in range(heads):
                        weight[c * heads + h] -= most[h]
                for c in range(count * heads):
                    weight[c] = exp(weight[c])
                for h in range(heads):
                    norm[h] = exp(-most[h])
                value[:] = zero
                for c in range(count):
                    s, t = ours[c], theirs[c]
                    for h in range(heads):
                        share = weight[c * heads + h]
                        norm[h] += share
                        for d in range(h * width, h * width + width):
                            value[d] += share * (read[i, s, 2, d] + read[j, t, 3, d])
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
        ours, theirs = np.empty(slots + 1, np.int64), np.empty(slots + 1, np.int64)  # where ik and jk stand
        weight = np.empty(slots * heads, read.dtype)  # [third node, head]
        pull = np.empty(slots * heads, read.dtype)  # the gradient of its score
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
                    ours[count], theirs[count] = place[target[j, t]], t
                    count += pair[j, t] and place[target[j, t]] >= 0
                row, slot = (j, back[i, a]) if mine else (i, a)  # where the pair's answer stands
                wanted = grad[row, slot]
                for c in range(count):
                    s, t = ours[c], theirs[c]
                    for h in range(heads):
                        dot, value = zero, zero
                        for d in range(h * width, h * width + width):
                            dot += read[i, s, mine, d] * read[j, t, 1 - mine, d]
                        for d in range(h * width, h * width + width):
                            value += (read[i, s, 2 + mine, d] + read[j, t, 3 - mine, d]) * wanted[d]
                        dot -= total[row, slot, h]
                        value -= delta[row, slot, h]
                        weight[c * heads + h] = dot
                        pull[c * heads + h] = value
                for c in range(count * heads):
                    weight[c] = exp(weight[c])
                    pull[c] *= weight[c]
                for c in range(count):
                    s, t = ours[c], theirs[c]
                    for h in range(heads):
                        share, part = weight[c * heads + h], pull[c * heads + h]
                        for d in range(h * width, h * width + width):
                            result[i, s, mine, d] += part * read[j, t, 1 - mine, d]
                        for d in range(h * width, h * width + width):
                            result[i, s, 2 + mine, d] += share * wanted[d]
            for a in range(slots):
                if pair[i, a]:
                    place[target[i, a]] = -1

    return SparseLoops(compiled(forward), compiled(backward))
