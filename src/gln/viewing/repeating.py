"""The command that repeats a run."""

from __future__ import annotations

import shlex
from dataclasses import fields
from inspect import signature
from typing import Any

from gln.specs import write_spec
from gln.training.config import FitConfig
from gln.viewing.runs import RunFacts
from gln.viewing.sources import RECIPE

FROM_DATA = ("nodes", "in_channels", "pos_channels", "x_mean", "x_std")  # set by the training graphs
COMFORT = ("progress", "checkpoint_minutes")  # changes nothing that is computed


def command_of(facts: RunFacts) -> str | None:
    """The ``gln train`` command that repeats the run; ``None`` if no such command can."""
    words = ["gln", "train"]
    family, files = facts.data.get("family"), facts.data.get("files")
    if isinstance(family, str):
        words += [family, *_flag("count", facts.data.get("count"))]
        spec = _baseline_spec(facts) if facts.baseline else _model_spec(facts)
        words += ["--model", spec] if spec and spec != "GLN" else []
    elif isinstance(files, list) and facts.recipe:
        words += [*map(str, files), "--from-recipe", str(facts.run / RECIPE)]
    else:
        return None
    if facts.baseline:
        words += _flag("seed", facts.config.get("seed") or None)
    elif facts.fit is None or facts.config.get("augment") is not None:
        return None
    else:
        words += _loss_flags(facts) + _fit_flags(facts)
    return shlex.join([*words, "-o", f"{facts.run}-again"])


def _flag(name: str, value: Any) -> list[str]:
    return [] if value is None else [f"--{name.replace('_', '-')}", str(value)]


def _model_spec(facts: RunFacts) -> str:
    from gln.models import MODELS

    model = facts.config["model"]
    usual = signature(MODELS[model["name"]]).parameters if model["name"] in MODELS else {}
    changed = {
        name: value
        for name, value in model["config"].items()
        if name not in FROM_DATA and not (name in usual and usual[name].default == value)
    }
    return write_spec(model["name"], changed)


def _baseline_spec(facts: RunFacts) -> str:
    from gln.baselines import BASELINES

    name = facts.config["baseline"]
    usual = BASELINES[name].defaults() if name in BASELINES else {}
    given = {key: value for key, value in facts.config.items() if key not in ("baseline", "seed", "data")}
    return write_spec(name, {key: value for key, value in given.items() if usual.get(key) != value})


def _loss_flags(facts: RunFacts) -> list[str]:
    from gln.models import MODELS

    loss = facts.config["loss"]
    words = []
    for name, usual in (("edge", "balanced"), ("structure", "dice")):
        words += _flag(f"{name}_loss", loss[name] if loss.get(name, usual) != usual else None)
    usual_steps = getattr(MODELS.get(facts.config["model"]["name"]), "every_step", False)
    every = loss.get("every_step", usual_steps)
    return words + (_flag("every_step", every) if every != usual_steps else [])


def _fit_flags(facts: RunFacts) -> list[str]:
    """The settings that differ from the defaults; a recipe already holds the batch size."""
    words = []
    for field in fields(FitConfig):
        value, name = getattr(facts.fit, field.name), field.name.replace("_", "-")
        if value == field.default or field.name in COMFORT or (facts.recipe and field.name == "batch_size"):
            continue
        if isinstance(field.default, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", str(value)]
    return words
