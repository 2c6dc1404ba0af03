"""The mixing over third nodes on a GPU: how far its kernels are from their limit, and a triangle product beside it."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.common import device_name, seconds_of
from benchmarks.train_step import copy_rate, matrix_rate
from benchmarks.triangle import triangle
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.models import GLN
from gln.models.candidates import all_pairs
from gln.ops.mix import mix_all
from gln.training.losses import Loss

SIZES = ((64, 20), (64, 50), (64, 128), (8, 256), (1, 1024))  # sets and nodes
EXPONENTIALS = 16  # per multiprocessor and cycle, on a Hopper GPU


def run(seed: int = 0, repeats: int = 20) -> dict[str, Any]:
    """Milliseconds of the mixing's kernels, both ways, in bfloat16, 64 channels in four heads, and of one large step.

    The limit is the longest of three times: of one exponential for every score, of every input read and every result
    written once, and of all products. Weights that go through memory in two orders, as they do, are 8 bytes per score
    more, for 64 sets of 128 nodes 4.3 GB: a millisecond on an H200. The triangle product mixes as many channels by
    matrix products.

    Args:
        seed: of the large step.
        repeats: of every time, of which the median counts.
    """
    if not torch.cuda.is_available():
        raise GLNError("The benchmark needs a GPU; on a CPU, see train-step.")
    large = _large_step(seed)
    with torch.cuda.stream(torch.cuda.Stream()):  # what is recorded must not have begun on the default stream
        rates = _rates()
        rows = [_sizes(count, nodes, repeats, rates) for count, nodes in SIZES]
    settings = {"seed": seed, "heads": 4, "channels": 64, "device": device_name()}
    return {"name": "mixing", "rows": rows, "large_step": large, "settings": settings}


class Rates(NamedTuple):
    """Of the device, in a second."""

    exponentials: float
    bytes: float  # copied, read and written
    products: float  # multiply-adds in bfloat16


def _rates() -> Rates:
    device, properties = torch.device("cuda"), torch.cuda.get_device_properties(0)
    cycles = 1e3 * getattr(properties, "clock_rate", 1.98e6)
    exponentials = EXPONENTIALS * properties.multi_processor_count * cycles
    return Rates(exponentials, copy_rate(8192, device), matrix_rate(8192, device, torch.bfloat16))


def _sizes(count: int, nodes: int, repeats: int, rates: Rates) -> dict[str, Any]:
    make: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16, "requires_grad": True}
    read = torch.randn(count, nodes, nodes, 4, 4, 16, **make)
    mask = torch.ones(count, nodes, nodes, dtype=torch.bool, device="cuda")
    forward, backward = _both_ways(lambda: mix_all(read, mask), (read,), repeats)
    a, b = (torch.randn(count, nodes, nodes, 64, **make) for _ in range(2))
    product, product_backward = _both_ways(lambda: (triangle(a, b),), (a, b), repeats)
    scores = count * 4 * nodes**3
    least = {
        "exponentials_ms": 1e3 * scores / rates.exponentials,
        "bytes_ms": 1e3 * (read.numel() + read.numel() // 4) * 2 / rates.bytes,
        "products_ms": 1e3 * 3 * scores * 16 / rates.products,
    }
    limit = max(least.values())
    row = {"sets": count, "nodes": nodes, "forward_ms": forward, "backward_ms": backward, **least}
    row |= {"of_limit": forward / limit, "triangle_ms": product, "triangle_backward_ms": product_backward}
    return row


def _both_ways(
    call: Callable[[], tuple[Tensor, ...]], leaves: tuple[Tensor, ...], repeats: int
) -> tuple[float, float]:
    results = call()
    wanted = [torch.ones_like(result) for result in results]

    def back() -> object:
        return torch.autograd.grad(results, leaves, wanted, retain_graph=True)

    return _milliseconds(call, repeats), _milliseconds(back, repeats)


def _milliseconds(call: Callable[[], object], repeats: int) -> float:
    """Of the kernels alone, replayed as in training."""
    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        call()
    graph.replay()
    return 1e3 * median(seconds_of(graph.replay) for _ in range(repeats))


def _large_step(seed: int) -> dict[str, float]:
    """One training step over all pairs of 1 024 nodes."""
    torch.manual_seed(seed)
    batch = GraphBatch.from_graphs(parse_family("delaunay:points=1024").sample(1, seed)).to(
        torch.device("cuda")
    )
    model, loss = GLN().cuda().train(), Loss(edge="plain", psi1=5, every_step=True)
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        optimiser.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = model(batch, pairs=all_pairs(batch.mask))
        loss(output.full_precision(), batch).mean().backward()
        optimiser.step()

    torch.cuda.reset_peak_memory_stats()
    step()
    seconds = median(seconds_of(step) for _ in range(3))
    return {"nodes": 1024, "ms": 1e3 * seconds, "gib": torch.cuda.max_memory_allocated() / 2**30}
