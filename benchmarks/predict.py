"""Small sets on a CPU: graphs per second and F1 of GLN and of Set2Graph with its published widths."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from benchmarks.common import f1_of, threads, turns
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.models.set2graph import Set2Graph, Size
from gln.seeds import TEST_SEED
from gln.storage.facts import read_facts
from gln.storage.models import load_model

# the shipped models, and how many candidates they may use: all pairs, or fewer, which are faster
OURS = (("delaunay", None), ("delaunay", 24), ("delaunay", 20), ("delaunay-small", 20))
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
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        ways: list[Way] = [(f"Set2Graph ({peer} widths)", Set2Graph(size=peer), None)]
    ways += [(name, load_model(name), candidates) for name, candidates in OURS]
    f1 = [_peer_f1(peer, points), *(f1_of(model, test, candidates) for _, model, candidates in ways[1:])]
    rows = []
    for count in sorted({1, torch.get_num_threads()}):
        with threads(count):
            measured = _measure(ways, test[:sets], repeats)
        rows += [row | {"threads": count, "f1": f} for row, f in zip(measured, f1, strict=True)]
    settings = {
        "points": points,
        "sets": sets,
        "scored": scored,
        "seed": seed,
        "turns": repeats,
        "device": "CPU",
    }
    return {"name": "predict", "rows": rows, "settings": settings}


def _measure(ways: list[Way], graphs: list[Data], repeats: int) -> list[dict[str, Any]]:
    batch = GraphBatch.from_graphs(graphs, edges=False)
    calls = []
    for _, model, candidates in ways:
        more = {} if candidates is None else {"candidates": candidates}
        calls.append(partial(model.eval(), batch, **more))
    with torch.no_grad():
        turns(calls, 1)  # compiles loops and allocates memory
        times = turns(calls, repeats)
    return [
        {
            "model": name,
            "candidates": candidates,
            "graphs_per_second": len(graphs) / median(turn[number] for turn in times),
            "ratio": median(turn[0] / turn[number] for turn in times),
        }
        for number, (name, _, candidates) in enumerate(ways)
    ]


def _peer_f1(size: Size, points: int) -> float | None:
    """The F1 of the trained Set2Graph on sets of ``points`` points, if it was measured."""
    if size != "published" or not PEER_RESULT.exists():
        return None
    result = read_facts(PEER_RESULT)
    return float(result["test"]["dice"]) if result["points"] == points else None
