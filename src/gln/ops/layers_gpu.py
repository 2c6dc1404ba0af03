"""Linear layers with what stands before them on a GPU, as Triton kernels over rows.

Sums are in float32 and in an order that does not change from run to run: of the gradients of weights, every program
sums those of its own rows, and the sums of all programs are added at the end.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 64  # that a program has in registers at once
COLUMNS = 64  # of a layer's results, likewise
PROGRAMS = 4  # per multiprocessor, where every program serves many rows

# What a layer reads: sources, targets, a, slope, shift and ends, of which some may be empty.
Read = tuple[Tensor, ...]


def linear(
    way: str, e: Tensor, read: Read, nodes: int, w: Tensor, b: Tensor, eps: float, kind: torch.dtype
) -> Tensor:
    """The arguments of these two are those of the operators in :mod:`gln.ops.layers`, contiguous."""
    rows = len(read[0] if way == "normed" else e)
    out = torch.empty(rows, len(w), dtype=kind if way == "normed" else e.dtype, device=w.device)
    if rows:
        _linear[_tiles(rows)](e, *read, nodes, w, b, out, rows, eps, **_sizes(way, nodes, w, kind))
    return out


def linear_backward(
    way: str, read: Read, start: Tensor, back: Tensor, nodes: int,
    w: Tensor, eps: float, kind: torch.dtype, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    sources, targets, a, _, _, ends = read
    rows, at_ends = len(grad), way == "ends"
    make = torch.empty_like if rows else torch.zeros_like
    of_sources, of_targets, of_a = make(sources), make(targets), make(a)
    of_z = torch.empty(rows, w.shape[1], dtype=kind, device=w.device) if at_ends else of_sources
    sums, grid = _sums(rows, w, 2 * w.shape[1] if at_ends else 0)
    if rows:
        sizes = _sizes(way, nodes, w, kind)
        _linear_rows[_tiles(rows)](*read, nodes, w, grad, of_z, of_a, rows, eps, **sizes)
        _linear_weights[grid](*read, nodes, grad, of_z, sums, rows, eps, **sizes)
        if at_ends:
            given = (sources, targets, of_z, of_sources, of_targets, ends, start, back, rows, nodes)
            listed = {"LISTED": not nodes}
            _linear_nodes[(len(sources), 2)](*given, C=w.shape[1], R=ROWS, **listed, num_warps=4)
    return of_sources, of_targets, of_a, sums.sum(0)


def _tiles(rows: int) -> tuple[int]:
    return (triton.cdiv(rows, ROWS),)


def _sizes(way: str, nodes: int, w: Tensor, kind: torch.dtype) -> dict[str, Any]:
    """Of a layer with weights ``w [O, C]``: ``P`` outputs at once, products of this kind."""
    kinds = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}
    at_once = min(max(16, triton.next_power_of_2(len(w))), COLUMNS)
    sizes = {"O": len(w), "C": w.shape[1], "P": at_once, "R": ROWS, "KIND": kinds[kind]}
    return sizes | {"WAY": way, "LISTED": not nodes, "num_warps": 4}


def _sums(rows: int, w: Tensor, more: int) -> tuple[Tensor, tuple[int, int]]:
    """Memory for what every program sums, weights ``[O, C]``, biases ``[O]`` and ``more``; and the grid of programs."""
    processors = torch.cuda.get_device_properties(w.device).multi_processor_count if w.is_cuda else 1
    slices = triton.cdiv(len(w), COLUMNS)
    programs = min(triton.cdiv(max(rows, 1), ROWS), triton.cdiv(PROGRAMS * processors, slices))
    make = torch.empty if rows else torch.zeros
    size = len(w) * (w.shape[1] + 1) + more
    return make(programs, size, dtype=torch.float32, device=w.device), (programs, slices)


@triton.jit
def _rows(values, row, rows, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """``[R, C]``, 0 past the last row."""
    return tl.load(values + row[:, None] * C + tl.arange(0, C), mask=(row < rows)[:, None], other=0.0)


@triton.jit
def _some(values, row, rows, column, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """Some columns of rows, ``[R, P]``, 0 where there are none."""
    real = (row < rows)[:, None] & (column < C)[None, :]
    return tl.load(values + row[:, None] * C + column, mask=real, other=0.0)


@triton.jit
def _gelu(z):  # type: ignore[no-untyped-def]
    """The function and its slope; the error function by 7.1.26 of Abramowitz and Stegun, to 1.5e-7."""
    bell = tl.exp(-0.5 * z * z)
    t = 1 / (1 + 0.23164189 * tl.abs(z))
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    below = 0.5 * tail * bell
    below = tl.where(z > 0, 1 - below, below)
    return z * below, below + 0.3989422804 * z * bell


@triton.jit
def _product(a, b, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.dot(a.to(KIND), b.to(KIND), input_precision="ieee")


@triton.jit
def _ends(pair, real, ends, pairs, nodes, LISTED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Source and target of pairs: in a list, or of all pairs of ``nodes`` nodes in every graph."""
    if LISTED:
        source = tl.load(ends + pair, mask=real, other=0)
        target = tl.load(ends + pairs + pair, mask=real, other=0)
    else:
        source = pair // nodes
        target = source // nodes * nodes + pair % nodes
    return source, target


@triton.jit
def _read(  # type: ignore[no-untyped-def]
    sources, targets, a, slope, shift, ends, nodes, row, rows, eps,
    WAY: tl.constexpr, LISTED: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """What the layer reads of rows: normed and not yet scaled, or after the GELU, ``[R, C]``.

    Then the factor of the norm or the slope of the GELU, and the pair's entry in the structure if it reads its ends.
    """
    real, c = row < rows, tl.arange(0, C)
    entry = row
    if WAY == "ends":  # the sum and the product of what both ends contribute, and the entry
        source, target = _ends(row, real, ends, rows, nodes, LISTED)
        source = source[:, None] * (2 * C) + c
        target = target[:, None] * (2 * C) + c
        z = tl.load(sources + source, mask=real[:, None], other=0.0).to(tl.float32)
        z += tl.load(targets + target, mask=real[:, None], other=0.0).to(tl.float32)
        factor = tl.load(sources + source + C, mask=real[:, None], other=0.0).to(tl.float32)
        z += factor * tl.load(targets + target + C, mask=real[:, None], other=0.0).to(tl.float32)
        entry = tl.load(a + row, mask=real, other=0.0).to(tl.float32)
        z = z + entry[:, None] * tl.load(slope + c) + tl.load(shift + c)
    else:
        z = _rows(sources, row, rows, C).to(tl.float32)
    if WAY == "normed":  # mean 0 and variance 1
        z -= tl.sum(z, axis=1)[:, None] / C
        steep = tl.rsqrt(tl.sum(z * z, axis=1) / C + eps)[:, None]
        value = z * steep
    else:
        value, steep = _gelu(z)
    return value, steep, entry


@triton.jit(do_not_specialize=["rows"])
def _linear(  # type: ignore[no-untyped-def]
    e, sources, targets, a, slope, shift, ends, nodes, w, b, out, rows, eps, WAY: tl.constexpr, LISTED: tl.constexpr,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    row, c = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64), tl.arange(0, C)
    value, _, _ = _read(sources, targets, a, slope, shift, ends, nodes, row, rows, eps, WAY, LISTED, C)
    if WAY == "normed":
        value = value * tl.load(slope + c) + tl.load(shift + c)
    value = value.to(KIND)
    for first in tl.static_range(0, O, P):
        o = first + tl.arange(0, P)
        turned = tl.load(w + o[None, :] * C + c[:, None], mask=o[None, :] < O, other=0.0)  # [C, P]
        found = _product(value, turned, KIND) + tl.load(b + o, mask=o < O, other=0.0)[None, :]
        if WAY != "normed":
            found += _some(e, row, rows, o, O).to(tl.float32)
        tl.store(out + row[:, None] * O + o, found, mask=(row < rows)[:, None] & (o < O)[None, :])


@triton.jit(do_not_specialize=["rows"])
def _linear_rows(  # type: ignore[no-untyped-def]
    sources, targets, a, slope, shift, ends, nodes, w, grad, of_z, of_a, rows, eps,
    WAY: tl.constexpr, LISTED: tl.constexpr,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """The gradient of what the layer reads, before the GELU or the norm."""
    row, c = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64), tl.arange(0, C)
    found = tl.zeros([R, C], dtype=tl.float32)
    for first in tl.static_range(0, O, P):
        o = first + tl.arange(0, P)
        weight = tl.load(w + o[:, None] * C + c, mask=o[:, None] < O, other=0.0)
        found += _product(_some(grad, row, rows, o, O), weight, KIND)
    value, steep, _ = _read(sources, targets, a, slope, shift, ends, nodes, row, rows, eps, WAY, LISTED, C)
    if WAY == "normed":
        found *= tl.load(slope + c)
        mean, along = tl.sum(found, axis=1)[:, None] / C, tl.sum(found * value, axis=1)[:, None] / C
        found = found - mean - value * along
    found *= steep
    tl.store(of_z + row[:, None] * C + c, found, mask=(row < rows)[:, None])
    if WAY == "ends":
        tl.store(of_a + row, tl.sum(found * tl.load(slope + c), axis=1), mask=row < rows)


@triton.jit(do_not_specialize=["rows"])
def _linear_weights(  # type: ignore[no-untyped-def]
    sources, targets, a, slope, shift, ends, nodes, grad, of_z, sums, rows, eps,
    WAY: tl.constexpr, LISTED: tl.constexpr,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Of weights, where there is a norm of those that read rows neither scaled nor shifted; of biases and the rest."""
    o, c = tl.program_id(1) * P + tl.arange(0, P), tl.arange(0, C)
    of_weight, of_bias = tl.zeros([P, C], dtype=tl.float32), tl.zeros([P], dtype=tl.float32)
    of_slope, of_shift = tl.zeros([C], dtype=tl.float32), tl.zeros([C], dtype=tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, R), tl.num_programs(0)):
        row = (tile * R + tl.arange(0, R)).to(tl.int64)
        wanted = _some(grad, row, rows, o, O)
        value, _, entry = _read(
            sources, targets, a, slope, shift, ends, nodes, row, rows, eps, WAY, LISTED, C
        )
        of_weight += _product(tl.trans(wanted.to(KIND)), value, KIND)
        of_bias += tl.sum(wanted.to(tl.float32), axis=0)
        if WAY == "ends":
            pull = _rows(of_z, row, rows, C).to(tl.float32)
            of_slope += tl.sum(pull * entry[:, None], axis=0)
            of_shift += tl.sum(pull, axis=0)
    more: tl.constexpr = 2 * C if WAY == "ends" else 0
    sums += tl.program_id(0) * (O * C + O + more)
    tl.store(sums + o[:, None] * C + c, of_weight, mask=o[:, None] < O)
    tl.store(sums + O * C + o, of_bias, mask=o < O)
    if WAY == "ends" and tl.program_id(1) == 0:
        tl.store(sums + O * C + O + c, of_slope)
        tl.store(sums + O * C + O + C + c, of_shift)


@triton.jit
def _linear_nodes(  # type: ignore[no-untyped-def]
    sources, targets, of_z, of_sources, of_targets, ends, start, back, pairs, nodes, LISTED: tl.constexpr,
    C: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """What all pairs of one node pull at it, as their source or as their target."""
    node, side, c = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, C)
    if LISTED:
        begin, end = tl.load(start + node), tl.load(start + node + 1)
    else:
        begin, end = node * nodes, node * nodes + nodes
    plain, scaled = tl.zeros([C], dtype=tl.float32), tl.zeros([C], dtype=tl.float32)
    for first in range(begin, end, R):
        pair = first + tl.arange(0, R)
        real = pair < end
        _, other = _ends(pair, real, ends, pairs, nodes, LISTED)
        reverse = other * nodes + node % nodes
        if LISTED:
            reverse = tl.load(back + pair, mask=real, other=0)
        pull = tl.load(
            of_z + tl.where(side == 0, pair, reverse)[:, None] * C + c, mask=real[:, None], other=0.0
        )
        pull = pull.to(tl.float32)
        at = other[:, None] * (2 * C) + C + c
        if side == 0:
            factor = tl.load(targets + at, mask=real[:, None], other=0.0).to(tl.float32)
        else:
            factor = tl.load(sources + at, mask=real[:, None], other=0.0).to(tl.float32)
        plain += tl.sum(pull, axis=0)
        scaled += tl.sum(pull * factor, axis=0)
    at = node * (2 * C) + c
    if side == 0:
        tl.store(of_sources + at, plain)
        tl.store(of_sources + at + C, scaled)
    else:
        tl.store(of_targets + at, plain)
        tl.store(of_targets + at + C, scaled)
