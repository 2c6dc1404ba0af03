"""Calibration: whether edge probabilities match how often edges exist."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric

from gln.errors import GLNError
from gln.evaluation.edges import UNIT, flatten, invalid, real, refuse_invalid, to_units
from gln.evaluation.options import is_whole


class CalibrationError(Metric):
    """Expected calibration error: how far edge probabilities are from the share of pairs that are edges.

    The unordered pairs of all graphs are sorted into bins of equal width by their probability; the error is
    the mean over pairs of |mean probability − share of true edges| in their bin. All states are integer sums.

    Args:
        bins: number of bins.
    """

    full_state_update = False
    higher_is_better = False
    is_differentiable = False

    promised: Tensor  # [bins] sums of probabilities, in units
    true: Tensor  # [bins]
    pairs: Tensor
    graphs: Tensor
    invalid: Tensor

    def __init__(self, bins: int = 15) -> None:
        super().__init__()
        if not is_whole(bins) or bins < 1:
            raise GLNError(f"Got bins={bins!r}; expected a whole number, at least 1.")
        self.bins = bins
        for name, length in (("promised", bins), ("true", bins), ("pairs", 0), ("graphs", 0), ("invalid", 0)):
            self.add_state(name, torch.zeros(length or (), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, probabilities: Tensor, adj: Tensor, mask: Tensor) -> None:
        """Add a batch: ``probabilities [B, N, N]``, ``adj [B, N, N]`` bool, ``mask [B, N]`` bool."""
        score, truth, valid = flatten(probabilities, adj, mask, "pairs")  # [B, P]
        self.graphs = self.graphs + len(score)
        self.invalid = self.invalid + invalid(score, valid)
        score, truth = score[valid].nan_to_num().clamp(0, 1), truth[valid]
        bin_ = (score * self.bins).long().clamp(max=self.bins - 1)  # probability 1 belongs to the last bin
        self.promised = self.promised.scatter_add(0, bin_, to_units(score))
        self.true = self.true.scatter_add(0, bin_, truth.long())
        self.pairs = self.pairs + score.numel()

    def compute(self) -> Tensor:
        """The error, between 0 and 1; 0 where there is no pair."""
        refuse_invalid(self.invalid, self.graphs)
        return (real(self.promised) / UNIT - real(self.true)).abs().sum() / self.pairs.clamp(min=1)


def calibration_error(probabilities: Tensor, adj: Tensor, mask: Tensor, bins: int = 15) -> float:
    """:class:`CalibrationError` of one batch."""
    metric = CalibrationError(bins).to(probabilities.device)
    metric.update(probabilities, adj, mask)
    return float(metric.compute())
