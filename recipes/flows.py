"""Train and test generators on the graphs of the published tables.

    python recipes/flows.py train planar --run runs/planar --data ../shared/data/generation --minutes 8

Repeat the command to go on: a run stops after so many minutes and continues where it stopped. Without ``--data``, the
graphs are drawn from the family of that name, as many as the tables use, or ``--graphs``.
"""

from __future__ import annotations

import argparse
import ast
import os
import shlex
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gln
from gln.families import parse_family
from gln.graphs.check import make_graph
from gln.graphs.record import Graph
from gln.storage.runs import read_config
from gln.training.processes import Interrupted

SEED = 1  # of graphs drawn from a family, and of their split
EPOCH = 200  # steps from one validation to the next
FLOWS: dict[str, dict[str, Any]] = {
    "planar": {"batch_size": 64, "steps": 15_000},
    "tree": {"batch_size": 64, "steps": 30_000},
    "sbm": {"batch_size": 12, "steps": 20_000},
    "community": {"batch_size": 64, "steps": 15_000},
}
FIT: dict[str, Any] = {"lr": 1.5e-3, "warmup": 0.02, "weight_decay": 1e-4, "progress": False}


def train(name: str, run: Path, data: Path | None, given: argparse.Namespace) -> None:
    """Train until the run is finished, or for so many minutes."""
    torch.set_float32_matmul_precision("high")
    graphs, val, _ = parts_of(name, data, given.graphs)
    settings = FLOWS[name]
    batch_size = given.batch_size or settings["batch_size"]
    whole = graphs * max(1, round(EPOCH * batch_size / len(graphs)))  # an epoch sees every graph many times
    epochs = max(1, round((given.steps or settings["steps"]) * batch_size / len(whole)))
    if (run / "config.json").exists() and not given.steps:
        epochs = read_config(run / "config.json")["fit"]["epochs"]
    torch.manual_seed(0)
    flow = gln.GraphFlow(**settings.get("model", {}) | settings_in(given.set))
    weights = sum(weight.numel() for weight in flow.parameters())
    print(f"{name}: {len(graphs)} graphs, {weights:,} weights, {epochs} epochs of {EPOCH} steps", flush=True)
    timer = threading.Timer(60 * given.minutes, os.kill, (os.getpid(), signal.SIGTERM))
    timer.daemon = True
    timer.start()
    how = FIT | {"batch_size": batch_size, "accelerator": given.device, "epochs": epochs}
    how |= {"compile": given.compile, **({"lr": given.lr} if given.lr else {})}
    try:
        result = gln.fit(flow, whole, val, run=run, resume=True, **how)
    except Interrupted:
        print(f"{name}: {progress_in(run)}; repeat the command to go on", flush=True)
        return
    finally:
        timer.cancel()
    last = result.history[-1]
    print(f"{name}: done after {last['step']} steps, {last['seconds'] / 60:.1f} minutes", flush=True)


def progress_in(run: Path) -> str:
    """How far a run is, in words."""
    lines = (run / "metrics.csv").read_text().splitlines() if (run / "metrics.csv").exists() else []
    return f"epoch {len(lines) - 1}: {lines[-1]}" if len(lines) > 1 else "in the first epoch"


def parts_of(
    name: str, data: Path | None, count: int | None = None
) -> tuple[list[Graph], list[Graph], list[Graph]]:
    """The graphs to train, validate and test on: the published ones, or others of the same family."""
    if data is not None and (data / f"{name}.npz").exists():
        return tuple(published(data / f"{name}.npz", part) for part in ("train", "val", "test"))  # type: ignore[return-value]
    family = parse_family(name)
    graphs = family.graphs(count or family.paper_count or 200, SEED)
    bare = [Graph(graph.num_nodes, edge_index=graph.edge_index) for graph in graphs]
    return gln.split(bare, SEED, val=family.val_share)


def published(path: Path, part: str) -> list[Graph]:
    """The graphs of a published split, from plain arrays: nodes of each, edges of each, and all edges, listed once."""
    with np.load(path) as arrays:
        nodes, counts, edges = (arrays[f"{part}_{name}"] for name in ("nodes", "edge_count", "edges"))
    each = np.split(edges, np.cumsum(counts)[:-1])
    return [make_graph(edges=pairs, num_nodes=int(n)) for pairs, n in zip(each, nodes, strict=True)]


def settings_in(words: list[str]) -> dict[str, Any]:
    """``["walks=16"]`` as settings."""
    return {word.partition("=")[0]: ast.literal_eval(word.partition("=")[2]) for word in words}


def command() -> str:
    """The command that is running."""
    return shlex.join(["python", *sys.argv])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["train"])
    parser.add_argument("name", choices=[*FLOWS])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="folder with the published graphs")
    parser.add_argument(
        "--graphs", type=int, help="graphs to draw from the family, if there are no published ones"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--steps", type=int, help="of training in all")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], help="settings of the model, such as walks=16")
    given = parser.parse_args()
    if given.action == "train":
        train(given.name, given.run, given.data, given)


if __name__ == "__main__":
    main()
