"""The loops of :mod:`gln.models.mixing_cpu` for the dense form, compiled by numba.

A call processes the items ``begin : end``. An item is one head of one graph; the graphs vary fastest, so that every
thread gets graphs of all sizes. Within an item, the pairs ``jk`` of a node ``k`` are contiguous, and all ``j`` are
processed at once with vector instructions. Nodes without pairs, such as padding, are left out.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from gln.compiling import Kernel, compiled, exp
from gln.models.mixing_operator import NEVER

LANES = 16  # numbers in the widest vector registers
ROWS = 4  # of a graph at once, to go through memory less often


class DenseLoops(NamedTuple):
    """The mixing and its gradient."""

    forward: Kernel
    backward: Kernel


@cache
def dense_loops(width: int) -> DenseLoops:
    """The loops, compiled for this head width."""

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

    return DenseLoops(compiled(forward), compiled(backward))
