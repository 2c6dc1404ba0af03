"""The numbers of every optimiser step, and what to do about them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from gln.errors import GLNError
from gln.training.checkpoint import Progress
from gln.training.data import Share
from gln.training.recorder import Recorder


@dataclass(frozen=True)
class Step:
    """One optimiser step: its place in the run, and its numbers over all processes, still on the device."""

    number: int
    epoch: int
    batch: int
    lr: float
    share: Share
    numbers: Tensor  # [4]: loss, gradient norm, checkpoint due, stop requested


class Ledger:
    """Keeps the books of a run.

    The numbers are equal in all processes, so that all of them stop, fail or write at the same step; a process on its
    own would leave the others waiting for its gradients.
    """

    def __init__(self, progress: Progress, recorder: Recorder) -> None:
        self.progress, self.recorder = progress, recorder
        self.pending: list[Step] = []
        self.due = self.stop = False

    def settle(self) -> None:
        """Process the pending steps; a number that is not finite ends the run before anything is written."""
        for step in self.pending:
            loss, norm, due, stop = step.numbers.tolist()
            if not math.isfinite(loss + norm):
                what = f"gradient norm is {norm}" if math.isfinite(loss) else f"loss is {loss}"
                raise GLNError(
                    f"The {what} at step {step.number} (epoch {step.epoch + 1}, batch {step.batch + 1}: "
                    f"graphs {', '.join(map(str, step.share.numbers))}); the last good checkpoint is kept; "
                    "train again with a lower lr, or check these graphs."
                )
            self.progress.loss_sum += loss * step.share.total
            self.progress.graphs += step.share.total
            self.due |= due > 0
            self.stop |= stop > 0
            self.recorder.step(step.number, {"loss": loss, "gradient_norm": norm, "lr": step.lr})
        self.pending.clear()
