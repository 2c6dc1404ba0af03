"""Mixing over third nodes as a torch operator of its own: differentiable, and opaque to ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

NEVER = -1e4  # a score whose softmax weight is exactly zero, finite so that gradients stay finite

Mix = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]]
MixBackward = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, bool, Tensor, Tensor, Tensor], Tensor]


def mix_operator(name: str, forward: Mix, backward: MixBackward) -> Mix:
    """``forward`` as an operator whose gradient is ``backward``; ``torch.compile`` does not look inside.

    Args:
        name: of the operator in torch's registry.
        forward: from ``read`` ``[B, N, S, 4, h, d]``, ``mask``, ``target``, ``place``, ``back`` and whether the pairs
            are dense (if so, all four are the mask) to the mixed values ``[B, N, S, h, d]`` and the log-normaliser
            ``[B, N, S, h]``, in at least float32.
        backward: from the same, the log-normaliser, ``delta`` ``[B, N, S, h]`` and the gradient of the mixed values to
            the gradient of ``read``. With ``w`` the weight of a third node and ``v`` the product of its value with the
            gradient of the mixed values, the gradient of its score is ``w (v − delta)``.
    """

    @torch.library.custom_op(f"gln::{name}", mutates_args=())
    def mix(
        read: Tensor, mask: Tensor, target: Tensor, place: Tensor, back: Tensor, dense: bool
    ) -> tuple[Tensor, Tensor]:
        return forward(read.contiguous(), mask, target, place, back, dense)

    @mix.register_fake
    def _(
        read: Tensor, mask: Tensor, target: Tensor, place: Tensor, back: Tensor, dense: bool
    ) -> tuple[Tensor, Tensor]:
        shape, dtype = (*read.shape[:3], *read.shape[4:]), torch.promote_types(read.dtype, torch.float32)
        return read.new_empty(shape, dtype=dtype), read.new_empty(shape[:-1], dtype=dtype)

    @torch.library.custom_op(f"gln::{name}_backward", mutates_args=())
    def mix_backward(
        read: Tensor, mask: Tensor, target: Tensor, place: Tensor, back: Tensor, dense: bool,
        total: Tensor, delta: Tensor, grad: Tensor,
    ) -> Tensor:  # fmt: skip
        given = (total.contiguous(), delta.contiguous(), grad.contiguous())
        return backward(read.contiguous(), mask, target, place, back, dense, *given)

    @mix_backward.register_fake
    def _(
        read: Tensor, mask: Tensor, target: Tensor, place: Tensor, back: Tensor, dense: bool,
        total: Tensor, delta: Tensor, grad: Tensor,
    ) -> Tensor:  # fmt: skip
        return torch.empty_like(read, memory_format=torch.contiguous_format)

    def keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *tensors, ctx.dense = inputs
        ctx.save_for_backward(*tensors, *output)

    def differentiate(ctx: Any, grad: Tensor, grad_total: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, mixed, total = ctx.saved_tensors
        delta = (grad * mixed).sum(-1) - grad_total
        return mix_backward(*inputs, ctx.dense, total, delta, grad), None, None, None, None, None

    mix.register_autograd(differentiate, setup_context=keep)
    return mix
