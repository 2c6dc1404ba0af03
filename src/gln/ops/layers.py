"""What every pair does on its own: linear layers, with what stands before and after them.

``normed_linear`` is ``W · norm(e) + b``, ``gelu_linear`` is ``e + W · gelu(z) + b``. In plain torch each is a chain of
passes over all pairs, and its gradient a longer one. On a GPU, where products are in half precision, each is one kernel
that reads every pair once, and its gradient two that keep nothing but the inputs (:mod:`gln.ops.layers_gpu`).
``ends_linear`` is ``gelu_linear`` of what pairs read of their two ends, which are then not written down for every pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from gln.ops.mix import HAS_TRITON, may_use_kernels

WIDTHS = (16, 32, 64, 128)  # of what a layer reads; others do not fit the tiles of a kernel


def normed_linear(norm: nn.Module, layer: nn.Module, e: Tensor) -> Tensor:
    """``layer(norm(e))`` of ``e`` ``[..., c]``, for a layer norm and a linear layer."""
    assert isinstance(layer, nn.Linear)
    if not has_kernel(e):
        if layer.weight.shape[0] > 1 or torch.is_grad_enabled() or not may_use_kernels(e):
            return layer(norm(e))
        # A product with one column adds up its last rows in another order; of a sum, all rows are alike.
        return (norm(e) * layer.weight[0]).sum(-1, keepdim=True) + layer.bias
    assert isinstance(norm, nn.LayerNorm)
    nothing = e.new_empty(0)
    read = (e.flatten(0, -2), nothing, nothing, norm.weight, norm.bias)
    return _one_kernel("normed", layer, nothing, read, _nowhere(e), norm.eps).unflatten(0, e.shape[:-1])


def gelu_linear(layer: nn.Linear, e: Tensor, z: Tensor) -> Tensor:
    """``e + layer(gelu(z))`` of ``e`` ``[..., c]`` and ``z`` ``[..., h]``."""
    if not has_kernel(z):
        return e + layer(gelu(z))
    nothing = e.new_empty(0)
    read = (z.flatten(0, -2), nothing, nothing, nothing, nothing)
    return _one_kernel("gelu", layer, e.flatten(0, -2), read, _nowhere(e)).view_as(e)


def ends_linear(
    layer: nn.Linear,
    structure: nn.Linear,
    e: Tensor,
    a: Tensor,
    sources: Tensor,
    targets: Tensor,
    where: PairEnds,
) -> Tensor:
    """``e + layer(gelu(z))`` of pairs ``e [..., c]``, for ``z = l + r + f · g + structure(a)``; needs a kernel.

    ``sources [n, 2c]`` holds ``l`` and ``f`` of every node, which are read by pairs that begin there, and ``targets``
    ``r`` and ``g``, read by pairs that end there.
    """
    read = (sources, targets, a.flatten(), structure.weight[:, 0], structure.bias)
    return _one_kernel("ends", layer, e.flatten(0, -2), read, where).view_as(e)


class PairEnds(NamedTuple):
    """The ends of pairs; of all pairs, the number of nodes of every graph is enough, and the rest is empty.

    ``start [n + 1]`` and ``back [m]`` are for the gradient: where the pairs of a node begin, and where the reverse of
    a pair is.
    """

    ends: Tensor  # [2, m]
    start: Tensor
    back: Tensor
    nodes: int = 0


def _nowhere(e: Tensor) -> PairEnds:
    nothing = e.new_empty(0, dtype=torch.long)
    return PairEnds(nothing, nothing, nothing)


def normed_mlp(layers: nn.Sequential, e: Tensor) -> Tensor:
    """``e + layers(e)`` for a layer norm and, as the second of the ``layers``, two linear ones with a GELU between."""
    norm, inner, _, outer = (layers[0], *cast(nn.Sequential, layers[1]))
    assert isinstance(outer, nn.Linear)
    return gelu_linear(outer, e, normed_linear(norm, inner, e))


def has_kernel(rows: Tensor) -> bool:
    """Whether a kernel takes this: on a GPU, with products in half precision."""
    if not rows.is_cuda or not HAS_TRITON or not torch.is_autocast_enabled("cuda"):
        return False
    return rows.shape[-1] in WIDTHS and may_use_kernels(rows)


def _one_kernel(
    way: str, layer: nn.Linear, e: Tensor, read: Sequence[Tensor], where: PairEnds, eps: float = 0
) -> Tensor:
    return _linear(way, e, *read, layer.weight, layer.bias, *where, eps, torch.get_autocast_dtype("cuda"))


# One operator for all three. What it reads, in the order of ``ends_linear``: ``sources``, ``targets``, ``a``, ``slope``
# and ``shift`` of the structure. In the other two ways ``sources`` are the rows themselves, and ``slope`` and ``shift``
# those of the norm. What a way does not need is empty.


@torch.library.custom_op("gln::linear", mutates_args=())
def _linear(
    way: str, e: Tensor, sources: Tensor, targets: Tensor, a: Tensor, slope: Tensor, shift: Tensor,
    w: Tensor, b: Tensor, ends: Tensor, start: Tensor, back: Tensor, nodes: int, eps: float, kind: torch.dtype,
) -> Tensor:  # fmt: skip
    from gln.ops import layers_gpu  # here and below, because that takes a while

    read = _contiguous(sources, targets, a, slope, shift, ends)
    return layers_gpu.linear(way, e.contiguous(), read, nodes, w, b, eps, kind)


@torch.library.custom_op("gln::linear_backward", mutates_args=())
def _linear_backward(
    way: str, sources: Tensor, targets: Tensor, a: Tensor, slope: Tensor, shift: Tensor, w: Tensor,
    ends: Tensor, start: Tensor, back: Tensor, nodes: int, eps: float, kind: torch.dtype, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Of sources, targets and ``a``; then all sums: of weights ``[O, C]``, biases ``[O]``, slope and shift ``[C]``."""
    from gln.ops import layers_gpu

    read = _contiguous(sources, targets, a, slope, shift, ends)
    return layers_gpu.linear_backward(way, read, start, back, nodes, w, eps, kind, grad.contiguous())


def _contiguous(*values: Tensor) -> tuple[Tensor, ...]:
    return tuple(value.contiguous() for value in values)


@_linear.register_fake
def _(way: str, e: Tensor, sources: Tensor, *rest: Any) -> Tensor:
    if way != "normed":
        return torch.empty_like(e, memory_format=torch.contiguous_format)
    return sources.new_empty(sources.shape[0], rest[4].shape[0], dtype=rest[-1])


@_linear_backward.register_fake
def _(
    way: str, sources: Tensor, targets: Tensor, a: Tensor, slope: Tensor, shift: Tensor, w: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    more = 2 * w.shape[1] if way == "ends" else 0
    sums = w.new_empty(w.numel() + w.shape[0] + more, dtype=torch.float32)
    of_read = (
        torch.empty_like(each, memory_format=torch.contiguous_format) for each in (sources, targets, a)
    )
    return *of_read, sums  # type: ignore[return-value]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.way, _, *read, w, _, ends, start, back, ctx.nodes, ctx.eps, ctx.kind = inputs
    ctx.save_for_backward(*read, w, ends, start, back)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    *read, w, ends, start, back = ctx.saved_tensors
    given = (*read, w, ends, start, back, ctx.nodes, ctx.eps, ctx.kind, grad)
    *of_read, sums = _linear_backward(ctx.way, *given)
    of_w, of_b, *more = sums.split([w.numel(), w.shape[0], *[w.shape[1]] * (2 if ctx.way == "ends" else 0)])
    of_w, of_e = of_w.view_as(w), grad if ctx.way != "normed" else None
    if ctx.way == "normed":  # they are of weights that read rows neither scaled nor shifted
        more = [(of_w * w).sum(0), of_b @ w.float()]
        of_w = of_w * read[3] + of_b[:, None] * read[4]
    return None, of_e, *of_read, *(more or (None, None)), of_w, of_b, None, None, None, None, None, None


_linear.register_autograd(_gradient, setup_context=_keep)
