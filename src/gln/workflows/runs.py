"""Read a run folder, whether the run is finished or not."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError
from gln.storage.tensors import read_json
from gln.training.config import FitConfig
from gln.training.progress import Progress, is_finished
from gln.workflows.sources import DATA, RECIPE

COUNTED = ("epoch", "step")  # columns of whole numbers in metrics.csv
RATES = 160  # points at which the learning rate is drawn


@dataclass(frozen=True)
class RunFacts:
    """The contents of the files of a run folder; empty where a file is missing."""

    run: Path
    config: dict[str, Any]
    history: list[dict[str, Any]]
    environment: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    recipe: dict[str, Any]

    @property
    def baseline(self) -> str | None:
        """The name of the baseline, if the run fits one."""
        return self.config.get("baseline") or self.model.get("baseline")

    @property
    def method(self) -> str:
        """The name of the model or baseline."""
        model = self.config.get("model")
        return str(self.baseline or (model or {}).get("name") or self.model.get("model", "a model"))

    @property
    def fit(self) -> FitConfig | None:
        """The training settings; a baseline has none."""
        found = self.config.get("fit")
        if not isinstance(found, dict):
            return None
        known = {field.name for field in fields(FitConfig)}
        try:
            return FitConfig(**{name: value for name, value in found.items() if name in known})
        except TypeError as error:
            raise GLNError(f"{self.run / 'config.json'} holds invalid settings: {error}.") from None

    @property
    def best_epoch(self) -> int | None:
        """The epoch with the highest validation IoU; of equal ones the lowest loss, then the first, wins."""
        if not self.history:
            return None
        return int(max(self.history, key=lambda row: (row["val_iou"], -row["val_loss"]))["epoch"])

    @property
    def finished(self) -> bool:
        """Whether training is finished."""
        if self.fit is None:
            return bool(self.model)
        return is_finished(Progress(epoch=len(self.history), best_epoch=self.best_epoch), self.fit)

    def rates(self) -> dict[str, list[float]]:
        """The learning rate over epochs, steps and seconds so far, computed from the settings."""
        if self.fit is None or not self.history:
            return {}
        batches, steps = int(self.history[0]["step"]), int(self.history[-1]["step"])
        chosen = np.unique(np.linspace(0, steps - 1, min(steps, RATES)).round().astype(int))
        lr = [self.fit.lr_at(*divmod(int(step), batches), batches) for step in chosen]
        done = [0, *(row["step"] for row in self.history)]
        seconds = np.interp(chosen + 1, done, [0, *(row["seconds"] for row in self.history)])
        places = {"epoch": (chosen + 1) / batches, "step": chosen + 1, "seconds": seconds.round(3)}
        return {name: values.tolist() for name, values in places.items()} | {"lr": lr}


def read_run(run: Path) -> RunFacts:
    """Read the text files of a run folder."""
    if not any((run / name).is_file() for name in ("config.json", "model.json")):
        raise GLNError(f"{run} is not a run folder: it holds neither config.json nor model.json.")
    files = ("config.json", "environment.json", "model.json", DATA, RECIPE)
    config, environment, model, data, recipe = (
        read_json(run / name) if (run / name).is_file() else {} for name in files
    )
    return RunFacts(run, config, _history(run / "metrics.csv"), environment, model, data, recipe)


def _history(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [
                {name: int(value) if name in COUNTED else float(value) for name, value in row.items()}
                for row in csv.DictReader(file)
            ]
        if not all({"epoch", "step", "val_iou", "val_loss", "seconds"} <= row.keys() for row in rows):
            raise ValueError
        return rows
    except (ValueError, TypeError):  # also bytes that are not UTF-8
        raise GLNError(f"{path} is not the table that a run writes; copy it again.") from None
