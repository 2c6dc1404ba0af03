"""One large set in tiles, against the same set at once: the same edges, and what the halos cost."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.common import in_fresh_process, peak_memory, timed
from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.inference.choice import Choice
from gln.inference.predict import predict_graphs
from gln.io import ReadOptions
from gln.io.streams import open_stream
from gln.io.writing import facts_in
from gln.models import GLN
from gln.storage.models import load_model
from gln.workflows.engines import in_processes, in_this_process
from gln.workflows.predict_files import Job
from gln.workflows.tiling import predict_tiles

DENSER = 1000  # times as many points per area in the spots as elsewhere
TOGETHER = 300  # points that coincide
CLOSE = 1e-6  # probabilities this close to the threshold may fall on either side


def run(points: int = 200_000, tile: int = 50_000, double: bool = False, seed: int = 0) -> dict[str, Any]:
    """Edges and probabilities from tiles and at once, for uniform and clustered points in two and three dimensions.

    Of clustered points, half are in spots where they are 1000 times as dense, and 300 coincide. In two dimensions the
    model is the shipped ``delaunay-small``; in three, a small one with random weights, as the shipped one would need a
    halo of everything. Each in a process of its own.

    Args:
        points: number of points.
        tile: points in a tile.
        double: compute in double precision, in which rounding does not hide a difference; probabilities are still
            written in single precision.
        seed: of the points.
    """
    if points < 10_000 or tile < 1000:
        raise GLNError(f"Got points={points}, tile={tile}; expected at least 10 000 and 1 000.")
    rows = [
        in_fresh_process(measure, axes, kind, points, tile, double, seed)
        for axes in (2, 3)
        for kind in ("uniform", "clustered")
    ]
    settings: dict[str, Any] = {"points": points, "tile": tile, "double": double, "seed": seed}
    settings |= {"threads": torch.get_num_threads(), "load": [round(load, 1) for load in os.getloadavg()]}
    return {"name": "tiles", "rows": rows, "settings": settings}


def draw(axes: int, kind: str, count: int, seed: int) -> np.ndarray:
    """Points ``[n, axes]``."""
    rng = np.random.default_rng(seed)
    points = rng.random((count, axes), dtype=np.float32)
    if kind == "clustered":
        spots = rng.random((10, axes), dtype=np.float32)
        side = (1 / (DENSER * len(spots))) ** (1 / axes)
        half = points[: count // 2]
        half[:] = spots[rng.integers(0, len(spots), len(half))] + side * half
        points[:TOGETHER] = points[0]
        rng.shuffle(points)
    return points


def model_for(axes: int) -> GLN:
    if axes == 2:
        return load_model("delaunay-small")  # type: ignore[return-value]
    torch.manual_seed(0)
    return GLN(0, 3, width=16, pair_width=8, kernels=2, steps=2, candidates=8).eval()


def measure(axes: int, kind: str, count: int, tile: int, double: bool, seed: int) -> dict[str, Any]:
    model, points = model_for(axes), draw(axes, kind, count, seed)
    model = model.double() if double else model
    predict_graphs(model, [Graph(pos=torch.from_numpy(points[:5000]))])  # compiles the kernels
    with TemporaryDirectory(prefix="gln-") as place:
        folder = Path(place)
        tiled, seconds, scored = by_tiles(model, points, tile, folder, 1)
        memory = peak_memory()
        whole, at_once = timed(lambda: edges_of(model, points))
        whole_memory = peak_memory()
    cut = Choice().cut(model)
    apart = whole.keys() ^ tiled.keys()
    close = [pair for pair in apart if abs(whole.get(pair, tiled.get(pair, 0)) - cut) <= CLOSE]
    return {
        "axes": axes,
        "kind": kind,
        "edges": len(whole),
        "edges_that_differ": len(apart) - len(close),
        "at_the_threshold": len(close),
        "largest_difference": max(abs(whole[pair] - tiled[pair]) for pair in whole.keys() & tiled.keys()),
        "scored_per_point": scored,
        "tiles_seconds": seconds,
        "whole_seconds": at_once,
        "tiles_memory_gib": memory,
        "whole_memory_gib": whole_memory,
    }


def edges_of(model: GLN, points: np.ndarray) -> dict[tuple[int, int], float]:
    """The edges of the whole set at once, with their probabilities."""
    pairs, chances = predict_graphs(model, [Graph(pos=torch.from_numpy(points))])[0].scored_once()
    return dict(zip(map(tuple, pairs.tolist()), chances.tolist(), strict=True))


def by_tiles(
    model: GLN, points: np.ndarray, tile: int, folder: Path, workers: int
) -> tuple[dict[tuple[int, int], float], float, float]:
    """The edges with their probabilities, the seconds, and how many points were scored for each."""
    import pyarrow.parquet as pq

    np.save(folder / "points.npy", points)
    job = Job(model, [folder / "points.npy"], folder / "edges")
    stream = open_stream(job.paths[0], ReadOptions(), lambda text: None)
    assert stream is not None
    engine = in_this_process if workers == 1 else in_processes(workers)
    _, seconds = timed(lambda: predict_tiles(job, stream, engine, tile, workers))
    scored = sum(facts_in(path)["nodes"] for path in sorted(job.output.glob("*.parquet")))
    table = pq.read_table(job.output)
    source, target, chance = (table.column(name).to_pylist() for name in ("source", "target", "probability"))
    return dict(zip(zip(source, target, strict=True), chance, strict=True)), seconds, scored / len(points)
