"""The loops of :mod:`gln.models.small`, compiled by numba; each processes the range ``begin : end``.

They are written so that the compiler can use vector instructions: long inner loops over contiguous numbers.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from gln.compiling import Kernel, compiled, exp
from gln.models.mixing_operator import NEVER

EPS = 1e-5  # torch's default for LayerNorm


class Kernels(NamedTuple):
    """The loops for one kind of model."""

    normalise: Kernel
    listen: Kernel
    join: Kernel
    mix: Kernel


@cache
def kernels(heads: int, width: int) -> Kernels:
    """The loops, compiled for this number of heads and this head width."""
    return Kernels(compiled(normalise), compiled(listen), compiled(join), compiled(mixing(heads, width)))


def normalise(begin, end, states, shift, out):  # type: ignore[no-untyped-def]
    """Add ``shift`` ``[c]`` to the states ``[m, c]`` in place; ``out`` is each of them with mean 0 and variance 1."""
    channels = states.shape[1]
    number = states.dtype.type
    zero, share = number(0), number(1 / channels)
    for p in range(begin, end):
        total = zero
        for d in range(channels):
            value = states[p, d] + shift[d]
            states[p, d] = value
            total += value
        mean = total * share
        square = zero
        for d in range(channels):
            value = states[p, d] - mean
            square += value * value
        scale = number(1) / np.sqrt(square * share + number(EPS))
        for d in range(channels):
            out[p, d] = (states[p, d] - mean) * scale


def listen(begin, end, start, target, values, root, gate, a, out):  # type: ignore[no-untyped-def]
    """What nodes ``begin : end`` receive of ``values`` ``[n, d]`` through gates ``[m, k]``, as in ``Listen.hear``."""
    channels, heads = values.shape[1], gate.shape[1]
    width = channels // heads
    one = values.dtype.type(1)
    for i in range(begin, end):
        own = root[i] * root[i]
        for d in range(channels):
            out[i, d] = own * values[i, d]
        for p in range(start[i], start[i + 1]):
            j = target[p]
            tau = a[p] * root[i] * root[j]
            tau += tau
            for h in range(heads):
                weight = tau / (one + math.exp(-gate[p, h]))
                for d in range(h * width, h * width + width):
                    out[i, d] += weight * values[j, d]


def join(begin, end, start, target, sources, targets, structure, a, out):  # type: ignore[no-untyped-def]
    """What the pairs of the nodes ``begin : end`` read at both ends, as in ``Ends.join`` before GELU: ``[m, c]``."""
    channels = out.shape[1]
    for i in range(begin, end):
        for p in range(start[i], start[i + 1]):
            j, seen = target[p], a[p]
            for d in range(channels):
                out[p, d] = (
                    sources[i, d]
                    + targets[j, d]
                    + sources[i, channels + d] * targets[j, channels + d]
                    + seen * structure[d]
                )


def mixing(heads: int, width: int) -> Kernel:
    """Mixing over third nodes in sets so small that all pairs ``jk`` of a node ``k`` can lie side by side.

    For one head and one node ``i``, all ``j`` of the set are processed at once, one ``k`` after another.
    """
    channels = heads * width

    def mix(begin, end, bounds, start, target, back, read, out):  # type: ignore[no-untyped-def]
        """Mix the sets ``begin : end``; the nodes of set ``s`` are ``bounds[s] : bounds[s + 1]``.

        ``back`` ``[m]``: the position of ``j → i`` for every pair ``i → j``. ``read`` ``[m, 4 · c]``: query, key, first
        and second. ``out`` ``[m, c + h]``: mixed and log-normaliser.
        """
        number = read.dtype.type
        zero, never = number(0), number(NEVER)
        most_nodes = 0
        for s in range(begin, end):
            most_nodes = max(most_nodes, bounds[s + 1] - bounds[s])
        lanes = (most_nodes + 15) // 16 * 16
        key = np.empty((lanes, width, lanes), read.dtype)  # key_jk at [k, d, j]
        second = np.empty((lanes, width, lanes), read.dtype)
        bar = np.empty((lanes, lanes), read.dtype)  # 0 at [k, j] on pairs
        score = np.empty((lanes, lanes), read.dtype)  # [place of k among the pairs of i, j]
        most, norm = np.empty(lanes, read.dtype), np.empty(lanes, read.dtype)
        value = np.empty((width, lanes), read.dtype)
        for s in range(begin, end):
            shift, last = bounds[s], bounds[s + 1]
            key[:], second[:], bar[:] = zero, zero, never
            for k in range(shift, last):
                for p in range(start[k], start[k + 1]):
                    bar[k - shift, target[p] - shift] = zero
            for h in range(heads):
                at = h * width
                for k in range(shift, last):  # one k after another, so that what is written stays near
                    for p in range(start[k], start[k + 1]):
                        j, other = target[p] - shift, back[p]
                        for d in range(width):
                            key[k - shift, d, j] = read[other, channels + at + d]
                            second[k - shift, d, j] = read[other, 3 * channels + at + d]
                for i in range(shift, last):
                    first, count = start[i], start[i + 1] - start[i]
                    most[:] = zero  # one slot of score 0 and value 0 stands beside the others
                    for c in range(count):
                        k = target[first + c] - shift
                        for j in range(lanes):
                            dot = bar[k, j]
                            for d in range(width):
                                dot += read[first + c, at + d] * key[k, d, j]
                            score[c, j] = dot
                        for j in range(lanes):
                            most[j] = max(most[j], score[c, j])
                    for j in range(lanes):
                        norm[j] = exp(-most[j])
                    for c in range(count):
                        for j in range(lanes):
                            score[c, j] = exp(score[c, j] - most[j])
                        for j in range(lanes):
                            norm[j] += score[c, j]
                    value[:] = zero
                    for c in range(0, count - 1, 2):  # two at once, to go through memory half as often
                        k, l = target[first + c] - shift, target[first + c + 1] - shift
                        for d in range(width):
                            one = read[first + c, 2 * channels + at + d]
                            two = read[first + c + 1, 2 * channels + at + d]
                            for j in range(lanes):
                                value[d, j] += score[c, j] * (one + second[k, d, j]) + score[c + 1, j] * (
                                    two + second[l, d, j]
                                )
                    if count % 2:
                        c = count - 1
                        k = target[first + c] - shift
                        for d in range(width):
                            one = read[first + c, 2 * channels + at + d]
                            for j in range(lanes):
                                value[d, j] += score[c, j] * (one + second[k, d, j])
                    for p in range(first, first + count):
                        j = target[p] - shift
                        out[p, channels + h] = most[j] + math.log(norm[j])
                        share = number(1) / norm[j]
                        for d in range(width):
                            out[p, at + d] = value[d, j] * share

    return mix
