"""The report of a run: one page with its curves, scores, test graphs and settings, and the command to repeat it."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any

from torch import nn

from gln.errors import GLNError
from gln.files import write_atomically
from gln.registry import write_spec
from gln.training.config import FitConfig
from gln.training.data import describe
from gln.viewing.pages import assemble, check_page, embed
from gln.viewing.report_gallery import pack_gallery
from gln.workflows.judge import Judged, judge
from gln.workflows.methods import load
from gln.workflows.runs import RunFacts, read_run
from gln.workflows.sources import RECIPE, Say, Skip, run_parts

NO_DATA = (
    "This folder does not say what the run learned from, so its test graphs are unknown and there are no scores. "
    "gln train records it when training ends or is interrupted; gln.fit and older versions do not."
)
CHANGED = (
    "The files or the family that the run learned from have changed since. "
    "Which graphs it has not seen is unknown, so there are no scores."
)


def report_run(run: Path, path: Path, skip: Skip, say: Say) -> Path:
    """Write the report of a run from its folder and from its model's predictions on the test graphs."""
    check_page(path)
    facts = read_run(run)
    if not facts.model:
        return write_report(path, facts, why="There is no model yet: the first epoch is not finished.")
    method, judged = load(run), None
    try:
        parts = run_parts(run, skip, say) if facts.data else None
    except GLNError as error:
        parts, why = None, f"The graphs of the run cannot be read, so there are no scores. {error}"
    else:
        why = NO_DATA if parts is None else CHANGED
    known = facts.config.get("data", {})
    if parts is not None and describe(parts[0]) == (known if facts.baseline else known.get("train")):
        judged, why = judge(method, parts, int(facts.config.get("seed", 0))), ""
    return write_report(path, facts, judged, method, why)


def write_report(
    path: Path, facts: RunFacts, judged: Judged | None = None, method: Any = None, why: str = ""
) -> Path:
    """Write the report of a run as one self-contained page.

    Args:
        path: the page, ``.html``.
        facts: the run, see :func:`gln.workflows.runs.read_run`.
        judged: its scores on the test graphs; ``None`` if there are none, for the reason ``why``.
        method: the trained model or baseline, to show its steps on the graphs of the gallery.
        why: a sentence for the reader.
    """
    check_page(path)
    title = f"{facts.run}"
    page = assemble(
        "report.html",
        ["common.css", "report.css"],
        ["common.js", "graph.js", "drawing.js", "canvas.js", "chart.js", "tile.js", "report.js"],
        embed(report_content(facts, judged, method, why)),
        title,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page.encode())
    return path


def report_content(
    facts: RunFacts, judged: Judged | None, method: Any = None, why: str = ""
) -> dict[str, Any]:
    """Everything that a report shows, as plain data."""
    starts = facts.environment.get("starts") or []
    made = {name: facts.model[name] for name in ("versions", "commit") if name in facts.model}
    content = {
        "title": str(facts.run),
        "method": facts.method,
        "state": _state(facts),
        "history": facts.history,
        "rates": facts.rates(),
        "best": facts.best_epoch,
        "threshold": facts.model.get("threshold"),
        "weights": sum(weight.numel() for weight in method.parameters())
        if isinstance(method, nn.Module)
        else None,
        "scores": None if judged is None else {"rows": judged.rows(), "notes": judged.scores.notes},
        "why": why,
        "gallery": None if judged is None else pack_gallery(judged, method),
        "data": _learned_from(facts),
        "settings": _settings(facts),
        "starts": starts or ([made] if made else []),
        "command": command_of(facts),
        "resume": facts.data != {} and not facts.finished,
    }
    return content


def _state(facts: RunFacts) -> dict[str, Any]:
    """Whether the run is finished, and a sentence about it."""
    if facts.fit is None:
        return {"finished": facts.finished, "words": "" if facts.finished else "The fit is not finished."}
    done, total = len(facts.history), facts.fit.epochs
    if facts.finished:
        stopped = f"Training stopped after {done} of {total} epochs: none of the last {facts.fit.patience} was better."
        return {"finished": True, "words": stopped if done < total else ""}
    words = f"{done} of {total} epochs are done: the run is still training or was interrupted."
    return {"finished": False, "words": words}


def _learned_from(facts: RunFacts) -> list[list[str]]:
    """What the run was trained on: rows of a name and a text."""
    data, rows = facts.data, []
    if isinstance(data.get("family"), str):
        rows.append(["family", data["family"]])
    elif isinstance(data.get("files"), list):
        rows.append(["files", "\n".join(map(str, data["files"]))])
    counted = facts.config.get("data")
    if isinstance(counted, dict):
        parts = {"train": counted} if facts.baseline else counted
        for name, part in parts.items():
            if isinstance(part, dict):
                rows += [[_join(name, key), _text(value)] for key, value in _flat(part)]
    recipe = facts.recipe
    for name in ("patches", "seed"):
        if recipe.get(name) is not None:
            rows.append(
                [{"patches": "nodes per patch", "seed": "seed of the split"}[name], _text(recipe[name])]
            )
    rows += [
        [f"{name.replace('_', ' ')}, why", str(why)] for name, why in (recipe.get("reasons") or {}).items()
    ]
    return rows


def _join(name: str, key: str) -> str:
    title = {"train": "training", "val": "validation"}.get(name, name)
    return f"{title} graphs" if key == "graphs" else f"{title} {key}".replace("sha256", "fingerprint")


def _settings(facts: RunFacts) -> list[dict[str, Any]]:
    """The configuration in groups of rows: name, value, and whether it differs from the default."""
    config = {name: value for name, value in facts.config.items() if name != "data"}
    if facts.fit is None:
        return [
            {"name": facts.method, "rows": [[name, _text(value), False] for name, value in _flat(config)]}
        ]
    usual = vars(FitConfig())
    titles = {"fit": "training", "model": str(config.get("model", {}).get("name", "model"))}
    groups = []
    for name, group in config.items():
        values = group.get("config", group) if isinstance(group, dict) else {}
        rows = [
            [key, _text(value), name == "fit" and key not in COMFORT and usual.get(key, value) != value]
            for key, value in _flat(values)
        ]
        if rows:
            groups.append({"name": titles.get(name, name), "rows": rows})
    return groups


def _flat(values: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Nested dicts as one list of dotted names and values."""
    rows: list[tuple[str, Any]] = []
    for name, value in values.items():
        rows += _flat(value, f"{before}{name}.") if isinstance(value, dict) else [(f"{before}{name}", value)]
    return rows


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


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
