"""The paper's own network on the paper's own protocol: ordered nodes, the paper's sizes, 80 % train and 20 % test.

    python recipes/paper.py released-community-2        # one run: trains, tests, writes results/paper-….json
    python recipes/paper.py                             # lists the runs

Repeat the command to resume a run. Test scores count all n² entries, as in the paper.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from tyro.conf import Positional

import gln
from gln.baselines import Constant
from gln.families import parse_family
from gln.models import StructureOutput, build_model
from gln.storage.provenance import write_result
from gln.training.losses import Loss
from shared import RESULTS, run_command, score_all_entries

SEED = 0
PAPER_FIT = {"optimizer": "adam", "schedule": "constant", "warmup": 0.0, "weight_decay": 0.0, "clip": None}


@dataclass(frozen=True)
class Run:
    """One training run: its graphs, network and settings, and what the paper publishes for it."""

    family: str
    model: str
    fit: dict[str, Any]
    loss: Loss = field(default_factory=Loss)
    published_iou: float | None = None
    standardise: bool = (
        False  # features to mean 0 and deviation 1 over the training graphs, as in the released code
    )


def paper_settings(lr: float, epochs: int) -> dict[str, Any]:
    """Adam at a constant rate, batches of 20 (the batch size is the released code's)."""
    return PAPER_FIT | {"lr": lr, "epochs": epochs, "batch_size": 20}


FIND = {"optimizer": "adam", "lr": 1e-2, "weight_decay": 0.0, "batch_size": 20}  # the settings we found
COUNTS = {"surfaces:kind=torus,order=ordered": 200}  # the paper has 200 of each kind
EVERY = Loss(every_step=True)
COMMUNITY_2, COMMUNITY_4 = "community:order=ordered", "community:communities=4,order=ordered"
TORUS = "surfaces:kind=torus,order=ordered"

RUNS = {
    "released-community-2": Run(
        COMMUNITY_2,
        "PaperGLN:variant=released",
        paper_settings(1e-5, 150),
        Loss(edge="released", structure="iou"),
        0.993,
    ),
    "equations-community-2-best": Run(
        COMMUNITY_2, "PaperGLN:variant=equations,identity_m=true", FIND | {"epochs": 150}, published_iou=0.993
    ),
    "equations-community-4-best": Run(
        COMMUNITY_4, "PaperGLN:variant=equations,identity_m=true", FIND | {"epochs": 60}, published_iou=0.992
    ),
    "equations-torus-best": Run(
        TORUS, "PaperGLN:variant=equations,identity_m=true", FIND | {"epochs": 100}, published_iou=0.999
    ),
}


CHANGES = ("m_bias", "normalise", "identity_m")  # what turns equations into stabilised
STABILISED = {
    "torus": Run(TORUS, "PaperGLN:variant=stabilised", FIND | {"epochs": 60}, EVERY, 0.999),
    # One step: with more, the features of this family are averaged away before they reach the last structure.
    "figures-10": Run(
        "figures:side=10,order=ordered",
        "PaperGLN:variant=stabilised,steps=1,init=0.3",
        FIND | {"batch_size": 10, "epochs": 40},
        Loss(edge="plain", psi1=10),
        standardise=True,
    ),
}
for name, full in STABILISED.items():
    RUNS[f"ablation-{name}-full"] = full
    for change in CHANGES:
        RUNS[f"ablation-{name}-without-{change}"] = replace(full, model=f"{full.model},{change}=false")

# Other readings of the paper's loss and scores; the paper's sum over all pairs is our mean times their number.
EQUATIONS = {
    "community-2": Run(COMMUNITY_2, "PaperGLN:variant=equations", paper_settings(1e-5, 150), Loss(), 0.993),
    "torus": Run(TORUS, "PaperGLN:variant=equations", paper_settings(5e-6, 200), Loss(), 0.999),
}
for name, pairs in (("community-2", 40 * 39), ("torus", 100 * 99)):
    ours = EQUATIONS[name]
    literal = f"{ours.model},symmetric=false"
    RUNS[f"reading-{name}-beta"] = replace(ours, loss=Loss(edge="literal"))
    RUNS[f"reading-{name}-sum"] = replace(ours, loss=Loss(psi1=pairs))
    RUNS[f"reading-{name}-asymmetric"] = replace(ours, model=literal)
    RUNS[f"reading-{name}-all"] = replace(ours, model=literal, loss=Loss(edge="literal", psi1=pairs))


def score(
    model: torch.nn.Module,
    graphs: list,
    threshold: float,
    soft: Callable[[StructureOutput], Tensor] = StructureOutput.soft_adjacency,
) -> dict[str, float]:
    """Scores over batches of 20, on which only the released variant depends."""
    scores = score_all_entries(model, graphs, threshold, 20, soft)
    return {name: round(value, 5) for name, value in scores.items() if name != "candidate_recall"}


def standardised(train: list, *others: list) -> list[list]:
    """All graphs with every feature at mean 0 and deviation 1 over the nodes of the training graphs."""
    parts = [[copy.copy(graph) for graph in part] for part in (train, *others)]
    for name in ("pos", "x"):
        if train[0].get(name) is not None:
            rows = torch.cat([graph[name] for graph in train])
            mean, deviation = rows.mean(0), rows.std(0)
            for graph in (graph for part in parts for graph in part):
                graph[name] = (graph[name] - mean) / deviation
    return parts


def constant_iou(train: list, test: list) -> float:
    """The floor: the entries that are edges in at least half of the training graphs."""
    predicted = gln.predict(Constant().fit(train), test)
    return round(float(gln.edge_scores(test, predicted, entries="all")["iou"]), 5)


def perform(name: str, folder: Path) -> None:
    run = RUNS[name]
    family = parse_family(run.family)
    train, val, test = gln.split(family.sample(COUNTS.get(run.family) or family.paper_count, SEED), SEED)
    if run.standardise:
        train, val, test = standardised(train, val, test)
    torch.manual_seed(SEED)
    model = build_model(run.model, train)
    result = gln.fit(model, train, val, run=folder / name, resume=True, loss=run.loss, seed=SEED, **run.fit)
    history = result.history
    distance = gln.mmd(test, gln.predict(model, test, batch_size=20), largest_component=True, floor=train)
    measured = {
        "run": asdict(run),
        "weights": sum(weight.numel() for weight in model.parameters()),
        "graphs": {"train": len(train), "val": len(val), "test": len(test)},
        "published_iou": run.published_iou,
        "constant_iou": constant_iou(train, test),
        "test": score(model, test, model.threshold),
        "test_at_threshold_.5": score(model, test, 0.5),
        # Without the mean of both directions, as the authors read their network.
        "test_entry_by_entry": score(model, test, model.threshold, StructureOutput.probabilities),
        "threshold": model.threshold,
        "best_epoch": result.best_epoch,
        "mmd": dict(distance),
        "mmd_floor": dict(distance.floor or {}),
        "mmd_how": distance.summary,
        "minutes": round(history[-1]["seconds"] / 60, 2),
        "seconds_per_epoch": round(history[-1]["seconds"] / len(history), 3),
        "history": history[:: max(1, len(history) // 15)],
    }
    write_result(RESULTS / f"paper-{name}.json", f"python recipes/paper.py {name}", SEED, measured)
    shown = ("iou", "accuracy", "recall", "precision")
    print(f"{name:<32}" + "  ".join(f"{key} {measured['test'][key]:.4f}" for key in shown), end="  ")
    print(f"constant {measured['constant_iou']:.4f}  {measured['minutes']} minutes", flush=True)


Name = Literal[tuple(RUNS)]  # type: ignore[valid-type]


def paper(names: Positional[tuple[Name, ...]] = (), runs: Path = Path("runs/paper")) -> None:
    """Make the named runs; without a name, list all."""
    if not names:
        print("\n".join(f"{name:<32}{run.family:<44}{run.model}" for name, run in RUNS.items()))
    for name in names:
        perform(name, runs)


if __name__ == "__main__":
    run_command(__doc__, paper)
