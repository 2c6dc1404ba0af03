"""What every pair does on its own: linear layers, with what stands before and after them.

``normed_linear`` is ``W · norm(e) + b``, ``gelu_linear`` is ``e + W · gelu(z) + b``. In plain torch each is a chain of
passes over all pairs, and its gradient a longer one. On a GPU, where products are in half precision, each is one kernel
that reads every pair once, and its gradient two that keep nothing but the inputs (:mod:`gln.ops.layers_gpu`).
``ends_linear`` is ``gelu_linear`` of what pairs read of their two ends, which are then not written down for every pair.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from gln.ops.mix import HAS_TRITON, may_use_kernels

WIDTHS = (16, 32, 64, 128)  # of what a layer reads; others do not fit the tiles of a kernel


def normed_linear(norm: nn.Module, layer: nn.Module, e: Tensor) -> Tensor:
    """``layer(norm(e))`` of ``e`` ``[..., c]``, for a layer norm and a linear layer."""
    if not has_kernel(e):
        if layer.weight.shape[0] > 1 or torch.is_grad_enabled() or not may_use_kernels(e):
            return layer(norm(e))
        # A product with one column adds up its last rows in another order; of a sum, all rows are alike.
        return (norm(e) * layer.weight[0]).sum(-1, keepdim=True) + layer.bias
    assert isinstance(norm, nn.LayerNorm)
    assert isinstance(layer, nn.Linear)
    given = (norm.weight, norm.bias, layer.weight, layer.bias)
    out = _normed_linear(e.flatten(0, -2), *given, norm.eps, torch.get_autocast_dtype("cuda"))
    return out.unflatten(0, e.shape[:-1])


def gelu_linear(layer: nn.Linear, e: Tensor, z: Tensor) -> Tensor:
    """``e + layer(gelu(z))`` of ``e`` ``[..., c]`` and ``z`` ``[..., h]``."""
    if not has_kernel(z):
        return e + layer(gelu(z))
    rows = (e.flatten(0, -2), z.flatten(0, -2))
    out = _gelu_linear(*rows, layer.weight, layer.bias, torch.get_autocast_dtype("cuda"))
    return out.unflatten(0, e.shape[:-1])


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
    nodes = (sources.contiguous(), targets.contiguous(), a.flatten())
    weights = (structure.weight[:, 0], structure.bias, layer.weight, layer.bias)
    out = _ends_linear(e.flatten(0, -2), *nodes, *weights, *where, torch.get_autocast_dtype("cuda"))
    return out.unflatten(0, e.shape[:-1])


class PairEnds(NamedTuple):
    """The ends of pairs; of all pairs, the number of nodes of every graph is enough, and the rest is empty.

    ``start [n + 1]`` and ``back [m]`` are for the gradient: where the pairs of a node begin, and where the reverse of
    a pair is.
    """

    ends: Tensor  # [2, m]
    start: Tensor
    back: Tensor
    nodes: int = 0


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


def _kernels() -> Any:
    """Imported here because that takes a while."""
    from gln.ops import layers_gpu

    return layers_gpu


@torch.library.custom_op("gln::normed_linear", mutates_args=())
def _normed_linear(
    e: Tensor, scale: Tensor, shift: Tensor, w: Tensor, b: Tensor, eps: float, kind: torch.dtype
) -> Tensor:
    return _kernels().normed_linear(e.contiguous(), scale, shift, w, b, eps, kind)


@torch.library.custom_op("gln::normed_linear_backward", mutates_args=())
def _normed_linear_backward(
    e: Tensor, scale: Tensor, w: Tensor, eps: float, grad: Tensor
) -> tuple[Tensor, Tensor]:
    e, grad = e.contiguous(), grad.contiguous()
    return _kernels().normed_linear_rows(e, scale, w, eps, grad), _kernels().normed_linear_weights(
        e, eps, grad
    )


@torch.library.custom_op("gln::gelu_linear", mutates_args=())
def _gelu_linear(e: Tensor, z: Tensor, w: Tensor, b: Tensor, kind: torch.dtype) -> Tensor:
    return _kernels().gelu_linear(e.contiguous(), z.contiguous(), w, b, kind)


@torch.library.custom_op("gln::gelu_linear_backward", mutates_args=())
def _gelu_linear_backward(z: Tensor, w: Tensor, kind: torch.dtype, grad: Tensor) -> tuple[Tensor, Tensor]:
    z, grad = z.contiguous(), grad.contiguous()
    return _kernels().gelu_linear_rows(z, w, kind, grad), _kernels().gelu_linear_weights(z, kind, grad)


@torch.library.custom_op("gln::ends_linear", mutates_args=())
def _ends_linear(
    e: Tensor, sources: Tensor, targets: Tensor, a: Tensor, slope: Tensor, shift: Tensor, w: Tensor, b: Tensor,
    ends: Tensor, start: Tensor, back: Tensor, nodes: int, kind: torch.dtype,
) -> Tensor:  # fmt: skip
    given = (sources, targets, a, slope.contiguous(), shift, w, b, ends.contiguous(), nodes, kind)
    return _kernels().ends_linear(e.contiguous(), *given)


@torch.library.custom_op("gln::ends_linear_backward", mutates_args=())
def _ends_linear_backward(
    sources: Tensor, targets: Tensor, a: Tensor, slope: Tensor, shift: Tensor, w: Tensor,
    ends: Tensor, start: Tensor, back: Tensor, nodes: int, kind: torch.dtype, grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    lists = (ends.contiguous(), start, back, nodes, kind)
    return _kernels().ends_linear_backward(
        sources, targets, a, slope.contiguous(), shift, w, *lists, grad.contiguous()
    )


@_ends_linear.register_fake
def _(e: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(e, memory_format=torch.contiguous_format)


@_ends_linear_backward.register_fake
def _(
    sources: Tensor, targets: Tensor, a: Tensor, slope: Tensor, shift: Tensor, w: Tensor, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sums = w.new_empty(w.numel() + w.shape[0] + 2 * w.shape[1], dtype=torch.float32)
    return torch.empty_like(sources), torch.empty_like(targets), torch.empty_like(a), sums


@_normed_linear.register_fake
def _(e: Tensor, scale: Tensor, shift: Tensor, w: Tensor, b: Tensor, eps: float, kind: torch.dtype) -> Tensor:
    return e.new_empty(e.shape[0], w.shape[0], dtype=kind)


@_gelu_linear.register_fake
def _(e: Tensor, z: Tensor, w: Tensor, b: Tensor, kind: torch.dtype) -> Tensor:
    return torch.empty_like(e, memory_format=torch.contiguous_format)


@_normed_linear_backward.register_fake
def _(e: Tensor, scale: Tensor, w: Tensor, eps: float, grad: Tensor) -> tuple[Tensor, Tensor]:
    return _empty(e, w)


@_gelu_linear_backward.register_fake
def _(z: Tensor, w: Tensor, kind: torch.dtype, grad: Tensor) -> tuple[Tensor, Tensor]:
    return _empty(z, w)


def _empty(rows: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    sums = rows.new_empty(w.numel() + w.shape[0], dtype=torch.float32)
    return torch.empty_like(rows, memory_format=torch.contiguous_format), sums


def _keep_normed(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    e, scale, shift, w, _, ctx.eps, _ = inputs
    ctx.save_for_backward(e, scale, shift, w)


def _normed_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    e, scale, shift, w = ctx.saved_tensors
    of_e, sums = _normed_linear_backward(e, scale, w, ctx.eps, grad)
    plain, of_b = _parts(sums, w)  # of weights that read rows neither scaled nor shifted
    of_w = plain * scale + of_b[:, None] * shift
    return of_e, (plain * w).sum(0), of_b @ w.float(), of_w, of_b, None, None


def _keep_gelu(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, z, w, _, ctx.kind = inputs
    ctx.save_for_backward(z, w)


def _gelu_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    z, w = ctx.saved_tensors
    of_z, sums = _gelu_linear_backward(z, w, ctx.kind, grad)
    return grad, of_z, *_parts(sums, w), None


def _keep_ends(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, *tensors, ctx.nodes, ctx.kind = inputs
    ctx.save_for_backward(*tensors)


def _ends_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    *read, w, _, ends, start, back = ctx.saved_tensors
    given = (*read, w, ends, start, back, ctx.nodes, ctx.kind, grad)
    *of_read, sums = _ends_linear_backward(*given)
    sums, of_slope, of_shift = sums.split([w.numel() + w.shape[0], w.shape[1], w.shape[1]])
    return grad, *of_read, of_slope, of_shift, *_parts(sums, w), None, None, None, None, None


def _parts(sums: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    of_w, of_b = sums.split([w.numel(), w.shape[0]])
    return of_w.view_as(w), of_b


_normed_linear.register_autograd(_normed_gradient, setup_context=_keep_normed)
_gelu_linear.register_autograd(_gelu_gradient, setup_context=_keep_gelu)
_ends_linear.register_autograd(_ends_gradient, setup_context=_keep_ends)
