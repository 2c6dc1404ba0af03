"""The input features of pairs: independent of origin, unit of length and node order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gln.models.pairs import PairEnds

LOCAL = 4  # the unit of length at a node is its mean distance to this many nearest nodes


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two linear layers with a GELU between them."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, outputs))


def pair_features(
    pairs: PairEnds, where: Tensor, pos: Tensor, x: Tensor, unit: Tensor | None = None
) -> Tensor:
    """The input features of pairs, independent of origin and unit of length: ``[B, N, S, 2p + 3 + 2f]``.

    ``unit`` ``[B, N, 1]`` is the unit of length at each node; if not given, it is computed from the pairs.
    """
    offset = pairs.of_target(pos) - pairs.of_source(pos)
    change = (pairs.of_target(x) - pairs.of_source(x)).expand(*pairs.mask.shape, -1)
    distance = pair_length(pairs, where).expand(pairs.mask.shape)  # [B, N, S]
    unit = local_unit(distance, pairs.mask)[..., None] if unit is None else unit
    ours, theirs = pairs.of_source(unit), pairs.of_target(unit)
    common = (ours * theirs).sqrt()
    distance = distance[..., None]
    lengths = [distance / common, (distance / ours + 1e-3).log(), (distance / theirs + 1e-3).log()]
    directions = [(offset / common).expand(*pairs.mask.shape, -1), offset / distance.where(distance > 0, 1)]
    return torch.cat([*directions, *lengths, change, change.abs()], dim=-1) * pairs.mask[..., None]


def index_features(mask: Tensor, channels: int) -> Tensor:
    """The index of every node in its graph, as sines and cosines, the fastest first: ``[B, N, channels]``.

    The wavelengths are powers of two, so that the index can be read off bit by bit.
    """
    place = torch.arange(mask.shape[1], device=mask.device, dtype=torch.float32)
    wave = torch.pi / 2.0 ** torch.arange(channels // 2, device=mask.device)  # the fastest alternates by node
    angle = place[:, None] * wave  # [N, channels / 2]
    return torch.cat([angle.sin(), angle.cos()], dim=-1) * mask[..., None]


def pair_length(pairs: PairEnds, where: Tensor) -> Tensor:
    """The distance between the ends of every pair, with a zero gradient at zero length."""
    square = (pairs.of_target(where) - pairs.of_source(where)).square().sum(-1)
    return torch.where(square > 0, square.clamp(min=torch.finfo(square.dtype).tiny).sqrt(), 0)


def local_unit(distance: Tensor, mask: Tensor) -> Tensor:
    """Mean distance of each node to the nearest few that do not coincide with it: ``[B, N]``; 1 if there are none."""
    near = (
        distance.masked_fill(~mask | (distance == 0), torch.inf)
        .topk(min(LOCAL, mask.shape[-1]), largest=False)
        .values
    )
    real = near.isfinite()
    mean = near.where(real, 0).sum(-1) / real.sum(-1).clamp(min=1)
    return torch.where(mean > 0, mean, 1)
