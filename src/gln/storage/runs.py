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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict

from gln.errors import GLNError
from gln.files import check_format, remove_unfinished, write_atomically
from gln.later import torch
from gln.models import MODELS
from gln.storage.facts import Facts, as_kind, clear_disk_errors, read_facts, write_json
from gln.storage.models import read_tensors, write_tensors
from gln.storage.provenance import environment

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

CHECKPOINT = "gln checkpoint 2"


class ModelConfig(TypedDict):
    name: str
    config: Facts


class Epochs(TypedDict):
    epochs: int


class FitRun(TypedDict):
    """The config.json of a run that trains a model."""

    fit: Epochs
    loss: Facts
    augment: Facts | None
    model: ModelConfig
    data: Facts


class BaselineRun(TypedDict, total=False):
    """The config.json of a run that fits a baseline; its settings are there too."""

    baseline: str
    seed: int
    data: Facts


class Starts(TypedDict, total=False):
    """The environment.json of a run."""

    starts: list[Facts]


class CheckpointFacts(TypedDict):
    progress: Facts


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

    def begin(self, config: Facts, resume: bool, free: Sequence[str]) -> None:
        """Create the folder and record ``config``; refuse to mix two runs.

        With ``resume``, a run that does not exist is started, so that one command can be repeated until it succeeds.
        Settings in ``free`` may then differ from those it began with.
        """
        config = json.loads(json.dumps(config, default=str))  # as read back: tuples become lists
        starts: list[Facts] = []
        if self.config.exists():
            if not resume:
                refuse_run(self.path)
            saved = read_config(self.config)
            check_same(_completed(saved), config, free)
            before, after = saved["fit"]["epochs"], config["fit"]["epochs"]
            if after < before:
                raise GLNError(
                    f"The run began with epochs={before}, now it is {after}; resume with as many or more."
                )
            if self.model.exists() and not self.checkpoint.exists():
                raise GLNError(
                    f"{self.path} holds a trained model but no checkpoint to resume from; load it with gln.load "
                    "or train in another folder."
                )
            if self.environment.exists():
                found = as_kind(read_facts(self.environment), Starts, self.environment)
                starts = found.get("starts", [])
        with clear_disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        remove_unfinished(self.path)
        write_json(self.environment, {"starts": [*starts, environment()]})
        write_json(self.config, config)

    def write_metrics(self, history: list[Facts]) -> None:
        """Write the whole history, so that a resumed run has every epoch once."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(history[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
        with clear_disk_errors(self.metrics):
            write_atomically(self.metrics, text.getvalue().encode())


def refuse_run(folder: Path) -> None:
    """Refuse a folder in which something was trained."""
    if any((folder / name).exists() for name in ("config.json", "model.json")):
        raise GLNError(
            f"{folder} already holds a run; resume it with --resume (resume=True) or choose another folder."
        )


def read_config(path: Path) -> Facts:
    """The config.json of a run."""
    found = read_facts(path)
    kind: type[Any] = BaselineRun if "baseline" in found else FitRun
    return dict(as_kind(found, kind, path))


def describe_run(fit: Facts, model: nn.Module, loss: Any, augment: Any, data: Facts) -> Facts:
    """Everything that determines what a run computes, as plain data; ``fit`` are its settings."""
    return {
        "fit": fit,
        "loss": _call(loss),
        "augment": None if augment is None else _call(augment),
        "model": {"name": type(model).__name__, "config": model.config},
        "data": data,
    }


def _call(function: Any) -> Facts:
    """A function's name, or a dataclass's name and fields."""
    fields = dataclasses.is_dataclass(function) and not isinstance(function, type)
    name = getattr(function, "__qualname__", type(function).__name__)
    return {"name": name, **(dataclasses.asdict(function) if fields else {})}


def _completed(saved: Facts) -> Facts:
    """The config of a run with the defaults of those settings of its model that there were not yet when it began."""
    model = saved.get("model")
    if not model or model["name"] not in MODELS:
        return saved
    settings = MODELS.settings(model["name"])
    known = {key: value for key, value in settings.items() if value is not Parameter.empty}
    return saved | {"model": model | {"config": known | model["config"]}}


def check_same(saved: Facts, now: Facts, free: Sequence[str]) -> None:
    """Refuse to continue a run with settings that would make it another run; those in ``free`` may change."""
    for name, before, after in _differences(saved, now):
        if name.startswith("data."):
            part = name.split(".")[1]
            what = f"The {part} graphs differ" if part in ("train", "val") else "The graphs differ"
            raise GLNError(
                f"{what} from those the run began with; resume with the same graphs "
                "or start a new run in another folder."
            )
        if name.removeprefix("fit.") not in free:
            raise GLNError(
                f"The run began with {name}={before!r}, now it is {after!r}; resume with the same value "
                "or start a new run in another folder."
            )


def _differences(before: Any, after: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _differences(before.get(key), after.get(key), f"{name}.{key}" if name else key)
    elif before != after:
        yield name, before, after


@dataclass
class Checkpoint:
    """What a checkpoint file holds: the whole state of a run."""

    weights: dict[str, Tensor]
    best: dict[str, Tensor]  # the weights of the best epoch; empty before the first epoch has ended
    optimizer: dict[int, dict[str, Tensor]]  # the ``state`` in torch's ``Optimizer.state_dict``
    progress: Facts  # the counters of the run
    average: dict[str, Tensor] = dataclasses.field(default_factory=dict)  # averaged weights, if there are any


def write_checkpoint(
    path: Path,
    weights: Mapping[str, Tensor],
    best: Mapping[str, Tensor],
    optimizer: Optimizer,
    progress: Facts,
    average: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """Write the state of a run to ``path`` atomically."""
    groups = {"weights": weights, "best": best, "average": average}
    tensors = {f"{group}.{name}": value for group, some in groups.items() for name, value in some.items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": torch.as_tensor(value) for name, value in values.items()}
    write_tensors(path, tensors, {"format": CHECKPOINT, "progress": progress})


def restore_optimizer(optimizer: Optimizer, state: dict[int, dict[str, Tensor]], path: Path) -> None:
    """Give ``optimizer`` the ``state`` that the checkpoint ``path`` holds; its settings stay as they are."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for index, values in state.items():
        fits = 0 <= index < len(weights) and {"step", "exp_avg", "exp_avg_sq"} == values.keys()
        for name, value in values.items() if fits else ():
            shape = torch.Size() if name == "step" else weights[index].shape
            fits &= value.shape == shape and value.is_floating_point()
        if not fits:
            raise GLNError(
                f"{path} holds another optimiser's state for weight {index}; use another checkpoint."
            )
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def read_checkpoint(path: Path) -> Checkpoint:
    """Read what :func:`write_checkpoint` wrote."""
    tensors, facts = read_tensors(path)
    check_format(facts.get("format"), CHECKPOINT, path, "the checkpoint.safetensors of a run")
    found = as_kind(facts, CheckpointFacts, path)
    groups: dict[str, dict[str, Tensor]] = {"weights": {}, "best": {}, "average": {}}
    state: dict[int, dict[str, Tensor]] = {}
    try:
        for key, tensor in tensors.items():
            kind, _, name = key.partition(".")
            if kind in groups:
                groups[kind][name] = tensor
            else:
                index, _, name = name.partition(".")
                state.setdefault(int(index), {})[name] = tensor
        return Checkpoint(groups["weights"], groups["best"], state, found["progress"], groups["average"])
    except ValueError:  # the name of a tensor
        raise GLNError(
            f"{path} claims to be a {CHECKPOINT!r}, but holds other tensors; use another checkpoint."
        ) from None
