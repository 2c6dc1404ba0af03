"""What can be trained: models and baselines, by name, ignoring case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from torch import nn

from gln.baselines import BASELINES, Baseline, load_baseline, save_baseline
from gln.baselines.base import check_folder, mark_folder, run_facts
from gln.errors import GLNError
from gln.graphs.features import feature_scale
from gln.graphs.record import Graph
from gln.models import MODELS
from gln.models.contract import ScalesFeatures
from gln.registry import parse_spec, write_spec
from gln.storage.models import find_saved, load_model
from gln.storage.tensors import read_json
from gln.training import Interrupted


def find_method(spec: str) -> tuple[str, bool]:
    """``spec`` with its registered name, and whether it is a baseline."""
    asked, settings = parse_spec(spec)
    names = {name.lower(): name for name in (*MODELS, *BASELINES)}
    if asked.lower() not in names:
        raise GLNError(
            f"There is no model {asked!r}; choose from {', '.join(sorted(MODELS))}, "
            f"or from the baselines {', '.join(sorted(BASELINES))}."
        )
    name = names[asked.lower()]
    return write_spec(name, settings), name in BASELINES


def load(path: Path | str) -> nn.Module | Baseline:
    """Load the model or baseline saved in a folder, such as a run folder, or a shipped model by its name."""
    folder = find_saved(path)
    return load_baseline(folder) if "baseline" in read_json(folder / "model.json") else load_model(folder)


def load_for(purpose: Literal["predict", "sample"], path: Path | str) -> Any:
    """Load the model or baseline in ``path``; refuse a baseline that cannot serve ``purpose``. A model serves both."""
    found = load(path)
    if isinstance(found, Baseline) and found.kind != purpose:
        what = (
            "samples new graphs but does not predict them from points; see gln generate"
            if found.kind == "sample"
            else "predicts graphs from points but does not sample new ones; see gln evaluate and gln predict"
        )
        raise GLNError(f"{path} holds {found.name}, which {what}.")
    return found


def fit_baseline(
    model: Baseline,
    train: Sequence[Graph],
    val: Sequence[Graph],
    run: Path,
    *,
    seed: int = 0,
    resume: bool = False,
    progress: bool = False,
) -> None:
    """Fit ``model`` and save it in the folder ``run``; with ``resume``, continue what is there, otherwise refuse to."""
    facts = run_facts(model, train, seed)
    if not resume and any((run / name).exists() for name in ("config.json", "model.json")):
        raise GLNError(f"{run} already holds a run; resume it with --resume or choose another folder.")
    check_folder(run, facts, model.free)
    try:
        model.fit(train, val, seed=seed, progress=progress, folder=run)
    except KeyboardInterrupt:
        if not run.exists():
            raise
        raise Interrupted(f"fitting was interrupted; resume it from {run} with --resume.") from None
    save_baseline(model, run)
    mark_folder(run, facts)


def scale_features(model: nn.Module, train: Sequence[Graph]) -> str | None:
    """Make the model standardise the features, and describe it in words; ``None`` if there is nothing to scale."""
    mean, deviation = feature_scale(train)
    if not isinstance(model, ScalesFeatures) or mean is None or deviation is None:
        return None
    scaled = sum(pair != (0, 1) for pair in zip(mean, deviation, strict=True))
    if not scaled:
        return None
    model.scale_features(mean, deviation)
    rest = len(mean) - scaled
    words = f"columns of x scaled to mean 0 and deviation 1 over the training nodes, in the model: {scaled}"
    return f"{words}; columns of zeros and ones, unchanged: {rest}" if rest else words
