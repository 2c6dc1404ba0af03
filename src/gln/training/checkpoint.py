"""The whole state of a run in one file.

Order, noise, dropout and learning rate are functions of the seed and the counters below, so the weights, the
optimiser's moments and these counters are all there is to restore.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from gln.errors import GLNError
from gln.storage.tensors import read_tensors, write_tensors

FORMAT = "gln checkpoint 1"


@dataclass
class Progress:
    """The counters of a run, as plain data.

    ``epoch`` epochs are done, ``batch`` batches of the current one, and ``step`` optimiser steps in all. ``loss_sum``
    is the summed loss of the ``graphs`` graphs seen in the current epoch. ``best`` is the highest validation IoU,
    reached in epoch ``best_epoch`` (counted from 1) at ``threshold``. ``history`` has one row per epoch. ``noise``
    is what :func:`gln.generate` needs to know about the training features.
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

    def end_epoch(self, scores: dict[str, float]) -> bool:
        """Add the epoch to the history; returns whether it is the best so far (at equal IoU, the lower loss wins)."""
        self.epoch, self.batch = self.epoch + 1, 0
        row = {"epoch": self.epoch, "step": self.step, "train_loss": self.loss_sum / self.graphs, **scores}
        self.history.append(row | {"seconds": round(self.seconds, 3)})
        self.loss_sum, self.graphs = 0.0, 0
        if self.best_epoch is not None:
            best = self.history[self.best_epoch - 1]
            if (scores["val_iou"], -scores["val_loss"]) <= (best["val_iou"], -best["val_loss"]):
                return False
        self.best, self.best_epoch, self.threshold = scores["val_iou"], self.epoch, scores["threshold"]
        return True


@dataclass
class Checkpoint:
    """What a checkpoint file holds."""

    weights: dict[str, Tensor]
    best: dict[str, Tensor]  # the weights of the best epoch; empty before the first epoch has ended
    optimizer: dict[str, Any]  # like torch's ``Optimizer.state_dict``
    progress: Progress


def write_checkpoint(
    path: Path, model: nn.Module, best: Mapping[str, Tensor], optimizer: Optimizer, progress: Progress
) -> None:
    """Write the state of a run to ``path`` atomically."""
    tensors = {f"weights.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    state = optimizer.state_dict()
    plain: dict[str, dict[str, Any]] = {}
    for index, values in state["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{name}"] = value
            else:
                plain.setdefault(str(index), {})[name] = value
    facts = {
        "format": FORMAT,
        "progress": dataclasses.asdict(progress),
        "optimizer": {"groups": state["param_groups"], "state": plain},
    }
    write_tensors(path, tensors, facts)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read what :func:`write_checkpoint` wrote."""
    tensors, facts = read_tensors(path)
    if facts.get("format") != FORMAT:
        raise GLNError(f"{path} is a {facts.get('format', 'file of weights')!r}; expected a {FORMAT!r}.")
    try:
        return _unpack(tensors, facts)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise GLNError(
            f"{path} claims to be a {FORMAT!r}, but parts of it are missing; use another checkpoint."
        ) from None


def _unpack(tensors: dict[str, Tensor], facts: dict[str, Any]) -> Checkpoint:
    groups: dict[str, dict[str, Tensor]] = {"weights": {}, "best": {}}
    state: dict[int, dict[str, Any]] = {
        int(index): dict(values) for index, values in facts["optimizer"]["state"].items()
    }
    for key, tensor in tensors.items():
        kind, _, name = key.partition(".")
        if kind in groups:
            groups[kind][name] = tensor
        else:
            index, _, name = name.partition(".")
            state.setdefault(int(index), {})[name] = tensor
    optimizer = {"state": state, "param_groups": facts["optimizer"]["groups"]}
    return Checkpoint(groups["weights"], groups["best"], optimizer, Progress(**facts["progress"]))
