"""Time and memory for one very large set of n, 2n and 4n points: do they grow linearly?"""

from __future__ import annotations

import os
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from benchmarks.common import in_fresh_process, peak_memory
from gln.errors import GLNError
from gln.evaluation.edges import edge_scores
from gln.families.delaunay import delaunay_edges
from gln.inference.predict import predict
from gln.storage.models import load_model

SMALLEST = {"cpu": 50_000, "cuda": 250_000}  # points, by device
WARM = 5_000  # points of a first set, so that kernels are compiled and files read before the clock starts
MODEL = "delaunay"


def run(points: int | None = None, doublings: int = 2, seed: int = 0) -> dict[str, Any]:
    """Seconds, peak memory and F1 of the shipped Delaunay model over uniform points, each size in its own process.

    The time is that of ``gln.predict``, from points in memory to edges in memory, after a first prediction of 5 000
    points, which compiles kernels or finds them on the disk; its seconds are listed too. The memory is the peak of the
    whole process, including Python, torch and the model. F1 is against scipy's triangulation, over unordered pairs.

    Args:
        points: size of the smallest set; default: what suits the device.
        doublings: how many times the set is doubled.
        seed: of the points.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    points = SMALLEST[device] if points is None else points
    if points < 3 or doublings < 0:
        raise GLNError(
            f"Got points={points}, doublings={doublings}; expected at least 3 points and 0 doublings."
        )
    sizes = [in_fresh_process(measure, points * 2**number, device, seed) for number in range(doublings + 1)]
    memory = "gpu_gib" if device == "cuda" else "memory_gib"
    settings = {
        "model": f"{MODEL}, as shipped",
        "device": device,
        "seed": seed,
        "threads": torch.get_num_threads(),
        "load": [round(load, 1) for load in os.getloadavg()],
    }
    return {
        "name": "scale",
        "sizes": sizes,
        "time_ratios": [large["seconds"] / small["seconds"] for small, large in pairwise(sizes)],
        "memory_ratios": [large[memory] / small[memory] for small, large in pairwise(sizes)],
        "settings": settings,
    }


def measure(points: int, device: str, seed: int) -> dict[str, Any]:
    """Measure one size."""
    model = load_model(MODEL).to(device)
    pos = np.random.default_rng(seed).random((points, 2), dtype=np.float32)
    started = time.perf_counter()
    predict(model, pos[:WARM])
    start, start_cpu = time.perf_counter(), time.process_time()
    answer = predict(model, pos)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    memory = peak_memory()
    gpu = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
    truth = Data(pos=answer.pos, edge_index=delaunay_edges(answer.pos), num_nodes=points)
    f1 = edge_scores([truth], [answer])["dice"]
    return {
        "points": points,
        "seconds": seconds,
        "first_seconds": start - started,
        "cpu_seconds": cpu_seconds,
        "memory_gib": memory,
        "gpu_gib": gpu,
        "edges": answer.num_edges // 2,
        "f1": float(f1),
    }
