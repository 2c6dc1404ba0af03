"""Saved models: ``model.safetensors`` with the weights and ``model.json`` with all else, in one folder.

``model.json`` holds the class (a name in ``gln.models.MODELS``, never a path to code), the config that rebuilds it, the
decision threshold, versions, and facts about the training. Reading either file runs no code, whoever wrote it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gln import models
from gln.errors import GLNError
from gln.files import check_format
from gln.later import torch
from gln.storage.provenance import commit, versions
from gln.storage.tensors import (
    clear_disk_errors,
    load_weights,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT = "gln model 1"
SHIPPED = Path(__file__).parent.parent / "shipped"  # trained models of the package, one folder each


def save(model: nn.Module, path: Path | str) -> Path:
    """Write ``model``, with its threshold and the facts about its training, into the folder ``path``.

    Args:
        model: any model with a ``config`` from which ``type(model)(**config)`` rebuilds it.
        path: the folder, created if needed; a model already in it is replaced.
    """
    check_model(model)
    folder = Path(path)
    write_model(model, model.state_dict(), folder)
    return folder


def write_model(
    model: nn.Module, tensors: Mapping[str, Tensor], folder: Path, more: Mapping[str, Any] | None = None
) -> None:
    """Write ``model`` with ``tensors`` as its weights, and ``more`` facts beside its own."""
    facts = {
        "model": type(model).__name__,
        "config": model.config,
        "threshold": float(getattr(model, "threshold", 0.5)),
        "training": getattr(model, "training_facts", None),
        **(more or {}),
    }
    write_saved(folder, tensors, facts)


def write_saved(folder: Path, tensors: Mapping[str, Tensor], facts: dict[str, Any]) -> None:
    """Write ``tensors``, then ``facts`` with the fingerprint that ties the two files together."""
    with clear_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "model.safetensors"
    write_tensors(weights, tensors, {"format": FORMAT})
    tied = {"weights_sha256": hashlib.sha256(weights.read_bytes()).hexdigest()}
    made = {"versions": versions(), "commit": commit()}
    write_json(folder / "model.json", {"format": FORMAT, **facts, **tied, **made})


def load_model(path: Path | str) -> nn.Module:
    """Load the model saved in a folder, such as a run folder, or a shipped model by its name."""
    folder = find_saved(path)
    expected = "a model written by gln.save or a run (gln.load also reads baselines)"
    facts, tensors = read_saved(folder, expected, ("model", "config", "threshold"))
    model = _build(facts, folder / "model.json")
    load_weights(model, tensors, folder / "model.safetensors")
    annotate(model, float(facts["threshold"]), facts.get("training"))
    return model.eval()


def read_saved(folder: Path, expected: str, keys: Sequence[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts and tensors that :func:`write_saved` wrote, with at least ``keys``; ``expected`` says what they are."""
    path, weights = folder / "model.json", folder / "model.safetensors"
    facts = read_json(path)
    check_format(facts.get("format"), FORMAT, path, expected)
    if missing := [key for key in (*keys, "weights_sha256") if key not in facts]:
        raise GLNError(f"{path} holds no {missing[0]}; expected {expected}.")
    tensors, _ = read_tensors(weights)
    if hashlib.sha256(weights.read_bytes()).hexdigest() != facts["weights_sha256"]:
        raise GLNError(
            f"{weights} is not the file that the model.json beside it was written for; "
            "copy both from the same save, or try again if a run is writing them right now."
        )
    return facts, tensors


def annotate(model: nn.Module, threshold: float, training: dict[str, Any] | None) -> None:
    """Attach what training found besides the weights to ``model``; :func:`save` stores it."""
    model.threshold = threshold  # type: ignore[assignment]
    model.training_facts = training  # type: ignore[assignment]


def shipped() -> list[str]:
    """Names of the trained models that come with the package."""
    return sorted(entry.parent.name for entry in SHIPPED.glob("*/model.json"))


def check_model(model: Any) -> None:
    """Refuse anything that cannot be trained and saved."""
    if not isinstance(model, torch.nn.Module) or not isinstance(getattr(model, "config", None), dict):
        raise GLNError(
            f"Got a {type(model).__name__}; expected an nn.Module with a config dict that rebuilds it."
        )


def find_saved(path: Path | str) -> Path:
    """The folder of a saved model: ``path`` itself, the one that holds this file, or a shipped model of that name."""
    folder = Path(path)
    if folder.suffix in (".safetensors", ".json") and folder.is_file():
        folder = folder.parent
    if folder.is_dir():
        if not (folder / "model.json").exists():
            raise GLNError(
                f"{folder} holds no model.json; expected a saved model, or a run after its first epochs."
            )
        return folder
    if str(path) in shipped():
        return SHIPPED / str(path)
    names = ", ".join(shipped()) or "none yet"
    raise GLNError(
        f"There is no folder {str(path)!r} and no shipped model of that name; shipped models: {names}."
    )


def _build(facts: dict[str, Any], path: Path) -> nn.Module:
    name, config = facts["model"], facts["config"]
    if name not in models.MODELS:
        raise GLNError(
            f"{path} names the model class {name!r}, but known are {', '.join(models.MODELS)}; "
            "for a class of your own, set gln.models.MODELS[name] to it before loading."
        )
    try:
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are overwritten
            return models.MODELS[name](**config)
    except GLNError:
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        raise GLNError(
            f"{path} holds a config that {name} does not accept ({error}); use the one it was saved with."
        ) from None
