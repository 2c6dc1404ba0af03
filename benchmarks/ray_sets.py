"""Many small sets from one Parquet file: one process, and Ray with one worker and with two."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.common import timed
from gln.adapters.ray import on_ray
from gln.errors import GLNError
from gln.graphs.record import Graph
from gln.inference.predict import predict_graphs
from gln.storage.models import load_model
from gln.workflows.engines import in_this_process
from gln.workflows.predict_files import Job
from gln.workflows.shards import predict_in_folder

MODEL = "delaunay-small"


def run(sets: int = 10_000, nodes: int = 20, seed: int = 0) -> dict[str, Any]:
    """Seconds from the file to the edges in a folder; the output is the same in all rows.

    Ray is started before the clock, and its workers have loaded the model and compiled its kernels; how long that
    takes is stated. Every worker, and the one process, has one thread.

    Args:
        sets: number of sets.
        nodes: mean number of points of a set.
        seed: of the points.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    import ray
    import torch

    if sets < 256 or nodes < 4:
        raise GLNError(f"Got sets={sets}, nodes={nodes}; expected at least 256 sets of 4 nodes.")
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(nodes // 2, nodes + nodes // 2 + 1, sets)
    columns = {"set": np.repeat(np.arange(sets), sizes)}
    columns |= dict(zip("xy", rng.random((2, sizes.sum()), dtype=np.float32), strict=True))
    model = load_model(MODEL)
    rows: list[dict[str, Any]] = []
    tables: list[Any] = []
    predict_graphs(model, [Graph(pos=torch.rand(30, 2))])  # compiles the kernels
    with TemporaryDirectory(prefix="gln-") as place:
        path = Path(place) / "sets.parquet"
        pq.write_table(pa.table(columns), path)
        for name, workers in (("one process", 0), ("Ray, one worker", 1), ("Ray, two workers", 2)):
            begun = 0.0
            if workers:
                _, begun = timed(
                    lambda: ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
                )
            engine = Begun(on_ray(workers)) if workers else Begun(in_this_process)
            job = Job(model, [path], Path(place) / f"edges-{workers}")
            _, seconds = timed(partial(predict_in_folder, job, engine))
            ray.shutdown()
            tables.append(pq.read_table(job.output))
            row = {
                "engine": name,
                "seconds": seconds - engine.seconds,
                "start_seconds": begun + engine.seconds,
            }
            rows.append(row | {"same_edges": tables[-1].equals(tables[0])})
    settings = {"model": f"{MODEL}, as shipped", "sets": sets, "nodes": nodes, "seed": seed}
    return {
        "name": "ray-sets",
        "rows": rows,
        "two_workers_against_one": rows[1]["seconds"] / rows[2]["seconds"],
        "one_worker_against_one_process": rows[0]["seconds"] / rows[1]["seconds"],
        "settings": settings | {"load": [round(load, 1) for load in os.getloadavg()]},
    }


class Begun:
    """An engine whose workers answer the first window once before the clock starts."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.seconds = engine, 0.0

    def __call__(self, work: Any, tasks: Any) -> Any:
        first = next(tasks := iter(tasks))

        def all_of_them() -> Any:
            for number in range(-4, 0):  # more than there are workers
                yield number, first[1]
            yield first
            yield from tasks

        import time

        start = time.perf_counter()
        for number, result in self.engine(work, all_of_them()):
            if number >= 0:
                yield number, result
            else:
                self.seconds = time.perf_counter() - start
