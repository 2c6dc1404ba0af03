"""A training step of the paper's network through the factors of ``M α Mᵀ``, against the products as written."""

from __future__ import annotations

from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import in_fresh_process, peak_memory, side_by_side, threads, turns
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
    ours, theirs = _model(PaperGLN, nodes, seed), _model(AsWritten, nodes, seed)
    # On a busy machine, several threads would mostly measure how they wait for each other.
    with threads(1):
        for model in (ours, theirs):
            _step(model.double(), graphs)
        difference = max(map(_difference, ours.parameters(), theirs.parameters()))
        calls = [lambda: _step(ours.float(), graphs), lambda: _step(theirs.float(), graphs)]
        turns(calls, 1)  # the first calls pay for allocating memory
        ours_turns, peer_turns = zip(*turns(calls, REPEATS), strict=True)
    if difference > 1e-9:
        raise AssertionError(f"The gradients of the two ways differ by {difference:.3g} of the largest.")
    settings = {
        "nodes": nodes,
        "batch": batch,
        "seed": seed,
        "peer": "α formed, M α Mᵀ by two products of n × n matrices",
        "ours": f"the rank-d factors of α; both the median of {REPEATS} turns",
        "threads": 1,
        "difference": difference,
        "ours_memory": in_fresh_process(_peaks, PaperGLN, nodes, batch, seed),
        "peer_memory": in_fresh_process(_peaks, AsWritten, nodes, batch, seed),
    }
    return side_by_side("paper-step", median(ours_turns), median(peer_turns), settings)


def _graphs(nodes: int, batch: int, seed: int) -> GraphBatch:
    rng = torch.Generator().manual_seed(seed)
    pos = torch.randn(batch, nodes, FEATURES, generator=rng)
    adj = torch.rand(batch, nodes, nodes, generator=rng).triu(1) > 1 - 4 / nodes  # about 4 edges per node
    return GraphBatch(pos, None, adj | adj.mT, torch.ones(batch, nodes, dtype=torch.bool))


def _model(kind: type[PaperGLN], nodes: int, seed: int) -> PaperGLN:
    torch.manual_seed(seed)
    return kind(nodes, FEATURES)


def _step(model: PaperGLN, graphs: GraphBatch) -> None:
    model.zero_grad()
    Loss()(model(graphs), graphs).mean().backward()


def _difference(one: Tensor, other: Tensor) -> float:
    """The difference between two gradients, as a share of the largest entry."""
    assert one.grad is not None
    assert other.grad is not None
    return float((one.grad - other.grad).abs().max() / other.grad.abs().max())


def _peaks(kind: type[PaperGLN], nodes: int, batch: int, seed: int) -> dict[str, float]:
    """Peak memory in GiB before and with one step."""
    model, graphs = _model(kind, nodes, seed), _graphs(nodes, batch, seed)
    before = peak_memory()
    _step(model, graphs)
    return {"before_gib": before, "peak_gib": peak_memory()}
