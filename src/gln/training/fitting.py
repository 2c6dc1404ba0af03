"""Training, the same for every model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.utilities.exceptions import MisconfigurationException
from torch import nn

from gln.errors import GLNError
from gln.graphs import as_graphs
from gln.graphs.record import Graph
from gln.storage.models import annotate, check_model, save
from gln.storage.tensors import load_weights
from gln.training.checkpoint import read_checkpoint
from gln.training.compiling import compile_steps, forget_compiled
from gln.training.config import FitConfig
from gln.training.data import Augment, Feed, Source, describe
from gln.training.guard import clear_errors, lost_process, quiet
from gln.training.learner import Learner, Loss
from gln.training.processes import company, place_of
from gln.training.run import RunFolder, is_finished, resolve, training_facts


@dataclass(frozen=True)
class FitResult:
    """The result of a training run.

    ==============  =====================================================================================
    ``history``     one row per epoch: epoch, step, train_loss, val_loss, val_iou, threshold, seconds
    ``best_iou``    the highest validation IoU, and
    ``best_epoch``  the epoch, counted from 1, that reached it at the lowest loss; the model is left there
    ``threshold``   the decision threshold chosen in that epoch, now ``model.threshold``
    ``run``         the run folder, if one was asked for
    ==============  =====================================================================================
    """

    history: list[dict[str, Any]]
    best_iou: float
    best_epoch: int
    threshold: float
    run: Path | None

    def __str__(self) -> str:
        where = f"; {self.run}" if self.run else ""
        return (
            f"validation IoU {self.best_iou:.4f} in epoch {self.best_epoch} of {len(self.history)}, "
            f"threshold {self.threshold:.2f}{where}"
        )


def fit(
    model: nn.Module,
    train: Source,
    val: Sequence[Graph],
    *,
    run: Path | str | None = None,
    resume: bool = False,
    loss: Loss | None = None,
    augment: Augment | None = None,
    config: FitConfig | None = None,
    **settings: Any,
) -> FitResult:
    """Train ``model`` and leave it at its best epoch, with the threshold that suits the validation graphs best.

    Args:
        model: any model as described in :mod:`gln.models`; it is left on the device it was trained on.
        train: graphs, or a function from the epoch to graphs, such as :class:`gln.Fresh`.
        val: graphs on which the best epoch and the decision threshold are chosen.
        run: a folder for checkpoints, logs and the trained model; without it, nothing is saved.
        resume: continue the run in ``run`` exactly where it stands, or start it if there is none.
        loss: per-graph losses ``[B]`` of a batch; default: :class:`gln.training.losses.Loss`, on every step for GLN.
        augment: changes a training graph, with a random generator seeded by seed, epoch and graph.
        config: the settings; default: :class:`FitConfig`.
        settings: single settings by name, such as ``epochs=20``; see :class:`FitConfig`.
    """
    config = (config or FitConfig()).changed(**settings)
    check_model(model)
    if resume and run is None:
        raise GLNError("Got resume=True without a run folder; give run= the folder of the run to continue.")
    if loss is None:
        from gln.training.losses import Loss as DefaultLoss

        loss = DefaultLoss(every_step=getattr(model, "every_step", False))
    source: Source = train if callable(train) else as_graphs(train, "train")
    graphs = as_graphs(val, "val")
    with TemporaryDirectory(prefix="gln-") if run is None else nullcontext(run) as place, quiet():
        folder = RunFolder(Path(place), kept=run is not None)
        trainer = _trainer(config, folder.path)
        place_of(trainer)
        if run is None and trainer.world_size > 1:
            raise GLNError(f"{trainer.world_size} processes need a shared folder; give run=.")
        if trainer.is_global_zero:
            data = {"train": describe(source), "val": describe(graphs)}
            folder.begin(resolve(config, model, loss, augment, data), resume)
        checkpoint = read_checkpoint(folder.checkpoint) if resume and folder.checkpoint.exists() else None
        if checkpoint is not None:
            load_weights(model, checkpoint.weights, folder.checkpoint)
        if checkpoint is None or not is_finished(checkpoint.progress, config):
            model.train()
            feed = Feed(source, graphs, augment, config)
            learner = Learner(model, loss, feed, config, folder, checkpoint)
            if config.compile:
                compile_steps(model)
            with (
                torch.random.fork_rng(devices=_gpus(trainer)),
                clear_errors(folder),
                company(trainer, config.strategy, lost_process(folder)),
            ):
                try:
                    trainer.fit(learner)
                finally:
                    learner.recorder.close()
                    if config.compile:  # else it is as the caller compiled it
                        forget_compiled(model)
        return _finish(model, config, folder, trainer)


def _finish(model: nn.Module, config: FitConfig, folder: RunFolder, trainer: Trainer) -> FitResult:
    """Leave the model at its best epoch, here and in the folder.

    Everything is read from the folder, as another process may have done the training.
    """
    checkpoint = read_checkpoint(folder.checkpoint)
    load_weights(model, checkpoint.best, folder.checkpoint)
    at = checkpoint.progress
    annotate(model, at.threshold, training_facts(at, config))
    if folder.kept and trainer.is_global_zero:
        save(model, folder.path)
    model.to(trainer.strategy.root_device).eval()
    assert at.best is not None
    assert at.best_epoch is not None
    run = folder.path if folder.kept else None
    return FitResult(at.history, at.best, at.best_epoch, at.threshold, run)


def _gpus(trainer: Trainer) -> list[torch.device]:
    """The GPU whose random numbers this process reseeds; among several processes, each may reseed its own."""
    device = trainer.strategy.root_device
    return [device] if device.type == "cuda" and trainer.world_size == 1 else []


def _trainer(config: FitConfig, folder: Path) -> Trainer:
    try:
        return Trainer(
            accelerator=config.accelerator,
            devices=config.devices,
            num_nodes=config.num_nodes,
            strategy=config.strategy,
            precision={"32": "32-true", "bf16": "bf16-mixed"}[config.precision],  # type: ignore[arg-type]
            max_epochs=-1,  # the learner counts, from where a resumed run stands
            reload_dataloaders_every_n_epochs=1,
            use_distributed_sampler=False,  # our shares make the same global batches for any number of processes
            num_sanity_val_steps=0,
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            inference_mode=False,
        )
    except (MisconfigurationException, ValueError, RuntimeError) as error:
        raise GLNError(
            f"Got accelerator={config.accelerator!r}, devices={config.devices!r}, num_nodes="
            f"{config.num_nodes}, strategy={config.strategy!r}, which Lightning refuses on this machine: {error}"
        ) from error
