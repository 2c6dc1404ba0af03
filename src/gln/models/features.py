"""The input features of pairs: independent of origin and node order and, unless asked for, of the unit of length."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gln.models.pairs import Block
from gln.models.settings import Lengths

LOCAL = 4  # the unit of length at a node is its mean distance to this many nearest nodes
SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)  # lengths in the data's own unit that a pair is compared with
WAVES = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25)  # wavelengths in it: a hundredth of it shows, in half precision too


def feature_count(pos: int, x: int, lengths: Lengths, directions: bool, sums: bool) -> int:
    """How many features a pair has whose nodes have ``pos`` and ``x`` of these widths."""
    own = (lengths != "local") * (1 + len(SCALES)) + (lengths == "fine") * 2 * len(WAVES)
    return 2 * pos * directions + 3 + own + (2 + sums) * x


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two linear layers with a GELU between them."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, outputs))


def pair_features(
    block: Block,
    where: Tensor,
    pos: Tensor,
    x: Tensor,
    unit: Tensor,
    lengths: Lengths = "local",
    directions: bool = True,
    sums: bool = False,
) -> Tensor:
    """The input features of the pairs of a block, as many as :func:`feature_count`.

    ==============  ============================================================================================
    directions      the offset between the ends in local units, and its direction
    lengths         the distance in local units (``unit [..., 1]`` is :func:`local_unit`), also as logarithms
    in their unit   if ``lengths`` are absolute: the logarithm of the distance ``d``, and ``d / (d + s)`` for some ``s``
                    if they are fine, also sines and cosines of waves along it
    change          the difference of ``x``, and its size; with ``sums``, also the sum
    ==============  ============================================================================================
    """
    offset = block.target(pos) - block.source(pos)
    change = (block.target(x) - block.source(x)).expand(*block.shape, -1)
    distance = pair_length(block, where)[..., None]
    ours, theirs = block.source(unit), block.target(unit)
    common = (ours * theirs).sqrt()
    parts = [distance / common, (distance / ours + 1e-3).log(), (distance / theirs + 1e-3).log()]
    if directions:
        turned = [(offset / common).expand(*block.shape, -1), offset / distance.where(distance > 0, 1)]
        parts = turned + parts
    if lengths != "local":
        parts += [(distance + 1e-6).log(), *(distance / (distance + scale) for scale in SCALES)]
    if lengths == "fine":
        angle = torch.cat([distance * (2 * torch.pi / wave) for wave in WAVES], dim=-1)
        parts += [angle.sin(), angle.cos()]
    parts += [change, change.abs()]
    if sums:
        parts.append((block.target(x) + block.source(x)).expand(*block.shape, -1))
    return block.only(torch.cat(parts, dim=-1))


def pair_length(block: Block, where: Tensor) -> Tensor:
    """The distance between the ends of every pair, with a zero gradient at zero length."""
    square = (block.target(where) - block.source(where)).square().sum(-1)
    length = torch.where(square > 0, square.clamp(min=torch.finfo(square.dtype).tiny).sqrt(), 0)
    return length.expand(block.shape)


def local_unit(block: Block, where: Tensor) -> Tensor:
    """The unit of length at every node of a block: its mean distance to the nearest few that do not coincide with it.

    It is 1 for a node without any.
    """
    distance = pair_length(block, where)
    distance = block.by_row(distance.masked_fill(distance == 0, torch.inf), torch.inf)
    near = distance.topk(min(LOCAL, distance.shape[-1]), largest=False).values
    real = near.isfinite()
    mean = near.where(real, 0).sum(-1) / real.sum(-1).clamp(min=1)
    return torch.where(mean > 0, mean, 1)


def index_features(mask: Tensor, channels: int) -> Tensor:
    """The index of every node in its graph, as sines and cosines, the fastest first: ``[B, N, channels]``.

    The wavelengths are powers of two, so that the index can be read off bit by bit.
    """
    place = torch.arange(mask.shape[1], device=mask.device, dtype=torch.float32)
    wave = torch.pi / 2.0 ** torch.arange(channels // 2, device=mask.device)  # the fastest alternates by node
    angle = place[:, None] * wave  # [N, channels / 2]
    return torch.cat([angle.sin(), angle.cos()], dim=-1) * mask[..., None]
