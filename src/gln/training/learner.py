"""The Lightning module that trains any model of this package.

Lightning launches the processes, moves the data and runs the loops. The state of a run, its counters, is in
:class:`gln.training.checkpoint.Progress`; we save and restore it ourselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer
from torch.utils.data import DataLoader

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.models.contract import StructureOutput
from gln.storage.models import annotate, write_model
from gln.training.checkpoint import Checkpoint, Progress, write_checkpoint
from gln.training.config import FitConfig
from gln.training.data import Feed, Share, seed_step
from gln.training.guard import StopRun, StopSignal
from gln.training.ledger import Ledger, Step
from gln.training.recorder import Recorder
from gln.training.run import RunFolder, is_finished, training_facts
from gln.training.validation import Validation

SHARED = 60.0  # seconds that a file may take to appear on another machine

Loss = Callable[[StructureOutput, GraphBatch, nn.Module], Tensor]


class Learner(LightningModule):
    """One training run of ``model``; arguments as in :func:`gln.fit`."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        feed: Feed,
        config: FitConfig,
        run: RunFolder,
        checkpoint: Checkpoint | None,
    ) -> None:
        super().__init__()
        self.model, self.loss, self.feed, self.config, self.run = model, loss, feed, config, run
        self.checkpoint = checkpoint
        self.progress = checkpoint.progress if checkpoint else Progress()
        self.best_weights = checkpoint.best if checkpoint else {}
        self.recorder = Recorder(run.tensorboard if run.kept else None, config.epochs, config.progress)
        self.val_scores: dict[str, float] = {}
        self.ledger = Ledger(self.progress, self.recorder)
        self.clock = self.written = 0.0
        self.written_epoch: int | None = None  # the epoch whose weights are in the run folder's model files
        self.stop = StopSignal()

    def train_dataloader(self) -> DataLoader[Share]:
        return self.feed.train_loader(self.progress, self.trainer)

    def val_dataloader(self) -> DataLoader[Share]:
        return self.feed.val_loader(self.trainer)

    def transfer_batch_to_device(self, batch: Share, device: torch.device, dataloader_idx: int) -> Share:
        return batch.to(device)

    def configure_optimizers(self) -> Optimizer:
        kind = {"adamw": AdamW, "adam": Adam}[self.config.optimizer]
        settings = {"lr": self.config.lr, "weight_decay": self.config.weight_decay}
        fused = self.device.type == "cuda"  # all weights in one kernel
        optimizer = kind(self.model.parameters(), fused=fused, **settings)
        if self.checkpoint is not None:
            kept = self.checkpoint.optimizer  # perhaps from another kind of device
            groups = [group | {"fused": fused} for group in kept["param_groups"]]
            optimizer.load_state_dict(kept | {"param_groups": groups})
            self.checkpoint = None  # frees its memory
        return optimizer

    def on_train_start(self) -> None:
        self.clock = self.written = time.monotonic()
        self.stop.listen()
        if self.trainer.is_global_zero:
            self.recorder.open(self.progress.step)
            if self.progress.step == 0:
                self._write()  # so that a run killed in its first minutes restarts from the same weights
        if self.trainer.world_size > 1:
            self._check_shared()

    def _check_shared(self) -> None:
        """Refuse processes, usually on several machines, that do not see the same run folder."""
        self.trainer.strategy.barrier()
        end = time.monotonic() + SHARED
        while not (seen := self.run.checkpoint.exists()) and time.monotonic() < end:
            time.sleep(0.1)
        step = self.progress.step
        least = self._reduce(torch.tensor([seen, step, -step], device=self.device), "min").tolist()
        if not least[0] or least[1] != -least[2]:
            raise GLNError(
                f"The processes do not see the same files in {self.run.path}; give a folder on a disk that all of "
                "them share."
            )

    def on_train_epoch_start(self) -> None:
        self.recorder.begin_epoch(self.progress.epoch, self.feed.batches, self.progress.batch)

    def on_train_batch_start(self, batch: Share, batch_idx: int) -> None:
        at = self.progress
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self.config.lr_at(at.epoch, at.batch, self.feed.batches)
        seed_step(self.device, self.config.seed, at.epoch, at.batch)  # alike in all processes

    def training_step(self, batch: Share, batch_idx: int) -> Tensor:
        loss = self._losses(batch, self.model(batch.batch)).sum() * batch.weight
        self.in_work = batch, loss.detach()
        return loss

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        # Gradients are already averaged over the processes, so all of them see the same norm.
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf)
        share, loss = self.in_work
        due = time.monotonic() - self.written >= 60 * self.config.checkpoint_minutes
        wishes = torch.tensor([float(due), float(self.stop.asked)], device=self.device)
        mine = torch.cat([torch.stack([loss, norm]), wishes])
        numbers = self._reduce(mine, "mean")
        at, lr = self.progress, optimizer.param_groups[0]["lr"]
        self._settle()  # only the steps before this one, so that we need not wait for the accelerator
        self.ledger.pending.append(Step(at.step + 1, at.epoch, at.batch, lr, share, numbers))

    def on_train_batch_end(self, outputs: Any, batch: Share, batch_idx: int) -> None:
        self.progress.batch += 1
        self.progress.step += 1
        if (self.ledger.due or self.ledger.stop) and self.progress.batch < self.feed.batches:
            self._settle()
            self._write()
            if self.ledger.stop:
                raise StopRun

    def _settle(self) -> None:
        with self._best_rescued():
            self.ledger.settle()

    @contextmanager
    def _best_rescued(self) -> Iterator[None]:
        """If the weights turn out to be broken, save those of the best epoch, which are still good."""
        try:
            yield
        except GLNError:
            self._write_best()
            raise

    def _losses(self, share: Share, output: StructureOutput) -> Tensor:
        with torch.autocast(self.device.type, enabled=False):
            return self.loss(output.full_precision(), share.batch, self.model)  # [B]

    def on_validation_epoch_start(self) -> None:
        self._settle()
        self.validation = Validation(self.device)

    def validation_step(self, batch: Share, batch_idx: int) -> None:
        seed_step(self.device, self.config.seed, 0, batch_idx, self.trainer.global_rank)
        output = self.model(batch.batch)
        losses = self._losses(batch, output)
        if batch.weight:  # a placeholder only keeps the process in step
            self.validation.add(losses, output.soft_adjacency(), batch.batch)

    def on_validation_epoch_end(self) -> None:
        add_up = partial(self._reduce, how="sum")
        with self._best_rescued():
            self.val_scores = self.validation.scores(len(self.feed.val), add_up, self.progress)

    def on_train_epoch_end(self) -> None:
        self._tick()
        at = self.progress
        if at.end_epoch(self.val_scores):
            self.best_weights = {key: value.clone() for key, value in self.model.state_dict().items()}
        self.recorder.end_epoch(at.history[-1])
        if self.trainer.is_global_zero:
            self.run.write_metrics(at.history)
        self.trainer.should_stop = is_finished(at, self.config)
        if self.ledger.due or self.ledger.stop or self.trainer.should_stop:
            self._write()
        if self.ledger.stop and not self.trainer.should_stop:
            raise StopRun

    def on_train_end(self) -> None:
        self.trainer.strategy.barrier()  # so that no process reads what rank 0 has not written yet
        self.recorder.close()

    def _write(self) -> None:
        """Write the state of the run and the best model so far."""
        self._tick()
        self.written, self.ledger.due = self.clock, False
        if self.trainer.is_global_zero:
            optimizer = self.trainer.optimizers[0]
            write_checkpoint(self.run.checkpoint, self.model, self.best_weights, optimizer, self.progress)
            self._write_best()

    def _write_best(self) -> None:
        stale = self.written_epoch != self.progress.best_epoch
        if stale and self.run.kept and self.trainer.is_global_zero:
            self.written_epoch = self.progress.best_epoch
            annotate(self.model, self.progress.threshold, training_facts(self.progress, self.config))
            write_model(self.model, self.best_weights, self.run.path)

    def _tick(self) -> None:
        now = time.monotonic()
        self.progress.seconds += now - self.clock
        self.clock = now

    def _reduce(self, value: Tensor, how: str) -> Tensor:
        return self.trainer.strategy.reduce(value, reduce_op=how)
