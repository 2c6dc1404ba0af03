"""A GRU over packed sequences on a GPU: one launch runs all steps of a layer.

GraphRNN takes hundreds of small steps; launched one by one, they leave a GPU idle most of the time, and training takes
three to five times as long (``python -m benchmarks graphrnn``).

A program holds ``BLOCK`` sequences, their states ``[BLOCK, H]`` and the recurrent weights, and steps through time.
Narrow states use the tensor cores, 16 sequences per program. The weights of wide states fill the registers of a
program, so it takes one sequence, a state ``[H]``, multiplied element by element: exact, on as many processors as
there are sequences, and no step waits for weights.

The entry of the ``r``-th sequence at step ``t`` lies at ``first[t] + r``, as torch packs them. Memory reads are issued
one step ahead. Gates are in torch's order: r, z, n.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence

NARROW, WIDEST = 32, 128  # widest states for the tensor cores; widest states whose weights fit into registers
# Unless told that four weights can be loaded at once, the compiler assigns threads columns, not rows: a thread holds
# half a column of every gate in registers, shares one sum with one other thread, and owns one unit of the state.
kernel = triton.jit(do_not_specialize=["weight", "R"])


@triton.jit
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _add(a, b, c, more_a, more_b, more_c):  # type: ignore[no-untyped-def]
    return a + more_a, b + more_b, c + more_c


@triton.jit
def _places(H: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The sequences of a program ``[BLOCK, 1]`` and the units of a state ``[1, H]``; ``[1]`` and ``[H]`` if one."""
    row, unit = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, H)
    if BLOCK > 1:
        row, unit = row[:, None], unit[None, :]
    return row, unit


@triton.jit
def _load_weights(weight, down, across, H: tl.constexpr):  # type: ignore[no-untyped-def]
    """The weights of the three gates, each ``[H, H]``, with strides ``down`` the rows and ``across`` the gates."""
    place = weight + tl.arange(0, H)[:, None] * down + tl.arange(0, H)[None, :]
    return tl.load(place), tl.load(place + across), tl.load(place + 2 * across)


@triton.jit
def _load(values, at, unit, alive, part: tl.constexpr, PARTS: tl.constexpr, H: tl.constexpr):  # type: ignore[no-untyped-def]
    """One part of the entries ``at`` of ``values`` ``[S, PARTS, H]``; 0 for sequences that have ended."""
    return tl.load(values + at * (PARTS * H) + part * H + unit, mask=alive, other=0.0)


@triton.jit
def _store(values, at, unit, alive, a, b, c, d, e, f, H: tl.constexpr):  # type: ignore[no-untyped-def]
    """All parts of the entries ``at`` of ``values`` ``[S, 6, H]``."""
    place = values + at * (6 * H) + unit
    tl.store(place, a, mask=alive)
    tl.store(place + H, b, mask=alive)
    tl.store(place + 2 * H, c, mask=alive)
    tl.store(place + 3 * H, d, mask=alive)
    tl.store(place + 4 * H, e, mask=alive)
    tl.store(place + 5 * H, f, mask=alive)


@triton.jit
def _products(a, b, c, w_a, w_b, w_c, BLOCK: tl.constexpr, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]
    """``a @ w_a``, ``b @ w_b`` and ``c @ w_c`` of states and weights."""
    if BLOCK == 1:
        a, b, c = tl.reduce((a[:, None] * w_a, b[:, None] * w_b, c[:, None] * w_c), 0, _add)
    else:
        a = tl.dot(a, w_a, input_precision=PRECISION)
        b = tl.dot(b, w_b, input_precision=PRECISION)
        c = tl.dot(c, w_c, input_precision=PRECISION)
    return a, b, c


@triton.jit
def _read_gates(gates, first, t, row, unit, length, H: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where the entries of step ``t`` lie, and what their inputs contribute to the three gates."""
    at, alive = tl.load(first + t) + row, t < length
    r, z = _load(gates, at, unit, alive, 0, 3, H), _load(gates, at, unit, alive, 1, 3, H)
    return at, r, z, _load(gates, at, unit, alive, 2, 3, H)


@kernel
def _forward(  # type: ignore[no-untyped-def]
    gates, start, weight, bias, first, lengths, kept, R,
    H: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row, unit = _places(H, BLOCK)
    length = tl.load(lengths + row, mask=row < R, other=0)
    w_r, w_z, w_n = _load_weights(weight, 3 * H, H, H)  # [from, to]
    b_r, b_z, b_n = tl.load(bias + unit), tl.load(bias + H + unit), tl.load(bias + 2 * H + unit)
    h = tl.load(start + row * H + unit, mask=row < R, other=0.0)
    at, in_r, in_z, in_n = _read_gates(gates, first, 0, row, unit, length, H)
    last = tl.load(lengths + tl.program_id(0) * BLOCK) - 1  # the first sequence of a program is the longest
    for t in range(last + 1):
        ahead = _read_gates(gates, first, t + 1, row, unit, length, H)
        of_r, of_z, of_n = _products(h, h, h, w_r, w_z, w_n, BLOCK, PRECISION)
        r, z = _sigmoid(in_r + of_r + b_r), _sigmoid(in_z + of_z + b_z)
        of_n += b_n
        n = 2.0 * _sigmoid(2.0 * (in_n + r * of_n)) - 1.0  # tanh
        new = n + z * (h - n)
        _store(kept, at, unit, t < length, r, z, n, of_n, h, new, H)
        h = new
        at, in_r, in_z, in_n = ahead


@triton.jit
def _read_kept(kept, grad, first, t, row, unit, length, H: tl.constexpr):  # type: ignore[no-untyped-def]
    """Where the entries of step ``t`` lie, the gradient of their states, and what the forward pass kept."""
    at, alive = tl.load(first + t) + row, t < length
    wanted, r = _load(grad, at, unit, alive, 0, 1, H), _load(kept, at, unit, alive, 0, 6, H)
    z, n = _load(kept, at, unit, alive, 1, 6, H), _load(kept, at, unit, alive, 2, 6, H)
    of_n, h = _load(kept, at, unit, alive, 3, 6, H), _load(kept, at, unit, alive, 4, 6, H)
    return at, wanted, r, z, n, of_n, h


@kernel
def _backward(  # type: ignore[no-untyped-def]
    grad, kept, weight, first, lengths, result, grad_start, R,
    H: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row, unit = _places(H, BLOCK)
    length = tl.load(lengths + row, mask=row < R, other=0)
    w_r, w_z, w_n = _load_weights(weight, H, H * H, H)  # [to, from]
    last = tl.load(lengths + tl.program_id(0) * BLOCK) - 1
    at, wanted, r, z, n, of_n, h = _read_kept(kept, grad, first, last, row, unit, length, H)
    dh = tl.zeros_like(wanted)
    for done in range(last + 1):
        t = last - done
        ahead = _read_kept(kept, grad, first, tl.maximum(t - 1, 0), row, unit, length, H)
        dh += wanted
        dn = dh * (1.0 - z) * (1.0 - n * n)
        dz = dh * (h - n) * z * (1.0 - z)
        dr = dn * of_n * r * (1.0 - r)
        _store(result, at, unit, t < length, dr, dz, dn, dr, dz, dn * r, H)
        to_r, to_z, to_n = _products(dr, dz, dn * r, w_r, w_z, w_n, BLOCK, PRECISION)
        dh = dh * z + to_r + to_z + to_n
        at, wanted, r, z, n, of_n, h = ahead
    tl.store(grad_start + row * H + unit, dh, mask=row < R)


def _sizes(start: Tensor) -> tuple[tuple[int], dict[str, Any]]:
    """The grid and the sizes of a program; tensor cores use the precision that is set for cuDNN."""
    rows, width = start.shape
    block = 16 if width <= NARROW else 1
    precision = "tf32" if torch.backends.cudnn.allow_tf32 else "ieee"
    sizes = {"H": width, "BLOCK": block, "PRECISION": precision, "num_warps": width // 16, "num_stages": 1}
    return (triton.cdiv(rows, block),), sizes


class _Layer(torch.autograd.Function):
    """States ``[S, H]`` of a layer from its inputs' contribution to the gates ``[S, 3H]`` and its start ``[R, H]``."""

    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, start: Tensor, weight: Tensor, bias: Tensor, first: Tensor, lengths: Tensor
    ) -> Tensor:
        # For every entry: r, z, n, the state's contribution to n, the state before, the state after.
        kept = gates.new_empty(len(gates), 6, start.shape[1])
        grid, sizes = _sizes(start)
        across = weight.T.contiguous()
        _forward[grid](gates, start.contiguous(), across, bias, first, lengths, kept, len(start), **sizes)
        ctx.save_for_backward(kept, weight, first, lengths)
        ctx.rows = len(start)
        return kept[:, 5]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kept, weight, first, lengths = ctx.saved_tensors
        count, _, width = kept.shape
        result = torch.empty_like(kept)  # gradients of the inputs' part of the gates, then of the state's
        grad_start = kept.new_empty(ctx.rows, width)
        grid, sizes = _sizes(grad_start)
        _backward[grid](
            grad.contiguous(), kept, weight, first, lengths, result, grad_start, ctx.rows, **sizes
        )
        of_inputs, of_states = result.view(count, 2, 3 * width).unbind(1)
        return of_inputs, grad_start, of_states.T @ kept[:, 4], of_states.sum(0), None, None


@lru_cache(maxsize=64)
def _steps(batch_sizes: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """The start of every step ``[T + 1]``, and the length of every sequence ``[R]``."""
    sizes = torch.tensor((0, *batch_sizes))
    lengths = torch.searchsorted(-sizes[1:], -torch.arange(batch_sizes[0]), out_int32=True)
    return sizes.cumsum(0).to(device), lengths.to(device)


def takes(gru: nn.GRU, inputs: PackedSequence) -> bool:
    """Whether the kernels support it: float32, a width that fits, and sequences packed in sorted order."""
    width, plain = gru.hidden_size, gru.bias and not gru.bidirectional and not gru.dropout
    wide = 16 <= width <= WIDEST and width & (width - 1) == 0
    exact = inputs.data.dtype == gru.weight_hh_l0.dtype == torch.float32
    return plain and wide and exact and inputs.sorted_indices is None


def run(gru: nn.GRU, inputs: PackedSequence, start: Tensor | None) -> Tensor:
    """:func:`gln.baselines.graphrnn_gru.run_gru`."""
    states = inputs.data
    first, lengths = _steps(tuple(inputs.batch_sizes.tolist()), states.device)
    if start is None:
        start = states.new_zeros(gru.num_layers, len(lengths), gru.hidden_size)
    for (w_in, w_state, b_in, b_state), begin in zip(gru.all_weights, start, strict=True):
        states = _Layer.apply(linear(states, w_in, b_in), begin, w_state, b_state, first, lengths)
    return states
