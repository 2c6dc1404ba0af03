"""Training time to a good F1 on Delaunay triangulations, against Set2Graph trained for as long."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from gln.errors import GLNError
from gln.evaluation import edge_scores
from gln.families import parse_family
from gln.losses import Loss
from gln.models import GLN
from gln.models.set2graph import Set2Graph
from gln.models.set2graph import Size as Widths
from gln.training import fit
from gln.training.augment import RandomRotation
from gln.training.prediction import predict

TRAIN_SEED, VAL_SEED, TEST_SEED = 1, 2, 1_000_003


@dataclass(frozen=True)
class Size:
    """The task and models for one kind of device."""

    points: int
    sets: int
    batch_size: int
    epochs: int
    target: float
    model: dict[str, Any]
    peer: Widths
    compile: bool = False
    workers: int = 0


GPU = Size(50, 50_000, 64, 3, 0.995, {}, "published", compile=True, workers=4)
CPU = Size(10, 4000, 32, 4, 0.95, {"width": 32, "pair_width": 32, "steps": 2}, "small")


def run(size: Size | None = None, seed: int = 0, tests: int = 1000) -> dict[str, Any]:
    """Seconds of training and the F1 reached, as in the benchmark of Set2Graph: over all n² entries, mean over sets.

    Seconds are those a user waits for :func:`gln.fit`, including compiling and validation; the training sets are made
    before. Set2Graph then trains for about as many seconds, in whole epochs, and both are tested on the same sets,
    which neither has seen.

    Args:
        size: the task and models; default: the benchmark's 50 points on a GPU, a smaller task on a CPU.
        seed: of weights and batches.
        tests: number of test sets.
    """
    if tests < 1:
        raise GLNError(f"Got tests={tests}; expected at least 1.")
    size = size or (GPU if torch.cuda.is_available() else CPU)
    family = parse_family(f"delaunay:points={size.points}")
    train = family.sample(size.sets, TRAIN_SEED, workers=max(1, size.workers))
    val, held_out = family.sample(200, VAL_SEED), family.sample(tests, TEST_SEED)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        ours, peer = GLN(pos_channels=2, **size.model), Set2Graph(size=size.peer)
    settings: dict[str, Any] = {
        "lr": 1e-3,
        "warmup": 0.05,
        "batch_size": size.batch_size,
        "num_workers": size.workers,
    }
    settings |= {"seed": seed, "progress": False}
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        start = time.perf_counter()
        loss = Loss(edge="plain", psi1=5, every_step=True)
        fit(
            ours, train, val, loss=loss, augment=RandomRotation(), epochs=size.epochs, weight_decay=1e-4,
            compile=size.compile, **settings,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        peer_seconds, peer_epochs = _train_as_long(peer, train, val, seconds, settings)
    finally:
        torch.set_float32_matmul_precision(before)
    rows = [
        ("GLN", ours, size.epochs, seconds),
        (f"Set2Graph ({size.peer} widths)", peer, peer_epochs, peer_seconds),
    ]
    return {
        "name": "time-to-accuracy",
        "rows": [
            {
                "model": name,
                "weights": _weights(model),
                "epochs": epochs,
                "seconds": took,
                "f1": _f1(model, held_out),
            }
            for name, model, epochs, took in rows
        ],
        "target": size.target,
        "settings": {
            "points": size.points,
            "training_sets": size.sets,
            "test_sets": tests,
            "seed": seed,
            "batch_size": size.batch_size,
            "compile": size.compile,
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        },
    }


def table(row: dict[str, Any]) -> str:
    """The result as text."""
    reached = "reached" if row["rows"][0]["f1"] >= row["target"] else "not reached"
    lines = [f"{one['model']:<24}F1 {one['f1']:.4f} after {one['seconds']:.0f} s" for one in row["rows"]]
    return "\n".join([f"{lines[0]}; {row['target']} {reached}", *lines[1:]])


def _train_as_long(
    peer: Set2Graph, train: list[Data], val: list[Data], seconds: float, settings: dict[str, Any]
) -> tuple[float, int]:
    """Train for as many epochs as fit into ``seconds``, estimated from epochs over parts of the sets."""
    settings = settings | {
        "loss": Loss(edge="plain", structure="none"),
        "optimizer": "adam",
        "weight_decay": 0.0,
    }

    def second_epoch(count: int) -> float:
        history = fit(copy.deepcopy(peer), train[:count], val, epochs=2, **settings).history
        return float(history[1]["seconds"] - history[0]["seconds"])

    few = max(settings["batch_size"], len(train) // 10)
    short, long = second_epoch(few), second_epoch(2 * few)  # both contain the fixed cost of an epoch
    epoch = long + max(0.0, long - short) * max(0.0, len(train) / few - 2)
    epochs = max(1, round(seconds / epoch))
    start = time.perf_counter()
    fit(peer, train, val, epochs=epochs, **settings)
    return time.perf_counter() - start, epochs


def _f1(model: nn.Module, graphs: list[Data]) -> float:
    return float(edge_scores(graphs, predict(model, graphs, batch_size=64), entries="all")["dice"])


def _weights(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())
