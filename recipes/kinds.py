"""Train and test models that tell who acts on whom from trajectories.

    python recipes/kinds.py train springs-5 --run runs/springs-5 --minutes 8 --device cuda
    python recipes/kinds.py test springs-5 --run runs/springs-5 --output results/kinds/springs-5.json
    python recipes/kinds.py decide charged-5 --output results/kinds/charged-5-data.json    # what the data allow
    python recipes/kinds.py small nearest --output results/kinds/nearest.json    # directions, minutes on a CPU
    python recipes/kinds.py small roads --output results/kinds/roads.json        # weights, likewise

The names are those of ``SYSTEMS``. How many epochs fit into the minutes is measured first; repeat the command to resume
a run. Test sets come from a seed that neither training nor tuning uses.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gln
from gln.families import parse_family
from gln.families.base import Family
from gln.families.particles import BOX, EVERY, FAST, SAMPLES, STEP, STRENGTH
from gln.graphs.features import feature_scale
from gln.graphs.record import Graph
from gln.seeds import TEST_SEED
from gln.storage.provenance import check_source, write_result
from gln.storage.runs import read_config
from gln.training.losses import Loss

TRAIN_SEED, VAL_SEED = 1, 2  # of graphs
VALUES = 4  # of a particle at every moment
SYSTEMS: dict[str, dict[str, Any]] = {
    "springs-5": {"count": 150_000, "batch_size": 256},
    "springs-10": {"count": 80_000, "batch_size": 128},
    "charged-5": {"count": 250_000, "batch_size": 256},
    "charged-10": {"count": 100_000, "batch_size": 128},
    "kuramoto-5": {"count": 150_000, "batch_size": 256},
}
MODEL = {"pos_channels": 0, "width": 96, "pair_width": 64, "steps": 4, "moments": SAMPLES}
# family, model, training sets and epochs of what a CPU learns in minutes
SMALL: dict[str, tuple[str, dict[str, Any], int, int]] = {
    "nearest": ("nearest:points=30", {"in_channels": 3, "directed": True, "steps": 3}, 1500, 16),
    "roads": (
        "roads:points=20",
        {"in_channels": 2, "edge_weights": True, "lengths": "absolute", "steps": 2},
        1500,
        12,
    ),
}
FIT: dict[str, Any] = {"lr": 1e-3, "warmup": 0.05, "weight_decay": 1e-4, "progress": False}
LOSS = Loss(edge="plain", structure="none", every_step=True)
WALL, OFF = 0.3, 0.01  # how near a wall is, and which difference of velocities is middling
PROBE = 60  # steps by which the time of an epoch is measured


def train(
    name: str, run: Path, device: str, minutes: float, workers: int, cache: Path | None, count: int | None
) -> None:
    """Train a model for about so many minutes, data apart."""
    torch.set_float32_matmul_precision("high")
    settings, family = SYSTEMS[name], family_of(name)
    start = time.perf_counter()
    graphs = family.graphs(count or settings["count"], TRAIN_SEED, workers, cache)
    val = family.graphs(1000, VAL_SEED)
    print(f"{name}: {len(graphs)} graphs in {time.perf_counter() - start:.0f} seconds", flush=True)
    how = FIT | {"batch_size": settings["batch_size"], "accelerator": device, "loss": LOSS}
    if (run / "config.json").exists():
        epochs = read_config(run / "config.json")["fit"]["epochs"]
    else:
        some = graphs[: PROBE * settings["batch_size"]]
        probe = gln.fit(model_for(name, graphs), some, val[:50], epochs=3, **how).history
        seconds = probe[-1]["seconds"] - probe[-2]["seconds"]  # the first epochs record and compile
        steps = len(some) / settings["batch_size"]
        epochs = max(2, round(60 * minutes / (seconds * len(graphs) / len(some))))
        print(f"{name}: {1000 * seconds / steps:.1f} ms per step, {epochs} epochs", flush=True)
    result = gln.fit(model_for(name, graphs), graphs, val, run=run, resume=True, epochs=epochs, **how)
    print(f"{name}: {result}", flush=True)


def test(name: str, run: Path, output: Path, device: str, count: int) -> None:
    """The accuracy over pairs, and all other scores, on graphs of a seed of their own."""
    check_source(output)
    model = gln.load(run).to(device)
    graphs, start = family_of(name).graphs(count, TEST_SEED), time.perf_counter()
    scores = gln.evaluate(model, graphs, batch_size=500)
    seconds = time.perf_counter() - start
    accuracy = scores["type_accuracy"] if name.startswith("charged") else scores["pooled_accuracy"]
    print(f"{name}: accuracy over pairs {accuracy:.4f}\n{scores}", flush=True)
    measured = {
        "system": name,
        "graphs": count,
        "accuracy_over_pairs": accuracy,
        "scores": dict(scores),
        "seconds": round(seconds, 2),
        "model": {key: value for key, value in model.config.items() if not key.startswith("x_")},
        "training": {key: model.training_facts[key] for key in ("epoch", "val_iou", "seed")},
        "train_graphs": SYSTEMS[name]["count"],
    }
    write_result(output, command(), TEST_SEED, measured)


def small(name: str, output: Path, count: int) -> None:
    """Train a small model on a CPU and score it."""
    check_source(output)
    spec, settings, sets, epochs = SMALL[name]
    family, start = parse_family(spec), time.perf_counter()
    graphs = family.graphs(sets, TRAIN_SEED)
    mean, deviation = feature_scale(graphs)
    torch.manual_seed(0)
    model = gln.GLN(pos_channels=2, width=32, pair_width=32, x_mean=mean, x_std=deviation, **settings)
    how = FIT | {"lr": 3e-3, "batch_size": 16, "epochs": epochs, "accelerator": "cpu"}
    loss = Loss(edge="plain", psi1=5, every_step=True)
    result = gln.fit(model, graphs, family.graphs(100, VAL_SEED), loss=loss, **how)
    seconds = time.perf_counter() - start
    scores = gln.evaluate(model, family.graphs(count, TEST_SEED))
    print(f"{name}: {result}, {seconds:.0f} seconds\n{scores}", flush=True)
    facts = {"family": spec, "model": settings, "train_graphs": sets, "epochs": epochs, "graphs": count}
    write_result(output, command(), TEST_SEED, facts | {"scores": dict(scores), "train_seconds": seconds})


def decide(name: str, output: Path, count: int) -> None:
    """How often the trajectories of charges, with the law of force known, single out the true signs.

    Of all assignments of charges, take the one whose forces, at the moments that are seen, best explain the changes of
    velocity between them. A collision explains nothing, so large differences count little more than middling ones.
    """
    check_source(output)
    graphs = family_of(name).graphs(count, TEST_SEED)
    n = graphs[0].num_nodes
    signs = np.array([(1, *rest) for rest in itertools.product((1.0, -1.0), repeat=n - 1)])  # [2^(n-1), n]
    products = signs[:, :, None] * signs[:, None]
    right = []
    for graph in graphs:
        best = products[np.argmin(_misfit(graph, products))]
        source, target = graph.edge_index.numpy()
        right.append((best[source, target] > 0) == (graph.edge_type.numpy() == 1))
    accuracy, whole = np.mean(right), np.mean([row.all() for row in right])
    print(f"{name}: pairs {accuracy:.4f}, graphs {whole:.4f}", flush=True)
    measured = {"system": name, "graphs": count, "accuracy_over_pairs": accuracy, "graphs_right": whole}
    write_result(output, command(), TEST_SEED, measured)


def _misfit(graph: Graph, products: np.ndarray) -> np.ndarray:
    """How far the forces of every assignment ``[a, n, n]`` are from the changes of velocity: ``[a]``."""
    seen = graph.x.numpy().astype(np.float64).reshape(graph.num_nodes, SAMPLES, VALUES).swapaxes(0, 1)
    place, speed = seen[..., :2] * BOX, seen[..., 2:] * FAST["charged"]  # each [t, n, 2]
    apart = place[:, :, None] - place[:, None]  # [t, n, n, 2]
    distance = np.linalg.norm(apart, axis=-1) + np.eye(graph.num_nodes)
    force = STRENGTH["charged"] * apart / distance[..., None] ** 3
    push = EVERY["charged"] * STEP * (force[1:] + force[:-1]) / 2  # [t - 1, n, n, 2]
    change = np.diff(speed, axis=0)  # [t - 1, n, 2]
    inside = np.abs(place[1:]).max(-1) < BOX - WALL  # [t - 1, n]
    left = change - np.einsum("aij,tijd->atid", products, push)
    return (np.log1p(np.square(left / OFF).sum(-1)) * inside).sum((1, 2))


def family_of(name: str) -> Family:
    kind, count = name.split("-")
    return parse_family(f"particles:kind={kind},count={count}")


def model_for(name: str, graphs: list[Graph]) -> gln.GLN:
    """A model that reads every value on one scale at all moments."""
    torch.manual_seed(0)
    values = torch.stack([graph.x for graph in graphs[:2000]]).unflatten(-1, (SAMPLES, VALUES))
    mean, deviation = values.mean((0, 1, 2)), values.std((0, 1, 2))
    scale = {"x_mean": mean.tolist() * SAMPLES, "x_std": deviation.tolist() * SAMPLES}
    types = 2 if name.startswith("charged") else 1
    return gln.GLN(in_channels=SAMPLES * VALUES, **MODEL, edge_types=types, **scale)


def command() -> str:
    """The command that is running."""
    return shlex.join(["python", *sys.argv])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["train", "test", "decide", "small"])
    parser.add_argument("name", choices=[*SYSTEMS, *SMALL])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--count", type=int, help="graphs; default: those of SYSTEMS to train, 5000 to test")
    given = parser.parse_args()
    if given.action == "train":
        train(given.name, given.run, given.device, given.minutes, given.workers, given.cache, given.count)
    elif given.action == "test":
        test(given.name, given.run, given.output, given.device, given.count or 5000)
    elif given.action == "small":
        small(given.name, given.output, given.count or 500)
    else:
        decide(given.name, given.output, given.count or 5000)


if __name__ == "__main__":
    main()
