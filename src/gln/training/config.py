"""How to train, as plain data: settings of :func:`gln.fit`, flags of ``gln train``, the saved config of a run."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gln.errors import GLNError, instead
from gln.graphs.check import check_choice, check_real, check_whole
from gln.seeds import check_seed

Optimizer = Literal["adamw", "adam"]
Schedule = Literal["cosine", "constant"]
Precision = Literal["auto", "32", "bf16"]

CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": get_args(Optimizer),
    "schedule": get_args(Schedule),
    "precision": get_args(Precision),
    "accelerator": ("auto", "cpu", "gpu", "cuda", "mps", "tpu"),
    # Sharded strategies split the weights, but checkpoints hold them whole; and a process that Lightning forks or
    # spawns can report an error only as text.
    "strategy": ("auto", "ddp", "ddp_find_unused_parameters_true"),
}

# Where there are several processes, one of these is set in the environment.
SEVERAL = {"TORCHELASTIC_RUN_ID", "SLURM_NTASKS", "LOCAL_RANK", "NODE_RANK"}
PATIENCE = 20  # of gln train: a new user's runs end when they no longer improve

# Settings of where and how a run computes, not what: these may change when it is resumed.
FREE = (
    "epochs",
    "accelerator",
    "devices",
    "num_nodes",
    "strategy",
    "num_workers",
    "checkpoint_minutes",
    "progress",
)

# Settings that a model may know best, and its attribute that says so.
OWN = {"average": "averages", "keep_last": "keeps_last"}

# The least that each number may be.
LEAST_WHOLE = {"epochs": 1, "batch_size": 1, "patience": 1, "num_workers": 0, "num_nodes": 1}
LEAST = {"lr": 0, "weight_decay": 0, "warmup": 0, "clip": 0, "checkpoint_minutes": 0, "average": 0}


@dataclass(frozen=True)
class FitConfig:
    """The settings of a training run.

    Args:
        epochs: passes over the training graphs. A resumed run may have more than it began with.
        batch_size: graphs per optimiser step, over all processes.
        optimizer: AdamW or Adam.
        lr: the highest learning rate of the schedule.
        weight_decay: AdamW's decoupled decay, or Adam's L2 term.
        schedule: cosine falls from lr to 0 at the last epoch; constant stays at lr.
        warmup: share of all epochs over which the learning rate first rises from 0.
        clip: scale larger gradients down to this norm; None: never.
        precision: 32, or bf16 for bfloat16 products with float32 weights, losses and scores; auto is bf16 for GLN on a
            GPU that has it, and 32 otherwise.
        compile: let ``torch.compile`` fuse the model's steps; pays off after a minute of compiling.
        patience: stop after this many epochs without a better one; None: never.
        average: validate and keep weights averaged over the steps, of which each keeps this share of the average, such
            as 0.999; 0: the weights as they are; None: what suits the model.
        keep_last: keep the last epoch, not the one with the best validation score; None: what suits the model.
        seed: determines order, noise and dropout.
        checkpoint_minutes: how often to write a checkpoint; one is always written at the end.
        num_workers: processes per device that prepare batches in the background.
        accelerator: where to compute: auto, cpu, gpu, … (Lightning's names).
        devices: number of devices per machine, or auto for all.
        num_nodes: number of machines.
        strategy: how several processes share the work: auto or ddp; ddp_find_unused_parameters_true for a model of
            your own that does not use all its weights in every batch.
        progress: show a progress bar.
    """

    epochs: int = 100
    batch_size: int = 20
    optimizer: Optimizer = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.01
    schedule: Schedule = "cosine"
    warmup: float = 0.05
    clip: float | None = 1.0
    precision: Precision = "auto"
    compile: bool = False
    patience: int | None = None
    average: float | None = None
    keep_last: bool | None = None
    seed: int = 0
    checkpoint_minutes: float = 0.5
    num_workers: int = 0
    accelerator: str = "auto"
    devices: int | str = 1
    num_nodes: int = 1
    strategy: str = "auto"
    progress: bool = True

    def __post_init__(self) -> None:
        for name, bound in (LEAST_WHOLE | LEAST).items():
            value = getattr(self, name)
            if value is None and name in ("clip", "patience", "average"):
                continue
            check = check_whole if name in LEAST_WHOLE else check_real
            object.__setattr__(self, name, check("Training", name, value, bound))
        devices = str(self.devices)
        if not re.fullmatch("auto|[1-9][0-9]*|[0-9]+(,[0-9]+)*,?|-1", devices.strip("[]").replace(" ", "")):
            raise GLNError(f"Got devices={self.devices!r}; expected a whole number of at least 1, or auto.")
        if self.clip == 0:
            raise GLNError("Got clip=0, with which nothing would be learned; None means never to clip.")
        if self.warmup > 1:
            raise GLNError(f"Got warmup={self.warmup}; expected a share of all epochs, between 0 and 1.")
        if self.average is not None and self.average >= 1:
            raise GLNError(f"Got average={self.average}; expected a share below 1, such as 0.999.")
        object.__setattr__(self, "seed", check_seed("Training", self.seed))
        for name, known in CHOICES.items():
            check_choice("Training", name, getattr(self, name), known)

    def lr_at(self, epoch: int, batch: int, batches: int) -> float:
        """The learning rate of step ``batch`` of the ``batches`` in ``epoch``: there is no scheduler to restore."""
        now = epoch + (batch + 0.5) / batches  # the middle of the step: none is wasted on a rate of 0
        warm = self.warmup * self.epochs
        if now < warm:
            return self.lr * now / warm
        if self.schedule == "constant":
            return self.lr
        return self.lr * 0.5 * (1 + math.cos(math.pi * (now - warm) / (self.epochs - warm)))

    def changed(self, **settings: Any) -> FitConfig:
        """This config with other settings, whose names are checked."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in settings:
            if name not in known:
                raise GLNError(f"Training has no setting {name!r}; {instead(name, known)}")
        return dataclasses.replace(self, **settings)
