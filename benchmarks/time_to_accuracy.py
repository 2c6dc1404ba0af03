"""Training time to a good F1 on Delaunay triangulations, against Set2Graph trained for as long."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from tyro.conf import Suppress

from benchmarks.common import (
    device_name,
    f1_of,
    fast_products,
    in_fresh_process,
    seconds_of,
    timed,
    weights_of,
)
from gln.errors import GLNError
from gln.families import parse_family
from gln.models import GLN
from gln.models.set2graph import Set2Graph
from gln.models.set2graph import Size as Widths
from gln.seeds import TEST_SEED
from gln.training import FitResult, fit
from gln.training.data import RandomRotation
from gln.training.losses import Loss

TRAIN_SEED, VAL_SEED = 1, 2


@dataclass(frozen=True)
class Size:
    """The task and models for one kind of device."""

    points: int
    sets: int
    batch_size: int
    epochs: tuple[int, ...]  # a training for each
    target: float
    model: dict[str, Any]
    peer: Widths
    lr: float = 1e-3
    compile: bool = False


GPU = Size(50, 25_600, 64, (3, 7), 0.998, {}, "published", lr=2e-3, compile=True)
CPU = Size(10, 4000, 32, (4,), 0.95, {"width": 32, "pair_width": 32, "steps": 2}, "small")


def run(size: Annotated[Size | None, Suppress] = None, seed: int = 0, tests: int = 1000) -> dict[str, Any]:
    """Seconds of training and the F1 reached, as in the benchmark of Set2Graph: over all n² entries, mean over sets.

    Seconds are those a user waits for :func:`gln.fit`, including validation and, where it compiles, loading what an
    earlier run has compiled; the training sets are made before. Set2Graph then trains for about as many seconds, in
    whole epochs, and both are tested on the same sets, which neither has seen.

    Args:
        size: the task and models; default: the benchmark's 50 points on a GPU, a smaller task on a CPU.
        seed: of weights and batches.
        tests: number of test sets.
    """
    if tests < 1:
        raise GLNError(f"Got tests={tests}; expected at least 1.")
    size = size or (GPU if torch.cuda.is_available() else CPU)
    if size.compile:
        in_fresh_process(_fill_cache, size, seed)
    rows = []
    for epochs in size.epochs:
        ours, seconds = _train(size, epochs, seed, size.sets)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            peer = Set2Graph(size=size.peer)
        usual: dict[str, Any] = {"lr": 1e-3, "warmup": 0.05, "batch_size": size.batch_size, "seed": seed}
        usual |= {"optimizer": "adam", "weight_decay": 0.0, "loss": Loss(edge="plain", structure="none")}
        with fast_products():
            result, peer_seconds = train_as_long(peer, *sets(size, size.sets), seconds, usual)
        peer_epochs = len(result.history)
        family = parse_family(f"delaunay:points={size.points}")
        held_out = family.sample(tests, TEST_SEED)
        for name, model, passes, took in (
            ("GLN", ours, epochs, seconds),
            (f"Set2Graph ({size.peer} widths)", peer, peer_epochs, peer_seconds),
        ):
            facts = {"model": name, "weights": weights_of(model), "epochs": passes, "seconds": took}
            rows.append(facts | {"f1": f1_of(model, held_out)})
    settings = {
        "points": size.points,
        "training_sets": size.sets,
        "test_sets": tests,
        "seed": seed,
        "batch_size": size.batch_size,
        "compile": size.compile,
        "device": device_name(),
    }
    return {"name": "time-to-accuracy", "rows": rows, "target": size.target, "settings": settings}


def sets(size: Size, count: int) -> tuple[list[Data], list[Data]]:
    """Training and validation sets."""
    family = parse_family(f"delaunay:points={size.points}")
    return family.sample(count, TRAIN_SEED), family.sample(200, VAL_SEED)


def _fill_cache(size: Size, seed: int) -> None:
    """Train for a few steps: what is compiled is then on the disk."""
    _train(size, 1, seed, 4 * size.batch_size)


def _train(size: Size, epochs: int, seed: int, count: int) -> tuple[GLN, float]:
    """GLN after some epochs over ``count`` sets, and the seconds they took."""
    train, val = sets(size, count)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = GLN(pos_channels=2, **size.model)
    settings: dict[str, Any] = {"batch_size": size.batch_size, "lr": size.lr, "weight_decay": 1e-4}
    settings |= {"compile": size.compile, "seed": seed, "progress": False}
    loss = Loss(edge="plain", psi1=5, every_step=True)

    def call() -> None:
        fit(model, train, val, epochs=epochs, loss=loss, augment=RandomRotation(), **settings)

    with fast_products():
        return model, seconds_of(call)


def train_as_long(
    model: nn.Module, train: list[Data], val: list[Data], seconds: float, settings: dict[str, Any]
) -> tuple[FitResult, float]:
    """Train for as many epochs as fit into ``seconds``, estimated from epochs over parts of the sets."""
    settings = {"progress": False} | settings
    few = max(settings["batch_size"], len(train) // 10)

    def some(epoch: int) -> list[Data]:
        return train[: few * max(1, epoch)]

    history = fit(copy.deepcopy(model), some, val, epochs=3, **settings).history
    _, short, long = np.diff([row["seconds"] for row in history], prepend=0)  # the first compiles and records
    epoch = long + max(0.0, long - short) * max(0.0, len(train) / few - 2)
    epochs = max(1, round(seconds / epoch))
    return timed(lambda: fit(model, train, val, epochs=epochs, **settings))
