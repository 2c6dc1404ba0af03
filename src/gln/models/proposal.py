"""Candidates for edges between distant nodes, by a learned score."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gln.graphs.batch import pair_mask
from gln.models.candidates import PairList
from gln.models.features import mlp

WORKSPACE = 2**24  # scores held at once where the matrix of all pairs would be too large


class Proposal(nn.Module):
    """The paper's bilinear score ``H Q tanh(H Z)ᵀ``, symmetrised, over all pairs: it proposes distant candidates.

    It sees each node on its own, by its features and its position within the whole set.
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
        first, second = self._ends(where, x, mask)
        score = first @ second.mT
        return self._both_ways(score, score.mT)

    def best(self, score: Tensor, mask: Tensor) -> PairList:
        """Pair every node with those it scores highest, ties included."""
        pairs = pair_mask(mask)
        score = score.masked_fill(~pairs, -torch.inf)
        return PairList(*(self._highest(score) & pairs).nonzero(as_tuple=True))

    def best_of_set(self, where: Tensor, x: Tensor) -> Tensor:
        """The same pairs ``[2, q]`` for one set ``[n, ·]``, found some rows of the matrix at a time."""
        mask = torch.ones(1, len(x), dtype=torch.bool, device=x.device)
        first, second = (values[0] for values in self._ends(where[None], x[None], mask))  # [n, d]
        rows = max(1, WORKSPACE // len(x))
        parts = []
        for start in range(0, len(x), rows):
            own = slice(start, start + rows)
            score = self._both_ways(first[own] @ second.mT, second[own] @ first.mT)  # [rows, n]
            score.diagonal(start).fill_(-torch.inf)  # no node is paired with itself
            row, target = (self._highest(score) & score.isfinite()).nonzero(as_tuple=True)
            parts.append(torch.stack([row + start, target]))
        return torch.cat(parts, dim=1)

    def _ends(self, where: Tensor, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The two factors of the score, before both directions are averaged, both ``[B, N, d]``."""
        real = mask[..., None]
        count = real.sum(1, keepdim=True)
        centred = (where - (where * real).sum(1, keepdim=True) / count) * real
        square = (centred.square() / count).sum((1, 2), keepdim=True)  # a sum of squares alone may overflow
        spread = square.where(square > 0, 1).sqrt()
        h = self.embed(torch.cat([centred / spread, x], dim=-1))
        return self.Q(h), torch.tanh(self.Z(h))

    def _both_ways(self, forth: Tensor, back: Tensor) -> Tensor:
        root = self.Q.out_features**0.5
        return (forth / root + back / root) / 2 + self.bias

    def _highest(self, score: Tensor) -> Tensor:
        """True where a score is among the ``count`` highest of its row, ties included."""
        reach = score.topk(min(self.count, score.shape[-1]), dim=-1).values[..., -1:]
        return score >= reach
