"""A training step of the paper's network through the factors of ``M α Mᵀ``, against the products as written."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from gln.errors import GLNError
from gln.graphs import GraphBatch
from gln.models.paper import PaperGLN, at
from gln.training.losses import Loss

REPEATS = 5
FEATURES = 3


class AsWritten(PaperGLN):
    """``α`` as an n × n matrix, then ``M α Mᵀ`` by two products of n × n matrices."""

    def rho(self, l: int, left: Tensor, right: Tensor) -> Tensor:
        alpha = left @ right.mT  # [B, N, N]
        M = at(self.M, l)
        return self.symmetrise(M @ alpha @ M.T)


def run(nodes: int = 400, batch: int = 20, seed: int = 0) -> dict[str, Any]:
    """Seconds for forward, loss and backward of ``variant="equations"``, both ways in alternating turns.

    Both have the same weights; in float64, their gradients must agree to 1e-9 of the largest. Peak memory is that
    of a fresh process that takes one such step.

    Args:
        nodes: number of nodes of each graph.
        batch: graphs in the batch.
        seed: of weights, features and edges.
    """
    if nodes < 2 or batch < 1 or seed < 0:
        raise GLNError(f"Got nodes={nodes}, batch={batch}, seed={seed}; expected at least 2, 1 and 0.")
    graphs = _graphs(nodes, batch, seed)
    ours, peer = _model(PaperGLN, nodes, seed), _model(AsWritten, nodes, seed)
    threads = torch.get_num_threads()
    # On a busy machine, several threads would mostly measure how they wait for each other.
    torch.set_num_threads(1)
    try:
        _step(ours.double(), graphs), _step(peer.double(), graphs)
        difference = max(map(_difference, ours.parameters(), peer.parameters()))
        _step(ours.float(), graphs), _step(peer.float(), graphs)  # the first calls pay for allocating memory
        turns = [(_step(ours, graphs), _step(peer, graphs)) for _ in range(REPEATS)]
    finally:
        torch.set_num_threads(threads)
    if difference > 1e-9:
        raise AssertionError(f"The gradients of the two ways differ by {difference:.3g} of the largest.")
    ours_seconds, peer_seconds = (median(seconds) for seconds in zip(*turns, strict=True))
    return {
        "name": "paper-step",
        "ours_seconds": ours_seconds,
        "peer_seconds": peer_seconds,
        "ratio": peer_seconds / ours_seconds,
        "settings": {
            "nodes": nodes,
            "batch": batch,
            "seed": seed,
            "peer": "α formed, M α Mᵀ by two products of n × n matrices",
            "ours": f"the rank-d factors of α; both the median of {REPEATS} turns",
            "threads": 1,
            "difference": difference,
            "ours_memory": _memory(PaperGLN, nodes, batch, seed),
            "peer_memory": _memory(AsWritten, nodes, batch, seed),
        },
    }


def _graphs(nodes: int, batch: int, seed: int) -> GraphBatch:
    rng = torch.Generator().manual_seed(seed)
    pos = torch.randn(batch, nodes, FEATURES, generator=rng)
    adj = torch.rand(batch, nodes, nodes, generator=rng).triu(1) > 1 - 4 / nodes  # about 4 edges per node
    return GraphBatch(pos, None, adj | adj.mT, torch.ones(batch, nodes, dtype=torch.bool))


def _model(kind: type[PaperGLN], nodes: int, seed: int) -> PaperGLN:
    torch.manual_seed(seed)
    return kind(nodes, FEATURES)


def _step(model: PaperGLN, graphs: GraphBatch) -> float:
    model.zero_grad()
    start = time.perf_counter()
    Loss()(model(graphs), graphs).mean().backward()
    return time.perf_counter() - start


def _difference(one: Tensor, other: Tensor) -> float:
    """The difference between two gradients, as a share of the largest entry."""
    assert one.grad is not None
    assert other.grad is not None
    return float((one.grad - other.grad).abs().max() / other.grad.abs().max())


def _memory(kind: type[PaperGLN], nodes: int, batch: int, seed: int) -> dict[str, float] | None:
    """Peak resident megabytes before and with one step; ``None`` if the system does not tell."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(_peaks, kind, nodes, batch, seed).result()


def _peaks(kind: type[PaperGLN], nodes: int, batch: int, seed: int) -> dict[str, float] | None:
    model, graphs = _model(kind, nodes, seed), _graphs(nodes, batch, seed)
    before = _high_water()
    _step(model, graphs)
    peak = _high_water()
    return None if before is None or peak is None else {"before_mb": before, "peak_mb": peak}


def _high_water() -> float | None:
    """Peak resident megabytes; not from ``ru_maxrss``, which a process inherits from its parent."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)
