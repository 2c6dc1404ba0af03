"""Mixing over third nodes on a CPU in training, without ever storing its n·K² (or n³) weights.

This module makes the compiled loops of :mod:`gln.models.mixing_cpu_dense` and :mod:`gln.models.mixing_cpu_sparse` a
torch operator. Only the result is kept for the gradient, for which the weights are recomputed. Every sum is added up by
one thread in a fixed order, so the number of threads changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gln.compiling import can_compile, spread
from gln.models.mixing_cpu_dense import dense_loops
from gln.models.mixing_cpu_sparse import sparse_loops
from gln.models.mixing_operator import mix_operator

if TYPE_CHECKING:
    from gln.models.pairs import DensePairs, SparsePairs

WORTH = 2**16  # with fewer scores, compiling or even loading the loops does not pay


def _forward(
    read: Tensor, mask: Tensor, target: Tensor, place: Tensor, back: Tensor, dense: bool
) -> tuple[Tensor, Tensor]:
    count, nodes, slots, _, heads, width = read.shape
    mixed = read.new_zeros(count, nodes, slots, heads, width)
    total = read.new_zeros(count, nodes, slots, heads)
    if dense:
        arrays = [values.numpy() for values in (*_real_nodes(mask), read, mask, mixed, total)]
        spread(dense_loops(width).forward, 0, count * heads, *arrays)
    else:
        arrays = _rows(read.flatten(4), mask, target, mixed.flatten(3), total)
        spread(sparse_loops(heads, width).forward, 0, count * nodes, nodes, *arrays)
    return mixed, total


def _backward(
    read: Tensor, mask: Tensor, target: Tensor, place: Tensor, back: Tensor, dense: bool,
    total: Tensor, delta: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    count, nodes, _, _, heads, width = read.shape
    if dense:
        result = torch.zeros_like(read)
        given = (*_real_nodes(mask), read, mask, total, delta, grad, result)
        arrays = [values.numpy() for values in given]
        spread(dense_loops(width).backward, 0, count * heads, *arrays)
    else:
        result = torch.empty_like(read)
        given = (read.flatten(4), mask, target, back, total, delta, grad.flatten(3), result.flatten(4))
        arrays = _rows(*given)
        for mine in (0, 1):
            spread(sparse_loops(heads, width).backward, 0, count * nodes, nodes, mine, *arrays)
    return result


def _real_nodes(mask: Tensor) -> tuple[Tensor, Tensor]:
    """The nodes of every graph, those with pairs first, ``[B, N]``, and how many have pairs, ``[B]``."""
    real = mask.any(-1)
    return real.sort(dim=1, descending=True, stable=True).indices, real.sum(1)


def _rows(*values: Tensor) -> list[np.ndarray]:
    """``[B, N, ...]`` as ``[B · N, ...]``: the rows of all graphs, one after another."""
    return [value.flatten(0, 1).numpy() for value in values]


_mix = mix_operator("mix_cpu", _forward, _backward)


@torch.compiler.assume_constant_result
def _ready() -> bool:
    return can_compile()


def _transformed(read: Tensor) -> bool:
    """Whether ``torch.func`` transforms ``read``: it cannot look into the loops; ``torch.compile`` need not."""
    return not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(read)


def takes(read: Tensor) -> bool:
    """Whether the loops support ``read`` and pay off: with gradients, many scores and no half precision."""
    count, nodes, slots, _, heads, _ = read.shape
    return (
        read.requires_grad
        and read.dtype in (torch.float32, torch.float64)
        and count * nodes * slots * slots * heads >= WORTH
        and _ready()
        and not _transformed(read)
    )


def mix_dense(read: Tensor, pairs: DensePairs) -> tuple[Tensor, Tensor]:
    """As :meth:`gln.models.pairs.DensePairs.mix`; entries that are not pairs are 0."""
    mask = pairs.mask.contiguous()
    return _mix(read, mask, mask, mask, mask, True)


def mix_sparse(read: Tensor, pairs: SparsePairs) -> tuple[Tensor, Tensor]:
    """As :meth:`gln.models.pairs.SparsePairs.mix`; slots that are not pairs are 0."""
    mask = pairs.mask.contiguous()
    return _mix(read, mask, pairs.target.contiguous(), mask, pairs.back.contiguous(), False)
