"""What each part of GLN contributes: the same short training run with one thing changed.

    python recipes/ablation.py delaunay --runs runs/ablation        # all variants, one after the other
    python recipes/ablation.py surfaces --runs runs/ablation --only usual shared

Every variant sees the same graphs in the same order for the same number of optimiser steps, and the same test graphs,
from a seed that training does not use. Finished variants are kept: repeating the command resumes it, and several
commands may run different variants at the same time. Each writes ``results/ablation-FAMILY-VARIANT.json``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import torch
from tyro.conf import Positional

import gln
from gln.families import parse_family
from gln.inference.predict import AS_TRAINED, Choice
from gln.storage.provenance import check_source, write_result
from gln.training.losses import Loss
from shared import (
    RESULTS,
    TEST_SEED,
    TRAIN_SEED,
    USUAL_LOSS,
    VAL_SEED,
    begin,
    fit,
    predict_and_score,
    run_command,
)

# family: its short form, width of the positions, graphs per step, epochs of 250 steps
FAMILIES = {"delaunay": ("delaunay:points=50", 2, 32, 6), "surfaces": ("surfaces:points=100", 3, 16, 6)}
STEPS_PER_EPOCH, TEST_GRAPHS = 250, 240

# what is changed: settings of the model, settings of the loss
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "usual": ({}, {}),
    "one step": ({"steps": 1}, {}),
    "three steps": ({"steps": 3}, {}),
    "eight steps": ({"steps": 8}, {}),
    "shared weights": ({"shared": True}, {}),
    "loss on the last step": ({}, {"every_step": False}),
    "A not fed back": ({"feedback": False}, {}),
    "no mixing": ({"mixing": False}, {}),
    "balanced edge loss": ({}, {"edge": "balanced"}),
    "no structure loss": ({}, {"structure": "none"}),
    "structure loss alone": ({}, {"psi1": 0}),
}
CANDIDATES = (8, 16, 24, 32, 48)  # for the usual model, when it may not score all pairs


Name = Literal[tuple(VARIANTS)]  # type: ignore[valid-type]


def ablation(
    family: Positional[Literal["delaunay", "surfaces"]],
    runs: Path,
    only: tuple[Name, ...] = tuple(VARIANTS),
) -> None:
    """Train and test every variant."""
    check_source(RESULTS)
    for name in only:
        train_and_test(family, name, runs)


def train_and_test(family: str, name: str, runs: Path) -> None:
    spec, width, batch_size, epochs = FAMILIES[family]
    member = parse_family(spec)
    changes, losses = VARIANTS[name]
    settings = {"epochs": epochs, "batch_size": batch_size, "lr": 1e-3, "warmup": 0.05, "weight_decay": 1e-4}
    begin(TRAIN_SEED)
    model = gln.GLN(pos_channels=width, **changes)
    folder = runs / f"{family}-{name.replace(' ', '-')}"
    start = time.perf_counter()
    result = fit(
        model,
        member.sample(STEPS_PER_EPOCH * batch_size, TRAIN_SEED, cache=runs / "graphs"),
        member.sample(TEST_GRAPHS, VAL_SEED, cache=runs / "graphs"),
        folder,
        loss=Loss(**USUAL_LOSS | losses),
        num_workers=2,
        compile=torch.cuda.is_available(),
        **settings,
    )
    seconds = time.perf_counter() - start
    tests = member.graphs(TEST_GRAPHS, TEST_SEED, cache=runs / "graphs")
    _, scores, _ = predict_and_score(model, tests, AS_TRAINED)
    measured: dict[str, Any] = {
        "family": spec,
        "variant": name,
        "changed": changes | losses,
        "weights": sum(weight.numel() for weight in model.parameters()),
        "steps": STEPS_PER_EPOCH * epochs,
        "fit": settings,
        "training_seconds": round(seconds, 1),
        "validation_iou": [row["val_iou"] for row in result.history],
        "iou": scores["iou"],
        "dice": scores["dice"],
    }
    if name == "usual":
        measured["by_candidates"] = [candidates_row(model, tests, k) for k in CANDIDATES]
    if name == "shared weights":
        measured["by_steps"] = {
            n: predict_and_score(model, tests, Choice(steps=n))[1]["iou"] for n in (3, 5, 8, 12)
        }
    output = RESULTS / f"ablation-{family}-{name.replace(' ', '-')}.json"
    command = f"python recipes/ablation.py {family} --runs {runs} --only '{name}'"
    write_result(output, command, TEST_SEED, measured)
    print(f"{family:<10}{name:<24}IoU {scores['iou']:.4f}  {seconds:5.0f} s", flush=True)


def candidates_row(model: gln.GLN, tests: list[Any], count: int) -> dict[str, float]:
    """The same weights with ``count`` candidates per node instead of all pairs."""
    _, scores, recall = predict_and_score(model, tests, Choice(candidates=count))
    return {"candidates": count, "iou": scores["iou"], "candidate_recall": recall}


if __name__ == "__main__":
    run_command(__doc__, ablation)
