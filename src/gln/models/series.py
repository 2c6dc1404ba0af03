"""Features that are series: what pairs read where ``x`` holds the same few values at many moments."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import gelu

from gln.models.pairs import Block

REACH = 5  # moments that are read together


class Series(nn.Module):
    """Reads the series at both ends of a pair moment by moment, always in the same way.

    A moment of a pair is a product of what both ends say; it is then read beside the sum over all pairs of its first
    node, so that it knows its share in what happens to that node. A pair takes the mean over time.
    """

    def __init__(self, moments: int, values: int, pair_width: int) -> None:
        super().__init__()
        self.moments = moments
        width = 2 * pair_width
        self.ends = nn.Conv1d(values, 4 * width, REACH, padding=REACH // 2)
        self.norm = nn.LayerNorm(width)
        self.think = nn.Linear(width, width)
        self.share = nn.Linear(width, 2 * width)
        self.total = nn.Linear(width, 2 * width)
        self.second = nn.LayerNorm(width)
        self.again = nn.Linear(width, width)
        self.out = nn.Linear(width, pair_width)

    def forward(self, block: Block, x: Tensor) -> Tensor:
        """What the pairs of a block read of ``x [..., moments · values]``: ``[..., c]``."""
        series = x.unflatten(-1, (self.moments, -1)).flatten(0, -3)  # [n, t, v]
        seen = self.ends(series.mT).mT.reshape(*x.shape[:-1], self.moments, 2, -1)  # [..., t, 2, 2w]
        source, target = (part.flatten(-2) for part in seen.unbind(-2))  # each [..., t · 2w]
        both = block.source(source) + block.target(target)
        moment = gelu(self.think(self.norm(self._product(both.unflatten(-1, (self.moments, -1))))))
        total = block.row_total(block.only(moment.flatten(-2)))  # [..., t · w]
        whole = self.total(total.unflatten(-1, (self.moments, -1))).flatten(-2)
        both = self.share(moment) + block.of_row(whole).unflatten(-1, (self.moments, -1))
        moment = moment + gelu(self.again(self.second(self._product(both))))
        return self.out(moment.mean(-2))

    def _product(self, both: Tensor) -> Tensor:
        one, other = both.chunk(2, dim=-1)
        return one * other
