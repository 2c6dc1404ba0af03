"""Make what is compared from its settings: a trained network, a shipped one, or a fitted baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reproduction.baselines  # noqa: F401  (registers those of the paper)
from gln import GLNError, Loss, fit
from gln.baselines import Baseline, baseline, load_baseline
from gln.baselines.base import check_folder, run_facts
from gln.models import build_model
from gln.seeds import seeded
from gln.storage.models import load_model
from gln.workflows.methods import put_on
from gln.workflows.train import fit_baseline
from reproduction.data import SEED, Parts, standardised
from reproduction.specs import Settings


def make_system(
    settings: Settings, parts: Parts, run: Path, seed: int = SEED
) -> tuple[Any, Parts, dict[str, Any]]:
    """The system, the graphs as it sees them, and facts about its training.

    ``run`` keeps what takes long: an interrupted training resumes there, and a finished one is not repeated.
    A shipped model has one seed; for another seed, ``run`` must hold the model that its recipe trained.
    """
    if settings.shipped is not None:
        if seed != SEED and not (run / "model.json").exists():
            raise GLNError(
                f"it has to be trained first: {_recipe(settings.shipped, seed)} --run {run.as_posix()}"
            )
        model = put_on(load_model(settings.shipped if seed == SEED else run), "auto")
        training = getattr(model, "training_facts", None) or {}
        training = {
            name: value for name, value in training.items() if name != "noise"
        }  # a long list of sizes
        return model, parts, {"shipped": settings.shipped, "training": training}
    if settings.baseline is not None:
        fitted = _fitted(baseline(settings.baseline), parts, run if settings.kept else None, seed)
        return fitted, parts, {"baseline": str(fitted), "fitted": fitted.fitted}
    shown = standardised(parts) if settings.standardise else parts
    with seeded(seed):
        model = build_model(settings.network, shown.train)
    result = fit(
        model, shown.train, shown.val, run=run, resume=True, loss=Loss(**settings.loss), seed=seed,
        progress=False, **settings.fit,
    )  # fmt: skip
    facts: dict[str, Any] = {
        "model": settings.network,
        "fit": settings.fit,
        "loss": settings.loss,
        "standardise": settings.standardise,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "epochs": len(result.history),
        "best_epoch": result.best_epoch,
        "training_seconds": round(result.history[-1]["seconds"], 1),
        "threshold": result.threshold,
    }
    return model, shown, facts | ({} if settings.trained_on is None else {"trained_on": settings.trained_on})


def _fitted(method: Baseline, parts: Parts, run: Path | None, seed: int) -> Baseline:
    if run is None:
        return method.fit(parts.known, parts.val, seed=seed)
    if (run / "model.json").exists():
        # It has ended, so even the settings that may change on resuming must be the same.
        check_folder(run, run_facts(method, parts.known, seed))
        return load_baseline(run)
    fit_baseline(method, parts.known, parts.val, run, seed=seed, resume=True)
    return method


def _recipe(shipped: str, seed: int) -> str:
    """The command that trains the shipped model from another seed."""
    command = "delaunay.py train" if shipped == "delaunay" else f"families.py train {shipped}"
    return f"python recipes/{command} --seed {1 + 10 * seed}"  # 1 is the shipped model's, 2 the validation graphs'
