"""What one set of a billion points would take on many GPUs: a simulation of the schedule, from what was measured.

Measured are the points that a GPU scores in a second, the points that a core cuts into tiles and finds the nearest
of, the bytes of edges, and how many points are scored for each one; what a disk and a network carry is assumed.
"""

from __future__ import annotations

import heapq
import json
from pathlib import Path
from typing import Any

import numpy as np

from gln.errors import GLNError

RESULTS = Path(__file__).parents[1] / "results"
# Of the shipped delaunay-small: how far the halo reaches before each step, in hops; and what a hop covers, in distances
# between points, as measured (results/bench-tiles.json).
HOPS, REACH = (12, 10, 7, 4), 3.07
BYTES_IN = 16  # of a point on disk: row and two coordinates
NEAR, PAIRS = 32 * 8, 35 * 4 + 8  # bytes of the nearest of a point, and of its candidates
START = 60.0  # seconds until a worker has loaded the model and compiled its kernels
SPREAD = 0.15  # tiles take this share of their time more or less, at random


def run(
    tile: int = 2_000_000, disk_gb: float = 5.0, hours_between_failures: float = 100.0, seed: int = 0
) -> dict[str, Any]:
    """Hours and GPU-hours for 10⁹ and 10¹¹ points in the plane, with the shipped ``delaunay-small``, on 1 to 4096 GPUs.

    Tiles are handed to whoever is free. A tile is read with its halo from a disk that all share, scored, and its edges
    are written to the same disk. A GPU fails at random: its tile is computed again, by another one. Cutting into tiles
    and finding the nearest points run before, on 16 cores beside each GPU, limited by the same disk.

    Args:
        tile: points in a tile; with their halos, three must fit into a GPU, so that it need not wait.
        disk_gb: gigabytes per second that the shared disk reads and writes.
        hours_between_failures: of a GPU, on average.
        seed: of times and failures.
    """
    if tile < 10_000 or disk_gb <= 0 or hours_between_failures <= 0:
        raise GLNError(f"Got tile={tile}, disk_gb={disk_gb}; expected a larger tile and a disk.")
    gpu = json.loads((RESULTS / "large-set-gpu.json").read_text())
    core = json.loads((RESULTS / "bench-large-set.json").read_text())["sizes"][-1]
    size, done = gpu["points"] / gpu["tiles"], gpu["tiles_scored_after_seconds"]
    # Once every process has scored a tile, and so has started; halos included.
    rate = halo(size)["scored"] * size * (len(done) - gpu["scorers"]) / (done[-1] - done[gpu["scorers"] - 1])
    before = gpu["workers"] * (gpu["nearest_seconds"] + gpu["candidates_seconds"]) / gpu["points"]
    before += core["cutting_seconds"] / core["points"]  # core-seconds per point
    rows = []
    for points in (10**9, 10**11):
        for gpus in (1, 8, 64, 512, 4096):
            found = simulate(
                points, gpus, tile, rate, core["bytes_per_point"], disk_gb * 1e9, hours_between_failures, seed
            )
            carried = points * (4 * BYTES_IN + 2 * NEAR + PAIRS) / (disk_gb * 1e9)
            binning = max(points * before / (16 * gpus), carried)
            rows.append({"points": f"{points:.0e}", "gpus": gpus, "binning_hours": binning / 3600} | found)
    settings: dict[str, Any] = {
        "tile": tile,
        "disk_gb": disk_gb,
        "hours_between_failures": hours_between_failures,
        "seed": seed,
    }
    settings |= {"points_per_gpu_second": rate, "core_seconds_per_point": before, "halo": halo(tile)}
    return {"name": "schedule", "rows": rows, "settings": settings}


def halo(tile: float) -> dict[str, float]:
    """How many points are read, and on average over the steps scored, for each point of a square tile."""
    sides = [tile**0.5 + 2 * REACH * hops for hops in HOPS]
    return {"read": sides[0] ** 2 / tile, "scored": float(np.mean(np.square(sides))) / tile}


def simulate(
    points: int, gpus: int, tile: int, rate: float, bytes_out: float, disk: float, between: float, seed: int
) -> dict[str, Any]:
    """The schedule of all tiles: a list of when each GPU is free, and when the disk is."""
    rng, share = np.random.default_rng(seed), halo(tile)
    tiles = -(-points // tile)
    usual = tile * share["scored"] / rate
    carry = tile * (share["read"] * (BYTES_IN + PAIRS) + bytes_out) / disk
    free = [(START, number) for number in range(min(gpus, tiles))]
    disk_free = busy = waited = 0.0
    lost = done = 0
    end = 0.0
    heapq.heapify(free)
    while done < tiles:
        now, number = heapq.heappop(free)
        begin = max(now, disk_free)
        disk_free = begin + carry
        waited += begin - now
        seconds = usual * rng.uniform(1 - SPREAD, 1 + SPREAD)
        if rng.random() < seconds / (3600 * between):  # it fails on the way, and starts again
            lost += 1
            heapq.heappush(free, (disk_free + seconds * rng.random() + START, number))
            continue
        done, busy, end = done + 1, busy + seconds, max(end, disk_free + seconds)
        heapq.heappush(free, (disk_free + seconds, number))
    return {
        "tiles": tiles,
        "scoring_hours": end / 3600,
        "gpu_hours": gpus * end / 3600,
        "gpus_busy": busy / (gpus * end),
        "waiting_for_the_disk": waited / (gpus * end),
        "tiles_lost": lost,
    }
