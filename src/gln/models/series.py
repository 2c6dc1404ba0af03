"""Features that are series: what pairs read where ``x`` holds the same few values at many moments.

A pair is described at every moment ``t`` by ``m_ij(t)``, always in the same way. It reads the mean over time, and then,
in every step, whether it is needed to explain what happens to its first node:
``mean_t n_ij(t) · (s_i(t) + Σ_k g_ik m_ik(t))``, where ``s_i(t)`` is what happens there, and ``g_ik`` says what the
current structure makes of the pair ``ik``. With the force between two particles for ``m`` and the acceleration of one
for ``s``, this is how well the force fits what the others leave over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from gln.models.pairs import Block, joined

REACH = 5  # moments that are read together


class Moments(NamedTuple):
    """What is kept of a series, ``v`` values at each of ``t`` moments."""

    happens: Tensor  # s: [..., t · v], of nodes
    moves: Tensor  # m: [..., t, v], of pairs, 0 where there is none
    fits: Tensor  # n: [..., t, v]


class Series(nn.Module):
    """Reads the series at both ends of a pair, moment by moment."""

    def __init__(self, moments: int, values: int, pair_width: int) -> None:
        super().__init__()
        self.moments, self.width, self.kept = moments, 2 * pair_width, max(pair_width // 2, 1)
        self.nodes = nn.Conv1d(values, 4 * self.width + self.kept, REACH, padding=REACH // 2)
        self.norm = nn.LayerNorm(self.width)
        self.think = nn.Linear(self.width, self.width)
        self.size = nn.Linear(self.width, 2 * self.kept)
        self.way = nn.Linear(self.width, 2 * self.kept, bias=False)
        self.out = nn.Linear(self.width, pair_width)

    def forward(self, blocks: Sequence[Block], x: Tensor) -> tuple[Tensor, Moments]:
        """What pairs read of ``x [..., t · values]``, ``[..., c]``, and what is kept for later."""
        series = x.unflatten(-1, (self.moments, -1)).flatten(0, -3)  # [n, t, values]
        with _exactly(x):
            seen = self.nodes(series.mT).mT.reshape(*x.shape[:-1], self.moments, -1)
        source, target, happens = (
            part.flatten(-2) for part in seen.split([2 * self.width, 2 * self.width, self.kept], dim=-1)
        )
        read, moves, fits = [], [], []
        for block in blocks:
            with _exactly(x):
                both = (block.source(source) + block.target(target)).unflatten(-1, (self.moments, -1))
                one, other = both.chunk(2, dim=-1)
                product = self.norm(one * other)
            moment = gelu(self.think(product))  # [..., t, w]
            # As a force has a size and a way.
            move, fit = (self.size(moment) * self.way(one)).chunk(2, dim=-1)
            read.append(self.out(moment.mean(-2)))
            moves.append(block.only(move))
            fits.append(fit)
        return joined(read), Moments(happens, joined(moves), joined(fits))


def _exactly(x: Tensor) -> torch.autocast:
    """In full precision: what changes from moment to moment, and what keeps neighbours apart, are the last digits."""
    return torch.autocast(x.device.type, enabled=False)


class Explain(nn.Module):
    """How well each pair fits what the current structure leaves unexplained at its first node."""

    def __init__(self, pair_width: int, seen: int) -> None:
        super().__init__()
        kept = max(pair_width // 2, 1)
        self.weigh = nn.Linear(seen, kept)
        self.out = nn.Linear(kept, pair_width)

    def forward(self, blocks: Sequence[Block], moments: Moments, structure: Tensor) -> Tensor:
        """What pairs read, ``[..., c]``, given the current structure ``[..., seen]``."""
        read = []
        for block in blocks:
            move, fit = block.pairs(moments.moves), block.pairs(moments.fits)
            part = self.weigh(block.pairs(structure))[..., None, :] * move
            left = block.of_row(block.row_total(part.flatten(-2))) + block.source(moments.happens)
            # One collision must not outweigh all other moments.
            left = torch.asinh(left.unflatten(-1, fit.shape[-2:]))
            read.append(self.out(torch.asinh((fit * left).mean(-2))))
        return joined(read)
