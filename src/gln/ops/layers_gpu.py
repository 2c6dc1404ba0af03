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
SUMS = 2**14  # of gradients of weights, likewise
PROGRAMS = 2  # per multiprocessor, where every program serves many rows


def normed_linear(
    e: Tensor, scale: Tensor, shift: Tensor, w: Tensor, b: Tensor, eps: float, kind: torch.dtype
) -> Tensor:
    """The arguments of these four are those of the operators in :mod:`gln.ops.layers`, contiguous."""
    out = torch.empty(len(e), len(w), dtype=kind, device=e.device)
    if len(e):
        _normed_linear[_tiles(e)](e, scale, shift, w, b, out, len(e), eps, **_sizes(e, w, kind, COLUMNS))
    return out


def normed_linear_backward(
    e: Tensor, scale: Tensor, w: Tensor, eps: float, grad: Tensor
) -> tuple[Tensor, Tensor]:
    result, sums, grid, sizes = _gradient(e, w, grad.dtype)
    if len(e):
        _normed_linear_backward[grid](e, scale, w, grad, result, sums, len(e), eps, **sizes)
    return result, sums.sum(0)


def gelu_linear(e: Tensor, z: Tensor, w: Tensor, b: Tensor, kind: torch.dtype) -> Tensor:
    out = torch.empty_like(e)
    if len(e):
        _gelu_linear[_tiles(e)](e, z, w, b, out, len(e), **_sizes(z, w, kind, COLUMNS))
    return out


def gelu_linear_backward(z: Tensor, w: Tensor, kind: torch.dtype, grad: Tensor) -> tuple[Tensor, Tensor]:
    result, sums, grid, sizes = _gradient(z, w, kind)
    if len(z):
        _gelu_linear_backward[grid](z, w, grad, result, sums, len(z), **sizes)
    return result, sums.sum(0)


def _tiles(rows: Tensor) -> tuple[int]:
    return (triton.cdiv(len(rows), ROWS),)


def _sizes(rows: Tensor, w: Tensor, kind: torch.dtype, most: int) -> dict[str, Any]:
    """Of a layer with weights ``w [O, C]``: ``P`` outputs at once, at ``most``, and products of this kind."""
    kinds = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}
    at_once = min(max(16, triton.next_power_of_2(len(w))), most)
    sizes = {"O": len(w), "C": rows.shape[1], "P": at_once, "R": ROWS, "KIND": kinds[kind]}
    return sizes | {"num_warps": 8 if at_once * rows.shape[1] >= SUMS else 4}


def _gradient(
    rows: Tensor, w: Tensor, kind: torch.dtype
) -> tuple[Tensor, Tensor, tuple[int, int], dict[str, Any]]:
    """Memory for the gradient of the rows and for what every program sums, and the grid and sizes of programs.

    A program sums the gradients of weights ``[O, C]``, and then of biases ``[O]``.
    """
    sizes = _sizes(rows, w, kind, SUMS // rows.shape[1])
    processors = torch.cuda.get_device_properties(rows.device).multi_processor_count if rows.is_cuda else 1
    slices = triton.cdiv(len(w), sizes["P"])
    programs = min(triton.cdiv(max(len(rows), 1), ROWS), triton.cdiv(PROGRAMS * processors, slices))
    make = torch.empty if len(rows) else torch.zeros
    sums = make(programs, w.numel() + len(w), dtype=torch.float32, device=rows.device)
    return torch.empty_like(rows), sums, (programs, slices), sizes


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
def _normed_linear_backward(  # type: ignore[no-untyped-def]
    e, scale, w, grad, result, sums, rows, eps,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Sums are those of weights that read rows with mean 0 and variance 1, neither scaled nor shifted."""
    o, c = tl.program_id(1) * P + tl.arange(0, P), tl.arange(0, C)
    of_weight, of_bias = tl.zeros([P, C], dtype=tl.float32), tl.zeros([P], dtype=tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, R), tl.num_programs(0)):
        row = (tile * R + tl.arange(0, R)).to(tl.int64)
        wanted = _some(grad, row, rows, o, O)
        normed, factor = _normed(_rows(e, row, rows, C), eps, C)
        of_weight += _product(tl.trans(wanted), normed, KIND)
        of_bias += tl.sum(wanted.to(tl.float32), axis=0)
        if tl.program_id(1) == 0:
            slope = _slope(wanted, grad, w, row, rows, O, C, P, KIND) * tl.load(scale + c)
            mean, along = tl.sum(slope, axis=1)[:, None] / C, tl.sum(slope * normed, axis=1)[:, None] / C
            found = (slope - mean - normed * along) * factor[:, None]
            tl.store(result + row[:, None] * C + c, found, mask=(row < rows)[:, None])
    _store_sums(sums, o, of_weight, of_bias, O, C)


@triton.jit
def _slope(wanted, grad, w, row, rows, O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    """``grad · w`` of some rows, ``[R, C]``; ``wanted`` are the first columns of ``grad``."""
    o, c = tl.arange(0, P), tl.arange(0, C)
    slope = _product(wanted, tl.load(w + o[:, None] * C + c, mask=o[:, None] < O, other=0.0), KIND)
    for first in tl.static_range(P, O, P):
        more = first + o
        weight = tl.load(w + more[:, None] * C + c, mask=more[:, None] < O, other=0.0)
        slope += _product(_some(grad, row, rows, more, O), weight, KIND)
    return slope


@triton.jit
def _store_sums(sums, o, of_weight, of_bias, O: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    sums += tl.program_id(0) * (O * C + O)
    tl.store(sums + o[:, None] * C + tl.arange(0, C), of_weight, mask=o[:, None] < O)
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
def _gelu_linear_backward(  # type: ignore[no-untyped-def]
    z, w, grad, result, sums, rows,
    O: tl.constexpr, C: tl.constexpr, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    o, c = tl.program_id(1) * P + tl.arange(0, P), tl.arange(0, C)
    of_weight, of_bias = tl.zeros([P, C], dtype=tl.float32), tl.zeros([P], dtype=tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, R), tl.num_programs(0)):
        row = (tile * R + tl.arange(0, R)).to(tl.int64)
        wanted = _some(grad, row, rows, o, O)
        value, steep = _gelu(_rows(z, row, rows, C).to(tl.float32))
        of_weight += _product(tl.trans(wanted.to(KIND)), value, KIND)
        of_bias += tl.sum(wanted.to(tl.float32), axis=0)
        if tl.program_id(1) == 0:
            slope = _slope(wanted, grad, w, row, rows, O, C, P, KIND)
            tl.store(result + row[:, None] * C + c, slope * steep, mask=(row < rows)[:, None])
    _store_sums(sums, o, of_weight, of_bias, O, C)
