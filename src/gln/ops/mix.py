"""Mixing over third nodes: every pair ``ij`` attends over the nodes ``k`` that both of its ends are paired with.

``Σ_k a_ijk (first_ik + second_jk)`` with ``a_ij = softmax_k(query_ik · key_jk)``, over several heads. One more slot of
score 0 and value 0 takes part, so that a pair without third nodes is well defined. A pair also gets the log-normaliser
of its softmax, a soft maximum of its scores.

There is one operator for all pairs and one for pairs in a list. Each is a few lines of torch here, its reference, and a
kernel per device: numba on a CPU (:mod:`gln.ops.cpu`), Triton on a GPU (:mod:`gln.ops.gpu`). No weight is kept for the
gradient, except on a GPU where those of all pairs fit.
Compilers see one opaque operator with a gradient; transforms of torch and exports see through it to the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

NEVER = -1e4  # a score whose softmax weight is exactly zero, finite so that gradients stay finite
WORTH = 2**16  # with fewer scores on a CPU, loading the compiled loops does not pay
MOST_SLOTS = 256  # of a row in a list on a GPU, where every row has as much memory as the longest
HAS_TRITON = find_spec("triton") is not None


_use_kernels = True


@contextmanager
def reference() -> Iterator[None]:
    """Compute the reference instead of a kernel for a while."""
    global _use_kernels
    before, _use_kernels = _use_kernels, False
    try:
        yield
    finally:
        _use_kernels = before


def mix_all(read: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mix all pairs of graphs with up to ``N`` nodes: values ``[B, N, N, h, d]`` and log-normaliser ``[B, N, N, h]``.

    ``read [B, N, N, 4, h, d]`` is query, key, first and second of every pair. ``mask [B, N, N]``, symmetric, says which
    entries are pairs; where there is none, results are any number.
    """
    count, nodes, _, _, heads, _ = read.shape
    if not _has_kernel(read, count * nodes**3 * heads):
        return mix_all_reference(read, mask)
    kept = _weights_to_keep(read, nodes, nodes, count * heads)
    mixed, total, _ = _mix_all(_precise(read), mask.contiguous(), kept)
    return mixed.to(read.dtype), total.to(read.dtype)


def mix_listed(
    read: Tensor,
    start: Tensor,
    target: Tensor,
    rows: Sequence[int],
    own: Sequence[int],
    longest: int,
    found: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Mix pairs in a list: some rows of it, which read the pairs of all rows.

    Args:
        read: query, key, first and second of every pair, ``[p, 4, h, d]``.
        start: where the pairs of each row begin, ``[l + 1]``; the list is symmetric and sorted. Places after the last
            row are padding: their results are 0.
        target: the row that is the second end of every pair, ``[p]``.
        rows: first and last (exclusive) of the rows to mix.
        own: first and last of their pairs.
        longest: no row has more pairs than this.
        found: what :func:`look_up` found, for who mixes over one list several times.

    Returns:
        The mixed values ``[m, h, d]`` and the log-normaliser ``[m, h]`` of the pairs of these rows.
    """
    if not _has_kernel(read, (own[1] - own[0]) * longest * read.shape[2], longest):
        return mix_listed_reference(read, start, target, rows, own)
    if found is None:  # sorted by target, then by source, the reversed pairs are in the order of the pairs
        found = look_up(start, target, target.argsort(stable=True), longest)
    back, place = found
    kept = _weights_to_keep(read, len(start) - 1, place.shape[1], read.shape[2]) if place.numel() else 0
    mixed, total, _ = _mix_listed(_precise(read), start, target, back, place, rows, own, longest, kept)
    return mixed.to(read.dtype), total.to(read.dtype)


def look_up(start: Tensor, target: Tensor, back: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Of every pair ``ij``: where ``ji`` is (``back [p]``), and for every ``ik`` the slot of ``k`` in the row of ``j``.

    The slots are ``[p, ≥ longest]``, −1 where there is none; ``p`` is 0 on a CPU, which searches as it goes.
    """
    if not target.is_cpu and (longest > MOST_SLOTS or not HAS_TRITON):  # no kernel will ask
        return back, target.new_empty(0, padded(longest), dtype=torch.int16)
    return back, _look_up(start, target, back, longest)


def workspace(read: Tensor) -> int:
    """Bytes of weights at once in the memory of a GPU, unless a single head of one graph has more."""
    return torch.cuda.get_device_properties(read.device).total_memory // 64 if read.is_cuda else 2**29


def _weights_to_keep(read: Tensor, rows: int, side: int, heads: int) -> int:
    """How many weights to keep for the gradient: of all heads, if a GPU has room for them, or none."""
    if read.is_cpu or not torch.is_grad_enabled() or not read.requires_grad:
        return 0
    weights = weights_of_a_head(rows, side) * heads
    return weights if weights * read.element_size() <= workspace(read) else 0


def weights_of_a_head(rows: int, side: int) -> int:
    """Squares of this ``side``, one for each of the ``rows``, in both orders."""
    return 2 * rows * side * padded(side)


def padded(side: int) -> int:
    """The length of a row of weights: so that eight can be loaded at once."""
    return -(-side // 8) * 8


def may_use_kernels(given: Tensor) -> bool:
    """Whether an operator on ``given`` may be a kernel: nobody asked for the reference or must look inside."""
    # Torch's own question whether it exports is answered yes while compiling in torch 2.11.
    if not _use_kernels or getattr(torch.compiler, "_is_exporting_flag", False):
        return False
    return torch.compiler.is_compiling() or not torch._C._functorch.is_functorch_wrapped_tensor(given)


def _has_kernel(read: Tensor, scores: int, slots: int = 1) -> bool:
    """Whether a kernel takes this and pays off."""
    if not may_use_kernels(read):
        return False
    if read.is_cpu:
        return scores >= WORTH
    width = read.shape[-1]
    fits = read.dtype != torch.float64 and slots <= MOST_SLOTS and width & (width - 1) == 0
    return read.is_cuda and fits and HAS_TRITON


def _precise(read: Tensor) -> Tensor:
    """Numba has no half precision."""
    return read.to(torch.promote_types(read.dtype, torch.float32)) if read.is_cpu else read


def mix_all_reference(read: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`mix_all` in plain torch."""
    query, key, first, second = read.unbind(3)
    shared = mask[:, None, :, None, :] & mask[:, None, None, :, :]  # k is paired with i and with j
    scores = torch.einsum("bikhd,bjkhd->bhijk", query, key).masked_fill(~shared, NEVER)
    weight, total = soften(scores)
    mixed = torch.einsum("bhijk,bikhd->bijhd", weight, first) + torch.einsum(
        "bhijk,bjkhd->bijhd", weight, second
    )
    return mixed, total.permute(0, 2, 3, 1)


def soften(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax weights ``[..., k]`` of scores among which one more is 0, and the log-normaliser ``[...]``."""
    most = scores.amax(-1, keepdim=True).clamp(min=0).detach()
    weight = (scores - most).exp()
    norm = weight.sum(-1, keepdim=True) + (-most).exp()
    return weight / norm, (most + norm.log()).squeeze(-1)


def mix_listed_reference(
    read: Tensor, start: Tensor, target: Tensor, rows: Sequence[int], own: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """:func:`mix_listed` in plain torch."""
    query, key, first, second = read.unbind(1)
    pair, ik, jk = third_nodes(start, target, slice(*rows), slice(*own))
    score = (query[ik] * key[jk]).sum(-1)  # [t, h]
    zero = score.new_zeros(own[1] - own[0], score.shape[1])
    most = zero.scatter_reduce(0, pair[:, None].expand_as(score), score, "amax").detach()
    weight = (score - most[pair]).exp()
    norm = (-most).exp().index_add(0, pair, weight)
    value = weight[..., None] * (first[ik] + second[jk])
    mixed = value.new_zeros(*zero.shape, read.shape[-1]).index_add(0, pair, value) / norm[..., None]
    return mixed, most + norm.log()


def third_nodes(start: Tensor, target: Tensor, rows: slice, own: slice) -> tuple[Tensor, Tensor, Tensor]:
    """For every own pair ``ij`` and third node ``k``: which pair, and where ``ik`` and ``jk`` are, all ``[t]``."""
    nodes, degree = len(start) - 1, start.diff()
    source = torch.arange(nodes, device=start.device).repeat_interleave(degree)
    ends = source * nodes + target[: len(source)]  # ascending
    source = torch.arange(nodes, device=start.device)[rows].repeat_interleave(degree[rows])  # [m]
    pair = torch.arange(len(source), device=start.device).repeat_interleave(degree[source])
    before = (degree[source].cumsum(0) - degree[source])[pair]
    ik = start[source][pair] + torch.arange(len(pair), device=start.device) - before
    wanted = target[own][pair] * nodes + target[ik]
    jk = torch.searchsorted(ends, wanted).clamp(max=max(len(ends) - 1, 0))
    shared = ends[jk] == wanted
    return pair[shared], ik[shared], jk[shared]


def _kernels(given: Tensor) -> Any:
    """The module with the kernels for the device of ``given``; imported here because that takes a while."""
    if given.is_cuda:
        from gln.ops import gpu

        return gpu
    from gln.ops import cpu

    return cpu


# With w the weight of a third node and v the product of its value with the gradient of the mixed values, the gradient
# of its score is w (v − delta); delta gathers what the softmax and the log-normaliser add.


@torch.library.custom_op("gln::mix_all", mutates_args=())
def _mix_all(read: Tensor, mask: Tensor, kept: int) -> tuple[Tensor, Tensor, Tensor]:
    """Also ``kept`` weights for the gradient: all or none."""
    mixed, total, weights = _kernels(read).mix_all(read.contiguous(), mask)
    return mixed, total, weights if kept else read.new_empty(0)


@torch.library.custom_op("gln::mix_all_backward", mutates_args=())
def _mix_all_backward(
    read: Tensor, mask: Tensor, kept: Tensor, total: Tensor, delta: Tensor, grad: Tensor
) -> Tensor:
    given = (total.contiguous(), delta.contiguous(), grad.contiguous())
    return _kernels(read).mix_all_backward(read.contiguous(), mask, kept, *given)


@torch.library.custom_op("gln::look_up", mutates_args=())
def _look_up(start: Tensor, target: Tensor, back: Tensor, longest: int) -> Tensor:
    return _kernels(target).look_up(start, target, back, longest)


@torch.library.custom_op("gln::mix_listed", mutates_args=())
def _mix_listed(
    read: Tensor, start: Tensor, target: Tensor, back: Tensor, place: Tensor,
    rows: Sequence[int], own: Sequence[int], longest: int, kept: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Also ``kept`` weights for the gradient: all or none."""
    given = (start, target, back, place, rows, own, longest)
    mixed, total, weights = _kernels(read).mix_listed(read.contiguous(), *given)
    return mixed, total, weights if kept else read.new_empty(0)


@torch.library.custom_op("gln::mix_listed_backward", mutates_args=())
def _mix_listed_backward(
    read: Tensor, start: Tensor, target: Tensor, back: Tensor, place: Tensor,
    rows: Sequence[int], own: Sequence[int], longest: int,
    kept: Tensor, total: Tensor, delta: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    lists = (start, target, back, place, rows, own, longest)
    given = (kept, total.contiguous(), delta.contiguous(), grad.contiguous())
    return _kernels(read).mix_listed_backward(read.contiguous(), *lists, *given)


@_mix_all.register_fake
def _(read: Tensor, mask: Tensor, kept: int) -> tuple[Tensor, Tensor, Tensor]:
    return *_empty(read, *read.shape[:3]), read.new_empty(kept)


@_look_up.register_fake
def _(start: Tensor, target: Tensor, back: Tensor, longest: int) -> Tensor:
    return target.new_empty(0 if target.is_cpu else len(target), padded(longest), dtype=torch.int16)


@_mix_listed.register_fake
def _(
    read: Tensor, start: Tensor, target: Tensor, back: Tensor, place: Tensor,
    rows: Sequence[int], own: Sequence[int], longest: int, kept: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    return *_empty(read, own[1] - own[0]), read.new_empty(kept)


def _empty(read: Tensor, *shape: int) -> tuple[Tensor, Tensor]:
    exact = torch.promote_types(read.dtype, torch.float32)
    return read.new_empty(*shape, *read.shape[-2:]), read.new_empty(*shape, read.shape[-2], dtype=exact)


@_mix_all_backward.register_fake
@_mix_listed_backward.register_fake
def _(read: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(read, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    ctx.numbers = inputs[len(tensors) : -1]  # which rows; nothing for all pairs
    ctx.save_for_backward(*tensors, *output)


def _gradient(ctx: Any, grad: Tensor, grad_total: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    *given, mixed, total, kept = ctx.saved_tensors
    delta = (grad.to(total.dtype) * mixed).sum(-1) - grad_total
    backward = _mix_listed_backward if ctx.numbers else _mix_all_backward
    gradient = backward(*given, *ctx.numbers, kept, total, delta, grad)
    return gradient, *[None] * (len(given) + len(ctx.numbers))


_mix_all.register_autograd(_gradient, setup_context=_keep)
_mix_listed.register_autograd(_gradient, setup_context=_keep)
