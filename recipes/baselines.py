"""Fit and test the baselines.

    python recipes/baselines.py graphrnn --family community --run runs/graphrnn-community --minutes 5
    python recipes/baselines.py set2graph --run runs/set2graph --compile
    python recipes/baselines.py set2graph --run runs/fine --start runs/set2graph --lr 3e-4 --epochs 1 --count 25600
    python recipes/baselines.py test --run runs/set2graph
    python recipes/baselines.py neighbours
    python recipes/baselines.py constant

Each writes ``results/baseline-….json``. ``graphrnn`` and ``set2graph`` are meant for a GPU, stop after ``--minutes``,
resume when the command is repeated with more minutes, and are tested at the end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, Literal

import torch
from torch_geometric.data import Data

import gln
from delaunay import TEST_COUNT, score
from gln.baselines import BASELINES, load_baseline, save_baseline
from gln.families import parse_family
from gln.models.set2graph import Set2Graph
from gln.storage.provenance import check_source, write_result
from gln.storage.runs import read_checkpoint
from gln.storage.tensors import read_json, write_json
from gln.training import Interrupted
from gln.training.losses import Loss
from gln.workflows.runs import read_run
from shared import (
    RESULTS,
    TEST_SEED,
    TRAIN_SEED,
    VAL_SEED,
    begin,
    command,
    load_on_device,
    paper_count,
    run_command,
    weights_of,
)

SEED = 0
RULES = ("knn", "mutual", "radius", "gabriel", "rng")
POINTS = ("delaunay:points=50", "surfaces", "community", "community:communities=4", "figures:side=10")
ORDERED = (
    "community:order=ordered",
    "community:communities=4,order=ordered",
    "surfaces:kind=torus,order=ordered",
    "figures:side=10,order=ordered",
)


def parts_of(family: str) -> tuple[list[Data], list[Data], list[Data]]:
    """Train, validation and test graphs."""
    return gln.split(parse_family(family).sample(paper_count(family), SEED), SEED)


def graphrnn(
    run: Path,
    family: str = "community",
    minutes: float = 5,
    variant: Literal["rnn", "mlp"] = "rnn",
    batch_size: int = 32,
    samples: int = 100,
) -> None:
    """Fit GraphRNN, then test it."""
    check_source(RESULTS)
    torch.set_float32_matmul_precision("high")
    train, val, _ = parts_of(family)
    model = BASELINES["graphrnn"](variant=variant, minutes=minutes, batch_size=batch_size)
    model.fit([*train, *val], seed=SEED, progress=True, folder=run)  # nothing is chosen on val
    save_baseline(model, run)
    (run / "family.txt").write_text(family + "\n")
    test(run, samples)


def score_graphrnn(run: Path, samples: int) -> None:
    model, family = load_baseline(run), (run / "family.txt").read_text().strip()
    history = read_checkpoint(run / "checkpoint.safetensors").progress["history"]
    train, val, held_out = parts_of(family)
    start = time.perf_counter()
    drawn = gln.generate(model, samples, SEED)
    seconds = time.perf_counter() - start
    distance = gln.mmd(held_out, drawn, floor=[*train, *val])
    novelty = gln.novelty([*train, *val], drawn)
    print(distance)
    measured = {
        "family": family,
        "baseline": {"name": model.name, **model.settings()},
        "fitted": model.fitted,
        "weights": sum(value.numel() for key, value in model.state().items() if key != "limits"),
        "max_nodes_and_width": model.state()["limits"].tolist(),
        "graphs": {"train": len(train) + len(val), "test": len(held_out), "sampled": samples},
        "mmd": dict(distance),
        "mmd_floor": dict(distance.floor or {}),
        "mmd_how": distance.summary,
        "novelty": {key: round(float(value), 5) for key, value in novelty.items()},
        "sampling_seconds": round(seconds, 2),
        "epochs": len(history),
        "minutes": round(history[-1]["seconds"] / 60, 2),
        "history": history[:: max(1, len(history) // 15)],
        "sizes": {"least": min(g.num_nodes for g in drawn), "most": max(g.num_nodes for g in drawn)},
    }
    name = family.replace(":", "-").replace("=", "-").replace(",", "-")
    variant = "" if model.variant == "rnn" else f"-{model.variant}"
    made_by = f"python recipes/baselines.py graphrnn --family {family} --run {run}"
    write_result(RESULTS / f"baseline-graphrnn{variant}-{name}.json", made_by, SEED, measured)


def set2graph(
    run: Path,
    epochs: int = 60,
    minutes: float = 60,
    lr: float = 1e-3,
    count: int = 50_000,
    val_count: int = 1000,
    batch_size: int = 64,
    size: Literal["published", "small"] = "published",
    workers: int = 4,
    compile: bool = False,
    start: Path | None = None,
) -> None:
    """Set2Graph's benchmark: sets of 50 points, Adam at .001, batches of 64, plain cross-entropy.

    With ``start``, training continues from the best weights of another run, for example at a lower learning rate.
    """
    check_source(RESULTS)
    family = parse_family("delaunay:points=50")
    cache = run.parent / "graphs"
    train = family.sample(count, TRAIN_SEED, workers=max(1, workers), cache=cache)
    val = family.sample(val_count, VAL_SEED, cache=cache)
    begin(TRAIN_SEED)
    model = Set2Graph(size=size) if start is None else gln.load(start)
    settings: dict[str, Any] = {
        "loss": Loss(edge="plain", structure="none"),
        "optimizer": "adam",
        "lr": lr,
        "epochs": epochs,
        "weight_decay": 0.0,
        "warmup": 0.02,
        "batch_size": batch_size,
        "num_workers": workers,
        "precision": "bf16",
        "compile": compile,
        "progress": False,
    }
    alarm = threading.Timer(60 * minutes, os.kill, (os.getpid(), signal.SIGTERM))
    alarm.daemon = True
    alarm.start()  # in case other work slows the machine down; fit keeps its state
    try:
        print(gln.fit(model, train, val, run=run, resume=True, **settings))
    except Interrupted as stopped:
        print(stopped)
    finally:
        alarm.cancel()
    if start is not None:
        write_json(run / "start.json", {"run": start.as_posix(), **training_of(start)})
    test(run)


def score_set2graph(run: Path) -> None:
    model = load_on_device(run)
    graphs = parse_family("delaunay:points=50").sample(TEST_COUNT["50"], TEST_SEED)
    chosen = score(model, graphs)
    threshold, model.threshold = model.threshold, 0.5
    measured = {
        "points": 50,
        "sets": len(graphs),
        "model": model.config,
        "weights": weights_of(model),
        **training_of(run),
        "start": read_json(run / "start.json") if (run / "start.json").exists() else None,
        "threshold": threshold,
        "test": chosen,
        "test_at_threshold_.5": score(model, graphs),
        "published_f1": 0.926,
    }
    print(measured["test"])
    fit, count = measured["fit"], read_json(run / "config.json")["data"]["train"]["graphs"]
    made_by = f"python recipes/baselines.py set2graph --run {run} --epochs {fit['epochs']} --lr {fit['lr']}"
    made_by += f" --count {count}" + (" --compile" if fit["compile"] else "")
    made_by += f" --start {measured['start']['run']}" if measured["start"] else ""
    name = "" if model.config["size"] == "published" else f"-{model.config['size']}"
    write_result(RESULTS / f"baseline-set2graph{name}.json", made_by, TEST_SEED, measured)


def training_of(run: Path) -> dict[str, Any]:
    """How a run was trained, and for how long."""
    facts = read_run(run)
    return {
        "training": facts.model["training"],
        "fit": facts.config["fit"],
        "epochs": len(facts.history),
        "minutes": round(facts.history[-1]["seconds"] / 60, 2),
        "val_iou": [round(row["val_iou"], 4) for row in facts.history],
        "gpu": facts.environment["starts"][-1].get("gpu"),
    }


def test(run: Path, samples: int = 100) -> None:
    """Test what was fitted."""
    check_source(RESULTS)
    if "baseline" in read_json(run / "model.json"):
        score_graphrnn(run, samples)
    else:
        score_set2graph(run)


def neighbours(families: tuple[str, ...] = POINTS) -> None:
    """Fit and test the rules of nearness."""
    rows = []
    for family in families:
        train, val, _ = parts = parts_of(family)
        for rule in RULES:
            start = time.perf_counter()
            model = BASELINES["neighbours"](rule=rule).fit(train, val)
            row = {"family": family, "rule": rule, "parameter": model.parameter_} | scores_of(model, parts)
            rows.append(row | {"seconds": round(time.perf_counter() - start, 2)})
            print(f"{family:<24} {rule:<8} {model.parameter_:8.4f}  F1 {row['dice']:.4f}", flush=True)
    write_result(RESULTS / "baseline-neighbours.json", command(), SEED, {"rows": rows})


def constant(families: tuple[str, ...] = ORDERED) -> None:
    """Fit and test the constant graph."""
    rows = []
    for family in families:
        train, val, _ = parts = parts_of(family)
        rows.append({"family": family} | scores_of(BASELINES["constant"]().fit([*train, *val]), parts))
        print(f"{family:<40} F1 {rows[-1]['dice']:.4f}  IoU {rows[-1]['iou']:.4f}", flush=True)
    write_result(RESULTS / "baseline-constant.json", command(), SEED, {"rows": rows})


def scores_of(model: Any, parts: tuple[list[Data], list[Data], list[Data]]) -> dict[str, Any]:
    train, _, held_out = parts
    scores = gln.evaluate(model, held_out, floor=train)
    return {"graphs": len(held_out)} | {key: round(float(value), 5) for key, value in scores.items()}


if __name__ == "__main__":
    run_command(__doc__, graphrnn, set2graph, test, neighbours, constant)
