"""Candidates for edges that are not near, by a learned score."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gln.graphs.batch import pair_mask
from gln.models.candidates import PairList
from gln.models.features import mlp


class Proposal(nn.Module):
    """The paper's bilinear score ``H Q tanh(H Z)ᵀ``, symmetrised, over all pairs: who may be joined from afar?

    Nodes are seen one by one, by their features and by where they lie in the set as a whole.
    """

    def __init__(self, in_channels: int, pos_channels: int, width: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.embed = mlp(in_channels + (pos_channels or in_channels), 2 * width, width)
        self.Z = nn.Linear(width, width, bias=False)
        self.Q = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, where: Tensor, x: Tensor, mask: Tensor) -> Tensor:
        """Scores ``[B, N, N]``."""
        real = mask[..., None]
        count = real.sum(1, keepdim=True)
        centred = (where - (where * real).sum(1, keepdim=True) / count) * real
        square = centred.square().sum((1, 2), keepdim=True) / count
        spread = square.where(square > 0, 1).sqrt()
        h = self.embed(torch.cat([centred / spread, x], dim=-1))  # [B, N, d]
        score = self.Q(h) @ torch.tanh(self.Z(h)).mT / h.shape[-1] ** 0.5
        return (score + score.mT) / 2 + self.bias

    def best(self, score: Tensor, mask: Tensor) -> PairList:
        """The pairs of every node with those it scores highest, ties included."""
        pairs = pair_mask(mask)
        score = score.masked_fill(~pairs, -torch.inf)
        reach = score.topk(min(self.count, mask.shape[1]), dim=2).values[..., -1:]
        return PairList(*((score >= reach) & pairs).nonzero(as_tuple=True))
