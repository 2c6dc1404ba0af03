"""Metrics over padded batches, which may be spread over processes: edge scores, the best threshold, calibration."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor
from torchmetrics import Metric

from gln.errors import GLNError
from gln.evaluation.edges import (
    PER_GRAPH,
    Entries,
    average_precision,
    named,
    per_graph,
    ratios,
    real,
)
from gln.evaluation.kinds import BINS, binned_error
from gln.graphs.batch import pair_mask
from gln.graphs.check import check_choice, check_real, check_whole

# Sums are kept as whole multiples of 2⁻³⁰: exact, hence equal for any order and any number of processes,
# and possible on devices without float64.
UNIT = 2**30


class _PaddedMetric(Metric):
    """A metric whose states are integer sums over the entries that count, so that reducing them is exact.

    Args:
        entries: ``"pairs"`` counts unordered pairs i < j; ``"directed"`` ordered ones, i ≠ j; ``"all"`` the n²
            entries, diagonal included.
        states: the length of every state; 0 for a single number.
    """

    full_state_update = False
    is_differentiable = False

    graphs: Tensor
    invalid: Tensor

    def __init__(self, entries: Entries, **states: int) -> None:
        super().__init__()
        check_choice(type(self).__name__, "entries", entries, get_args(Entries))
        self.entries = entries
        for name, length in {**states, "graphs": 0, "invalid": 0}.items():
            self.add_state(name, torch.zeros(length or (), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, probabilities: Tensor, adj: Tensor, mask: Tensor) -> None:
        """Add a batch: ``probabilities [B, N, N]``, ``adj [B, N, N]`` bool, ``mask [B, N]`` bool."""
        score, truth, valid = flatten(self.entries, probabilities, adj, mask)  # [B, P]
        self.graphs = self.graphs + len(mask)
        # Only counted, since inspecting them would stall an accelerator.
        self.invalid = self.invalid + (_invalid(score) & valid).sum()
        self.add(score, truth, valid)

    def add(self, score: Tensor, truth: Tensor, valid: Tensor) -> None:
        """Add what :func:`flatten` gives, ``[B, P]`` each."""
        raise NotImplementedError


def flatten(
    entries: Entries, probabilities: Tensor, adj: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The ``P`` entries of every graph that count: score float, truth bool and valid bool, each ``[B, P]``.

    ``probabilities`` and the truth ``adj`` (bool, or 0 and 1) are ``[B, N, N]``, the ``mask`` of real nodes ``[B, N]``.
    With ``"pairs"`` the mean of both directions is used, so that the order of the nodes does not matter. Truth is False
    where valid is.
    """
    count, nodes = mask.shape if mask.dim() == 2 else (-1, -1)
    if not probabilities.shape == adj.shape == (count, nodes, nodes):
        raise GLNError(
            f"Got probabilities {list(probabilities.shape)}, adj {list(adj.shape)}, mask {list(mask.shape)}; "
            "expected [B, N, N], [B, N, N] and [B, N]."
        )
    score, mask = probabilities.detach(), mask.bool()
    if not score.is_floating_point() or score.dtype in (torch.float16, torch.bfloat16):
        score = score.float()
    if entries != "pairs":
        pairs = pair_mask(mask) if entries == "directed" else mask[:, :, None] & mask[:, None, :]
        valid = pairs.flatten(1)
        return score.flatten(1), adj.bool().flatten(1) & valid, valid
    i, j = torch.triu_indices(nodes, nodes, offset=1, device=mask.device)
    valid = mask[:, i] & mask[:, j]
    return (score[:, i, j] + score[:, j, i]) / 2, adj[:, i, j].bool() & valid, valid


def _invalid(score: Tensor) -> Tensor:
    return ~((score >= 0) & (score <= 1))


def refuse_invalid(bad: int, graphs: int) -> None:
    """Raise if ``bad`` entries were not probabilities, or if there was no graph at all."""
    if bad:
        raise GLNError(f"{bad} probabilities are NaN or outside 0 to 1; apply a sigmoid to logits first.")
    if not graphs:
        raise GLNError("No graph has been scored yet; call update with at least one.")


def to_units(values: Tensor) -> Tensor:
    """Values between 0 and 1 as int64 multiples of 2⁻³⁰."""
    return (real(values) * UNIT).round().long()


class EdgeScores(_PaddedMetric):
    """Accuracy, IoU, dice (= F1), precision, recall, average precision and the share of graphs exactly right.

    :meth:`compute` gives the mean over graphs under the plain names and, under ``pooled_*``, the score over
    the entries of all graphs together. Average precision and ``exact`` are means over graphs only: pooled
    average precision would have to keep every score. :func:`gln.evaluation.edges.ratios` says what 0/0 gives.

    All states are integer sums, so reducing them over processes is exact.

    Args:
        threshold: an entry with at least this probability is an edge.
        entries: ``"pairs"`` counts unordered pairs i < j; ``"directed"`` ordered ones, i ≠ j; ``"all"`` the n²
            entries, diagonal included.
    """

    higher_is_better = True

    scores: Tensor  # [7] sums over graphs, in units
    counts: Tensor  # [4] found, predicted, true, entries

    def __init__(self, threshold: float = 0.5, entries: Entries = "pairs") -> None:
        super().__init__(entries, scores=len(PER_GRAPH), counts=4)
        self.threshold = float(check_real("EdgeScores", "threshold", threshold, 0, 1))

    def add(self, score: Tensor, truth: Tensor, valid: Tensor) -> None:
        chosen = (score >= self.threshold) & valid
        counts = torch.stack([part.sum(1) for part in (chosen & truth, chosen, truth, valid)])  # [4, B]
        self.scores = self.scores + to_units(per_graph(counts, average_precision(score, truth, valid))).sum(1)
        self.counts = self.counts + counts.sum(1)

    def compute(self) -> dict[str, Tensor]:
        """All scores by name, as scalars."""
        refuse_invalid(int(self.invalid), int(self.graphs))
        return named(real(self.scores) / UNIT / self.graphs, self.counts)


class BestThreshold(_PaddedMetric):
    """The threshold with the highest mean IoU over graphs; ties go to the one nearest to one half.

    Every graph is processed once, however many thresholds there are.

    Args:
        steps: number of thresholds to try, evenly spaced between 0 and 1: 99 gives the hundredths.
        entries: as in :class:`gln.evaluation.EdgeScores`.
    """

    higher_is_better = None

    thresholds: Tensor  # [T]
    iou: Tensor  # [T] sums over graphs, in units

    def __init__(self, steps: int = 99, entries: Entries = "pairs") -> None:
        steps = check_whole("BestThreshold", "steps", steps, 1)
        super().__init__(entries, iou=steps)
        self.register_buffer("thresholds", torch.arange(1, steps + 1) / (steps + 1), persistent=False)

    def add(self, score: Tensor, truth: Tensor, valid: Tensor) -> None:
        self.iou = self.iou + to_units(iou_at(self.thresholds, score, truth, valid)).sum(0)

    def compute(self) -> dict[str, Tensor]:
        """``threshold`` and the mean ``iou`` it reached."""
        refuse_invalid(int(self.invalid), int(self.graphs))
        best = best_of(self.thresholds, self.iou)
        return {"threshold": self.thresholds[best], "iou": real(self.iou[best]) / UNIT / self.graphs}


def iou_at(thresholds: Tensor, score: Tensor, truth: Tensor, valid: Tensor) -> Tensor:
    """The IoU of graphs by entries ``[B, P]`` at every threshold: ``[B, T]``."""
    reached = torch.bucketize(score, thresholds, right=True)  # how many thresholds each entry passes
    zeros = torch.zeros(len(score), len(thresholds) + 1, dtype=torch.int64, device=score.device)
    found, chosen = (
        zeros.scatter_add(1, reached, part.long()).flip(1).cumsum(1).flip(1)[:, 1:]  # [B, T]
        for part in (truth, valid)
    )
    true, entries = (part.sum(1, keepdim=True) for part in (truth, valid))  # [B, 1]
    return ratios(found, chosen, true, entries)["iou"]


def best_of(thresholds: Tensor, iou: Tensor) -> Tensor:
    """The place of the highest IoU ``[T]``; ties go to the threshold nearest to one half."""
    return (thresholds - 0.5).abs().masked_fill(iou < iou.max(), 1.0).argmin()


def calibration_error(probabilities: Tensor, adj: Tensor, mask: Tensor, bins: int = BINS) -> float:
    """Expected calibration error: how far edge probabilities are from the share of pairs that are edges.

    The unordered pairs of all graphs are sorted into ``bins`` of equal width by their probability; the error is the
    mean over pairs of |mean probability − share of true edges| in their bin, and 0 where there is no pair.

    Args:
        probabilities: ``[B, N, N]``; the mean of both directions is used.
        adj: the truth ``[B, N, N]``, bool or 0 and 1.
        mask: ``[B, N]``, True on real nodes.
        bins: number of bins.
    """
    bins = check_whole("calibration_error", "bins", bins, 1)
    score, truth, valid = flatten("pairs", probabilities, adj, mask)
    score, truth = score[valid], truth[valid]
    refuse_invalid(int(_invalid(score).sum()), len(mask))
    return binned_error(score.numpy(force=True), truth.numpy(force=True), bins)
