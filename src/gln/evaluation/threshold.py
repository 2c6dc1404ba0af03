"""Choosing the threshold that scores best on validation graphs."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric

from gln.errors import GLNError
from gln.evaluation.edges import (
    UNIT,
    Entries,
    check_entries,
    flatten,
    invalid,
    ratios,
    real,
    refuse_invalid,
    to_units,
)
from gln.evaluation.options import is_whole


class BestThreshold(Metric):
    """The threshold with the highest mean IoU over graphs; ties go to the one nearest to one half.

    Every graph is processed once, however many thresholds there are, and all states are integer sums.

    Args:
        steps: number of thresholds to try, evenly spaced between 0 and 1: 99 gives the hundredths.
        entries: as in :class:`gln.evaluation.EdgeScores`.
    """

    full_state_update = False
    higher_is_better = None
    is_differentiable = False

    thresholds: Tensor  # [T]
    iou: Tensor  # [T] sums over graphs, in units
    graphs: Tensor
    invalid: Tensor

    def __init__(self, steps: int = 99, entries: Entries = "pairs") -> None:
        super().__init__()
        check_entries(entries)
        if not is_whole(steps) or steps < 1:
            raise GLNError(f"Got steps={steps!r}; expected a whole number, at least 1.")
        self.entries = entries
        self.register_buffer("thresholds", torch.arange(1, steps + 1) / (steps + 1), persistent=False)
        self.add_state("iou", torch.zeros(steps, dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("graphs", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")
        self.add_state("invalid", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, probabilities: Tensor, adj: Tensor, mask: Tensor) -> None:
        """Add a batch: ``probabilities [B, N, N]``, ``adj [B, N, N]`` bool, ``mask [B, N]`` bool."""
        score, truth, valid = flatten(probabilities, adj, mask, self.entries)  # [B, P]
        reached = torch.bucketize(score, self.thresholds, right=True)  # how many thresholds each entry passes
        zeros = torch.zeros(len(score), len(self.thresholds) + 1, dtype=torch.int64, device=score.device)
        found, chosen = (
            zeros.scatter_add(1, reached, part.long()).flip(1).cumsum(1).flip(1)[:, 1:]  # [B, T]
            for part in (truth, valid)
        )
        true, entries = (part.sum(1, keepdim=True) for part in (truth, valid))  # [B, 1]
        self.iou = self.iou + to_units(ratios(found, chosen, true, entries)["iou"]).sum(0)
        self.graphs = self.graphs + len(score)
        self.invalid = self.invalid + invalid(score, valid)

    def compute(self) -> dict[str, Tensor]:
        """``threshold`` and the mean ``iou`` it reached."""
        refuse_invalid(self.invalid, self.graphs)
        centre = (self.thresholds - 0.5).abs().masked_fill(self.iou < self.iou.max(), 1.0)
        best = centre.argmin()
        return {"threshold": self.thresholds[best], "iou": real(self.iou[best]) / UNIT / self.graphs}
