"""Train and test the Delaunay models.

    python recipes/delaunay.py train --points 20-80 --run runs/delaunay      # the shipped model
    python recipes/delaunay.py train --points 50 --run runs/delaunay-50 --compile     # Set2Graph's benchmark
    python recipes/delaunay.py train --size small --run runs/delaunay-small  # a smaller one, for speed on a CPU
    python recipes/delaunay.py test --run runs/delaunay --output results/delaunay.json

Training takes minutes on one GPU; repeat the command to resume it.
Test sets come from a seed that neither training nor tuning uses.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from gln.bench.predict import SMALLER_CONFIG

import gln
from gln.evaluation import EdgeScores
from gln.families import parse_family
from gln.losses import Loss
from gln.training.augment import RandomRotation
from gln.training.facts import write_result
from gln.training.prediction import soft_batches

TRAIN_SEED, VAL_SEED, TEST_SEED = 1, 2, 1_000_003
SIZES = {"usual": {}, "small": SMALLER_CONFIG}
TEST_COUNT = {"50": 5000, "20-80": 5000, "200": 500, "1000": 50}


def train(
    points: str, size: str, run: Path, count: int, epochs: int, batch_size: int, workers: int, compile: bool,
    seed: int,
) -> None:  # fmt: skip
    family = parse_family(f"delaunay:points={points}")
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(seed)
    model = gln.GLN(in_channels=0, pos_channels=2, **SIZES[size])
    result = gln.fit(
        model,
        family.sample(count, seed, workers=max(1, workers)),
        family.sample(1000, VAL_SEED),
        run=run,
        resume=True,
        loss=Loss(edge="plain", psi1=5, every_step=True),
        augment=RandomRotation(),
        epochs=epochs,
        batch_size=batch_size,
        lr=1e-3,
        warmup=0.02,
        weight_decay=1e-4,
        compile=compile,
        num_workers=workers,
        progress=False,
        seed=seed - TRAIN_SEED,
    )
    print(result)


def training_seed(text: str) -> int:
    """A seed whose graphs are not used for validation or testing."""
    if int(text) in (VAL_SEED, TEST_SEED):
        raise argparse.ArgumentTypeError(f"{text} draws the validation or test graphs; choose another seed.")
    return int(text)


def test(run: Path, points: list[str], output: Path) -> None:
    model = gln.load(run).to("cuda" if torch.cuda.is_available() else "cpu")
    rows = []
    for size in points:
        graphs = parse_family(f"delaunay:points={size}").sample(TEST_COUNT[size], TEST_SEED)
        start = time.perf_counter()
        row = {"points": size, "sets": len(graphs), "seed": TEST_SEED, **score(model, graphs)}
        row["seconds"] = round(time.perf_counter() - start, 2)
        rows.append(row)
        print(row)
    measured = {"model": model.config, "training": model.training_facts, "rows": rows}
    write_result(
        output, f"python recipes/delaunay.py test --run {run} --output {output}", TEST_SEED, measured
    )


def score(model: torch.nn.Module, graphs: list) -> dict[str, float]:
    """The benchmark's metric: all n² entries, diagonal included, mean over sets."""
    scores, recalls = EdgeScores(model.threshold, entries="all"), []
    for _, batch, soft, recall in soft_batches(model, graphs, batch_size=64):
        scores.to(soft.device).update(soft, batch.adj, batch.mask)
        recalls.append(recall.cpu())
    found = {name: float(value) for name, value in scores.compute().items()}
    return found | {"candidate_recall": float(torch.cat(recalls).mean())}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    training = commands.add_parser("train")
    training.add_argument("--points", default="20-80")
    training.add_argument("--size", choices=list(SIZES), default="usual", help="size of the model")
    training.add_argument("--run", type=Path, required=True)
    training.add_argument("--count", type=int, default=50_000)
    training.add_argument("--epochs", type=int, default=20)
    training.add_argument("--batch-size", type=int, default=64)
    training.add_argument("--workers", type=int, default=4)
    training.add_argument("--compile", action="store_true", help="worthwhile if all sets have the same size")
    training.add_argument(
        "--seed", type=training_seed, default=TRAIN_SEED, help="seed of the weights and graphs"
    )
    testing = commands.add_parser("test")
    testing.add_argument("--run", type=Path, required=True)
    testing.add_argument("--points", nargs="+", default=list(TEST_COUNT))
    testing.add_argument("--output", type=Path, required=True)
    words = vars(parser.parse_args())
    {"train": train, "test": test}[words.pop("command")](**words)


if __name__ == "__main__":
    main()
