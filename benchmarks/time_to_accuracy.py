"""Training time to a good F1 on Delaunay triangulations, against Set2Graph trained for as long."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch_geometric.data import Data
from tyro.conf import Suppress

from benchmarks.common import device_name, f1_of, fast_products, seconds_of, weights_of
from gln.errors import GLNError
from gln.families import parse_family
from gln.models import GLN
from gln.models.set2graph import Set2Graph
from gln.models.set2graph import Size as Widths
from gln.seeds import TEST_SEED
from gln.training import fit
from gln.training.data import RandomRotation
from gln.training.losses import Loss

TRAIN_SEED, VAL_SEED = 1, 2


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


def run(size: Annotated[Size | None, Suppress] = None, seed: int = 0, tests: int = 1000) -> dict[str, Any]:
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
    both: dict[str, Any] = {
        "lr": 1e-3,
        "warmup": 0.05,
        "batch_size": size.batch_size,
        "num_workers": size.workers,
    }
    both |= {"seed": seed, "progress": False}
    recipe: dict[str, Any] = {
        "loss": Loss(edge="plain", psi1=5, every_step=True),
        "augment": RandomRotation(),
    }
    recipe |= {"epochs": size.epochs, "weight_decay": 1e-4, "compile": size.compile}
    with fast_products():
        seconds = seconds_of(lambda: fit(ours, train, val, **recipe, **both))
        peer_seconds, peer_epochs = _train_as_long(peer, train, val, seconds, both)
    trained = (
        ("GLN", ours, size.epochs, seconds),
        (f"Set2Graph ({size.peer} widths)", peer, peer_epochs, peer_seconds),
    )
    rows = [
        {
            "model": name,
            "weights": weights_of(model),
            "epochs": epochs,
            "seconds": took,
            "f1": f1_of(model, held_out),
        }
        for name, model, epochs, took in trained
    ]
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


def _train_as_long(
    peer: Set2Graph, train: list[Data], val: list[Data], seconds: float, settings: dict[str, Any]
) -> tuple[float, int]:
    """Train for as many epochs as fit into ``seconds``, estimated from epochs over parts of the sets."""
    loss = Loss(edge="plain", structure="none")
    settings = settings | {"loss": loss, "optimizer": "adam", "weight_decay": 0.0}

    def second_epoch(count: int) -> float:
        history = fit(copy.deepcopy(peer), train[:count], val, epochs=2, **settings).history
        return float(history[1]["seconds"] - history[0]["seconds"])

    few = max(settings["batch_size"], len(train) // 10)
    short, long = second_epoch(few), second_epoch(2 * few)  # both contain the fixed cost of an epoch
    epoch = long + max(0.0, long - short) * max(0.0, len(train) / few - 2)
    epochs = max(1, round(seconds / epoch))
    return seconds_of(lambda: fit(peer, train, val, epochs=epochs, **settings)), epochs
