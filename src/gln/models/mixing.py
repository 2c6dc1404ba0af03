"""The mixing over third nodes for a flat list of pairs: only the third nodes that both ends share are looked at.

On a CPU with numba, one loop over rows that holds nothing but its result. Elsewhere the padded form of
:class:`gln.models.pairs.SparsePairs`, which on a GPU is one kernel.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor

from gln.compiling import Kernel, can_compile, compiled, exp, spread
from gln.models.flat import Neighbourhood, slots
from gln.models.pairs import SparsePairs


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
    mask[row, slot] = True  # only the block's own rows are answered
    pairs = SparsePairs(index[None], torch.zeros_like(index)[None], mask[None])
    mixed, total = pairs.mix(read[None])
    return mixed[0, row, slot], total[0, row, slot]


def _mix_compiled(near: Neighbourhood, ours: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor]:
    precise = torch.promote_types(ours.dtype, torch.float32)  # numba knows no half precision
    mixed = ours.new_empty(len(ours), *ours.shape[2:], dtype=precise)
    total = mixed.new_empty(mixed.shape[:2])
    read = [values.to(precise).flatten(2) for values in (ours, theirs)]
    arrays = [
        values.contiguous().numpy() for values in (near.start, near.target, *read, mixed.flatten(1), total)
    ]
    kernel = compiled_kernel(*ours.shape[2:])
    spread(kernel, near.rows.start, near.rows.stop, near.own.start, *arrays)
    return mixed.to(ours.dtype), total.to(ours.dtype)


@cache
def compiled_kernel(heads: int, width: int) -> Kernel:
    """The loop for so many heads of such a width, which are known to the compiler."""

    def kernel(begin, end, shift, start, target, ours, theirs, mixed, total):  # type: ignore[no-untyped-def]
        nodes = len(start) - 1
        place = np.full(nodes, -1, np.int64)  # where node k stands among the pairs of i
        longest = 0
        for i in range(nodes):
            longest = max(longest, start[i + 1] - start[i])
        ik, jk = np.empty(longest, np.int64), np.empty(longest, np.int64)
        weight = np.empty((heads, longest), ours.dtype)
        value = np.empty(heads * width, ours.dtype)
        zero = value.dtype.type(0)
        for i in range(begin, end):
            for p in range(start[i], start[i + 1]):
                place[target[p]] = p - shift
            for p in range(start[i], start[i + 1]):
                j, count = target[p], 0
                for q in range(start[j], start[j + 1]):
                    at = place[target[q]]
                    ik[count], jk[count] = at, q
                    count += at >= 0
                for c in range(count):
                    a, b = ik[c], jk[c]
                    for h in range(heads):
                        dot = zero
                        for d in range(h * width, h * width + width):
                            dot += ours[a, 0, d] * theirs[b, 0, d]
                        weight[h, c] = dot
                for h in range(heads):
                    most = zero  # one slot of score 0 and value 0 stands beside the others
                    for c in range(count):
                        most = max(most, weight[h, c])
                    norm = exp(-most)
                    for c in range(count):
                        share = exp(weight[h, c] - most)
                        weight[h, c] = share
                        norm += share
                    total[p - shift, h] = most + math.log(norm)
                    for c in range(count):
                        weight[h, c] /= norm
                value[:] = 0
                for c in range(count):
                    a, b = ik[c], jk[c]
                    for h in range(heads):
                        share = weight[h, c]
                        for d in range(h * width, h * width + width):
                            value[d] += share * (ours[a, 1, d] + theirs[b, 1, d])
                mixed[p - shift] = value
            for p in range(start[i], start[i + 1]):
                place[target[p]] = -1

    return compiled(kernel)
