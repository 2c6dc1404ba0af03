"""Train and test the Delaunay models.

    python recipes/delaunay.py train --points 20-80 --run runs/delaunay      # the shipped model
    python recipes/delaunay.py train --points 50 --run runs/delaunay-50      # Set2Graph's benchmark
    python recipes/delaunay.py train --size small --run runs/delaunay-small  # a smaller one, for speed on a CPU
    python recipes/delaunay.py test --run runs/delaunay --output results/delaunay.json

Training takes minutes on one GPU; repeat the command to resume it.
Test sets come from a seed that neither training nor tuning uses.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import gln
from gln.families import parse_family
from gln.storage.provenance import check_source, write_result
from shared import (
    TEST_SEED,
    TRAIN_SEED,
    VAL_SEED,
    begin,
    check_training_seed,
    command,
    fit,
    load_on_device,
    run_command,
    score_all_entries,
)

SIZES: dict[str, dict[str, Any]] = {
    "usual": {"steps": 4},
    "small": {"width": 48, "pair_width": 32, "steps": 4},
}
LR = {"usual": 1e-3, "small": 2e-3}  # with 2e-3 the usual size diverged in its ninth epoch
TEST_COUNT = {"50": 5000, "20-80": 5000, "200": 500, "1000": 50}


def train(
    run: Path,
    points: str = "20-80",
    size: Literal["usual", "small"] = "usual",
    count: int = 50_000,
    epochs: int = 20,
    batch_size: int = 64,
    workers: int = 4,
    seed: int = TRAIN_SEED,
) -> None:
    """Train a model."""
    check_training_seed(seed)
    family = parse_family(f"delaunay:points={points}")
    begin(seed)
    result = fit(
        gln.GLN(in_channels=0, pos_channels=2, **SIZES[size]),
        family.sample(count, seed, workers=max(1, workers)),
        family.sample(1000, VAL_SEED),
        run,
        epochs=epochs,
        batch_size=batch_size,
        lr=LR[size],
        num_workers=workers,
        seed=seed - TRAIN_SEED,
    )
    print(result)


def test(run: Path, output: Path, points: tuple[str, ...] = tuple(TEST_COUNT)) -> None:
    """Test a model on sets of several sizes."""
    check_source(output)
    model = load_on_device(run)
    rows = []
    for size in points:
        graphs = parse_family(f"delaunay:points={size}").sample(TEST_COUNT[size], TEST_SEED)
        start = time.perf_counter()
        scores = score_all_entries(model, graphs, model.threshold, batch_size=64)  # the benchmark's metric
        row = {"points": size, "sets": len(graphs), "seed": TEST_SEED, **scores}
        row["seconds"] = round(time.perf_counter() - start, 2)
        rows.append(row)
        print(row)
    measured = {"model": model.config, "training": model.training_facts, "rows": rows}
    write_result(output, command(), TEST_SEED, measured)


if __name__ == "__main__":
    run_command(__doc__, train, test)
