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

from gln.baselines import BASELINES
from gln.errors import GLNError
from gln.families import FAMILIES
from gln.files import read_regular
from gln.io import find_files
from gln.models import MODELS
from gln.registry import write_spec
from gln.storage.facts import MOST_BYTES, Facts, as_kind, conform, read_facts
from gln.storage.runs import Starts, read_config
from gln.storage.tensors import write_json
from gln.training.config import OWN, PATIENCE, FitConfig
from gln.training.progress import Epoch, Progress, is_finished, merit
from gln.workflows import Say, Skip
from gln.workflows.divide import TrainValTest
from gln.workflows.methods import FROM_DATA, RECIPE
from gln.workflows.recipe import Recipe
from gln.workflows.training_data import Held, family_data, file_data

DATA = "data.json"  # what the run learned from
COUNTED = ("epoch", "step")  # columns of whole numbers in metrics.csv
COMFORT = ("progress", "checkpoint_minutes")  # settings that change nothing that is computed
TURNED = {"name": "RandomRotation"}  # what config.json says of the augmentation of gln train
RATES = 160  # points at which the learning rate is drawn


class LearnedFrom(TypedDict, total=False):
    """What :func:`noting_data` writes: a family with count and seed, or files."""

    family: str
    count: int | None
    seed: int
    files: list[str]
    val: list[str]
    test: list[str]


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


def is_run(word: str) -> bool:
    """Whether this is the folder of a run or of a saved model."""
    return word not in FAMILIES and _is_run(Path(word))


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", "model.json"))


def read_run(run: Path) -> RunFacts:
    """Read the text files of a run folder."""
    if not _is_run(run):
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
) -> Iterator[None]:
    """When the training inside ends or is interrupted, record in the run folder what the run learned from."""

    def note() -> None:
        if recipe is None:
            write_json(run / DATA, {"family": words[0], "count": count, "seed": seed})
        else:
            parts = {"files": words, "val": val, "test": test}
            named = {
                name: [str(Path(word).absolute()) for word in some]
                for name, some in parts.items()
                if some is not None
            }
            write_json(run / DATA, named)
            recipe.save(run / RECIPE)

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
    recipe = Recipe.load(run / RECIPE)
    words, val, test = (facts.get(name) for name in ("files", "val", "test"))
    how: dict[str, Any] = {"options": recipe.read, "patches": recipe.patches, "seed": recipe.seed}
    return file_data(words or [], val, test, **how, skip=skip, say=say)


def has_learned_from(model: str, paths: Sequence[Path]) -> str:
    """A sentence, if any of ``paths`` is among the files that a run was trained, validated and tested on."""
    run = Path(model)
    facts = learned_from(run) if run.is_dir() else None
    known: set[str] = set()
    for word in [word for name in ("files", "val", "test") for word in (facts or {}).get(name, [])]:
        with suppress(GLNError):  # the file has been moved
            known |= {os.path.realpath(file) for file in find_files([str(word)])}
    if not any(os.path.realpath(path) in known for path in paths):
        return ""
    way_out = f"gln report {model} scores its test graphs alone"
    return f"{model} was trained on some of these files, so not all graphs are unseen; {way_out}"


def command_of(facts: RunFacts) -> str | None:
    """The ``gln train`` command that repeats the run; ``None`` if no such command can."""
    words = ["gln", "train"]
    family, files = facts.data.get("family"), facts.data.get("files")
    if family is not None:
        words += [family, *_flag("count", facts.data.get("count"))]
        spec = _spec(facts)
        words += ["--model", spec] if spec and spec != "GLN" else []
    elif files is not None and facts.recipe:
        words += [*files, "--from-recipe", str(facts.run / RECIPE)]
        for name in ("val", "test"):
            if (held := facts.data.get(name)) is not None:
                words += [f"--{name}", *(held or ["none"])]
    else:
        return None
    if facts.baseline:
        words += _flag("seed", facts.config.get("seed") or None)
    elif facts.fit is None or (facts.config.get("augment") or TURNED) != TURNED:
        return None
    else:
        turned = family is not None and facts.config.get("augment")  # a recipe says it itself
        words += _flag("turned", "yes" if turned else None) + _loss_flags(facts) + _fit_flags(facts)
    return shlex.join([*words, "-o", f"{facts.run}-again"])


def _flag(name: str, value: Any) -> list[str]:
    return [] if value is None else [f"--{name.replace('_', '-')}", str(value)]


def _spec(facts: RunFacts) -> str:
    """The model or baseline with the settings that differ from its defaults."""
    if facts.baseline:
        name, chosen = facts.config["baseline"], facts.config
        given = {key: chosen[key] for key in chosen if key not in ("baseline", "seed", "data")}
        usual = BASELINES[name].defaults() if name in BASELINES else {}
    else:
        name, chosen = facts.config["model"]["name"], facts.config["model"]["config"]
        given = {key: chosen[key] for key in chosen if key not in FROM_DATA}
        usual = MODELS.settings(name) if name in MODELS else {}
    changed = {key: value for key, value in given.items() if key not in usual or usual[key] != value}
    return write_spec(name, changed)


def _loss_flags(facts: RunFacts) -> list[str]:
    loss = facts.config["loss"]
    words = []
    kind = MODELS.get(facts.config["model"]["name"])
    own = {"edge": "balanced", "structure": "dice"} | getattr(kind, "loss_settings", {})
    for name, usual in own.items():
        words += _flag(f"{name}_loss", loss[name] if loss.get(name, usual) != usual else None)
    usual_steps = getattr(kind, "every_step", False)
    every = loss.get("every_step", usual_steps)
    return words + (_flag("every_step", "yes" if every else "no") if every != usual_steps else [])


def _fit_flags(facts: RunFacts) -> list[str]:
    """The settings that differ from the defaults; a recipe already holds the batch size."""
    words = []
    for field in fields(FitConfig):
        value, name = getattr(facts.fit, field.name), field.name.replace("_", "-")
        usual = PATIENCE if field.name == "patience" else field.default
        if field.name in OWN:
            usual = getattr(MODELS.get(facts.config["model"]["name"]), OWN[field.name], None)
        if value == usual or field.name in COMFORT or (facts.recipe and field.name == "batch_size"):
            continue
        if isinstance(field.default, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", str(value)]
    return words
