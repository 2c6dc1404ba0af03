"""Edge scores of padded batches, as a torchmetrics metric."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric

from gln.errors import GLNError
from gln.evaluation.metrics import POOLED
from gln.evaluation.options import is_number
from gln.evaluation.pairs import (
    UNIT,
    Entries,
    average_precision,
    check_entries,
    flatten,
    invalid,
    ratios,
    real,
    refuse_invalid,
    to_units,
)

PER_GRAPH = ("accuracy", "iou", "dice", "precision", "recall", "average_precision", "exact")


def per_graph(counts: Tensor, precision: Tensor) -> Tensor:
    """The scores :data:`PER_GRAPH` from the ``counts [4, B]`` of :func:`ratios` and AP ``[B]``: ``[7, B]``.

    Without true edges, average precision is 1 if nothing was predicted and 0 otherwise, as the other ratios are.
    """
    found, predicted, true, _ = counts
    scores = ratios(*counts)
    scores["average_precision"] = torch.where(true > 0, precision, scores["recall"])
    scores["exact"] = real((found == predicted) & (found == true))
    return torch.stack([scores[name] for name in PER_GRAPH])


class EdgeScores(Metric):
    """Accuracy, IoU, dice (= F1), precision, recall, average precision and the share of graphs exactly right.

    :meth:`compute` gives the mean over graphs under the plain names and, under ``pooled_*``, the score over
    the entries of all graphs together. Average precision and ``exact`` are means over graphs only: pooled
    average precision would have to keep every score. :func:`gln.evaluation.pairs.ratios` says what 0/0 gives.

    All states are integer sums, so reducing them over processes is exact.

    Args:
        threshold: an entry with at least this probability is an edge.
        entries: ``"pairs"`` counts unordered pairs i < j; ``"all"`` the n² entries, diagonal included.
    """

    full_state_update = False
    higher_is_better = True
    is_differentiable = False

    scores: Tensor  # [7] sums over graphs, in units
    counts: Tensor  # [4] found, predicted, true, entries
    graphs: Tensor
    invalid: Tensor

    def __init__(self, threshold: float = 0.5, entries: Entries = "pairs") -> None:
        super().__init__()
        check_entries(entries)
        if not is_number(threshold) or not 0 <= threshold <= 1:
            raise GLNError(f"Got threshold={threshold!r}; expected a probability between 0 and 1.")
        self.threshold, self.entries = float(threshold), entries
        for name, length in (("scores", len(PER_GRAPH)), ("counts", 4), ("graphs", 0), ("invalid", 0)):
            zeros = torch.zeros(length or (), dtype=torch.int64)
            self.add_state(name, zeros, dist_reduce_fx="sum")

    def update(self, probabilities: Tensor, adj: Tensor, mask: Tensor) -> None:
        """Add a batch: ``probabilities [B, N, N]``, ``adj [B, N, N]`` bool, ``mask [B, N]`` bool."""
        score, truth, valid = flatten(probabilities, adj, mask, self.entries)  # [B, P]
        chosen = (score >= self.threshold) & valid
        counts = torch.stack([part.sum(1) for part in (chosen & truth, chosen, truth, valid)])  # [4, B]
        self.scores = self.scores + to_units(per_graph(counts, average_precision(score, truth, valid))).sum(1)
        self.counts = self.counts + counts.sum(1)
        self.graphs = self.graphs + len(score)
        self.invalid = self.invalid + invalid(score, valid)

    def compute(self) -> dict[str, Tensor]:
        """All scores by name, as scalars."""
        refuse_invalid(self.invalid, self.graphs)
        means = real(self.scores) / UNIT / self.graphs
        pooled = {POOLED + name: value for name, value in ratios(*self.counts).items()}
        return dict(zip(PER_GRAPH, means, strict=True)) | pooled
