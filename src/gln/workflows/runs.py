"""What a run folder says, whether the run is finished or not: settings, history, and the graphs it learned from."""

from __future__ import annotations

import csv
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from gln.errors import GLNError
from gln.files import read_regular
from gln.io import find_files
from gln.storage.facts import MOST_BYTES, Facts, as_kind, conform, read_facts, write_json
from gln.storage.models import find_saved
from gln.storage.runs import Starts, read_config
from gln.training.config import FitConfig
from gln.training.progress import Epoch, Progress, is_finished, merit
from gln.workflows import Say, Skip
from gln.workflows.divide import TrainValTest
from gln.workflows.methods import RECIPE
from gln.workflows.recipe import Recipe
from gln.workflows.training_data import Held, family_data, file_data

DATA = "data.json"  # what the run learned from
COUNTED = ("epoch", "step")  # columns of whole numbers in metrics.csv
COMFORT = ("progress", "checkpoint_minutes")  # settings that change nothing that is computed
RATES = 160  # points at which the learning rate is drawn


class LearnedFrom(TypedDict, total=False):
    """What :func:`noting_data` writes: a family with count and seed, or files; and the words after ``gln train``."""

    family: str
    count: int | None
    seed: int
    files: list[str]
    val: list[str]
    test: list[str]
    command: list[str]


class ModelShown(TypedDict, total=False):
    """What is shown of a model.json."""

    model: str
    baseline: str
    threshold: float
    versions: dict[str, str]
    commit: str | None


class RecipeShown(TypedDict, total=False):
    """What is shown of a recipe."""

    patches: int | None
    seed: int
    reasons: dict[str, str]


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

    @cached_property
    def fit(self) -> FitConfig | None:
        """The training settings; a baseline has none."""
        found = self.config.get("fit")
        if found is None or self.baseline:
            return None
        known = {field.name for field in fields(FitConfig)}
        settings = {name: value for name, value in found.items() if name in known}
        return as_kind(settings, FitConfig, self.run / "config.json")

    @property
    def best_epoch(self) -> int | None:
        """The epoch with the highest validation IoU; of equal ones the lowest loss, then the first, wins."""
        if not self.history:
            return None
        return int(max(self.history, key=merit)["epoch"])

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
    config = read_config(run / "config.json") if (run / "config.json").is_file() else {}
    kinds = {"environment.json": Starts, "model.json": ModelShown, DATA: LearnedFrom, RECIPE: RecipeShown}
    others = [_read(run / name, kind) for name, kind in kinds.items()]
    return RunFacts(run, config, _history(run / "metrics.csv"), *others)


def _read(path: Path, kind: type[Any]) -> Facts:
    """What the file holds, if there is one."""
    return dict(as_kind(read_facts(path), kind, path)) if path.is_file() else {}


def _history(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:
        lines = read_regular(path, MOST_BYTES).decode().splitlines()
        rows: list[Facts] = [
            {name: int(value) if name in COUNTED else float(value) for name, value in row.items()}
            for row in csv.DictReader(lines, strict=True)
        ]
        for number, row in enumerate(rows, start=1):
            conform(row, Epoch)
            if row["epoch"] != number or row["step"] < 1:
                raise ValueError
        return rows
    except (OSError, ValueError, TypeError, csv.Error):  # also bytes that are not UTF-8
        raise GLNError(f"{path} is not the table that a run writes; copy it again.") from None


@contextmanager
def noting_data(
    run: Path,
    words: Sequence[str],
    count: int | None,
    seed: int,
    recipe: Recipe | None,
    val: Held = None,
    test: Held = None,
    typed: Sequence[str] | None = None,
) -> Iterator[None]:
    """When the training inside ends or is interrupted, record in the run folder what the run learned from.

    ``typed`` are the words after ``gln train``; those that repeat it name another run folder.
    """

    def note() -> None:
        facts: dict[str, Any] = {"family": words[0], "count": count, "seed": seed}
        if recipe is not None:
            named = (("files", words), ("val", val), ("test", test))
            given = {name: some for name, some in named if some is not None}
            facts = {name: [str(Path(word).absolute()) for word in some] for name, some in given.items()}
            recipe.save(run / RECIPE)
        if typed is not None:
            again = [f"{run}-again" if Path(word) == run else word for word in typed]
            facts["command"] = [word for word in again if word != "--resume"]
        write_json(run / DATA, facts)

    try:
        yield
    except KeyboardInterrupt:
        if run.is_dir():
            note()
        raise
    note()


def learned_from(run: Path) -> dict[str, Any] | None:
    """What :func:`noting_data` wrote; ``None`` if it wrote nothing."""
    facts = _read(run / DATA, LearnedFrom)
    return facts if "family" in facts or "files" in facts else None


def run_data(run: Path, skip: Skip, say: Say) -> TrainValTest:
    """The graphs that ``gln train`` trained, validated and tested this run on, sampled or read again."""
    facts = learned_from(run)
    if facts is None:
        raise GLNError(f"{run} does not say what it learned from.")
    if "family" in facts:
        return family_data(facts["family"], facts.get("count"), facts.get("seed", 0))
    words, val, test = (facts.get(name) for name in ("files", "val", "test"))
    return file_data(words or [], val, test, Recipe.load(run / RECIPE), skip, say)


def has_learned_from(model: str, paths: Sequence[Path]) -> str:
    """A sentence, if any of ``paths`` is among the files that a run was trained, validated and tested on."""
    facts = learned_from(find_saved(model)) or {}
    known: set[str] = set()
    for word in [word for name in ("files", "val", "test") for word in facts.get(name, [])]:
        with suppress(GLNError):  # the file has been moved
            known |= {os.path.realpath(file) for file in find_files([str(word)])}
    if not any(os.path.realpath(path) in known for path in paths):
        return ""
    way_out = f"gln report {model} scores its test graphs alone"
    return f"{model} was trained on some of these files, so not all graphs are unseen; {way_out}"


def command_of(facts: RunFacts) -> str | None:
    """The ``gln train`` command that repeats the run, if one has begun it."""
    typed = facts.data.get("command")
    return None if typed is None else shlex.join(["gln", "train", *typed])
