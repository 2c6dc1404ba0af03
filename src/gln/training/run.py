"""The run folder: everything a training run leaves behind.

::

    RUN/
      config.json             the resolved config: settings, loss, augmentation, model, what identifies the graphs
      environment.json        one entry per start: time, versions, commit, machine
      metrics.csv             one row per epoch
      tensorboard/            the same, and every tenth step, for TensorBoard
      checkpoint.safetensors  the state of the run; resume=True continues from here
      model.safetensors       the best checkpoint: the weights of the epoch with the highest validation IoU,
      model.json              and their class, config and decision threshold; gln.load(RUN) reads both

Every file except TensorBoard's is written atomically, and reading any of them runs no code.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from gln.errors import GLNError
from gln.files import write_atomically
from gln.storage.provenance import environment
from gln.storage.tensors import clear_disk_errors, read_json, write_json
from gln.training.checkpoint import Progress
from gln.training.config import FREE, FitConfig


class RunFolder:
    """The paths in a run folder; ``kept`` if it outlives the call."""

    def __init__(self, path: Path, kept: bool = True) -> None:
        self.path, self.kept = path, kept
        self.config = path / "config.json"
        self.environment = path / "environment.json"
        self.metrics = path / "metrics.csv"
        self.tensorboard = path / "tensorboard"
        self.checkpoint = path / "checkpoint.safetensors"
        self.model = path / "model.safetensors"

    def begin(self, resolved: dict[str, Any], resume: bool) -> None:
        """Create the folder and record the settings; refuse to mix two runs.

        With ``resume``, a run that does not exist is started, so that one command can be repeated until it succeeds.
        """
        resolved = json.loads(json.dumps(resolved, default=str))  # as read back: tuples become lists
        starts: list[Any] = []
        if self.config.exists():
            if not resume:
                raise GLNError(
                    f"{self.path} already holds a run; resume it with --resume (resume=True) or choose another folder."
                )
            check_same(read_json(self.config), resolved)
            if self.model.exists() and not self.checkpoint.exists():
                raise GLNError(
                    f"{self.path} holds a trained model but no checkpoint to resume from; load it with gln.load "
                    "or train in another folder."
                )
            starts = read_json(self.environment).get("starts", []) if self.environment.exists() else []
        with clear_disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            for unfinished in self.path.glob(".*.part"):  # what a kill left of a file being written
                unfinished.unlink()
        write_json(self.environment, {"starts": [*starts, environment()]})
        write_json(self.config, resolved)

    def write_metrics(self, history: list[dict[str, Any]]) -> None:
        """Write the whole history, so that a resumed run has every epoch once."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(history[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
        with clear_disk_errors(self.metrics):
            write_atomically(self.metrics, text.getvalue().encode())


def resolve(
    config: FitConfig, model: nn.Module, loss: Any, augment: Any, data: dict[str, Any]
) -> dict[str, Any]:
    """Everything that determines what a run computes, as plain data."""
    return {
        "fit": dataclasses.asdict(config),
        "loss": _call(loss),
        "augment": None if augment is None else _call(augment),
        "model": {"name": type(model).__name__, "config": model.config},
        "data": data,
    }


def _call(function: Any) -> dict[str, Any]:
    """A function's name, or a dataclass's name and fields."""
    fields = dataclasses.is_dataclass(function) and not isinstance(function, type)
    name = getattr(function, "__qualname__", type(function).__name__)
    return {"name": name, **(dataclasses.asdict(function) if fields else {})}


def check_same(saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to continue a run with settings that would make it another run."""
    for name, before, after in _differences(saved, now):
        if name.startswith("data."):
            part = name.split(".")[1]
            raise GLNError(
                f"The {part} graphs differ from those the run began with; resume with the same graphs "
                "or start a new run in another folder."
            )
        if name not in {f"fit.{setting}" for setting in FREE}:
            raise GLNError(
                f"The run began with {name}={before!r}, now it is {after!r}; resume with the same value "
                "or start a new run in another folder."
            )
    before, after = saved["fit"]["epochs"], now["fit"]["epochs"]
    if after < before:
        raise GLNError(f"The run began with epochs={before}, now it is {after}; resume with as many or more.")


def _differences(before: Any, after: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _differences(before.get(key), after.get(key), f"{name}.{key}" if name else key)
    elif before != after:
        yield name, before, after


def training_facts(progress: Progress, config: FitConfig) -> dict[str, Any]:
    """What a saved model says about its training."""
    return {
        "epoch": progress.best_epoch,
        "val_iou": progress.best,
        "seed": config.seed,
        "noise": progress.noise,
    }


def is_finished(progress: Progress, config: FitConfig) -> bool:
    """Whether all epochs are done, or the last ``patience`` epochs brought no better one."""
    waited = progress.epoch - (progress.best_epoch or 0)
    return progress.epoch >= config.epochs or (config.patience is not None and waited >= config.patience)
