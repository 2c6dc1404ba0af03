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
PROGRAMS = 2  # per multiprocessor, where every program serves many rows


def normed_linear(
    e: Tensor, scale: Tensor, shift: Tensor, w: Tensor, b: Tensor, eps: float, kind: torch.dtype
) -> Tensor:
    """The arguments of these six are those of the operators in :mod:`gln.ops.layers`, contiguous."""
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


def _tiles(rows: Tensor) -> tuple[int]:
    return (triton.cdiv(len(rows), ROWS),)


def _sizes(rows: Tensor, w: Tensor, kind: torch.dtype) -> dict[str, Any]:
    """Of a layer with weights ``w [O, C]``: ``P`` outputs at once, products of this kind."""
    kinds = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}
    at_once = min(max(16, triton.next_power_of_2(len(w))), COLUMNS)
    sizes = {"O": len(w), "C": rows.shape[1], "P": at_once, "R": ROWS, "KIND": kinds[kind]}
    return sizes | {"num_warps": 4}


def _sums(rows: Tensor, grad: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """Memory for what every program sums, weights ``[O, C]`` and then biases ``[O]``, and the grid of programs."""
    processors = torch.cuda.get_device_properties(rows.device).multi_processor_count if rows.is_cuda else 1
    outputs = grad.shape[1]
    slices = triton.cdiv(outputs, COLUMNS)
    programs = min(triton.cdiv(max(len(rows), 1), ROWS), triton.cdiv(PROGRAMS * processors, slices))
    make = torch.empty if len(rows) else torch.zeros
    return make(programs, outputs * (rows.shape[1] + 1), dtype=torch.float32, device=rows.device), (
        programs,
        slices,
    )


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


@triton.jit
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


@triton.jit
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


@triton.jit
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


@triton.jit
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


@triton.jit
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


@triton.jit
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
