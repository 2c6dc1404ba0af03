"""The progress bar and the TensorBoard log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tqdm.auto import tqdm  # type: ignore[import-untyped]

EVERY = 10  # steps between entries for single steps in TensorBoard


class Recorder:
    """Shows and logs progress; only rank 0 opens it, and in all other processes every call does nothing."""

    def __init__(self, folder: Path | None, epochs: int, progress: bool) -> None:
        self.folder = folder
        self.epochs = epochs
        self.progress = progress
        self.bar: Any = None
        self.writer: Any = None

    def open(self, step: int) -> None:
        """Begin at optimiser step ``step``."""
        if self.folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            # purge_step hides what a killed run logged after the checkpoint that we resume from
            self.writer = SummaryWriter(self.folder, purge_step=step)
        self.bar = tqdm(disable=not self.progress, leave=True, unit="batch", mininterval=0.2)

    def begin_epoch(self, epoch: int, batches: int, done: int) -> None:
        """Begin an epoch of ``batches`` batches, of which ``done`` were done before the run was resumed."""
        if self.bar is not None:
            self.bar.reset(total=batches)
            self.bar.set_description(f"epoch {epoch + 1}/{self.epochs}", refresh=False)
            self.bar.update(done)

    def step(self, step: int, values: dict[str, float]) -> None:
        """Log one optimiser step."""
        if self.bar is not None:
            self.bar.update()
        if self.writer is not None and step % EVERY == 0:
            for name, value in values.items():
                self.writer.add_scalar(f"step/{name}", value, step)

    def end_epoch(self, row: dict[str, Any]) -> None:
        """Log one epoch."""
        if self.bar is not None:
            self.bar.set_postfix(loss=f"{row['train_loss']:.4f}", IoU=f"{row['val_iou']:.4f}")
        if self.writer is not None:
            for name in row.keys() - {"epoch", "step"}:
                self.writer.add_scalar(f"epoch/{name}", row[name], row["step"])

    def close(self) -> None:
        """Flush and close everything."""
        for part in (self.bar, self.writer):
            if part is not None:
                part.close()
        self.bar = self.writer = None
