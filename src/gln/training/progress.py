"""Where a run stands: its counters, averaged weights, the progress bar and the TensorBoard log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from tqdm.auto import tqdm  # type: ignore[import-untyped]

from gln.errors import GLNError
from gln.later import torch
from gln.storage.facts import Facts, as_kind
from gln.training.config import FitConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

EARLY = 10  # in the first steps, the mean of the weights is over a tenth of them
EVERY = 10  # steps between entries for single steps in TensorBoard


class Epoch(TypedDict):
    """A row of the history, perhaps with the scores of :class:`gln.training.losses.KindScores`."""

    epoch: int
    step: int
    train_loss: float
    val_loss: float
    val_iou: float
    threshold: float
    seconds: float
    val_types: NotRequired[float]
    val_weights: NotRequired[float]
    val_nodes: NotRequired[float]
    val_score: NotRequired[float]


def merit(row: Mapping[str, Any]) -> tuple[float, float]:
    """What epochs are compared by: the IoU, or the score if kinds are predicted; at equal ones, the lower loss wins."""
    return row.get("val_score", row["val_iou"]), -row["val_loss"]


@dataclass
class Progress:
    """The counters of a run, as plain data.

    Order, noise, dropout and learning rate are functions of the seed and these counters, so they, the weights and the
    optimiser's moments are all there is to save and restore.

    ``epoch`` epochs are done, ``batch`` batches of the current one, and ``step`` optimiser steps in all. ``loss_sum``
    is the summed loss of the ``graphs`` graphs seen in the current epoch. ``best`` is the validation IoU that the best
    epoch, ``best_epoch`` (counted from 1), reached at ``threshold``. ``history`` has one row per epoch. ``noise`` is
    what :func:`gln.generate` needs to know about the training features, ``names`` the words for types.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    graphs: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_epoch: int | None = None
    threshold: float = 0.5
    history: list[dict[str, Any]] = field(default_factory=list)
    noise: dict[str, Any] | None = None
    names: dict[str, list[str]] | None = None

    def end_epoch(self, scores: dict[str, float], keep_last: bool = False) -> bool:
        """Add the epoch to the history; returns whether it is kept: the best so far, by :func:`merit`, or the last."""
        self.epoch, self.batch = self.epoch + 1, 0
        row = {"epoch": self.epoch, "step": self.step, "train_loss": self.loss_sum / self.graphs, **scores}
        self.history.append(row | {"seconds": round(self.seconds, 3)})
        self.loss_sum, self.graphs = 0.0, 0
        best = None if keep_last or self.best_epoch is None else self.history[self.best_epoch - 1]
        if best is not None and merit(scores) <= merit(best):
            return False
        self.best, self.best_epoch, self.threshold = scores["val_iou"], self.epoch, scores["threshold"]
        return True

    def facts(self, seed: int) -> dict[str, Any]:
        """What a saved model says about its training."""
        named = {"names": self.names} if self.names else {}
        return {"epoch": self.best_epoch, "val_iou": self.best, "seed": seed, "noise": self.noise, **named}


def resumed(facts: Facts, path: Path, row: Any = Epoch) -> Progress:
    """The counters that the checkpoint ``path`` holds; ``row`` is what its history has for each epoch."""
    at = as_kind(facts, Progress, path)
    as_kind(at.history, list[row], path)
    best = 1 if at.best_epoch is None else at.best_epoch
    counts = (at.epoch, at.batch, at.step, at.graphs)
    whole = min(counts) >= 0 and at.epoch == len(at.history) and 1 <= best <= max(1, at.epoch)
    if not whole or not 0 <= at.threshold <= 1 or (at.best is None) != (at.best_epoch is None):
        raise GLNError(f"{path} holds counters that contradict one another; use another checkpoint.")
    return at


def is_finished(progress: Progress, config: FitConfig) -> bool:
    """Whether all epochs are done, or the last ``patience`` epochs brought no better one."""
    waited = progress.epoch - (progress.best_epoch or 0)
    return progress.epoch >= config.epochs or (config.patience is not None and waited >= config.patience)


class Average:
    """The running mean of the weights of ``model``, of which every step keeps the share ``keep``: it wanders less.

    The number that a step reads is a tensor, and its sums are in place: a step can be recorded and replayed.
    """

    def __init__(self, model: nn.Module, keep: float) -> None:
        self.keep = keep
        self.names = [name for name, _ in model.named_parameters()]
        self.weights = [weight.detach() for weight in model.parameters()]
        self.means = [weight.clone() for weight in self.weights]
        self.pull = torch.ones((), device=self.weights[0].device)

    def at_step(self, step: int) -> None:
        """Say how many steps were done before the next one."""
        self.pull.fill_(1 - min(self.keep, (1 + step) / (EARLY + step)))

    def update(self) -> None:
        """Take in the weights after a step."""
        apart = torch._foreach_sub(self.weights, self.means)
        torch._foreach_mul_(apart, self.pull)
        torch._foreach_add_(self.means, apart)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Give the model the averaged weights for a while."""
        before = [weight.clone() for weight in self.weights]
        torch._foreach_copy_(self.weights, self.means)
        try:
            yield
        finally:
            torch._foreach_copy_(self.weights, before)

    def state(self) -> dict[str, Tensor]:
        """The means, by the names of the weights."""
        return dict(zip(self.names, self.means, strict=True))

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from means that :meth:`state` gave; where there are none, from the weights."""
        for name, mean, weight in zip(self.names, self.means, self.weights, strict=True):
            mean.copy_(state.get(name, weight))


class Recorder:
    """The progress bar and the TensorBoard log in ``folder``, beginning at step ``step``.

    Only the first process speaks: in all others every call does nothing.
    """

    def __init__(self, first: bool, folder: Path | None, config: FitConfig, step: int) -> None:
        self.epochs = config.epochs
        self.writer: Any = None
        if first and folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            # purge_step hides what a killed run logged after the checkpoint that we resume from
            self.writer = SummaryWriter(folder, purge_step=step)
        self.bar = tqdm(disable=not (first and config.progress), leave=True, unit="batch", mininterval=0.2)

    def begin_epoch(self, epoch: int, batches: int, done: int) -> None:
        """Begin an epoch of ``batches`` batches, of which ``done`` were done before the run was resumed."""
        self.bar.reset(total=batches)
        self.bar.set_description(f"epoch {epoch + 1}/{self.epochs}", refresh=False)
        self.bar.update(done)

    def step(self, step: int, values: dict[str, float]) -> None:
        """Log one optimiser step."""
        self.bar.update()
        if self.writer is not None and step % EVERY == 0:
            for name, value in values.items():
                self.writer.add_scalar(f"step/{name}", value, step)

    def end_epoch(self, row: dict[str, Any]) -> None:
        """Log one epoch."""
        rest = row["seconds"] / row["epoch"] * (self.epochs - row["epoch"])
        left = tqdm.format_interval(round(rest))
        self.bar.set_postfix(loss=f"{row['train_loss']:.4f}", IoU=f"{row['val_iou']:.4f}", all_epochs_in=left)
        if self.writer is not None:
            for name in row.keys() - {"epoch", "step"}:
                self.writer.add_scalar(f"epoch/{name}", row[name], row["step"])

    def close(self) -> None:
        """Flush and close everything."""
        self.bar.close()
        if self.writer is not None:
            self.writer.close()
