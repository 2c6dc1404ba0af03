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


def normed_linear(
    e: Tensor, scale: Tensor, shift: Tensor, w: Tensor, b: Tensor, eps: float, kind: torch.dtype
) -> Tensor:
    """The arguments of these eight are those of the operators in :mod:`gln.ops.layers`, contiguous."""
    out = torch.empty(len(e), len(w), dtype=kind, device=e.device)
    if len(e):
        _normed_linear[_tiles(e)](e, scale, shift, w, b, out, len(e), eps, **_sizes(e, w, kind))
    return out


def normed_linear_rows(e: Tensor, scale: Tensor, w: Tensor, eps: float, grad: Tensor) -> Tensor:
    result = torch.empty_like(e)
    if len(e):
        _normed_linear_rows[_tiles(e)](e, scale, w, grad, result, len(e), eps, **_sizes(e, w, grad.dtype))
    return result


def normed_linear_weights(e: Tensor, eps: float, grad: Tensor) -> Tensor:
    sums, grid = _sums(e, grad)
    if len(e):
        _normed_linear_weights[grid](e, grad, sums, len(e), eps, **_sizes(e, grad.mT, grad.dtype))
    return sums.sum(0)


def gelu_linear(e: Tensor, z: Tensor, w: Tensor, b: Tensor, kind: torch.dtype) -> Tensor:
    out = torch.empty_like(e)
    if len(e):
        _gelu_linear[_tiles(e)](e, z, w, b, out, len(e), **_sizes(z, w, kind))
    return out


def gelu_linear_rows(z: Tensor, w: Tensor, kind: torch.dtype, grad: Tensor) -> Tensor:
    result = torch.empty_like(z)
    if len(z):
        _gelu_linear_rows[_tiles(z)](z, w, grad, result, len(z), **_sizes(z, w, kind))
    return result


def gelu_linear_weights(z: Tensor, kind: torch.dtype, grad: Tensor) -> Tensor:
    sums, grid = _sums(z, grad)
    if len(z):
        _gelu_linear_weights[grid](z, grad, sums, len(z), **_sizes(z, grad.mT, kind))
    return sums.sum(0)


def ends_linear(
    e: Tensor, sources: Tensor, targets: Tensor, a: Tensor, slope: Tensor, shift: Tensor, w: Tensor, b: Tensor,
    ends: Tensor, nodes: int, kind: torch.dtype,
) -> Tensor:  # fmt: skip
    out = torch.empty_like(e)
    if len(e):
        read = (sources, targets, a, slope, shift, ends, nodes)
        _ends_linear[_tiles(e)](e, *read, w, b, out, len(e), LISTED=not nodes, **_sizes(e, w, kind))
    return out


def ends_linear_backward(
    sources: Tensor, targets: Tensor, a: Tensor, slope: Tensor, shift: Tensor, w: Tensor,
    ends: Tensor, start: Tensor, back: Tensor, nodes: int, kind: torch.dtype, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Of sources, targets and ``a``; then all sums: of weights ``[O, C]``, biases ``[O]``, slope and shift ``[C]``."""
    pairs, width = len(grad), w.shape[1]
    of_z = torch.empty(pairs, width, dtype=kind, device=grad.device)
    of_a, of_sources, of_targets = torch.empty_like(a), torch.zeros_like(sources), torch.zeros_like(targets)
    sums, grid = _sums(of_z, grad, 2 * width)
    if pairs:
        read, listed = (sources, targets, a, slope, shift, ends, nodes), {"LISTED": not nodes}
        sizes = _sizes(of_z, w, kind)
        _ends_linear_rows[_tiles(grad)](*read, w, grad, of_z, of_a, pairs, **listed, **sizes)
        _ends_linear_weights[grid](*read, grad, of_z, sums, pairs, **listed, **sizes)
        given = (sources, targets, of_z, of_sources, of_targets, ends, start, back, pairs, nodes)
        _ends_linear_nodes[(len(sources), 2)](*given, C=width, R=ROWS, **listed, num_warps=4)
    return of_sources, of_targets, of_a, sums.sum(0)


def _tiles(rows: Tensor) -> tuple[int]:
    return (triton.cdiv(len(rows), ROWS),)


def _sizes(rows: Tensor, w: Tensor, kind: torch.dtype) -> dict[str, Any]:
    """Of a layer with weights ``w [O, C]``: ``P`` outputs at once, products of this kind."""
    kinds = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}
    at_once = min(max(16, triton.next_power_of_2(len(w))), COLUMNS)
    sizes = {"O": len(w), "C": rows.shape[1], "P": at_once, "R": ROWS, "KIND": kinds[kind]}
    return sizes | {"num_warps": 4}


def _sums(rows: Tensor, grad: Tensor, more: int = 0) -> tuple[Tensor, tuple[int, int]]:
    """Memory for what every program sums, weights ``[O, C]``, biases ``[O]`` and ``more``; and the grid of programs."""
    processors = torch.cuda.get_device_properties(rows.device).multi_processor_count if rows.is_cuda else 1
    outputs = grad.shape[1]
    slices = triton.cdiv(outputs, COLUMNS)
    programs = min(triton.cdiv(max(len(rows), 1), ROWS), triton.cdiv(PROGRAMS * processors, slices))
    make = torch.empty if len(rows) else torch.zeros
    size = outputs * (rows.shape[1] + 1) + more
    return make(programs, size, dtype=torch.float32, device=rows.device), (programs, slices)


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
def _normed(x, eps, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows with mean 0 and variance 1, and the factor that made it 1."""
    x = x.to(tl.float32)
    x -= tl.sum(x, axis=1)[:, None] / C
    factor = tl.rsqrt(tl.sum(x * x, axis=1) / C + eps)
    return x * factor[:, None], factor


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


@triton.jit(do_not_specialize=["rows"])
def _normed_linear(  # type: ignore[no-untyped-def]
    e, scale, shift, w, b, out, rows, eps,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    row, c = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64), tl.arange(0, C)
    normed, _ = _normed(_rows(e, row, rows, C), eps, C)
    normed = (normed * tl.load(scale + c) + tl.load(shift + c)).to(KIND)
    for first in tl.static_range(0, O, P):
        o = first + tl.arange(0, P)
        turned = tl.load(w + o[None, :] * C + c[:, None], mask=o[None, :] < O, other=0.0)  # [C, P]
        found = _product(normed, turned, KIND) + tl.load(b + o, mask=o < O, other=0.0)[None, :]
        tl.store(out + row[:, None] * O + o, found, mask=(row < rows)[:, None] & (o < O)[None, :])


@triton.jit(do_not_specialize=["rows"])
def _normed_linear_rows(  # type: ignore[no-untyped-def]
    e, scale, w, grad, result, rows, eps,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    row, c = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64), tl.arange(0, C)
    slope = tl.zeros([R, C], dtype=tl.float32)
    for first in tl.static_range(0, O, P):
        o = first + tl.arange(0, P)
        weight = tl.load(w + o[:, None] * C + c, mask=o[:, None] < O, other=0.0)
        slope += _product(_some(grad, row, rows, o, O), weight, KIND)
    slope *= tl.load(scale + c)
    normed, factor = _normed(_rows(e, row, rows, C), eps, C)
    mean, along = tl.sum(slope, axis=1)[:, None] / C, tl.sum(slope * normed, axis=1)[:, None] / C
    found = (slope - mean - normed * along) * factor[:, None]
    tl.store(result + row[:, None] * C + c, found, mask=(row < rows)[:, None])


@triton.jit(do_not_specialize=["rows"])
def _normed_linear_weights(  # type: ignore[no-untyped-def]
    e, grad, sums, rows, eps,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Of weights that read rows with mean 0 and variance 1, neither scaled nor shifted."""
    o, c = tl.program_id(1) * P + tl.arange(0, P), tl.arange(0, C)
    of_weight, of_bias = tl.zeros([P, C], dtype=tl.float32), tl.zeros([P], dtype=tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, R), tl.num_programs(0)):
        row = (tile * R + tl.arange(0, R)).to(tl.int64)
        wanted = _some(grad, row, rows, o, O)
        normed, _ = _normed(_rows(e, row, rows, C), eps, C)
        of_weight += _product(tl.trans(wanted), normed, KIND)
        of_bias += tl.sum(wanted.to(tl.float32), axis=0)
    sums += tl.program_id(0) * (O * C + O)
    tl.store(sums + o[:, None] * C + c, of_weight, mask=o[:, None] < O)
    tl.store(sums + O * C + o, of_bias, mask=o < O)


@triton.jit(do_not_specialize=["rows"])
def _gelu_linear(  # type: ignore[no-untyped-def]
    e, z, w, b, out, rows,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    row, c = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64), tl.arange(0, C)
    value, _ = _gelu(_rows(z, row, rows, C).to(tl.float32))
    for first in tl.static_range(0, O, P):
        o = first + tl.arange(0, P)
        turned = tl.load(w + o[None, :] * C + c[:, None], mask=o[None, :] < O, other=0.0)  # [C, P]
        found = _product(value, turned, KIND) + tl.load(b + o, mask=o < O, other=0.0)[None, :]
        found += _some(e, row, rows, o, O).to(tl.float32)
        tl.store(out + row[:, None] * O + o, found, mask=(row < rows)[:, None] & (o < O)[None, :])


@triton.jit(do_not_specialize=["rows"])
def _gelu_linear_rows(  # type: ignore[no-untyped-def]
    z, w, grad, result, rows,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    row, c = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64), tl.arange(0, C)
    slope = tl.zeros([R, C], dtype=tl.float32)
    for first in tl.static_range(0, O, P):
        o = first + tl.arange(0, P)
        weight = tl.load(w + o[:, None] * C + c, mask=o[:, None] < O, other=0.0)
        slope += _product(_some(grad, row, rows, o, O), weight, KIND)
    _, steep = _gelu(_rows(z, row, rows, C).to(tl.float32))
    tl.store(result + row[:, None] * C + c, slope * steep, mask=(row < rows)[:, None])


@triton.jit(do_not_specialize=["rows"])
def _gelu_linear_weights(  # type: ignore[no-untyped-def]
    z, grad, sums, rows,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    o, c = tl.program_id(1) * P + tl.arange(0, P), tl.arange(0, C)
    of_weight, of_bias = tl.zeros([P, C], dtype=tl.float32), tl.zeros([P], dtype=tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, R), tl.num_programs(0)):
        row = (tile * R + tl.arange(0, R)).to(tl.int64)
        wanted = _some(grad, row, rows, o, O)
        value, _ = _gelu(_rows(z, row, rows, C).to(tl.float32))
        of_weight += _product(tl.trans(wanted.to(KIND)), value, KIND)
        of_bias += tl.sum(wanted.to(tl.float32), axis=0)
    sums += tl.program_id(0) * (O * C + O)
    tl.store(sums + o[:, None] * C + c, of_weight, mask=o[:, None] < O)
    tl.store(sums + O * C + o, of_bias, mask=o < O)


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
def _read_ends(  # type: ignore[no-untyped-def]
    sources, targets, a, slope, shift, ends, nodes, row, rows, LISTED: tl.constexpr, C: tl.constexpr
):
    """The sum and the product of what both ends contribute, and the entry in the structure: ``[R, C]``, ``[R]``."""
    real, c = row < rows, tl.arange(0, C)
    source, target = _ends(row, real, ends, rows, nodes, LISTED)
    source = source[:, None] * (2 * C) + c
    target = target[:, None] * (2 * C) + c
    z = tl.load(sources + source, mask=real[:, None], other=0.0).to(tl.float32)
    z += tl.load(targets + target, mask=real[:, None], other=0.0).to(tl.float32)
    factor = tl.load(sources + source + C, mask=real[:, None], other=0.0).to(tl.float32)
    z += factor * tl.load(targets + target + C, mask=real[:, None], other=0.0).to(tl.float32)
    entry = tl.load(a + row, mask=real, other=0.0).to(tl.float32)
    return z + entry[:, None] * tl.load(slope + c) + tl.load(shift + c), entry


@triton.jit(do_not_specialize=["rows"])
def _ends_linear(  # type: ignore[no-untyped-def]
    e, sources, targets, a, slope, shift, ends, nodes, w, b, out, rows, LISTED: tl.constexpr,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    row, c = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64), tl.arange(0, C)
    z, _ = _read_ends(sources, targets, a, slope, shift, ends, nodes, row, rows, LISTED, C)
    value, _ = _gelu(z)
    for first in tl.static_range(0, O, P):
        o = first + tl.arange(0, P)
        turned = tl.load(w + o[None, :] * C + c[:, None], mask=o[None, :] < O, other=0.0)  # [C, P]
        found = _product(value, turned, KIND) + tl.load(b + o, mask=o < O, other=0.0)[None, :]
        found += _some(e, row, rows, o, O).to(tl.float32)
        tl.store(out + row[:, None] * O + o, found, mask=(row < rows)[:, None] & (o < O)[None, :])


@triton.jit(do_not_specialize=["rows"])
def _ends_linear_rows(  # type: ignore[no-untyped-def]
    sources, targets, a, slope, shift, ends, nodes, w, grad, of_z, of_a, rows, LISTED: tl.constexpr,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    row, c = (tl.program_id(0) * R + tl.arange(0, R)).to(tl.int64), tl.arange(0, C)
    found = tl.zeros([R, C], dtype=tl.float32)
    for first in tl.static_range(0, O, P):
        o = first + tl.arange(0, P)
        weight = tl.load(w + o[:, None] * C + c, mask=o[:, None] < O, other=0.0)
        found += _product(_some(grad, row, rows, o, O), weight, KIND)
    z, _ = _read_ends(sources, targets, a, slope, shift, ends, nodes, row, rows, LISTED, C)
    _, steep = _gelu(z)
    found *= steep
    tl.store(of_z + row[:, None] * C + c, found, mask=(row < rows)[:, None])
    tl.store(of_a + row, tl.sum(found * tl.load(slope + c), axis=1), mask=row < rows)


@triton.jit(do_not_specialize=["rows"])
def _ends_linear_weights(  # type: ignore[no-untyped-def]
    sources, targets, a, slope, shift, ends, nodes, grad, of_z, sums, rows, LISTED: tl.constexpr,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    o, c = tl.program_id(1) * P + tl.arange(0, P), tl.arange(0, C)
    of_weight, of_bias = tl.zeros([P, C], dtype=tl.float32), tl.zeros([P], dtype=tl.float32)
    of_slope, of_shift = tl.zeros([C], dtype=tl.float32), tl.zeros([C], dtype=tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, R), tl.num_programs(0)):
        row = (tile * R + tl.arange(0, R)).to(tl.int64)
        wanted = _some(grad, row, rows, o, O)
        z, entry = _read_ends(sources, targets, a, slope, shift, ends, nodes, row, rows, LISTED, C)
        value, _ = _gelu(z)
        of_weight += _product(tl.trans(wanted.to(KIND)), value, KIND)
        of_bias += tl.sum(wanted.to(tl.float32), axis=0)
        pull = _rows(of_z, row, rows, C).to(tl.float32)
        of_slope += tl.sum(pull * entry[:, None], axis=0)
        of_shift += tl.sum(pull, axis=0)
    sums += tl.program_id(0) * (O * C + O + 2 * C)
    tl.store(sums + o[:, None] * C + c, of_weight, mask=o[:, None] < O)
    tl.store(sums + O * C + o, of_bias, mask=o < O)
    if tl.program_id(1) == 0:
        tl.store(sums + O * C + O + c, of_slope)
        tl.store(sums + O * C + O + C + c, of_shift)


@triton.jit
def _ends_linear_nodes(  # type: ignore[no-untyped-def]
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
