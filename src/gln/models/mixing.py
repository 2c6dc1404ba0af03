"""Mixing over third nodes for a flat list of pairs; only the third nodes that both ends share are visited.

On a CPU with numba this is one loop over rows that stores nothing but its result. Elsewhere it is the padded form of
:class:`gln.models.pairs.SparsePairs`, which on a GPU is one kernel.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor

from gln.compiling import Kernel, can_compile, compiled, soften, spread
from gln.models.flat import Neighbourhood, slots
from gln.models.pairs import SparsePairs
from gln.vectors import add_scaled_sum, dot


def mix_flat(near: Neighbourhood, ours: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
    """For every pair ``ij`` of a block: ``Σ_k a_ijk (first_ik + second_jk)`` with ``a = softmax_k(query_ik · key_jk)``.

    Args:
        near: the block and its surroundings.
        ours: query and first of the block's own pairs, ``[m, 2, h, d]``.
        theirs: key and second of all pairs in ``near``, ``[p, 2, h, d]``.

    Returns:
        The mixed values ``[m, h, d]`` and the log-normaliser ``[m, h]``, as :meth:`gln.models.pairs.DensePairs.mix`.
    """
    if ours.is_cpu and can_compile():
        return _mix_compiled(near, ours, theirs)
    return _mix_padded(near, ours, theirs)


def _mix_padded(near: Neighbourhood, ours: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
    row, slot, width = slots(near.start)
    nodes = len(near.start) - 1
    index = row.new_full((nodes, width), nodes)
    index[row, slot] = near.target
    read = theirs.new_zeros(nodes, width, 4, *theirs.shape[2:])
    read[row, slot, 1::2] = theirs
    row, slot = row[near.own], slot[near.own]
    read[row, slot, 0::2] = ours
    mask = torch.zeros_like(index, dtype=torch.bool)
    mask[row, slot] = True  # results are needed for the block's own rows only
    pairs = SparsePairs(index[None], torch.zeros_like(index)[None], mask[None])
    mixed, total = pairs.mix(read[None])
    return mixed[0, row, slot], total[0, row, slot]


def _mix_compiled(near: Neighbourhood, ours: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
    precise = torch.promote_types(ours.dtype, torch.float32)  # numba has no half precision
    mixed = ours.new_empty(len(ours), *ours.shape[2:], dtype=precise)
    total = mixed.new_empty(mixed.shape[:2])
    read = [values.to(precise).flatten(2) for values in (ours, theirs)]
    arrays = [
        values.contiguous().numpy() for values in (near.start, near.target, *read, mixed.flatten(1), total)
    ]
    heads, width = ours.shape[2:]
    channels = heads * width
    layout = (2 * channels, channels, 0, channels)
    kernel = compiled_kernel(heads, width)
    spread(kernel, near.rows.start, near.rows.stop, near.own.start, layout, *arrays)
    return mixed.to(ours.dtype), total.to(ours.dtype)


@cache
def compiled_kernel(heads: int, width: int) -> Kernel:
    """The loop, compiled for this number of heads and this head width."""
    channels = heads * width

    def kernel(begin, end, shift, layout, start, target, ours, theirs, mixed, total):  # type: ignore[no-untyped-def]
        """Mix the rows ``begin : end``; ``ours`` begins with pair ``shift``.

        ``layout``: how many numbers a pair has in ``ours`` and ``theirs``, and the offsets of first, key and second
        among them; the query is at 0.
        """
        stride, at_first, at_key, at_second = layout
        nodes = len(start) - 1
        place = np.full(nodes, -1, np.int64)  # position of node k among the pairs of i
        longest = 0
        for i in range(nodes):
            longest = max(longest, start[i + 1] - start[i])
        ik, jk = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)  # where ik and jk begin
        weight = np.empty(longest * heads, ours.dtype)  # [third node, head]
        most, norm = np.empty(heads, ours.dtype), np.empty(heads, ours.dtype)
        value = np.empty(channels, ours.dtype)
        zero, one = value.dtype.type(0), value.dtype.type(1)
        own, other = ours.reshape(-1), theirs.reshape(-1)
        for i in range(begin, end):
            for p in range(start[i], start[i + 1]):
                place[target[p]] = p - shift
            for p in range(start[i], start[i + 1]):
                j, count = target[p], 0
                for q in range(start[j], start[j + 1]):
                    at = place[target[q]]
                    ik[count], jk[count] = stride * at, stride * q
                    count += at >= 0
                most[:] = zero  # an extra slot of score 0 and value 0 takes part
                for c in range(count):
                    query, key = ik[c], jk[c] + at_key
                    for h in range(heads):
                        score = dot(own, query + h * width, other, key + h * width, width)
                        weight[c * heads + h] = score
                        most[h] = max(most[h], score)
                soften(weight, most, norm, count)
                value[:] = zero
                for c in range(count):
                    first, second = ik[c] + at_first, jk[c] + at_second
                    for h in range(heads):
                        share, here = weight[c * heads + h], h * width
                        norm[h] += share
                        add_scaled_sum(value, here, share, own, first + here, other, second + here, width)
                for h in range(heads):
                    total[p - shift, h] = most[h] + math.log(norm[h])
                    share = one / norm[h]
                    for d in range(h * width, h * width + width):
                        mixed[p - shift, d] = value[d] * share
            for p in range(start[i], start[i + 1]):
                place[target[p]] = -1

    return compiled(kernel)
