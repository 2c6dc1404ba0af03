"""One set in tiles by several processes: seconds per point and memory, against a set a fraction of its size."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.tiles import draw
from gln.errors import GLNError
from gln.inference.choice import Choice
from gln.io import ReadOptions
from gln.io.streams import open_stream
from gln.io.table_writers import facts_in
from gln.storage.models import load_model
from gln.workflows import tiling
from gln.workflows.engines import Engine, in_processes
from gln.workflows.predict_files import Job

MODEL = "delaunay-small"


def run(
    points: int = 1_000_000, small: int = 100_000, tile: int = 60_000, workers: int = 2, seed: int = 0
) -> dict[str, Any]:
    """Seconds, memory of all processes together, and points scored, halos included, for uniform points in the plane.

    The clock runs from the file to the edges on disk; the stages are timed apart. Memory is the largest sum of the
    resident memory of the command and its workers, looked at twice a second.

    Args:
        points: number of points.
        small: of the smaller set.
        tile: points in a tile.
        workers: processes, with a thread each.
        seed: of the points.
    """
    if min(points, small, tile) < 10_000 or workers < 1:
        raise GLNError(f"Got points={points}, small={small}, tile={tile}; expected at least 10 000 each.")
    sizes = [measure(count, tile, workers, seed) for count in (small, points)]
    settings: dict[str, Any] = {
        "model": f"{MODEL}, as shipped",
        "tile": tile,
        "workers": workers,
        "seed": seed,
    }
    settings |= {"load": [round(load, 1) for load in os.getloadavg()]}
    ratio = sizes[1]["microseconds_per_point"] / sizes[0]["microseconds_per_point"]
    return {"name": "large-set", "sizes": sizes, "per_point_ratio": ratio, "settings": settings}


def measure(count: int, tile: int, workers: int, seed: int) -> dict[str, Any]:
    stages: dict[str, float] = {}
    pool = in_processes(workers)

    def engine(work: Any, tasks: Any) -> Any:
        start = time.perf_counter()
        yield from pool(work, tasks)
        stages[work.stage] = time.perf_counter() - start

    chosen: Engine = engine
    with TemporaryDirectory(prefix="gln-") as place, Memory() as memory:
        folder = Path(place)
        np.save(folder / "points.npy", draw(2, "uniform", count, seed))
        job = Job(load_model(MODEL), [folder / "points.npy"], folder / "edges", choice=Choice())
        stream = open_stream(job.paths[0], ReadOptions(), lambda text: None)
        assert stream is not None
        start = time.perf_counter()
        outcome = tiling.predict_tiles(job, stream, chosen, tile, workers)
        seconds = time.perf_counter() - start
        shards = sorted(job.output.glob("*.parquet"))
        scored = sum(facts_in(path)["nodes"] for path in shards)
        written = sum(path.stat().st_size for path in shards)
    rest = seconds - sum(stages.values())
    return {
        "points": count,
        "tiles": len(shards),
        "seconds": seconds,
        "microseconds_per_point": 1e6 * seconds / count,
        "cutting_seconds": rest,
        "nearest_seconds": stages["near"],
        "candidates_seconds": stages["rows"],
        "scoring_seconds": stages["edges"],
        "scored_per_point": scored / count,
        "edges": outcome.edges,
        "bytes_per_point": written / count,
        "memory_gib": memory.most / 2**30,
    }


class Memory:
    """The largest resident memory of this process and all below it, while the block runs."""

    def __enter__(self) -> Memory:
        import psutil  # of bench alone

        self.most, self.over = 0, threading.Event()
        here = psutil.Process()

        def look() -> None:
            while not self.over.wait(0.5):
                total = 0
                for process in [here, *here.children(recursive=True)]:
                    try:
                        total += process.memory_info().rss
                    except psutil.Error:  # it has ended
                        continue
                self.most = max(self.most, total)

        self.thread = threading.Thread(target=look, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
