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

import argparse
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

import gln
from delaunay import TEST_COUNT, TEST_SEED, TRAIN_SEED, VAL_SEED, score
from gln.baselines import BASELINES, load_baseline, save_baseline
from gln.baselines.set2graph import Set2Graph
from gln.families import parse_family
from gln.storage.provenance import write_result
from gln.storage.runs import read_checkpoint
from gln.storage.tensors import read_json, write_json
from gln.training import Interrupted
from gln.training.losses import Loss
from gln.workflows.runs import read_run

SEED = 0
RESULTS = Path("results")
RULES = ("knn", "mutual", "radius", "gabriel", "rng")
POINTS = ("delaunay:points=50", "surfaces", "community", "community:communities=4", "figures:side=10")
ORDERED = (
    "community:order=ordered",
    "community:communities=4,order=ordered",
    "surfaces:kind=torus,order=ordered",
    "figures:side=10,order=ordered",
)


def parts_of(family: str) -> tuple[list[Data], list[Data], list[Data]]:
    """Train, validation and test graphs: as many as the paper drew, or 300."""
    member = parse_family(family)
    return gln.split(member.sample(member.paper_count or 300, SEED), SEED)


def graphrnn(family: str, run: Path, minutes: float, variant: str, batch_size: int, samples: int) -> None:
    torch.set_float32_matmul_precision("high")
    train, val, _ = parts_of(family)
    model = BASELINES["graphrnn"](variant=variant, minutes=minutes, batch_size=batch_size)
    model.fit([*train, *val], seed=SEED, progress=True, folder=run)  # nothing is chosen on val
    save_baseline(model, run)
    (run / "family.txt").write_text(family + "\n")
    retest(run, samples)


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
    command = f"python recipes/baselines.py graphrnn --family {family} --run {run}"
    write_result(RESULTS / f"baseline-graphrnn{variant}-{name}.json", command, SEED, measured)


def set2graph(
    run: Path,
    epochs: int,
    minutes: float,
    lr: float,
    count: int,
    val_count: int,
    batch_size: int,
    size: str,
    workers: int,
    compile: bool,
    start: Path | None,
) -> None:
    """Set2Graph's benchmark: sets of 50 points, Adam at .001, batches of 64, plain cross-entropy.

    With ``start``, training continues from the best weights of another run, for example at a lower learning rate.
    """
    torch.set_float32_matmul_precision("high")
    family = parse_family("delaunay:points=50")
    cache = run.parent / "graphs"
    train = family.sample(count, TRAIN_SEED, workers=max(1, workers), cache=cache)
    val = family.sample(val_count, VAL_SEED, cache=cache)
    torch.manual_seed(TRAIN_SEED)
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
    retest(run)


def score_set2graph(run: Path) -> None:
    model = gln.load(run).to("cuda" if torch.cuda.is_available() else "cpu")
    graphs = parse_family("delaunay:points=50").sample(TEST_COUNT["50"], TEST_SEED)
    chosen = score(model, graphs)
    threshold, model.threshold = model.threshold, 0.5
    measured = {
        "points": 50,
        "sets": len(graphs),
        "model": model.config,
        "weights": sum(weight.numel() for weight in model.parameters()),
        **training_of(run),
        "start": read_json(run / "start.json") if (run / "start.json").exists() else None,
        "threshold": threshold,
        "test": chosen,
        "test_at_threshold_.5": score(model, graphs),
        "published_f1": 0.926,
    }
    print(measured["test"])
    fit, count = measured["fit"], read_json(run / "config.json")["data"]["train"]["graphs"]
    command = f"python recipes/baselines.py set2graph --run {run} --epochs {fit['epochs']} --lr {fit['lr']}"
    command += f" --count {count}" + (" --compile" if fit["compile"] else "")
    command += f" --start {measured['start']['run']}" if measured["start"] else ""
    name = "" if model.config["size"] == "published" else f"-{model.config['size']}"
    write_result(RESULTS / f"baseline-set2graph{name}.json", command, TEST_SEED, measured)


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


def retest(run: Path, samples: int = 100) -> None:
    if "baseline" in read_json(run / "model.json"):
        score_graphrnn(run, samples)
    else:
        score_set2graph(run)


def neighbours(families: list[str]) -> None:
    rows = []
    for family in families:
        train, val, held_out = parts_of(family)
        for rule in RULES:
            start = time.perf_counter()
            model = BASELINES["neighbours"](rule=rule).fit(train, val)
            scores = gln.evaluate(model, held_out, floor=train)
            row = {"family": family, "rule": rule, "parameter": model.parameter_, "graphs": len(held_out)}
            row |= {key: round(float(value), 5) for key, value in scores.items()}
            rows.append(row | {"seconds": round(time.perf_counter() - start, 2)})
            print(f"{family:<24} {rule:<8} {model.parameter_:8.4f}  F1 {scores['dice']:.4f}", flush=True)
    command = f"python recipes/baselines.py neighbours --families {' '.join(families)}"
    write_result(RESULTS / "baseline-neighbours.json", command, SEED, {"rows": rows})


def constant(families: list[str]) -> None:
    rows = []
    for family in families:
        train, val, held_out = parts_of(family)
        model = BASELINES["constant"]().fit([*train, *val])
        scores = gln.evaluate(model, held_out, floor=train)
        row = {"family": family, "graphs": len(held_out)}
        rows.append(row | {key: round(float(value), 5) for key, value in scores.items()})
        print(f"{family:<40} F1 {scores['dice']:.4f}  IoU {scores['iou']:.4f}", flush=True)
    command = f"python recipes/baselines.py constant --families {' '.join(families)}"
    write_result(RESULTS / "baseline-constant.json", command, SEED, {"rows": rows})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    one = commands.add_parser("graphrnn")
    one.add_argument("--family", default="community")
    one.add_argument("--run", type=Path, required=True)
    one.add_argument("--minutes", type=float, default=5)
    one.add_argument("--variant", choices=("rnn", "mlp"), default="rnn")
    one.add_argument("--batch-size", type=int, default=32)
    one.add_argument("--samples", type=int, default=100)
    two = commands.add_parser("set2graph")
    two.add_argument("--run", type=Path, required=True)
    two.add_argument("--epochs", type=int, default=60)
    two.add_argument("--minutes", type=float, default=60, help="stop after this time, to resume later")
    two.add_argument("--lr", type=float, default=1e-3)
    two.add_argument("--count", type=int, default=50_000)
    two.add_argument("--val-count", type=int, default=1000)
    two.add_argument("--batch-size", type=int, default=64)
    two.add_argument("--size", choices=("published", "small"), default="published")
    two.add_argument("--workers", type=int, default=4)
    two.add_argument("--compile", action="store_true")
    two.add_argument("--start", type=Path, help="a run whose best weights to start from")
    three = commands.add_parser("test")
    three.add_argument("--run", type=Path, required=True)
    three.add_argument("--samples", type=int, default=100)
    commands.add_parser("neighbours").add_argument("--families", nargs="+", default=list(POINTS))
    commands.add_parser("constant").add_argument("--families", nargs="+", default=list(ORDERED))
    words = vars(parser.parse_args())
    steps = {"graphrnn": graphrnn, "set2graph": set2graph, "test": retest}
    steps |= {"neighbours": neighbours, "constant": constant}
    steps[words.pop("command")](**words)


if __name__ == "__main__":
    main()
