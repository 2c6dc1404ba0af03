"""Loss, IoU and decision threshold on the validation graphs."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.evaluation import BestThreshold
from gln.graphs import GraphBatch
from gln.training.checkpoint import Progress


class Validation:
    """One pass over the validation graphs, across all processes."""

    def __init__(self, device: torch.device) -> None:
        self.best = BestThreshold().to(device)
        self.loss = torch.zeros((), device=device)

    def add(self, losses: Tensor, soft: Tensor, batch: GraphBatch) -> None:
        """Add the per-graph losses ``[B]`` and the soft adjacency ``[B, N, N]`` of a batch."""
        self.loss += losses.sum()
        self.best.update(soft, batch.adj, batch.mask)

    def scores(self, graphs: int, add_up: Callable[[Tensor], Tensor], at: Progress) -> dict[str, float]:
        """Mean loss over the ``graphs`` validation graphs, and the best threshold with the IoU it reaches."""
        loss = float(add_up(self.loss)) / graphs
        if not math.isfinite(loss):
            raise GLNError(
                f"The validation loss is {loss} after step {at.step} (epoch {at.epoch + 1}); the last good "
                "checkpoint is kept; train again with a lower lr, or check the validation graphs."
            )
        best = self.best.compute()
        return {"val_loss": loss, "val_iou": float(best["iou"]), "threshold": float(best["threshold"])}
