"""Small sets on a CPU: graphs per second and F1 of GLN and of Set2Graph with its published widths."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from gln.baselines.set2graph import Set2Graph, Size
from gln.errors import GLNError
from gln.evaluation import edge_scores
from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.inference.predict import predict
from gln.models import GLN
from gln.storage.models import load_model, shipped
from gln.storage.tensors import read_json

MODEL = "delaunay"
# The smaller GLN, which ships under this name once it is trained: recipes/delaunay.py train --size small.
SMALLER = "delaunay-small"
SMALLER_CONFIG: dict[str, Any] = {"width": 48, "pair_width": 32, "steps": 4}
CANDIDATES = (24, 20)  # fewer are faster; the smaller model uses the fewest
TEST_SEED = 1_000_003  # as in the tests of recipes/delaunay.py
PEER_RESULT = Path("results/baseline-set2graph.json")

Way = tuple[str, nn.Module, int | None]  # name, model, candidates


def run(
    points: int = 50,
    sets: int = 64,
    scored: int = 1000,
    repeats: int = 5,
    seed: int = TEST_SEED,
    peer: Size = "published",
) -> dict[str, Any]:
    """Graphs per second of each model over one batch of Delaunay sets on a CPU, in alternating turns.

    The time is that of the model, from a padded batch to the scores of all pairs, including the choice of candidates.
    F1 is the benchmark's: all n² entries, mean over sets. The ratio is the median over turns. The speed of Set2Graph
    does not depend on its training, so it is timed untrained; its F1 was measured on the trained model.

    Args:
        points: number of points of each set.
        sets: number of sets in the batch.
        scored: number of sets for the F1, including those of the batch.
        repeats: number of turns.
        seed: of the sets.
        peer: widths of Set2Graph.
    """
    if points < 3 or not 1 <= sets <= scored or repeats < 1:
        raise GLNError(
            f"Got points={points}, sets={sets}, scored={scored}, repeats={repeats}; expected at least 3 points, "
            "1 set, as many sets to score, and 1 turn."
        )
    test = parse_family(f"delaunay:points={points}").sample(scored, seed)
    graphs = test[:sets]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        trained = SMALLER in shipped()
        smaller = load_model(SMALLER) if trained else GLN(pos_channels=2, **SMALLER_CONFIG)
        baseline = Set2Graph(size=peer)
    model = load_model(MODEL)
    ours: list[Way] = [(MODEL, model, candidates) for candidates in (None, *CANDIDATES)]
    ours.append((SMALLER, smaller, CANDIDATES[-1]))
    f1 = [_f1(way, test) if trained or way[1] is model else None for way in ours]
    default = torch.get_num_threads()
    rows = []
    try:
        for threads in sorted({1, default}):
            torch.set_num_threads(threads)
            rows += _measure(
                [(f"Set2Graph ({peer} widths)", baseline, None), *ours], graphs, repeats, threads
            )
    finally:
        torch.set_num_threads(default)
    found = [_peer_f1(peer, points), *f1]
    return {
        "name": "predict",
        "rows": [row | {"f1": found[number % len(found)]} for number, row in enumerate(rows)],
        "settings": {
            "points": points,
            "sets": sets,
            "scored": scored,
            "seed": seed,
            "turns": repeats,
            "smaller": f"{_words(SMALLER_CONFIG)}; {'trained' if trained else 'not trained yet'}",
            "device": "CPU",
        },
    }


def table(row: dict[str, Any]) -> str:
    """The result as text: a line for each model, with the ratio to Set2Graph."""
    lines = [f"{'model':<26}{'candidates':>12}{'threads':>9}{'graphs/s':>10}{'ratio':>8}{'F1':>11}"]
    for line in row["rows"]:
        f1 = "untrained" if line["f1"] is None else f"{line['f1']:.4f}"
        candidates = "all" if line["candidates"] is None else line["candidates"]
        lines.append(
            f"{line['model']:<26}{candidates:>12}{line['threads']:>9}{line['graphs_per_second']:>10.1f}"
            f"{line['ratio']:>7.2f}×{f1:>11}"
        )
    return "\n".join(lines)


def _measure(ways: list[Way], graphs: list[Data], repeats: int, threads: int) -> list[dict[str, Any]]:
    batch = GraphBatch.from_graphs(graphs, edges=False)
    calls: list[Callable[[], Any]] = []
    for _, model, candidates in ways:
        more = {} if candidates is None else {"candidates": candidates}
        calls.append(partial(model.eval(), batch, **more))
    with torch.no_grad():
        for call in calls:
            call()  # compiles loops and allocates memory
        turns = [[_seconds(call) for call in calls] for _ in range(repeats)]
    return [
        {
            "model": name,
            "candidates": candidates,
            "threads": threads,
            "graphs_per_second": len(graphs) / median(turn[number] for turn in turns),
            "ratio": median(turn[0] / turn[number] for turn in turns),
        }
        for number, (name, _, candidates) in enumerate(ways)
    ]


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _f1(way: Way, graphs: list[Data]) -> float:
    _, model, candidates = way
    answers = predict(model, graphs, candidates=candidates, batch_size=64)
    return float(edge_scores(graphs, answers, entries="all")["dice"])


def _peer_f1(size: Size, points: int) -> float | None:
    """The F1 of the trained Set2Graph on sets of ``points`` points, if it was measured."""
    if size != "published" or not PEER_RESULT.exists():
        return None
    result = read_json(PEER_RESULT)
    return float(result["test"]["dice"]) if result["points"] == points else None


def _words(config: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())
