"""Features that are series: what pairs read where ``x`` holds the same few values at many moments."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import gelu

from gln.models.pairs import Block

REACH = 5  # moments that are read together


class Series(nn.Module):
    """Reads the series at both ends of a pair, moment by moment in the same way, and takes the mean over time."""

    def __init__(self, moments: int, values: int, pair_width: int) -> None:
        super().__init__()
        self.moments = moments
        width = 2 * pair_width
        self.ends = nn.Conv1d(values, 4 * width, REACH, padding=REACH // 2)
        self.norm = nn.LayerNorm(width)
        self.think = nn.Linear(width, width)
        self.out = nn.Linear(width, pair_width)

    def forward(self, block: Block, x: Tensor) -> Tensor:
        """What the pairs of a block read of ``x [..., moments · values]``: ``[..., c]``."""
        series = x.unflatten(-1, (self.moments, -1)).flatten(0, -3)  # [n, t, v]
        seen = self.ends(series.mT).mT.reshape(*x.shape[:-1], -1)  # [..., t · 4w]
        source, target = seen.unflatten(-1, (self.moments, 2, -1)).unbind(-2)
        source, target = source.flatten(-2), target.flatten(-2)
        both = (block.source(source) + block.target(target)).unflatten(-1, (self.moments, 2, -1))
        one, other = both.unbind(-2)
        moment = self.norm(one * other)
        moment = gelu(self.think(moment))
        return self.out(moment.mean(-2))
