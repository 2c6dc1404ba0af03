"""What all edge metrics share: which entries count, and the ratios of their counts."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from gln.errors import GLNError

Entries = Literal["pairs", "all"]

# Sums are kept as whole multiples of 2⁻³⁰: exact, hence equal for any order and any number of processes,
# and possible on devices without float64.
UNIT = 2**30


def check_entries(entries: str) -> None:
    """Refuse anything but ``"pairs"`` and ``"all"``."""
    if entries not in get_args(Entries):
        raise GLNError(
            f'Got entries={entries!r}; expected "pairs" (i < j) or "all" (n² entries, as in the paper).'
        )


def flatten(
    probabilities: Tensor, adj: Tensor, mask: Tensor, entries: Entries
) -> tuple[Tensor, Tensor, Tensor]:
    """The ``P`` entries of every graph that count.

    Args:
        probabilities: ``[B, N, N]``; with ``"pairs"`` the mean of both directions is used, so that the
            order of the nodes does not matter.
        adj: the truth ``[B, N, N]``, bool or 0 and 1.
        mask: ``[B, N]``, True on real nodes.

    Returns:
        score float, truth bool and valid bool, each ``[B, P]``; truth is False where valid is.
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
    if entries == "all":
        valid = (mask[:, :, None] & mask[:, None, :]).flatten(1)
        return score.flatten(1), adj.bool().flatten(1) & valid, valid
    i, j = torch.triu_indices(nodes, nodes, offset=1, device=mask.device)
    valid = mask[:, i] & mask[:, j]
    return (score[:, i, j] + score[:, j, i]) / 2, adj[:, i, j].bool() & valid, valid


def invalid(score: Tensor, valid: Tensor) -> Tensor:
    """How many entries are not probabilities; only counted, since inspecting them would stall an accelerator."""
    return (~((score >= 0) & (score <= 1)) & valid).sum()


def refuse_invalid(count: Tensor, graphs: Tensor) -> None:
    """Raise if :func:`invalid` counted anything, or if there was no graph at all."""
    if int(count):
        raise GLNError(
            f"{int(count)} probabilities are NaN or outside 0 to 1; apply a sigmoid to logits first."
        )
    if not int(graphs):
        raise GLNError("No graph has been scored yet; call update with at least one.")


def real(values: Tensor) -> Tensor:
    """Convert to the widest floating type of the device (Apple's MPS has no float64)."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)


def to_units(values: Tensor) -> Tensor:
    """Values between 0 and 1 as int64 multiples of 2⁻³⁰."""
    return (real(values) * UNIT).round().long()


def ratios(found: Tensor, predicted: Tensor, true: Tensor, entries: Tensor) -> dict[str, Tensor]:
    """Scores from counts of any shape: true edges found, edges predicted, true edges, entries.

    Where a ratio is 0/0: all scores are 1 if there was nothing to find and nothing was predicted; otherwise
    precision without predictions and recall without true edges are 0.
    """
    nothing = real((predicted + true) == 0)

    def ratio(part: Tensor, whole: Tensor) -> Tensor:
        return torch.where(whole > 0, real(part) / real(whole.clamp(min=1)), nothing)

    return {
        "accuracy": ratio(entries - predicted - true + 2 * found, entries),
        "iou": ratio(found, predicted + true - found),
        "dice": ratio(2 * found, predicted + true),
        "precision": ratio(found, predicted),
        "recall": ratio(found, true),
    }


def average_precision(score: Tensor, truth: Tensor, valid: Tensor) -> Tensor:
    """Σ (Rₖ − Rₖ₋₁) Pₖ over the distinct scores of each row ``[B, P]``: ``[B]``, 0 without true edges."""
    score = score.masked_fill(~valid, -1)  # what does not count comes last
    score, order = score.sort(dim=1, descending=True)
    hit = truth.gather(1, order)
    found = hit.cumsum(1)  # true edges among the first k
    place = torch.arange(score.shape[1], device=score.device).expand_as(score)
    # Equal scores enter together: an edge is judged at the last place of its tie.
    tied = torch.zeros_like(hit)
    tied[:, :-1] = score[:, 1:] == score[:, :-1]
    last = place.masked_fill(tied, score.shape[1]).flip(1).cummin(1).values.flip(1)
    precision = real(found.gather(1, last)) / real(last + 1)
    return (precision * hit).sum(1) / hit.sum(1).clamp(min=1)
