"""One training step over candidates: surfaces, launched kernel by kernel and, on a GPU, replayed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from benchmarks.common import device_name, fast_products, turns
from benchmarks.train_step import Way, half_precision, in_a_row, step_of
from gln.errors import GLNError
from gln.families import parse_family
from gln.graphs import GraphBatch
from gln.models import GLN


def run(
    points: int = 400, graphs: int = 4, candidates: int = 64, steps: int | None = None, seed: int = 0
) -> dict[str, Any]:
    """Seconds of forward, loss, backward and AdamW over one batch of surfaces, of many steps one after the other.

    How many candidates a node has is drawn anew for every step, up to the number given. A replayed step is recorded
    once for each padded length of their list, before the clock starts; the better of two turns counts.

    Args:
        points: of each surface; more than 128, or all pairs are scored.
        graphs: in a step.
        candidates: at most, of a node.
        steps: in a turn; default: 50 on a GPU, 2 on a CPU.
        seed: of weights, surfaces and numbers of candidates.
    """
    on_gpu = torch.cuda.is_available()
    steps = (50 if on_gpu else 2) if steps is None else steps
    if graphs < 1 or steps < 1:
        raise GLNError(f"Got graphs={graphs}, steps={steps}; expected at least 1 of each.")
    device = torch.device("cuda" if on_gpu else "cpu")
    family = f"surfaces:points={points}"
    batch = GraphBatch.from_graphs(parse_family(family).sample(graphs, seed)).to(device)
    rows = []
    # What is recorded must not run on the default stream.
    stream = torch.cuda.stream(torch.cuda.Stream()) if on_gpu else nullcontext()
    with fast_products(), torch.random.fork_rng(), stream:
        for replayed in (False, True) if on_gpu else (False,):
            torch.manual_seed(seed)
            model = GLN(pos_channels=3, candidates=candidates).to(device)
            way = Way(model, half_precision if replayed else nullcontext, replayed)
            call = in_a_row(steps, step_of(way, batch))
            turns([call], 4 if replayed else 1)  # compiles, and records what occurs
            seconds = min(turn[0] for turn in turns([call], 2)) / steps
            rows.append({"way": "replayed, bfloat16" if replayed else "eager", "seconds": seconds})
    settings = {"family": family, "graphs": graphs, "candidates": candidates, "steps": steps, "seed": seed}
    settings |= {"device": device_name(), "threads": torch.get_num_threads()}
    return {"name": "surfaces-step", "rows": rows, "settings": settings}
