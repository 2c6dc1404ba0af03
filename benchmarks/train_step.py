"""One training step of GLN: eager, replayed, compiled, without kernels of its own, each against the floor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor, nn
from tyro.conf import Suppress

from benchmarks.common import device_name, fast_products, seconds_of, turns, weights_of
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.graphs.check import make_graph
from gln.models import GLN
from gln.models.contract import Replayable
from gln.models.set2graph import Set2Graph
from gln.models.set2graph import Size as Widths
from gln.ops import mix
from gln.ops.replay import Ahead, Replay
from gln.training import fit
from gln.training.loop import compiled_steps
from gln.training.losses import Loss

BACKWARD = 2  # the gradients of a product are two products of its size
OPTIMISER = 7  # per weight, AdamW reads it, its gradient and two moments, and writes all but the gradient


@dataclass(frozen=True)
class Size:
    """The task and models for one kind of device."""

    points: int
    sets: int
    model: dict[str, Any]
    peer: Widths
    repeats: int
    square: int  # side of the matrices that measure the device
    steps: int = 1  # one after the other in a turn, as training does on a GPU, which is not waited for


GPU = Size(50, 64, {}, "published", 10, 8192, steps=10)
CPU = Size(50, 16, {}, "published", 5, 1024)


class Work(NamedTuple):
    """Multiply-adds, and numbers that are read or written."""

    products: int
    numbers: int


def run(size: Annotated[Size | None, Suppress] = None, seed: int = 0) -> dict[str, Any]:
    """Seconds of forward, loss, backward and AdamW over one batch of Delaunay sets, all ways in alternating turns.

    On a GPU, of ten steps one after the other; then batches per second of a whole training on small graphs.

    Args:
        size: the task and models; default: the benchmark's 64 sets of 50 points on a GPU, 16 such sets on a CPU.
        seed: of weights and sets.
    """
    size = size or (GPU if torch.cuda.is_available() else CPU)
    if size.points < 3 or size.sets < 1 or size.repeats < 1:
        raise GLNError(f"Got {size}; expected at least 3 points, 1 set and 1 turn.")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    graphs = parse_family(f"delaunay:points={size.points}").sample(size.sets, seed)
    batch = GraphBatch.from_graphs(graphs).to(device)
    # What is recorded must not run on the default stream.
    stream = torch.cuda.stream(torch.cuda.Stream()) if device.type == "cuda" else nullcontext()
    with fast_products(), torch.random.fork_rng(), stream:
        torch.manual_seed(seed)
        steps = {name: step_of(way, batch) for name, way in _ways(size, device).items()}
        calls = {name: in_a_row(size.steps, step) for name, step in steps.items()}
        times = turns(list(calls.values()), 1 + size.repeats)[1:]  # the first compiles and records
        more = _small(seed) if device.type == "cuda" else {}
        matrix, copy = matrix_rate(size.square, device), copy_rate(size.square, device)
        half = matrix_rate(size.square, device, torch.bfloat16)
    seconds = {
        name: median(turn) / size.steps for name, turn in zip(calls, zip(*times, strict=True), strict=True)
    }
    work = step_work(GLN(**size.model).config, size.sets, size.points)
    needs = {"matrix_seconds": work.products / matrix, "copy_seconds": 4 * work.numbers / copy}
    floor = max(needs.values())
    rows = [
        {"way": name, "seconds": took, "ratio": seconds["Set2Graph"] / took, "of_floor": took / floor}
        for name, took in seconds.items()
    ]
    settings = {
        "points": size.points,
        "sets": size.sets,
        "seed": seed,
        "model": GLN(**size.model).config,
        "peer": f"Set2Graph ({size.peer} widths)",
        "device": device_name(),
        "threads": torch.get_num_threads(),
        "products_per_second": matrix,
        "copied_bytes_per_second": copy,
    }
    least = {"products": work.products, "bytes": 4 * work.numbers, "seconds": floor, **needs}
    least["bfloat16_seconds"] = max(work.products / half, 2 * work.numbers / copy)
    return {"name": "train-step", "rows": rows, "floor": least, "settings": settings} | more


def in_a_row(count: int, step: Callable[[], object]) -> Callable[[], None]:
    def call() -> None:
        for _ in range(count):
            step()

    return call


def _small(seed: int) -> dict[str, Any]:
    """Batches per second of ``gln.fit`` as it is, on 2 000 small graphs: each of 24 nodes with its three nearest."""
    rng, graphs = np.random.default_rng(seed), []
    for pos in rng.random((2200, 24, 3), dtype=np.float32):
        near = cKDTree(pos).query(pos, 4)[1]
        edges = np.sort(np.stack([near[:, :1].repeat(3, 1), near[:, 1:]], -1).reshape(-1, 2))
        graphs.append(make_graph(pos=pos, edges=np.unique(edges, axis=0)))
    model = GLN(pos_channels=3)
    history = fit(model, graphs[:2000], graphs[2000:], epochs=6, seed=seed, progress=False).history
    seconds = (history[-1]["seconds"] - history[1]["seconds"]) / (len(history) - 2)  # after all is recorded
    batches = history[0]["step"]
    return {
        "small": {"graphs": 2000, "nodes": 24, "batches": batches, "batches_per_second": batches / seconds}
    }


def step_work(config: dict[str, Any], sets: int, points: int) -> Work:
    """The least work of a training step over all pairs: forward, backward and AdamW."""
    forward = forward_work(config, sets, points)
    times = 1 + BACKWARD
    numbers = times * forward.numbers + OPTIMISER * weights_of(GLN(**config))
    return Work(times * forward.products, numbers)


def forward_work(config: dict[str, Any], sets: int, points: int) -> Work:
    """The products of GLN over all pairs, each reading its operands and writing its result once, in any precision.

    Elementwise work between two products, such as norms, could be fused into them and counts as free.
    """
    d, c, k = config["width"], config["pair_width"], config["kernels"]
    nodes, places = sets * points, sets * points**2
    features = config["in_channels"] + config["index_channels"]
    known = 2 * config["pos_channels"] + 3 + 2 * features
    start = [(nodes, max(features, 1), d), (nodes, d, d), (places, known, 2 * c), (places, 2 * c, c)]
    listen = [(nodes, d, d), (places, c, k), (nodes, d, d)]
    think = [(nodes, d, 2 * d), (nodes, 2 * d, d)]
    ends = [(nodes, d, 2 * c), (nodes, d, 2 * c), (places, c, c)]
    weigh = [(places, c, 2 * c), (places, 2 * c, c), (places, c, 1)]
    mix = [(places, c, 4 * c), (places, c + k, c)] if config["mixing"] else []
    step = [_linear(*layer) for layer in listen + think + ends + mix + weigh]
    step.append(Work(places * d, places * k + 2 * nodes * d))  # nodes listen to nodes
    if config["mixing"]:
        # scores, and values from two sides
        step.append(Work(3 * places * points * c, places * (4 * c + c + k)))
    parts = [_linear(*layer) for layer in start] + config["steps"] * step
    return Work(sum(part.products for part in parts), sum(part.numbers for part in parts))


def _linear(rows: int, inputs: int, outputs: int) -> Work:
    return Work(rows * inputs * outputs, rows * (inputs + outputs) + inputs * outputs)


class Way(NamedTuple):
    """A model, what it runs in, and how."""

    model: nn.Module
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    replayed: bool = False
    compiled: bool = False


def _ways(size: Size, device: torch.device) -> dict[str, Way]:
    def ours() -> GLN:
        return GLN(**size.model).to(device)

    def peer() -> Set2Graph:
        return Set2Graph(size=size.peer).to(device)

    ways = {"eager": Way(ours())}
    if device.type == "cuda":
        ways["replayed, bfloat16"] = Way(ours(), half_precision, True)
        ways["compiled, replayed, bfloat16"] = Way(ours(), half_precision, True, True)
        ways["Set2Graph, replayed, bfloat16"] = Way(peer(), half_precision, True)
    # products and a softmax, each through memory
    ways["without fused kernel"] = Way(ours(), mix.reference)
    ways["Set2Graph"] = Way(peer())
    return ways


def half_precision() -> AbstractContextManager[Any]:
    return torch.autocast("cuda", dtype=torch.bfloat16)


def step_of(way: Way, batch: GraphBatch) -> Callable[[], Tensor]:
    model, context, replayed, compiled = way
    recurrent = isinstance(model, GLN)
    loss = Loss(edge="plain", psi1=5, every_step=True) if recurrent else Loss(edge="plain", structure="none")
    fused_loss = torch.compile(loss.__call__) if compiled else loss
    made: list[Any] = []
    on_gpu = batch.mask.is_cuda
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=on_gpu, capturable=on_gpu)

    def step(drawn: dict[str, Tensor]) -> Tensor:
        optimiser.zero_grad()
        with context(), compiled_steps(model, made) if compiled else nullcontext():
            output = model(batch, **drawn)
        mean = fused_loss(output.full_precision(), batch).mean()
        mean.backward()
        optimiser.step()
        return mean.detach()

    if not replayed:
        return lambda: step({})
    assert isinstance(model, Replayable)
    replay, ahead, draw = Replay(step), Ahead(), model.draw
    return lambda: replay(ahead(lambda: draw(batch) or {}))


def matrix_rate(side: int, device: torch.device, dtype: torch.dtype = torch.float32) -> float:
    """Multiply-adds per second."""
    one, two = torch.randn(2, side, side, device=device, dtype=dtype)
    return side**3 / min(seconds_of(lambda: one @ two) for _ in range(5))


def copy_rate(side: int, device: torch.device) -> float:
    """Bytes read and written per second."""
    one = torch.randn(8, side, side, device=device)
    two = torch.empty_like(one)
    return 2 * 4 * one.numel() / min(seconds_of(lambda: two.copy_(one)) for _ in range(5))
