"""Small sets: graphs per second and F1 of GLN and of Set2Graph with its published widths."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch_geometric.data import Data

from benchmarks.common import device_name, f1_of, fast_products, threads, turns
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.inference.predict import Forward
from gln.models.set2graph import Set2Graph, Size
from gln.seeds import TEST_SEED
from gln.storage.facts import read_facts
from gln.storage.models import load_model

# the shipped models, and how many candidates they may use: all pairs, or fewer, which are faster
OURS = (("delaunay", None), ("delaunay", 24), ("delaunay", 20), ("delaunay-small", 20))
PEER_RESULT = Path("results/baseline-set2graph.json")

ON_GPU = (("delaunay", None), ("delaunay-small", None))

Way = tuple[str, nn.Module, int | None]  # name, model, candidates


def run(
    points: str = "50",
    sets: int = 64,
    scored: int = 1000,
    repeats: int = 5,
    seed: int = TEST_SEED,
    peer: Size = "published",
) -> dict[str, Any]:
    """Graphs per second of each model over one batch of Delaunay sets, in alternating turns.

    The time is that of the model, from a padded batch to the scores of all pairs, including the choice of candidates;
    on a GPU, of ten batches one after the other. There GLN computes as in every prediction, Set2Graph as published,
    launch by launch in float32 (products as in training), and in another row as GLN does, replayed in bfloat16.
    F1 is the benchmark's: all n² entries, mean over sets. The ratio is the median over turns. The speed of Set2Graph
    does not depend on its training, so it is timed untrained; its F1 was measured on the trained model.

    Args:
        points: number of points of each set, or the least and the most, as in 20-80.
        sets: number of sets in the batch.
        scored: number of sets for the F1, including those of the batch.
        repeats: number of turns.
        seed: of the sets.
        peer: widths of Set2Graph.
    """
    if not 1 <= sets <= scored or repeats < 1:
        raise GLNError(
            f"Got sets={sets}, scored={scored}, repeats={repeats}; expected at least 1 set, as many sets to score, and "
            "1 turn."
        )
    on_gpu = torch.cuda.is_available()
    test = parse_family(f"delaunay:points={points}").sample(scored, seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        ways: list[Way] = [(f"Set2Graph ({peer} widths)", Set2Graph(size=peer), None)]
    ours = [(name, load_model(name), candidates) for name, candidates in (ON_GPU if on_gpu else OURS)]
    for _, model, _ in ways + ours if on_gpu else ():
        model.cuda()
    f1 = [_peer_f1(peer, points), *(f1_of(model, test, candidates) for _, model, candidates in ours)]
    rows = []
    for count in [1] if on_gpu else sorted({1, torch.get_num_threads()}):
        with threads(count):
            measured = (_measure_gpu if on_gpu else _measure)(ways + ours, test[:sets], repeats)
        more = {} if on_gpu else {"threads": count}
        scores = f1 + f1[:1] if on_gpu else f1  # there, the last row is the peer again
        rows += [row | more | {"f1": f} for row, f in zip(measured, scores, strict=True)]
    settings = {
        "points": points,
        "sets": sets,
        "scored": scored,
        "seed": seed,
        "turns": repeats,
        "device": device_name(),
    }
    return {"name": "predict", "rows": rows, "settings": settings}


def _measure_gpu(ways: list[Way], graphs: list[Data], repeats: int) -> list[dict[str, Any]]:
    batch = GraphBatch.from_graphs(graphs, edges=False).to("cuda")
    device = batch.mask.device
    (name, peer, _), *ours = [(name, model.eval(), None) for name, model, _ in ways]
    fast = copy.deepcopy(peer)
    fast.trains_in_bfloat16 = True  # type: ignore[assignment]
    calls: dict[str, Callable[[], object]] = {name: partial(peer, batch)}
    calls |= {model_name: partial(Forward(model, device), batch) for model_name, model, _ in ours}
    calls[f"{name}, replayed, bfloat16"] = partial(Forward(fast, device), batch)

    def ten(call: Callable[[], object]) -> None:
        for _ in range(10):
            call()

    ways_of_ten = [partial(ten, call) for call in calls.values()]
    with torch.no_grad(), fast_products():
        turns(ways_of_ten, 1)
        times = turns(ways_of_ten, repeats)
    return _rows([(name, None) for name in calls], times, 10 * len(graphs))


def _measure(ways: list[Way], graphs: list[Data], repeats: int) -> list[dict[str, Any]]:
    batch = GraphBatch.from_graphs(graphs, edges=False)
    calls = []
    for _, model, candidates in ways:
        more = {} if candidates is None else {"candidates": candidates}
        calls.append(partial(model.eval(), batch, **more))
    with torch.no_grad():
        turns(calls, 1)  # compiles loops and allocates memory
        times = turns(calls, repeats)
    return _rows([(name, candidates) for name, _, candidates in ways], times, len(graphs))


def _rows(names: list[tuple[str, int | None]], times: list[list[float]], graphs: int) -> list[dict[str, Any]]:
    return [
        {
            "model": name,
            "candidates": candidates,
            "graphs_per_second": graphs / median(turn[number] for turn in times),
            "ratio": median(turn[0] / turn[number] for turn in times),
        }
        for number, (name, candidates) in enumerate(names)
    ]


def _peer_f1(size: Size, points: str) -> float | None:
    """The F1 of the trained Set2Graph on sets of ``points`` points, if it was measured."""
    if size != "published" or not PEER_RESULT.exists():
        return None
    result = read_facts(PEER_RESULT)
    return float(result["test"]["dice"]) if str(result["points"]) == points else None
