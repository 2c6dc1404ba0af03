"""Time and memory for one very large set of n, 2n and 4n points: do they grow linearly?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from gln.errors import GLNError

SMALLEST = {"cpu": 50_000, "cuda": 250_000}  # points, by device
WARM = 5_000  # points of a first set, so that kernels are compiled and files read before the clock starts
MODEL = "delaunay"


def run(points: int | None = None, doublings: int = 2, seed: int = 0) -> dict[str, Any]:
    """Seconds, peak memory and F1 of the shipped Delaunay model over uniform points, each size in its own process.

    The time is that of ``gln.predict``, from points in memory to edges in memory. The memory is the peak of the whole
    process, including Python, torch and the model. F1 is against scipy's triangulation, over unordered pairs.

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
    sizes = [_in_own_process(points * 2**number, device, seed) for number in range(doublings + 1)]
    memory = "gpu_gib" if device == "cuda" else "memory_gib"
    return {
        "name": "scale",
        "sizes": sizes,
        "time_ratios": [large["seconds"] / small["seconds"] for small, large in pairwise(sizes)],
        "memory_ratios": [large[memory] / small[memory] for small, large in pairwise(sizes)],
        "settings": {
            "model": f"{MODEL}, as shipped",
            "device": device,
            "seed": seed,
            "threads": torch.get_num_threads(),
            "load": [round(load, 1) for load in os.getloadavg()],
        },
    }


def table(row: dict[str, Any]) -> str:
    """The result as text: a line for each size, with the ratio to the size before."""
    ratios = zip([None, *row["time_ratios"]], [None, *row["memory_ratios"]], strict=True)
    lines = [
        f"{'points':>10}{'seconds':>10}{'ratio':>7}{'CPU s':>9}{'GiB':>7}{'GPU GiB':>9}{'ratio':>7}{'F1':>9}"
    ]
    for size, (slower, larger) in zip(row["sizes"], ratios, strict=True):
        gpu = "" if size["gpu_gib"] is None else f"{size['gpu_gib']:.2f}"
        lines.append(
            f"{size['points']:>10,}{size['seconds']:>10.1f}{_times(slower):>7}{size['cpu_seconds']:>9.1f}"
            f"{size['memory_gib']:>7.2f}{gpu:>9}{_times(larger):>7}{size['f1']:>9.4f}"
        )
    return "\n".join(lines)


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}×"


def _in_own_process(points: int, device: str, seed: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "gln.bench.scale", str(points), device, str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise GLNError(f"The process for {points:,} points ended with code {done.returncode}; see above.")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(points: int, device: str, seed: int) -> dict[str, Any]:
    """Measure one size in this process."""
    from gln.evaluation.edges import edge_scores
    from gln.families.delaunay import delaunay_edges
    from gln.inference.predict import predict
    from gln.storage.models import load_model

    model = load_model(MODEL).to(device)
    pos = np.random.default_rng(seed).random((points, 2), dtype=np.float32)
    predict(model, pos[:WARM])
    start, start_cpu = time.perf_counter(), time.process_time()
    answer = predict(model, pos)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    memory, gpu = peak_memory(), None
    if device == "cuda":
        gpu = torch.cuda.max_memory_allocated() / 2**30
    truth = Data(pos=answer.pos, edge_index=delaunay_edges(answer.pos), num_nodes=points)
    f1 = edge_scores([truth], [answer])["dice"]
    return {
        "points": points,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "memory_gib": memory,
        "gpu_gib": gpu,
        "edges": answer.num_edges // 2,
        "f1": float(f1),
    }


def peak_memory() -> float:
    """The peak memory of this process, in GiB; on Linux, not that of the process that started it."""
    try:
        with open("/proc/self/status") as file:
            peak = next(line for line in file if line.startswith("VmHWM:"))
        return int(peak.split()[1]) / 2**20
    except (OSError, StopIteration):  # not Linux
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
